//! Splits, merges and snapshots: what a flow has shards do (decisions 0026 and 0025).
//!
//! A split: `BeginSplit` at the source (every changed row is from now on named in the feed),
//! `PrepareImport` at the targets, copies by `Export` and `Import`, then the feed, `Digest` on both sides until
//! done, `Freeze`, the last of the feed, `CutOver` with the targets' digests, `Activate` and beside it the
//! switch in the bucket's map, `Drop`. A merge is the same with several sources and one target.
//!
//! Always: each step may come twice or late and then changes nothing it should not; `CutOver` succeeds
//! only if nothing was written since the feed the targets have, and both sides sum up to the same
//! (mutants `CutOverBeforeEqual`, `SumKeepsOldRow`); an import is a compare-and-set on its cursor (mutant `ImportNotCompared`).
//! Not here: in which order a flow resumes after a crash (`shard_reference/flow.rs`).

use super::command::{
    ImportCursor, Peer, Range, RangeDigest, Reply, ShardState, Totals, FREEZE_MS_MAX, PINS_MAX, PIN_MS_MAX,
    STEP_BYTES_MAX, STEP_ROWS_MAX,
};
use super::keys::{self, FEED, FLAG_MARKER, FLAG_NULL, KEY_TABLES, NULL, STATE, VERSION};
use super::objects::{admit, Outcome};
use super::state::{wrong_shard, Changed, Digest, Pin, Shard, SERVING};
use super::work::{add_to_digest, Before, Work, FEED_NAMES_MAX};
use crate::contract::{corrupt_row, SpaceRead};
use crate::freed;
use crate::rows::{page, successor};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::s3::S3ErrorCode;
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use core::ops::ControlFlow;

fn done(work: &Work<'_>) -> Outcome<Reply> {
    Ok(Ok(Reply::Shard { info: work.shard.info(work.at.cluster_time_ms, work.space.keep()) }))
}

fn digests_of(peers: &[Peer], range: &Range) -> Digest {
    let part = |peer: &Peer| range.meet(&peer.range).map(|range| RangeDigest { range, sum: 0, rows: 0 });
    Digest { cursor: Bytes::new(), done: false, sums: peers.iter().filter_map(part).collect() }
}

/// A shard that is to take rows of others.
pub(super) fn importing(epoch: u64, range: Range, sources: Vec<Peer>) -> Shard {
    let mut shard = Shard::new(ShardState::Importing, epoch, range);
    shard.cursors = vec![ImportCursor::default(); sources.len()];
    shard.digest = Some(digests_of(&sources, &shard.range));
    shard.peers = sources;
    shard
}

/// Ends the doubling of writes; their feed is swept by later writes.
pub(super) fn give_up_split(shard: &mut Shard) {
    shard.state = ShardState::Serving;
    shard.peers.clear();
    shard.digest = None;
    shard.frozen_until_ms = 0;
}

pub(super) fn begin_split(work: &mut Work<'_>, epoch: u64, targets: Vec<Peer>) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, SERVING));
    if work.shard.state == ShardState::Splitting {
        if work.shard.peers == targets {
            return done(work);
        }
        let message = "the shard is being split otherwise; end that split first".to_string();
        return Ok(Err(Refusal::new(ErrorCode::ReshardRunning, message)));
    }
    if work.shard.feed > 0 {
        let message = "the feed of an earlier split is still being removed; sweep and retry".to_string();
        return Ok(Err(Refusal::new(ErrorCode::NotReady, message)));
    }
    // Together the targets take over exactly this shard's range, and perhaps more around it (a merge).
    let mut next = Some(work.shard.range.start.clone());
    for peer in &targets {
        let begins = next.as_ref().is_some_and(|next| peer.range.start <= *next);
        if !begins {
            return Ok(Err(Refusal::new(ErrorCode::Malformed, "the targets leave a gap in the shard's range")));
        }
        next = peer.range.end.clone();
    }
    let reaches = match (&next, &work.shard.range.end) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(next), Some(end)) => next >= end,
    };
    if targets.is_empty() || !reaches {
        return Ok(Err(Refusal::new(ErrorCode::Malformed, "the targets do not reach the end of the shard's range")));
    }
    work.shard.digest = Some(digests_of(&targets, &work.shard.range));
    work.shard.peers = targets;
    work.shard.state = ShardState::Splitting;
    done(work)
}

