//! Writing a batch, and dropping a space piece by piece.
//!
//! A batch is written in key order, whatever order it came in, its deletes first: each page is then visited once, and
//! LMDB's writes go up the file. One cursor goes along: while the next key lies on the page it stands on, the tree is not
//! descended from its root.
//!
//! A failed sync is never retried: the pages it was to make durable may be marked clean by the
//! system although they never reached the disk. LMDB's own order (pages, sync, meta page) keeps the
//! last finished state whole, but no further write is taken; the engine must be closed, and the node
//! decides whether to trust that disk again. Only "no room" is taken as passing: nothing that was
//! ever acknowledged is among the pages it concerns.
//!
//! Deleting needs pages too (the tree is copied on write), so puts are refused while some of the map
//! is still left: `reserve_bytes`.
//!
//! Fences follow behind: a put says first that it is of a new key, and is repeated as an overwrite where it was not, so
//! that which keys came is known without a second descent.
//!
//! Always: an error means that nothing of the batch is there.
//! Held by: `a_batch_beyond_the_map_leaves_nothing`.
//! Not here: how readers learn of it (`readers.rs`).

use crate::environment::Environment;
use crate::failure::lmdb_failure;
use crate::fenced;
use crate::format::{self, SEAL_BYTES};
use crate::View;
use base_engine::fences::{self, FencedView, KeyChange};
use base_engine::{BatchOperation, EngineError, WriteBatch};
use base_types::{LogIndex, SpaceId};
use heed::{MdbError, PutFlags, RwTxn};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

/// A key and its new value; `None`: it goes.
type Change<'a> = (SpaceId, &'a [u8], Option<&'a [u8]>);

/// What a batch comes down to: of each key the last operation, in key order.
struct Plan<'a> {
    pairs: Vec<Change<'a>>,
    durable: BTreeMap<SpaceId, LogIndex>,
}

/// What a write did.
#[derive(Default, Debug)]
pub struct Written {
    pub puts: u64,
    pub bytes: u64,
}

/// The part of the map that puts leave to deletes, and its bounds.
const RESERVE_DIVISOR: u64 = 16;
const RESERVE_BYTES_MIN: u64 = 256 << 10;
const RESERVE_BYTES_MAX: u64 = 256 << 20;

fn reserve_bytes(map_bytes: u64) -> u64 {
    (map_bytes / RESERVE_DIVISOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX)
}

/// The one writer of an environment. LMDB itself lets one transaction write at a time.
#[derive(Default)]
pub struct Writer {
    failed: AtomicBool,
}

fn plan(batch: &WriteBatch) -> Plan<'_> {
    let mut plan = Plan { pairs: Vec::with_capacity(batch.operations.len()), durable: BTreeMap::new() };
    for operation in &batch.operations {
        match operation {
            BatchOperation::Put { space, key, value } => plan.pairs.push((*space, key, Some(value))),
            BatchOperation::Delete { space, key } => plan.pairs.push((*space, key, None)),
            BatchOperation::Durable { space, index } => {
                plan.durable.insert(*space, *index);
            }
        }
    }
    // Last wins: reversed, a stable sort puts the last operation on a key first, and `dedup` keeps it.
    plan.pairs.reverse();
    plan.pairs.sort_by(|left, right| (left.0, left.1).cmp(&(right.0, right.1)));
    plan.pairs.dedup_by(|later, first| (later.0, later.1) == (first.0, first.1));
    plan
}

impl Writer {
    /// Writes a batch, synced.
    pub fn write(&self, environment: &Environment, batch: &WriteBatch) -> Result<Written, EngineError> {
        batch.check()?;
        let plan = plan(batch);
        let mut transaction = self.begin(environment)?;
        let written = put_all(environment, &mut transaction, &plan)?;
        if written.puts > 0 {
            check_room(environment, &transaction)?;
        }
        self.commit(transaction)?;
        Ok(written)
    }

    /// Removes up to `limit` pairs of a space, its durable index with the last; whether anything is left.
    pub fn drop_space(&self, environment: &Environment, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        let failed = |error: heed::Error| lmdb_failure("dropping a space", error);
        let mut transaction = self.begin(environment)?;
        let start = space.0.to_be_bytes();
        let space_end = format::space_end(space);
        let space_end = space_end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        let whole = (Bound::Included(&start[..]), space_end);
        // The first key to stay, if the limit is reached before the space's end.
        let stays = match environment.spaces.range(&transaction, &whole).map_err(failed)?.nth(limit) {
            Some(pair) => Some(pair.map_err(failed)?.0.to_vec()),
            None => None,
        };
        let end = stays.as_ref().map_or(space_end, |key| Bound::Excluded(&key[..]));
        let part = (Bound::Included(&start[..]), end);
        let mut keys = Vec::new();
        if stays.is_some() {
            for pair in environment.spaces.range(&transaction, &part).map_err(failed)? {
                keys.push(pair.map_err(failed)?.0.get(format::SPACE_BYTES..).unwrap_or_default().to_vec());
            }
        }
        let removed = environment.spaces.delete_range(&mut transaction, &part).map_err(failed)?;
        drop_fences(environment, &mut transaction, space, stays.is_some().then_some(&keys))?;
        let mut index_removed = false;
        if stays.is_none() {
            index_removed = environment.meta.delete(&mut transaction, &format::durable_key(space)).map_err(failed)?;
        }
        if removed > 0 || index_removed {
            self.commit(transaction)?;
        }
        Ok(stays.is_some())
    }

