//! The embedded store for C: `libhive_embedded` and `include/hive_embedded.h`.
//!
//! ```text
//!   hive_store_open ─▶ hive_store ─▶ put, get, delete, batch, scan, flush ─▶ hive_store_close
//!   every call: a code (0 done), and on failure a text of this thread's own (hive_error)
//! ```
//!
//! Always: no panic crosses into C (it is HIVE_FAILED); null pointers are HIVE_INVALID; bytes handed out
//! are freed by `hive_bytes_free`. A store may be used by any number of threads at once, a scan or batch
//! by one at a time.
//! Not here: what the calls do (edge-embedded).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The edge is where files and threads are.
#![allow(
    clippy::missing_safety_doc,
    reason = "each function's comment, which is C's documentation, says what its pointers are"
)]

use edge_embedded::{Batch, Durability, OpenError, Options, Range, Scan, Snapshot, Store, StoreError};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// Done.
pub const HIVE_OK: c_int = 0;
/// There is no such key, or the scan has ended.
pub const HIVE_NOT_FOUND: c_int = 1;
/// A parameter, key, value or option that cannot be; a directory that is no store's, or was made otherwise.
pub const HIVE_INVALID: c_int = 2;
/// The store is open elsewhere, or was closed.
pub const HIVE_IN_USE: c_int = 3;
/// No room; nothing was written.
pub const HIVE_FULL: c_int = 4;
/// The disk is behind; nothing was written, try again later.
pub const HIVE_OVERLOADED: c_int = 5;
/// The write may or may not be on the disk.
pub const HIVE_UNKNOWN: c_int = 6;
/// Damaged files.
pub const HIVE_CORRUPT: c_int = 7;
/// The operating system, a disk or a thread failed.
pub const HIVE_FAILED: c_int = 8;
/// The scan was held too long; begin another.
pub const HIVE_EXPIRED: c_int = 9;

/// What a write waits for: what the store's options say.
pub const HIVE_DEFAULT: c_int = 0;
/// Until it is in memory; it is on the disk within a second.
pub const HIVE_WEAK: c_int = 1;
/// Until it is on the disk, synced.
pub const HIVE_STRONG: c_int = 2;

/// An open store.
#[allow(non_camel_case_types, reason = "C's way")]
pub struct hive_store(Store);

/// Several changes that happen together.
#[allow(non_camel_case_types, reason = "C's way")]
pub struct hive_batch(Batch);

/// A walk through the keys of one instant.
#[allow(non_camel_case_types, reason = "C's way")]
pub struct hive_scan(Scan<Snapshot>);

/// Bytes handed out; freed by `hive_bytes_free`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "C's way")]
pub struct hive_bytes {
    /// The bytes; null where there are none.
    pub data: *mut u8,
    /// How many.
    pub length: usize,
}

/// How a store is opened; begin with `hive_options_default`.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's way")]
pub struct hive_options {
    /// Make the store if it is not there.
    pub create: bool,
    /// Cores that share the keys; 0: one a processor, or as the store was made.
    pub cores: u16,
    /// HIVE_WEAK or HIVE_STRONG, for writes that say HIVE_DEFAULT.
    pub durability: c_int,
    /// How long a weak write may be in memory only, in milliseconds.
    pub flush_every_ms: u64,
    /// Memory for what the engine does not hold yet.
    pub memory_bytes_max: u64,
    /// The engine's name; null: lmdb, or as the store was made.
    pub engine: *const c_char,
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

fn told(code: c_int, message: impl ToString) -> c_int {
    let message: Vec<u8> = message.to_string().bytes().filter(|byte| *byte != 0).collect();
    ERROR.with(|error| *error.borrow_mut() = CString::new(message).unwrap_or_default());
    code
}

fn invalid(what: &str) -> c_int {
    told(HIVE_INVALID, format!("{what} is null"))
}

fn of_open(error: &OpenError) -> c_int {
    let code = match error {
        OpenError::InUse { .. } => HIVE_IN_USE,
        OpenError::Corrupt { .. } => HIVE_CORRUPT,
        OpenError::Engine { .. } | OpenError::Io { .. } => HIVE_FAILED,
        _ => HIVE_INVALID,
    };
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    told(code, format!("{error}{source}"))
}

fn of_store(error: &StoreError) -> c_int {
    let code = match error {
        StoreError::Invalid(_) => HIVE_INVALID,
        StoreError::Closed => HIVE_IN_USE,
        StoreError::Full { .. } => HIVE_FULL,
        StoreError::Overloaded { .. } => HIVE_OVERLOADED,
        StoreError::Unknown { .. } => HIVE_UNKNOWN,
        StoreError::Corrupt(_) => HIVE_CORRUPT,
        StoreError::SnapshotExpired => HIVE_EXPIRED,
        StoreError::Failed { .. } | StoreError::Io(_) => HIVE_FAILED,
    };
    told(code, error)
}

/// Runs a call; a panic in it becomes a code.
fn guarded(call: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| told(HIVE_FAILED, "a bug in the store; please report it"))
}

