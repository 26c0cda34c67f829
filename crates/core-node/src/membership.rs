//! Who is in the world, which clusters have which members, and how that is kept right.
//!
//! ```text
//!   nodes.rs              heartbeats, the node map           registry.rs          the durable list of nodes
//!   formation.rs          first members of level 0           level_zero.rs        members of those that change
//!   config_cluster.rs     this node's own cluster            incarnation.rs       a world that was restored
//!   format_level.rs       which formats may be written directory_sync.rs  the copy of the directory of users
//!   replica_repair.rs     a dead or blank member is replaced rebalance.rs         members that must move
//!   replica_orders.rs     what flows order of replicas here  notices.rs           what the lane notices of them
//!   stale_generations.rs  replicas of lives that are over    disk_rollback.rs     an old image of a disk
//!   untold.rs             changes that nobody reported       status.rs, health.rs what operators are shown
//! ```
//!
//! By design: its parts own their fields; what one wants of another goes through [`Membership`]. The plan runner and the router are
//! handed to each call.
//! Not here: the flows themselves (flows/), Raft's own members (core-cluster).

pub(crate) mod config_cluster;
pub(crate) mod directory_sync;
pub(crate) mod disk_rollback;
pub(crate) mod format_level;
pub(crate) mod formation;
pub(crate) mod health;
pub(crate) mod incarnation;
pub(crate) mod level_zero;
pub(crate) mod nodes;
pub(crate) mod notices;
pub(crate) mod rebalance;
pub(crate) mod registry;
pub(crate) mod replica_orders;
pub(crate) mod replica_repair;
pub(crate) mod stale_generations;
pub(crate) mod status;
pub(crate) mod untold;

use crate::context::local_replicas::ReplicaKnown;
use crate::context::{CoreContext, Turn};
use crate::flows::recover::KnownZero;
use crate::frame::{Item, Sender};
use crate::membership::config_cluster::ConfigCluster;
use crate::membership::directory_sync::DirectorySync;
use crate::membership::disk_rollback::DiskRollback;
use crate::membership::formation::Formations;
use crate::membership::health::Health;
use crate::membership::level_zero::LevelZeroMembers;
use crate::membership::nodes::Nodes;
use crate::membership::rebalance::{Rebalance, MOVES_KNOWN_MAX};
use crate::membership::replica_repair::ReplicaRepair;
use crate::membership::stale_generations::StaleGenerations;
use crate::membership::status::{StatusAsked, ASKED_MAX};
use crate::membership::untold::Untold;
use crate::plan_runner::{PlanOwner, PlanRunner};
use crate::routing::cache::Route;
use crate::routing::operation::Owner;
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::action::Response;
use base_types::sizes::Sizes;
use base_types::{ClusterId, ClusterName, Generation, NodeId, Refusal, Ticket};
use core_cluster::api::Member;
use core_flow::CallResult;

/// Nodes, clusters and their members, as one core knows and keeps them.
pub struct Membership {
    health: Health,
    disk_rollback: DiskRollback,
    level_zero_members: LevelZeroMembers,
    formations: Formations,
    nodes: Nodes,
    replica_repair: ReplicaRepair,
    stale_generations: StaleGenerations,
    untold: Untold,
    rebalance: Rebalance,
    config_cluster: ConfigCluster,
    status_asked: StatusAsked,
    directory_sync: DirectorySync,
    /// What recovered clusters still wait for: warnings of the status.
    recoveries: Vec<String>,
}

impl Membership {
    /// As it is at start.
    pub fn new(core: &CoreContext) -> Membership {
        Membership {
            health: Health::default(),
            disk_rollback: DiskRollback::default(),
            level_zero_members: LevelZeroMembers::remembered(&core.config().remembered),
            formations: Formations::default(),
            nodes: Nodes::default(),
            replica_repair: ReplicaRepair::default(),
            stale_generations: StaleGenerations::default(),
            untold: Untold::default(),
            rebalance: Rebalance::default(),
            config_cluster: ConfigCluster::default(),
            status_asked: StatusAsked::default(),
            directory_sync: DirectorySync::default(),
            recoveries: Vec::new(),
        }
    }

