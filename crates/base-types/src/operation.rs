//! Where an operation was ordered, the limits every door shares, and the durations of a request.

use crate::codec::{DecodeError, Encode, Reader, Writer};
use crate::{ClusterId, Generation, LogIndex, Term};
use core::time::Duration;

/// The longest key, in bytes (S3's own limit, ARCHITECTURE-BRIEF decision 5).
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most operations in one batch.
pub const BATCH_OPERATIONS_MAX: usize = 1024;
/// The most bytes one command may have: a batch of everything a request body can hold.
pub const COMMAND_BYTES_MAX: usize = 4 << 20;
/// The most entries one page of a scan has.
pub const SCAN_LIMIT_MAX: u32 = 10_000;
/// The entries a page of a scan has where the request names no limit.
pub const SCAN_LIMIT_DEFAULT: u32 = 1_000;
/// The bytes after which a page of a scan ends early.
pub const SCAN_PAGE_BYTES_MAX: usize = 4 << 20;
/// The time a request has where it names none.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(5);
/// The most time a request may ask for.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// Where an operation stands in its cluster's one order. `position` orders operations that share an
/// entry (a leader puts all writes of one turn into one entry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct OrderedAt {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its generation.
    pub generation: Generation,
    /// A write: the term of its entry. A read: the term of the member that answered.
    pub term: Term,
    /// A write: the index of its entry. A read: the last index applied when it was answered.
    pub index: LogIndex,
    /// A write: its place in the entry. A read: `u32::MAX`, behind every write of that index.
    pub position: u32,
}

impl Encode for OrderedAt {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.cluster.0).u32(self.generation.0).varint(self.term.0).varint(self.index.0).u32(self.position);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(OrderedAt {
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            term: Term(input.varint("term")?),
            index: LogIndex(input.varint("index")?),
            position: input.u32("position")?,
        })
    }
}
