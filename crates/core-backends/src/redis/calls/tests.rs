use super::super::tests::words;
use super::super::{apply, query, validate};
use super::*;
use crate::testing::MapSpace;
use base_types::{BackendKind, Generation, LogIndex};

/// One space, its log and its clock.
#[derive(Default)]
struct Bed {
    space: MapSpace,
    index: u64,
    now: u64,
}

impl Bed {
    fn ask(&mut self, ask: RedisAsk) -> Result<RedisAnswer, Refusal> {
        let call = RedisCall { unix_ms: 1_000_000 + self.now, seed: 1, ask };
        if call.read_only() {
            return decode_reply(query(self.now, &self.space, &call.to_bytes()).unwrap());
        }
        validate(&call.to_bytes())?;
        self.index += 1;
        let (life, index) = (Generation(1), LogIndex(self.index));
        let at = ApplyContext { life, index, position: 0, cluster_time_ms: self.now };
        let reply = apply(at, &mut self.space, &call.to_bytes()).unwrap();
        crate::testing::check(BackendKind::Redis, &self.space);
        decode_reply(reply)
    }

    fn run(&mut self, lines: &[(u8, &str)]) -> Vec<Reply> {
        match self.ask(RedisAsk::Commands { commands: commands(lines) }) {
            Ok(RedisAnswer::Replies { replies }) => replies,
            other => panic!("{other:?}"),
        }
    }

    fn versions(&mut self, keys: &[KeyVersion]) -> Vec<u64> {
        match self.ask(RedisAsk::Versions { keys: keys.to_vec() }) {
            Ok(RedisAnswer::Versions { versions }) => versions,
            other => panic!("{other:?}"),
        }
    }
}

fn commands(lines: &[(u8, &str)]) -> Vec<RedisCommand> {
    lines.iter().map(|(database, line)| RedisCommand { database: *database, words: words(line) }).collect()
}

fn key(database: u8, name: &'static str, version: u64) -> KeyVersion {
    KeyVersion { database, key: Bytes::from_static(name.as_bytes()), version }
}

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(text.as_bytes()))
}

#[test]
fn commands_of_a_call_see_each_other() {
    let mut bed = Bed::default();
    let replies = bed.run(&[
        (0, "set a 1"),
        (0, "incr a"),
        (0, "get a"),
        (0, "hget a f"),
        (0, "nosuch"),
        (0, "get"),
        (0, "incr a"),
    ]);
    assert_eq!(replies[..3], [Reply::Ok, Reply::Integer(2), bulk("2")]);
    assert!(matches!(&replies[3], Reply::Error(text) if text.starts_with("WRONGTYPE")));
    assert_eq!(replies[4], Reply::Error("ERR unknown command 'nosuch', with args beginning with: ".into()));
    assert_eq!(replies[5], Reply::Error("ERR wrong number of arguments for 'get' command".into()));
    assert_eq!(replies[6], Reply::Integer(3));
}

#[test]
fn dates_far_away_are_refused_or_have_passed() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1"), (0, "set b 1")]);
    let refused = |name| Reply::Error(format!("ERR invalid expire time in '{name}' command"));
    let lines = [
        "expire a 9223372036854775",
        "pexpireat a -9223372036854775808",
        "expireat b 9223372036854776",
        "pexpireat b 9223372036854775000",
    ];
    let replies = bed.run(&lines.map(|line| (0, line)));
    assert_eq!(replies, [refused("expire"), Reply::Integer(1), refused("expireat"), Reply::Integer(1)]);
    assert_eq!(
        bed.run(&[(0, "exists a b"), (0, "pexpiretime b")]),
        [Reply::Integer(1), Reply::Integer(9_223_372_036_854_775_000)]
    );
}

#[test]
fn databases_lie_apart() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a zero"), (15, "set a fifteen"), (15, "set b x px 10")]);
    assert_eq!(bed.run(&[(0, "get a"), (15, "get a"), (1, "get a")]), [bulk("zero"), bulk("fifteen"), Reply::Nil]);
    assert_eq!(bed.run(&[(0, "dbsize"), (15, "dbsize")]), [Reply::Integer(1), Reply::Integer(2)]);
    bed.run(&[(15, "flushdb"), (15, "set c 1")]);
    assert_eq!(bed.run(&[(0, "get a"), (15, "get a"), (15, "dbsize")]), [bulk("zero"), Reply::Nil, Reply::Integer(1)]);
    assert!(bed.ask(RedisAsk::Commands { commands: commands(&[(17, "set a 1")]) }).is_err());
    bed.run(&[(2, "swapdb 0 15")]);
    assert_eq!(bed.run(&[(15, "get a"), (0, "dbsize"), (0, "get c")]), [bulk("zero"), Reply::Integer(1), bulk("1")]);
    bed.run(&[(2, "swapdb 15 0"), (2, "set t 1")]);
    assert_eq!(bed.run(&[(0, "swapdb 0 16")]), [Reply::Error("ERR DB index is out of range".into())]);
    // What was flushed is swept, by the leader's own proposals too.
    while let Some(upkeep) = upkeep(&bed.space).unwrap() {
        assert_eq!(upkeep.at_ms, 0);
        bed.ask(RedisAsk::Sweep).unwrap();
    }
    assert_eq!(bed.run(&[(0, "get a"), (15, "get c")]), [bulk("zero"), bulk("1")]);
}

