//! One shard on a map, told and asked in bytes as a replica would; and a plain S3 to compare with.

use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::shard::*;
use crate::testing::MapSpace;
use base_types::codec::Encode;
use base_types::s3::{field, Document, Version, VersionStamp};
use base_types::{LogIndex, Refusal};
use bytes::Bytes;
use std::collections::BTreeMap;

pub struct Bed {
    pub space: MapSpace,
    pub now_ms: u64,
    pub epoch: u64,
    index: u64,
}

impl Bed {
    pub fn blank() -> Bed {
        Bed { space: MapSpace::default(), now_ms: 1_000, epoch: 1, index: 0 }
    }

    pub fn serving() -> Bed {
        let mut bed = Bed::blank();
        bed.tell(Command::Create { epoch: 1, range: Range::default() }).unwrap();
        bed
    }

    pub fn tell(&mut self, command: Command) -> Result<Reply, Refusal> {
        let bytes = command.to_bytes();
        assert_eq!(Command::from_bytes(bytes.clone()).as_ref(), Ok(&command));
        validate(&bytes)?;
        self.index += 1;
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(self.index),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        let at_once = precheck(&self.space, self.now_ms, &command).unwrap();
        let reply = apply(at, &mut self.space, &bytes).unwrap();
        if let Some(refusal) = at_once {
            // A leader says what applying would, and the client comes again.
            assert_eq!(decode_reply::<Reply>(reply.clone()).unwrap_err(), refusal);
            assert!(crate::is_redirect(&reply), "{refusal:?}");
        }
        if self.index.is_multiple_of(64) {
            assert!(self.space.rows.keys().all(|key| key.last() != Some(&1)), "a row ends in \\x01");
        }
        // Counts of many rows are walked now and then.
        if self.space.rows.len() < 64 || self.index.is_multiple_of(16) {
            crate::testing::check(base_types::BackendKind::Shard, &self.space);
        }
        decode_reply(reply)
    }

    pub fn ask(&self, question: Query) -> Result<Reply, Refusal> {
        decode_reply(query(self.now_ms, &self.space, &question.to_bytes()).unwrap())
    }

    pub fn info(&self) -> ShardInfo {
        match self.ask(Query::Describe) {
            Ok(Reply::Shard { info }) => info,
            other => panic!("{other:?}"),
        }
    }

    pub fn put_step(&self, key: &str, versioning: Versioning, size: u64) -> PutStep {
        let mut document = Document::new();
        document.set_number(field::SIZE, size).set(field::ETAG, Some(format!("e{size}").into()));
        document.set(field::TAGS, Some(Bytes::from_static(b"not listed")));
        PutStep {
            epoch: self.epoch,
            key: Bytes::copy_from_slice(key.as_bytes()),
            versioning,
            at_unix_ms: self.now_ms,
            document: document.encode(),
            inline: size.is_multiple_of(3).then(|| Bytes::from(vec![7; size as usize % 50])),
            condition: Condition::default(),
            once: None,
            data_expires_ms: None,
        }
    }

    pub fn put(&mut self, key: &str, versioning: Versioning, size: u64) -> Result<VersionStamp, Refusal> {
        let step = self.put_step(key, versioning, size);
        match self.tell(Command::Put { step })? {
            Reply::Put { stamp, .. } => Ok(stamp),
            other => panic!("{other:?}"),
        }
    }

    pub fn terms(&self, versioning: Versioning) -> DeleteTerms {
        DeleteTerms {
            epoch: self.epoch,
            versioning,
            at_unix_ms: self.now_ms,
            bypass_governance: false,
            mfa_missing: false,
            owner: None,
        }
    }

    pub fn delete(&mut self, key: &str, versioning: Versioning, version: Version) -> Result<Deleted, Refusal> {
        let terms = self.terms(versioning);
        let step = DeleteStep { key: Bytes::copy_from_slice(key.as_bytes()), version, condition: Condition::default() };
        match self.tell(Command::Delete { terms, step })? {
            Reply::Deleted { deleted } => Ok(deleted),
            other => panic!("{other:?}"),
        }
    }

    pub fn get(&self, key: &str, version: Version) -> Result<Reply, Refusal> {
        let condition = Condition::default();
        self.ask(Query::Get { epoch: self.epoch, key: key.to_string().into(), version, inline: true, condition })
    }

    pub fn listing(&self, prefix: &str, delimiter: &str) -> Listing {
        Listing {
            epoch: self.epoch,
            prefix: prefix.to_string().into(),
            delimiter: delimiter.to_string().into(),
            start: ListStart::Beginning,
            limit: 1000,
            pin: None,
        }
    }

    pub fn page(&self, listing: Listing, versions: bool) -> Result<(Vec<Item>, bool), Refusal> {
        let query = if versions { Query::ListVersions { listing } } else { Query::List { listing } };
        match self.ask(query)? {
            Reply::Page { items, more } => Ok((items, more)),
            other => panic!("{other:?}"),
        }
    }

    /// All pages of a listing, of `limit` items each.
    pub fn walk(&self, mut listing: Listing, versions: bool, limit: u32) -> Vec<Item> {
        let mut all = Vec::new();
        listing.limit = limit;
        loop {
            let (items, more) = self.page(listing.clone(), versions).unwrap();
            assert!(items.len() <= limit as usize && (!more || items.len() == limit as usize));
            all.extend(items);
            if !more {
                return all;
            }
            listing.start = match all.last().unwrap().clone() {
                Item::Object { key, .. } => ListStart::After { key },
                Item::Version { key, stamp, null, .. } => {
                    let version = if null { Version::Null } else { Version::Stamp(stamp) };
                    ListStart::AfterVersion { key, version }
                }
                Item::Prefix { prefix } => ListStart::AfterPrefix { prefix },
            };
        }
    }

