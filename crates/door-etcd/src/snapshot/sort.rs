//! Sorts rows by revision, in a file: runs that fit into memory are sorted and written, then merged.
//!
//! Always: rows of one revision keep the order in which they came; memory is one run, and a buffer of each run while they are merged.
//! Held by: `runs_are_merged_in_order`.
//! Not here: what a row is (bytes), how many there may be (`snapshot.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// What a run holds in memory, and what is read of one at a time.
const RUN_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 64 << 10;
/// What stands before a row: its revision, and its length.
const HEAD_BYTES: usize = 12;

/// Rows that come in any order.
pub struct Sorter {
    out: BufWriter<File>,
    run: Vec<(u64, Vec<u8>)>,
    run_bytes: usize,
    run_bytes_max: usize,
    /// Where each run begins and ends.
    runs: Vec<(u64, u64)>,
    written: u64,
}

impl Sorter {
    /// Sorts in a file, which must be empty.
    pub fn begin(file: File) -> Sorter {
        Sorter::with_runs(file, RUN_BYTES)
    }

    fn with_runs(file: File, run_bytes_max: usize) -> Sorter {
        let out = BufWriter::new(file);
        Sorter { out, run: Vec::new(), run_bytes: 0, run_bytes_max, runs: Vec::new(), written: 0 }
    }

    /// Adds a row of a revision.
    pub fn add(&mut self, revision: u64, row: Vec<u8>) -> io::Result<()> {
        self.run_bytes += HEAD_BYTES + row.len();
        self.run.push((revision, row));
        if self.run_bytes >= self.run_bytes_max {
            self.write_run()?;
        }
        Ok(())
    }

    fn write_run(&mut self) -> io::Result<()> {
        let begin = self.written;
        // Stable: rows of one revision keep their order.
        self.run.sort_by_key(|(revision, _)| *revision);
        for (revision, row) in self.run.drain(..) {
            let length = u32::try_from(row.len()).map_err(io::Error::other)?;
            self.out.write_all(&revision.to_le_bytes())?;
            self.out.write_all(&length.to_le_bytes())?;
            self.out.write_all(&row)?;
            self.written += (HEAD_BYTES + row.len()) as u64;
        }
        self.runs.push((begin, self.written));
        self.run_bytes = 0;
        Ok(())
    }

    /// All rows in the order of their revisions.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        self.write_run()?;
        let file = self.out.into_inner().map_err(|error| error.into_error())?;
        let mut sorted = Sorted { file, runs: Vec::new(), heads: BinaryHeap::new() };
        for (index, (place, end)) in self.runs.into_iter().enumerate() {
            sorted.runs.push(Run { place, end, buffer: Vec::new(), taken: 0 });
            sorted.advance(index)?;
        }
        Ok(sorted)
    }
}

/// A run that is being read.
struct Run {
    /// What of the file is not yet in the buffer.
    place: u64,
    end: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl Run {
    /// The next bytes.
    fn take(&mut self, file: &File, count: usize) -> io::Result<Vec<u8>> {
        if self.buffer.len() - self.taken < count {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let wanted = count.saturating_sub(self.buffer.len()).max(READ_BYTES);
            let wanted = usize::try_from(self.end - self.place).unwrap_or(usize::MAX).min(wanted);
            let had = self.buffer.len();
            self.buffer.resize(had + wanted, 0);
            file.read_exact_at(&mut self.buffer[had..], self.place)?;
            self.place += wanted as u64;
        }
        let bytes = self.buffer.get(self.taken..self.taken + count).ok_or(io::ErrorKind::UnexpectedEof)?.to_vec();
        self.taken += count;
        Ok(bytes)
    }

    fn is_at_end(&self) -> bool {
        self.place == self.end && self.taken == self.buffer.len()
    }
}

/// Rows in order.
pub struct Sorted {
    file: File,
    runs: Vec<Run>,
    /// The next row of each run, the least first; of equal revisions that of the earlier run.
    heads: BinaryHeap<Reverse<(u64, usize, Vec<u8>)>>,
}

impl Sorted {
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let run = &mut self.runs[index];
        if run.is_at_end() {
            return Ok(());
        }
        let head = run.take(&self.file, HEAD_BYTES)?;
        let (revision, length) = head.split_at(8);
        let revision = revision.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let length = length.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
        let row = run.take(&self.file, length)?;
        self.heads.push(Reverse((revision, index, row)));
        Ok(())
    }

    /// The next row and its revision; none at the end.
    pub fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Some(Reverse((revision, index, row))) = self.heads.pop() else { return Ok(None) };
        self.advance(index)?;
        Ok(Some((revision, row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn runs_are_merged_in_order(
            rows in proptest::collection::vec((0_u64..20, 0_usize..300), 0..200),
            run_bytes in 1_usize..5_000,
        ) {
            let row = |index: usize, length: usize| [&index.to_le_bytes()[..], &vec![7; length]].concat();
            let rows: Vec<(u64, Vec<u8>)> =
                rows.into_iter().enumerate().map(|(index, (at, length))| (at, row(index, length))).collect();
            let mut sorter = Sorter::with_runs(tempfile::tempfile().unwrap(), run_bytes);
            for (at, row) in &rows {
                sorter.add(*at, row.clone()).unwrap();
            }
            let mut sorted = sorter.sorted().unwrap();
            let mut found = Vec::new();
            while let Some(row) = sorted.next().unwrap() {
                found.push(row);
            }
            let mut expected = rows;
            expected.sort_by_key(|(at, _)| *at);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn rows_larger_than_what_is_read_at_a_time_come_whole() {
        let mut sorter = Sorter::begin(tempfile::tempfile().unwrap());
        for n in 0..40_u8 {
            sorter.add(40 - u64::from(n), vec![n; 1 << 20]).unwrap();
        }
        let mut sorted = sorter.sorted().unwrap();
        for n in (0..40_u8).rev() {
            assert_eq!(sorted.next().unwrap(), Some((40 - u64::from(n), vec![n; 1 << 20])));
        }
        assert_eq!(sorted.next().unwrap(), None);
    }
}
