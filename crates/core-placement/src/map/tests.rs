use super::*;
use alloc::format;

const SECOND: u64 = 1_000;

fn at(ms: u64) -> Tick {
    Tick::from_millis(ms)
}

fn node(id: u64) -> NodeRecord {
    NodeRecord {
        node: NodeId(id),
        disk: base_types::DiskId(id * 10),
        peer_address: format!("10.0.0.{id}:7600"),
        up: true,
        ..NodeRecord::default()
    }
}

fn sync(authority: &NodeMap, copy: &mut NodeMap, now: Tick, limit: usize) -> (Vec<MapChange>, usize) {
    let mut changes = Vec::new();
    for page in 1..100 {
        let delta = authority.delta_since(now, copy.next_wanted(), limit);
        let delta = MapDelta::from_bytes(delta.to_bytes()).unwrap();
        changes.extend(copy.apply_delta(now, &delta));
        if !delta.more {
            assert_eq!(copy.version(), authority.version());
            assert!(copy.records().eq(authority.records()), "{copy:?} {authority:?}");
            return (changes, page);
        }
    }
    panic!("the copy never ends");
}

#[test]
fn heartbeats_move_nodes_up_and_down() {
    let mut map = NodeMap::new();
    map.become_authority(at(0), 1, &[]);
    assert_eq!(map.note_heartbeat(at(0), &node(1)), Ok(Some(MapChange::Joined(NodeId(1)))));
    assert_eq!(map.note_heartbeat(at(10), &node(1)), Ok(None));
    assert_eq!(map.refresh(at(4 * SECOND), Duration::from_secs(4)), []);
    assert_eq!(map.refresh(at(4 * SECOND + 10), Duration::from_secs(4)), [MapChange::Down(NodeId(1))]);
    assert_eq!(map.refresh(at(9 * SECOND), Duration::from_secs(4)), []);
    assert!(!map.get(NodeId(1)).unwrap().up);
    assert_eq!(map.note_heartbeat(at(9 * SECOND), &node(1)), Ok(Some(MapChange::Up(NodeId(1)))));
}

#[test]
fn another_disk_is_a_lost_one_or_a_double() {
    let mut map = NodeMap::new();
    map.become_authority(at(0), 1, &[]);
    map.note_heartbeat(at(0), &node(1)).unwrap();
    let mut blank = node(1);
    blank.disk = base_types::DiskId(77);
    assert_eq!(
        map.note_heartbeat(at(1), &blank),
        Ok(Some(MapChange::DiskLost(NodeId(1)))),
        "same address: it is the same machine"
    );
    let mut double = node(1);
    double.peer_address = "10.9.9.9:1".into();
    assert!(matches!(map.note_heartbeat(at(2), &double), Err(MapError::Duplicate { .. })));
    map.refresh(at(60 * SECOND), Duration::from_secs(4));
    assert_eq!(map.note_heartbeat(at(60 * SECOND), &double), Ok(Some(MapChange::DiskLost(NodeId(1)))));
}

#[test]
fn small_reports_wait_and_large_ones_do_not() {
    let mut map = NodeMap::new();
    map.become_authority(at(0), 1, &[]);
    let mut record = node(1);
    record.clusters = 2;
    map.note_heartbeat(at(0), &record).unwrap();
    let published = map.version();
    record.score = 10;
    record.clusters = 3;
    assert_eq!(map.note_heartbeat(at(SECOND), &record), Ok(None));
    record.score = 20;
    assert_eq!(map.note_heartbeat(at(2 * SECOND), &record), Ok(None));
    assert_eq!((map.version(), map.get(NodeId(1)).unwrap().clusters), (published, 3));
    record.score = 30;
    assert_eq!(
        map.note_heartbeat(at(3 * SECOND), &record),
        Ok(Some(MapChange::Report(NodeId(1)))),
        "small steps add up"
    );
    record.score = 31;
    assert_eq!(map.note_heartbeat(at(4 * SECOND), &record), Ok(None));
    assert_eq!(map.note_heartbeat(at(14 * SECOND), &record), Ok(Some(MapChange::Report(NodeId(1)))));
    record.clusters = 0;
    let told = map.note_heartbeat(at(15 * SECOND), &record);
    assert_eq!(told, Ok(Some(MapChange::Report(NodeId(1)))), "that it is empty now is waited for");
}

#[test]
fn copies_follow_in_pages_over_epochs_and_forget() {
    let mut authority = NodeMap::new();
    authority.become_authority(at(0), 7, &[]);
    for id in 1..=25 {
        authority.note_heartbeat(at(0), &node(id)).unwrap();
    }
    let mut copy = NodeMap::new();
    let (changes, pages) = sync(&authority, &mut copy, at(1), 10);
    assert_eq!((changes.len(), pages), (25, 3));
    assert_eq!(sync(&authority, &mut copy, at(2), 10), (Vec::new(), 1));
    let mut hot = node(3);
    hot.score = 500;
    authority.note_heartbeat(at(3), &hot).unwrap();
    authority.forget(NodeId(9));
    let (changes, _) = sync(&authority, &mut copy, at(4), 10);
    assert_eq!(changes, [MapChange::Report(NodeId(3)), MapChange::Forgotten(NodeId(9))]);
    // Another leader, which knows one node less and one more; its copy is taken over in pages.
    let replicated: Vec<NodeRecord> = (1..=26).filter(|id| ![4, 9].contains(id)).map(node).collect();
    let mut next = NodeMap::new();
    next.become_authority(at(5), 8, &replicated);
    let delta = next.delta_since(at(5), copy.next_wanted(), 10);
    assert!(delta.restart && delta.more);
    copy.apply_delta(at(5), &delta);
    assert_eq!(copy.len(), 24, "nothing is dropped before the last page");
    assert_eq!(copy.apply_delta(at(5), &delta), [], "sent twice");
    let (changes, _) = sync(&next, &mut copy, at(6), 10);
    assert!(
        changes.contains(&MapChange::Forgotten(NodeId(4))) && changes.contains(&MapChange::Joined(NodeId(26))),
        "{changes:?}"
    );
}

