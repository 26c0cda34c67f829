//! Ways in to core-placement: rule text, node records, deltas of the node map, elections over them.

use super::codec::round_trip;
use base_types::{NodeId, Tick};
use bytes::Bytes;
use core_placement::{elect, elect_replacement, Labels, MapDelta, NodeMap, NodeRecord, Rule};
use std::time::Duration;

/// A text as a rule: what is taken is written so that it reads the same.
pub fn rule_text(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match text.parse::<Rule>() {
        Ok(rule) => assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A node's record, and its labels alone.
pub fn node_record(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    round_trip::<NodeRecord>(&bytes);
    if let Some(labels) = round_trip::<Labels>(&bytes) {
        let _ = labels.check();
    }
}

/// A delta, taken by a map twice and by an authority, and elections over what the map then holds.
pub fn map_delta(data: &[u8]) {
    let Some(mut delta) = round_trip::<MapDelta>(&Bytes::copy_from_slice(data)) else { return };
    let now = Tick(1_000_000);
    let mut map = NodeMap::new();
    map.apply_delta(now, &delta);
    delta.since = map.next_wanted();
    map.apply_delta(now, &delta);
    map.apply_delta(now, &delta);
    let records: Vec<NodeRecord> = map.records().cloned().collect();
    for text in ["size=3", "size=5 failure_domain=region", "size=2 location=fr-par engine=lmdb"] {
        let rule: Rule = text.parse().expect("a rule of ours");
        if let Ok(elected) = elect(&rule, &records, &[]) {
            assert_eq!(elected.len(), rule.size);
        }
        let members: Vec<NodeId> = records.iter().take(rule.size).map(|record| record.node).collect();
        let _ = elect_replacement(&rule, &members, members.first().copied().unwrap_or(NodeId(0)), &records, 7);
        let _ = core_placement::check(&rule, &members, &records);
    }
    let _ = (map.delta_since(now, delta.until, 10), map.refresh(now, Duration::from_secs(1)));
    map.become_authority(now, delta.until.epoch, &records);
    for record in &records {
        let _ = map.note_heartbeat(now, record);
    }
    map.apply_delta(now, &delta);
}
