//! What engines with files of their own share: whose a directory is, seals, snapshots that expire, and
//! the contract itself on top of one ordered map of raw bytes.
//!
//!   StoredEngine<S>   the contract: spaces, seals, durable indexes, drops, snapshots, statistics
//!        │ whole keys, sealed values
//!   S: RawStore       engine-redb, engine-fjall, engine-sqlite: views and one atomic, synced commit
//!
//! Always: what a `RawStore` holds is readable by [`format`] alone, so that every such engine has the
//! same bytes inside; a write that may not have reached the disk closes the engine for writing.
//! Not here: the libraries (one crate each), `engine-lmdb` (older, with a layout of its own).

pub mod changes;
pub mod directory;
pub mod failure;
mod fenced;
pub mod format;
pub mod snapshots;

pub use changes::Changes;
pub use directory::Directory;
pub use snapshots::SnapshotLimits;

use crate::fences::{self, FencedView};
use crate::{
    verify, Direction, Engine, EngineError, EngineRead, EngineSnapshot, EngineStatistics, KeyRange, VerifiedPart,
    Visit, WalkVisit, WriteBatch, ENGINE_KEY_BYTES_MAX,
};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use failure::Latch;
use fenced::Fenced;
use snapshots::{Snapshot, Snapshots};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sees the stored pairs of a range; breaks, continues, or fails.
pub type RawVisit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, EngineError>;

/// One ordered map of bytes on a disk.
pub trait RawStore: Send + Sync + 'static {
    /// The engine's name in rules.
    const NAME: &'static str;
    /// Whether the data may be there although its directory is new: it lies elsewhere.
    const ELSEWHERE: bool = false;
    /// Whether absence is proved by fences: its files have no checksums of their own that every read tries.
    const FENCED: bool = false;
    /// `Engine::tells_lost_keys`.
    const TELLS_LOST_KEYS: bool = false;
    /// One instant of it; needs no reference to the store.
    type View: RawView + Send + 'static;

    /// The newest instant.
    fn view(&self) -> Result<Self::View, EngineError>;

    /// For one read: a view of the newest instant at that read, where that is cheaper than `view`.
    fn newest(&self) -> Result<Self::View, EngineError> {
        self.view()
    }

    /// Makes all changes or none, durable on return. After `Full` the next may be tried; after any
    /// other error none is asked for again. One at a time.
    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError>;

    /// Bytes on disk.
    fn bytes_used(&self) -> u64;

    /// `Engine::verify` where the store has something better than reading pairs. Damaged keys are whole
    /// ones here; the contract's are made of them.
    fn verify(&self, _after: &[u8]) -> Option<Result<RawVerified, EngineError>> {
        None
    }

    /// Bytes it may grow to; zero: no limit of its own.
    fn bytes_limit(&self) -> u64 {
        0
    }
}

/// [`VerifiedPart`] with whole keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawVerified {
    /// Entries that were read and checked.
    pub entries: u64,
    /// Bytes read for it.
    pub bytes: u64,
    /// Whole keys that are damaged.
    pub damaged: Vec<Vec<u8>>,
    /// Where to continue.
    pub next: Option<Bytes>,
}

/// Reads at one instant.
pub trait RawView {
    /// What is stored under a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// Visits what is stored from `start` up to before `end`; never called with `end <= start`.
    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError>;

