//! What clients are sent, message by message: as etcd sends it.

use super::bed::*;
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::WatchCreateRequest;
use crate::status::{INVALID_AUTH_TOKEN, NO_LEADER};
use crate::watch::{Settings, FRAGMENT_BYTES, WATCHES_A_STREAM_MAX};
use bytes::Bytes;
use prost::Message as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Revocation takes 2 s in all, one of which passes until a node hears of it.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
pub async fn watch_from_now_gets_later_changes_only() {
    let bed = Bed::new();
    bed.put("a", "0").await;
    let mut client = bed.client();
    let created = client.created(on("a")).await;
    assert_eq!((created.watch_id, revision_of(&created), created.canceled), (0, 2, false));
    bed.put("b", "1").await;
    bed.commit(vec![put("a", "2"), put("c", "2")]).await;
    let first = client.next().await;
    assert_eq!((shown(&first).as_str(), revision_of(&first)), ("4 a=2", 4));
    bed.commit(vec![delete("a")]).await;
    let second = client.next().await;
    assert_eq!((shown(&second).as_str(), revision_of(&second)), ("5 -a", 5));
}

#[tokio::test(start_paused = true)]
pub async fn watch_from_now_waits_for_a_lagging_replica() {
    let bed = Bed::new();
    bed.put("a", "1").await;
    bed.store.lag_at.store(2, Relaxed);
    bed.put("a", "2").await;
    let mut client = bed.client();
    assert_eq!(revision_of(&client.created(on("a")).await), 3);
    bed.put("a", "3").await;
    assert_eq!(client.soon().await, None, "the replica has not applied it");
    bed.store.lag_at.store(0, Relaxed);
    assert_eq!(shown(&client.next().await), "4 a=3");
}

#[tokio::test(start_paused = true)]
pub async fn events_of_one_revision_come_in_one_message() {
    let bed = Bed::new();
    bed.store.page_max.store(3, Relaxed);
    let mut client = bed.client();
    client.created(on_range("k", "l")).await;
    let keys: Vec<_> = (0..50).map(|at| format!("k{at:02}")).collect();
    bed.commit(keys.iter().map(|key| put(key, "1")).collect()).await;
    assert_eq!(client.next().await.events.len(), 50);
    // The same from history.
    let mut other = bed.client();
    other.created(WatchCreateRequest { start_revision: 2, ..on_range("k", "l") }).await;
    assert_eq!(other.next().await.events.len(), 50);
}

#[tokio::test(start_paused = true)]
pub async fn filters_and_previous_values_are_the_watchs_own() {
    let bed = Bed::new();
    bed.put("a", "0").await;
    let mut client = bed.client();
    let filtered = |filter: FilterType| WatchCreateRequest { filters: vec![filter as i32], ..on("a") };
    client.created(filtered(FilterType::Noput)).await;
    client.created(filtered(FilterType::Nodelete)).await;
    assert_eq!(bed.store.with_before.load(Relaxed), 0, "nobody wants former values yet");
    client.created(WatchCreateRequest { prev_kv: true, ..on("a") }).await;
    bed.put("a", "1").await;
    bed.commit(vec![delete("a")]).await;
    let mut seen = [const { Vec::new() }; 3];
    while let Some(message) = client.soon().await {
        seen[message.watch_id as usize].push(shown(&message));
    }
    assert_eq!(seen[0].join("; "), "4 -a");
    assert_eq!(seen[1].join("; "), "3 a=1");
    assert_eq!(seen[2].join(", "), "3 a=1 (was 0), 4 -a (was 1)");
}

#[tokio::test(start_paused = true)]
pub async fn ids_are_drawn_or_chosen_and_duplicates_refused() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(client.created(WatchCreateRequest { watch_id: 1, ..on("a") }).await.watch_id, 1);
    let ids = [client.created(on("a")).await.watch_id, client.created(on("a")).await.watch_id];
    assert_eq!(ids, [0, 2]);
    let twice = client.created(WatchCreateRequest { watch_id: 2, ..on("a") }).await;
    assert_eq!((twice.watch_id, twice.canceled), (-1, true));
    assert_eq!(twice.cancel_reason, "mvcc: duplicate watch ID provided on the WatchStream");
    client.cancel(2);
    client.cancel(77);
    let cancelled = client.next().await;
    assert!(cancelled.watch_id == 2 && cancelled.canceled && !cancelled.created, "{cancelled:?}");
    assert_eq!(client.created(WatchCreateRequest { watch_id: 2, ..on("a") }).await.watch_id, 2);
    assert_eq!(bed.hubs.figures().watchers, 3);
}