pub(super) fn abort_split(work: &mut Work<'_>, epoch: u64) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, SERVING));
    if work.shard.state == ShardState::Splitting {
        give_up_split(&mut work.shard);
    }
    done(work)
}

/// Adds the next rows to the digests.
pub(super) fn digest(work: &mut Work<'_>, epoch: u64, limit: u32) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, &[ShardState::Splitting, ShardState::Importing]));
    let Some(mut digest) = work.shard.digest.take() else { return done(work) };
    if !digest.done {
        let limit = limit.clamp(1, STEP_ROWS_MAX) as usize;
        let (rows, more) = key_rows(work.space, &Range::default(), &digest.cursor, limit, STEP_BYTES_MAX)?;
        for (key, value) in &rows {
            add_to_digest(&mut digest, key, value, false)?;
        }
        digest.cursor = rows.last().map_or(digest.cursor, |(key, _)| key.clone());
        digest.done = !more;
    }
    work.shard.digest = Some(digest);
    done(work)
}

pub(super) fn freeze(work: &mut Work<'_>, epoch: u64, lease_ms: u32) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, SERVING));
    let now = work.at.cluster_time_ms;
    if work.shard.frozen_until_ms <= now {
        work.shard.end_freeze();
    }
    let until = now.saturating_add(u64::from(lease_ms).min(FREEZE_MS_MAX));
    work.shard.frozen_until_ms = work.shard.frozen_until_ms.max(until);
    done(work)
}

/// Ends the freeze of writes, unless a snapshot is being prepared.
pub(super) fn unfreeze(work: &mut Work<'_>, epoch: u64) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, SERVING));
    work.shard.end_freeze();
    done(work)
}

/// Gives the range up. For rows the freeze is not what makes this safe: it only lets the feed come to its end. No write
/// came since `feed`, and both sides hold the same rows. Some remembered requests change no row; for them the shard
/// must have been frozen ever since it reported `feed`.
pub(super) fn cut_over(work: &mut Work<'_>, epoch: u64, feed: u64, digests: &[RangeDigest]) -> Outcome<Reply> {
    if work.shard.epoch == epoch && work.shard.state == ShardState::Retired {
        return done(work);
    }
    admit!(work.shard.check(epoch, &[ShardState::Splitting]));
    if work.shard.frozen_until_ms <= work.at.cluster_time_ms {
        let message = "the shard does not stand still, so it cannot be cut over; freeze it again".to_string();
        return Ok(Err(Refusal::new(ErrorCode::Conflict, message)));
    }
    let early = planted(Mutant::CutOverBeforeEqual);
    if work.shard.feed != feed && !early {
        let message =
            format!("the shard has doubled {} writes, the targets have {feed}; continue the feed", work.shard.feed);
        return Ok(Err(Refusal::new(ErrorCode::Conflict, message)));
    }
    let own = work.shard.digest.as_ref().filter(|digest| digest.done).map(|digest| &digest.sums[..]);
    if own != Some(digests) && !early {
        let message = format!("the shard holds {own:?}, the targets {digests:?}; they differ: give the split up");
        return Ok(Err(Refusal::new(ErrorCode::NotEqual, message)));
    }
    work.shard.state = ShardState::Retired;
    work.shard.frozen_until_ms = 0;
    work.shard.digest = None;
    // Other shards take the writes from here on, so an incomplete snapshot freezes this one no longer.
    work.shard.drop_pins(Pin::stands);
    done(work)
}

/// Rows of a source, or what its feed told.
pub(super) fn import(
    work: &mut Work<'_>,
    source: usize,
    expected: &ImportCursor,
    cursor: ImportCursor,
    rows: Vec<(Bytes, Option<Bytes>)>,
) -> Outcome<Reply> {
    let Some(now) = work.shard.cursors.get(source) else { return done(work) };
    if now != expected && !planted(Mutant::ImportNotCompared) {
        return done(work);
    }
    let within = work.shard.peers.get(source).and_then(|peer| peer.range.meet(&work.shard.range));
    for (key, value) in &rows {
        let client = admit!(check_row(key, value.as_ref(), within.as_ref())?);
        work.shard.growth.imported(&client);
    }
    // A source's own rows come once each, in order, before the changes of its feed. So none of them can exist here yet.
    let before = if expected.copied { Before::Unread } else { Before::Absent };
    work.shard.cursors[source] = cursor;
    for (key, value) in rows {
        match value {
            Some(value) => {
                learn(work, &key, &value)?;
                work.put(key, value, before.clone())?;
            }
            None => work.delete(key, Before::Unread)?,
        }
    }
    done(work)
}