    /// Whole keys that are known to be damaged, ascending: reads of them, and of ranges they lie in, are refused.
    fn damaged(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// An engine on a raw store.
pub struct StoredEngine<S: RawStore> {
    store: S,
    directory: Directory,
    snapshots: Snapshots<S::View>,
    free_bytes: fn(&Path) -> Result<u64, EngineError>,
    /// From reading what fences say to writing what they are to say.
    one_batch: Mutex<()>,
    one_writer: Mutex<()>,
    latch: Latch,
    batches: AtomicU64,
    puts: AtomicU64,
}

impl<S: RawStore> StoredEngine<S> {
    /// Puts the contract on a store just opened in a directory: reads its marker, or writes it if the
    /// directory is just being made. A store elsewhere (an object store) may hold a marker although the
    /// directory is new: then it is judged, and if it is ours taken on.
    pub fn attach(
        store: S,
        mut directory: Directory,
        identity: &str,
        limits: SnapshotLimits,
    ) -> Result<StoredEngine<S>, EngineError> {
        if directory.is_made() || (S::ELSEWHERE && store.view()?.get(format::VERSION_KEY)?.is_some()) {
            let newest = if S::FENCED { format::FENCED_VERSION } else { format::FORMAT_VERSION };
            let version = check_marker(&store.view()?, S::NAME, directory.path(), identity, newest)?;
            match S::FENCED {
                true if version < format::FENCED_VERSION => fenced::make_all(&store)?,
                true => fenced::repair_roll(&store)?,
                false => {}
            }
        } else {
            let marker = if S::FENCED { Changes::fenced_marker(identity) } else { Changes::marker(identity) };
            store.commit(&marker)?;
        }
        directory.finish()?;
        Ok(StoredEngine {
            store,
            directory,
            snapshots: Snapshots::new(limits),
            free_bytes: failure::free_bytes,
            one_batch: Mutex::new(()),
            one_writer: Mutex::new(()),
            latch: Latch::default(),
            batches: AtomicU64::new(0),
            puts: AtomicU64::new(0),
        })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The store beneath.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Asks this for the room on the disk: for tests of a full one.
    pub fn set_free_bytes(&mut self, free_bytes: fn(&Path) -> Result<u64, EngineError>) {
        self.free_bytes = free_bytes;
    }

    /// Reads everything, tries every checksum and looks every key up: damage above a B-tree's leaves hides
    /// keys from a look-up, not from a walk. The number of pairs. Slow: for operators and tests.
    pub fn verify(&self) -> Result<u64, EngineError> {
        let mut pairs = 0;
        let view = self.store.view()?;
        view.range(&[], &[u8::MAX], Direction::Forward, &mut |key, stored| {
            format::unseal(key, stored)?;
            if view.get(key)?.as_deref() != Some(stored) {
                return Err(EngineError::Corrupt(format!(
                    "the key {} is met in a walk and not found by itself; rebuild the replica from a peer",
                    key.escape_ascii()
                )));
            }
            pairs += u64::from(key.first() == Some(&format::PAIR_TAG));
            Ok(ControlFlow::Continue(()))
        })?;
        if S::FENCED {
            self.prove_all(&view, pairs)?;
        }
        Ok(pairs)
    }

    /// The keys of every space add up, and no pair lies in any other.
    fn prove_all(&self, view: &S::View, pairs: u64) -> Result<(), EngineError> {
        let (fenced, mut proved) = (Fenced(view), 0);
        for space in fenced.roll()?.spaces() {
            fences::range(&fenced, space, KeyRange::ALL, Direction::Forward, &mut |_, _| {
                proved += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            durable_index(view, space, true)?;
        }
        if proved != pairs {
            return Err(EngineError::Corrupt(format!(
                "{pairs} pairs are found, {proved} of them in spaces that are known; rebuild the replica"
            )));
        }
        Ok(())
    }

    /// For one read. Where fences are compared with keys, both are of one instant.
    fn read_view(&self) -> Result<S::View, EngineError> {
        match S::FENCED {
            true => self.store.view(),
            false => self.store.newest(),
        }
    }

    /// With the fences that a batch changes.
    fn commit_batch<'c>(&self, changes: Changes<'c>) -> Result<(), EngineError> {
        let _one = self.one_batch.lock().unwrap_or_else(PoisonError::into_inner); // It guards no data.
        let changes = match S::FENCED {
            true => {
                let plan = fenced::plan(&self.store.view()?, &changes)?;
                changes.with_fences(plan)
            }
            false => changes,
        };
        self.commit(changes)
    }

    fn commit(&self, changes: Changes<'_>) -> Result<(), EngineError> {
        let _one = self.one_writer.lock().unwrap_or_else(PoisonError::into_inner); // It guards no data.
        self.latch.check()?;
        self.snapshots.expire();
        if changes.puts() > 0 {
            let free = (self.free_bytes)(self.directory.path())?;
            failure::check_room(self.directory.path(), free, changes.bytes())?;
        }
        self.latch.judge(self.store.commit(&changes))?;
        self.snapshots.on_written(changes.bytes());
        Ok(())
    }
}

/// Sorts whole keys into what the contract knows: pairs and durable indexes. Damage to any other (the marker)
/// is the engine's.
fn sort_damage(whole_keys: &[Vec<u8>], part: &mut VerifiedPart) -> Result<(), EngineError> {
    for whole_key in whole_keys {
        match whole_key.split_at_checked(format::PREFIX_BYTES) {
            Some((prefix, key)) if prefix[0] == format::PAIR_TAG => {
                part.damaged.push((format::space_of(whole_key)?, Bytes::copy_from_slice(key)));
            }
            Some((prefix, [])) if prefix[0] == format::DURABLE_TAG => part.indexes.push(format::space_of(whole_key)?),
            _ => {
                return Err(EngineError::Corrupt(format!(
                    "the entry {} does not match its checksum; rebuild the replica from a peer",
                    whole_key.escape_ascii()
                )))
            }
        }
    }
    Ok(())
}

/// The version of what is inside; an error if it is above `newest`, or somebody else's.
fn check_marker(
    view: &impl RawView,
    engine: &str,
    path: &Path,
    identity: &str,
    newest: u32,
) -> Result<u32, EngineError> {
    let lost = |what: &str| {
        EngineError::Corrupt(format!("{} has lost the {what} inside its files; rebuild the replica", path.display()))
    };
    let version = view.get(format::VERSION_KEY)?.ok_or_else(|| lost("format marker"))?;
    let version = format::unseal(format::VERSION_KEY, &version)?;
    let version = version.try_into().map(u32::from_le_bytes).map_err(|_| lost("format marker"))?;
    if version == 0 || version > newest {
        return Err(directory::newer_format(path, engine, version, newest));
    }
    let owner = view.get(format::IDENTITY_KEY)?.ok_or_else(|| lost("identity"))?;
    let owner = format::unseal(format::IDENTITY_KEY, &owner)?;
    if !identity.is_empty() && owner != identity.as_bytes() {
        return Err(EngineError::WrongFormat(format!(
            "the data in {} belongs to \"{}\", not to \"{}\"; restore the right directory or give an empty one",
            path.display(),
            owner.escape_ascii(),
            identity.escape_default()
        )));
    }
    Ok(version)
}

/// `fenced`: a miss is proved.
fn get(view: &impl RawView, space: SpaceId, key: &[u8], fenced: bool) -> Result<Option<Bytes>, EngineError> {
    if key.len() > ENGINE_KEY_BYTES_MAX {
        return Ok(None); // Never written.
    }
    let whole_key = format::pair_key(space, key);
    match view.get(&whole_key)? {
        Some(stored) => format::unseal_bytes(&whole_key, stored).map(Some),
        None if fenced => fences::prove_absent(&Fenced(view), space, key).map(|()| None),
        None => Ok(None),
    }
}

fn durable_index(view: &impl RawView, space: SpaceId, fenced: bool) -> Result<LogIndex, EngineError> {
    let key = format::durable_key(space);
    match view.get(&key)? {
        Some(stored) => format::decode_index(&key, &stored),
        None if fenced => fences::prove_no_index(&Fenced(view), space).map(|()| LogIndex(0)),
        None => Ok(LogIndex(0)),
    }
}

/// A range whose runs are proved; `see` gets whole keys with what is stored.
fn fenced_range(
    view: &impl RawView,
    space: SpaceId,
    range: KeyRange<'_>,
    direction: Direction,
    see: RawVisit<'_>,
) -> Result<(), EngineError> {
    let mut whole_key = Vec::new();
    fences::range(&Fenced(view), space, range, direction, &mut |key, stored| {
        format::write_pair_key(&mut whole_key, space, key);
        see(&whole_key, stored)
    })
}

/// `go_on` is asked before each pair.
fn range(
    view: &impl RawView,
    space: SpaceId,
    range: KeyRange<'_>,
    direction: Direction,
    visit: Visit<'_>,
    go_on: impl Fn() -> Result<(), EngineError>,
    fenced: bool,
) -> Result<(), EngineError> {
    if range.end.is_some_and(|end| end <= range.start) {
        return Ok(());
    }
    let mut see = |whole_key: &[u8], stored: &[u8]| {
        go_on()?;
        let value = format::unseal(whole_key, stored)?;
        Ok(visit(whole_key.get(format::PREFIX_BYTES..).unwrap_or_default(), value))
    };
    if fenced {
        return fenced_range(view, space, range, direction, &mut see);
    }
    let start = format::pair_key(space, range.start);
    let end = range.end.map_or_else(|| format::space_end(space), |end| format::pair_key(space, end));
    view.range(&start, &end, direction, &mut see)
}

/// Sees whole keys with what is stored, or (`None`) that they are refused.
type AnyVisit<'v> = &'v mut dyn FnMut(&[u8], Option<&[u8]>) -> Result<ControlFlow<()>, EngineError>;

/// A range of whole keys, around those that are refused.
fn any_range(view: &impl RawView, mut start: Vec<u8>, end: &[u8], visit: AnyVisit<'_>) -> Result<(), EngineError> {
    let refused: Vec<Vec<u8>> = view.damaged().into_iter().filter(|key| *key >= start && **key < *end).collect();
    for refused in refused.iter().map(Some).chain([None]) {
        let stop = refused.map_or(end, |key| key);
        let mut ended = false;
        if *start < *stop {
            view.range(&start, stop, Direction::Forward, &mut |key, stored| {
                let flow = visit(key, Some(stored))?;
                ended = flow.is_break();
                Ok(flow)
            })?;
        }
        let Some(refused) = refused.filter(|_| !ended) else { return Ok(()) };
        if visit(refused, None)?.is_break() {
            return Ok(());
        }
        // The first key after it.
        start = [&refused[..], &[0]].concat();
    }
    Ok(())
}

/// As `range`, past the pairs that are refused or whose seal does not hold.
fn walk(
    view: &impl RawView,
    space: SpaceId,
    range: KeyRange<'_>,
    visit: WalkVisit<'_>,
    go_on: impl Fn() -> Result<(), EngineError>,
    fenced: bool,
) -> Result<(), EngineError> {
    let mut see = |whole_key: &[u8], stored: Option<&[u8]>| {
        go_on()?;
        let value = stored.and_then(|stored| format::unseal(whole_key, stored).ok());
        Ok(visit(whole_key.get(format::PREFIX_BYTES..).unwrap_or_default(), value))
    };
    if fenced {
        return fenced_range(view, space, range, Direction::Forward, &mut |key, stored| see(key, Some(stored)));
    }
    let start = format::pair_key(space, range.start);
    let end = range.end.map_or_else(|| format::space_end(space), |end| format::pair_key(space, end));
    any_range(view, start, &end, &mut see)
}

/// The first key at or behind `start` that begins with `tag`.
fn first_key(view: &impl RawView, start: &[u8], tag: u8) -> Result<Option<Vec<u8>>, EngineError> {
    let mut found = None;
    any_range(view, start.to_vec(), &[tag + 1], &mut |key, _| {
        found = Some(key.to_vec());
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// One seek a space, and one a durable index.
fn list_spaces(view: &impl RawView) -> Result<Vec<SpaceId>, EngineError> {
    let mut found = Vec::new();
    for tag in [format::PAIR_TAG, format::DURABLE_TAG] {
        let mut start = vec![tag];
        while let Some(key) = first_key(view, &start, tag)? {
            let space = format::space_of(&key)?;
            found.push(space);
            let Some(next) = space.0.checked_add(1) else { break };
            start = [&[tag][..], &next.to_be_bytes()].concat();
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

impl<S: RawStore> EngineRead for StoredEngine<S> {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let found = get(&self.store.newest()?, space, key, false)?;
        match found {
            // To be proved, at one instant.
            None if S::FENCED => get(&self.store.view()?, space, key, true),
            found => Ok(found),
        }
    }

    fn range(
        &self,
        space: SpaceId,
        bounds: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        range(&self.read_view()?, space, bounds, direction, visit, || Ok(()), S::FENCED)
    }

    fn walk(&self, space: SpaceId, bounds: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        walk(&self.read_view()?, space, bounds, visit, || Ok(()), S::FENCED)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        durable_index(&self.read_view()?, space, S::FENCED)
    }
}

impl<S: RawStore> Engine for StoredEngine<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError> {
        batch.check()?;
        let changes = Changes::of(batch);
        let puts = changes.puts();
        self.commit_batch(changes)?;
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.puts.fetch_add(puts, Ordering::Relaxed);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError> {
        Ok(Box::new(StoredSnapshot { snapshot: self.snapshots.take(|| self.store.view())?, fenced: S::FENCED }))
    }

    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        let limit = limit.max(1);
        let (mut keys, mut left) = (Vec::new(), false);
        let view = self.store.view()?;
        any_range(&view, format::pair_key(space, &[]), &format::space_end(space), &mut |key, _| {
            if keys.len() == limit {
                left = true;
                return Ok(ControlFlow::Break(()));
            }
            keys.push(key.get(format::PREFIX_BYTES..).unwrap_or_default().to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        let has_index = durable_index(&view, space, S::FENCED).map_or(true, |index| index.0 != 0);
        let (mut fence_keys, mut roll) = (Vec::new(), None);
        if S::FENCED && !left {
            fence_keys = fenced::keys_of(&view, &format::fence_key(space, &[]), &format::fences_end(space))?;
            // Opening the engine recreates a damaged roll.
            roll = Fenced(&view).roll().ok();
            roll.iter_mut().for_each(|roll| roll.remove(space));
        }
        drop(view);
        let changes = Changes::dropping(space, &keys, !left);
        if left {
            self.commit_batch(changes)?;
        } else if !keys.is_empty() || has_index || !fence_keys.is_empty() {
            let _one = self.one_batch.lock().unwrap_or_else(PoisonError::into_inner); // It guards no data.
            self.commit(changes.without_fences(fence_keys, roll))?;
        }
        Ok(left)
    }

    fn verify(&self, after: &[u8]) -> Result<VerifiedPart, EngineError> {
        let Some(part) = self.store.verify(after) else { return verify::verify_by_reading(self, after) };
        let part = part?;
        let mut verified =
            VerifiedPart { entries: part.entries, bytes: part.bytes, next: part.next, ..VerifiedPart::default() };
        sort_damage(&part.damaged, &mut verified)?;
        Ok(verified)
    }

    fn tells_lost_keys(&self) -> bool {
        S::TELLS_LOST_KEYS
    }

    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        let view = self.store.view()?;
        match S::FENCED {
            true => Ok(Fenced(&view).roll()?.spaces()),
            false => list_spaces(&view),
        }
    }

    fn statistics(&self) -> EngineStatistics {
        EngineStatistics {
            bytes_used: self.store.bytes_used(),
            bytes_limit: self.store.bytes_limit(),
            batches: self.batches.load(Ordering::Relaxed),
            puts: self.puts.load(Ordering::Relaxed),
        }
    }
}

/// What an engine wrote, read by somebody who is not its owner: no directory, no lock, and nothing is ever written.
pub struct Bystander<V>(V);

impl<V: RawView> Bystander<V> {
    /// Looks at the marker inside: what is of a newer format is refused. `place` is for messages.
    pub fn open(view: V, engine: &str, place: &Path) -> Result<Bystander<V>, EngineError> {
        check_marker(&view, engine, place, "", format::FORMAT_VERSION)?;
        Ok(Bystander(view))
    }

    /// The spaces it holds.
    pub fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        list_spaces(&self.0)
    }

    /// What it reads.
    pub fn view(&self) -> &V {
        &self.0
    }
}

impl<V: RawView> EngineRead for Bystander<V> {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        get(&self.0, space, key, false)
    }

    fn range(
        &self,
        space: SpaceId,
        bounds: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        range(&self.0, space, bounds, direction, visit, || Ok(()), false)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        durable_index(&self.0, space, false)
    }
}

/// One instant of a [`StoredEngine`], until it expires.
struct StoredSnapshot<V> {
    snapshot: Snapshot<V>,
    fenced: bool,
}

impl<V: RawView> EngineRead for StoredSnapshot<V> {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.snapshot.read(|view| get(view, space, key, self.fenced))
    }

    fn range(
        &self,
        space: SpaceId,
        bounds: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let go_on = || self.snapshot.check_not_expired();
        self.snapshot.read(|view| range(view, space, bounds, direction, visit, go_on, self.fenced))
    }

    fn walk(&self, space: SpaceId, bounds: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        let go_on = || self.snapshot.check_not_expired();
        self.snapshot.read(|view| walk(view, space, bounds, visit, go_on, self.fenced))
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.snapshot.read(|view| durable_index(view, space, self.fenced))
    }
}

impl<V: RawView + Send> EngineSnapshot for StoredSnapshot<V> {}
