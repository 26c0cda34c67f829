//! Who the members of a level 0 cluster are, as nodes say it to each other.
//!
//! Not here: who says it and what follows (membership/level_zero.rs).

use crate::wire::{read_members, write_members};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{ClusterId, Generation, LogIndex, NodeId, ReplicaId};
use core_cluster::api::Member;
use std::sync::Arc;

/// The longest address that is remembered.
const ADDRESS_BYTES_MAX: usize = 512;

/// The members of a level 0 cluster as they were at an index of its log, each with the address where peers reach its node
/// (empty: not known to who said so).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    pub cluster: ClusterId,
    /// The life of the cluster: greater once it was recovered without its majority.
    pub generation: Generation,
    pub index: LogIndex,
    pub members: Vec<(Member, String)>,
}

impl Announcement {
    /// The members alone.
    pub fn members(&self) -> Arc<[Member]> {
        self.members.iter().map(|(member, _)| *member).collect()
    }

    /// Whether the node is a member.
    pub fn lists(&self, node: NodeId) -> bool {
        self.members.iter().any(|(member, _)| member.node == node)
    }

    /// Whether a replica was removed, if it had been made before this was so. Ids are given in order: one above all of these
    /// may be of a later time.
    pub(crate) fn has_removed(&self, replica: ReplicaId, applied: LogIndex, blank: bool) -> bool {
        let latest = self.members.iter().map(|(member, _)| member.replica).max();
        let listed = self.members.iter().any(|(member, _)| member.replica == replica);
        let made_before = latest.is_some_and(|latest| replica < latest) || !blank;
        !listed && made_before && self.index > applied
    }
}

impl Encode for Announcement {
    fn encode(&self, out: &mut Writer) {
        write_members(out.u64(self.cluster.0).u32(self.generation.0).u64(self.index.0), &self.members());
        for (_, address) in &self.members {
            out.string(address);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let (cluster, generation) = (ClusterId(input.u64("cluster")?), Generation(input.u32("generation")?));
        let index = LogIndex(input.u64("index")?);
        let mut members = Vec::new();
        for member in read_members(input)? {
            let address = input.string("address")?;
            if address.len() > ADDRESS_BYTES_MAX {
                return Err(DecodeError::TooLarge("address"));
            }
            members.push((member, address));
        }
        Ok(Announcement { cluster, generation, index, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::DiskId;

    fn announcement(index: u64, replicas: &[u64]) -> Announcement {
        let member = |replica: &u64| {
            let member =
                Member { replica: ReplicaId(*replica), node: NodeId(*replica), disk: DiskId(7), learner: false };
            (member, format!("n{replica}:7601"))
        };
        let members = replicas.iter().map(member).collect();
        Announcement { cluster: ClusterId(1), generation: Generation(1), index: LogIndex(index), members }
    }

    #[test]
    fn announcements_survive_the_wire() {
        let told = announcement(9, &[1, 2, 3]);
        assert_eq!(Announcement::from_bytes(told.to_bytes()).unwrap(), told);
    }

    #[test]
    fn a_replica_is_removed_by_a_later_announcement_only() {
        let told = announcement(100, &[1, 2, 4]);
        let removed = |replica, applied, blank| told.has_removed(ReplicaId(replica), LogIndex(applied), blank);
        assert!(removed(3, 90, false));
        assert!(!removed(3, 100, false), "it has applied as much, and knows itself");
        assert!(!removed(2, 90, false));
        // Made since, and still without its snapshot: a late announcement says nothing of it.
        assert!(!removed(5, 0, true));
        assert!(removed(3, 0, true));
    }
}
