//! Seeds of the backends: short lives of a space, step by step.

use crate::Seeds;
use base_types::action::BatchStep;
use base_types::codec::Encode;
use base_types::{
    ClusterId, ClusterName, DiskId, Generation, LogIndex, NodeId, PartitionId, ReadConsistency, ReplicaId, Term,
    WriteConsistency,
};
use bytes::Bytes;
use core_backends::metadata::{self, ImportCursor, ScanScopes, Scope, ScopedStep};
use core_backends::reference::{self, ClusterMember, ClusterState};
use core_backends::{allocator, redis};
use hive_fuzz::backends::push_step;

const APPLY: u8 = 0;
const QUERY: u8 = 1;
const ROW: u8 = 2;
const CLOCK: u8 = 3;

pub fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A seed of these commands, then these queries.
pub fn life<C: Encode, Q: Encode>(commands: &[C], queries: &[Q]) -> Vec<u8> {
    let mut out = Vec::new();
    commands.iter().for_each(|command| push_step(&mut out, APPLY, &command.to_bytes()));
    queries.iter().for_each(|query| push_step(&mut out, QUERY, &query.to_bytes()));
    out
}

/// The same, with time in between and a row from outside in front.
pub fn damaged(seed: &[u8], row: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_step(&mut out, ROW, row);
    out.extend_from_slice(&[CLOCK, 0xff, 0x7f]);
    out.extend_from_slice(seed);
    out
}

pub fn add(seeds: &mut Seeds) {
    add_metadata(seeds);
    add_redis(seeds);
    add_allocator(seeds);
    add_reference(seeds);
}

fn scope(partition: u16, epoch: u64) -> Scope {
    Scope { partition: PartitionId(partition), epoch }
}

fn add_metadata(seeds: &mut Seeds) {
    use metadata::{Command, Query};
    let put = |scope, key, value| Command::Put { scope, key: text(key), value: text(value) };
    let scan = |scopes, reverse| Query::Scan {
        scopes,
        start: text("a"),
        end: Some(text("z")),
        reverse,
        limit: 10,
        bytes_max: 1000,
        keys_only: false,
    };
    let plain = vec![
        put(None, "a", "1"),
        put(None, "b", ""),
        Command::CompareAndSet { scope: None, key: text("a"), expected: Some(text("1")), value: None },
        Command::Batch {
            steps: vec![
                ScopedStep { scope: None, step: BatchStep::Put { key: text("c"), value: text("3") } },
                ScopedStep { scope: None, step: BatchStep::Delete { key: text("b") } },
            ],
        },
        Command::Delete { scope: None, key: text("c") },
    ];
    let seed = life(&plain, &[scan(ScanScopes::Plain, true), Query::Get { scope: None, key: text("a") }]);
    seeds.add("backend_metadata", &seed);
    seeds.add("backend_metadata", damaged(&seed, b"\x02p\x00"));
    let (old, new) = (scope(3, 1), scope(3, 2));
    let moving = vec![
        Command::Adopt { scopes: vec![old, scope(4, 1)] },
        put(Some(old), "k", "v"),
        Command::BeginMove { scope: old },
        put(Some(old), "l", "w"),
        Command::Freeze { scope: old, lease_ms: 5_000 },
        Command::Handover { scope: old, dirty: 1 },
        Command::Release { scope: old, limit: 10 },
    ];
    let asked = vec![
        Query::Dirty { scope: old, after: 0, limit: 10 },
        Query::ExportPage { scope: old, after: None, bytes_max: 100 },
        Query::Partitions,
        Query::Partition { partition: PartitionId(3) },
        scan(ScanScopes::Owned, false),
        scan(ScanScopes::Partitions(vec![scope(4, 1)]), false),
    ];
    for length in [4, 5, 7] {
        seeds.add("backend_metadata", life(&moving[..length], &asked));
    }
    let cursor = ImportCursor { after: Some(text("k")), copied: true, dirty: 2 };
    let coming = vec![
        Command::PrepareImport { scope: new },
        Command::Import {
            scope: new,
            expected: ImportCursor::default(),
            cursor: cursor.clone(),
            pairs: vec![(text("k"), Some(text("v"))), (text("l"), None)],
        },
        Command::Activate { scope: new },
        Command::AbortImport { scope: new },
        Command::Unfreeze { scope: new },
    ];
    seeds.add("backend_metadata", life(&coming, &asked));
    for reply in [
        metadata::Reply::Page { entries: vec![(text("a"), text("b"))], more: true, covered: vec![old] },
        metadata::Reply::Deleted { existed: true },
    ] {
        seeds.add("backend_metadata", core_backends::encode_reply(&Ok(reply)));
    }
}

