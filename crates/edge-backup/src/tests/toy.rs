//! A world in memory: versioned keyspaces with pins and compaction, and plain ones, behind the actions that a backup uses.

use crate::Store;
use bytes::Bytes;
use hive_client::{bytes_field, put_bytes, ClientError};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Keys of a page.
const PAGE: usize = 7;

/// What a put leaves.
#[derive(Clone)]
struct Row {
    stamp: u64,
    lease: u64,
    value: Option<Bytes>,
}

#[derive(Default)]
struct Space {
    kind: String,
    clusters: u64,
    generation: u64,
    stamp: u64,
    compacted: u64,
    pins: BTreeMap<u64, u64>,
    rows: BTreeMap<Bytes, Vec<Row>>,
}

#[derive(Default)]
struct World {
    spaces: BTreeMap<String, Space>,
    /// Every scan is followed by a write of this many keys.
    busy: bool,
    /// Scans, batches and writes that are answered before the tool is "killed".
    left: Option<u32>,
    writes: u64,
}

#[derive(Clone, Default)]
pub struct Toy(Arc<Mutex<World>>);

impl Toy {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub fn make(&self, name: &str, kind: &str, clusters: u64) {
        let space = Space { kind: kind.into(), clusters, generation: 1, stamp: 1, ..Space::default() };
        self.world().spaces.insert(name.into(), space);
    }

    pub fn put(&self, name: &str, key: &str, value: &str) {
        self.put_leased(name, key, value, 0);
    }

    pub fn put_leased(&self, name: &str, key: &str, value: &str, lease: u64) {
        self.world().space(name).change(
            Bytes::copy_from_slice(key.as_bytes()),
            Some(Bytes::copy_from_slice(value.as_bytes())),
            lease,
        );
    }

    pub fn delete(&self, name: &str, key: &str) {
        self.world().space(name).change(Bytes::copy_from_slice(key.as_bytes()), None, 0);
    }

    /// All keys, at a stamp or now.
    pub fn content(&self, name: &str, at: Option<u64>) -> BTreeMap<Bytes, Bytes> {
        let mut world = self.world();
        let space = world.space(name);
        let at = at.unwrap_or(u64::MAX);
        let rows = space.rows.iter().filter_map(|(key, rows)| Some((key.clone(), as_of(rows, at)?.value.clone()?)));
        rows.collect()
    }

    pub fn keep_busy(&self, busy: bool) {
        self.world().busy = busy;
    }

    /// After so many reads and writes nothing is answered any more; none: all are.
    pub fn answer_only(&self, left: Option<u32>) {
        self.world().left = left;
    }

    pub fn writes(&self) -> u64 {
        self.world().writes
    }

    pub fn pins(&self, name: &str) -> usize {
        self.world().space(name).pins.len()
    }

    /// Drops all pins, and what was readable only through them.
    pub fn compact(&self, name: &str, drop_pins: bool) {
        let mut world = self.world();
        let space = world.space(name);
        space.compacted = space.stamp;
        if drop_pins {
            space.pins.clear();
        }
    }

    pub fn begin_life(&self, name: &str) {
        self.world().space(name).generation += 1;
    }
}

impl Store for Toy {
    async fn ask(&self, body: Value) -> Result<Value, ClientError> {
        self.world().answer(&body)
    }
}

fn as_of(rows: &[Row], at: u64) -> Option<&Row> {
    rows.iter().rev().find(|row| row.stamp <= at)
}

fn refuse(status: u16, code: &str) -> ClientError {
    let answer = Box::new(json!({"ok": false}));
    ClientError::Refused { status, code: code.into(), message: String::new(), retryable: false, answer }
}

impl Space {
    fn change(&mut self, key: Bytes, value: Option<Bytes>, lease: u64) {
        self.stamp += 1;
        let stamp = self.stamp;
        self.rows.entry(key).or_default().push(Row { stamp, lease, value });
    }

    fn apply(&mut self, step: &Value, deletes: bool) {
        let key = bytes_field(step, "key").unwrap();
        let value = if deletes { None } else { Some(bytes_field(step, "value").unwrap()) };
        self.change(key, value, 0);
    }

    fn pin(&mut self, body: &Value) -> Result<Value, ClientError> {
        let (pin, asked) = (body["pin"].as_u64().unwrap(), body["stamp"].as_u64().unwrap());
        let stamp = match self.pins.get(&pin) {
            Some(held) if asked == 0 || asked == *held => *held,
            Some(_) => return Err(refuse(409, "Conflict")),
            None if asked != 0 && asked < self.compacted => return Err(refuse(400, "StampCompacted")),
            None if asked == 0 => self.stamp,
            None => asked,
        };
        self.pins.insert(pin, stamp);
        let at = json!({"cluster": "versioned@ks-k-0", "id": 7, "generation": self.generation});
        Ok(json!({"ok": true, "stamp": stamp, "until_ms": 90_000, "at": at}))
    }

