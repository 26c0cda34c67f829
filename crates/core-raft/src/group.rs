//! One Raft group's member: the library's node, fed with checked messages and seeded timeouts.
//!
//! Always: when to campaign is decided in `election_timeout.rs`; no count of ticks reaches the library's own timeout.
//! `make_ready` has staged entries and hard state in the log before it returns (mutant `TermNotPersisted`). The caller
//! holds persisted messages until the batch with what they promise is durable (mutants `AckBeforeSync`, `VoteNotPersisted`).
//! What a group knows of itself is asserted each turn (`invariants.rs`).

use crate::election_timeout::{mix, rank, CampaignInput, CampaignState};
use crate::hibernate::Hibernating;
use crate::invariants::Seen;
use crate::library::{library_node, Setup};
use crate::membership::{Membership, MembershipChange};
use crate::message::{context_bytes, context_number, entry_from_library, is_well_formed, Message, MessageKind};

use crate::storage::{GroupStorage, HardState, SnapshotPoint, STATE_HARD};
use base_types::codec::Encode;
use base_types::invariant::Broken;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, ReplicaId, Term};
use bytes::Bytes;
use core_log::{Log, LogEntry};
use raft::eraftpb::MessageType;
use raft::{ProgressState, RawNode, SnapshotStatus, StateRole};
use std::cell::RefCell;
use std::rc::Rc;

/// The library joins appends to one follower into one message without a bound; it is cut at this size.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The Raft paper's roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Role {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}

/// How a member is set up.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The cluster: its part of the log.
    pub cluster: ClusterId,
    /// This member.
    pub replica: ReplicaId,
    /// A follower's promise to its leader: it requests and gives no vote for this many ticks.
    pub election_ticks: usize,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Seeds the draws of elections that fail repeatedly.
    pub seed: u64,
    /// The last index the state machine holds.
    pub applied: LogIndex,
    /// The configuration at `applied`.
    pub membership: Rc<Membership>,
    /// What the engine holds durably.
    pub snapshot_point: SnapshotPoint,
}

/// Why a proposal was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProposeError {
    /// This member does not lead.
    #[error("not the leader")]
    NotLeader,
    /// Too much is proposed and not committed, or leadership is being handed over.
    #[error("the leader takes no proposals just now")]
    Dropped,
}

/// Why a membership change was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// This member does not lead.
    #[error("not the leader")]
    NotLeader,
    /// Another change is not finished.
    #[error("another membership change is under way")]
    Pending,
    /// The library refused it.
    #[error("the leader takes no proposals just now")]
    Dropped,
}

/// What the leader knows of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follower {
    /// The member.
    pub replica: ReplicaId,
    /// The last index known to be durable in its log.
    pub matched: LogIndex,
    /// Heard from within the last election timeout.
    pub active: bool,
    /// Waiting for a snapshot.
    pub in_snapshot: bool,
}

/// What came out of a turn. Entries and hard state are already staged in the log.
#[derive(Debug, Default)]
pub struct GroupReady {
    /// For `on_persisted`, once everything staged is durable.
    pub number: u64,
    /// Whether anything was staged that messages or acknowledgements wait for.
    pub staged: bool,
    /// May leave at once.
    pub messages: Vec<Message>,
    /// May leave once this ready (and every earlier one) is durable.
    pub persisted_messages: Vec<Message>,
    /// To be applied, in order.
    pub committed: Vec<LogEntry>,
    /// Finished ReadIndex rounds: the context and the index to wait for.
    pub reads: Vec<(u64, LogIndex)>,
    /// A snapshot to be installed: its data is in the staging space. Handled before `committed`.
    pub snapshot: Option<SnapshotPoint>,
    /// The leader or this member's role is another than before.
    pub role_changed: bool,
}

/// The library's node, or what a hibernating member keeps of it.
enum Node {
    Awake(Box<RawNode<GroupStorage>>),
    Hibernating(Box<Hibernating>),
}

