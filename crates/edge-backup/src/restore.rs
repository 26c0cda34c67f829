//! Makes a keyspace equal to a backup: beside (a new keyspace), or in place.
//!
//! ```text
//!   content of the chain ──┐ in the order of keys
//!   keys that are there ───┴─▶ missing or other: put │ same: nothing │ not in the backup: deleted (in place only) ─▶ batches
//! ```
//!
//! The same comparison continues a stopped restore: what is right already is read and not written.
//!
//! Always: nothing is written before the whole chain was verified. Held by: `restore_writes_nothing_from_a_damaged_backup` (the
//! only way to a [`Chain`] is `verify`).
//! Not here: one instant. A restore is many commits; who reads meanwhile sees some of them.

use crate::content::Content;
use crate::entry::Entry;
use crate::keyspace::{Keyspace, VERSIONED};
use crate::pace::{Pace, Progress};
use crate::pages::{Query, Rows};
use crate::store::{ask, is_refused, Store};
use crate::verify::Chain;
use crate::BackupError;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use bytes::Bytes;
use hive_client::ErrorCode;
use serde_json::{json, Map, Value};
use tokio::task::JoinSet;

/// The most steps of a batch, as the API has it.
const BATCH_STEPS_MAX: usize = 1_024;
/// A batch ends after so many bytes of keys and values: with base64 its request stays below the 4 MiB of a body.
const BATCH_BYTES: usize = 1 << 20;
/// Batches under way.
const BATCHES_PARALLEL: usize = 4;
/// Writes of one key under way, where the keys of a keyspace lie in several clusters.
const SINGLES_PARALLEL: usize = 64;

/// Where a backup goes.
pub enum Place {
    /// A keyspace that is made for it.
    Beside {
        /// Its name.
        name: String,
        /// Its rule; none: as in the backup.
        rule: Option<String>,
        /// It is there already, from a restore that was stopped.
        resume: bool,
    },
    /// A keyspace that is there: what the backup does not have is deleted.
    InPlace {
        /// Its name.
        name: String,
    },
}

/// What is restored, and how.
pub struct RestoreOptions {
    /// Where to.
    pub place: Place,
    /// Only keys that begin with this.
    pub prefix: Bytes,
    /// Bytes of keys and values a second; none: as fast as it can be.
    pub rate: Option<u64>,
    /// Keys that had a lease are restored, too, without it. Else keys with a lease are left out and left alone.
    pub leased: bool,
}

/// What a restore did.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The keyspace.
    pub keyspace: String,
    /// Keys written.
    pub written: u64,
    /// Keys that were right already.
    pub unchanged: u64,
    /// Keys deleted.
    pub deleted: u64,
    /// Keys that the backup does not have, and that were left.
    pub extra: u64,
    /// Keys with a lease, left out or left alone.
    pub leased: u64,
    /// Bytes of keys and values written.
    pub bytes: u64,
    /// The stamp before the first write, where the keyspace has stamps: what was there can be read at it.
    pub stamp_before: Option<u64>,
}

/// Restores what was verified.
pub async fn restore<S: Store>(
    store: &S,
    chain: &Chain,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, BackupError> {
    let (target, fresh) = prepare(store, chain, &options.place).await?;
    let mut report = Restored { keyspace: target.name.clone(), ..Restored::default() };
    if target.kind == VERSIONED {
        let described = ask(store, json!({"action": "KvDescribe", "keyspace": target.name})).await?;
        report.stamp_before = described["stamp"].as_u64();
    }
    let mut wanted = Content::new(&chain.layers, options.prefix.clone(), None);
    let query = Query {
        keyspace: target.name.clone(),
        at: (target.kind == VERSIONED).then_some(0),
        prefix: options.prefix.clone(),
        ..Query::default()
    };
    let mut present = (!fresh).then(|| Rows::new(store, query));
    let mut writer = Writer::new(store, &target, options.rate);
    let in_place = matches!(options.place, Place::InPlace { .. });
    let mut done =
        Progress { of: chain.layers.iter().map(|layer| layer.manifest.entries).sum(), ..Progress::default() };
    loop {
        let there = match &mut present {
            Some(rows) => rows.peek().await?.map(|entry| &entry.key),
            None => None,
        };
        let in_backup = wanted.peek().await?.map(|entry| &entry.key);
        let (take_backup, take_there) = match (in_backup, there) {
            (None, None) => break,
            (Some(own), Some(other)) => (own <= other, other <= own),
            (own, other) => (own.is_some(), other.is_some()),
        };
        let own = if take_backup { wanted.next().await? } else { None };
        let other = match (&mut present, take_there) {
            (Some(rows), true) => rows.next().await?,
            _ => None,
        };
        let size = own.as_ref().or(other.as_ref()).map_or(0, Entry::bytes);
        if let Some(entry) = decide(own, other, in_place, options.leased, &mut report) {
            writer.push(entry).await?;
        }
        (done.entries, done.bytes) = (done.entries + 1, done.bytes + size);
        progress(done);
    }
    writer.finish().await?;
    Ok(report)
}

/// What is written for a key: as it was, gone, or nothing.
fn decide(
    own: Option<Entry>,
    other: Option<Entry>,
    in_place: bool,
    leased: bool,
    report: &mut Restored,
) -> Option<Entry> {
    let has_lease = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.lease != 0);
    if !leased && (has_lease(&own) || has_lease(&other)) {
        report.leased += 1;
        return None;
    }
    match (own, other) {
        (Some(own), Some(other)) if own.value == other.value && other.lease == 0 => {
            report.unchanged += 1;
            None
        }
        (Some(own), _) => {
            (report.written, report.bytes) = (report.written + 1, report.bytes + own.bytes());
            Some(own)
        }
        (None, Some(other)) if in_place => {
            report.deleted += 1;
            Some(Entry::deleted(other.key))
        }
        (None, _) => {
            report.extra += 1;
            None
        }
    }
}

