//! Requests built once and patched in place: a client's turn costs no formatting.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;

/// `bench-` and twelve digits: 18 bytes, so that base64 (24) needs no padding and keeps its length.
const KEY_BYTES: usize = 18;

/// As many numbers as twelve digits tell.
const NUMBERS: u64 = 1_000_000_000_000;
/// Times this, modulo [`NUMBERS`], every number has a place of its own, far from its neighbours' (the golden ratio; it
/// has no divisor in common with a power of ten).
const FAR: u64 = 618_033_988_749;

/// The bucket of the object workloads.
pub const BUCKET: &str = "hive-bench";

/// How keys lie that are written one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Each behind the one before.
    #[default]
    Growing,
    /// Evenly all over, in no order.
    Spread,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// JSON `KvPut` at a level.
    Put(&'static str),
    /// JSON `KvGet` at a level.
    Get(&'static str),
    /// `POST /put`
    PlainPut,
    /// `POST /put` at a level.
    PlainPutAt(&'static str),
    /// `GET /get`
    PlainGet,
    /// JSON `PutObject`, strong, into the bucket [`BUCKET`].
    ObjectPut,
    /// JSON `GetObject`, strong.
    ObjectGet,
    /// JSON `ListObjectsV2`: a page of 1,000 keys behind a key.
    ObjectList,
    /// etcd's JSON gateway, `/v3/kv/put`.
    EtcdPut,
    /// etcd's JSON gateway, `/v3/kv/range`; `true`: serializable.
    EtcdGet(bool),
}

impl Operation {
    /// Whether it only reads.
    pub fn reads(self) -> bool {
        use Operation::{EtcdGet, Get, ObjectGet, ObjectList, PlainGet};
        matches!(self, Get(_) | PlainGet | EtcdGet(_) | ObjectGet | ObjectList)
    }

    /// Whether an answer with status 200 is what was asked for: a read must have found its key.
    pub fn satisfied(self, body: &[u8]) -> bool {
        let head = &body[..body.len().min(64)];
        match self {
            Operation::Get(_) => contains(head, b"\"found\":true"),
            Operation::PlainGet => !body.is_empty(),
            Operation::EtcdGet(_) => contains(body, b"\"kvs\""),
            // What is not there is a 404.
            Operation::ObjectGet | Operation::ObjectList => true,
            Operation::Put(_) | Operation::PlainPut | Operation::PlainPutAt(_) | Operation::EtcdPut => true,
            Operation::ObjectPut => true,
        }
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The bytes of a request and where its key stands in them.
#[derive(Clone, Debug)]
pub struct Template {
    pub operation: Operation,
    bytes: Vec<u8>,
    key_at: usize,
    base64: bool,
    order: Order,
}

/// Printable bytes that do not repeat, the same each time.
fn value(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..length).map(|_| next()).collect()
}

fn key(number: u64, order: Order) -> [u8; KEY_BYTES] {
    let mut out = *b"bench-000000000000";
    let mut rest = match order {
        Order::Growing => number,
        Order::Spread => (u128::from(number) * u128::from(FAR) % u128::from(NUMBERS)) as u64,
    };
    for digit in out[6..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out
}

impl Template {
    /// The request of an operation with values of a size.
    pub fn new(operation: Operation, value_bytes: usize, order: Order) -> Template {
        let first = key(0, Order::Growing);
        let slot = String::from_utf8_lossy(&first).into_owned();
        let encoded = STANDARD.encode(first);
        let (method, path, body) = match operation {
            Operation::Put(level) => {
                let value = value(value_bytes);
                (
                    "POST",
                    "/".into(),
                    format!(r#"{{"action":"KvPut","key":"{slot}","consistency":"{level}","value":"{value}"}}"#),
                )
            }
            Operation::Get(level) => {
                ("POST", "/".into(), format!(r#"{{"action":"KvGet","key":"{slot}","read_consistency":"{level}"}}"#))
            }
            Operation::PlainPut => ("POST", format!("/put?key={slot}"), value(value_bytes)),
            Operation::PlainPutAt(level) => {
                ("POST", format!("/put?key={slot}&consistency={level}"), value(value_bytes))
            }
            Operation::PlainGet => ("GET", format!("/get?key={slot}"), String::new()),
            Operation::ObjectPut => {
                let value = STANDARD.encode(value(value_bytes));
                let body = format!(
                    r#"{{"action":"PutObject","bucket":"{BUCKET}","key":"{slot}","consistency":"strong","body_base64":"{value}"}}"#
                );
                ("POST", "/".into(), body)
            }
            Operation::ObjectGet => {
                let body = format!(
                    r#"{{"action":"GetObject","bucket":"{BUCKET}","key":"{slot}","read_consistency":"strong"}}"#
                );
                ("POST", "/".into(), body)
            }
            Operation::ObjectList => {
                let body = format!(
                    r#"{{"action":"ListObjectsV2","bucket":"{BUCKET}","start_after":"{slot}","max_keys":1000}}"#
                );
                ("POST", "/".into(), body)
            }
            Operation::EtcdPut => {
                let value = STANDARD.encode(value(value_bytes));
                ("POST", "/v3/kv/put".into(), format!(r#"{{"key":"{encoded}","value":"{value}"}}"#))
            }
            Operation::EtcdGet(serializable) => {
                ("POST", "/v3/kv/range".into(), format!(r#"{{"key":"{encoded}","serializable":{serializable}}}"#))
            }
        };
        let length = body.len();
        let text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let base64 = matches!(operation, Operation::EtcdPut | Operation::EtcdGet(_));
        let key_at = text.find(if base64 { &encoded } else { &slot }).unwrap_or_default();
        Template { operation, bytes: text.into_bytes(), key_at, base64, order }
    }

    /// Names another key.
    pub fn set_key(&mut self, number: u64) -> &[u8] {
        let key = key(number, self.order);
        if self.base64 {
            let mut encoded = [0; KEY_BYTES / 3 * 4];
            // The buffer has exactly the encoded length, so this cannot fail.
            let _ = STANDARD.encode_slice(key, &mut encoded);
            self.bytes[self.key_at..self.key_at + encoded.len()].copy_from_slice(&encoded);
        } else {
            self.bytes[self.key_at..self.key_at + KEY_BYTES].copy_from_slice(&key);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_patched_in_place() {
        let cases = [
            Operation::Put("strong"),
            Operation::Get("eventual"),
            Operation::PlainPut,
            Operation::PlainPutAt("hopeful"),
            Operation::PlainGet,
            Operation::ObjectPut,
            Operation::ObjectGet,
            Operation::ObjectList,
            Operation::EtcdPut,
            Operation::EtcdGet(true),
        ];
        for operation in cases {
            let mut template = Template::new(operation, 64, Order::Growing);
            let before = template.bytes.len();
            let text = String::from_utf8(template.set_key(42).to_vec()).unwrap();
            assert_eq!(text.len(), before);
            let wanted =
                if template.base64 { STANDARD.encode(b"bench-000000000042") } else { "bench-000000000042".into() };
            assert!(text.contains(&wanted), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())));
            let plain = [Operation::PlainPut, Operation::PlainPutAt("hopeful"), Operation::PlainGet];
            if !plain.contains(&operation) {
                serde_json::from_str::<serde_json::Value>(body).unwrap();
            }
        }
    }

    #[test]
    fn spread_keys_are_all_different_and_lie_everywhere() {
        let keys: std::collections::BTreeSet<_> = (0..10_000).map(|number| key(number, Order::Spread)).collect();
        assert_eq!(keys.len(), 10_000);
        let below = keys.iter().filter(|key| key[6] < b'5').count();
        assert!((4_990..=5_010).contains(&below), "{below} of 10,000 keys lie in the lower half");
        assert_eq!(key(42, Order::Growing), *b"bench-000000000042");
    }

    #[test]
    fn an_absent_key_does_not_pass_for_a_read() {
        assert!(Operation::Get("strong").satisfied(br#"{"ok":true,"found":true,"value":""}"#));
        assert!(!Operation::Get("strong").satisfied(br#"{"ok":true,"found":false,"value":null}"#));
        assert!(!Operation::PlainGet.satisfied(b""));
    }
}
