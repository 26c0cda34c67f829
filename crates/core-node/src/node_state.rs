//! The parts of a core beside its lane.
//!
//!   requests ─▶ router ─▶ lane here | frames to peers
//!   plans ────────┘          membership: nodes, formation, repair, the configuration cluster
//!
//! Always: parts own private fields; what all of them use is in `context.rs`.
//! Not here: the lane (core-cluster), the public face (`core.rs`).

use crate::context::CoreContext;
use crate::flow_recovery::FlowRecovery;
use crate::membership::config_cluster::ConfigCluster;
use crate::membership::directory_sync::DirectorySync;
use crate::membership::disk_rollback::DiskRollback;
use crate::membership::formation::Formations;
use crate::membership::health::Health;
use crate::membership::level_zero::LevelZeroMembers;
use crate::membership::nodes::Nodes;
use crate::membership::rebalance::Rebalance;
use crate::membership::replica_repair::ReplicaRepair;
use crate::membership::stale_generations::StaleGenerations;
use crate::membership::status::StatusAsked;
use crate::membership::untold::Untold;
use crate::plan_runner::PlanTable;
use crate::routing::cache::Route;
use crate::routing::Routing;
use crate::s3_scheduler::S3Scheduler;
use base_types::Generation;
use core_cluster::api::Member;
use core_s3::S3State;

/// A core without its lane.
pub struct NodeState {
    pub routing: Routing,
    pub plans: PlanTable,
    pub health: Health,
    pub disk_rollback: DiskRollback,
    pub level_zero_members: LevelZeroMembers,
    pub formations: Formations,
    pub nodes: Nodes,
    pub replica_repair: ReplicaRepair,
    pub stale_generations: StaleGenerations,
    pub untold: Untold,
    pub rebalance: Rebalance,
    pub config_cluster: ConfigCluster,
    pub flow_recovery: FlowRecovery,
    pub status_asked: StatusAsked,
    pub s3: S3State,
    pub s3_scheduler: S3Scheduler,
    pub directory_sync: DirectorySync,
}

impl NodeState {
    /// A core's state at start.
    pub fn new(core: &CoreContext) -> NodeState {
        let mut state = NodeState {
            routing: Routing::default(),
            plans: PlanTable::default(),
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
            flow_recovery: FlowRecovery::default(),
            status_asked: StatusAsked::default(),
            s3: S3State::new(core.config().s3.clone()),
            s3_scheduler: S3Scheduler::default(),
            directory_sync: DirectorySync::default(),
        };
        state.pin_level_zero(core);
        state
    }

    fn pin_level_zero(&mut self, core: &CoreContext) {
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
            self.routing.learn_route(zero.name.clone(), route);
        }
    }
}