    pub fn count(&self, prefix: &str, pin: Option<u128>) -> Totals {
        match self.ask(Query::Count { epoch: self.epoch, prefix: prefix.to_string().into(), pin }) {
            Ok(Reply::Count { totals }) => totals,
            other => panic!("{other:?}"),
        }
    }

    /// What clients can see: rows of keys, without the shard's own records.
    pub fn content(&self) -> BTreeMap<Bytes, Bytes> {
        let of_keys = |key: &Bytes| b"cdnov".contains(&key[0]);
        self.space.rows.iter().filter(|(key, _)| of_keys(key)).map(|(key, row)| (key.clone(), row.clone())).collect()
    }
}

/// Numbers that look random and are the same every time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most.max(1)
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A key of few pieces, so that prefixes and whole keys meet often.
    pub fn key(&mut self) -> String {
        let pieces = ["a", "b", "/", "\0", "\u{1}", "é", "0", "-"];
        (0..1 + self.below(4)).map(|_| *self.pick(&pieces)).collect()
    }
}

/// One version in the plain S3.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    pub stamp: VersionStamp,
    pub null: bool,
    pub marker: bool,
    pub size: u64,
}

/// The plain S3: keys with their versions, newest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plain {
    pub keys: BTreeMap<String, Vec<Kept>>,
}

impl Plain {
    pub fn add(&mut self, key: &str, kept: Kept) {
        let versions = self.keys.entry(key.to_string()).or_default();
        if kept.null {
            versions.retain(|version| !version.null);
        }
        assert!(versions.iter().all(|version| version.stamp < kept.stamp), "a version is not the newest of {key:?}");
        versions.insert(0, kept);
    }

    pub fn remove(&mut self, key: &str, chosen: impl Fn(&Kept) -> bool) -> Option<Kept> {
        let versions = self.keys.get_mut(key)?;
        let at = versions.iter().position(chosen)?;
        let gone = versions.remove(at);
        if versions.is_empty() {
            self.keys.remove(key);
        }
        Some(gone)
    }

    pub fn count(&self, prefix: &str) -> Totals {
        let mut sum = Totals::default();
        for (_, versions) in self.keys.iter().filter(|(key, _)| key.starts_with(prefix)) {
            if let Some(current) = versions.first().filter(|version| !version.marker) {
                sum.keys += 1;
                sum.current_bytes += current.size;
            }
            let markers = versions.iter().filter(|version| version.marker).count() as u64;
            sum.markers += markers;
            sum.versions += versions.len() as u64 - markers;
            sum.bytes += versions.iter().map(|version| version.size).sum::<u64>();
        }
        sum
    }

    /// Everything a listing returns, as (key or prefix, version or nothing).
    pub fn list(&self, prefix: &str, delimiter: &str, versions: bool) -> Vec<(String, Option<(Kept, bool)>)> {
        let mut out: Vec<(String, Option<(Kept, bool)>)> = Vec::new();
        for (key, kept) in self.keys.iter().filter(|(key, _)| key.starts_with(prefix)) {
            if !versions && kept[0].marker {
                continue;
            }
            let cut = if delimiter.is_empty() { None } else { key[prefix.len()..].find(delimiter) };
            if let Some(at) = cut {
                let common = key[..prefix.len() + at + delimiter.len()].to_string();
                if out.last().map(|(last, _)| last) != Some(&common) {
                    out.push((common, None));
                }
                continue;
            }
            for (at, version) in kept.iter().enumerate().take(if versions { usize::MAX } else { 1 }) {
                out.push((key.clone(), Some((version.clone(), at == 0))));
            }
        }
        out
    }
}

/// An item as the plain S3 returns it.
pub fn plain(item: Item) -> (String, Option<(Kept, bool)>) {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let size = |fields: &Bytes| Document::decode(fields.clone()).unwrap().number(field::SIZE).unwrap_or(0);
    match item {
        Item::Prefix { prefix } => (text(prefix), None),
        Item::Object { key, stamp, null, fields } => {
            assert!(Document::decode(fields.clone()).unwrap().get(field::TAGS).is_none());
            (text(key), Some((Kept { stamp, null, marker: false, size: size(&fields) }, true)))
        }
        Item::Version { key, stamp, null, marker, latest, fields } => {
            (text(key), Some((Kept { stamp, null, marker, size: size(&fields) }, latest)))
        }
    }
}

/// A space that counts the rows it shows.
struct Counting<'a>(&'a MapSpace, std::cell::Cell<usize>);

impl crate::SpaceRead for Counting<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, base_engine::EngineError> {
        self.0.get(key)
    }

    fn range(
        &self,
        range: base_engine::KeyRange<'_>,
        direction: base_engine::Direction,
        visit: base_engine::Visit<'_>,
    ) -> Result<(), base_engine::EngineError> {
        self.0.range(range, direction, &mut |key, row| {
            self.1.set(self.1.get() + 1);
            visit(key, row)
        })
    }
}

/// How many items a listing returns, and how many rows it visits for them.
pub fn counting(bed: &Bed, listing: Listing) -> (usize, usize) {
    let space = Counting(&bed.space, Default::default());
    let reply = query(bed.now_ms, &space, &Query::List { listing }.to_bytes()).unwrap();
    let Ok(Reply::Page { items, .. }) = decode_reply(reply) else { panic!() };
    (items.len(), space.1.get())
}
