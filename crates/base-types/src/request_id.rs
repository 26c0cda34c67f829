//! What a request id says of itself: who made it, and of some after which position of a cluster it was made.
//!
//! ```text
//!   bits 127, 126   01 the node's own │ 10 issued │ else opaque
//!   issued          26 bits: mark of cluster and generation │ 44 bits: log index │ 56 bits: the client's text, hashed
//! ```
//!
//! Always: an id that was issued says so; nothing else needs to be known to tell whether it has expired.
//! Held by: `an_id_says_who_made_it`, `ids_of_other_texts_and_positions_differ`.
//! Not here: how long ids are kept, and which have expired (core-cluster, `request_ids.rs`). Why: decision 0030.

use crate::{ClusterId, Generation, LogIndex, RequestId};
use core::time::Duration;

/// A write that a client repeats with its own id within so long after the first try applies once, whatever the deadlines.
pub const REQUEST_ID_WINDOW: Duration = Duration::from_secs(60);

const CLASS_SHIFT: u32 = 126;
const OWN: u128 = 0b01;
const ISSUED: u128 = 0b10;
const REST: u128 = (1 << CLASS_SHIFT) - 1;
const MARK_BITS: u32 = 26;
const INDEX_BITS: u32 = 44;
const TEXT_BITS: u32 = CLASS_SHIFT - MARK_BITS - INDEX_BITS;

/// Who made an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestIdKind {
    /// A node, for a request that named none: nobody repeats it after the request's deadline.
    Own,
    /// A client, out of the blue: it may come again at any time.
    Opaque,
    /// A client, after it had seen this position of a cluster.
    Issued(IssuedAfter),
}

/// The position that an id was issued after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IssuedAfter {
    mark: u32,
    /// The log index.
    pub index: LogIndex,
}

impl IssuedAfter {
    /// Whether it is a position of this cluster in this life.
    pub fn is_of(&self, cluster: ClusterId, generation: Generation) -> bool {
        self.mark == mark_of(cluster, generation)
    }
}

fn mark_of(cluster: ClusterId, generation: Generation) -> u32 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&cluster.0.to_le_bytes());
    bytes[8..].copy_from_slice(&generation.0.to_le_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) >> (64 - MARK_BITS)) as u32
}

impl RequestId {
    /// A node's own, of random bits.
    pub fn own(bits: u128) -> RequestId {
        RequestId(bits & REST | OWN << CLASS_SHIFT)
    }

    /// A client's, of random or hashed bits.
    pub fn opaque(bits: u128) -> RequestId {
        RequestId(bits & REST)
    }

    /// A client's, that it made after it had seen this position. `None`: no log is that long.
    pub fn issued(cluster: ClusterId, generation: Generation, index: LogIndex, text: u128) -> Option<RequestId> {
        let mark = u128::from(mark_of(cluster, generation)) << (INDEX_BITS + TEXT_BITS);
        let place = u128::from(index.0) << TEXT_BITS;
        let fits = index.0 >> INDEX_BITS == 0;
        fits.then_some(RequestId(ISSUED << CLASS_SHIFT | mark | place | text & ((1 << TEXT_BITS) - 1)))
    }

    /// An id for one step of many that a request with this id takes, of the step's hash. It goes to clusters that the
    /// position of an issued id says nothing of.
    pub fn step(self, bits: u128) -> RequestId {
        match self.kind() {
            RequestIdKind::Own => RequestId::own(bits),
            RequestIdKind::Opaque | RequestIdKind::Issued(_) => RequestId::opaque(bits),
        }
    }

    /// Who made it.
    pub fn kind(self) -> RequestIdKind {
        match self.0 >> CLASS_SHIFT {
            OWN => RequestIdKind::Own,
            ISSUED => {
                let mark = (self.0 >> (INDEX_BITS + TEXT_BITS)) as u32 & ((1 << MARK_BITS) - 1);
                let index = (self.0 >> TEXT_BITS) as u64 & ((1 << INDEX_BITS) - 1);
                RequestIdKind::Issued(IssuedAfter { mark, index: LogIndex(index) })
            }
            _ => RequestIdKind::Opaque,
        }
    }

    /// Whether a client made it: it may come again after the request's deadline.
    pub fn is_clients(self) -> bool {
        self.kind() != RequestIdKind::Own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_who_made_it() {
        let all = u128::MAX;
        assert_eq!(RequestId::own(all).kind(), RequestIdKind::Own);
        assert_eq!(RequestId::opaque(all).kind(), RequestIdKind::Opaque);
        assert_eq!(RequestId::own(all).step(5).kind(), RequestIdKind::Own);
        assert_eq!(RequestId::opaque(0).step(all).kind(), RequestIdKind::Opaque);
        let (cluster, generation) = (ClusterId(1003), Generation(2));
        for index in [0, 7, (1 << INDEX_BITS) - 1] {
            let id = RequestId::issued(cluster, generation, LogIndex(index), all).unwrap();
            let RequestIdKind::Issued(after) = id.kind() else { panic!("{id:?}") };
            assert_eq!(after.index, LogIndex(index));
            assert!(after.is_of(cluster, generation));
            assert!(!after.is_of(cluster, Generation(3)) && !after.is_of(ClusterId(1004), generation));
            assert_eq!(id.step(all).kind(), RequestIdKind::Opaque);
        }
        assert_eq!(RequestId::issued(cluster, generation, LogIndex(1 << INDEX_BITS), 0), None);
    }

    #[test]
    fn ids_of_other_texts_and_positions_differ() {
        let id = |index, text| RequestId::issued(ClusterId(1), Generation(1), LogIndex(index), text).unwrap();
        assert_ne!(id(1, 1), id(1, 2));
        assert_ne!(id(1, 1), id(2, 1));
        assert_eq!(id(1, 1), id(1, 1));
    }
}
