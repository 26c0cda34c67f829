use super::super::{apply, query, Backend, Redis};
use super::*;
use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::codec::Encode;
use base_types::redis::{RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{Generation, LogIndex, VALUE_BYTES_MAX};

fn publish(space: &mut MapSpace, name: &'static str, messages: &[(Bytes, Bytes)]) {
    let word = |text: &'static str| Bytes::from_static(text.as_bytes());
    let command = |(channel, message): &(Bytes, Bytes)| RedisCommand {
        database: 5,
        words: vec![word(name), channel.clone(), message.clone()],
    };
    let ask = RedisAsk::Commands { commands: messages.iter().map(command).collect() };
    let (life, index) = (Generation(1), LogIndex(1));
    let at = ApplyContext { life, index, position: 0, cluster_time_ms: 1 };
    let call = RedisCall { unix_ms: 0, seed: 0, ask }.to_bytes();
    let answer: RedisAnswer = decode_reply(apply(at, space, &call).unwrap()).unwrap();
    assert_eq!(answer, RedisAnswer::Replies { replies: vec![RedisReply::Integer(0); messages.len()] });
    crate::testing::check(base_types::BackendKind::Redis, space);
    let ring = Ring::read(space).unwrap();
    let kept: Vec<_> = space.rows.iter().filter(|(key, _)| key[0] == MESSAGE).collect();
    let bytes: u64 = kept
        .iter()
        .map(|(_, row)| decode(0, (*row).clone()).unwrap())
        .map(|message| size(&message.channel, &message.message))
        .sum();
    assert_eq!((kept.len() as u64, bytes), (ring.len(), ring.bytes));
    assert!(ring.len() <= CHANNEL_MESSAGES_MAX && ring.bytes <= CHANNEL_BYTES_MAX);
}

fn question(after: u64) -> Bytes {
    RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Messages { after } }.to_bytes()
}

/// The numbers of the messages, where the end is, whether some are lost; and whether the question waits.
fn after(space: &MapSpace, after: u64) -> (Vec<u64>, u64, bool, bool) {
    let reply = query(1, space, &question(after)).unwrap();
    let waits = Redis.next_query(&question(after), &reply).is_some();
    match decode_reply(reply).unwrap() {
        RedisAnswer::Messages { messages, reached, lost } => {
            (messages.iter().map(|message| message.number).collect(), reached, lost, waits)
        }
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn messages_are_read_in_order() {
    let mut space = MapSpace::default();
    assert!(Redis.waits(&question(0)));
    assert_eq!(after(&space, 0), (vec![], 0, false, true));
    assert_eq!(after(&space, u64::MAX), (vec![], 0, false, false));
    publish(&mut space, "publish", &[(text("a"), text("1")), (text(""), text("")), (text("a"), text("3"))]);
    publish(&mut space, "SPUBLISH", &[(text("a"), text("4"))]);
    assert_eq!(after(&space, 0), (vec![1, 2, 3, 4], 4, false, false));
    assert_eq!(after(&space, 2), (vec![3, 4], 4, false, false));
    assert_eq!(after(&space, 4), (vec![], 4, false, true));
    assert_eq!(after(&space, u64::MAX), (vec![], 4, false, false));
    // A member that is behind waits.
    assert_eq!(after(&space, 9), (vec![], 4, false, true));
    let RedisAnswer::Messages { messages, .. } = messages(&space, 2).unwrap() else { panic!() };
    let message = |number, sharded, message| RedisMessage { number, sharded, channel: text("a"), message };
    assert_eq!(messages, [message(3, false, text("3")), message(4, true, text("4"))]);
}

#[test]
fn channels_keep_the_last_messages() {
    let mut space = MapSpace::default();
    let some: Vec<_> = (0..2_000).map(|number: u64| (text("c"), text(&number.to_string()))).collect();
    for _ in 0..3 {
        publish(&mut space, "publish", &some);
    }
    assert_eq!(Ring::read(&space).unwrap().len(), CHANNEL_MESSAGES_MAX);
    let first = 6_000 - CHANNEL_MESSAGES_MAX + 1;
    let (numbers, reached, lost, _) = after(&space, 17);
    assert_eq!((numbers.first(), reached, lost), (Some(&first), 6_000, true));
    assert!(!after(&space, first - 1).2 && after(&space, first - 2).2);
    // Long messages push out as many as it takes, and are read in parts.
    let long = || (Bytes::from(vec![b'c'; VALUE_BYTES_MAX]), Bytes::from(vec![b'm'; VALUE_BYTES_MAX]));
    publish(&mut space, "publish", &[long()]);
    assert_eq!(Ring::read(&space).unwrap().len(), CHANNEL_MESSAGES_MAX);
    publish(&mut space, "publish", &[long()]);
    assert_eq!(after(&space, 6_000), (vec![6_001], 6_002, false, false));
    assert_eq!(after(&space, 6_001), (vec![6_002], 6_002, false, false));
    publish(&mut space, "publish", &[long()]);
    assert_eq!(Ring::read(&space).unwrap(), Ring { first: 6_002, last: 6_003, bytes: 4 << 20 });
}
