//! Seeds that are texts: names, rules, bodies, queries, configuration, topologies.

use crate::Seeds;

const NAMES: &[&str] = &[
    "metadata@users",
    "allocator/reference@world",
    "metadata/redis@a.b-c_d/e",
    "reference@region-fr-par",
    "metadata@ks-default-0",
    "shard/shard_reference/multipart@bucket",
    "redis@\u{e9}",
    "strong",
];

const RULES: &[&str] = &[
    "size=3",
    "size=5 location=fr-par failure_domain=az consistency=strong read_consistency=strong",
    "repartition=fr-par:2,nl-ams:2,pl-waw:1 exclude=c7,fr-par/1/r2/c9 engine=lmdb",
    "size=2 failure_domain=region consistency=hopeful read_consistency=eventual",
    "size=15 failure_domain=rack consistency=absolute",
    "",
];

const BODIES: &[&str] = &[
    r#"{"action":"KvPut","key":"k","value":"v","consistency":"strong","deadline_ms":500,"request_id":"a-1"}"#,
    r#"{"action":"KvPut","keyspace":"users","key_base64":"AP8=","value_base64":"AAEC"}"#,
    r#"{"action":"KvGet","cluster":"metadata@users","key":"\u00e9\n","read_consistency":"eventual"}"#,
    r#"{"action":"KvDelete","key":"k"}"#,
    r#"{"action":"KvScan","prefix":"a","start_after":"b","end":"c","limit":10,"reverse":true,"keys_only":false}"#,
    r#"{"action":"KvBatch","steps":[{"put":{"key":"a","value":"b"}},{"delete":{"key":"c"}}]}"#,
    r#"{"action":"KvBatch","steps":[{"type":"put","key":"a","value":"b"},{"type":"delete","key":"c"}]}"#,
    r#"{"action":"KvCompareAndSet","key":"k","expected":null,"value":"v"}"#,
    r#"{"action":"CreateKeyspace","keyspace":"ks","partition":"range","partitions":3,"clusters":2,"split_keys":["g","p"],"rule":"size=3","engine":"lmdb"}"#,
    r#"{"action":"Reshard","keyspace":"ks","clusters":4}"#,
    r#"{"action":"ListClusters","prefix":"m","start_after":"metadata@a","limit":5}"#,
    r#"{"action":"TransferLeader","name":"metadata@users","node":2}"#,
    r#"{"action":"SetDefaultConsistency","name":"metadata@users","consistency":"absolute","read_consistency":"strong"}"#,
    r#"{"action":"Redis","cluster":"redis@locks","command":["SET","k","v","NX","PX","1000"]}"#,
    r#"{"action":"Status"}"#,
    r#"{"action":"CreateCluster","name":"metadata@x","rule":"size=1"}"#,
    r#"{"a":[[[[[[1e400,-0,1.5e-7,true,null,"\ud83d\ude00"]]]]]],"a":2}"#,
    "key=k&value=v%20w&consistency=strong&strict=1",
    "key=%FF%00+x&keyspace=users&read_consistency=eventual&deadline_ms=1000&request_id=q",
];

const CONFIG: &str = r#"id = 1
data = "data"
cores = 1
lanes = 2

[world]
name = "dev"

[[world.members]]
id = 1
address = "127.0.0.1:7601"

[[world.members]]
id = 2
address = "node-2.example:7602"

[region]
name = "fr-par"
members = [{ id = 1, address = "127.0.0.1:7601" }]

[place]
az = "1"
rack = "r1"
chassis = "c1"

[http]
listen = "127.0.0.1:7101"
advertise = "node-1.example:7101"

[peer]
listen = "127.0.0.1:7601"

[certificates]
authority = "ca.pem"
certificate = "node.pem"
key = "node.key"
"#;

const CONFIG_TAILS: &[&str] = &[
    "",
    "\n[engine]\ndefault = \"memory\"\n\n[engine.lmdb]\nmap_bytes_max = 1073741824\n",
    "\n[limits]\nbody_bytes_max = 65536\nconnections_max = 10\nheader_timeout_ms = 100\n",
    "\n[tuning]\ntick_ms = 20\nelection_ticks = 10\nheartbeat_ticks = 2\nlog_segment_bytes = 8388608\nlog_stall_ms = 9223372036854775807\n",
    "\n[unknown]\nkey = 1979-05-27T07:32:00Z\n",
];

const TOPOLOGIES: &[&str] = &[
    "Shard:\n  Name: shard0\n  Index: 0\n  Address: 127.0.0.2:8080\n  Replicas: [127.0.0.22:8080]\n---\nShard:\n  Name: shard1\n  Index: 1\n  Address: 127.0.0.3:8080\n",
    "Shard: {Name: a, Index: 0, Address: \"[::1]:80\", Replicas: []}\n",
    "Shard:\n  Name: &n a\n  Index: 0x0\n  Address: *n\n  Replicas:\n    - !!str 1\n    - |\n      x\n",
];

/// Two keys each, parted behind as many bytes as the first says; and rows.
const KEYS: &[&[u8]] = &[
    b"\x01ab",
    b"\x05ab\0cab\0c",
    b"\x03a\x01ba\x01bc",
    "\x02\u{e9}\u{e9}\u{10ffff}".as_bytes(),
    b"\0/prefix/",
    b"\x04\0\0\0\0\x01\x01\x01",
    b"\tlogs/2026logs/2026/11/22",
    b"h\x02key\0\0\0\0\x07\0",
    b"v\x02b\0\xff\xff\xff\xff\xff\xff\xff\xfe\0",
    b"\x02\0\0\0\0\0\0\0\x07\x03\x02\x10",
];

/// Keys and tokens that they signed (edge-node's testdata/oidc_rsa.json, by keys that are gone): kept as they are.
const OIDC: &[&[u8]] = &[
    include_bytes!("../../seeds/oidc_token/00"),
    include_bytes!("../../seeds/oidc_token/01"),
    include_bytes!("../../seeds/oidc_token/02"),
    include_bytes!("../../seeds/oidc_token/03"),
];

pub fn add(seeds: &mut Seeds) {
    KEYS.iter().for_each(|bytes| seeds.add("key_codec", bytes));
    NAMES.iter().for_each(|text| seeds.add("cluster_name", text));
    RULES.iter().for_each(|text| seeds.add("rule_text", text));
    BODIES.iter().for_each(|text| seeds.add("http_body", text));
    for tail in CONFIG_TAILS {
        seeds.add("node_config", format!("{CONFIG}{tail}"));
    }
    seeds.add("node_config", format!("topology = \"topology.yaml\"\n{CONFIG}"));
    OIDC.iter().for_each(|bytes| seeds.add("oidc_token", bytes));
    TOPOLOGIES.iter().for_each(|text| seeds.add("topology_text", text));
}
