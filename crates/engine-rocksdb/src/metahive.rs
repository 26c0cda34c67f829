//! MetaHive as the node sees it: counters, damage, verifying file by file, and general metadata.
//!
//! ```text
//!   entry       key │ sequence │ value
//!   metadata    key 0x01 │ sequence, tombstone │ checksum, checksum of the checksum, payload
//!   payload     for each provider:  tag u8 │ bytes u8 │ what it said
//! ```
//!
//! Always: metadata stays in this node's files: reads, ranges, snapshots and exports of the contract do not
//! show it; a key that is damaged is refused until it is written anew, and that repairs it.
//! Held by: `general_metadata_goes_nowhere`, `flips_that_stay_are_refused_until_written_anew`.
//! Not here: judging (shim/verify.cc), asking another replica for a right value (core-cluster).

use crate::ffi::*;
use crate::store::{mapped, unmapped, Database, RocksStore};
use base_engine::stored::{format, RawStore, RawVerified, RawView};
use base_engine::EngineError;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::from_mut;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What all providers together may keep of one entry; `kPayloadBytesMax` of the shim.
pub const PAYLOAD_BYTES_MAX: usize = 256;
/// Tag and length before each provider's bytes.
const HEAD_BYTES: usize = 2;
/// RocksDB's type of an entry with a value.
const KIND_VALUE: u8 = 1;

/// What was found wrong with a key; the numbers are the shim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The checksum stands, the entry does not match it.
    EntryCorrupted,
    /// Neither the entry nor its checksum can be trusted.
    BothCorrupted,
    /// The entry has no metadata, in a file where every entry has.
    MetadataMissing,
    /// Metadata speaks of an entry that is not there, in a file where every entry is.
    KeyLost,
}

impl Verdict {
    fn of(number: u8) -> Verdict {
        match number {
            2 => Verdict::EntryCorrupted,
            4 => Verdict::MetadataMissing,
            5 => Verdict::KeyLost,
            _ => Verdict::BothCorrupted,
        }
    }
}

/// A key that is not read until it is written anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The key, whole (`base_engine::stored::format`).
    pub key: Vec<u8>,
    /// RocksDB's number of the entry.
    pub sequence: u64,
    /// The table file it was found in.
    pub file: u64,
    /// What is wrong.
    pub verdict: Verdict,
}

/// Counts since the database was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Metadata entries written.
    pub written: u64,
    /// Entries whose checksum held, when tables were merged or verified.
    pub verified: u64,
    /// Entries that had no metadata and get some: of files another RocksDB wrote.
    pub adopted: u64,
    /// Metadata without its entry, dropped.
    pub orphans: u64,
    /// Metadata found flipped and recreated.
    pub recreated: u64,
    /// Entries that did not check when first read.
    pub mismatches: u64,
    /// Readings anew, past every cache.
    pub retries: u64,
    /// Mismatches that a reading anew mended.
    pub repaired: u64,
    /// Mismatches it did not: damage.
    pub damaged: u64,
    /// Flips made for tests.
    pub injected: u64,
}

/// The keys, as RocksDB has them, of which a file has a version without the contract's seal.
type UnsealedKeys = Vec<Vec<u8>>;

/// A table file that was verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerifiedFile {
    /// Its number; ask for the next one after it.
    pub file: u64,
    /// Entries verified.
    pub entries: u64,
    /// Its size: what a scrub's rate limit counts.
    pub bytes: u64,
}

/// An entry as a provider sees it.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The key, whole.
    pub key: &'a [u8],
    /// The value as stored; `None` for a deletion.
    pub value: Option<&'a [u8]>,
    /// RocksDB's number of the entry.
    pub sequence: u64,
    /// What this provider said when the entry was last written into a file.
    pub previous: Option<&'a [u8]>,
}

/// General metadata: says what is kept beside each entry, whenever it is written into a table. Called by
/// RocksDB's threads: quick, and without waiting.
pub trait MetadataProvider: Send + Sync {
    /// Distinguishes its bytes from other providers'; 1 to 255, never changed once files have it.
    fn tag(&self) -> u8;

    /// Appends what is to be kept; all providers together at most [`PAYLOAD_BYTES_MAX`], heads included.
    /// What does not fit is left out.
    fn describe(&self, entry: Described<'_>, out: &mut Vec<u8>);
}

/// A provider: the size of a value as it was put, and when it first reached a table of this node (its age).
pub struct SizeAndAge {
    seconds: fn() -> u64,
}

impl SizeAndAge {
    /// Its bytes' tag.
    pub const TAG: u8 = 1;
    /// Its name in node.toml.
    pub const NAME: &str = "size_and_age";

