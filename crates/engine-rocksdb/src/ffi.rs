//! The shim's C interface (`shim/store.h`), word for word, and what owns its handles.
//!
//! Always: a handle is freed once, by its owner's `drop`; slices of the shim are copied or visited before
//! the next call on their handle.
//! Not here: what errors mean (`failure.rs`).

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null;

/// An opened database of the shim.
#[repr(C)]
pub struct HiveRocks {
    _opaque: [u8; 0],
}
/// Changes being gathered.
#[repr(C)]
pub struct HiveBatch {
    _opaque: [u8; 0],
}
/// A walk over a range.
#[repr(C)]
pub struct HiveCursor {
    _opaque: [u8; 0],
}
/// A value that stays where it is until it is freed.
#[repr(C)]
pub struct HivePinned {
    _opaque: [u8; 0],
}

/// Bytes of either side; borrowed for the time of one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HiveSlice<'a> {
    bytes: *const c_char,
    length: usize,
    _lives: PhantomData<&'a [u8]>,
}

impl<'a> HiveSlice<'a> {
    /// Ours, for the shim.
    pub fn of(bytes: &'a [u8]) -> HiveSlice<'a> {
        HiveSlice { bytes: bytes.as_ptr().cast(), length: bytes.len(), _lives: PhantomData }
    }

    /// To be filled by the shim.
    pub fn empty() -> HiveSlice<'a> {
        HiveSlice { bytes: null(), length: 0, _lives: PhantomData }
    }

    /// The shim's, for us.
    ///
    /// # Safety
    /// The bytes must live, unchanged, as long as `'a`.
    pub unsafe fn bytes(&self) -> &'a [u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; the length is the shim's own.
        unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.length) }
    }
}

/// What went wrong; the text is the shim's until it is freed.
#[repr(C)]
pub struct HiveError {
    pub kind: c_int,
    pub text: *mut c_char,
    pub length: usize,
}

/// Called by the shim for each entry that is written into a table.
pub type Describe = unsafe extern "C" fn(
    this: *mut c_void,
    key: HiveSlice<'_>,
    value: HiveSlice<'_>,
    sequence: u64,
    kind: u8,
    previous: HiveSlice<'_>,
    out: *mut c_char,
    capacity: usize,
) -> usize;

/// Who says what is kept beside an entry.
#[repr(C)]
pub struct HiveProvider {
    pub this: *mut c_void,
    pub describe: Option<Describe>,
}

/// A key that is damaged; lives for the call it is given to.
#[repr(C)]
pub struct HiveDamage<'a> {
    pub key: HiveSlice<'a>,
    pub sequence: u64,
    pub file: u64,
    pub kind: u8,
    pub verdict: u8,
}

/// As many counters as the shim has.
pub const COUNTERS: usize = 10;

/// As many numbers as the shim has of what reads did.
pub const WORK: usize = 4;
/// As many numbers as the shim has of tables.
pub const SHAPE: usize = 5;

/// How a database is opened.
#[repr(C)]
pub struct HiveOptions {
    pub provider: HiveProvider,
    pub cache_bytes: u64,
    pub memtable_bytes: u64,
    pub file_bytes: u64,
    pub wal_bytes_max: u64,
    pub threads: i32,
    pub make: u8,
    pub metahive: u8,
    pub sync: u8,
    pub direct_reads: u8,
    pub stock_blocks: u8,
    pub block_checksums: u8,
}