#[tokio::test(start_paused = true)]
pub async fn requests_in_a_row_are_answered_in_order() {
    let bed = Bed::new();
    let mut client = bed.client();
    (1..=100).for_each(|watch_id| client.create(WatchCreateRequest { watch_id, ..on("a") }));
    client.cancel(100);
    for watch_id in 1..=100 {
        let answer = client.next().await;
        assert!(answer.created && answer.watch_id == watch_id, "{answer:?}");
    }
    assert!(client.next().await.canceled);
}

#[tokio::test(start_paused = true)]
pub async fn wrong_requests_are_answered_and_the_stream_goes_on() {
    let bed = Bed::new();
    let mut client = bed.client();
    let empty = client.created(on_range("b", "a")).await;
    assert_eq!(
        (empty.watch_id, empty.canceled, empty.cancel_reason.as_str()),
        (-1, true, "mvcc: watcher range is empty")
    );
    let negative = client.created(WatchCreateRequest { start_revision: -1, ..on("a") }).await;
    assert_eq!(negative.cancel_reason, "etcdserver: mvcc: required revision has been compacted");
    let all = WatchCreateRequest { key: Bytes::new(), range_end: Bytes::from_static(&[0]), ..on("") };
    assert!(!client.created(all).await.canceled);
    bed.put("x", "1").await;
    assert_eq!(shown(&client.next().await), "2 x=1");
}

#[tokio::test(start_paused = true)]
pub async fn start_below_what_was_compacted_is_created_and_cancelled() {
    let bed = Bed::new();
    for value in ["1", "2", "3", "4"] {
        bed.put("a", value).await;
    }
    bed.compact(4).await;
    let mut client = bed.client();
    let created = client.created(WatchCreateRequest { start_revision: 3, ..on("a") }).await;
    assert!(!created.canceled && created.watch_id == 0);
    let ended = client.next().await;
    assert!(ended.canceled && ended.watch_id == 0 && ended.cancel_reason.is_empty(), "{ended:?}");
    // What it says can be watched: the compacted revision itself, as with etcd.
    assert_eq!(ended.compact_revision, 4);
    client.created(WatchCreateRequest { start_revision: ended.compact_revision, ..on("a") }).await;
    assert_eq!(shown(&client.next().await), "4 a=3, 5 a=4");
}

#[tokio::test(start_paused = true)]
pub async fn start_in_the_future_skips_what_comes_before() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.created(WatchCreateRequest { start_revision: 4, ..on("a") }).await;
    client.ask_progress();
    bed.put("a", "2").await;
    assert_eq!(client.soon().await, None, "progress would have the client resume before its start");
    bed.put("a", "3").await;
    let progress = client.next().await;
    assert_eq!((progress.watch_id, revision_of(&progress)), (-1, 3), "what is next is its start");
    bed.put("a", "4").await;
    assert_eq!(shown(&client.next().await), "4 a=4");
}

#[tokio::test(start_paused = true)]
pub async fn progress_covers_all_watches_and_all_sent_before() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.ask_progress();
    assert_eq!(client.soon().await, None, "without a watch there is no progress");
    client.created(on("a")).await;
    client.created(on("b")).await;
    for value in ["1", "2", "3"] {
        bed.put("a", value).await;
        bed.put("c", value).await;
    }
    client.ask_progress();
    let mut revisions = Vec::new();
    loop {
        let message = client.next().await;
        if message.events.is_empty() {
            assert_eq!((message.watch_id, message.created, message.canceled), (-1, false, false));
            revisions.push(revision_of(&message));
            break;
        }
        revisions.extend(message.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision));
    }
    let progress = revisions.pop().unwrap();
    let missing = [2, 4, 6].into_iter().filter(|revision| *revision <= progress && !revisions.contains(revision));
    assert_eq!(missing.count(), 0, "{revisions:?} before {progress}");
}

#[tokio::test(start_paused = true)]
pub async fn progress_by_the_clock_goes_to_quiet_watches_that_want_it() {
    let bed = Bed::with(Settings { progress_every: Duration::from_secs(60), ..Settings::default() });
    let mut client = bed.client();
    client.created(WatchCreateRequest { progress_notify: true, ..on("a") }).await;
    client.created(WatchCreateRequest { progress_notify: true, ..on("b") }).await;
    client.created(on("c")).await;
    bed.put("b", "1").await;
    assert_eq!(shown(&client.next().await), "2 b=1");
    let progress = client.next().await;
    assert_eq!((progress.watch_id, progress.events.len(), revision_of(&progress)), (0, 0, 2));
    assert_eq!(client.soon().await, None, "the others were lively, or do not want it");
}

