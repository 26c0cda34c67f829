//! Watch messages: what clients ask for, what they are sent.
//!
//! Always: texts of cancellations are etcd's where etcd has one, as its Go server writes them, since clients read them.
//! Not here: the order of messages (`stream.rs`).

use super::board::Ended;
use super::revision::{Batch, Wanted};
use crate::kv::rows::pair_of;
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchResponse};
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::revision;
use crate::store::Place;
use base_types::versioned::{Change, Span};
use bytes::Bytes;
use prost::Message as _;
use tonic::Status;

/// The watch id of messages that are about no watch, or about all.
pub(super) const NO_WATCH: i64 = -1;
pub(super) const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
pub(super) const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
const GONE: &str = "hive: the namespace was deleted";

/// A watch as its client asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub wanted: Wanted,
    /// Events begin at this revision; 0: at what is next.
    pub start: i64,
    pub id: i64,
    pub progress: bool,
    pub fragment: bool,
}

/// What a request asks for, or why it cannot be watched.
pub(super) fn asked(request: WatchCreateRequest) -> Result<Asked, String> {
    let WatchCreateRequest { key, range_end, start_revision, progress_notify, filters, prev_kv, watch_id, fragment } =
        request;
    if start_revision < 0 {
        return Err(crate::status::COMPACTED.text.into());
    }
    let key = if key.is_empty() { Bytes::from_static(&[0]) } else { key };
    let span = match &range_end[..] {
        [] => Span::One { key },
        [0] => Span::From { start: key },
        end if &key[..] >= end => return Err(EMPTY_RANGE.into()),
        _ => Span::Range { start: key, end: range_end },
    };
    let without = |filter: FilterType| filters.contains(&(filter as i32));
    let (puts, deletes) = (!without(FilterType::Noput), !without(FilterType::Nodelete));
    let wanted = Wanted { span, puts, deletes, before: prev_kv };
    Ok(Asked { wanted, start: start_revision, id: watch_id, progress: progress_notify, fragment })
}

/// A status as a reason: the text of Go's gRPC errors.
pub(super) fn reason(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

/// A header that says how far its watch has come: clients resume from it, so it is never ahead of what was sent.
pub(super) fn header(place: Place, stamp: u64) -> ResponseHeader {
    let Place { cluster, member, term, .. } = place;
    ResponseHeader { cluster_id: cluster, member_id: member, revision: revision::of_stamp(stamp), raft_term: term }
}

pub(super) fn created(place: Place, stamp: u64, watch_id: i64) -> WatchResponse {
    WatchResponse { header: Some(header(place, stamp)), watch_id, created: true, ..WatchResponse::default() }
}

/// A watch that was not begun. It has no id.
pub(super) fn not_created(place: Place, stamp: u64, cancel_reason: String) -> WatchResponse {
    WatchResponse { canceled: true, cancel_reason, ..created(place, stamp, NO_WATCH) }
}

pub(super) fn progress(place: Place, stamp: u64, watch_id: i64) -> WatchResponse {
    WatchResponse { header: Some(header(place, stamp)), watch_id, ..WatchResponse::default() }
}

pub(super) fn cancelled(place: Place, stamp: u64, watch_id: i64, cancel_reason: String) -> WatchResponse {
    WatchResponse { canceled: true, cancel_reason, ..progress(place, stamp, watch_id) }
}

pub(super) fn ended(place: Place, stamp: u64, watch_id: i64, why: &Ended) -> WatchResponse {
    match why {
        Ended::Compacted(first) => WatchResponse {
            compact_revision: revision::of_stamp(*first),
            ..cancelled(place, stamp, watch_id, String::new())
        },
        Ended::Gone => cancelled(place, stamp, watch_id, GONE.into()),
    }
}

/// Events, in one message; with `fragment_bytes` in several, where one would have more.
pub(super) fn events(
    place: Place,
    watch_id: i64,
    before: bool,
    batch: &Batch,
    fragment_bytes: Option<usize>,
) -> Vec<WatchResponse> {
    let head = progress(place, batch.up_to, watch_id);
    let events = batch.changes().map(|change| event(change, before));
    let Some(most) = fragment_bytes else {
        return vec![WatchResponse { events: events.collect(), ..head }];
    };
    let (mut parts, mut bytes) = (vec![head.clone()], head.encoded_len());
    for event in events {
        let size = event.encoded_len() + 8; // Its tag and length.
        if let Some(last) = parts.last_mut() {
            if last.events.is_empty() || bytes + size <= most {
                last.events.push(event);
                bytes += size;
                continue;
            }
            last.fragment = true;
        }
        bytes = head.encoded_len() + size;
        parts.push(WatchResponse { events: vec![event], ..head.clone() });
    }
    parts
}

fn event(change: &Change, before: bool) -> Event {
    let (kind, kv) = match &change.after {
        Some(row) => (EventType::Put, pair_of(change.key.clone(), row.clone())),
        None => {
            let mod_revision = revision::of_stamp(change.at.stamp);
            (EventType::Delete, KeyValue { key: change.key.clone(), mod_revision, ..KeyValue::default() })
        }
    };
    let prev_kv = change.before.as_ref().filter(|_| before).map(|row| pair_of(change.key.clone(), row.clone()));
    Event { r#type: kind as i32, kv: Some(kv), prev_kv }
}
