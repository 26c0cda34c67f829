//! A bucket's name is unique in the whole world: the two steps by which a creator takes it (Hive paper,
//! 3.2), as pure functions over what a flow sees.
//!
//! Three places tell of a bucket: the *name* (a key of the world-wide `redis@bucket-names` cluster), the *entry*
//! (a document of the account's cluster) and the bucket's own *cluster*, named by a bucket id that is
//! drawn at random for each attempt and never used again.
//!
//! ```text
//!   creator   Reserve ──▶ PutEntry ──▶ Build ──▶ Commit ──▶ Activate        Commit decides
//!   name      pending(id), 60 s          …        owned(id)
//!   entry                 Creating                          Active
//!
//!   anyone, for an entry that is Creating for too long:
//!   sweeper   MarkUndoing ──▶ Release ──▶ DropCluster ──(grace)──▶ DeleteEntry
//! ```
//!
//! Who cleans up after a creator that crashed: before PutEntry nobody needs to, for the reservation ends by
//! itself (it is set with an expiry of the name cluster's own clock). After it, whichever node sweeps the
//! account: it goes forward if the name is owned, else back. All changes of a name are compare-and-set
//! on a value with the bucket's id (`SET NX`, `SET IFEQ`, `DELEX IFEQ`), so a step that comes late, or twice,
//! or from two runners, finds another value and does nothing.
//!
//! Always: at most one bucket owns a name; a name is owned only while its entry is there; nobody reserves
//! twice under one id, so a name released in an undo cannot be committed afterwards.
//! Held by: `no_name_is_owned_twice_or_stuck`.
//! Not here: sending, building the cluster (core-node). Proved by `tests.rs`: every crash point and interleaving.

#[cfg(test)]
pub(crate) mod tests;

use crate::redis;
use base_types::mutant::{planted, Mutant};
use base_types::s3::S3ErrorCode;
use base_types::Refusal;
use bytes::Bytes;

/// The cluster that holds the names.
pub const NAMES_CLUSTER: &str = "redis@bucket-names";
/// How long a reservation lasts, in the name cluster's time. A creator that needs longer loses it.
pub const RESERVE_MS: u64 = 60_000;
/// How long an entry may be Creating or Deleting before sweepers care: longer than any request's deadline.
pub const SWEEP_AFTER_MS: u64 = 2 * RESERVE_MS;
/// How long an entry stays Undoing, so that a late Build is still found and its cluster dropped.
pub const UNDO_GRACE_MS: u64 = 2 * RESERVE_MS;

/// One attempt at a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub bucket: String,
    /// Drawn at random for this attempt.
    pub id: u128,
    pub account: String,
    pub region: String,
}

/// What the name's key says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    Free,
    Pending(Claim),
    Owned(Claim),
}

/// Where the account's entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryState {
    Creating,
    Active,
    /// Asked to be deleted; the bucket was found empty and takes no more writes.
    Deleting,
    /// A creation that is taken back.
    Undoing,
}

/// The account's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub id: u128,
    pub state: EntryState,
    /// Since when, in the account cluster's time.
    pub since_ms: u64,
}

/// The next step. Steps on the entry are compare-and-set on its version as it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Tell the name cluster.
    Name(redis::Command),
    /// Write the entry as Creating, if there is none for this bucket.
    PutEntry,
    /// Make the bucket's cluster and its map.
    Build,
    Mark(EntryState),
    DropCluster,
    DeleteEntry,
    /// Nothing to do until this account cluster's time.
    WaitUntil(u64),
    /// The creation or deletion is over.
    Done(Result<(), Refusal>),
}

impl Claim {
    fn value(&self, state: &str) -> Bytes {
        format!("{state} {:032x} {} {}", self.id, self.account, self.region).into()
    }

    fn key(&self) -> Bytes {
        key_of(&self.bucket)
    }

    /// First step, once an attempt: the name, if it is free.
    pub fn reserve(&self) -> redis::Command {
        let words = [Bytes::from_static(b"SET"), self.key(), self.value("pending"), "NX".into(), "PX".into()];
        let mut words = words.to_vec();
        words.push(RESERVE_MS.to_string().into());
        redis::Command(words)
    }

    /// The step that decides: pending becomes owned, for good.
    pub fn commit(&self) -> redis::Command {
        let test = [Bytes::from_static(b"IFEQ"), self.value("pending")];
        redis::Command([&[Bytes::from_static(b"SET"), self.key(), self.value("owned")], &test[..]].concat())
    }

    /// Gives a name up that is in this state.
    fn release(&self, state: &str) -> redis::Command {
        let state = if planted(Mutant::ReservationNeverReleased) { "gone" } else { state };
        redis::Command(vec!["DELEX".into(), self.key(), "IFEQ".into(), self.value(state)])
    }
}

fn key_of(bucket: &str) -> Bytes {
    format!("bucket/{bucket}").into()
}

/// Asks for a name.
pub fn look_up(bucket: &str) -> redis::Command {
    redis::Command(vec!["GET".into(), key_of(bucket)])
}