#[test]
fn what_expires_is_swept_when_it_is_due() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1 px 500"), (3, "set b 1 px 300"), (3, "set c 1")]);
    assert_eq!(upkeep(&bed.space).unwrap().map(|upkeep| upkeep.at_ms), Some(400));
    bed.now = 400;
    assert_eq!(bed.ask(RedisAsk::Sweep), Ok(RedisAnswer::Swept { keys: 1 }));
    assert_eq!(upkeep(&bed.space).unwrap().map(|upkeep| upkeep.at_ms), Some(600));
    bed.now = 600;
    assert_eq!(bed.ask(RedisAsk::Sweep), Ok(RedisAnswer::Swept { keys: 1 }));
    assert_eq!(upkeep(&bed.space).unwrap(), None);
    assert_eq!(bed.run(&[(0, "dbsize"), (3, "dbsize")]), [Reply::Integer(0), Reply::Integer(1)]);
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1"), (1, "sadd s x")]);
    let seen = bed.versions(&[key(0, "a", 0), key(1, "s", 0), key(0, "none", 0)]);
    assert!(seen[0] > 0 && seen[1] > seen[0] && seen[2] == 0);
    let watched = || vec![key(0, "a", seen[0]), key(1, "s", seen[1]), key(0, "none", 0)];
    let both = || commands(&[(0, "incr a"), (0, "hset a f v"), (1, "sadd s y"), (0, "get a")]);
    let done = bed.ask(RedisAsk::Transaction { watched: watched(), commands: both() });
    let Ok(RedisAnswer::Replies { replies }) = done else { panic!("{done:?}") };
    assert_eq!((&replies[0], &replies[2], &replies[3]), (&Reply::Integer(2), &Reply::Integer(1), &bulk("2")));
    assert!(matches!(&replies[1], Reply::Error(_)), "an error does not stop what follows");
    // Each of the keys was changed by it: what was seen before counts no more.
    for watched in [vec![key(0, "a", seen[0])], vec![key(1, "s", seen[1])], vec![key(0, "none", 7)]] {
        let before = bed.space.clone();
        assert_eq!(bed.ask(RedisAsk::Transaction { watched, commands: both() }), Ok(RedisAnswer::Aborted));
        assert_eq!(bed.space, before);
    }
    // One that only reads compares too, and needs no entry.
    let ask = RedisAsk::Transaction { watched: vec![key(0, "a", seen[0])], commands: commands(&[(0, "get a")]) };
    assert_eq!(bed.ask(ask), Ok(RedisAnswer::Aborted));
}

#[test]
fn a_version_is_given_once() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1")]);
    let mut seen = bed.versions(&[key(0, "a", 0)]);
    for line in
        ["set a 1", "expire a 100", "persist a", "del a", "lpush a x", "lpush a y", "rpop a", "flushdb", "set a 1"]
    {
        bed.run(&[(0, line)]);
        let now = bed.versions(&[key(0, "a", 0)]);
        assert!(!seen.contains(&now[0]) || now[0] == 0, "{line}: {now:?} after {seen:?}");
        seen.extend(now);
    }
    bed.run(&[(0, "get a"), (0, "set a 1 nx"), (0, "srem none x")]);
    assert_eq!(bed.versions(&[key(0, "a", 0)])[0], seen[seen.len() - 1], "nothing of that changed it");
}

