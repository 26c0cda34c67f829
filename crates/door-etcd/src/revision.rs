//! Revisions of etcd and stamps of the store.
//!
//! ```text
//!   stamp      0 (nothing yet)   1    2    …   last    next
//!   revision   1                 2    3    …   header  the next change
//! ```
//! A namespace without a change is at revision 1, as a new etcd is; its first change is at stamp 1 and gets revision 2.
//!
//! Always: the two differ by [`OFFSET`], here and nowhere else.
//! Not here: which revision goes into a header (`door.rs`).

/// A revision less its stamp.
pub const OFFSET: u64 = 1;

/// The revision of a stamp. An absent key's 0 is no stamp: see [`of_row`].
pub fn of_stamp(stamp: u64) -> i64 {
    i64::try_from(stamp.saturating_add(OFFSET)).unwrap_or(i64::MAX)
}

/// A number of a row (created, modified): 0 stays 0.
pub fn of_row(stamp: u64) -> i64 {
    if stamp == 0 {
        0
    } else {
        of_stamp(stamp)
    }
}

/// The stamp of a revision; 0 for revision 1 and below.
pub fn to_stamp(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0).saturating_sub(OFFSET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_and_revisions_differ_by_one() {
        assert_eq!((of_stamp(0), of_stamp(1), of_row(0), of_row(7)), (1, 2, 0, 8));
        assert_eq!((to_stamp(2), to_stamp(1), to_stamp(0), to_stamp(i64::MIN)), (1, 0, 0, 0));
        assert_eq!((of_stamp(u64::MAX), to_stamp(i64::MAX)), (i64::MAX, i64::MAX as u64 - 1));
    }
}
