use super::super::tests::show;
use super::super::{apply, query, validate, Reply};
use crate::contract::{ApplyContext, SpaceRead};
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_engine::{Direction, KeyRange};
use base_types::codec::Encode;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand};
use base_types::{BackendKind, Generation, LogIndex};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A space, its log and the door's wall clock.
#[derive(Default)]
struct Bed {
    space: MapSpace,
    index: u64,
    unix_ms: u64,
}

/// `~` is a space in a word, `~~` a tilde, `''` nothing.
fn words(line: &str) -> Vec<Bytes> {
    let word = |word: &str| word.replace("~~", "\0").replace('~', " ").replace('\0', "~").replace("''", "");
    line.split(' ').map(|text| Bytes::from(word(text))).collect()
}

impl Bed {
    fn ask(&mut self, words: Vec<Bytes>) -> Reply {
        let commands = vec![RedisCommand { database: 3, words }];
        let call = RedisCall { unix_ms: self.unix_ms, seed: 1, ask: RedisAsk::Commands { commands } };
        let bytes = call.to_bytes();
        let reply = if call.read_only() {
            query(1000, &self.space, &bytes).unwrap()
        } else {
            validate(&bytes).unwrap();
            self.index += 1;
            let (life, index) = (Generation(1), LogIndex(self.index));
            let at = ApplyContext { life, index, position: 0, cluster_time_ms: 1000 };
            let reply = apply(at, &mut self.space, &bytes).unwrap();
            crate::testing::check(BackendKind::Redis, &self.space);
            counts_are_rows(&self.space);
            reply
        };
        match decode_reply(reply).unwrap() {
            RedisAnswer::Replies { mut replies } => replies.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, line: &str) -> String {
        show(&self.ask(words(line)))
    }

    /// `@n`: the wall clock from here on. `command -> reply`.
    fn script(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(time) = line.strip_prefix('@') {
                self.unix_ms = time.parse().unwrap();
                continue;
            }
            let (command, expected) = line.split_once(" -> ").unwrap();
            assert_eq!(self.run(command), expected, "{command}");
        }
    }
}

fn script(text: &str) {
    Bed { unix_ms: 1_700_000_000_000, ..Bed::default() }.script(text);
}

type Rows = Vec<(Bytes, Bytes)>;

/// Goes through all rows of streams and compares what is counted.
fn counts_are_rows(space: &MapSpace) {
    let mut found: BTreeMap<(Vec<u8>, u8), Rows> = BTreeMap::new();
    space
        .range(KeyRange { start: b"e", end: Some(b"f") }, Direction::Forward, &mut |row, value| {
            let rest = (Bytes::copy_from_slice(&row[10..]), Bytes::copy_from_slice(value));
            found.entry((row[1..9].to_vec(), row[9])).or_default().push(rest);
            ControlFlow::Continue(())
        })
        .unwrap();
    let under = |stream: &Vec<u8>, tag: u8, prefix: &[u8]| {
        let rows = found.get(&(stream.clone(), tag)).into_iter().flatten();
        rows.filter(|(row, _)| row.starts_with(prefix)).count() as u64
    };
    for ((stream, tag), rows) in &found {
        for (name, row) in rows {
            if *tag == 1 {
                let group = super::members::Group::from_row(row.clone()).unwrap();
                let number = group.number.to_be_bytes();
                let counted = (group.pending, group.pending, group.consumers, group.consumers);
                let there = [3, 4, 2, 5].map(|tag| under(stream, tag, &number));
                assert_eq!(there, <[u64; 4]>::from(counted), "group {name:?}");
            }
            if *tag == 2 {
                let consumer = super::members::Consumer::from_row(row.clone()).unwrap();
                let number = [&name[..8], &consumer.number.to_be_bytes()].concat();
                assert_eq!(consumer.pending, under(stream, 4, &number), "consumer {name:?}");
            }
        }
    }
}

/// Each command is followed by a walk of all that is counted.
#[test]
fn counts_of_a_group_are_its_rows() {
    script(include_str!("../../../testdata/redis/streams-groups.txt"));
}

#[test]
fn entries_as_redis_keeps_them() {
    script(include_str!("../../../testdata/redis/streams-entries.txt"));
}

/// The same, for commands in any order.
#[test]
fn random_commands_come_to_what_redis_says() {
    script(include_str!("../../../testdata/redis/streams-random.txt"));
}

