//! JSON.

use super::*;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{json, Value};

async fn send(bed: &Bed, request: Request<Full<Bytes>>) -> (StatusCode, String) {
    let response = bed.connection().answer(request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn post(bed: &Bed, path: &str, body: &str) -> (StatusCode, Value) {
    let request = Request::post(path).body(Full::new(bytes(body))).unwrap();
    let (status, text) = send(bed, request).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

#[tokio::test]
async fn requests_of_the_guide_of_etcd() {
    let bed = Bed::new();
    let (status, put) = post(&bed, "/v3/kv/put", r#"{"key": "Zm9v", "value": "YmFy"}"#).await;
    let header = json!({"cluster_id": "7", "member_id": "1", "revision": "2", "raft_term": "3"});
    assert_eq!((status, put), (StatusCode::OK, json!({ "header": header })));
    let (_, range) = post(&bed, "/v3/kv/range", r#"{"key": "Zm9v"}"#).await;
    let kv = json!({"key": "Zm9v", "create_revision": "2", "mod_revision": "2", "version": "1", "value": "YmFy"});
    assert_eq!(range, json!({"header": header, "kvs": [kv], "count": "1"}));
    // Numbers may be texts or numbers, names those of the file or of JSON; what is not known is passed over.
    let (_, range) =
        post(&bed, "/v3/kv/range", r#"{"key":"AA==","rangeEnd":"AA==","limit":"1","revision":2,"new_option":1}"#).await;
    assert_eq!(range["count"], "1");
    let txn = r#"{"compare":[{"result":"EQUAL","target":"CREATE","key":"Zm9v","createRevision":"2"}],
                  "success":[{"requestPut":{"key":"Zm9v","value":"YmF6"}}]}"#;
    let (_, txn) = post(&bed, "/v3/kv/txn", txn).await;
    assert_eq!(txn["succeeded"], true);
    assert_eq!(txn["responses"][0]["response_put"]["header"]["revision"], "3");
    let (_, granted) = post(&bed, "/v3/lease/grant", r#"{"TTL": 60, "ID": "9"}"#).await;
    assert_eq!((&granted["ID"], &granted["TTL"]), (&json!("9"), &json!("60")));
    let (_, kept) = post(&bed, "/v3/lease/keepalive", r#"{"ID": 9}"#).await;
    assert_eq!(kept["result"]["TTL"], "60");
    let (_, leases) = post(&bed, "/v3/kv/lease/leases", "").await;
    assert_eq!(leases["leases"], json!([{"ID": "9"}]));
    let (_, members) = post(&bed, "/v3/cluster/member/list", "{}").await;
    assert_eq!(members["members"][0]["clientURLs"], json!(["http://127.0.0.1:2379"]));
    let (_, maintenance) = post(&bed, "/v3/maintenance/status", "{}").await;
    assert_eq!(maintenance["version"], "3.6.0");
}

#[tokio::test]
async fn errors_are_those_of_grpc_gateway() {
    let bed = Bed::new();
    let (status, body) = post(&bed, "/v3/kv/put", "{}").await;
    let text = "etcdserver: key is not provided";
    assert_eq!((status, body), (StatusCode::BAD_REQUEST, json!({"error": text, "code": 3, "message": text})));
    for body in ["{", "[]", "7", r#"{"key": 5}"#, r#"{"key": "not base64!"}"#, "{} {}", "{\"limit\": \"x\"}"] {
        let (status, answer) = post(&bed, "/v3/kv/range", body).await;
        assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!(3)), "{body}: {answer}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&bed, "/v3/kv/range", &deep).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(post(&bed, "/v3/kv/nothing", "{}").await.0, StatusCode::NOT_FOUND);
    let get = Request::get("/v3/kv/range").body(Full::default()).unwrap();
    assert_eq!(send(&bed, get).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let (status, body) = post(&bed, "/v3/kv/compaction", r#"{"revision": 7}"#).await;
    assert_eq!((status, &body["code"]), (StatusCode::BAD_REQUEST, &json!(11)));
    let large = format!(r#"{{"key":"{}"}}"#, "A".repeat(9_000_000));
    assert_eq!(post(&bed, "/v3/kv/put", &large).await.1["message"], "etcdserver: request is too large");
    bed.store.refuse_next(base_types::ErrorCode::NoLeader);
    assert_eq!(post(&bed, "/v3/kv/range", r#"{"key":"AA=="}"#).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn tokens_and_pages_of_other_sites() {
    let bed = Bed::with(MemoryStore::new(true), Limits::default());
    let range = || Request::post("/v3/kv/range");
    let body = || Full::new(bytes(r#"{"key":"AA=="}"#));
    assert_eq!(send(&bed, range().body(body()).unwrap()).await.0, StatusCode::BAD_REQUEST);
    let wrong = range().header("authorization", "wrong").body(body()).unwrap();
    assert_eq!(send(&bed, wrong).await.0, StatusCode::UNAUTHORIZED);
    let (_, token) = post(&bed, "/v3/auth/authenticate", r#"{"name":"root","password":"root"}"#).await;
    let token = token["token"].as_str().unwrap();
    assert_eq!(send(&bed, range().header("authorization", token).body(body()).unwrap()).await.0, StatusCode::OK);
    let mut certificate = range().body(body()).unwrap();
    certificate.extensions_mut().insert(door_etcd::CertificateUser("root".into()));
    assert_eq!(send(&bed, certificate).await.0, StatusCode::OK);
}

#[tokio::test]
async fn health_and_version() {
    let bed = Bed::new();
    let get = |path: &str| Request::get(path).body(Full::default()).unwrap();
    let (status, health) = send(&bed, get("/health")).await;
    assert_eq!((status, &health[..]), (StatusCode::OK, r#"{"health":"true","reason":""}"#));
    let (_, version) = send(&bed, get("/version")).await;
    assert_eq!(version, r#"{"etcdcluster":"3.6.0","etcdserver":"3.6.0","storage":"3.6.0"}"#);
    assert_eq!(send(&bed, get("/metrics")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn watch_is_a_line_for_each_message() {
    let bed = Bed::new();
    bed.put("foo", "1").await;
    let request = r#"{"create_request": {"key": "Zm9v", "start_revision": "2"}}"#;
    let request = Request::post("/v3/watch").body(Full::new(bytes(request))).unwrap();
    let mut body = bed.connection().answer(request).await.into_body();
    let mut next = async || {
        let line = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(line.ends_with(b"\n"));
        serde_json::from_slice::<Value>(&line).unwrap()["result"].take()
    };
    assert_eq!(next().await["created"], true);
    assert_eq!(next().await["events"][0]["kv"]["value"], "MQ==");
    bed.put("foo", "2").await;
    let event = next().await["events"][0].take();
    assert_eq!((&event["kv"]["mod_revision"], event.get("type")), (&json!("3"), None));
    bed.kv().delete_range(pb::DeleteRangeRequest { key: bytes("foo"), ..Default::default() }).await.unwrap();
    assert_eq!(next().await["events"][0]["type"], "DELETE");
}
