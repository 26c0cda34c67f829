//! What is left of a cluster whose majority is gone for good: what each survivor holds, and which of them is best.
//!
//! Always: the best is chosen by Raft's own rule, the last entry of the log, among those whose log is whole; the same
//! survivors give the same choice, in whatever order they were heard.
//! Held by: `later_term_beats_longer_log`, `a_log_that_is_not_whole_is_never_chosen`.
//! Not here: asking them (core-node, flows/recover.rs), beginning the new life (core-cluster, lane/recovery.rs).

use crate::codec::{DecodeError, Encode, Reader, Writer};
use crate::mutant::{planted, Mutant};
use crate::{DiskId, Generation, LogIndex, NodeId, ReplicaId, Term};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The most members a survivor names.
pub const FORMER_MEMBERS_MAX: usize = 128;

/// A member, as a survivor knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct FormerMember {
    /// The replica.
    pub replica: ReplicaId,
    /// Its node.
    pub node: NodeId,
    /// The disk it is on.
    pub disk: DiskId,
    /// It does not vote.
    pub learner: bool,
}

/// Whether a new life can begin on a survivor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SurvivorState {
    /// Its log is whole, and it applies it.
    Whole = 1,
    /// Its log is whole; it waits at an entry or contradicted the others.
    Quarantined = 2,
    /// Records or rows of it are lost, and only other members could give them back.
    Damaged = 3,
    /// It never got its first snapshot.
    Blank = 4,
    /// Its life is over: the cluster was recovered without it.
    Ended = 5,
    /// Its log is whole; rows of it read as damaged, and other members could give them back.
    Mending = 6,
}

impl SurvivorState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            SurvivorState::Whole => "whole",
            SurvivorState::Quarantined => "quarantined",
            SurvivorState::Damaged => "damaged",
            SurvivorState::Blank => "blank",
            SurvivorState::Ended => "ended",
            SurvivorState::Mending => "mending",
        }
    }

    fn from_byte(byte: u8) -> Option<SurvivorState> {
        Some(match byte {
            1 => SurvivorState::Whole,
            2 => SurvivorState::Quarantined,
            3 => SurvivorState::Damaged,
            4 => SurvivorState::Blank,
            5 => SurvivorState::Ended,
            6 => SurvivorState::Mending,
            _ => return None,
        })
    }
}

/// What one node holds of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survivor {
    /// The node.
    pub node: NodeId,
    /// Its disk.
    pub disk: DiskId,
    /// Its replica.
    pub replica: ReplicaId,
    /// Of which life of the cluster.
    pub generation: Generation,
    /// See there.
    pub state: SurvivorState,
    /// The latest term it has seen.
    pub term: Term,
    /// Its log's last entry.
    pub last_term: Term,
    /// Its log's last entry.
    pub last: LogIndex,
    /// Up to where it knows the log to be committed.
    pub commit: LogIndex,
    /// Up to where it has applied it.
    pub applied: LogIndex,
    /// Up to where its engine holds that durably; the rest is in the log.
    pub durable: LogIndex,
    /// The node whose replica it follows, or its own where it leads; only while that one, or a majority, is connected to it.
    pub follows: Option<NodeId>,
    /// The members it knows.
    pub members: Vec<FormerMember>,
}

impl Survivor {
    /// Whether a new life can begin on it.
    pub fn can_begin(&self) -> bool {
        matches!(self.state, SurvivorState::Whole | SurvivorState::Mending | SurvivorState::Quarantined)
    }

    /// Whether it holds nothing that `other` lacks: the other's rows are sound, and its log ends where the other's does, or
    /// before an entry that the other knows to be committed.
    pub fn adds_nothing_to(&self, other: &Survivor) -> bool {
        let nothing = matches!(self.state, SurvivorState::Blank);
        if other.state != SurvivorState::Whole && !planted(Mutant::RottenSurvivorTrusted) {
            // Its rows may be the sound ones.
            return nothing;
        }
        let same = (self.last_term, self.last) == (other.last_term, other.last);
        nothing || self.can_begin() && (same || self.last <= other.commit)
    }
}

/// The best of those that can begin a new life after `generation`, if any can.
pub fn best_survivor(survivors: &[Survivor], generation: Generation) -> Option<&Survivor> {
    let able = survivors.iter().filter(|one| one.generation == generation && one.can_begin());
    let worth = |one: &&Survivor| {
        let applies = one.state != SurvivorState::Quarantined;
        let sound = one.state == SurvivorState::Whole;
        (applies, one.last_term, one.last, sound, one.commit, Reverse(one.node))
    };
    if planted(Mutant::WorstSurvivorChosen) {
        return able.min_by_key(worth);
    }
    able.max_by_key(worth)
}

impl Encode for FormerMember {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.replica.0).varint(self.node.0).u64(self.disk.0).bool(self.learner);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(FormerMember {
            replica: ReplicaId(input.varint("replica")?),
            node: NodeId(input.varint("node")?),
            disk: DiskId(input.u64("disk")?),
            learner: input.bool("learner")?,
        })
    }
}

