//! Ways in to core-backends: a sequence of commands and queries on one space, and replies.
//!
//!   input: steps of  kind u8 | length u16 | bytes     kind % 4: 0 apply, 1 query, 2 a row of the
//!   engine's as it stands (key length u8, key, value), 3 the cluster's clock advances by `length` ms
//!
//! Always: no panic; what `validate` refuses is refused by `apply`; without rows from outside the
//! engine is never called damaged; the same steps give the same rows and replies twice.

use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::codec::Encode;
use base_types::{BackendKind, LogIndex};
use bytes::Bytes;
use core_backends::{
    allocator, decode_reply, metadata, multipart, redis, reference, shard, shard_reference, versioned,
};
use core_backends::{apply, query, validate, ApplyContext, SpaceRead, SpaceWrite};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most steps of one input.
const STEPS_MAX: usize = 64;

#[derive(Default, PartialEq, Debug)]
struct Rows(BTreeMap<Bytes, Bytes>);

impl SpaceRead for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = self.0.range::<[u8], _>((Bound::Included(range.start), end));
        while let Some((key, value)) = if direction == Direction::Forward { rows.next() } else { rows.next_back() } {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl SpaceWrite for Rows {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.0.insert(key, value);
    }

    fn delete(&mut self, key: Bytes) {
        self.0.remove(&key);
    }
}

struct Step {
    kind: u8,
    length: u16,
    bytes: Bytes,
}

/// One step's bytes in an input.
pub fn push_step(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn steps(mut data: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(([kind, low, high], rest)) = data.split_first_chunk::<3>() {
        if steps.len() == STEPS_MAX {
            break;
        }
        let (kind, length) = (kind % 4, u16::from_le_bytes([*low, *high]));
        let taken = if kind == 3 { 0 } else { usize::from(length).min(rest.len()) };
        steps.push(Step { kind, length, bytes: Bytes::copy_from_slice(&rest[..taken]) });
        data = &rest[taken..];
    }
    steps
}

fn read_back<T: Encode>(reply: &Bytes) {
    if let Err(refusal) = decode_reply::<T>(reply.clone()) {
        assert!(
            !refusal.message.contains("does not decode: ") || reply[0] == 1,
            "a reply of ours does not decode: {refusal}"
        );
    }
}

fn run<T: Encode>(backend: BackendKind, steps: &[Step]) -> (Rows, Vec<Bytes>) {
    let (mut rows, mut replies, mut now_ms, mut foreign) = (Rows::default(), Vec::new(), 1_000u64, false);
    for (place, step) in steps.iter().enumerate() {
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(place as u64 + 1),
            position: 0,
            cluster_time_ms: now_ms,
        };
        let answer = match step.kind {
            0 => {
                let valid = validate(backend, &step.bytes).is_ok();
                let answer = apply(backend, at, &mut rows, &step.bytes);
                let refused = answer.as_ref().map_or(true, |reply| reply.first() == Some(&1));
                assert!(valid || refused, "{backend}: refused by validate, but applied");
                answer
            }
            1 => query(backend, now_ms, &rows, &step.bytes),
            2 => {
                foreign = true;
                if let Some((length, rest)) = step.bytes.split_first() {
                    let (key, value) = rest.split_at(usize::from(*length).min(rest.len()));
                    rows.put(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
                }
                continue;
            }
            _ => {
                now_ms += u64::from(step.length);
                continue;
            }
        };
        match answer {
            Ok(reply) => {
                read_back::<T>(&reply);
                replies.push(reply);
            }
            Err(error) => assert!(foreign, "{backend}: its own rows are called damaged: {error}"),
        }
    }
    (rows, replies)
}

fn twice<T: Encode>(backend: BackendKind, data: &[u8]) {
    // Replies come from other members: any bytes decode or are refused.
    let _ = decode_reply::<T>(Bytes::copy_from_slice(data));
    let steps = steps(data);
    assert_eq!(run::<T>(backend, &steps), run::<T>(backend, &steps), "{backend} is not deterministic");
}

/// The rows that the steps of an input leave, each with the length of its key in front; `T`: the backend's replies.
pub fn rows_after<T: Encode>(backend: BackendKind, data: &[u8]) -> Vec<u8> {
    let (rows, _) = run::<T>(backend, &steps(data));
    let row = |(key, value): (&Bytes, &Bytes)| {
        let lengths = [key, value].map(|part| (part.len() as u16).to_le_bytes());
        [&lengths[0], &lengths[1], &key[..], &value[..]].concat()
    };
    rows.0.iter().flat_map(row).collect()
}

/// The commands of an input that the backend takes.
pub fn commands(backend: BackendKind, data: &[u8]) -> Vec<Bytes> {
    let applied = steps(data).into_iter().filter(|step| step.kind == 0).map(|step| step.bytes);
    applied.filter(|bytes| validate(backend, bytes).is_ok()).collect()
}

/// The `metadata` backend.
pub fn backend_metadata(data: &[u8]) {
    twice::<metadata::Reply>(BackendKind::Metadata, data);
}

/// The `redis` backend.
pub fn backend_redis(data: &[u8]) {
    twice::<redis::Reply>(BackendKind::Redis, data);
}

/// The `allocator` backend.
pub fn backend_allocator(data: &[u8]) {
    twice::<allocator::Reply>(BackendKind::Allocator, data);
}

/// The `reference` backend.
pub fn backend_reference(data: &[u8]) {
    twice::<reference::Reply>(BackendKind::Reference, data);
}

/// The `shard` backend.
pub fn backend_shard(data: &[u8]) {
    twice::<shard::Reply>(BackendKind::Shard, data);
}

/// The `shard_reference` backend.
pub fn backend_shard_reference(data: &[u8]) {
    twice::<shard_reference::Reply>(BackendKind::ShardReference, data);
}

/// The `multipart` backend.
pub fn backend_multipart(data: &[u8]) {
    twice::<multipart::Reply>(BackendKind::Multipart, data);
}

/// The `versioned` backend.
pub fn backend_versioned(data: &[u8]) {
    twice::<versioned::Reply>(BackendKind::Versioned, data);
}

/// Keys as rows hold them: order, prefixes and ends are kept, whatever the bytes.
pub fn key_codec(data: &[u8]) {
    core_backends::fuzz_key_codec(data);
}
