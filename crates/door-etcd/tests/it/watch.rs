//! Watches through a generated client and through JSON.

use super::*;
use http::Request;
use http_body_util::{BodyExt, Full};
use pb::watch_client::WatchClient;
use pb::watch_request::RequestUnion;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn watches_through_a_generated_client() {
    let bed = Bed::new();
    bed.put("a", "0").await;
    let create = pb::WatchCreateRequest { key: bytes("a"), prev_kv: true, ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    // Its client sends nothing more; the watch continues.
    let requests = futures::stream::iter([request]);
    let mut messages = WatchClient::new(bed.connection()).watch(requests).await.unwrap().into_inner();
    let created = tokio::time::timeout(PATIENCE, messages.message()).await.unwrap().unwrap().unwrap();
    assert!(created.created && created.header.unwrap().revision == 2, "{created:?}");
    bed.put("a", "1").await;
    let message = tokio::time::timeout(PATIENCE, messages.message()).await.unwrap().unwrap().unwrap();
    let event = &message.events[0];
    let (kv, before) = (event.kv.clone().unwrap(), event.prev_kv.clone().unwrap());
    assert_eq!((&kv.value[..], &before.value[..], kv.mod_revision), (&b"1"[..], &b"0"[..], 3));
    assert_eq!(bed.service.watch_figures().watchers, 1);
    drop(messages);
    let gone = async {
        while bed.service.watch_figures().watchers > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("a client that is gone leaves a watch");
}

#[tokio::test]
async fn watches_through_json() {
    let bed = Bed::new();
    let request = Request::post("/v3/watch").body(Full::new(bytes(r#"{"create_request": {"key": "Zm9v"}}"#))).unwrap();
    let mut body = bed.connection().answer(request).await.into_body();
    let mut lines = String::new();
    for wanted in 1..=2 {
        while lines.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count() < wanted {
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
            lines.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
        if wanted == 1 {
            bed.put("foo", "bar").await;
        }
    }
    let messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages[0]["result"]["created"], true);
    assert_eq!(messages[1]["result"]["events"][0]["kv"]["value"], "YmFy");
}