#[test]
fn what_is_tried_changes_nothing() {
    let mut bed = Bed::default();
    bed.run(&[(0, "rpush l a b c")]);
    let before = bed.space.clone();
    let tried = bed.ask(RedisAsk::Try {
        watched: vec![],
        seen: vec![],
        commands: commands(&[(0, "lpop l"), (0, "lrange l 0 -1"), (0, "set n 1"), (0, "get n")]),
    });
    let Ok(RedisAnswer::Tried { replies, keys }) = tried else { panic!("{tried:?}") };
    assert_eq!(replies[0], bulk("a"));
    assert_eq!(replies[1], Reply::Array(vec![bulk("b"), bulk("c")]));
    assert_eq!(replies[3], bulk("1"));
    assert_eq!(bed.space, before);
    assert_eq!(
        keys.iter().map(|key| (&key.key[..], key.version > 0)).collect::<Vec<_>>(),
        [(&b"l"[..], true), (b"n", false)]
    );
    // What was tried can be done, while the keys are as they were.
    let watched = keys.clone();
    let done = bed.ask(RedisAsk::Transaction { watched, commands: commands(&[(0, "lpop l"), (0, "set n 1")]) });
    assert_eq!(done, Ok(RedisAnswer::Replies { replies: vec![bulk("a"), Reply::Ok] }));
    let again = bed.ask(RedisAsk::Transaction { watched: keys, commands: commands(&[(0, "lpop l")]) });
    assert_eq!(again, Ok(RedisAnswer::Aborted));
}

#[test]
fn a_script_does_what_it_saw_or_nothing() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1"), (0, "sadd s a b c d e f g h"), (1, "set x 1")]);
    let step = |bed: &mut Bed, watched: &[KeyVersion], seen: &[u64], lines: &[(u8, &str)]| {
        let (watched, seen) = (watched.to_vec(), seen.to_vec());
        bed.ask(RedisAsk::Try { watched, seen, commands: commands(lines) }).unwrap()
    };
    let tried = |answer: RedisAnswer| match answer {
        RedisAnswer::Tried { replies, keys } => (replies, keys),
        other => panic!("{other:?}"),
    };
    let (replies, watched) = tried(step(&mut bed, &[], &[], &[(0, "get a")]));
    assert_eq!((&replies[0], watched.len()), (&bulk("1"), 1));
    let mut done = vec![(0, "spop s"), (0, "dbsize"), (0, "incr a")];
    let mut seen = Vec::new();
    for upto in 1..=done.len() {
        let (replies, _) = tried(step(&mut bed, &watched, &seen, &done[..upto]));
        assert_eq!(replies.len(), 1, "only of what was not seen");
        seen.push(replies[0].digest());
    }
    let whole = |seen: &[u64]| RedisAsk::Script {
        watched: watched.clone(),
        seen: seen.to_vec(),
        commands: commands(&[(0, "spop s"), (0, "dbsize"), (0, "incr a")]),
    };
    // Another reply than was seen: nothing is done, whichever it is.
    for at in 0..3 {
        let mut other = seen.clone();
        other[at] ^= 1;
        let before = bed.space.clone();
        assert_eq!(bed.ask(whole(&other)), Ok(RedisAnswer::Aborted));
        assert_eq!(bed.space, before);
    }
    // A change that no reply shows does not disturb it; one that DBSIZE shows does.
    bed.run(&[(1, "set x 2"), (0, "set new 1")]);
    assert_eq!(bed.ask(whole(&seen)), Ok(RedisAnswer::Aborted));
    bed.run(&[(0, "del new")]);
    let before = bed.space.clone();
    let committed = bed.ask(whole(&seen));
    let Ok(RedisAnswer::Replies { replies }) = committed else { panic!("{committed:?}") };
    assert_eq!(replies.iter().map(Reply::digest).collect::<Vec<_>>(), seen, "the same picks");
    assert_eq!(bed.run(&[(0, "get a"), (0, "scard s")]), [bulk("2"), Reply::Integer(7)]);
    // What was read has changed since, by the script itself.
    let now = bed.space.clone();
    assert_eq!(bed.ask(whole(&[])), Ok(RedisAnswer::Aborted));
    assert_eq!(step(&mut bed, &watched, &[], &[(0, "get a")]), RedisAnswer::Aborted);
    assert!(bed.space == now && now != before);
    done.truncate(1);
    let beyond = RedisAsk::Script { watched: vec![], seen: vec![1, 2], commands: commands(&done) };
    assert!(bed.ask(beyond).is_err());
}

#[test]
fn scripts_are_kept_beside_the_databases() {
    let mut bed = Bed::default();
    bed.run(&[(16, "hset scripts a b"), (0, "set a 1"), (3, "set a 1")]);
    assert_eq!(bed.run(&[(0, "flushall"), (0, "swapdb 0 16")])[1], Reply::Error("ERR DB index is out of range".into()));
    assert_eq!(bed.run(&[(16, "hget scripts a"), (0, "dbsize"), (15, "dbsize")])[0], bulk("b"));
    assert_eq!(bed.run(&[(16, "flushdb"), (16, "dbsize")]), [Reply::Ok, Reply::Integer(0)]);
    assert!(bed.ask(RedisAsk::Commands { commands: commands(&[(17, "set a 1")]) }).is_err());
}