/// What comes from another shard must be a row that could be here.
/// The key it belongs to.
fn check_row(key: &Bytes, value: Option<&Bytes>, within: Option<&Range>) -> Outcome<Bytes> {
    let bad = |what: &str| Ok(Err(Refusal::new(ErrorCode::Malformed, format!("an imported row {what}"))));
    let table = key.first().copied().unwrap_or_default();
    if !KEY_TABLES.contains(&table) {
        return bad("belongs to no table of keys");
    }
    let Some(closed) = crate::s3_key::closed_bytes(keys::position(key)) else { return bad("holds no key") };
    let client = keys::client_key(&key[1..=closed]);
    if !within.is_some_and(|range| range.holds(&client)) {
        return bad("is outside of its source's range");
    }
    let rest = key.len() - 1 - closed;
    let fits = match table {
        keys::CURRENT | NULL => rest == 0,
        keys::ONCE => rest == 17,
        _ => rest == 9,
    };
    let sound = match (table, value) {
        (keys::CURRENT, Some(row)) => row.len() >= 9 && keys::flags_of(row).is_ok(),
        (VERSION, Some(row)) => keys::flags_of(row).is_ok(),
        (NULL, Some(row)) => row.len() == 8,
        (keys::ONCE, Some(row)) => super::objects::decode_once(row).is_ok(),
        _ => true,
    };
    if !fits || !sound || client.is_empty() {
        return bad("has a wrong form");
    }
    Ok(Ok(client))
}

/// What the shard's record must know of rows it takes over.
fn learn(work: &mut Work<'_>, key: &Bytes, value: &Bytes) -> Result<(), EngineError> {
    let table = key.first().copied().unwrap_or_default();
    if table == VERSION {
        let stamp = keys::stamp_of(key, keys::closed_of(key)?.len())?;
        work.shard.last_stamp = work.shard.last_stamp.max(stamp.0);
        let flags = keys::flags_of(value)?;
        work.shard.versioned |= flags & FLAG_NULL == 0 || flags & FLAG_MARKER != 0;
    }
    work.shard.versioned |= table == NULL;
    Ok(())
}

pub(super) fn activate(work: &mut Work<'_>, epoch: u64, stamp_floor: u64) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, &[ShardState::Importing, ShardState::Serving, ShardState::Splitting]));
    if work.shard.state == ShardState::Importing {
        work.shard.state = ShardState::Serving;
        if !planted(Mutant::StampFloorForgotten) {
            work.shard.last_stamp = work.shard.last_stamp.max(stamp_floor);
        }
        work.shard.digest = None;
        work.shard.peers.clear();
        work.shard.cursors.clear();
        let rows = work.shard.totals.rows();
        work.shard.growth.settle(rows);
        work.shard.growth.imported_ms = work.at.cluster_time_ms;
    }
    done(work)
}

/// Gives up the keys after all keys that were ever written here, in one step. No row, stamp, token or remembered
/// request belongs to one of them. Where no key was given up (or not yet), only the epoch changes, so a flow that has
/// begun to narrow a shard can always finish.
pub(super) fn narrow(work: &mut Work<'_>, epoch: u64, next: u64) -> Outcome<Reply> {
    if work.shard.epoch == next {
        return done(work);
    }
    admit!(work.shard.check(epoch, &[ShardState::Serving]));
    let (range, now) = (work.shard.range.clone(), work.at.cluster_time_ms);
    let cut = work.shard.growth.cut(&range, now, work.space.keep());
    if !planted(Mutant::NarrowKeepsHalfPins) {
        // Another shard takes the writes of keys after the cut, so an incomplete snapshot freezes them here no longer.
        work.shard.drop_pins(Pin::stands);
    }
    for pin in work.shard.pins.iter_mut().filter(|pin| pin.of.is_none()) {
        pin.of = Some((epoch, range.end.clone()));
    }
    work.shard.frozen_until_ms = 0;
    work.shard.epoch = next;
    if let Some(cut) = cut {
        work.shard.range.end = Some(cut);
        let rows = work.shard.totals.rows();
        work.shard.growth.settle(rows);
    }
    done(work)
}