/// A member of a Raft group.
pub struct Group {
    node: Node,
    config: Setup,
    /// All its campaigns.
    campaigns: u64,
    /// Its campaigns since it last had a leader.
    failed_campaigns: u32,
    /// The last leader, 0: none. That member has no turn.
    followed: u64,
    /// It has granted a pre-vote: no campaign before this tick. At most once until it hears of a vote or a leader.
    campaign_deferred: Option<u32>,
    /// A snapshot that is installed and not yet durable in the log: its ready and its index.
    installing: Option<(u64, u64)>,
    /// What the last check of invariants saw.
    seen: Seen,
}

impl Group {
    /// Restores the member from the log. `log` must hold the entries after `config.applied`.
    pub fn new(config: GroupConfig, log: Rc<RefCell<Log>>) -> Result<Group, String> {
        let stored = log.borrow().state(config.cluster, STATE_HARD);
        let mut hard_state = match stored {
            Some(bytes) => HardState::from_bytes(bytes).map_err(|error| format!("hard state {error}"))?,
            None => HardState::default(),
        };
        let last = log.borrow().last_index(config.cluster);
        hard_state.commit = hard_state.commit.max(config.applied).min(last);
        if let Some(term) = log.borrow().term(config.cluster, last) {
            hard_state.term = hard_state.term.max(term);
        }
        let storage = GroupStorage {
            log,
            cluster: config.cluster,
            hard_state,
            membership: config.membership,
            snapshot_point: config.snapshot_point,
        };
        let GroupConfig { cluster, replica, election_ticks, heartbeat_ticks, seed, applied, .. } = config;
        let config = Setup { cluster, replica, election_ticks, heartbeat_ticks, seed };
        let node = library_node(&config, applied.0, storage).map_err(|error| error.to_string())?;
        Ok(Group {
            node: Node::Awake(node),
            config,
            campaigns: 0,
            failed_campaigns: 0,
            followed: raft::INVALID_ID,
            campaign_deferred: None,
            installing: None,
            seen: Seen::default(),
        })
    }

    /// Whether it hibernates (for tests).
    #[cfg(test)]
    pub(crate) fn is_hibernating(&self) -> bool {
        matches!(self.node, Node::Hibernating(_))
    }

    /// The library's node. A hibernating member wakes.
    fn awake(&mut self) -> &mut RawNode<GroupStorage> {
        if let Node::Hibernating(hibernating) = &mut self.node {
            self.node = Node::Awake(hibernating.wake(&self.config));
        }
        match &mut self.node {
            Node::Awake(node) => node,
            Node::Hibernating(_) => unreachable!("it was woken above"),
        }
    }

    /// Checks what this member knows of itself (`invariants.rs`). A hibernating one has done nothing since.
    ///
    /// # Errors
    /// The invariant that does not hold: what is in memory is not to be trusted.
    pub fn check_invariants(&mut self) -> Result<(), Broken> {
        match &mut self.node {
            Node::Awake(node) => self.seen.check(&mut node.raft),
            Node::Hibernating(_) => Ok(()),
        }
    }

    /// The library's node of a member that is awake: for use after `awake`.
    fn library(&self) -> &RawNode<GroupStorage> {
        match &self.node {
            Node::Awake(node) => node,
            Node::Hibernating(_) => unreachable!("the caller has woken it"),
        }
    }

    /// Ticks to wait for a leader, or for votes, since the library last began to count.
    fn campaign_ticks(&self) -> usize {
        let raft = &self.library().raft;
        let voters = raft.prs().conf().voters().ids();
        let draw = mix(self.config.seed ^ self.config.cluster.0 ^ mix(self.config.replica.0 ^ mix(self.campaigns)));
        let input = CampaignInput {
            election_ticks: self.config.election_ticks,
            rank: rank(self.config.cluster, raft.term, voters.iter(), self.config.replica.0, self.followed),
            campaigns: self.failed_campaigns,
            state: match raft.state {
                StateRole::PreCandidate => CampaignState::PreCandidate,
                StateRole::Candidate => CampaignState::Candidate,
                StateRole::Follower | StateRole::Leader => CampaignState::Follower,
            },
            draw,
        };
        input.ticks().max(self.campaign_deferred.unwrap_or(0) as usize)
    }

