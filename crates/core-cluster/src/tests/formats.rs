//! Entries, records and payloads are the bytes of docs/formats/golden, and those of another version are refused with what to do.

#[path = "../../../../fuzz/common/golden.rs"]
mod golden;

use crate::api::{Member, ReplicaSpec};
use crate::entry::{self, EntryCommand};
use crate::meta::{ChosenEngine, ClusterMeta, Recovered, ReplicaRecord};
use crate::wire::Payload;
use base_types::codec::{DecodeError, Encode};
use base_types::{
    ClusterId, DiskId, FormatLevel, Generation, LogIndex, NodeId, ReadConsistency, ReplicaId, RequestId, SpaceId, Term,
    WriteConsistency,
};
use bytes::Bytes;
use std::rc::Rc;

fn commands() -> Vec<EntryCommand> {
    let command = |backend, id, keep_ms, bytes: &'static [u8]| EntryCommand {
        backend,
        request_id: RequestId(id),
        keep_ms,
        command: Bytes::from_static(bytes),
    };
    vec![command(2, 7, 12_000, b"put"), command(0, 1 << 100, 0, b"")]
}

fn spec() -> ReplicaSpec {
    let member = |id: u64| Member { replica: ReplicaId(id), node: NodeId(id), disk: DiskId(id * 7), learner: id == 3 };
    ReplicaSpec {
        cluster: ClusterId(1_000),
        generation: Generation(2),
        name: "metadata@users".parse().unwrap(),
        rule: "size=3".into(),
        engine: "lmdb".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Eventual,
        replica: ReplicaId(2),
        initial_members: vec![member(1), member(2), member(3)].into(),
    }
}

/// Written as the line says, and read back.
fn check<T: Encode + PartialEq + std::fmt::Debug>(name: &str, value: &T) {
    golden::check("entries", name, &value.to_bytes());
    assert_eq!(T::from_bytes(golden::line("entries", name).into()).as_ref(), Ok(value));
}

fn refusal<T>(read: Result<T, DecodeError>) -> String {
    read.err().expect("another version").to_string()
}

#[test]
fn entries_are_those_of_the_first_release() {
    let commands = commands();
    for (name, level) in [("entry of format 2, level 1", 1), ("entry of format 3, level 2 (trial)", 2)] {
        golden::check("entries", name, &entry::encode(FormatLevel(level), 77_000, 76_000, &commands));
        let read = entry::decode(golden::line("entries", name).into()).unwrap();
        assert_eq!((read.level, read.cluster_time_ms, read.id_time_ms), (FormatLevel(level), 77_000, 76_000));
        assert_eq!(read.commands, commands);
    }
    let mut newer = golden::line("entries", "entry of format 2, level 1");
    newer[0] = 4;
    let refused = refusal(entry::decode(newer.into()));
    assert!(
        refused.starts_with("entry has version 4, and this build") && refused.contains("up to 3: install"),
        "{refused}"
    );
}

#[test]
fn records_are_those_of_the_first_release() {
    let plain = ReplicaRecord::new(spec(), SpaceId(9), false);
    check("replica record of format 1", &plain);
    let lives = vec![(LogIndex(40), Generation(1))];
    let recovered = Some(Recovered { lives, next_replica: ReplicaId(8) });
    check("replica record of format 2", &ReplicaRecord { recovered, ended: Generation(3), ..plain });
    let mut meta = ClusterMeta::initial(&spec());
    (meta.applied, meta.applied_term, meta.chain) = (LogIndex(50), Term(4), Some(11));
    meta.engine = Some(Rc::new(ChosenEngine { engine: "redb".into(), since: ReplicaId(4) }));
    check("meta record of format 3", &meta);
    let newer = |name: &str| {
        let mut bytes = golden::line("entries", name);
        bytes[0] += 1;
        Bytes::from(bytes)
    };
    let refused = refusal(ReplicaRecord::from_bytes(newer("replica record of format 2")));
    assert!(refused.starts_with("replica record has version 3") && refused.contains("up to 2: install"), "{refused}");
    let refused = refusal(ClusterMeta::from_bytes(newer("meta record of format 3")));
    assert!(refused.starts_with("meta record has version 4") && refused.contains("up to 3: install"), "{refused}");
}

#[test]
fn payloads_are_those_of_the_first_release() {
    for (name, bytes) in golden::lines("replica-payloads") {
        let payload = Payload::from_bytes(bytes.clone().into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(golden::hex(&payload.to_bytes()), golden::hex(&bytes), "{name}");
    }
}