    fn scan(&self, body: &Value) -> Result<Value, ClientError> {
        let number = |name: &str| body[name].as_u64().unwrap_or(0);
        let at = if number("at") == 0 { u64::MAX } else { number("at") };
        let floor = match number("pin") {
            0 => self.compacted,
            pin => *self.pins.get(&pin).ok_or_else(|| refuse(404, "NoSuchPin"))?,
        };
        if at < floor.min(self.compacted) {
            return Err(refuse(400, "StampCompacted"));
        }
        let (prefix, after) = (bytes_field(body, "prefix").unwrap_or_default(), bytes_field(body, "start_after"));
        let rows = self.rows.iter().filter(|(key, _)| key.starts_with(&prefix) && Some(*key) > after.as_ref());
        let rows = rows.filter_map(|(key, rows)| Some((key, as_of(rows, at)?)));
        let mut rows = rows.filter(|(_, row)| row.value.is_some() && row.stamp >= number("modified_min"));
        let limit = PAGE.min(number("limit") as usize);
        let page: Vec<_> = rows.by_ref().take(limit).collect();
        let next = rows.next().and(page.last().map(|(key, _)| *key));
        let entries: Vec<Value> = page.iter().map(|(key, row)| item(key, row, &self.kind, body)).collect();
        let mut answer = Map::new();
        answer.insert("entries".into(), entries.into());
        if let Some(next) = next {
            put_bytes(&mut answer, "next", next);
        }
        Ok(answer.into())
    }
}

fn item(key: &Bytes, row: &Row, kind: &str, body: &Value) -> Value {
    let mut item = Map::new();
    put_bytes(&mut item, "key", key);
    if body["keys_only"] != true {
        put_bytes(&mut item, "value", row.value.as_ref().unwrap());
    }
    if kind == "versioned" {
        item.insert("modified".into(), row.stamp.into());
        item.insert("lease".into(), row.lease.into());
    }
    item.into()
}

impl World {
    fn space(&mut self, name: &str) -> &mut Space {
        self.spaces.get_mut(name).unwrap()
    }

    fn answer(&mut self, body: &Value) -> Result<Value, ClientError> {
        let action = body["action"].as_str().unwrap().to_owned();
        let name = body["keyspace"].as_str().unwrap_or_default().to_owned();
        if action == "Status" {
            return Ok(json!({"ok": true, "world": "toy"}));
        }
        if action == "CreateKeyspace" {
            let clusters = body["clusters"].as_u64().unwrap_or(1);
            let kind = body["kind"].as_str().unwrap().to_owned();
            self.spaces.insert(name, Space { kind, clusters, generation: 1, stamp: 1, ..Space::default() });
            return Ok(json!({"ok": true}));
        }
        if !self.spaces.contains_key(&name) {
            return Err(refuse(404, "UnknownKeyspace"));
        }
        if action == "KvScan" || action.starts_with("KvBatch") || action == "KvPut" {
            match &mut self.left {
                Some(0) => return Err(refuse(410, "Killed")),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if self.busy && action == "KvScan" {
            let space = self.space(&name);
            let stamp = space.stamp;
            space.change(format!("key-{:02}", stamp % 40).into(), Some("new".into()), 0);
            space.change(format!("key-{:02}", (stamp + 7) % 40).into(), None, 0);
            space.change(format!("key-{stamp}-later").into(), Some("new".into()), 0);
        }
        self.answer_of(&action, &name, body)
    }

    fn answer_of(&mut self, action: &str, name: &str, body: &Value) -> Result<Value, ClientError> {
        let space = self.spaces.get_mut(name).unwrap();
        match action {
            "DescribeKeyspace" => {
                let owners: Vec<String> = (0..space.clusters).map(|n| format!("c{n}")).collect();
                Ok(json!({"keyspace": {
                    "name": name, "kind": space.kind, "rule": "size=3", "engine": null, "partition": "hash",
                    "partitions": space.clusters, "owners": owners, "split_keys": [],
                }}))
            }
            "KvDescribe" => Ok(json!({"stamp": space.stamp, "keys": space.rows.len()})),
            "KvPin" => space.pin(body),
            "KvUnpin" => Ok(json!({"ok": space.pins.remove(&body["pin"].as_u64().unwrap()).is_some()})),
            "KvScan" => space.scan(body),
            "KvBatch" if space.clusters > 1 => Err(refuse(400, "BatchCrossesClusters")),
            "KvBatch" => {
                let steps = body["steps"].as_array().unwrap();
                steps.iter().for_each(|step| space.apply(step, step["op"] == "delete"));
                self.writes += steps.len() as u64;
                Ok(json!({"ok": true}))
            }
            "KvPut" | "KvDelete" => {
                space.apply(body, action == "KvDelete");
                self.writes += 1;
                Ok(json!({"ok": true}))
            }
            other => panic!("the toy does not know {other}"),
        }
    }
}