    /// `seconds`: the clock, in whole seconds since 1970.
    pub fn new(seconds: fn() -> u64) -> SizeAndAge {
        SizeAndAge { seconds }
    }

    /// Value bytes and the second the entry was first written out, of what it kept.
    pub fn read(kept: &[u8]) -> Option<(u32, u64)> {
        let (size, since) = kept.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*size), u64::from_le_bytes(since.try_into().ok()?)))
    }
}

/// The names of the providers that a node can be told to use, as node.toml writes them.
pub const PROVIDERS: &[&str] = &[SizeAndAge::NAME];

/// The provider of a name.
pub fn provider(name: &str) -> Option<Arc<dyn MetadataProvider>> {
    // A clock before 1970 says nothing of ages.
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    (name == SizeAndAge::NAME).then(|| Arc::new(SizeAndAge::new(seconds)) as Arc<dyn MetadataProvider>)
}

impl MetadataProvider for SizeAndAge {
    fn tag(&self) -> u8 {
        SizeAndAge::TAG
    }

    fn describe(&self, entry: Described<'_>, out: &mut Vec<u8>) {
        let bytes = u32::try_from(entry.value.map_or(0, <[u8]>::len)).unwrap_or(u32::MAX);
        let since = entry.previous.and_then(SizeAndAge::read).map_or_else(self.seconds, |(_, since)| since);
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(&since.to_le_bytes());
    }
}

/// The providers of one database, at a place the shim knows.
pub(crate) struct Providers(Vec<Arc<dyn MetadataProvider>>);

impl Providers {
    pub(crate) fn new(providers: Vec<Arc<dyn MetadataProvider>>) -> Providers {
        Providers(providers)
    }

    /// What the shim calls. The box this lies in must outlive the database.
    pub(crate) fn for_shim(&self) -> HiveProvider {
        let describe: Option<Describe> = (!self.0.is_empty()).then_some(describe as Describe);
        HiveProvider { this: std::ptr::from_ref(self).cast_mut().cast(), describe }
    }

    fn payload(&self, entry: Described<'_>, previous: &[u8]) -> Vec<u8> {
        let (mut payload, mut said) = (Vec::new(), Vec::new());
        for provider in &self.0 {
            said.clear();
            provider.describe(Described { previous: of_tag(previous, provider.tag()), ..entry }, &mut said);
            let Ok(length) = u8::try_from(said.len()) else { continue };
            if payload.len() + HEAD_BYTES + said.len() <= PAYLOAD_BYTES_MAX {
                payload.extend_from_slice(&[provider.tag(), length]);
                payload.extend_from_slice(&said);
            }
        }
        payload
    }
}

/// One provider's bytes in a payload.
fn of_tag(mut payload: &[u8], tag: u8) -> Option<&[u8]> {
    while let Some((&[found, length], rest)) = payload.split_first_chunk::<HEAD_BYTES>() {
        let (said, behind) = rest.split_at_checked(length.into())?;
        if found == tag {
            return Some(said);
        }
        payload = behind;
    }
    None
}

/// # Safety
/// `this` is a `Providers`; the slices live for the call; `out` has `capacity` bytes.
#[allow(clippy::too_many_arguments, reason = "the shim's call, word for word")]
unsafe extern "C" fn describe(
    this: *mut c_void,
    key: HiveSlice<'_>,
    value: HiveSlice<'_>,
    sequence: u64,
    kind: u8,
    previous: HiveSlice<'_>,
    out: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: as said above.
    let (providers, key, value, previous) =
        unsafe { (&*this.cast::<Providers>(), key.bytes(), value.bytes(), previous.bytes()) };
    // A panic must not go through C++; a provider that panics says nothing.
    let said = catch_unwind(AssertUnwindSafe(|| {
        let value = (kind == KIND_VALUE).then_some(value);
        unmapped(key).map_or_else(
            |_| Vec::new(),
            |key| providers.payload(Described { key, value, sequence, previous: None }, previous),
        )
    }));
    let said = said.unwrap_or_default();
    if said.len() > capacity {
        return 0;
    }
    // SAFETY: `out` has room for `capacity` bytes, and `said` is no longer.
    unsafe { std::ptr::copy_nonoverlapping(said.as_ptr(), out.cast::<u8>(), said.len()) };
    said.len()
}

unsafe extern "C" fn take_damage(this: *mut c_void, damage: *const HiveDamage<'_>) {
    // SAFETY: `this` is the vector given along, the damage and its key live for the call.
    unsafe {
        let damage = &*damage;
        let key = damage.key.bytes();
        (*this.cast::<Vec<Damage>>()).push(Damage {
            key: unmapped(key).unwrap_or(key).to_vec(),
            sequence: damage.sequence,
            file: damage.file,
            verdict: Verdict::of(damage.verdict),
        });
    }
}

