//! Who the members of the level 0 clusters (the world's, this region's) are now, and where they are reached: told by their
//! leaders, remembered by everybody (docs/decisions/0040-members-of-level-zero-change.md).
//!
//!   leader ──Announce{index, members, addresses}──▶ lane zero of every node of its scope ──▶ other lanes, Effect::Remember
//!   a node that asks for what has a home already (heartbeat, formation probe) ◀──Announce── the node that is asked
//!
//! By design: the latest life of the cluster wins, and in it the highest index; all of them are of one log, so an announcement was
//! true when it had that index. The configured
//! lists are hints for a first contact and the founders of a first formation, no more. A replica here goes only for an
//! announcement of a later index than its own that does not list it, and ends for one of a later life (decision 0045).
//! Not here: how members change (flows/level_zero.rs), how a cluster comes into being (formation.rs).

use crate::api::{Effect, NoteLevel};
use crate::context::level_zero::{is_level_zero, region_cluster_id, LevelZero, WORLD_CLUSTER};
use crate::context::{CoreContext, Turn};
use crate::flows::recover::KnownZero;
use crate::frame::{Announcement, Item};
use crate::membership::Membership;
use crate::routing::cache::Route;
use crate::routing::Routing;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, ClusterName, ErrorCode, Generation, LogIndex, NodeId, Refusal, Term, LANE_ZERO};
use core_backends::reference::ClusterMember;
use core_cluster::api::{Member, ReplicaView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The latest announcements, and at what index clusters led here have had their members.
#[derive(Debug, Default)]
pub struct LevelZeroMembers {
    known: BTreeMap<ClusterId, Announcement>,
    since: BTreeMap<ClusterId, LogIndex>,
}

impl LevelZeroMembers {
    /// As the host remembers them from an earlier life.
    pub fn remembered(announcements: &[Announcement]) -> LevelZeroMembers {
        let kept = |one: &&Announcement| is_level_zero(one.cluster) && !one.members.is_empty();
        let known = announcements.iter().filter(|_| !planted(Mutant::MembersForgotten)).filter(kept);
        let known = known.map(|one| (one.cluster, one.clone())).collect();
        LevelZeroMembers { known, since: BTreeMap::new() }
    }

    /// What is known of a cluster.
    pub fn of(&self, cluster: ClusterId) -> Option<&Announcement> {
        self.known.get(&cluster)
    }

    /// At start: who is remembered can be reached, where the configuration gives no other address.
    pub fn start(&self, turn: &mut Turn<'_>) {
        let known: Vec<Announcement> = self.known.values().cloned().collect();
        for announcement in known {
            dial_members(turn, &announcement, false);
        }
    }

    /// A node of the world that may know who leads it: of the members of now, and of those that are configured.
    pub fn world_contacts(&self, core: &CoreContext) -> Vec<NodeId> {
        let configured = core.level_zero()[0].members.iter().copied();
        let known = self.of(WORLD_CLUSTER);
        let members = known.into_iter().flat_map(|known| known.members.iter().map(|(member, _)| member.node));
        members.chain(configured).collect::<BTreeSet<NodeId>>().into_iter().collect()
    }

    /// A replica of this lane has noticed its members: since which index they are so.
    fn note_index(&mut self, view: &ReplicaView, seen: &Arc<[Member]>, changed: bool) {
        // What is noticed may be older than what is applied: then it was not so at that index, and more is noticed soon.
        let is_applied = view.members == *seen;
        if is_applied && (changed || !self.since.contains_key(&view.cluster)) {
            self.since.insert(view.cluster, view.applied);
        } else if !is_applied && changed {
            self.since.remove(&view.cluster);
        }
    }

    /// Where peers reach a member: as the node map has it, or as it was announced, or configured.
    fn address_of(&self, core: &CoreContext, cluster: ClusterId, node: NodeId) -> String {
        if node == core.node() {
            return core.config().peer_address.clone();
        }
        let map = core.map().get(node).map(|record| record.peer_address.clone());
        let known = self.of(cluster).and_then(|known| {
            known.members.iter().find(|(member, _)| member.node == node).map(|(_, address)| address.clone())
        });
        let configured = core.config().world_members.iter().chain(&core.config().region_members);
        let configured = configured.into_iter().find(|(other, _)| *other == node).map(|(_, address)| address.clone());
        [map, known, configured].into_iter().flatten().find(|address| !address.is_empty()).unwrap_or_default()
    }

    /// What this node knows of a level 0 cluster, and all nodes that may hold a replica of it, each with whether it is connected:
    /// nobody keeps the node map up to date while the world has no leader.
    pub fn known_zero(
        &self,
        core: &CoreContext,
        name: &ClusterName,
    ) -> Result<(KnownZero, Vec<(NodeId, bool)>), Refusal> {
        let Some(zero) = core.level_zero().iter().find(|zero| *zero.name == *name) else {
            let message = format!("node {} is of another region than {name}: ask a node of that one", core.node());
            return Err(Refusal::new(ErrorCode::LevelZero, message));
        };
        let announced = self.of(zero.cluster);
        let heard = announced.map_or(Generation(1), |known| known.generation);
        let announced = announced.map(|known| known.members());
        let listed = |member: &Member| ClusterMember {
            replica: member.replica,
            node: member.node,
            disk: member.disk,
            learner: member.learner,
        };
        let members: Vec<ClusterMember> = announced.iter().flat_map(|members| members.iter().map(listed)).collect();
        let mapped = core.map().records().map(|record| record.node);
        let all = mapped.chain(zero.members.iter().copied()).chain(members.iter().map(|member| member.node));
        let all: BTreeSet<NodeId> = all.collect();
        let up = |node: NodeId| (node, node == core.node() || core.nodes().connected().contains(&node));
        let known = KnownZero { name: name.clone(), cluster: zero.cluster, heard, members };
        Ok((known, all.into_iter().map(up).collect()))
    }

    /// Answers a node that looks for a cluster with who its members are, if that is known here.
    pub fn answer(&self, core: &mut CoreContext, to: NodeId, cluster: ClusterId) -> bool {
        let Some(known) = self.of(cluster) else { return false };
        let item = Item::Announce { announcement: Box::new(known.clone()) };
        core.send(to, LANE_ZERO, &item);
        true
    }

    /// A node is connected: it may hold a replica of an earlier life of a level 0 cluster, and must hear of that before it serves.
    pub fn tell_of_later_lives(&self, core: &mut CoreContext, to: NodeId) {
        let later = self.known.values().filter(|known| known.generation > Generation(1));
        for cluster in later.map(|known| known.cluster).collect::<Vec<_>>() {
            self.answer(core, to, cluster);
        }
    }
}

/// Whether a level 0 cluster concerns a node of this region.
pub fn concerns(cluster: ClusterId, region: &str) -> bool {
    cluster == WORLD_CLUSTER || cluster == region_cluster_id(region)
}

impl Membership {
    /// Members or leader of a level 0 cluster changed, as a replica of this lane has noticed.
    pub(super) fn note_level_zero(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        cluster: ClusterId,
        (changed, leads): (bool, bool),
    ) {
        let Some((view, seen)) = turn.lane.view(cluster).zip(self.replica_repair.members_of(cluster)) else { return };
        self.level_zero_members.note_index(&view, &seen, changed);
        if leads {
            self.announce(turn, routing, cluster);
        }
    }

    /// Now and then: what was said may have been lost, and nodes join.
    pub(super) fn announce_again(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let led = turn.lane.views().into_iter().filter(|view| view.is_leader && is_level_zero(view.cluster));
        for cluster in led.map(|view| view.cluster).collect::<Vec<_>>() {
            self.announce(turn, routing, cluster);
        }
    }

    /// The leader of a level 0 cluster says who its members are.
    fn announce(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, cluster: ClusterId) {
        let Some(seen) = self.replica_repair.members_of(cluster) else { return };
        let Some(index) = self.level_zero_members.since.get(&cluster).copied() else { return };
        let members: Vec<(Member, String)> = seen
            .iter()
            .map(|member| (*member, self.level_zero_members.address_of(turn.core, cluster, member.node)))
            .collect();
        let Some(generation) = turn.lane.view(cluster).map(|view| view.generation) else { return };
        let announcement = Announcement { cluster, generation, index, members };
        let scope = |record: &&core_placement::NodeRecord| concerns(cluster, &record.labels.region);
        let nodes = turn.core.map().records().filter(scope).map(|record| record.node);
        let mut to: BTreeSet<NodeId> = nodes.chain(seen.iter().map(|member| member.node)).collect();
        to.remove(&turn.core.node());
        let item = Item::Announce { announcement: Box::new(announcement.clone()) };
        for node in to {
            turn.core.send(node, LANE_ZERO, &item);
        }
        if turn.core.is_lane_zero() {
            self.on_announcement(turn, routing, turn.core.node(), announcement);
        } else {
            turn.core.send_to_lane_zero(&item);
        }
    }

    /// Somebody says who the members are: the leader, or who remembers what a leader said.
    pub fn on_announcement(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        from: NodeId,
        mut announcement: Announcement,
    ) {
        let cluster = announcement.cluster;
        if !concerns(cluster, &turn.core.config().labels.region) || announcement.members.is_empty() {
            return;
        }
        if let Some(known) = self.level_zero_members.of(cluster) {
            fill_addresses(&mut announcement, known);
            let at = |one: &Announcement| (one.generation, one.index);
            if at(&announcement) < at(known) || announcement == *known {
                if announcement.generation < known.generation && from != turn.core.node() {
                    self.level_zero_members.answer(turn.core, from, cluster);
                }
                return;
            }
        }
        let before = self.level_zero_members.known.insert(cluster, announcement.clone());
        take_route(turn.core, routing, &announcement);
        dial_members(turn, &announcement, true);
        self.drop_what_is_over(turn, &announcement);
        if !turn.core.is_lane_zero() {
            return;
        }
        turn.core.send_to_other_lanes(&Item::Announce { announcement: Box::new(announcement.clone()) });
        // A later index of the same members is not worth a write.
        let same = |before: Announcement| {
            (before.generation, before.members) == (announcement.generation, announcement.members.clone())
        };
        if !before.is_some_and(same) {
            let announcements = self.level_zero_members.known.values().cloned().collect();
            turn.effects.list.push(Effect::Remember { announcements });
        }
    }

    /// This node waits for a cluster of which it is no member, or has a replica that is none any more.
    fn drop_what_is_over(&mut self, turn: &mut Turn<'_>, announcement: &Announcement) {
        let cluster = announcement.cluster;
        if !turn.core.is_mine(cluster) {
            return;
        }
        if !announcement.lists(turn.core.node()) && self.formations.give_up(cluster) {
            let text =
                format!("cluster {cluster} has other members than those configured here: this node is none of them");
            turn.note(NoteLevel::Info, text);
        }
        let Some(view) = turn.lane.view(cluster) else { return };
        if announcement.generation != view.generation && !planted(Mutant::LaterLifeUnheard) {
            // Of a later life: this replica's is over, and it is kept. Of an earlier one: the node that said so has yet to hear.
            if turn.lane.end_life(turn.now, cluster, announcement.generation) {
                turn.core.wake_lane();
            }
            return;
        }
        let removed = announcement.has_removed(view.replica, view.applied, view.blank);
        if removed
            && !planted(Mutant::RemovedMemberStays)
            && self.replica_repair.destroy_replica(turn, cluster, view.generation)
        {
            let text = format!("the replica of {} is removed: this node is no member of it any more", view.name);
            turn.note(NoteLevel::Info, text);
        }
    }
}

/// Operations for the cluster go to the members of now.
fn take_route(core: &mut CoreContext, routing: &mut Routing, announcement: &Announcement) {
    let known =
        core.level_zero().iter().find(|zero| zero.cluster == announcement.cluster).map(|zero| zero.name.clone());
    let name = match known {
        Some(name) => name,
        None => {
            // A region's cluster that this node's configuration does not name.
            let Ok(name) = ClusterName::regional(&core.config().labels.region) else { return };
            let name = Arc::new(name);
            let zero = LevelZero { cluster: announcement.cluster, name: name.clone(), members: Vec::new() };
            core.add_level_zero(zero);
            name
        }
    };
    let members: Arc<[Member]> = announcement.members();
    match routing.route_mut(&name).filter(|route| route.pinned) {
        Some(route) => {
            if route.generation != announcement.generation {
                (route.generation, route.leader, route.term) = (announcement.generation, None, Term(0));
            }
            route.leader = route.leader.filter(|leader| members.iter().any(|member| member.node == *leader));
            route.members = members;
        }
        None => {
            let route = Route::of_level_zero(announcement.cluster, announcement.generation, members);
            routing.learn_route(name, route);
        }
    }
}

/// `anew`: an address said by a leader is newer than one that is configured.
fn dial_members(turn: &mut Turn<'_>, announcement: &Announcement, anew: bool) {
    let configured = |node: NodeId| {
        let lists = turn.core.config().world_members.iter().chain(&turn.core.config().region_members);
        lists.into_iter().any(|(other, _)| *other == node)
    };
    let due: Vec<(NodeId, String)> = announcement
        .members
        .iter()
        .filter(|(member, _)| anew || !configured(member.node))
        .map(|(member, address)| (member.node, address.clone()))
        .collect();
    for (node, address) in due {
        turn.give_address(node, &address);
    }
}

/// Who said so may not know every address.
fn fill_addresses(announcement: &mut Announcement, known: &Announcement) {
    for (member, address) in announcement.members.iter_mut().filter(|(_, address)| address.is_empty()) {
        let told = known.members.iter().find(|(other, _)| other.node == member.node);
        *address = told.map(|(_, address)| address.clone()).unwrap_or_default();
    }
}