#[tokio::test(start_paused = true)]
pub async fn fragments_hold_no_more_than_asked_and_all_events() {
    let bed = Bed::new();
    let mut client = bed.client();
    let range = on_range("k", "l");
    client.created(WatchCreateRequest { fragment: true, watch_id: 1, ..range.clone() }).await;
    client.created(WatchCreateRequest { watch_id: 2, ..range }).await;
    let value = "x".repeat(700 << 10);
    let keys: Vec<_> = (0..5).map(|at| format!("k{at}")).collect();
    bed.commit(keys.iter().map(|key| put(key, &value)).collect()).await;
    let (mut counts, mut parts, mut last) = ([0, 0], 0, true);
    while let Some(message) = client.soon().await {
        let at = usize::from(message.watch_id == 2);
        counts[at] += message.events.len();
        if at == 0 {
            assert!(message.encoded_len() <= FRAGMENT_BYTES, "{}", message.encoded_len());
            (parts, last) = (parts + 1, message.fragment);
        } else {
            assert_eq!((message.events.len(), message.fragment), (5, false));
        }
    }
    assert_eq!((counts, parts, last), ([5, 5], 3, false), "the last part says that it is the last");
}

#[tokio::test(start_paused = true)]
pub async fn sessions_without_the_right_are_refused_and_later_ended() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.created(on("a")).await;
    bed.store.denied.store(true, Relaxed);
    let text = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    let refused = client.created(on("b")).await;
    assert_eq!((refused.watch_id, refused.canceled, refused.cancel_reason.as_str()), (-1, true, text));
    let since = tokio::time::Instant::now();
    let ended = client.next().await;
    assert_eq!((ended.watch_id, ended.canceled, ended.cancel_reason.as_str()), (0, true, text));
    assert_eq!(bed.hubs.figures().watchers, 0);
    assert!(since.elapsed() <= LOOKED_AT_WITHIN);
}

/// A stream lives longer than the token that opened it.
#[tokio::test(start_paused = true)]
async fn watches_end_with_their_credential() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.created(on("a")).await;
    bed.store.ended.store(true, Relaxed);
    let since = tokio::time::Instant::now();
    let ended = client.next().await;
    let text = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    assert_eq!((ended.watch_id, ended.canceled, ended.cancel_reason.as_str()), (0, true, text));
    assert!(since.elapsed() <= LOOKED_AT_WITHIN);
    bed.put("a", "late").await;
    assert_eq!(bed.hubs.figures().watchers, 0);
}

#[tokio::test(start_paused = true)]
pub async fn streams_without_a_session_answer_each_watch() {
    let bed = Bed::new();
    let mut client = bed.client_as(Err(INVALID_AUTH_TOKEN.into()), true);
    let refused = client.created(on("a")).await;
    assert_eq!(refused.cancel_reason, "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
}

#[tokio::test(start_paused = true)]
pub async fn streams_that_require_a_leader_end_without_one() {
    let bed = Bed::new();
    let (mut strict, mut plain) = (bed.client_as(Ok(session()), true), bed.client());
    strict.created(on("a")).await;
    plain.created(on("a")).await;
    bed.store.leaderless.store(true, Relaxed);
    let status = strict.next_or_end().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (NO_LEADER.code, NO_LEADER.text));
    let status = bed.client_as(Ok(session()), true).next_or_end().await.unwrap_err();
    assert_eq!(status.message(), NO_LEADER.text);
    // The other continues, by what a replica knows.
    bed.put("a", "1").await;
    assert_eq!(shown(&plain.next().await), "2 a=1");
}

#[tokio::test(start_paused = true)]
pub async fn streams_have_room_for_so_many_watches() {
    let bed = Bed::new();
    let mut client = bed.client();
    for _ in 0..WATCHES_A_STREAM_MAX {
        client.create(on("a"));
        assert!(!client.next().await.canceled);
    }
    let refused = client.created(on("a")).await;
    assert_eq!(refused.cancel_reason, "rpc error: code = ResourceExhausted desc = etcdserver: too many requests");
}