/// [`RocksStore::damage`] of an open database. Where the list breaks off, what it had is all that is known now: reads refuse the
/// others by themselves.
pub(crate) fn damage_of(database: &Database) -> Vec<Damage> {
    let (mut found, mut error): (Vec<Damage>, _) = (Vec::new(), HiveError::none());
    // SAFETY: the handle is open; vector and error outlive the call, and only `take_damage` uses the vector.
    unsafe { hive_rocks_damage(database.handle(), from_mut(&mut found).cast(), take_damage, &mut error) };
    found
}

/// A metadata entry as it lies in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// RocksDB's number of the entry it speaks of.
    pub sequence: u64,
    /// The entry's checksum: its lower 48 bits, in files of form 1 all 64.
    pub checksum: u64,
    payload: Vec<u8>,
}

impl Kept {
    /// What a provider said.
    pub fn of(&self, tag: u8) -> Option<&[u8]> {
        of_tag(&self.payload, tag)
    }
}

unsafe extern "C" fn take_key(this: *mut c_void, key: HiveSlice<'_>) {
    // SAFETY: `this` is the vector given along, the key lives for the call.
    unsafe { (*this.cast::<Vec<Vec<u8>>>()).push(key.bytes().to_vec()) }
}

unsafe extern "C" fn take_kept(this: *mut c_void, sequence: u64, checksum: u64, payload: HiveSlice<'_>) {
    // SAFETY: `this` is the vector given along, the payload lives for the call.
    unsafe {
        let payload = payload.bytes().to_vec();
        (*this.cast::<Vec<Kept>>()).push(Kept { sequence, checksum, payload });
    }
}

impl RocksStore {
    /// Counts since it was opened.
    pub fn counters(&self) -> Counters {
        let mut all = [0; COUNTERS];
        // SAFETY: the handle is open; the shim fills as many numbers as the array has.
        unsafe { hive_rocks_counters(self.database.handle(), &mut all) };
        let [written, verified, adopted, orphans, recreated, mismatches, retries, repaired, damaged, injected] = all;
        Counters { written, verified, adopted, orphans, recreated, mismatches, retries, repaired, damaged, injected }
    }

    /// Every key known to be damaged whose damaged version is the newest, in order. Each is refused by reads, with the ranges it lies in,
    /// until it is put or deleted anew: with what a healthy replica has.
    pub fn damage(&self) -> Vec<Damage> {
        damage_of(&self.database)
    }

    /// Flips a bit in so many of a million entries on their way from their checksum to a table, drawn from a seed;
    /// zero: no more. For tests alone.
    #[doc(hidden)]
    pub fn flip_entries(&self, per_million: u32, seed: u64) {
        // SAFETY: the handle is open.
        unsafe { hive_rocks_inject(self.database.handle(), 0, per_million, seed) }
    }

    /// Verifies the next table file behind number `after` (zero: the first), read past the caches;
    /// `None`: there is none. What is wrong is in [`RocksStore::damage`] then. A scrub calls it again and
    /// again, and waits in between as its rate allows.
    pub fn verify_file(&self, after: u64) -> Result<Option<VerifiedFile>, EngineError> {
        Ok(self.verify_with_seals(after)?.map(|(verified, _)| verified))
    }

    /// The number of the next table file; zero: there is none.
    fn file_after(&self, number: u64) -> Result<u64, EngineError> {
        let mut error = HiveError::none();
        // SAFETY: the handle is open, and the error outlives the call.
        let file = unsafe { hive_rocks_file_after(self.database.handle(), number, &mut error) };
        error.judge("listing tables").map(|()| file)
    }

    /// The same, with the keys (as RocksDB has them) of which the file has a version without the contract's seal.
    fn verify_with_seals(&self, after: u64) -> Result<Option<(VerifiedFile, UnsealedKeys)>, EngineError> {
        let file = self.file_after(after)?;
        if file == 0 {
            return Ok(None);
        }
        let (mut entries, mut bytes, mut error) = (0, 0, HiveError::none());
        let mut unsealed: Vec<Vec<u8>> = Vec::new();
        let this = from_mut(&mut unsealed).cast();
        // SAFETY: the handle is open; the numbers, the vector and the error outlive the call, and only `take_key` uses the vector.
        unsafe {
            hive_rocks_verify(self.database.handle(), file, &mut entries, &mut bytes, this, take_key, &mut error);
        }
        error.judge(&format!("verifying table {file}"))?;
        Ok(Some((VerifiedFile { file, entries, bytes }, unsealed)))
    }