fn words(line: &str) -> redis::Command {
    redis::Command(line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect())
}

/// Their numbers come after those of the others, which golden stories have as well.
const LATER_LIVES: &[(&[&str], &[&str])] = &[
    (
        &[
            "SETBIT b 9 1",
            "BITOP NOT n b",
            "BITFIELD f SET u5 3 17 OVERFLOW SAT INCRBY i8 #2 200",
            "PFADD h a b c",
            "PFADD i d e",
            "PFMERGE j h i",
        ],
        &["BITCOUNT b", "BITPOS n 0 0 -1 BIT", "GETBIT b 9", "BITFIELD_RO f GET u5 3", "PFCOUNT h i"],
    ),
    (
        &[
            "GEOADD g CH 13.361389 38.115556 p 15.087269 37.502669 c",
            "GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST",
            "GEORADIUS g 15 37 200 km STORE e",
            "GEORADIUSBYMEMBER g p 1 km",
        ],
        &[
            "GEODIST g p c km",
            "GEOPOS g p q",
            "GEOHASH g p",
            "GEOSEARCH g FROMMEMBER p BYBOX 400 400 mi WITHDIST WITHCOORD WITHHASH",
        ],
    ),
];

fn add_redis(seeds: &mut Seeds) {
    const LIVES: &[(&[&str], &[&str])] = &[
        (
            &["SET k v NX PX 1000", "SET k w XX GET", "APPEND k x", "SETRANGE k 3 yy", "GETDEL k", "GETSET k z"],
            &["GET k", "STRLEN k", "GETRANGE k 0 -1", "TTL k", "TYPE k"],
        ),
        (
            &["INCR n", "INCRBY n 9223372036854775806", "DECRBY n 5", "INCRBYFLOAT f 1.5e300"],
            &["MGET n f", "EXISTS n f"],
        ),
        (
            &["HSET h a 1 b 2", "HINCRBY h a 5", "HDEL h b", "HSETNX h c 3"],
            &["HGETALL h", "HSCAN h 0 MATCH a* COUNT 1", "HLEN h"],
        ),
        (
            &["RPUSH l a b c", "LPUSH l z", "LPOP l 2", "LTRIM l 0 1", "LSET l 0 q", "LREM l 0 q"],
            &["LRANGE l 0 -1", "LINDEX l -1", "LLEN l"],
        ),
        (&["SADD s a b c", "SREM s b", "SMOVE s t a"], &["SMEMBERS s", "SISMEMBER s a", "SSCAN s 0"]),
        (
            &["ZADD z 1 a 2 b -inf c", "ZINCRBY z 5 a", "ZREM z b", "ZPOPMIN z", "ZREMRANGEBYSCORE z (1 +inf"],
            &["ZRANGE z 0 -1 WITHSCORES", "ZRANGEBYSCORE z (1 +inf LIMIT 0 1", "ZRANK z a", "ZCOUNT z 1 2"],
        ),
        (
            &["MSET a 1 b 2", "EXPIRE a 10", "PEXPIRE b 1", "PERSIST a", "DEL a b", "RENAME c d", "FLUSHDB"],
            &["KEYS *", "SCAN 0 MATCH [a-z]? COUNT 10", "DBSIZE", "PTTL a"],
        ),
        (
            &["SETEX k 100 v", "SETNX k w", "MSETNX a 1 b 2", "UNLINK k", "SETBIT b 7 1"],
            &["GETBIT b 7", "BITCOUNT b", "PING", "ECHO hi"],
        ),
    ];
    for (commands, queries) in LIVES {
        let commands: Vec<redis::Command> = commands.iter().map(|line| words(line)).collect();
        let queries: Vec<redis::Command> = queries.iter().map(|line| words(line)).collect();
        seeds.add("backend_redis", life(&commands, &queries));
    }
    let keyed = life(&[words("SET k v PX 100"), words("RPUSH l a")], &[words("GET k")]);
    seeds.add("backend_redis", damaged(&keyed, b"\x02kk\x01\x02\x03"));
    let reply = redis::Reply::Array(vec![redis::Reply::Bulk(text("x")), redis::Reply::Nil, redis::Reply::Integer(-1)]);
    seeds.add("base_codec", reply.to_bytes());
    seeds.add("base_codec", redis::Reply::Error("WRONGTYPE".into()).to_bytes());
    seeds.add("backend_redis", core_backends::encode_reply(&Ok(reply)));
    for (commands, queries) in LATER_LIVES {
        let commands: Vec<redis::Command> = commands.iter().map(|line| words(line)).collect();
        let queries: Vec<redis::Command> = queries.iter().map(|line| words(line)).collect();
        seeds.add("backend_redis", life(&commands, &queries));
    }
}

