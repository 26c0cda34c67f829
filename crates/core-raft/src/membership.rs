//! A cluster's configuration as Raft sees it: voters, learners, and the joint half-way state
//! (Raft paper, section 6).

use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::ReplicaId;
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

/// The most replicas one configuration may name.
pub const MEMBERS_MAX: usize = 128;

/// Who votes and who only listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Membership {
    /// The voters (of the incoming configuration while a change is joint).
    pub voters: Vec<ReplicaId>,
    /// Replicas that receive the log and do not vote.
    pub learners: Vec<ReplicaId>,
    /// The outgoing voters; empty unless joint.
    pub voters_outgoing: Vec<ReplicaId>,
    /// Outgoing voters that become learners when the joint state is left.
    pub learners_next: Vec<ReplicaId>,
    /// Whether the joint state is left by itself.
    pub auto_leave: bool,
}

impl Membership {
    /// Whether a change is half-way.
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether the replica votes, in either half.
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.voters_outgoing.contains(&replica)
    }

    /// Whether those that `counts` names can elect a leader and commit: a majority of the voters, of both halves of a joint change.
    pub fn has_majority(&self, counts: impl Fn(ReplicaId) -> bool) -> bool {
        let enough = |voters: &[ReplicaId]| {
            voters.is_empty() || voters.iter().filter(|voter| counts(**voter)).count() > voters.len() / 2
        };
        enough(&self.voters) && enough(&self.voters_outgoing)
    }

    /// Whether the replica is named at all.
    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.is_voter(replica) || self.learners.contains(&replica) || self.learners_next.contains(&replica)
    }

    /// Whether the library can take it up: what does not hold here it would answer with a panic.
    pub(crate) fn is_sound(&self) -> bool {
        let unique = |ids: &[ReplicaId]| ids.windows(2).all(|pair| pair[0] < pair[1]) && !ids.contains(&ReplicaId(0));
        let total = self.voters.len() + self.learners.len() + self.voters_outgoing.len();
        !self.voters.is_empty()
            && total <= MEMBERS_MAX
            && [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next].iter().all(|ids| unique(ids))
            && self.learners.iter().all(|id| !self.is_voter(*id))
            && self.learners_next.iter().all(|id| self.voters_outgoing.contains(id) && !self.voters.contains(id))
            && (self.is_joint() || !self.auto_leave)
    }

    pub(crate) fn from_library(state: &ConfState) -> Membership {
        let ids = |list: &[u64]| {
            let mut ids: Vec<ReplicaId> = list.iter().copied().map(ReplicaId).collect();
            ids.sort_unstable();
            ids
        };
        Membership {
            voters: ids(&state.voters),
            learners: ids(&state.learners),
            voters_outgoing: ids(&state.voters_outgoing),
            learners_next: ids(&state.learners_next),
            auto_leave: state.auto_leave,
        }
    }

    pub(crate) fn to_library(&self) -> ConfState {
        let ids = |list: &[ReplicaId]| list.iter().map(|id| id.0).collect::<Vec<u64>>();
        ConfState {
            voters: ids(&self.voters),
            learners: ids(&self.learners),
            voters_outgoing: ids(&self.voters_outgoing),
            learners_next: ids(&self.learners_next),
            auto_leave: self.auto_leave,
            ..ConfState::default()
        }
    }
}

fn encode_ids(out: &mut Writer, ids: &[ReplicaId]) {
    out.varint(ids.len() as u64);
    for id in ids {
        out.varint(id.0);
    }
}

fn decode_ids(input: &mut Reader) -> Result<Vec<ReplicaId>, DecodeError> {
    let count = input.count("members")?;
    if count > MEMBERS_MAX {
        return Err(DecodeError::TooLarge("members"));
    }
    (0..count).map(|_| input.varint("member").map(ReplicaId)).collect()
}

impl Encode for Membership {
    fn encode(&self, out: &mut Writer) {
        encode_ids(out, &self.voters);
        encode_ids(out, &self.learners);
        encode_ids(out, &self.voters_outgoing);
        encode_ids(out, &self.learners_next);
        out.bool(self.auto_leave);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Membership {
            voters: decode_ids(input)?,
            learners: decode_ids(input)?,
            voters_outgoing: decode_ids(input)?,
            learners_next: decode_ids(input)?,
            auto_leave: input.bool("auto leave")? && !planted(Mutant::JointStateStays),
        })
    }
}

/// What happens to one replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// Becomes a voter.
    AddVoter,
    /// Becomes a learner.
    AddLearner,
    /// Leaves.
    Remove,
}

/// One step of the configuration: several replicas at once go through a joint state. An empty list
/// leaves the joint state. It travels in an entry's `context`; the library's own `data` is never parsed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MembershipChange {
    /// The replicas and what happens to them.
    pub changes: Vec<(ChangeKind, ReplicaId)>,
}

impl MembershipChange {
    /// Whether it leads into a joint state: who is removed stays a member until that is left.
    pub fn enters_joint(&self) -> bool {
        self.to_library().enter_joint().is_some()
    }

    pub(crate) fn to_library(&self) -> ConfChangeV2 {
        let mut change = ConfChangeV2::default();
        change.set_transition(ConfChangeTransition::Auto);
        let singles: Vec<ConfChangeSingle> = self
            .changes
            .iter()
            .map(|(kind, replica)| {
                let mut single = ConfChangeSingle { node_id: replica.0, ..ConfChangeSingle::default() };
                single.set_change_type(match kind {
                    ChangeKind::AddVoter => ConfChangeType::AddNode,
                    ChangeKind::AddLearner => ConfChangeType::AddLearnerNode,
                    ChangeKind::Remove => ConfChangeType::RemoveNode,
                });
                single
            })
            .collect();
        change.set_changes(singles.into());
        change
    }
}

impl Encode for MembershipChange {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.changes.len() as u64);
        for (kind, replica) in &self.changes {
            out.u8(*kind as u8).varint(replica.0);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count("changes")?;
        if count > MEMBERS_MAX {
            return Err(DecodeError::TooLarge("changes"));
        }
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = match input.u8("change kind")? {
                0 => ChangeKind::AddVoter,
                1 => ChangeKind::AddLearner,
                2 => ChangeKind::Remove,
                _ => return Err(DecodeError::Unknown("change kind")),
            };
            changes.push((kind, ReplicaId(input.varint("changed replica")?)));
        }
        Ok(MembershipChange { changes })
    }
}