/// The keyspace to write to, and whether it is known to be empty.
async fn prepare<S: Store>(store: &S, chain: &Chain, place: &Place) -> Result<(Keyspace, bool), BackupError> {
    let source = &chain.manifest().keyspace;
    let (name, rule, resume) = match place {
        Place::InPlace { name } => {
            let found = Keyspace::describe(store, name).await?;
            return Ok((same_kind(found, source)?, false));
        }
        Place::Beside { name, rule, resume } => (name, rule.as_deref(), *resume),
    };
    match Keyspace::describe(store, name).await {
        Ok(found) => {
            let found = same_kind(found, source)?;
            let empty = is_empty(store, name).await?;
            match empty || resume {
                true => Ok((found, empty)),
                false => Err(BackupError::TargetTaken { keyspace: name.clone() }),
            }
        }
        Err(error) if is_refused(&error, ErrorCode::UnknownKeyspace) => {
            ask(store, source.creation(name, rule)).await?;
            Ok((Keyspace::describe(store, name).await?, true))
        }
        Err(error) => Err(error),
    }
}

fn same_kind(found: Keyspace, source: &Keyspace) -> Result<Keyspace, BackupError> {
    match found.kind == source.kind {
        true => Ok(found),
        false => Err(BackupError::TargetKind { keyspace: found.name, found: found.kind, wanted: source.kind.clone() }),
    }
}

async fn is_empty<S: Store>(store: &S, name: &str) -> Result<bool, BackupError> {
    let body =
        json!({"action": "KvScan", "keyspace": name, "limit": 1, "keys_only": true, "read_consistency": "strong"});
    Ok(ask(store, body).await?["entries"].as_array().is_some_and(Vec::is_empty))
}

/// Gathers writes into batches, several under way. No key is in two of them, so their order does not matter.
struct Writer<S> {
    store: S,
    keyspace: String,
    batched: bool,
    steps: Vec<Entry>,
    bytes: usize,
    under_way: JoinSet<Result<(), BackupError>>,
    pace: Pace,
}

impl<S: Store> Writer<S> {
    fn new(store: &S, target: &Keyspace, rate: Option<u64>) -> Writer<S> {
        Writer {
            store: store.clone(),
            keyspace: target.name.clone(),
            // A batch is of one cluster.
            batched: target.clusters == 1,
            steps: Vec::new(),
            bytes: 0,
            under_way: JoinSet::new(),
            pace: Pace::new(rate),
        }
    }

    async fn push(&mut self, entry: Entry) -> Result<(), BackupError> {
        self.pace.wait(entry.bytes()).await;
        if self.bytes + entry.bytes() as usize > BATCH_BYTES {
            self.flush().await?;
        }
        self.bytes += entry.bytes() as usize;
        self.steps.push(entry);
        match !self.batched || self.steps.len() == BATCH_STEPS_MAX {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), BackupError> {
        if self.steps.is_empty() {
            return Ok(());
        }
        let most = if self.batched { BATCHES_PARALLEL } else { SINGLES_PARALLEL };
        while self.under_way.len() >= most {
            self.settle().await?;
        }
        let steps = std::mem::take(&mut self.steps);
        self.bytes = 0;
        let (store, keyspace) = (self.store.clone(), self.keyspace.clone());
        self.under_way.spawn(async move { write(&store, &keyspace, &steps).await });
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), BackupError> {
        match self.under_way.join_next().await {
            Some(Ok(written)) => written,
            Some(Err(error)) => Err(BackupError::file("KvBatch".as_ref(), std::io::Error::other(error))),
            None => Ok(()),
        }
    }

    async fn finish(mut self) -> Result<(), BackupError> {
        self.flush().await?;
        while !self.under_way.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }
}

/// Writes steps at once where one cluster has all their keys, else one after another.
async fn write<S: Store>(store: &S, keyspace: &str, steps: &[Entry]) -> Result<(), BackupError> {
    if steps.len() > 1 {
        let items: Vec<Value> = steps.iter().map(|step| fields(step, Map::new(), "op", "put", "delete")).collect();
        match ask(store, json!({"action": "KvBatch", "keyspace": keyspace, "steps": items})).await {
            Err(error) if is_refused(&error, ErrorCode::BatchCrossesClusters) => {}
            other => return other.map(drop),
        }
    }
    for step in steps {
        let mut body = Map::new();
        body.insert("keyspace".into(), keyspace.into());
        ask(store, fields(step, body, "action", "KvPut", "KvDelete")).await?;
    }
    Ok(())
}

fn fields(entry: &Entry, mut body: Map<String, Value>, name: &str, put: &str, delete: &str) -> Value {
    put_short(&mut body, "key", &entry.key);
    let verb = match &entry.value {
        Some(value) => {
            put_short(&mut body, "value", value);
            put
        }
        None => delete,
    };
    body.insert(name.into(), verb.into());
    body.into()
}

/// Text only where JSON writes it byte by byte: an escaped byte takes up to six, and a body has a bound.
fn put_short(body: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().any(is_escaped) => body.insert(name.into(), text.into()),
        _ => body.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}