fn outcome(result: Result<(), StoreError>) -> c_int {
    result.map_or_else(|error| of_store(&error), |()| HIVE_OK)
}

/// # Safety
/// `data` points to `length` bytes, or is null with a length of 0.
unsafe fn slice<'b>(data: *const u8, length: usize) -> Option<&'b [u8]> {
    match (data.is_null(), length) {
        (true, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

fn hand_out(bytes: &[u8]) -> hive_bytes {
    let boxed: Box<[u8]> = bytes.into();
    let length = boxed.len();
    hive_bytes { data: Box::into_raw(boxed).cast::<u8>(), length }
}

fn durability_of(code: c_int, store: &Store) -> Option<Durability> {
    match code {
        HIVE_DEFAULT => Some(store.durability()),
        HIVE_WEAK => Some(Durability::Weak),
        HIVE_STRONG => Some(Durability::Strong),
        _ => None,
    }
}

/// The text of the last failure of this thread. Valid until its next call.
#[no_mangle]
pub extern "C" fn hive_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

/// What stores are opened with unless told otherwise: made if need be, strong writes.
#[no_mangle]
pub extern "C" fn hive_options_default() -> hive_options {
    let options = Options::default();
    hive_options {
        create: options.create,
        cores: 0,
        durability: HIVE_STRONG,
        flush_every_ms: options.flush_every.as_millis() as u64,
        memory_bytes_max: options.memory_bytes_max,
        engine: std::ptr::null(),
    }
}

/// As `hive_options_default`, but writes that say HIVE_DEFAULT are weak: they return once they are in memory, every read
/// sees them, and they are on the disk within `flush_every_ms` (a second). A crash loses, of each core, the writes after its
/// last flush; never a part of a batch, and nothing written before `hive_flush`, `hive_store_close` or a write with
/// HIVE_STRONG to the same core returned.
#[no_mangle]
pub extern "C" fn hive_options_weak() -> hive_options {
    hive_options { durability: HIVE_WEAK, ..hive_options_default() }
}

/// # Safety
/// As `hive_store_open`.
unsafe fn options_of(options: *const hive_options) -> Result<Options, c_int> {
    // SAFETY: null, or the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(Options::default()) };
    let engine = match options.engine.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => match unsafe { CStr::from_ptr(options.engine) }.to_str() {
            Ok(name) => Some(name.to_owned()),
            Err(_) => return Err(told(HIVE_INVALID, "the engine's name is no UTF-8")),
        },
    };
    let durability = match options.durability {
        HIVE_WEAK => Durability::Weak,
        HIVE_STRONG => Durability::Strong,
        other => return Err(told(HIVE_INVALID, format!("durability {other} is neither HIVE_WEAK nor HIVE_STRONG"))),
    };
    Ok(Options {
        create: options.create,
        cores: (options.cores > 0).then_some(options.cores),
        engine,
        durability,
        flush_every: Duration::from_millis(options.flush_every_ms),
        memory_bytes_max: options.memory_bytes_max,
        ..Options::default()
    })
}

/// Opens the store in a directory, or makes it. `path` is a C string; `options` may be null; `*store` is
/// set where HIVE_OK is answered.
#[no_mangle]
pub unsafe extern "C" fn hive_store_open(
    path: *const c_char,
    options: *const hive_options,
    store: *mut *mut hive_store,
) -> c_int {
    guarded(|| {
        if path.is_null() || store.is_null() {
            return invalid("path or store");
        }
        // SAFETY: a C string, by the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let path = std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.to_bytes()));
        // SAFETY: the caller's promise.
        let options = match unsafe { options_of(options) } {
            Ok(options) => options,
            Err(code) => return code,
        };
        match Store::open(path, options) {
            Ok(opened) => {
                // SAFETY: not null, and the caller's promise.
                unsafe { *store = Box::into_raw(Box::new(hive_store(opened))) };
                HIVE_OK
            }
            Err(error) => of_open(&error),
        }
    })
}

/// Writes everything out, closes the store and frees it, whatever is answered. No other thread may be
/// using it, and its scans must have been freed.
#[no_mangle]
pub unsafe extern "C" fn hive_store_close(store: *mut hive_store) -> c_int {
    guarded(|| {
        if store.is_null() {
            return invalid("store");
        }
        // SAFETY: from `hive_store_open`, and not used again, by the caller's promise.
        outcome(unsafe { Box::from_raw(store) }.0.close())
    })
}

/// Sets a key. `durability` is HIVE_DEFAULT, HIVE_WEAK or HIVE_STRONG.
#[no_mangle]
pub unsafe extern "C" fn hive_put(
    store: *const hive_store,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    durability: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (store, key, value) = unsafe { (store.as_ref(), slice(key, key_length), slice(value, value_length)) };
        let (Some(store), Some(key), Some(value)) = (store, key, value) else { return invalid("store, key or value") };
        match durability_of(durability, &store.0) {
            Some(durability) => outcome(store.0.put_with(key, value, durability)),
            None => told(HIVE_INVALID, format!("durability {durability} is unknown")),
        }
    })
}

