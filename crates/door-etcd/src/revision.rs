//! Revisions of etcd are stamps of the store: a namespace without a change is at 1, as a new etcd is, and its first change at 2.
//!
//! By design: a number that etcd's clients give (signed) and a stamp (unsigned) meet here and nowhere else.
//! Not here: which revision goes into a header (`door.rs`).

/// The revision of a stamp.
pub fn of_stamp(stamp: u64) -> i64 {
    i64::try_from(stamp).unwrap_or(i64::MAX)
}

/// A number of a row (created, modified): an absent key's are 0.
pub fn of_row(stamp: u64) -> i64 {
    of_stamp(stamp)
}

/// The stamp of a revision; 0 for revision 0 and below.
pub fn to_stamp(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
