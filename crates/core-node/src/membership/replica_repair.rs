//! Replicas that must come, be replaced, or go: lost disks, members that lack their replica, replicas
//! whose cluster has gone on without them.
//!
//!   node map: other disk ─┐
//!   UnknownCluster{disk} ─┴▶ leader: ReplaceDisk (until done) ─▶ its messages meet nothing
//!        ─▶ UnknownCluster{disk} ─▶ leader: CreateReplica (blank, new replica id) ─▶ snapshot
//!
//! A voter that says twice, `FORGOT_AFTER` apart, that it holds nothing on the disk it had, has forgotten what it promised
//! (or was never made): it is replaced by a new replica, and never recreated under its own id.
//!
//! Always: a node makes a replica only on the disk the order names; a leader orders only what its
//! cluster's members say; a replica is removed only on the word of its leader or of `reference`.
//! Not here: members whose node is gone for good (rebalance.rs), the change of members itself (core-cluster), level 0
//! formation (formation.rs).

use crate::context::level_zero::is_level_zero;
use crate::context::{CoreContext, Turn};
use crate::frame::Item;
use crate::routing::operation::{Operation, Owner};
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{BackendKind, ClusterId, DiskId, Generation, NodeId, ReplicaId, Tick, Ticket};
use core::time::Duration;
use core_backends::reference::{ClusterMember, Command};
use core_cluster::api::{AdminCommand, LocalKind, Member, ReplicaSpec, ReplicaView};
use core_flow::{CallReply, CallResult};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The least time between two orders (or questions) about one member of one cluster.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// How long a voter must have said that it holds nothing: an order that makes it may be under way.
const FORGOT_AFTER: Duration = Duration::from_secs(3);
/// The same for a first member of a level 0 cluster: it forms by itself as soon as it has asked.
const UNFORMED_AFTER: Duration = Duration::from_secs(15);
/// What it said longer ago than this was of another time.
const FORGOT_STALE: Duration = Duration::from_secs(30);
/// The first pause before a replacement is tried again; doubled up to `REPLACE_PAUSE_MAX`.
const REPLACE_PAUSE: Duration = Duration::from_millis(500);
const REPLACE_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long one try may take.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(30);
/// Replacements under way at a time: snapshots of all of them would crowd out the clients.
const REPLACEMENTS_OUT_MAX: usize = 32;
/// How often replicas without a leader are looked at, and how many at a time.
pub(super) const ORPHANS_EVERY: Duration = Duration::from_secs(10);
const ORPHANS_AT_ONCE: usize = 16;
/// Members are reported to `reference` this long after a failed try.
const TELL_MEMBERS_RETRY: Duration = Duration::from_secs(2);
/// Bounds of what is remembered.
const GONE_MAX: usize = 10_000;
const TOLD_MAX: usize = 10_000;

/// A replacement that is not done yet.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Replacement {
    next: Tick,
    pause: Duration,
    out: bool,
}

/// A voter that said that it holds nothing: from when on this counts, and when it last said so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Forgot {
    replica: ReplicaId,
    due: Tick,
    last: Tick,
}

/// What there is to do.
#[derive(Debug, Default)]
pub struct ReplicaRepair {
    timer: Tick,
    recheck: bool,
    replacements: BTreeMap<(ClusterId, NodeId), Replacement>,
    told: BTreeMap<(ClusterId, NodeId), Tick>,
    /// Voters that say they hold nothing.
    forgot: BTreeMap<(ClusterId, NodeId), Forgot>,
    gone: BTreeMap<ClusterId, ReplicaId>,
    /// The same, the longest gone first.
    gone_order: VecDeque<ClusterId>,
    /// The members as last noticed, of every cluster here.
    seen: BTreeMap<ClusterId, Arc<[Member]>>,
    /// Clusters whose members changed since `reference` was surely told.
    untold: BTreeMap<ClusterId, Tick>,
    /// The members that `reference` is being told, of clusters for which that is under way.
    telling: BTreeMap<ClusterId, Arc<[Member]>>,
    orphans_next: Tick,
    orphans_after: ClusterId,
    /// Replicas that lost what they promised, with the warning.
    damaged: BTreeMap<ClusterId, String>,
    /// Replicas here that serve nothing, and why: degrades the node.
    quarantined: BTreeMap<ClusterId, String>,
}