extern "C" {
    pub fn hive_rocks_open(path: HiveSlice<'_>, options: *const HiveOptions, error: *mut HiveError) -> *mut HiveRocks;
    pub fn hive_rocks_close(rocks: *mut HiveRocks);
    pub fn hive_rocks_free(text: *mut c_char);
    pub fn hive_rocks_get(
        rocks: *mut HiveRocks,
        snapshot: *const c_void,
        key: HiveSlice<'_>,
        value: *mut HiveSlice<'_>,
        error: *mut HiveError,
    ) -> *mut HivePinned;
    pub fn hive_rocks_unpin(pinned: *mut HivePinned);
    pub fn hive_rocks_snapshot(rocks: *mut HiveRocks, error: *mut HiveError) -> *const c_void;
    pub fn hive_rocks_release(rocks: *mut HiveRocks, snapshot: *const c_void);
    pub fn hive_rocks_batch() -> *mut HiveBatch;
    pub fn hive_rocks_batch_put(batch: *mut HiveBatch, key: HiveSlice<'_>, value: HiveSlice<'_>);
    pub fn hive_rocks_batch_delete(batch: *mut HiveBatch, key: HiveSlice<'_>);
    pub fn hive_rocks_batch_free(batch: *mut HiveBatch);
    pub fn hive_rocks_write(rocks: *mut HiveRocks, batch: *mut HiveBatch, error: *mut HiveError);
    pub fn hive_rocks_cursor(
        rocks: *mut HiveRocks,
        snapshot: *const c_void,
        start: HiveSlice<'_>,
        end: HiveSlice<'_>,
        backward: c_int,
        error: *mut HiveError,
    ) -> *mut HiveCursor;
    pub fn hive_rocks_next(
        cursor: *mut HiveCursor,
        key: *mut HiveSlice<'_>,
        value: *mut HiveSlice<'_>,
        error: *mut HiveError,
    ) -> c_int;
    pub fn hive_rocks_cursor_free(cursor: *mut HiveCursor);
    pub fn hive_rocks_flush(rocks: *mut HiveRocks, error: *mut HiveError);
    pub fn hive_rocks_compact(rocks: *mut HiveRocks, error: *mut HiveError);
    pub fn hive_rocks_counters(rocks: *mut HiveRocks, out: *mut [u64; COUNTERS]);
    pub fn hive_rocks_damage(
        rocks: *mut HiveRocks,
        this: *mut c_void,
        take: unsafe extern "C" fn(*mut c_void, *const HiveDamage<'_>),
        error: *mut HiveError,
    );
    pub fn hive_rocks_file_after(rocks: *mut HiveRocks, number: u64, error: *mut HiveError) -> u64;
    pub fn hive_rocks_verify(
        rocks: *mut HiveRocks,
        number: u64,
        entries: *mut u64,
        bytes: *mut u64,
        this: *mut c_void,
        take: unsafe extern "C" fn(*mut c_void, HiveSlice<'_>),
        error: *mut HiveError,
    );
    pub fn hive_rocks_metadata(
        rocks: *mut HiveRocks,
        key: HiveSlice<'_>,
        this: *mut c_void,
        take: unsafe extern "C" fn(*mut c_void, u64, u64, HiveSlice<'_>),
        error: *mut HiveError,
    );
    #[cfg(test)]
    pub fn hive_rocks_delete_range(
        rocks: *mut HiveRocks,
        start: HiveSlice<'_>,
        end: HiveSlice<'_>,
        error: *mut HiveError,
    );
    #[cfg(test)]
    pub fn hive_rocks_judge(metadata: HiveSlice<'_>, current: u64) -> u8;
    pub fn hive_rocks_inject(rocks: *mut HiveRocks, read_per_million: u32, write_per_million: u32, seed: u64);
    pub fn hive_rocks_pause(rocks: *mut HiveRocks, error: *mut HiveError);
    pub fn hive_rocks_go_on(rocks: *mut HiveRocks, error: *mut HiveError);
    pub fn hive_rocks_work(out: *mut [u64; WORK]);
    pub fn hive_rocks_seed(seed: u32);
    pub fn hive_rocks_shape(rocks: *mut HiveRocks, out: *mut [u64; SHAPE], error: *mut HiveError);
    pub fn hive_rocks_bytes(rocks: *mut HiveRocks) -> u64;
    #[cfg(test)]
    pub fn hive_rocks_throw_next(what: c_int);
}