    fn begin<'e>(&self, environment: &'e Environment) -> Result<RwTxn<'e>, EngineError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(EngineError::Io(
                "an earlier write could not be synced; no more are taken, restart the node".into(),
            ));
        }
        environment.env.write_txn().map_err(|error| lmdb_failure("beginning a write", error))
    }

    fn commit(&self, transaction: RwTxn<'_>) -> Result<(), EngineError> {
        let committed = transaction.commit().map_err(|error| lmdb_failure("committing a write", error));
        if committed.as_ref().is_err_and(|error| !matches!(error, EngineError::Full(_))) {
            self.failed.store(true, Ordering::Release);
        }
        committed
    }
}

/// Refuses puts that would use up the reserve. Pages held by snapshots are not counted: they come
/// free by themselves, and where they do not in time LMDB's own limit says `Full`.
fn check_room(environment: &Environment, transaction: &RwTxn<'_>) -> Result<(), EngineError> {
    let used = environment.bytes_in_use(transaction)?;
    let map_bytes = environment.env.info().map_size as u64;
    let limit = map_bytes.saturating_sub(reserve_bytes(map_bytes));
    if used > limit {
        return Err(EngineError::Full(format!(
            "the batch would use {used} of {map_bytes} bytes of the map, puts may use {limit}; raise map_bytes_max or delete"
        )));
    }
    Ok(())
}

/// Fences behind keys of a space that went (ascending); `None`: all of it.
fn drop_fences(
    environment: &Environment,
    transaction: &mut RwTxn<'_>,
    space: SpaceId,
    keys: Option<&Vec<Vec<u8>>>,
) -> Result<(), EngineError> {
    let failed = |error: heed::Error| lmdb_failure("dropping a space", error);
    if let Some(keys) = keys {
        let changes: Vec<_> = keys.iter().map(|key| KeyChange { space, key, added: false }).collect();
        let plan = fences::plan(&View { environment, reader: transaction }, &changes, [], true)?;
        return fenced::apply(environment, transaction, &plan);
    }
    let (start, end) = (space.0.to_be_bytes(), format::space_end(space));
    let end = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
    environment.fences.delete_range(transaction, &(Bound::Included(&start[..]), end)).map_err(failed)?;
    // Opening the environment recreates a damaged roll.
    let Ok(mut roll) = (View { environment, reader: transaction }).roll() else { return Ok(()) };
    roll.remove(space);
    fenced::put_roll(environment, transaction, &roll)
}

fn put_all(environment: &Environment, transaction: &mut RwTxn<'_>, plan: &Plan<'_>) -> Result<Written, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("writing a batch", error);
    let mut written = Written::default();
    let mut whole_key = Vec::new();
    let mut changes = Vec::new();
    for (space, key, _) in plan.pairs.iter().filter(|(.., value)| value.is_none()) {
        format::write_pair_key(&mut whole_key, *space, key);
        written.bytes += whole_key.len() as u64;
        if environment.spaces.delete(transaction, &whole_key).map_err(failed)? {
            changes.push(KeyChange { space: *space, key, added: false });
        }
    }
    let mut cursor = environment.spaces.iter_mut(transaction).map_err(failed)?;
    for (space, key, value) in &plan.pairs {
        let Some(value) = value else { continue };
        format::write_pair_key(&mut whole_key, *space, key);
        let seal = format::seal(&whole_key, value);
        let mut put = |flags| {
            // SAFETY: nothing of the database is borrowed, key and value are the batch's. LMDB moves the cursor to the key by
            // itself (mdb_cursor_put); heed's remark about the current key is for MDB_CURRENT.
            unsafe {
                cursor.put_current_reserved_with_flags(flags, &whole_key, value.len() + SEAL_BYTES, |room| {
                    room.write_all(value)?;
                    room.write_all(&seal)
                })
            }
        };
        match put(PutFlags::NO_OVERWRITE) {
            Ok(_) => changes.push(KeyChange { space: *space, key, added: true }),
            Err(heed::Error::Mdb(MdbError::KeyExist)) => drop(put(PutFlags::empty()).map_err(failed)?),
            Err(error) => return Err(failed(error)),
        }
        written.puts += 1;
        written.bytes += (whole_key.len() + value.len()) as u64;
    }
    drop(cursor);
    for (space, index) in &plan.durable {
        let key = format::durable_key(*space);
        let put = match index.0 {
            0 => environment.meta.delete(transaction, &key).map(|_| ()),
            index => environment.meta.put(transaction, &key, &format::sealed(&key, &index.to_le_bytes())),
        };
        put.map_err(failed)?;
    }
    // Deletes came first.
    changes.sort_unstable();
    let indexes = plan.durable.iter().map(|(space, index)| (*space, index.0 != 0));
    let plan = fences::plan(&View { environment, reader: transaction }, &changes, indexes, true)?;
    fenced::apply(environment, transaction, &plan)?;
    Ok(written)
}