/// Removes a key; HIVE_OK too where it is not there.
#[no_mangle]
pub unsafe extern "C" fn hive_delete(
    store: *const hive_store,
    key: *const u8,
    key_length: usize,
    durability: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (store, key) = unsafe { (store.as_ref(), slice(key, key_length)) };
        let (Some(store), Some(key)) = (store, key) else { return invalid("store or key") };
        match durability_of(durability, &store.0) {
            Some(durability) => outcome(store.0.delete_with(key, durability)),
            None => told(HIVE_INVALID, format!("durability {durability} is unknown")),
        }
    })
}

/// The value of a key into `*value`, to be freed by `hive_bytes_free`; HIVE_NOT_FOUND where there is none.
#[no_mangle]
pub unsafe extern "C" fn hive_get(
    store: *const hive_store,
    key: *const u8,
    key_length: usize,
    value: *mut hive_bytes,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (store, key) = unsafe { (store.as_ref(), slice(key, key_length)) };
        let (Some(store), Some(key), false) = (store, key, value.is_null()) else {
            return invalid("store, key or value");
        };
        match store.0.get(key) {
            Ok(Some(found)) => {
                // SAFETY: not null, and the caller's promise.
                unsafe { *value = hand_out(&found) };
                HIVE_OK
            }
            Ok(None) => told(HIVE_NOT_FOUND, "there is no such key"),
            Err(error) => of_store(&error),
        }
    })
}

/// Frees bytes handed out by `hive_get` or `hive_scan_next`.
#[no_mangle]
pub unsafe extern "C" fn hive_bytes_free(bytes: hive_bytes) {
    if !bytes.data.is_null() {
        // SAFETY: from `hand_out`, and not used again, by the caller's promise.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.length)) });
    }
}

/// Waits until everything written before is on the disk.
#[no_mangle]
pub unsafe extern "C" fn hive_flush(store: *const hive_store) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| match unsafe { store.as_ref() } {
        Some(store) => outcome(store.0.flush()),
        None => invalid("store"),
    })
}

/// An empty batch; freed by `hive_batch_free`.
#[no_mangle]
pub extern "C" fn hive_batch_new() -> *mut hive_batch {
    Box::into_raw(Box::new(hive_batch(Batch::new())))
}

/// Adds the setting of a key to a batch.
#[no_mangle]
pub unsafe extern "C" fn hive_batch_put(
    batch: *mut hive_batch,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (batch, key, value) = unsafe { (batch.as_mut(), slice(key, key_length), slice(value, value_length)) };
        let (Some(batch), Some(key), Some(value)) = (batch, key, value) else { return invalid("batch, key or value") };
        batch.0.put(key, value);
        HIVE_OK
    })
}