    /// The library's counter went back: a leader was heard, a vote given, a role taken.
    fn note_leader(&mut self, elapsed_before: usize) {
        let raft = &self.library().raft;
        let (elapsed, leader) = (raft.election_elapsed, raft.leader_id);
        if elapsed < elapsed_before {
            self.campaign_deferred = None;
        }
        if leader != raft::INVALID_ID {
            self.followed = leader;
            self.failed_campaigns = 0;
        }
    }

    /// Ends a follower's promise that is over by the clock: its ticks were not counted.
    pub fn end_promise(&mut self) {
        let election_ticks = self.config.election_ticks;
        match &mut self.node {
            Node::Awake(node) if node.raft.state == StateRole::Follower => {
                node.raft.election_elapsed = node.raft.election_elapsed.max(election_ticks);
            }
            Node::Awake(_) => {}
            Node::Hibernating(hibernating) if !hibernating.leads() => {
                hibernating.election_elapsed = hibernating.election_elapsed.max(election_ticks);
            }
            Node::Hibernating(_) => {}
        }
    }

    /// Nothing will happen for a while: gives back memory. A member with nothing under way hibernates (`hibernate.rs`).
    pub fn hibernate(&mut self) {
        let settled = self.is_settled();
        let Node::Awake(node) = &mut self.node else { return };
        if settled && Hibernating::may_hibernate(node) {
            self.node = Node::Hibernating(Box::new(Hibernating::of(node)));
            return;
        }
        let raft = &mut node.raft;
        raft.maybe_free_inflight_buffers();
        raft.raft_log.unstable.entries.shrink_to_fit();
        raft.msgs.shrink_to_fit();
        raft.read_states.shrink_to_fit();
    }

    /// Campaigns: pre-votes first.
    fn campaign(&mut self) {
        self.campaigns += 1;
        self.failed_campaigns = self.failed_campaigns.saturating_add(1);
        self.campaign_deferred = None;
        let node = self.awake();
        node.raft.election_elapsed = 0;
        // Refused while a membership change is not applied: it campaigns again after the same time.
        let _refused_is_fine = node.campaign();
    }

    /// Whether all it holds is durable. Until then it must not campaign: the library takes a candidate's
    /// log for persisted, and reads the entries after the applied index, which a snapshot has cut.
    fn is_settled(&self) -> bool {
        let Node::Awake(node) = &self.node else { return true };
        let log = &node.raft.raft_log;
        self.installing.is_none() && log.unstable_snapshot().is_none() && log.persisted == log.last_index()
    }

    /// One tick of time. A follower that is not settled does not count it: its vote requests could not leave.
    pub fn tick(&mut self) {
        self.awake();
        if self.library().raft.state != StateRole::Leader && !self.is_settled() {
            return;
        }
        self.awake().tick();
        let raft = &self.library().raft;
        // A follower waits at least this long: the timeout is not computed in every tick of every group.
        if raft.state == StateRole::Follower && raft.election_elapsed <= self.config.election_ticks {
            return;
        }
        let waits = raft.state != StateRole::Leader && raft.promotable();
        if waits && raft.election_elapsed >= self.campaign_ticks() {
            self.campaign();
        }
    }

    /// A leader's members learn at once how far is committed, where no append is under way that will carry it. Without this
    /// they learn it with the next heartbeat.
    pub fn announce_commit(&mut self) {
        let Node::Awake(node) = &mut self.node else { return };
        let log = &node.raft.raft_log;
        if node.raft.state == StateRole::Leader && log.committed == log.last_index() {
            node.raft.bcast_append();
        }
    }

