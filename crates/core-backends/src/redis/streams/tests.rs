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

/// Goes through all rows of streams and compares what is counted.
fn counts_are_rows(space: &MapSpace) {
    let mut found: BTreeMap<(Vec<u8>, u8), Vec<(Bytes, Bytes)>> = BTreeMap::new();
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

#[test]
fn tmp_random() {
    let dir = std::env::var("R4_DIR").unwrap();
    let cut = |text: &str| match (text.find("'radix-tree-keys'"), text.find("'last-generated-id'")) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to..]),
        _ => text.to_string(),
    };
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut bed = Bed { unix_ms: 1_700_000_000_000, ..Bed::default() };
        for line in text.lines() {
            let (command, expected) = line.split_once(" -> ").unwrap();
            assert_eq!(cut(&bed.run(command)), cut(expected), "{command}");
        }
    }
}