/// Adds the removal of a key to a batch.
#[no_mangle]
pub unsafe extern "C" fn hive_batch_delete(batch: *mut hive_batch, key: *const u8, key_length: usize) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (batch, key) = unsafe { (batch.as_mut(), slice(key, key_length)) };
        let (Some(batch), Some(key)) = (batch, key) else { return invalid("batch or key") };
        batch.0.delete(key);
        HIVE_OK
    })
}

/// Makes all changes of a batch or none. The batch stays as it is.
#[no_mangle]
pub unsafe extern "C" fn hive_write(store: *const hive_store, batch: *const hive_batch, durability: c_int) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (Some(store), Some(batch)) = (unsafe { (store.as_ref(), batch.as_ref()) }) else {
            return invalid("store or batch");
        };
        match durability_of(durability, &store.0) {
            Some(durability) => outcome(store.0.write_with(&batch.0, durability)),
            None => told(HIVE_INVALID, format!("durability {durability} is unknown")),
        }
    })
}

/// Frees a batch.
#[no_mangle]
pub unsafe extern "C" fn hive_batch_free(batch: *mut hive_batch) {
    if !batch.is_null() {
        // SAFETY: from `hive_batch_new`, and not used again, by the caller's promise.
        drop(unsafe { Box::from_raw(batch) });
    }
}

/// Begins a walk through the keys from `start` (inclusive) up to before `end` (null: all behind `start`),
/// as of now; `reverse`: from the last down. Freed by `hive_scan_free`.
#[no_mangle]
pub unsafe extern "C" fn hive_scan_begin(
    store: *const hive_store,
    start: *const u8,
    start_length: usize,
    end: *const u8,
    end_length: usize,
    reverse: bool,
    scan: *mut *mut hive_scan,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (store, start, ends) = unsafe { (store.as_ref(), slice(start, start_length), slice(end, end_length)) };
        let (Some(store), Some(start), Some(ends), false) = (store, start, ends, scan.is_null()) else {
            return invalid("store, start, end or scan");
        };
        let range = Range { start: start.into(), end: (!end.is_null()).then(|| ends.into()), reverse };
        match store.0.scan(range) {
            Ok(begun) => {
                // SAFETY: not null, and the caller's promise.
                unsafe { *scan = Box::into_raw(Box::new(hive_scan(begun))) };
                HIVE_OK
            }
            Err(error) => of_store(&error),
        }
    })
}

/// The next key and value, each to be freed by `hive_bytes_free`; HIVE_NOT_FOUND at the end.
#[no_mangle]
pub unsafe extern "C" fn hive_scan_next(scan: *mut hive_scan, key: *mut hive_bytes, value: *mut hive_bytes) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (Some(scan), false) = (unsafe { scan.as_mut() }, key.is_null() || value.is_null()) else {
            return invalid("scan, key or value");
        };
        match scan.0.next() {
            Some(Ok(pair)) => {
                // SAFETY: not null, and the caller's promise.
                unsafe {
                    *key = hand_out(&pair.0);
                    *value = hand_out(&pair.1);
                }
                HIVE_OK
            }
            None => told(HIVE_NOT_FOUND, "the scan has ended"),
            Some(Err(error)) => of_store(&error),
        }
    })
}

/// Frees a scan.
#[no_mangle]
pub unsafe extern "C" fn hive_scan_free(scan: *mut hive_scan) {
    if !scan.is_null() {
        // SAFETY: from `hive_scan_begin`, and not used again, by the caller's promise.
        drop(unsafe { Box::from_raw(scan) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_options_open_a_weak_store() {
        let (weak, strong) = (hive_options_weak(), hive_options_default());
        // SAFETY: both live, and name no engine.
        let (weak, strong) = unsafe { (options_of(&weak), options_of(&strong)) };
        let (weak, strong) = (weak.unwrap(), strong.unwrap());
        assert_eq!((weak.durability, strong.durability), (Durability::Weak, Durability::Strong));
        assert_eq!(format!("{weak:?}"), format!("{:?}", Options::weak()));
    }
}