impl Encode for Survivor {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.node.0).u64(self.disk.0).varint(self.replica.0).u32(self.generation.0).u8(self.state as u8);
        out.varint(self.term.0).varint(self.last_term.0).varint(self.last.0);
        out.varint(self.commit.0).varint(self.applied.0).varint(self.durable.0);
        out.option(self.follows, |out, node| {
            out.varint(node.0);
        });
        out.varint(self.members.len() as u64);
        self.members.iter().for_each(|member| member.encode(out));
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Survivor {
            node: NodeId(input.varint("node")?),
            disk: DiskId(input.u64("disk")?),
            replica: ReplicaId(input.varint("replica")?),
            generation: Generation(input.u32("generation")?),
            state: SurvivorState::from_byte(input.u8("survivor's state")?)
                .ok_or(DecodeError::Unknown("survivor's state"))?,
            term: Term(input.varint("term")?),
            last_term: Term(input.varint("last term")?),
            last: LogIndex(input.varint("last index")?),
            commit: LogIndex(input.varint("commit")?),
            applied: LogIndex(input.varint("applied")?),
            durable: LogIndex(input.varint("durable")?),
            follows: input.option("follows", |input| Ok(NodeId(input.varint("leader's node")?)))?,
            members: {
                let count = input.count("members")?;
                if count > FORMER_MEMBERS_MAX {
                    return Err(DecodeError::TooLarge("members"));
                }
                (0..count).map(|_| FormerMember::decode(input)).collect::<Result<_, _>>()?
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survivor(node: u64, last: (u64, u64), commit: u64) -> Survivor {
        Survivor {
            node: NodeId(node),
            disk: DiskId(node),
            replica: ReplicaId(node),
            generation: Generation(1),
            state: SurvivorState::Whole,
            term: Term(9),
            last_term: Term(last.0),
            last: LogIndex(last.1),
            commit: LogIndex(commit),
            applied: LogIndex(commit),
            durable: LogIndex(1),
            follows: None,
            members: alloc::vec![FormerMember {
                replica: ReplicaId(node),
                node: NodeId(node),
                disk: DiskId(node),
                learner: false
            }],
        }
    }

    #[test]
    fn later_term_beats_longer_log() {
        let survivors = [survivor(1, (3, 90), 80), survivor(2, (4, 70), 60), survivor(3, (4, 71), 50)];
        let best = best_survivor(&survivors, Generation(1)).map(|one| one.node);
        assert_eq!(best, Some(NodeId(3)), "whatever each knew to be committed");
        assert_eq!(best_survivor(&survivors, Generation(2)), None, "an earlier life begins nothing");
    }

    #[test]
    fn a_log_that_is_not_whole_is_never_chosen() {
        let mut survivors = [survivor(1, (3, 90), 80), survivor(2, (4, 70), 60), survivor(3, (5, 5), 5)];
        survivors[0].state = SurvivorState::Damaged;
        survivors[1].state = SurvivorState::Quarantined;
        survivors[2].state = SurvivorState::Blank;
        assert_eq!(best_survivor(&survivors, Generation(1)).map(|one| one.node), Some(NodeId(2)));
        survivors[1].state = SurvivorState::Ended;
        assert_eq!(best_survivor(&survivors, Generation(1)), None);
    }

    #[test]
    fn only_what_the_best_holds_too_is_of_no_use() {
        let best = survivor(1, (4, 70), 60);
        assert!(survivor(2, (4, 70), 50).adds_nothing_to(&best), "the same log");
        assert!(survivor(2, (3, 60), 50).adds_nothing_to(&best), "committed on the best, or never");
        assert!(!survivor(2, (3, 61), 50).adds_nothing_to(&best), "it may have been committed before");
        let mut damaged = survivor(2, (3, 10), 10);
        damaged.state = SurvivorState::Damaged;
        assert!(!damaged.adds_nothing_to(&best), "nobody knows what it holds");
    }

    #[test]
    fn sound_rows_win_where_logs_are_equal() {
        let mut survivors = [survivor(1, (4, 70), 60), survivor(2, (4, 70), 60)];
        survivors[0].state = SurvivorState::Mending;
        assert_eq!(best_survivor(&survivors, Generation(1)).map(|one| one.node), Some(NodeId(2)));
        survivors[0].last = LogIndex(71);
        let best = best_survivor(&survivors, Generation(1)).unwrap();
        assert_eq!(best.node, NodeId(1), "an entry more may have been acknowledged");
        assert!(!survivors[1].adds_nothing_to(best), "its rows may be the only sound ones");
    }

    #[test]
    fn survives_its_own_bytes() {
        let whole = survivor(7, (3, 90), 80);
        assert_eq!(Survivor::from_bytes(whole.to_bytes()), Ok(whole));
    }
}