    /// Sets how many ticks ago a leader's last heartbeat was: the same for all groups of a lane, so that one frame carries
    /// all heartbeats to a node. Nothing but the count is changed.
    pub fn align_heartbeats(&mut self, phase: usize) {
        let Node::Awake(node) = &mut self.node else { return };
        let raft = &mut node.raft;
        for _ in 0..self.config.heartbeat_ticks {
            if raft.state != StateRole::Leader || raft.heartbeat_elapsed() == phase {
                return;
            }
            let elapsed = std::mem::take(&mut raft.election_elapsed);
            raft.tick();
            raft.election_elapsed = elapsed;
        }
    }

    /// A message from a peer. Messages that could not have come from a correct member are dropped.
    pub fn step(&mut self, message: Message) {
        self.awake();
        if !self.acceptable(&message) {
            return;
        }
        let kind = message.kind();
        let from = message.inner.from;
        if planted(Mutant::VoteInsidePromise) && matches!(kind, MessageKind::RequestVote | MessageKind::RequestPreVote)
        {
            self.end_promise();
        }
        let elapsed = self.library().raft.election_elapsed;
        let said = self.library().raft.msgs.len();
        if planted(Mutant::LearnerCounts) {
            self.count_learner_as_voter(&message.inner);
        }
        if planted(Mutant::LearnerVotes) {
            self.count_learners_vote(&message.inner);
        }
        let _dropped_is_fine = self.awake().step(message.inner);
        if kind == MessageKind::AppendResponse {
            self.repair_next_index(from);
            if planted(Mutant::PriorTermCommit) {
                self.commit_by_counting();
            }
        }
        self.note_leader(elapsed);
        if kind == MessageKind::RequestPreVote && self.has_agreed_since(said) {
            let until = u32::try_from(CampaignInput::defer_campaign(elapsed)).unwrap_or(u32::MAX);
            self.campaign_deferred.get_or_insert(until);
        }
    }

    /// Whether it has granted a pre-vote after its first `said` messages.
    fn has_agreed_since(&self, said: usize) -> bool {
        let agreed =
            |m: &raft::eraftpb::Message| m.get_msg_type() == MessageType::MsgRequestPreVoteResponse && !m.reject;
        self.library().raft.msgs.iter().skip(said).any(agreed)
    }

    /// Planted: a learner's acknowledgement counts for the voter that lags most.
    fn count_learner_as_voter(&mut self, message: &raft::eraftpb::Message) {
        let is_learner = self.membership().learners.contains(&ReplicaId(message.from));
        let own = self.config.replica;
        let voters = self.membership().voters;
        let behind = self.followers().into_iter().filter(|f| f.replica != own && voters.contains(&f.replica));
        let lagging = behind.min_by_key(|follower| follower.matched).map(|follower| follower.replica.0);
        if let (true, false, MessageType::MsgAppendResponse, Some(lagging)) =
            (is_learner, message.reject, message.get_msg_type(), lagging)
        {
            let _planted = self.awake().step(raft::eraftpb::Message { from: lagging, ..message.clone() });
        }
    }

    /// Planted: a learner's vote counts for the last of the other voters.
    fn count_learners_vote(&mut self, message: &raft::eraftpb::Message) {
        let Membership { voters, learners, .. } = self.membership();
        let is_vote = matches!(
            message.get_msg_type(),
            MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse
        );
        let voter = voters.into_iter().rev().find(|voter| *voter != self.config.replica);
        if let (true, true, false, Some(voter)) =
            (is_vote, learners.contains(&ReplicaId(message.from)), message.reject, voter)
        {
            let _planted = self.awake().step(raft::eraftpb::Message { from: voter.0, ..message.clone() });
        }
    }

    /// Planted: a candidate requests votes from learners, too.
    fn ask_learners(&self, said: &mut Vec<Message>) {
        let learners = self.membership().learners;
        let asks =
            |message: &&Message| matches!(message.kind(), MessageKind::RequestVote | MessageKind::RequestPreVote);
        let Some(first) = said.iter().find(asks).cloned() else { return };
        said.extend(learners.iter().map(|learner| {
            let inner = raft::eraftpb::Message { to: learner.0, ..first.inner.clone() };
            Message { inner }
        }));
    }

