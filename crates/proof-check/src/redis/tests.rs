use super::*;
use base_types::redis::KeyVersion;

fn command(words: &str) -> RedisCommand {
    RedisCommand { database: 0, words: words.split(' ').map(|word| Bytes::from(word.to_string())).collect() }
}

fn bulk(text: &'static str) -> RedisReply {
    RedisReply::Bulk(text.into())
}

/// A call whose first two replies say its place and its time.
fn call(first: &str, words: &[&str], (invoked, place, time): (u64, i64, i64), replies: Vec<RedisReply>) -> Call {
    let own = [RedisReply::Integer(place), RedisReply::Integer(CLOCK_MS as i64 - time)];
    let commands = [first, "PTTL clock"].into_iter().chain(words.iter().copied()).map(command).collect();
    Call {
        asked: RedisAsk::Commands { commands },
        unix_ms: 1_000_000,
        strong: true,
        invoked,
        returned: Some(invoked + 900),
        ending: Ending::Ok,
        told: Some(RedisAnswer::Replies { replies: own.into_iter().chain(replies).collect() }),
        watched: None,
    }
}

/// A key that expires, a pop, a transaction that watches, one that is aborted, a call without an answer, and a message. All of it is right.
fn story() -> Book {
    let ok = RedisReply::Ok;
    let mut calls = vec![
        call("RPUSH journal 0", &["SET clock set PX 1099511627776"], (0, 1, 0), vec![ok.clone()]),
        call(
            "RPUSH journal 1",
            &["SET k v PX 40", "LPUSH q a"],
            (10_000, 2, 10),
            vec![ok.clone(), RedisReply::Integer(1)],
        ),
        call("LLEN journal", &["GET k", "PTTL k"], (20_000, 2, 20), vec![bulk("v"), RedisReply::Integer(30)]),
        call("RPUSH journal 3", &["BLPOP q 0"], (30_000, 3, 30), vec![RedisReply::Array(vec![bulk("q"), bulk("a")])]),
        call("LLEN journal", &["GET w"], (40_000, 3, 40), vec![RedisReply::Nil]),
        call("RPUSH journal 5", &["SET w 1"], (50_000, 4, 50), vec![ok.clone()]),
        call("RPUSH journal 6", &["PUBLISH c m"], (60_000, 5, 60), vec![RedisReply::Integer(0)]),
        call("RPUSH journal 7", &["SET w 2"], (65_000, 6, 65), vec![ok]),
        call("LLEN journal", &["GET k", "GET one", "GET other"], (70_000, 6, 70), vec![RedisReply::Nil; 3]),
    ];
    // The door's calls are transactions where a client watches.
    let watched = |version| vec![KeyVersion { database: 0, key: "w".into(), version }];
    let transact = |call: &mut Call, version, since| {
        let RedisAsk::Commands { commands } = call.asked.clone() else { return };
        call.asked = RedisAsk::Transaction { watched: watched(version), commands };
        call.watched = Some(since);
    };
    transact(&mut calls[5], 0, Watched { invoked: 35_000, looked: 3 });
    let mut aborted = calls[5].clone();
    (aborted.invoked, aborted.returned, aborted.told) = (51_000, Some(52_000), Some(RedisAnswer::Aborted));
    calls.push(aborted);
    // The first call makes the clock.
    if let Some(RedisAnswer::Replies { replies }) = &mut calls[0].told {
        replies[1] = RedisReply::Integer(-2);
    }
    // Nobody knows what became of the message's call.
    (calls[6].ending, calls[6].told, calls[6].returned) = (Ending::Unknown, None, None);
    let message = RedisMessage { number: 1, sharded: false, channel: "c".into(), message: "m".into() };
    let reader = Reader { from: 0, seen: vec![message], lost: false };
    Book { calls, readers: vec![reader.clone(), reader], journal: Some(vec![0, 1, 3, 5, 6, 7]), leaps: false }
}

fn broken(bend: impl FnOnce(&mut Book)) -> bool {
    let mut book = story();
    bend(&mut book);
    !check(&book).is_empty()
}

fn reply(book: &mut Book, call: usize, of: usize, reply: RedisReply) {
    let Some(RedisAnswer::Replies { replies }) = &mut book.calls[call].told else { panic!("no replies") };
    replies[of] = reply;
}