/// Reads the value of the name's key. A value in another form is an error that a person must look at.
pub fn parse(bucket: &str, value: Option<&[u8]>) -> Result<Name, Refusal> {
    let Some(value) = value else { return Ok(Name::Free) };
    let text = std::str::from_utf8(value).unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    let claim = match words[..] {
        [_, id, account, region] => u128::from_str_radix(id, 16).ok().map(|id| Claim {
            bucket: bucket.to_string(),
            id,
            account: account.to_string(),
            region: region.to_string(),
        }),
        _ => None,
    };
    match (words[0], claim) {
        ("pending", Some(claim)) => Ok(Name::Pending(claim)),
        ("owned", Some(claim)) => Ok(Name::Owned(claim)),
        _ => Err(S3ErrorCode::InternalError.because(format!("the name of bucket '{bucket}' is held by '{text}'"))),
    }
}

/// Why a name cannot be had: whose it is.
fn taken(me: &Claim, by: &Claim, pending: bool) -> Refusal {
    if pending {
        return S3ErrorCode::OperationAborted.because(format!("bucket '{}' is being created; try again", me.bucket));
    }
    if me.account == by.account {
        return S3ErrorCode::BucketAlreadyOwnedByYou.because(format!("bucket '{}' is yours already", me.bucket));
    }
    S3ErrorCode::BucketAlreadyExists.because(format!("bucket name '{}' is taken; choose another", me.bucket))
}

/// What a creator does next. `reserved`: it has sent its one reservation.
pub fn create_next(me: &Claim, reserved: bool, name: &Name, entry: Option<Entry>, built: bool) -> Step {
    let mine = match name {
        Name::Free if !reserved && entry.is_none() => return Step::Name(me.reserve()),
        Name::Pending(claim) | Name::Owned(claim) if claim.id == me.id => true,
        _ => false,
    };
    match entry {
        Some(entry) if entry.id != me.id => return someone_elses(me, name, mine),
        Some(Entry { state: EntryState::Active, .. }) => return Step::Done(Ok(())),
        Some(Entry { state: EntryState::Creating, .. }) if !mine => return Step::Mark(EntryState::Undoing),
        Some(Entry { state: EntryState::Creating, .. }) => {}
        Some(_) => return undone(me),
        None if mine => return Step::PutEntry,
        None => {
            return match name {
                Name::Pending(by) => Step::Done(Err(taken(me, by, true))),
                Name::Owned(by) => Step::Done(Err(taken(me, by, false))),
                Name::Free => undone(me),
            };
        }
    }
    match name {
        Name::Owned(_) => Step::Mark(EntryState::Active),
        _ if built => Step::Name(me.commit()),
        _ => Step::Build,
    }
}

/// The account has another attempt at this bucket: ours ends, and gives back what it reserved.
fn someone_elses(me: &Claim, name: &Name, mine: bool) -> Step {
    match name {
        Name::Pending(_) if mine => Step::Name(me.release("pending")),
        Name::Owned(by) => Step::Done(Err(taken(me, by, false))),
        _ => Step::Done(Err(taken(me, me, true))),
    }
}

fn undone(me: &Claim) -> Step {
    let message = format!("bucket '{}' could not be created in time; try again", me.bucket);
    Step::Done(Err(S3ErrorCode::OperationAborted.because(message)))
}

/// What a sweeper (or the deleter itself) does with an entry that is on its way out, or has been Creating for long.
pub fn sweep_next(me: &Claim, now_ms: u64, name: &Name, entry: Option<Entry>, built: bool) -> Step {
    let Some(entry) = entry.filter(|entry| entry.id == me.id) else { return Step::Done(Ok(())) };
    let mine = matches!(name, Name::Pending(claim) | Name::Owned(claim) if claim.id == me.id);
    let due = entry.since_ms.saturating_add(SWEEP_AFTER_MS);
    match entry.state {
        EntryState::Active => Step::Done(Ok(())),
        EntryState::Creating if now_ms < due => Step::WaitUntil(due),
        // It was committed, so all was built: only the last word is missing.
        EntryState::Creating if mine && matches!(name, Name::Owned(_)) => Step::Mark(EntryState::Active),
        EntryState::Creating => Step::Mark(EntryState::Undoing),
        // An undo releases the name first, so that nothing can be committed any more. A deletion releases it last, so
        // that the next owner of the name finds no cluster.
        EntryState::Undoing if mine => release(me, name),
        EntryState::Undoing if built => Step::DropCluster,
        EntryState::Undoing => match entry.since_ms.saturating_add(UNDO_GRACE_MS) {
            until if now_ms < until => Step::WaitUntil(until),
            _ => Step::DeleteEntry,
        },
        EntryState::Deleting if built => Step::DropCluster,
        EntryState::Deleting if mine => release(me, name),
        EntryState::Deleting => Step::DeleteEntry,
    }
}

fn release(me: &Claim, name: &Name) -> Step {
    Step::Name(me.release(if matches!(name, Name::Owned(_)) { "owned" } else { "pending" }))
}