    /// Planted: an entry of an earlier term is committed as soon as a majority holds it.
    fn commit_by_counting(&mut self) {
        let raft = &mut self.awake().raft;
        if raft.state == StateRole::Leader {
            let (counted, _) = raft.mut_prs().maximal_committed_index();
            if counted > raft.raft_log.committed {
                raft.raft_log.commit_to(counted);
            }
        }
    }

    /// An entry of an append, by this term's leader or a later one, that differs from what is committed here: the index, the
    /// term here, and the leader's. One of the two has lost what it promised; the library would drop the append.
    pub fn contradiction(&mut self, message: &Message) -> Option<(LogIndex, Term, Term)> {
        let m = &message.inner;
        if m.get_msg_type() != MessageType::MsgAppend || m.log_term == 0 || m.term < self.term().0 {
            return None;
        }
        self.awake();
        let log = &self.library().raft.raft_log;
        let (committed, first) = (log.committed, log.first_index());
        let pairs = std::iter::once((m.index, m.log_term));
        pairs
            .chain(m.entries.iter().map(|entry| (entry.index, entry.term)))
            .take_while(|(index, _)| *index <= committed)
            // Of compacted entries only the last term is known.
            .filter(|(index, _)| *index + 1 >= first && *index > 0)
            .find_map(|(index, term)| {
                let own = log.term(index).ok().filter(|own| *own != term && *own != 0)?;
                Some((LogIndex(index), Term(own), Term(term)))
            })
    }

    /// Checks what the library would `fatal!` on.
    fn acceptable(&self, message: &Message) -> bool {
        let m = &message.inner;
        if m.to != self.config.replica.0 || m.from == m.to || !is_well_formed(m) {
            return false;
        }
        if m.request_snapshot != 0 || self.breaks_promise(m) {
            return false;
        }
        let log = &self.library().raft.raft_log;
        let entry_bytes_max = log.store().log.borrow().entry_bytes_max();
        if m.entries.iter().any(|entry| entry.data.len() + entry.context.len() > entry_bytes_max) {
            return false;
        }
        match m.get_msg_type() {
            MessageType::MsgTimeoutNow => self.is_settled(),
            MessageType::MsgHeartbeat => m.commit <= log.last_index(),
            MessageType::MsgAppendResponse if m.reject => m.reject_hint <= m.index && !self.is_stale_rejection(m),
            MessageType::MsgAppendResponse => m.index <= log.last_index(),
            MessageType::MsgSnapshot => {
                let metadata = m.get_snapshot().get_metadata();
                let membership = Membership::from_library(metadata.get_conf_state());
                metadata.index > 0 && (1..=m.term).contains(&metadata.term) && membership.is_sound()
            }
            // No entry has term 0, but the library finds it after its log's end, and a match there.
            MessageType::MsgAppend if m.log_term == 0 => false,
            MessageType::MsgAppend => {
                m.entries.iter().take_while(|entry| entry.index <= log.committed).all(|entry| {
                    // A compacted entry was committed here; only one still held can be compared.
                    entry.index < log.first_index() || log.term(entry.index) == Ok(entry.term)
                })
            }
            _ => true,
        }
    }

    /// The library's follower forgets its promise to its leader with any answer of a later term (it then follows no
    /// leader). A follower needs no answers: they are dropped.
    fn breaks_promise(&self, m: &raft::eraftpb::Message) -> bool {
        let raft = &self.library().raft;
        let is_answer = matches!(
            m.get_msg_type(),
            MessageType::MsgAppendResponse
                | MessageType::MsgHeartbeatResponse
                | MessageType::MsgRequestVoteResponse
                | MessageType::MsgRequestPreVoteResponse
        );
        is_answer
            && m.term > raft.term
            && raft.state == StateRole::Follower
            && raft.leader_id != raft::INVALID_ID
            && raft.election_elapsed < raft.election_timeout()
    }