/// Idle times go by the door's clock, deliveries are counted.
#[test]
fn pending_entries_have_an_age_and_a_count() {
    script(
        "@100000
        xgroup create s g 0 mkstream -> OK
        xadd s * a 1 -> '100000-0'
        xadd s * a 2 -> '100000-1'
        @99000
        xadd s * a 3 -> '100000-2'
        @200000
        xadd s * a 4 -> '200000-0'
        xadd s 300000 a 5 -> '300000-0'
        xadd s * a 6 -> '300000-1'
        xreadgroup group g c count 2 streams s > -> {'s': [['100000-0' ['a' '1']] ['100000-1' ['a' '2']]]}
        @201500
        xreadgroup group g d count 1 streams s > -> {'s': [['100000-2' ['a' '3']]]}
        xpending s g - + 9 -> [['100000-0' 'c' 1500 1] ['100000-1' 'c' 1500 1] ['100000-2' 'd' 0 1]]
        xpending s g - + 2 -> [['100000-0' 'c' 1500 1] ['100000-1' 'c' 1500 1]]
        xpending s g idle 1500 - + 9 -> [['100000-0' 'c' 1500 1] ['100000-1' 'c' 1500 1]]
        xpending s g idle 1501 - + 9 -> []
        xpending s g IDLE 1000 (100000-0 + 9 c -> [['100000-1' 'c' 1500 1]]
        xreadgroup group g c count 1 streams s 0 -> {'s': [['100000-0' ['a' '1']]]}
        xinfo consumers s g -> [{'name': 'c' 'pending': 2 'idle': 0} {'name': 'd' 'pending': 1 'idle': 0}]
        @199000
        xpending s g - + 9 -> [['100000-0' 'c' 0 2] ['100000-1' 'c' 0 1] ['100000-2' 'd' 0 1]]
        xreadgroup group g d streams s 0 -> {'s': [['100000-2' ['a' '3']]]}
        xinfo consumers s g -> [{'name': 'c' 'pending': 2 'idle': 0} {'name': 'd' 'pending': 1 'idle': 0}]
        @202000
        xinfo consumers s g -> [{'name': 'c' 'pending': 2 'idle': 500} {'name': 'd' 'pending': 1 'idle': 500}]
        xclaim s g d 500 100000-0 100000-1 justid idle 9000 -> ['100000-0' '100000-1']
        xpending s g - + 9 -> [['100000-0' 'd' 9000 2] ['100000-1' 'd' 9000 1] ['100000-2' 'd' 3000 2]]
        xclaim s g e 3001 100000-2 time 900000 -> []
        xclaim s g e 3000 100000-2 time 900000 retrycount 7 -> [['100000-2' ['a' '3']]]
        xclaim s g e 0 200000-0 force time -5 -> [['200000-0' ['a' '4']]]
        xpending s g - + 9 e -> [['100000-2' 'e' 0 7] ['200000-0' 'e' 0 2]]
        xautoclaim s g e 9000 0 count 1 -> ['100000-1' [['100000-0' ['a' '1']]] []]
        xautoclaim s g e 9001 0 -> ['0-0' [] []]
        xdel s 100000-1 -> 1
        xautoclaim s g e 9001 0 justid -> ['0-0' [] ['100000-1']]
        xpending s g - + 9 -> [['100000-0' 'e' 0 3] ['100000-2' 'e' 0 7] ['200000-0' 'e' 0 2]]
        xinfo consumers s g -> [{'name': 'c' 'pending': 0 'idle': 500} {'name': 'd' 'pending': 0 'idle': 0} {'name': 'e' 'pending': 3 'idle': 0}]",
    );
}

#[test]
fn info_says_everything_that_there_is() {
    script(
        "@5000
        xadd s 1 a 1 -> '1-0'
        xadd s 2 a 2 -> '2-0'
        xgroup create s g 0 -> OK
        xgroup create s h 2 -> OK
        xreadgroup group g c count 1 streams s > -> {'s': [['1-0' ['a' '1']]]}
        xinfo stream s full -> {'length': 2 'radix-tree-keys': 1 'radix-tree-nodes': 2 'last-generated-id': '2-0' 'max-deleted-entry-id': '0-0' 'entries-added': 2 'recorded-first-entry-id': '1-0' 'entries': [['1-0' ['a' '1']] ['2-0' ['a' '2']]] 'groups': [{'name': 'g' 'last-delivered-id': '1-0' 'entries-read': 1 'lag': 1 'pel-count': 1 'pending': [['1-0' 'c' 5000 1]] 'consumers': [{'name': 'c' 'seen-time': 5000 'pel-count': 1 'pending': [['1-0' 5000 1]]}]} {'name': 'h' 'last-delivered-id': '2-0' 'entries-read': nil 'lag': 0 'pel-count': 0 'pending': [] 'consumers': []}]}
        xgroup destroy s h -> 1
        xreadgroup group g c streams s > -> {'s': [['2-0' ['a' '2']]]}
        XINFO STREAM s FULL COUNT 1 -> {'length': 2 'radix-tree-keys': 1 'radix-tree-nodes': 2 'last-generated-id': '2-0' 'max-deleted-entry-id': '0-0' 'entries-added': 2 'recorded-first-entry-id': '1-0' 'entries': [['1-0' ['a' '1']]] 'groups': [{'name': 'g' 'last-delivered-id': '2-0' 'entries-read': 2 'lag': 0 'pel-count': 2 'pending': [['1-0' 'c' 5000 1]] 'consumers': [{'name': 'c' 'seen-time': 5000 'pel-count': 2 'pending': [['1-0' 5000 1]]}]}]}",
    );
    for command in ["xgroup help", "XINFO HELP"] {
        let Reply::Array(lines) = Bed::default().ask(words(command)) else { panic!("{command}") };
        assert!(lines.len() > 8 && lines.iter().all(|line| matches!(line, Reply::Status(_))), "{lines:?}");
    }
}

#[test]
fn ids_go_by_the_clusters_time_where_no_door_asks() {
    assert_eq!(Bed::default().run("xadd s * a b"), "'1000-0'");
}

fn rows_of_elements(bed: &Bed) -> usize {
    bed.space.rows.keys().filter(|row| row[0] == b'e').count()
}

#[test]
fn a_stream_without_entries_is_swept_with_its_groups() {
    let mut bed = Bed::default();
    bed.run("xgroup create s g 0 mkstream");
    bed.run("xgroup createconsumer s g c");
    assert_eq!((rows_of_elements(&bed), bed.run("xlen s").as_str()), (3, "0"));
    bed.run("del s");
    assert_eq!((rows_of_elements(&bed), bed.run("exists s").as_str()), (0, "0"));
}

#[test]
fn a_destroyed_group_is_swept_by_later_writes() {
    let mut bed = Bed::default();
    bed.run("xgroup create s g 0 mkstream");
    for id in 1..=200 {
        bed.run(&format!("xadd s {id} a b"));
    }
    bed.run("xreadgroup group g c streams s >");
    assert_eq!(rows_of_elements(&bed), 200 + 1 + 2 + 400);
    bed.run("xgroup destroy s g");
    assert_eq!(bed.run("xgroup create s g $"), "OK");
    assert_eq!(bed.run("xpending s g"), "[0 nil nil nil[]]");
    assert!(rows_of_elements(&bed) > 200 + 1);
    for id in 201..=206 {
        bed.run(&format!("xadd s {id} a b"));
    }
    assert_eq!(rows_of_elements(&bed), 206 + 1);
}

#[test]
fn an_error_leaves_a_stream_as_it_was() {
    let mut bed = Bed::default();
    bed.script(
        "xgroup create s g 0 mkstream -> OK
        xadd s 1 a 1 -> '1-0'
        xreadgroup group g c streams s > -> {'s': [['1-0' ['a' '1']]]}
        xadd s 2 a 1 -> '2-0'",
    );
    let before = bed.space.clone();
    let long = "x".repeat(base_types::KEY_BYTES_MAX + 1);
    let wide = "x".repeat(base_types::VALUE_BYTES_MAX);
    for (line, begin) in [
        (format!("xgroup create s {long} 0"), "ERR name of a group is 1025 bytes long"),
        (format!("xgroup create none {long} 0 mkstream"), "ERR name of a group is 1025 bytes long"),
        (format!("xgroup createconsumer s g {long}"), "ERR name of a consumer is 1025 bytes long"),
        (format!("xreadgroup group g {long} streams s >"), "ERR name of a consumer is 1025 bytes long"),
        (format!("xclaim s g {long} 0 1"), "ERR name of a consumer is 1025 bytes long"),
        (format!("xautoclaim s g {long} 0 0"), "ERR name of a consumer is 1025 bytes long"),
        (format!("xreadgroup group {long} c streams s >"), "NOGROUP No such key 's' or consumer group 'xxx"),
        (format!("xgroup destroy s {long}"), "0"),
        (format!("xgroup delconsumer s g {long}"), "0"),
        (format!("xack s {long} 1"), "0"),
        (format!("xadd none * a {wide}"), "ERR Elements are too large to be stored"),
        ("xadd none 0-0 a b".into(), "ERR The ID specified in XADD must be greater than 0-0"),
        ("xadd s 1 a b".into(), "ERR The ID specified in XADD is equal or smaller"),
        ("xack s g 1 x".into(), "ERR Invalid stream ID"),
        ("xdel s 1 x".into(), "ERR Invalid stream ID"),
        ("xclaim s g d 0 1 lastid x".into(), "ERR Invalid stream ID"),
        ("xreadgroup group g d streams s none > >".into(), "NOGROUP"),
        ("xreadgroup group g d streams s s > x".into(), "ERR Invalid stream ID"),
    ] {
        let reply = bed.run(&line);
        assert!(reply.starts_with(begin), "{}: {}", &line[..line.len().min(60)], &reply[..reply.len().min(200)]);
        assert!(bed.space == before, "{}", &line[..line.len().min(60)]);
    }
}

/// A stream of `count` entries with long texts or short ones.
fn filled(count: u64, bytes: usize) -> Bed {
    let mut bed = Bed::default();
    let text = "x".repeat(bytes);
    let mut commands = Vec::new();
    for id in 1..=count {
        commands.push(RedisCommand { database: 3, words: words(&format!("xadd s {id} a {text}")) });
    }
    for part in commands.chunks((2_000_000 / bytes).min(4_000)) {
        let ask = RedisAsk::Commands { commands: part.to_vec() };
        let bytes = RedisCall { unix_ms: 1, seed: 1, ask }.to_bytes();
        let at = ApplyContext { life: Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 1 };
        decode_reply::<RedisAnswer>(apply(at, &mut bed.space, &bytes).unwrap()).unwrap();
    }
    bed
}

fn told(reply: Reply) -> usize {
    match reply {
        Reply::Array(items) => items.len(),
        Reply::Streams(mut streams) => told(streams.remove(0).1),
        other => panic!("{}", show(&other)),
    }
}

#[test]
fn a_reply_takes_what_fits_of_new_entries() {
    let mut bed = filled(50, 200_000);
    assert!(bed.run("xrange s - +").starts_with("ERR reply is larger than 100000 elements or 4194304 bytes"));
    assert_eq!(told(bed.ask(words("xrange s - + count 20"))), 20);
    assert_eq!(told(bed.ask(words("xread streams s 0"))), 20);
    assert_eq!(told(bed.ask(words("xread streams s 20"))), 20);
    assert_eq!(told(bed.ask(words("xread streams s 40"))), 10);
    bed.run("xgroup create s g 0");
    assert_eq!(told(bed.ask(words("xreadgroup group g c count 9 streams s >"))), 9);
    assert_eq!(told(bed.ask(words("xreadgroup group g c streams s >"))), 20);
    assert_eq!(bed.run("xpending s g"), "[29 '1-0' '29-0' [['c' '29']]]");
    assert_eq!(told(bed.ask(words("xreadgroup group g c streams s >"))), 20);
    assert_eq!(told(bed.ask(words("xreadgroup group g c streams s >"))), 1);
    assert_eq!(told(bed.ask(words("xreadgroup group g c streams s 0"))), 20);
    assert_eq!(told(bed.ask(words("xclaim s g d 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"))), 20);
    assert_eq!(bed.run("xpending s g"), "[50 '1-0' '50-0' [['c' '30'] ['d' '20']]]");
    bed.run("xgroup setid s g 29");
    bed.run("xgroup create u g 0 mkstream");
    bed.run("xadd u 1 a b");
    let Reply::Streams(streams) = bed.ask(words("xreadgroup group g c streams s u > >")) else { panic!() };
    assert_eq!((streams.len(), bed.run("xpending u g").as_str()), (2, "[1 '1-0' '1-0' [['c' '1']]]"));
    bed.run(&format!("xadd u 2 a {}", "x".repeat(400_000)));
    bed.run("xgroup setid s g 29");
    let Reply::Streams(streams) = bed.ask(words("xreadgroup group g c streams s u > >")) else { panic!() };
    assert_eq!((streams.len(), bed.run("xpending u g").as_str()), (1, "[1 '1-0' '1-0' [['c' '1']]]"));
    let Reply::Array(parts) = bed.ask(words("xautoclaim s g e 0 0")) else { panic!() };
    assert_eq!((show(&parts[0]).as_str(), told(parts[1].clone())), ("'21-0'", 20));
}

#[test]
fn a_trim_beyond_its_bound_is_refused_whole() {
    let mut bed = filled(100_002, 1);
    let refused = "ERR more than 100000 entries would be removed; trim in parts (XTRIM with ~ and LIMIT)";
    let before = bed.space.clone();
    for command in ["xtrim s maxlen 1", "xtrim s minid 100002", "xadd s maxlen 2 * a b", "xadd s minid 100002 * a b"] {
        assert_eq!(bed.run(command), refused, "{command}");
        assert!(bed.space == before, "{command}");
    }
    assert_eq!(bed.run("xtrim s minid ~~ 100002"), "10000");
    assert_eq!(bed.run("xtrim s maxlen ~~ 0 limit 0"), "90002");
    assert_eq!(bed.run("xlen s"), "0");
}
