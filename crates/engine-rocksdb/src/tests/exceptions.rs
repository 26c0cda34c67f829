//! C++ exceptions end in the shim, as errors, whichever function they begin in.

use crate::ffi::*;
use crate::store::RocksStore;
use crate::RocksConfig;
use base_engine::stored::{RawStore, RawView};
use base_engine::{Direction, EngineError};
use std::ops::ControlFlow;

/// What is thrown: an exception, and something that is none.
const THROWN: [(i32, &str); 2] = [(1, "asked to throw"), (2, "something that is no exception was thrown")];

fn throws<T>(what: i32, call: impl FnOnce() -> Result<T, EngineError>) -> String {
    // SAFETY: sets a number of this thread.
    unsafe { hive_rocks_throw_next(what) };
    match call() {
        Err(EngineError::Io(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("an exception was taken for an answer"),
    }
}

#[test]
fn exceptions_become_errors_of_every_call() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let (there, other) = (home.path().join("one"), home.path().join("two"));
    let store = RocksStore::open(&there, false, &RocksConfig::default()).unwrap();
    store.put_pairs(&[(b"k", b"v")]).unwrap();
    store.write_out().unwrap();
    let view = store.view().unwrap();
    for (what, text) in THROWN {
        let all = [
            throws(what, || RocksStore::open(&other, false, &RocksConfig::default())),
            throws(what, || store.view()),
            throws(what, || view.get(b"k")),
            throws(what, || view.range(b"a", b"z", Direction::Forward, &mut |_, _| Ok(ControlFlow::Continue(())))),
            throws(what, || store.write_out()),
            throws(what, || store.compact()),
            throws(what, || store.while_quiet(|| ())),
            throws(what, || store.verify_file(0)),
            throws(what, || store.metadata(b"k")),
            throws(what, || store.shape()),
            // Begins with the batch, which is none then.
            throws(what, || store.put_pairs(&[(b"lost", b"x")])).replace("there was no memory for a batch", text),
        ];
        for said in all {
            assert!(said.contains(text), "{said}");
        }
    }
    assert_eq!(store.view().unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(store.view().unwrap().get(b"lost").unwrap(), None);
}

#[test]
fn change_that_throws_is_not_left_out_of_a_batch() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let store = RocksStore::open(&home.path().join("one"), false, &RocksConfig::default()).unwrap();
    // SAFETY: the handle is open, the batch is ours, and all arguments outlive the calls.
    unsafe {
        let batch = hive_rocks_batch();
        hive_rocks_batch_put(batch, HiveSlice::of(b"a\0"), HiveSlice::of(b"1"));
        hive_rocks_throw_next(1);
        hive_rocks_batch_put(batch, HiveSlice::of(b"b\0"), HiveSlice::of(b"2"));
        hive_rocks_batch_delete(batch, HiveSlice::of(b"c\0"));
        let mut error = HiveError::none();
        hive_rocks_write(store.database.handle(), batch, &mut error);
        let refused = error.judge("writing").unwrap_err();
        assert!(matches!(&refused, EngineError::Io(text) if text.contains("asked to throw")), "{refused:?}");
        hive_rocks_batch_free(batch);
    }
    assert_eq!(store.view().unwrap().get(b"a").unwrap(), None, "half a batch was written");
}