#[test]
fn right_story_passes_and_each_wrong_one_is_noticed() {
    assert_eq!(check(&story()), vec![]);
    let journal = |book: &mut Book, journal: Vec<u64>| book.journal = Some(journal);
    assert!(broken(|book| journal(book, vec![0, 1, 3, 5, 6, 7, 3])), "a pop is carried out twice");
    assert!(broken(|book| journal(book, vec![0, 1, 3, 5, 6])), "an acknowledged call is lost");
    assert!(broken(|book| book.calls[6].ending = Ending::Failed), "what was refused is there");
    assert!(!broken(|book| journal(book, vec![0, 1, 3, 5, 6, 7])));
    assert!(broken(|book| reply(book, 8, 2, bulk("v"))), "a key is there after its end");
    assert!(broken(|book| reply(book, 2, 2, RedisReply::Nil)), "a key is gone before its end");
    assert!(broken(|book| reply(book, 2, 3, RedisReply::Integer(31))), "its time is wrong");
    assert!(broken(|book| reply(book, 3, 2, RedisReply::NilArray)), "a pop finds nothing where there is something");
    assert!(broken(|book| reply(book, 8, 3, bulk("x"))), "half a transaction");
    assert!(
        broken(|book| reply(book, 7, 1, RedisReply::Integer(CLOCK_MS as i64 - 45))),
        "the cluster's time steps back"
    );
    assert!(broken(|book| reply(book, 7, 1, RedisReply::Integer(CLOCK_MS as i64 - 5_000))), "it runs ahead");
    assert!(
        broken(|book| (book.calls[7].invoked, book.calls[7].returned) = (15_000, Some(16_000))),
        "not in real time"
    );
    assert!(
        broken(|book| book.calls[5].watched = Some(Watched { invoked: 0, looked: 3 }).filter(|_| {
            let RedisAsk::Transaction { watched, .. } = &mut book.calls[5].asked else { return false };
            watched[0].version = 7;
            true
        })),
        "what it watched is gone"
    );
    assert!(
        broken(|book| {
            let RedisAsk::Transaction { watched, .. } = &mut book.calls[9].asked else { return };
            watched[0].key = "other".into();
        }),
        "it was aborted for nothing"
    );
    assert!(broken(|book| drop(book.readers[0].seen.remove(0))), "a message is lost");
    assert!(broken(|book| book.readers[0].seen = [&book.readers[0].seen[..]; 2].concat()), "it comes twice");
    assert!(broken(|book| book.readers[1].seen[0].message = "other".into()), "readers are given different messages");
    assert!(broken(|book| book.readers[1].lost = true), "messages are lost within the ring");
}

#[test]
fn an_element_given_twice_needs_no_journal() {
    let mut book = story();
    let again = book.calls[3].clone();
    book.calls.push(again);
    book.journal = None;
    assert_eq!(check(&book).len(), 1);
}

#[test]
fn a_time_that_nobody_knows_counts_for_the_system() {
    let mut book = story();
    // The key's end is not known, so neither answer is wrong.
    (book.calls[1].ending, book.calls[1].told, book.calls[1].returned) = (Ending::Unknown, None, None);
    book.calls.remove(2);
    book.calls.iter_mut().for_each(|call| call.returned = None);
    book.leaps = true;
    let shift = |id: u64| if id > 1 { id - 1 } else { id };
    book.journal = book.journal.map(|journal| journal.into_iter().map(shift).collect());
    for told in [RedisReply::Nil, bulk("v")] {
        let mut book = book.clone();
        let mut look = story().calls[2].clone();
        (look.invoked, look.returned) = (100_000, Some(100_900));
        look.told = Some(RedisAnswer::Replies {
            replies: vec![RedisReply::Integer(2), RedisReply::Integer(CLOCK_MS as i64 - 45), told, RedisReply::Nil],
        });
        look.asked = RedisAsk::Commands {
            commands: ["LLEN journal", "PTTL clock", "GET k", "GET nothing"].map(command).to_vec(),
        };
        book.calls.push(look);
        assert_eq!(check(&book), vec![]);
    }
}

#[test]
fn a_key_seen_to_have_expired_is_not_there_again() {
    let mut calls: Vec<Call> = story().calls.into_iter().take(2).collect();
    calls.push(call("LLEN journal", &["GET k"], (55_000, 2, 55), vec![RedisReply::Nil]));
    // A new leader's time begins where the last entry had it.
    calls.push(call("LLEN journal", &["GET k"], (60_000, 2, 45), vec![bulk("v")]));
    let mut book = Book { calls, journal: Some(vec![0, 1]), ..Book::default() };
    let found = check(&book);
    assert!(found.len() == 1 && found[0].message.contains("is gone, and it is there"), "{found:?}");
    book.calls[3].invoked = 55_500;
    assert_eq!(check(&book), vec![]);
}