/// Removes what is left of a shard that is retired, or was to take rows and never will.
pub(super) fn drop_rows(work: &mut Work<'_>, epoch: u64, limit: u32, force: bool) -> Outcome<Reply> {
    if work.shard.epoch == epoch && work.shard.state == ShardState::Dropped {
        return Ok(Ok(Reply::Dropped { more: false }));
    }
    let now = work.at.cluster_time_ms;
    if !force {
        admit!(work.shard.check(epoch, &[ShardState::Retired, ShardState::Importing]));
        if work.shard.pins.iter().any(|pin| pin.expires_ms > now) {
            let message = "snapshots still read the shard; come back when they have ended".to_string();
            return Ok(Err(Refusal::new(ErrorCode::NotInState, message)));
        }
        if work.shard.freed_rows > 0 && !planted(Mutant::FreedDroppedWithShard) {
            let message = format!("{} rows of freed data are not collected yet; collect first", work.shard.freed_rows);
            return Ok(Err(Refusal::new(ErrorCode::NotInState, message)));
        }
    } else if work.shard.epoch != epoch {
        return Ok(Err(wrong_shard(epoch, Some(&work.shard))));
    }
    if work.shard.state == ShardState::Importing {
        work.shard.cursors.clear();
    }
    // From here on nobody is served: half a shard must not look like a whole one.
    work.shard.state = ShardState::Retired;
    work.shard.pins.clear();
    let after = work.shard.removal().after.clone();
    // All tables; the record lies before them.
    let start = if after.is_empty() { vec![STATE + 1] } else { successor(&after) };
    let mut keys = Vec::new();
    let limit = limit.clamp(1, STEP_ROWS_MAX) as usize;
    work.space.range(KeyRange { start: &start, end: None }, Direction::Forward, &mut |key, _| {
        keys.push(Bytes::copy_from_slice(key));
        if keys.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    if let Some(last) = keys.last().filter(|_| keys.len() == limit) {
        work.shard.removal().after = last.clone();
        keys.into_iter().for_each(|key| work.space.delete(key));
        return Ok(Ok(Reply::Dropped { more: true }));
    }
    keys.into_iter().for_each(|key| work.space.delete(key));
    let range = work.shard.range.clone();
    work.shard = Shard::new(ShardState::Dropped, epoch, range);
    Ok(Ok(Reply::Dropped { more: false }))
}

/// Serves nobody from now on, if nothing is there. No lease: who deletes the bucket ends it one way or the other.
pub(super) fn close(work: &mut Work<'_>, epoch: u64) -> Outcome<Reply> {
    if work.shard.epoch == epoch && work.shard.state == ShardState::Splitting {
        let message = "the shard is being split; retry when that has ended".to_string();
        return Ok(Err(Refusal::new(ErrorCode::NotReady, message)));
    }
    admit!(work.shard.check(epoch, &[ShardState::Serving, ShardState::Closed]));
    let seen = if planted(Mutant::CloseIgnoresVersions) { work.shard.totals.keys } else { work.shard.totals.rows() };
    if seen > 0 {
        let Totals { versions, markers, .. } = work.shard.totals;
        let message = format!("the bucket is not empty: a shard holds {versions} versions and {markers} markers");
        return Ok(Err(S3ErrorCode::BucketNotEmpty.because(message)));
    }
    work.shard.state = ShardState::Closed;
    done(work)
}

/// The bucket stays.
pub(super) fn reopen(work: &mut Work<'_>, epoch: u64) -> Outcome<Reply> {
    admit!(work.shard.check(epoch, &[ShardState::Serving, ShardState::Splitting, ShardState::Closed]));
    if work.shard.state == ShardState::Closed {
        work.shard.state = ShardState::Serving;
    }
    done(work)
}

/// Freed data that has been handed on leaves the queue.
pub(super) fn forget_freed(work: &mut Work<'_>, until: u64) -> Outcome<Reply> {
    let (count, more) = freed::forget(work.space, work.shard.freed_queue(), until)?;
    work.shard.freed_rows = work.shard.freed_rows.saturating_sub(count);
    Ok(Ok(Reply::Dropped { more }))
}

pub(super) fn pin_prepare(work: &mut Work<'_>, epoch: u64, pin: u128, freeze_ms: u32, keep_ms: u64) -> Outcome<Reply> {
    let now = work.at.cluster_time_ms;
    if work.shard.pins.iter().any(|held| held.pin == pin) {
        return done(work);
    }
    admit!(work.shard.check(epoch, SERVING));
    // Where nobody writes, nobody breaks the freeze of what its maker has left half made.
    work.shard.drop_pins(|pin| pin.expires_ms > now && (pin.stands() || pin.frozen_until_ms > now));
    if work.shard.pins.len() >= PINS_MAX {
        let message = format!("the shard has {PINS_MAX} snapshots already; wait until one ends");
        return Ok(Err(Refusal::new(ErrorCode::Overloaded, message)));
    }
    let frozen_until_ms = now.saturating_add(u64::from(freeze_ms).clamp(1, FREEZE_MS_MAX));
    let ordinal = work.shard.next_pin;
    work.shard.next_pin += 1;
    let expires_ms = now.saturating_add(keep_ms.min(PIN_MS_MAX));
    let (totals, height) = (work.shard.totals, work.shard.height);
    work.shard.pins.push(Pin { pin, ordinal, expires_ms, frozen_until_ms, totals, height, of: None });
    done(work)
}

/// Completes the snapshot, if no write came since it was prepared, and ends the freeze of writes.
pub(super) fn pin_commit(work: &mut Work<'_>, pin: u128) -> Outcome<Reply> {
    match work.shard.pins.iter_mut().find(|held| held.pin == pin) {
        Some(held) => held.frozen_until_ms = 0,
        None => return Ok(Err(snapshot_expired())),
    }
    done(work)
}

pub(super) fn unpin(work: &mut Work<'_>, pin: u128) -> Outcome<Reply> {
    work.shard.drop_pins(|held| held.pin != pin);
    done(work)
}

pub(super) fn snapshot_expired() -> Refusal {
    let message = "the snapshot is not held here any more; begin the walk again";
    S3ErrorCode::SnapshotExpired.because(message)
}

/// Rows of the key tables behind `after`, of keys in a range.
pub(super) fn key_rows(
    space: &dyn SpaceRead,
    range: &Range,
    after: &Bytes,
    rows_max: usize,
    bytes_max: usize,
) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
    let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
    for table in KEY_TABLES {
        if table == keys::ONCE && planted(Mutant::OnceTokenLeftBehind) {
            continue;
        }
        let first = keys::bound(table, &range.start).to_vec();
        let start = if after.is_empty() { first } else { first.max(successor(after)) };
        let end =
            range.end.as_ref().map_or_else(|| Bytes::copy_from_slice(&[table + 1]), |end| keys::bound(table, end));
        if start[..] >= end[..] {
            continue;
        }
        space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, value| {
            let size = key.len() + value.len();
            if rows.len() >= rows_max || (bytes + size > bytes_max && !rows.is_empty()) {
                more = true;
                return ControlFlow::Break(());
            }
            bytes += size;
            rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
            ControlFlow::Continue(())
        })?;
        if more {
            break;
        }
    }
    Ok((rows, more))
}