    /// Of these keys those that a read refuses: an older version that is not sealed is nobody's any more.
    fn refused_of(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut refused = Vec::new();
        for key in keys {
            let key = unmapped(&key).unwrap_or(&key).to_vec();
            let stored = self.newest()?.get(&key);
            let sound = match &stored {
                Ok(stored) => stored.as_ref().is_none_or(|stored| format::unseal(&key, stored).is_ok()),
                Err(EngineError::Corrupt(_)) => false,
                Err(error) => return Err(error.clone()),
            };
            if !sound {
                refused.push(key);
            }
        }
        Ok(refused)
    }

    /// A table file as a part of the contract's verifying; its damage is all that is known, and what its seals say.
    pub(crate) fn verify_part(&self, after: &[u8]) -> Result<RawVerified, EngineError> {
        let after = after.try_into().map_or(0, u64::from_be_bytes);
        let Some((verified, unsealed)) = self.verify_with_seals(after)? else { return Ok(RawVerified::default()) };
        let mut damaged: Vec<Vec<u8>> = self.damage().into_iter().map(|damage| damage.key).collect();
        damaged.extend(self.refused_of(unsealed)?);
        damaged.sort_unstable();
        damaged.dedup();
        let next = Bytes::copy_from_slice(&verified.file.to_be_bytes());
        Ok(RawVerified { entries: verified.entries, bytes: verified.bytes, damaged, next: Some(next) })
    }

    /// Verifies every table file; the entries met. A merge that began before may add files with lower
    /// numbers meanwhile, so the list is gone through until there is none that was not looked at.
    pub fn verify_files(&self) -> Result<u64, EngineError> {
        let (mut seen, mut entries) = (BTreeSet::new(), 0);
        loop {
            let (mut after, mut new) = (0, false);
            while let file @ 1.. = self.file_after(after)? {
                if seen.insert(file) {
                    let verified = self.verify_file(file - 1)?;
                    (new, entries) = (true, entries + verified.map_or(0, |verified| verified.entries));
                }
                after = file;
            }
            if !new {
                return Ok(entries);
            }
        }
    }

    /// The metadata beside a key, newest first: for operators and tests. Empty for what has not reached a
    /// table, and for keys that are last in their file.
    pub fn metadata(&self, key: &[u8]) -> Result<Vec<Kept>, EngineError> {
        let (mut found, mut error): (Vec<Kept>, _) = (Vec::new(), HiveError::none());
        let key = mapped(key);
        // SAFETY: the handle is open; key, vector and error outlive the call.
        unsafe {
            let this = from_mut(&mut found).cast();
            hive_rocks_metadata(self.database.handle(), HiveSlice::of(&key), this, take_kept, &mut error);
        }
        error.judge("reading metadata").map(|()| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(u8, usize);

    impl MetadataProvider for Says {
        fn tag(&self) -> u8 {
            self.0
        }

        fn describe(&self, entry: Described<'_>, out: &mut Vec<u8>) {
            out.extend(entry.previous.unwrap_or(&[]));
            out.extend(vec![self.0; self.1]);
        }
    }

    #[test]
    fn providers_share_a_payload_and_get_their_own_back() {
        let providers = Providers::new(vec![Arc::new(Says(7, 2)), Arc::new(Says(9, 300)), Arc::new(Says(8, 1))]);
        let entry = Described { key: b"k", value: None, sequence: 1, previous: None };
        let first = providers.payload(entry, &[]);
        assert_eq!(first, [7, 2, 7, 7, 8, 1, 8], "what is too long is left out");
        let second = providers.payload(entry, &first);
        assert_eq!((of_tag(&second, 7), of_tag(&second, 8)), (Some(&[7, 7, 7, 7][..]), Some(&[8, 8][..])));
        assert_eq!(of_tag(&second, 9), None);
        assert_eq!(of_tag(&[7, 200, 1], 7), None, "cut short");
    }

    #[test]
    fn size_and_age_keeps_the_first_second() {
        let provider = SizeAndAge::new(|| 1000);
        let mut said = Vec::new();
        provider.describe(Described { key: b"k", value: Some(b"abc"), sequence: 1, previous: None }, &mut said);
        assert_eq!(SizeAndAge::read(&said), Some((3, 1000)));
        let later = SizeAndAge::new(|| 2000);
        let mut again = Vec::new();
        later.describe(Described { key: b"k", value: Some(b"abc"), sequence: 1, previous: Some(&said) }, &mut again);
        assert_eq!(again, said);
        assert_eq!(SizeAndAge::read(&said[..5]), None);
    }
}