#[test]
fn a_read_waits_until_a_key_changes() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1")]);
    let seen = bed.versions(&[key(0, "a", 0)])[0];
    let wait = |version| {
        RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::AwaitKeys { keys: vec![key(0, "a", version)] } }.to_bytes()
    };
    let answer = |bed: &Bed, asked: &Bytes| query(0, &bed.space, asked).unwrap();
    assert!(waits(&wait(seen)));
    assert_eq!(next_query(&wait(seen), &answer(&bed, &wait(seen))), Some(wait(seen)));
    assert_eq!(next_query(&wait(0), &answer(&bed, &wait(0))), None);
    bed.run(&[(0, "del a")]);
    assert_eq!(next_query(&wait(seen), &answer(&bed, &wait(seen))), None);
    // No other question waits, and no words of a client.
    let call = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Versions { keys: vec![key(0, "a", 0)] } }.to_bytes();
    assert!(
        !waits(&call) && !waits(&super::super::Command(words("get aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")).to_bytes())
    );
}

#[test]
fn what_reads_is_no_write_and_the_other_way_round() {
    let bed = Bed::default();
    let read = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Versions { keys: vec![] } };
    assert!(validate(&read.to_bytes()).is_err());
    let write = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Commands { commands: commands(&[(0, "set a 1")]) } };
    assert!(decode_reply::<RedisAnswer>(query(0, &bed.space, &write.to_bytes()).unwrap()).is_err());
    let sweep = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Sweep };
    assert!(decode_reply::<RedisAnswer>(query(0, &bed.space, &sweep.to_bytes()).unwrap()).is_err());
    assert_eq!(bed.space, MapSpace::default());
}

#[test]
fn flushall_empties_every_database() {
    let mut bed = Bed::default();
    bed.run(&[(0, "set a 1"), (7, "hset h f v"), (15, "set a 1 px 5"), (3, "flushall")]);
    assert_eq!(
        bed.run(&[(0, "dbsize"), (7, "dbsize"), (15, "dbsize")]),
        [Reply::Integer(0), Reply::Integer(0), Reply::Integer(0)]
    );
    bed.run(&[(7, "set h 1")]);
    assert_eq!(bed.run(&[(7, "get h"), (15, "get a")]), [bulk("1"), Reply::Nil]);
}

#[test]
fn dates_are_of_the_doors_clock() {
    let mut bed = Bed { now: 5_000, ..Bed::default() };
    // The door's clock stands at 1,005,000.
    bed.run(&[(0, "set a 1 pxat 1007000"), (0, "set b 1"), (0, "expireat b 1006"), (0, "set c 1 exat 1000")]);
    assert_eq!(
        bed.run(&[(0, "pttl a"), (0, "pttl b"), (0, "get c")]),
        [Reply::Integer(2_000), Reply::Integer(1_000), Reply::Nil]
    );
    assert_eq!(
        bed.run(&[(0, "pexpiretime a"), (0, "expiretime b")]),
        [Reply::Integer(1_007_000), Reply::Integer(1_006)]
    );
    assert_eq!(
        bed.run(&[(0, "pexpireat b 900000"), (0, "exists b"), (0, "pexpiretime b")]),
        [Reply::Integer(1), Reply::Integer(0), Reply::Integer(-2)]
    );
}

#[test]
fn what_is_wrong_with_a_command_is_its_own_error() {
    let mut bed = Bed::default();
    let mut all = commands(&[(0, "set a 1"), (0, "set b x"), (0, "incr a")]);
    all[1].words[2] = vec![0; VALUE_BYTES_MAX + 1].into();
    let done = bed.ask(RedisAsk::Commands { commands: all });
    let Ok(RedisAnswer::Replies { replies }) = done else { panic!("{done:?}") };
    assert_eq!((&replies[0], &replies[2]), (&Reply::Ok, &Reply::Integer(2)));
    assert!(matches!(&replies[1], Reply::Error(text) if text.contains("at most 1048576 are taken")));
    assert_eq!(bed.run(&[(0, "exists b")]), [Reply::Integer(0)]);
}