#[test]
fn an_authority_yields_only_to_a_later_epoch() {
    let mut old = NodeMap::new();
    old.become_authority(at(0), 7, &[node(1)]);
    let mut new = NodeMap::new();
    new.become_authority(at(0), 8, &[node(1), node(2)]);
    assert_eq!(new.apply_delta(at(1), &old.delta_since(at(1), new.next_wanted(), 10)), []);
    assert_eq!(new.len(), 2);
    sync(&new, &mut old, at(2), 10);
}

#[test]
fn many_forgotten_nodes_cost_a_full_copy() {
    let mut authority = NodeMap::new();
    authority.become_authority(at(0), 1, &[node(1), node(2)]);
    let mut copy = NodeMap::new();
    sync(&authority, &mut copy, at(0), 10);
    authority.forget(NodeId(2));
    for id in 100..100 + MAP_FORGOTTEN_MAX as u64 {
        authority.note_heartbeat(at(0), &node(id)).unwrap();
        authority.forget(NodeId(id));
    }
    let (changes, _) = sync(&authority, &mut copy, at(1), 10);
    assert_eq!(changes, [MapChange::Forgotten(NodeId(2))]);
}

#[test]
fn any_bytes_are_a_delta_or_an_error() {
    let mut authority = NodeMap::new();
    authority.become_authority(at(0), 1, &[node(1), node(2)]);
    let good = authority.delta_since(at(0), MapVersion::default(), 10).to_bytes();
    for cut in 0..good.len() {
        assert!(MapDelta::from_bytes(good.slice(..cut)).is_err());
        for bit in 0..8 {
            let mut bytes = good.to_vec();
            bytes[cut] ^= 1 << bit;
            let _ = MapDelta::from_bytes(bytes.into());
        }
    }
}

#[test]
fn draining_is_the_authoritys_word_and_reaches_every_copy() {
    let (mut map, mut copy) = (NodeMap::new(), NodeMap::new());
    map.become_authority(at(0), 1, &[node(1), node(2)]);
    sync(&map, &mut copy, at(0), 10);
    assert_eq!(map.set_draining(at(1), &BTreeSet::from([NodeId(2)])), [MapChange::Facts(NodeId(2))]);
    assert!(map.set_draining(at(1), &BTreeSet::from([NodeId(2)])).is_empty());
    assert_eq!(sync(&map, &mut copy, at(2), 10).0, [MapChange::Facts(NodeId(2))]);
    assert!(copy.get(NodeId(2)).unwrap().draining);
    // The node does not know it of itself.
    assert_eq!(map.note_heartbeat(at(3), &node(2)), Ok(None));
    assert!(map.get(NodeId(2)).unwrap().draining);
    // What is replicated wins over what an earlier copy held.
    copy.become_authority(at(4), 2, &[node(1), node(2)]);
    assert!(!copy.get(NodeId(2)).unwrap().draining);
}

#[test]
fn a_copy_that_has_everything_asks_in_vain_after_a_node_was_forgotten() {
    let (mut authority, mut copy) = (NodeMap::new(), NodeMap::new());
    authority.become_authority(at(0), 1, &[node(1), node(2)]);
    authority.forget(NodeId(2));
    sync(&authority, &mut copy, at(1), 10);
    let delta = authority.delta_since(at(2), copy.next_wanted(), 10);
    assert!(delta.records.is_empty() && delta.forgotten.is_empty() && !delta.more);
}

/// Lane zero's map is a copy, and the other lanes' maps are copies of that one.
#[test]
fn a_copy_of_a_copy_hears_of_lost_disks_and_forgotten_nodes() {
    let (mut authority, mut copy, mut second) = (NodeMap::new(), NodeMap::new(), NodeMap::new());
    authority.become_authority(at(0), 1, &[]);
    for id in 1..=3 {
        authority.note_heartbeat(at(0), &node(id)).unwrap();
    }
    let pass_on = |authority: &NodeMap, copy: &mut NodeMap, second: &mut NodeMap| {
        sync(authority, copy, at(1), 10);
        sync(copy, second, at(2), 10).0
    };
    assert_eq!(pass_on(&authority, &mut copy, &mut second).len(), 3);
    let other = NodeRecord { disk: base_types::DiskId(999), ..node(2) };
    authority.note_heartbeat(at(3), &other).unwrap();
    assert_eq!(pass_on(&authority, &mut copy, &mut second), [MapChange::DiskLost(NodeId(2))]);
    authority.forget(NodeId(3));
    assert_eq!(pass_on(&authority, &mut copy, &mut second), [MapChange::Forgotten(NodeId(3))]);
    // Another authority, another epoch.
    let records: Vec<NodeRecord> = copy.records().cloned().collect();
    copy.become_authority(at(4), 2, &records);
    sync(&copy, &mut authority, at(5), 10);
    sync(&authority, &mut second, at(6), 10);
    copy.note_heartbeat(at(7), &node(2)).unwrap();
    sync(&copy, &mut authority, at(8), 10);
    assert_eq!(sync(&authority, &mut second, at(9), 10).0, [MapChange::DiskLost(NodeId(2))]);
}
