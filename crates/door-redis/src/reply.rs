//! Replies as bytes, in RESP2 and RESP3.
//!
//! By design: the database's replies have RESP3's kinds; for clients that speak RESP2 maps, sets and pairs become flat arrays, doubles
//! bulk strings. Lines (statuses, errors) have no line ends in them, whatever they were made of.
//! Not here: what is replied.

use base_types::redis::RedisReply;
use bytes::{BufMut, BytesMut};

/// Which version a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// RESP2, with which every connection begins.
    #[default]
    Two,
    /// RESP3, by `HELLO 3`.
    Three,
}

fn head(out: &mut BytesMut, kind: u8, count: usize) {
    number(out, kind, count as i64);
}

fn number(out: &mut BytesMut, kind: u8, value: i64) {
    let mut digits = [0; 20];
    let (mut at, mut left) = (digits.len(), value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.put_u8(kind);
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
    out.put_slice(b"\r\n");
}

/// A status or an error: one line.
fn line(out: &mut BytesMut, kind: u8, text: &str) {
    out.put_u8(kind);
    out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.put_slice(b"\r\n");
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Writes a reply.
pub fn write(out: &mut BytesMut, protocol: Protocol, reply: &RedisReply) {
    let three = protocol == Protocol::Three;
    match reply {
        RedisReply::Ok => out.put_slice(b"+OK\r\n"),
        RedisReply::Nil | RedisReply::NilArray if three => out.put_slice(b"_\r\n"),
        RedisReply::Nil => out.put_slice(b"$-1\r\n"),
        RedisReply::NilArray => out.put_slice(b"*-1\r\n"),
        RedisReply::Integer(value) => number(out, b':', *value),
        RedisReply::Bulk(bytes) => bulk(out, bytes),
        RedisReply::Status(text) => line(out, b'+', text),
        RedisReply::Error(text) => line(out, b'-', text),
        RedisReply::Double(text) if three => line(out, b',', &String::from_utf8_lossy(text)),
        RedisReply::Double(text) => bulk(out, text),
        RedisReply::Array(items) => list(out, protocol, b'*', items),
        RedisReply::Set(items) => list(out, protocol, if three { b'~' } else { b'*' }, items),
        RedisReply::Map(pairs) => flat(out, protocol, three.then_some(b'%'), pairs),
        RedisReply::Streams(pairs) if three => flat(out, protocol, Some(b'%'), pairs),
        RedisReply::Pairs(pairs) if !three => flat(out, protocol, None, pairs),
        RedisReply::Streams(pairs) | RedisReply::Pairs(pairs) => {
            head(out, b'*', pairs.len());
            for (left, right) in pairs {
                head(out, b'*', 2);
                write(out, protocol, left);
                write(out, protocol, right);
            }
        }
    }
}

fn list(out: &mut BytesMut, protocol: Protocol, kind: u8, items: &[RedisReply]) {
    head(out, kind, items.len());
    items.iter().for_each(|item| write(out, protocol, item));
}

/// Both of each pair in turn: as a map where there is a kind for it, else as an array of twice as many.
fn flat(out: &mut BytesMut, protocol: Protocol, kind: Option<u8>, pairs: &[(RedisReply, RedisReply)]) {
    match kind {
        Some(kind) => head(out, kind, pairs.len()),
        None => head(out, b'*', pairs.len() * 2),
    }
    for (left, right) in pairs {
        write(out, protocol, left);
        write(out, protocol, right);
    }
}

/// What a subscriber is sent without having asked: a push in RESP3, an array in RESP2.
pub fn push(out: &mut BytesMut, protocol: Protocol, items: &[RedisReply]) {
    list(out, protocol, if protocol == Protocol::Three { b'>' } else { b'*' }, items);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn text(protocol: Protocol, reply: &RedisReply) -> String {
        let mut out = BytesMut::new();
        write(&mut out, protocol, reply);
        String::from_utf8(out.to_vec()).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn each_kind_is_written_in_both_versions() {
        let bulk = |text: &'static str| RedisReply::Bulk(Bytes::from_static(text.as_bytes()));
        let pair = || vec![(bulk("a"), RedisReply::Double(Bytes::from_static(b"1.5")))];
        let cases = [
            (RedisReply::Ok, "+OK ", "+OK "),
            (RedisReply::Nil, "$-1 ", "_ "),
            (RedisReply::NilArray, "*-1 ", "_ "),
            (RedisReply::Integer(i64::MIN), ":-9223372036854775808 ", ":-9223372036854775808 "),
            (RedisReply::Error("ERR a\r\nb".into()), "-ERR a  b ", "-ERR a  b "),
            (RedisReply::Array(vec![bulk(""), RedisReply::Integer(0)]), "*2 $0  :0 ", "*2 $0  :0 "),
            (RedisReply::Set(vec![bulk("x")]), "*1 $1 x ", "~1 $1 x "),
            (RedisReply::Map(pair()), "*2 $1 a $3 1.5 ", "%1 $1 a ,1.5 "),
            (RedisReply::Pairs(pair()), "*2 $1 a $3 1.5 ", "*1 *2 $1 a ,1.5 "),
            (RedisReply::Streams(pair()), "*1 *2 $1 a $3 1.5 ", "%1 $1 a ,1.5 "),
            (RedisReply::Status("string".into()), "+string ", "+string "),
        ];
        for (reply, two, three) in cases {
            assert_eq!((text(Protocol::Two, &reply).as_str(), text(Protocol::Three, &reply).as_str()), (two, three));
        }
        let mut out = BytesMut::new();
        push(&mut out, Protocol::Three, &[RedisReply::Integer(1)]);
        push(&mut out, Protocol::Two, &[RedisReply::Integer(1)]);
        assert_eq!(&out[..], b">1\r\n:1\r\n*1\r\n:1\r\n");
    }
}