#[test]
fn a_call_ends_where_its_replies_are_too_large() {
    let mut bed = Bed::default();
    let big = "v".repeat(1 << 20);
    for n in 0..10 {
        bed.run(&[(0, &format!("set k{n} {big}"))]);
    }
    let reads: Vec<String> = (0..10).map(|n| format!("get k{n}")).collect();
    let takes: Vec<String> = (0..10).map(|n| format!("getdel k{n}")).collect();
    let reads: Vec<(u8, &str)> = reads.iter().map(|line| (0, line.as_str())).collect();
    let takes: Vec<(u8, &str)> = takes.iter().map(|line| (0, line.as_str())).collect();
    assert_eq!(bed.run(&reads).len(), 4);
    // What was not carried out is still there, and the rest can be asked for.
    assert_eq!(bed.run(&takes).len(), 4);
    assert_eq!(bed.run(&[(0, "dbsize")]), [Reply::Integer(6)]);
    assert_eq!(bed.run(&takes[4..]).len(), 4);
    // A transaction is carried out whole; what does not fit is left out of the answer.
    let ask = RedisAsk::Transaction {
        watched: vec![],
        commands: commands(&[reads.as_slice(), &reads, &reads, &reads, &reads, &reads].concat()),
    };
    for n in 0..10 {
        bed.run(&[(0, &format!("set k{n} {big}"))]);
    }
    let done = bed.ask(ask);
    let Ok(RedisAnswer::Replies { replies }) = done else { panic!("{done:?}") };
    assert_eq!(replies.len(), 60);
    assert!(replies.iter().map(size).sum::<usize>() < 10 << 20);
    assert!(matches!(&replies[59], Reply::Error(text) if text.starts_with("ERR the command was carried out")));
}

#[test]
fn a_call_ends_where_it_has_worked_long() {
    let mut bed = Bed::default();
    let members: Vec<String> = (0..30_000).map(|n| format!("{n} m{n}")).collect();
    for part in members.chunks(5_000) {
        bed.run(&[(0, &format!("zadd z {}", part.join(" ")))]);
    }
    let line = (0, "zrank z m29999");
    assert_eq!(bed.run(&[line; 3]), [Reply::Integer(29_999), Reply::Integer(29_999), Reply::Integer(29_999)]);
    let done = bed.run(&[line; 50]).len();
    assert!((3..8).contains(&done), "{done}");
    // Among commands that write, too.
    let mixed: Vec<(u8, &str)> = std::iter::once((0, "set a 1")).chain([line; 50]).collect();
    assert!((3..8).contains(&bed.run(&mixed).len()));
}

#[test]
fn a_read_that_looks_at_too_much_is_an_error() {
    let space = MapSpace::default();
    let work = Work::default();
    let counted = Counted::new(&space, work.clone());
    assert_eq!(read_one(&counted, || Ok(Reply::Ok)).unwrap(), Reply::Ok);
    let mut space = MapSpace::default();
    for n in 0..3u8 {
        crate::contract::SpaceWrite::put(&mut space, vec![n].into(), Bytes::new());
    }
    let counted = Counted::new(&space, work.clone());
    let walk = |before: u64| {
        let seen = std::cell::Cell::new(0);
        let reply = read_one(&counted, || {
            work.add(before);
            let range = base_engine::KeyRange { start: &[], end: None };
            counted.range(range, base_engine::Direction::Forward, &mut |_, _| {
                seen.set(seen.get() + 1);
                std::ops::ControlFlow::Continue(())
            })?;
            Ok(Reply::Ok)
        });
        (seen.get(), reply.unwrap())
    };
    assert_eq!(walk(COMMAND_WORK_MAX - 3), (3, Reply::Ok));
    let (seen, reply) = walk(COMMAND_WORK_MAX - 2);
    assert_eq!(seen, 2);
    assert!(matches!(reply, Reply::Error(text) if text.contains("looks at more than")));
    assert_eq!(walk(0), (3, Reply::Ok));
}

#[test]
fn what_is_picked_at_random_differs_within_a_call() {
    let mut bed = Bed::default();
    bed.run(&[(0, "sadd s a b c d e f g h i j k l m n o p")]);
    let picked = bed.run(&[(0, "srandmember s"); 20]);
    assert!(picked.iter().any(|reply| *reply != picked[0]), "{picked:?}");
    let ask = RedisAsk::Transaction {
        watched: vec![],
        commands: commands(&[&[(0, "set x 1")][..], &[(0, "srandmember s"); 20]].concat()),
    };
    let Ok(RedisAnswer::Replies { replies }) = bed.ask(ask) else { panic!() };
    assert!(replies[1..].iter().any(|reply| *reply != replies[1]), "{replies:?}");
}