    /// A rejection of what the follower has acknowledged since: it would only make the leader go back.
    fn is_stale_rejection(&self, m: &raft::eraftpb::Message) -> bool {
        let raft = &self.library().raft;
        let progress = raft.prs().get(m.from);
        m.term == raft.term && progress.is_some_and(|progress| m.index <= progress.matched)
    }

    /// raft-rs 0.7.0 may let `next_idx` fall to `matched` on a stale rejection (fixed upstream later). The follower would
    /// then be sent an entry that it has acknowledged, or one from before the log's start.
    fn repair_next_index(&mut self, replica: u64) {
        if let Some(progress) = self.awake().raft.mut_prs().get_mut(replica) {
            if progress.next_idx <= progress.matched {
                progress.next_idx = progress.matched + 1;
            }
        }
    }

    /// Proposes a batch of commands as one entry; its index.
    pub fn propose(&mut self, data: Bytes) -> Result<LogIndex, ProposeError> {
        let from = self.config.replica.0;
        if self.role() != Role::Leader {
            return Err(ProposeError::NotLeader);
        }
        let raft = &mut self.awake().raft;
        let before = raft.raft_log.last_index();
        let mut entry = raft::eraftpb::Entry { data, ..Default::default() };
        entry.set_entry_type(raft::eraftpb::EntryType::EntryNormal);
        let mut message = raft::eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = from;
        message.set_entries(vec![entry].into());
        raft.step(message).map_err(|_| ProposeError::Dropped)?;
        let after = raft.raft_log.last_index();
        if after == before {
            return Err(ProposeError::Dropped);
        }
        Ok(LogIndex(after))
    }

    /// Proposes a membership change; `context` is carried by the entry and comes back when it is applied.
    pub fn propose_change(&mut self, change: &MembershipChange, context: Bytes) -> Result<LogIndex, ChangeError> {
        if self.role() != Role::Leader {
            return Err(ChangeError::NotLeader);
        }
        if self.change_pending() || self.membership().is_joint() {
            return Err(ChangeError::Pending);
        }
        let node = self.awake();
        node.propose_conf_change(context.to_vec(), change.to_library()).map_err(|_| ChangeError::Dropped)?;
        Ok(LogIndex(node.raft.raft_log.last_index()))
    }

    /// Applies a committed membership change (empty: leaves the joint state).
    pub fn apply_change(&mut self, change: &MembershipChange) -> Result<Membership, String> {
        let state = self.awake().apply_conf_change(&change.to_library()).map_err(|error| error.to_string())?;
        self.seen.on_members_changed();
        Ok(Membership::from_library(&state))
    }

    /// Starts a ReadIndex round (Ongaro's thesis, 6.4). Leader only, and only once an entry of its own
    /// term is committed; the result comes with a later `make_ready`.
    pub fn read_index(&mut self, context: u64) {
        self.awake().read_index(context_bytes(context));
    }

    /// Starts handing leadership to a member.
    pub fn transfer_leader(&mut self, to: ReplicaId) {
        self.awake().transfer_leader(to.0);
    }

