//! Typed calls over `Client::action`, and bytes to and from JSON fields.

use crate::{Client, ClientError};
use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use bytes::Bytes;
use serde_json::{json, Map, Value};

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// Its value; empty where only keys were asked for.
    pub value: Bytes,
}

/// Some entries, and where to continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// In the order of the scan.
    pub entries: Vec<Entry>,
    /// The `start_after` of the next page, where there is more.
    pub next: Option<Bytes>,
}

/// What to scan.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Only keys that begin with it.
    pub prefix: Bytes,
    /// Only keys after it.
    pub start_after: Option<Bytes>,
    /// Only keys before it.
    pub end: Option<Bytes>,
    /// Entries of a page; the node's default where absent.
    pub limit: Option<u32>,
    /// From the end down.
    pub reverse: bool,
    /// Without values.
    pub keys_only: bool,
}

/// One step of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchStep {
    /// Sets a key.
    Put(Bytes, Bytes),
    /// Removes a key.
    Delete(Bytes),
}

/// The position that an answer stands for: for [`crate::Options::after`], and for ids `after:POSITION:TEXT`.
pub fn position(answer: &Value) -> Option<String> {
    let number = |name: &str| answer["at"][name].as_u64();
    Some(format!("{}.{}.{}", number("id")?, number("generation")?, number("index")?))
}

/// Base64 as the API takes it.
pub fn base64_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Sets `name`, or `name_base64` where the bytes are no UTF-8.
pub fn put_bytes(body: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => body.insert(name.to_owned(), text.into()),
        Err(_) => body.insert(format!("{name}_base64"), base64_text(bytes).into()),
    };
}

/// Reads `name` or `name_base64`; `None` where both are absent or null.
pub fn bytes_field(value: &Value, name: &str) -> Option<Bytes> {
    if let Some(text) = value[name].as_str() {
        return Some(Bytes::copy_from_slice(text.as_bytes()));
    }
    let encoded = value[format!("{name}_base64").as_str()].as_str()?;
    STANDARD.decode(encoded).ok().map(Bytes::from)
}

fn body(action: &str, keyspace: &str, key: Option<&[u8]>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("action".into(), action.into());
    body.insert("keyspace".into(), keyspace.into());
    if let Some(key) = key {
        put_bytes(&mut body, "key", key);
    }
    body
}

impl Client {
    /// Sets a key. Answers the whole answer (`at`, `level`).
    pub async fn put(&self, keyspace: &str, key: &[u8], value: &[u8]) -> Result<Value, ClientError> {
        let mut body = body("KvPut", keyspace, Some(key));
        put_bytes(&mut body, "value", value);
        self.action(body.into()).await
    }

    /// Reads a key.
    pub async fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Bytes>, ClientError> {
        let answer = self.action(body("KvGet", keyspace, Some(key)).into()).await?;
        Ok(bytes_field(&answer, "value"))
    }

    /// Removes a key; whether it was there.
    pub async fn delete(&self, keyspace: &str, key: &[u8]) -> Result<bool, ClientError> {
        let answer = self.action(body("KvDelete", keyspace, Some(key)).into()).await?;
        Ok(answer["existed"] == true)
    }

    /// Reads one page.
    pub async fn scan(&self, keyspace: &str, scan: &Scan) -> Result<Page, ClientError> {
        let mut body = body("KvScan", keyspace, None);
        put_bytes(&mut body, "prefix", &scan.prefix);
        for (name, bytes) in [("start_after", &scan.start_after), ("end", &scan.end)] {
            if let Some(bytes) = bytes {
                put_bytes(&mut body, name, bytes);
            }
        }
        if let Some(limit) = scan.limit {
            body.insert("limit".into(), limit.into());
        }
        body.insert("reverse".into(), scan.reverse.into());
        body.insert("keys_only".into(), scan.keys_only.into());
        let answer = self.action(body.into()).await?;
        let entry = |item: &Value| Entry {
            key: bytes_field(item, "key").unwrap_or_default(),
            value: bytes_field(item, "value").unwrap_or_default(),
        };
        let entries = answer["entries"].as_array().map(|items| items.iter().map(entry).collect()).unwrap_or_default();
        Ok(Page { entries, next: bytes_field(&answer, "next") })
    }

    /// Several steps in one cluster, all or none.
    pub async fn batch(&self, keyspace: &str, steps: &[BatchStep]) -> Result<Value, ClientError> {
        let step = |step: &BatchStep| {
            let mut body = Map::new();
            let (op, key) = match step {
                BatchStep::Put(key, value) => {
                    put_bytes(&mut body, "value", value);
                    ("put", key)
                }
                BatchStep::Delete(key) => ("delete", key),
            };
            body.insert("op".into(), op.into());
            put_bytes(&mut body, "key", key);
            Value::Object(body)
        };
        let mut body = body("KvBatch", keyspace, None);
        body.insert("steps".into(), steps.iter().map(step).collect::<Vec<_>>().into());
        self.action(body.into()).await
    }

    /// Sets (`Some`) or removes (`None`) a key if its value is `expected`; whether it was.
    pub async fn compare_and_set(
        &self,
        keyspace: &str,
        key: &[u8],
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, ClientError> {
        let mut body = body("KvCompareAndSet", keyspace, Some(key));
        for (name, bytes) in [("expected", expected), ("value", value)] {
            if let Some(bytes) = bytes {
                put_bytes(&mut body, name, bytes);
            }
        }
        match self.action(body.into()).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: 412, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The health of the world as one node sees it.
    pub async fn status(&self) -> Result<Value, ClientError> {
        self.action(json!({"action": "Status"})).await
    }
}