    /// The router knows the clusters of level 0 from the start.
    pub fn pin_level_zero(&self, core: &CoreContext, routing: &mut Routing) {
        for zero in core.level_zero() {
            let members = zero.members.iter().map(|node| Member {
                replica: base_types::ReplicaId(node.0),
                node: *node,
                disk: base_types::DiskId(0),
                learner: false,
            });
            let known = self.level_zero_members.of(zero.cluster);
            let generation = known.map_or(Generation(1), |known| known.generation);
            let members = known.map_or_else(|| members.collect(), |known| known.members());
            let route = Route::of_level_zero(zero.cluster, generation, members);
            routing.learn_route(zero.name.clone(), route);
        }
    }

    /// What every core does once, but for [`TimerKey::Rebalance`] and [`TimerKey::Directory`].
    pub fn start(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.start_nodes(turn, runner.routing_mut());
        self.formations.start(turn, &self.level_zero_members);
        self.start_replica_repair(turn, runner);
        self.config_cluster.on_timer(turn, runner);
    }

    /// A timer of this part rang.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, key: TimerKey) {
        match key {
            TimerKey::Formation => self.formations.on_timer(turn, &self.level_zero_members),
            TimerKey::Nodes => self.on_nodes_timer(turn, runner.routing_mut()),
            TimerKey::Config => self.config_cluster.on_timer(turn, runner),
            TimerKey::Health => self.on_health_timer(turn, runner.routing_mut()),
            TimerKey::ReplicaRepair => self.on_replica_repair_timer(turn, runner),
            TimerKey::Directory => self.directory_sync.on_timer(turn, runner),
            TimerKey::Rebalance => {
                let members_gone = self.rebalance.on_timer(turn, runner, &self.replica_repair);
                if members_gone {
                    // This node's configuration cluster may have lost its majority with them.
                    self.config_cluster.recheck();
                }
            }
            _ => {}
        }
    }

    /// An operation of this part ended.
    pub fn on_operation_ended(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        owner: Owner,
        result: CallResult,
    ) {
        let repair = &mut self.replica_repair;
        match owner {
            Owner::Heal { node } => repair.on_heal_description(turn, node, result),
            Owner::Replace { cluster, node } => repair.on_replaced(turn, cluster, node, result),
            Owner::TellMembers { cluster } => repair.on_members_told(turn, cluster, result),
            Owner::Registry(work) => self.on_registry(turn, runner.routing_mut(), work, result),
            Owner::ConfigWrite => self.config_cluster.on_written(turn, result),
            Owner::ConfigNudge(name) => self.config_cluster.on_nudged(turn, runner, &name, result),
            Owner::Probe { round, cluster } => self.on_probe(turn, runner.routing_mut(), round, cluster, &result),
            Owner::Lives(asked) => self.stale_generations.on_lives(turn, repair, &asked, result),
            Owner::Compared(asked) => self.untold.on_members_compared(turn, repair, &asked, result),
            _ => {}
        }
    }

    /// A plan of this part ended.
    pub fn on_plan_ended(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        owner: PlanOwner,
        response: Response,
    ) {
        match owner {
            PlanOwner::Move(cluster) => self.rebalance.on_moved(turn, runner, cluster, response),
            PlanOwner::DirectorySync => self.directory_sync.on_synced(turn, runner, &response),
            PlanOwner::Config => self.config_cluster.on_plan(turn, runner, response),
            _ => {}
        }
    }

    /// A node (or another lane of this one) sent something to this part.
    pub fn on_item(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, from: Sender, item: Item) {
        let (members, repair) = (&self.level_zero_members, &mut self.replica_repair);
        match item {
            Item::CreateReplica { ticket, disk, spec } => repair.on_create_order(turn, from, ticket, disk, *spec),
            Item::DestroyReplica { ticket, cluster, generation, replica } => {
                repair.on_destroy_order(turn, from, ticket, (cluster, generation, replica));
            }
            Item::Survey { ticket, cluster } => repair.on_survey_order(turn, from, ticket, cluster),
            Item::BeginLife { ticket, life } => repair.on_begin_order(turn, from, ticket, life),
            Item::FormationProbe { cluster, nonce } => {
                self.formations.on_probe(turn, (members, repair), (from.node, cluster, nonce));
            }
            Item::FormationAnswer { cluster, nonce, state } => {
                self.formations.on_answer(turn, members, (from.node, cluster, nonce), state);
            }
            Item::UnknownCluster { cluster, generation, disk } => {
                repair.on_unknown_cluster(turn, runner.routing_mut(), from.node, cluster, generation, disk);
            }
            Item::DiskForgot { boot, disk, batch } => {
                disk_rollback::on_disk_forgot(turn, from.node, (boot, disk, batch));
            }
            Item::DirectoryWanted => self.directory_sync.on_wanted(turn, runner),
            Item::WorldReborn { heard, from } => incarnation::on_world_reborn(turn, heard, from),
            Item::WorldIs { own, superseded_by } => incarnation::on_world_is(turn.core, own, superseded_by),
            other => self.on_news(turn, runner.routing_mut(), from, other),
        }
    }

    fn on_news(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, from: Sender, item: Item) {
        match item {
            Item::Heartbeat { record, wanted } => self.on_heartbeat(turn, from, *record, wanted),
            Item::HeartbeatReply { leader, delta } => {
                self.on_heartbeat_reply(turn, routing, from.node, leader, delta.map(|delta| *delta));
            }
            Item::Announce { announcement } => self.on_announcement(turn, routing, from.node, *announcement),
            Item::MapNews { delta } => self.on_map_news(turn, &delta),
            Item::ReplicaNews { cluster, generation, name, replica, leader } => {
                let known = ReplicaKnown { name, generation, replica, leader };
                self.on_replica_news(turn, routing, cluster, known);
            }
            Item::ReplicaGone { cluster, name } => self.on_replica_gone(turn.core, cluster, &name),
            Item::LaneNews { gauges } => self.on_lane_news(from.lane, *gauges),
            Item::Neighbours { nodes } => self.on_neighbours(turn, &nodes),
            Item::StatusAsked { ticket } => self.ask_health_for_lane(turn, routing, from, ticket),
            Item::StatusTold { ticket, status } => self.on_status_told(turn, routing, ticket, *status),
            Item::HealthAsked { ticket } => self.on_health_asked(turn, from, ticket),
            Item::HealthTold { ticket, health } => self.on_health_told(turn, routing, from.lane, ticket, *health),
            _ => {}
        }
    }

    /// A plan, a door or another node waits for a newer copy of the directory of users, or knows of one.
    pub fn on_directory_wanted(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.directory_sync.on_wanted(turn, runner);
    }

    /// A connection to a node is there.
    pub fn on_peer_up(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        disk_rollback::greet(turn.core, node);
        self.level_zero_members.tell_of_later_lives(turn.core, node);
        self.formations.on_peer(turn, &self.level_zero_members, node);
    }

    /// Whether a frame's sender is refused because its disk has forgotten; the sender receives why.
    pub fn refuses_memory(&mut self, turn: &mut Turn<'_>, from: &Sender) -> bool {
        self.disk_rollback.refuses_memory(turn, from)
    }

    /// This node's replica of a level 0 cluster is on disk.
    pub fn on_formed_durable(&mut self, core: &mut CoreContext, cluster: ClusterId) {
        self.formations.on_durable(core, cluster);
    }

    /// What the host says of this node's health, and how long its log's writes take.
    pub fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    /// A client went away that waits for the status.
    pub fn forget_client(&mut self, ticket: Ticket) {
        self.status_asked.forget(ticket);
        self.health.forget(ticket);
    }

    /// What recovered clusters wait for, as the world's leader has seen.
    pub fn note_recoveries(&mut self, recoveries: Vec<String>) {
        self.recoveries = recoveries;
    }

    /// What this node knows of a level 0 cluster, and all nodes that may hold a replica of it, each with whether it is connected.
    pub fn known_zero(
        &self,
        core: &CoreContext,
        name: &ClusterName,
    ) -> Result<(KnownZero, Vec<(NodeId, bool)>), Refusal> {
        self.level_zero_members.known_zero(core, name)
    }

    /// Adds this part's sizes.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let (heard, heard_max) = self.disk_rollback.size();
        sizes.lasting("lanes of others heard, a core", heard, heard_max);
        sizes.passing("questions about the status, a core", self.status_asked.len(), ASKED_MAX);
        sizes.passing("questions about this node's health", self.health.asking(), ASKED_MAX);
        // Where no node fits the rule, a move waits for one.
        sizes.lasting("members to move, a core", self.rebalance.len(), MOVES_KNOWN_MAX);
        self.replica_repair.sizes(sizes);
    }
}