    /// Gives leadership up. The members elect another leader as soon as their promises end, and that one may still commit
    /// what this one proposed.
    pub fn step_down(&mut self) {
        if self.role() == Role::Leader {
            let raft = &mut self.awake().raft;
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
    }

    /// Sends heartbeats now (leader only).
    pub fn ping(&mut self) {
        self.awake().ping();
    }

    /// A message to this member could not be sent.
    pub fn report_unreachable(&mut self, replica: ReplicaId) {
        self.awake().report_unreachable(replica.0);
    }

    /// A snapshot's sending ended.
    pub fn report_snapshot(&mut self, replica: ReplicaId, delivered: bool) {
        let status = if delivered { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.awake().report_snapshot(replica.0, status);
    }

    /// The outcome of the turn; `None` if there is none. Stages entries and hard state in the log.
    /// `on_snapshot` is called before staging if there is a snapshot to install.
    pub fn make_ready(&mut self, on_snapshot: impl FnOnce(&SnapshotPoint)) -> Option<GroupReady> {
        let node = match &mut self.node {
            Node::Awake(node) if node.has_ready() => node,
            _ => return None,
        };
        let mut ready = node.ready();
        let mut out = GroupReady {
            number: ready.number(),
            staged: ready.must_sync(),
            role_changed: ready.ss().is_some(),
            ..GroupReady::default()
        };
        if !ready.snapshot().is_empty() {
            let metadata = ready.snapshot().get_metadata();
            out.snapshot = Some(SnapshotPoint {
                index: LogIndex(metadata.index),
                term: Term(metadata.term),
                membership: Rc::new(Membership::from_library(metadata.get_conf_state())),
            });
        }
        if let Some(point) = out.snapshot.as_ref() {
            on_snapshot(point);
            self.installing = Some((out.number, point.index.0));
        }
        self.stage(&mut ready, out.snapshot.as_ref());
        let messages = ready.take_messages();
        out.messages.reserve(messages.len());
        messages.into_iter().for_each(|message| Message::split_into(message, MESSAGE_BYTES_MAX, &mut out.messages));
        out.persisted_messages =
            ready.take_persisted_messages().into_iter().filter_map(Message::from_library).collect();
        if planted(Mutant::LearnerVotes) {
            self.ask_learners(&mut out.persisted_messages);
        }
        out.committed = ready.take_committed_entries().into_iter().map(entry_from_library).collect();
        out.reads = ready
            .take_read_states()
            .into_iter()
            .filter_map(|state| Some((context_number(&state.request_ctx)?, LogIndex(state.index))))
            .collect();
        self.awake().advance_append_async(ready);
        Some(out)
    }

    fn stage(&mut self, ready: &mut raft::Ready, snapshot: Option<&SnapshotPoint>) {
        let replica = self.config.replica;
        let hard_state = ready.hs().map(|hs| HardState {
            term: Term(hs.term),
            vote: ReplicaId(hs.vote),
            commit: LogIndex(hs.commit),
            replica,
        });
        let entries: Vec<LogEntry> = ready.take_entries().into_iter().map(entry_from_library).collect();
        let must_sync = ready.must_sync();
        let storage = self.awake().mut_store();
        let mut log = storage.log.borrow_mut();
        if let Some(point) = snapshot {
            log.compact(storage.cluster, point.index, point.term);
        }
        if !entries.is_empty() {
            log.append(storage.cluster, &entries);
        }
        if let Some(hard_state) = hard_state {
            storage.hard_state = hard_state;
            // The commit index alone need not be durable, and costs no write of its own. It goes with the next batch of the lane: a member
            // that comes back without a leader then shows what it has shown before, and not only what its engine holds.
            match must_sync {
                _ if planted(Mutant::TermNotPersisted) => {}
                true => log.put_state(storage.cluster, STATE_HARD, hard_state.to_bytes()),
                false => log.hint_state(storage.cluster, STATE_HARD, hard_state.to_bytes()),
            }
        }
    }

    /// Everything staged up to this ready is durable.
    pub fn on_persisted(&mut self, number: u64) {
        self.awake().on_persist_ready(number);
        if let Some((_, index)) = self.installing.take_if(|(installing, _)| *installing <= number) {
            // The library does not mark an installed snapshot as applied by itself.
            let node = self.awake();
            if index > node.raft.raft_log.applied {
                node.advance_apply_to(index);
            }
        }
    }

    /// The state machine has applied up to here.
    pub fn on_applied(&mut self, index: LogIndex) {
        self.awake().advance_apply_to(index.0);
    }

    /// The engine holds this much durably.
    pub fn set_snapshot_point(&mut self, point: SnapshotPoint) {
        match &mut self.node {
            Node::Awake(node) => node.mut_store().snapshot_point = point,
            Node::Hibernating(hibernating) => hibernating.storage.snapshot_point = point,
        }
    }

    /// This member.
    pub fn replica(&self) -> ReplicaId {
        self.config.replica
    }

    /// Its role.
    pub fn role(&self) -> Role {
        let node = match &self.node {
            Node::Awake(node) => node,
            Node::Hibernating(hibernating) if hibernating.leads() => return Role::Leader,
            Node::Hibernating(_) => return Role::Follower,
        };
        match node.raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate => Role::PreCandidate,
            StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        }
    }

    /// Its term.
    pub fn term(&self) -> Term {
        match &self.node {
            Node::Awake(node) => Term(node.raft.term),
            Node::Hibernating(hibernating) => hibernating.storage.hard_state.term,
        }
    }

    /// The leader that it follows, which may be itself.
    pub fn leader(&self) -> Option<ReplicaId> {
        let leader = match &self.node {
            Node::Awake(node) => node.raft.leader_id,
            Node::Hibernating(hibernating) => hibernating.leader,
        };
        (leader != raft::INVALID_ID).then_some(ReplicaId(leader))
    }

    /// The commit index it knows.
    pub fn commit(&self) -> LogIndex {
        match &self.node {
            Node::Awake(node) => LogIndex(node.raft.raft_log.committed),
            Node::Hibernating(hibernating) => hibernating.storage.hard_state.commit,
        }
    }

    /// The last index in its log.
    pub fn last_index(&self) -> LogIndex {
        match &self.node {
            Node::Awake(node) => LogIndex(node.raft.raft_log.last_index()),
            Node::Hibernating(hibernating) => hibernating.storage.log.borrow().last_index(hibernating.storage.cluster),
        }
    }

    /// Whether an entry of its own term is committed (a leader's reads wait for that).
    pub fn committed_in_own_term(&self) -> bool {
        match &self.node {
            Node::Awake(node) => node.raft.commit_to_current_term(),
            Node::Hibernating(hibernating) => hibernating.leads(),
        }
    }

    /// Whether leadership is being handed over.
    pub fn is_transferring(&self) -> bool {
        matches!(&self.node, Node::Awake(node) if node.raft.lead_transferee.is_some())
    }

    /// Whether a membership change is not yet applied.
    pub fn change_pending(&self) -> bool {
        matches!(&self.node, Node::Awake(node) if node.raft.has_pending_conf())
    }

    /// The configuration in force.
    pub fn membership(&self) -> Membership {
        match &self.node {
            Node::Awake(node) => Membership::from_library(&node.raft.prs().conf().to_conf_state()),
            Node::Hibernating(hibernating) => (*hibernating.storage.membership).clone(),
        }
    }

    /// What the leader knows of each member, by replica id; itself included. (A hibernating follower knows nothing. Every
    /// member of a hibernating leader has all entries and counts as active.)
    pub fn followers(&self) -> Vec<Follower> {
        let own = self.config.replica.0;
        let matched = self.commit();
        let mut followers: Vec<Follower> = match &self.node {
            Node::Awake(node) => {
                let each = node.raft.prs().iter().map(|(id, progress)| Follower {
                    replica: ReplicaId(*id),
                    matched: LogIndex(progress.matched),
                    active: progress.recent_active || *id == own,
                    in_snapshot: progress.state == ProgressState::Snapshot,
                });
                each.collect()
            }
            Node::Hibernating(hibernating) => {
                let each = hibernating.members_led();
                each.map(|replica| Follower { replica, matched, active: true, in_snapshot: false }).collect()
            }
        };
        followers.sort_unstable_by_key(|follower| follower.replica);
        followers
    }

    /// The last index known to be durable on every one of these members.
    pub fn matched_on_all(&self, replicas: &[ReplicaId]) -> LogIndex {
        let matched = |id: &ReplicaId| match &self.node {
            Node::Awake(node) => node.raft.prs().get(id.0).map_or(0, |progress| progress.matched),
            Node::Hibernating(hibernating) => {
                hibernating.members_led().find(|led| led == id).map_or(0, |_| self.commit().0)
            }
        };
        LogIndex(replicas.iter().map(matched).min().unwrap_or(0))
    }

    /// Whether the library has anything to hand out.
    pub fn has_ready(&self) -> bool {
        matches!(&self.node, Node::Awake(node) if node.has_ready())
    }
}