/// Rows of a range that changed since a sequence, as they are now, each once.
pub(super) fn feed(
    space: &dyn SpaceRead,
    range: &Range,
    after: u64,
    limit: u32,
    last: u64,
) -> Result<Reply, EngineError> {
    let limit = limit.clamp(1, STEP_ROWS_MAX) as usize;
    let start = keys::of_feed(after.saturating_add(1));
    let (named, more) = page(space, &start, Some(&[FEED + 1]), Direction::Forward, limit)?;
    let (mut rows, mut bytes) = (std::collections::BTreeMap::new(), 0);
    // The last sequences may have no row of their own (the end of a freeze), and all are looked through here.
    let mut reached = if more { after } else { last.max(after) };
    for (feed_key, names) in named {
        let sequence = crate::rows::key_number(&feed_key, 1)?;
        reached = reached.max(sequence);
        if bytes > STEP_BYTES_MAX || rows.len() + FEED_NAMES_MAX > STEP_ROWS_MAX as usize {
            return Ok(Reply::Feed { rows: rows.into_iter().collect(), reached: sequence - 1, more: true });
        }
        let changed = Changed::from_bytes(names).map_err(|error| corrupt_row("a feed's row", error))?;
        for name in changed.rows {
            let inside = range.holds(&keys::client_key(keys::closed_of(&name)?));
            if inside && !rows.contains_key(&name) {
                let value = space.get(&name)?;
                bytes += name.len() + value.as_ref().map_or(0, Bytes::len);
                rows.insert(name, value);
            }
        }
    }
    Ok(Reply::Feed { rows: rows.into_iter().collect(), reached, more })
}