fn add_allocator(seeds: &mut Seeds) {
    use allocator::{Command, Query, Report};
    let register = |node| Command::Register { record: super::nodes::record(node) };
    let commands = vec![
        register(1),
        register(2),
        register(3),
        Command::Report { updates: vec![Report { node: NodeId(1), up: true, score: 900, clusters: 3, leaders: 1 }] },
        Command::Forget { node: NodeId(2) },
    ];
    let queries = vec![
        Query::Elect { rule: "size=2 location=fr-par".into(), exclude: vec![NodeId(9)], spread: 7 },
        Query::ElectReplacement {
            rule: "size=3 failure_domain=az".into(),
            members: vec![NodeId(1), NodeId(2)],
            lost: NodeId(2),
            spread: 0,
        },
        Query::NodesSince { version: 1, limit: 2 },
        Query::Node { node: NodeId(3) },
    ];
    for length in [3, 5] {
        seeds.add("backend_allocator", life(&commands[..length], &queries));
    }
    seeds.add("backend_allocator", damaged(&life(&commands, &queries), b"\x01V\xff\xff\xff\xff\xff\xff\xff\xff"));
    seeds.add("backend_allocator", damaged(&life(&commands, &queries), b"\x01N\x00\x00\x00\x00\x00\x00\x00\x00"));
    seeds.add(
        "backend_allocator",
        core_backends::encode_reply(&Ok(allocator::Reply::Elected { nodes: vec![super::nodes::record(1)] })),
    );
}

fn add_reference(seeds: &mut Seeds) {
    use reference::{Command, Query};
    let name: ClusterName = "metadata@users".parse().expect("a name");
    let member = |id| ClusterMember { replica: ReplicaId(id), node: NodeId(id), disk: DiskId(id), learner: false };
    let generation = Generation(1);
    let commands = vec![
        Command::Create {
            name: name.clone(),
            rule: "size=3".into(),
            engine: "lmdb".into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            members: vec![member(1), member(2), member(3)],
        },
        Command::SetState { name: name.clone(), generation, state: ClusterState::Active },
        Command::UpdateMembers {
            name: name.clone(),
            generation,
            members: vec![member(1), member(4)],
            term: Term(2),
            index: LogIndex(9),
        },
        Command::SetLevels {
            name: name.clone(),
            generation,
            consistency: Some(WriteConsistency::Hopeful),
            read_consistency: None,
        },
        Command::PutDocument { key: text("keyspace/a"), expected_version: None, body: text("body") },
        Command::PutDocument { key: text("keyspace/a"), expected_version: Some(1), body: text("two") },
        Command::DeleteDocument { key: text("keyspace/a"), expected_version: Some(2) },
        Command::Delete { name: name.clone(), generation },
        Command::Purge { name: name.clone(), generation },
    ];
    let queries = vec![
        Query::Resolve { name },
        Query::ResolveId { cluster: ClusterId(1000) },
        Query::List { prefix: "m".into(), start_after: Some("metadata@a".into()), limit: 3 },
        Query::Unfinished { limit: 10 },
        Query::GetDocument { key: text("keyspace/a") },
        Query::ListDocuments { prefix: text("keyspace/"), start_after: None, limit: 5 },
    ];
    for length in [1, 5, 6, 8, 9] {
        seeds.add("backend_reference", life(&commands[..length], &queries));
    }
    for row in [
        &b"\x01I\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\x01D\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0fgmetadata@users\x00\x00\x00\x00\xff\xff\xff\xff",
    ] {
        seeds.add("backend_reference", damaged(&life(&commands, &queries), row));
    }
    let document = reference::Document { key: text("k"), version: 3, body: text("b") };
    seeds.add(
        "backend_reference",
        core_backends::encode_reply(&Ok(reference::Reply::Documents { documents: vec![document], more: false })),
    );
}