impl ReplicaRepair {
    /// Adds this part's sizes.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let out = self.replacements.values().filter(|replacement| replacement.out).count();
        sizes.passing("replacements under way, a core", out, REPLACEMENTS_OUT_MAX);
        sizes.lasting("strangers told to go, a core", self.told.len(), TOLD_MAX);
        sizes.lasting("voters that hold nothing, a core", self.forgot.len(), TOLD_MAX);
        sizes.lasting("replicas gone, a core", self.gone.len(), GONE_MAX);
    }

    /// Whether this replica (or an earlier one) of the cluster was removed here in this life of the process.
    pub fn is_gone(&self, cluster: ClusterId, replica: ReplicaId) -> bool {
        self.gone.get(&cluster).is_some_and(|gone| replica <= *gone)
    }

    /// A voter says that it holds nothing: whether it has said so for long enough.
    fn note_forgot(&mut self, now: Tick, cluster: ClusterId, member: &Member, after: Duration) -> bool {
        let key = (cluster, member.node);
        if !self.forgot.contains_key(&key) && self.forgot.len() >= TOLD_MAX {
            self.forgot.pop_first();
        }
        let new = Forgot { replica: member.replica, due: now + after, last: now };
        let known = self.forgot.entry(key).or_insert(new);
        if known.replica != member.replica || now.since(known.last) > FORGOT_STALE {
            *known = new;
        }
        known.last = now;
        now >= known.due
    }

    /// Whether this member is known to hold nothing.
    fn has_forgotten(&self, now: Tick, cluster: ClusterId, member: &Member) -> bool {
        self.forgot.get(&(cluster, member.node)).is_some_and(|known| {
            known.replica == member.replica && known.last >= known.due && now.since(known.last) <= FORGOT_STALE
        })
    }

    /// The members of a cluster here, as last noticed.
    pub fn members_of(&self, cluster: ClusterId) -> Option<Arc<[Member]>> {
        self.seen.get(&cluster).cloned()
    }

    /// The members of every cluster here, as last noticed.
    pub fn members_seen(&self) -> impl Iterator<Item = (&ClusterId, &Arc<[Member]>)> {
        self.seen.iter()
    }

    /// Remembers a removed replica, so that an order that was long under way does not bring it back. An order that outlives so
    /// many that went after it came over another connection: nothing sends it any more.
    pub fn note_gone(&mut self, cluster: ClusterId, replica: ReplicaId) {
        if let Some(known) = self.gone.get_mut(&cluster) {
            *known = replica.max(*known);
            return;
        }
        if self.gone_order.len() >= GONE_MAX {
            if let Some(oldest) = self.gone_order.pop_front() {
                self.gone.remove(&oldest);
            }
        }
        self.gone_order.push_back(cluster);
        self.gone.insert(cluster, replica);
    }

    /// At start: the members of every cluster here.
    pub(super) fn start(&mut self, turn: &Turn<'_>) {
        self.seen = turn.lane.views().into_iter().map(|view| (view.cluster, view.members)).collect();
        self.orphans_next = turn.now + ORPHANS_EVERY;
    }

    /// The members of a cluster here, as noticed now. Returned: as noticed before.
    pub(super) fn note_members(&mut self, cluster: ClusterId, members: &Arc<[Member]>) -> Option<Arc<[Member]>> {
        self.seen.insert(cluster, members.clone())
    }

    /// A replica is gone from this lane.
    pub(super) fn on_gone(&mut self, cluster: ClusterId, replica: ReplicaId) {
        self.note_gone(cluster, replica);
        self.seen.remove(&cluster);
        self.damaged.remove(&cluster);
        self.quarantined.remove(&cluster);
        self.untold.remove(&cluster);
    }

    /// A replica here lost what it promised, or its life is over.
    pub(super) fn note_damaged(&mut self, cluster: ClusterId, warning: String) {
        self.quarantined.remove(&cluster);
        self.damaged.insert(cluster, warning);
    }

    /// A replica here serves nothing.
    pub(super) fn note_quarantined(&mut self, cluster: ClusterId, warning: String) {
        self.quarantined.insert(cluster, warning);
    }

    /// It serves again.
    pub(super) fn note_released(&mut self, cluster: ClusterId) {
        self.quarantined.remove(&cluster);
    }

    /// Replicas that lost what they promised, each with what to do.
    pub(super) fn damaged(&self) -> impl Iterator<Item = &String> {
        self.damaged.values()
    }

    /// Replicas that serve nothing, each with why.
    pub(super) fn quarantined(&self) -> impl Iterator<Item = &String> {
        self.quarantined.values()
    }

    /// What is due is looked at when the timers ring next.
    pub(super) fn wake(&mut self, core: &mut CoreContext, now: Tick) {
        if self.timer > now {
            let old = core::mem::replace(&mut self.timer, now);
            core.set_timer(TimerKey::ReplicaRepair, old, now);
        }
    }

    /// The map told something of a node, perhaps another disk: soon all clusters led here are looked at, once.
    pub fn recheck_disks(&mut self, core: &mut CoreContext, now: Tick) {
        self.recheck = true;
        self.wake(core, now);
    }

    fn look_at_disks(&mut self, turn: &mut Turn<'_>) {
        if !core::mem::take(&mut self.recheck) {
            return;
        }
        for view in turn.lane.views().into_iter().filter(|view| view.is_leader) {
            self.find_lost_disks(turn, view.cluster, &view.members);
        }
    }

    /// Members on disks that their nodes do not have any more are to be replaced.
    pub(super) fn find_lost_disks(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, members: &[Member]) {
        if planted(Mutant::ReplicaIdReused) {
            return;
        }
        for member in members {
            if self.disk_of(turn.core, member.node).is_some_and(|disk| disk != member.disk) {
                self.want_replacement(turn.core, turn.now, cluster, member.node);
            }
        }
    }

    /// The disk a node now has, as far as the map knows.
    fn disk_of(&self, core: &CoreContext, node: NodeId) -> Option<DiskId> {
        if node == core.node() {
            return Some(core.config().disk);
        }
        core.map().get(node).filter(|record| record.up).map(|record| record.disk)
    }

    fn want_replacement(&mut self, core: &mut CoreContext, now: Tick, cluster: ClusterId, node: NodeId) {
        let fresh = Replacement { next: now, pause: REPLACE_PAUSE, out: false };
        self.replacements.entry((cluster, node)).or_insert(fresh);
        self.wake(core, now);
    }

    /// Time to try again whatever is not done.
    pub(super) fn retry(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        self.look_at_disks(turn);
        self.try_replacements(turn, routing);
        self.tell_members(turn, routing);
    }

    /// Whether replicas without a leader are to be looked at now.
    pub(super) fn orphans_due(&mut self, turn: &mut Turn<'_>) -> bool {
        let due = turn.now >= self.orphans_next;
        if due {
            self.orphans_next = turn.now + turn.core.random().jitter(ORPHANS_EVERY);
        }
        due
    }

    /// The next replicas that no leader speaks to.
    pub(super) fn next_orphans(&mut self, views: Vec<ReplicaView>) -> Vec<ReplicaView> {
        let after = self.orphans_after;
        let suspects: Vec<ReplicaView> = views
            .into_iter()
            .filter(|view| view.cluster > after && !view.is_leader && (view.leader.is_none() || view.blank))
            .filter(|view| !is_level_zero(view.cluster) && view.ended == Generation(0))
            .take(ORPHANS_AT_ONCE)
            .collect();
        self.orphans_after = suspects.last().map_or(ClusterId(0), |view| view.cluster);
        suspects
    }

    /// Sets the timer to what is due next.
    pub(super) fn arm(&mut self, turn: &mut Turn<'_>) {
        let replacements =
            self.replacements.values().filter(|replacement| !replacement.out).map(|replacement| replacement.next);
        let untold = self.untold.iter().filter(|(cluster, _)| !self.telling.contains_key(cluster)).map(|(_, at)| *at);
        let due = replacements.chain(untold).min().unwrap_or(Tick::NEVER).max(turn.now + TELL_EVERY);
        let at = due.min(self.orphans_next);
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::ReplicaRepair, old, at);
    }

    fn try_replacements(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let out = self.replacements.values().filter(|replacement| replacement.out).count();
        let due: Vec<(ClusterId, NodeId)> = self
            .replacements
            .iter()
            .filter(|(_, replacement)| !replacement.out && replacement.next <= turn.now)
            .take(REPLACEMENTS_OUT_MAX.saturating_sub(out))
            .map(|(key, _)| *key)
            .collect();
        for (cluster, node) in due {
            match self.replacement_wanted(turn, cluster, node) {
                Some((view, command)) => self.start_replacement(turn, routing, view, node, command),
                None => {
                    self.replacements.remove(&(cluster, node));
                    self.forgot.remove(&(cluster, node));
                }
            }
        }
    }

    /// Whether the cluster is (still) led here with this node as a member on a disk it no longer has, or as a voter that
    /// has forgotten; and what its leader is to do.
    fn replacement_wanted(
        &self,
        turn: &Turn<'_>,
        cluster: ClusterId,
        node: NodeId,
    ) -> Option<(ReplicaView, AdminCommand)> {
        let view = turn.lane.view(cluster).filter(|view| view.is_leader)?;
        let disk = self.disk_of(turn.core, node)?;
        let member = view.members.iter().find(|member| member.node == node)?;
        let command = match member.disk != disk {
            true => AdminCommand::ReplaceDisk { node, disk },
            false if member.learner || !self.has_forgotten(turn.now, cluster, member) => return None,
            false => AdminCommand::RenewMember { node, replica: member.replica },
        };
        Some((view, command))
    }

    fn start_replacement(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        view: ReplicaView,
        node: NodeId,
        command: AdminCommand,
    ) {
        if let Some(replacement) = self.replacements.get_mut(&(view.cluster, node)) {
            replacement.out = true;
        }
        let kind = LocalKind::Admin(command);
        let owner = Owner::Replace { cluster: view.cluster, node };
        routing.know_own(&view);
        let operation = Operation::new(owner, Arc::new(view.name), kind, turn.now, turn.now + REPLACE_TIMEOUT);
        routing.start_operation(turn, operation);
    }

    /// A replacement was done, or failed.
    pub fn on_replaced(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, node: NodeId, result: CallResult) {
        let Some(replacement) = self.replacements.get_mut(&(cluster, node)) else { return };
        replacement.out = false;
        match result {
            Ok(_) => {
                self.replacements.remove(&(cluster, node));
            }
            Err(failure) => {
                replacement.next = turn.now + replacement.pause;
                replacement.pause = (replacement.pause * 2).min(REPLACE_PAUSE_MAX);
                if replacement.pause == REPLACE_PAUSE_MAX {
                    turn.note(
                        crate::api::NoteLevel::Warning,
                        format!("node {node} cannot be taken back into cluster {cluster} yet: {}", failure.refusal),
                    );
                }
            }
        }
        self.wake(turn.core, turn.now);
    }

    /// A node this lane's clusters talk to has no such replica.
    pub fn on_unknown_cluster(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        from: NodeId,
        cluster: ClusterId,
        generation: Generation,
        disk: DiskId,
    ) {
        let Some(view) = turn.lane.view(cluster).filter(|view| view.is_leader && view.generation == generation) else {
            return;
        };
        let Some(member) = view.members.iter().find(|member| member.node == from).copied() else { return };
        if member.disk != disk && !planted(Mutant::ReplicaIdReused) {
            if self.disk_of(turn.core, from) == Some(disk) {
                self.want_replacement(turn.core, turn.now, cluster, from);
            }
            // Else the map will tell soon; a report that was long under way must not undo a newer disk.
            return;
        }
        if !member.learner && !planted(Mutant::VoterMadeBlank) {
            return self.on_voter_forgot(turn, &view, &member);
        }
        let last = self.told.get(&(cluster, from)).copied();
        if last.is_some_and(|last| turn.now.since(last) < TELL_EVERY) {
            return;
        }
        if self.told.len() >= TOLD_MAX {
            self.told.pop_first();
        }
        self.told.insert((cluster, from), turn.now);
        routing.know_own(&view);
        let kind = LocalKind::Admin(AdminCommand::Describe);
        let deadline = turn.now + turn.core.election_timeout();
        let operation = Operation::new(Owner::Heal { node: from }, Arc::new(view.name), kind, turn.now, deadline);
        routing.start_operation(turn, operation);
    }

    /// A voter holds nothing on the disk it had. A member of a level 0 cluster may be about to form; any other may be
    /// about to be made: only who says so for long is replaced.
    fn on_voter_forgot(&mut self, turn: &mut Turn<'_>, view: &ReplicaView, member: &Member) {
        let cluster = view.cluster;
        let forms = turn
            .core
            .level_zero_of(cluster)
            .is_some_and(|zero| crate::membership::formation::is_original(zero, &view.members));
        let after = if forms { UNFORMED_AFTER } else { FORGOT_AFTER };
        if !self.note_forgot(turn.now, cluster, member, after) {
            return;
        }
        if !self.replacements.contains_key(&(cluster, member.node)) {
            let text = format!(
                "node {} holds nothing of cluster {} on the disk it votes with (replica {}): it is replaced by a new replica",
                member.node, view.name, member.replica
            );
            turn.note(crate::api::NoteLevel::Warning, text);
        }
        self.want_replacement(turn.core, turn.now, cluster, member.node);
    }

    /// The leader's own description: what the member must be told.
    pub fn on_heal_description(&mut self, turn: &mut Turn<'_>, node: NodeId, result: CallResult) {
        let Ok(CallReply::Described(description)) = result else { return };
        let Some((member, _)) = description.members.iter().find(|(member, _)| member.node == node) else { return };
        if !member.learner && !planted(Mutant::VoterMadeBlank) && !planted(Mutant::ReplicaIdReused) {
            return;
        }
        // As with the removal of a member (`on_members_noticed`): only what is durable here. The node may hold an earlier
        // replica that is whole and gives way to this one, and that one's vote is needed while the change may be forgotten.
        let seen = self.seen.get(&description.cluster);
        if !seen.is_some_and(|seen| seen.iter().any(|known| known.replica == member.replica)) {
            return;
        }
        let spec = ReplicaSpec {
            cluster: description.cluster,
            generation: description.generation,
            name: description.name.clone(),
            rule: description.rule.as_str().into(),
            engine: description.engine.as_str().into(),
            consistency: description.consistency,
            read_consistency: description.read_consistency,
            replica: member.replica,
            initial_members: Arc::default(),
        };
        let known = self.disk_of(turn.core, node).filter(|_| planted(Mutant::ReplicaIdReused));
        let disk = known.unwrap_or(member.disk);
        let item = Item::CreateReplica { ticket: Ticket(0), disk, spec: Box::new(spec) };
        turn.want_address(node);
        turn.core.send_to_cluster(node, description.cluster, &item);
    }

    fn tell_members(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let telling = &self.telling;
        let due: Vec<ClusterId> = self
            .untold
            .iter()
            .filter(|(cluster, at)| **at <= turn.now && !telling.contains_key(cluster))
            .map(|(cluster, _)| *cluster)
            .collect();
        for cluster in due {
            let Some(view) = turn.lane.view(cluster).filter(|view| view.is_leader) else {
                // The leader reports it; this mark stays in case this node comes to lead.
                self.untold.insert(cluster, turn.now + ORPHANS_EVERY);
                continue;
            };
            self.telling.insert(cluster, view.members.clone());
            let command = Command::UpdateMembers {
                name: view.name.clone(),
                generation: view.generation,
                members: told_members(&view.members),
                term: view.term,
                index: view.applied,
            };
            let kind = LocalKind::Write {
                backend: BackendKind::Reference,
                command: command.to_bytes(),
                consistency: None,
                request_id: turn.core.random().request_id(),
                cluster_time_ms: 0,
            };
            let deadline = turn.now + crate::routing::resolve::RESOLVE_TIMEOUT;
            let operation = Operation::new(Owner::TellMembers { cluster }, turn.core.world(), kind, turn.now, deadline);
            routing.start_operation(turn, operation);
        }
    }

    /// The members of a cluster here changed: `reference` is to know.
    pub(super) fn note_untold(&mut self, cluster: ClusterId, now: Tick) {
        self.untold.insert(cluster, now);
    }

    /// `reference` holds other members than a leader here: an update was lost, with a process or in some other way.
    pub fn members_are_untold(&mut self, core: &mut CoreContext, now: Tick, cluster: ClusterId) {
        self.untold.entry(cluster).or_insert(now);
        self.wake(core, now);
    }

    /// `reference` took the members, or could not be reached.
    pub fn on_members_told(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, result: CallResult) {
        let told = self.telling.remove(&cluster);
        // Changed while that was under way: what `reference` received is not the newest.
        let outdated = self.seen.get(&cluster).is_some_and(|seen| told.as_ref() != Some(seen));
        let reply = core_flow::decode_call::<core_backends::reference::Reply>(result);
        match reply {
            Err(failure) if failure.refusal.kind().retryable() => {
                self.untold.insert(cluster, turn.now + TELL_MEMBERS_RETRY);
                self.wake(turn.core, turn.now);
            }
            _ if outdated && !planted(Mutant::NewsOfMembersDropped) => {
                self.untold.insert(cluster, turn.now);
                self.wake(turn.core, turn.now);
            }
            _ => {
                self.untold.remove(&cluster);
            }
        }
    }
}

/// A cluster's members as `reference` keeps them.
pub fn told_members(members: &[Member]) -> Vec<ClusterMember> {
    let member = |member: &Member| ClusterMember {
        replica: member.replica,
        node: member.node,
        disk: member.disk,
        learner: member.learner,
    };
    members.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gone_is_forgotten_first() {
        let mut recruits = ReplicaRepair::default();
        // Clusters of high ids first: their ids say nothing of when they went.
        for number in (1..=GONE_MAX as u64).rev() {
            recruits.note_gone(ClusterId(number), ReplicaId(7));
        }
        recruits.note_gone(ClusterId(GONE_MAX as u64 + 1), ReplicaId(3));
        assert!(!recruits.is_gone(ClusterId(GONE_MAX as u64), ReplicaId(7)), "the first that went");
        assert!(recruits.is_gone(ClusterId(1), ReplicaId(7)) && !recruits.is_gone(ClusterId(1), ReplicaId(8)));
        recruits.note_gone(ClusterId(1), ReplicaId(5));
        assert!(recruits.is_gone(ClusterId(1), ReplicaId(7)), "a late word takes nothing back");
        assert!(recruits.gone.len() == GONE_MAX && recruits.gone_order.len() == GONE_MAX);
    }
}
