//! `hive ctl cluster`, `hive ctl world` and `hive ctl region`: clusters and their members.

use super::{Levels, World};
use crate::engines::{help_of_nodes, EngineName};
use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Create a cluster
    Create {
        /// backend/backend@anything
        name: String,
        /// For example "size=5 location=fr-par failure_domain=az"
        #[arg(long)]
        rule: String,
        #[command(flatten)]
        world: World,
    },
    /// Delete a cluster and its data
    Delete {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Members, leader and progress
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Members: list, add, remove
    #[command(subcommand)]
    Members(MembersCommand),
    /// Put a node's replica on another node
    Move {
        name: String,
        /// The node it is on
        #[arg(long)]
        from: u64,
        /// The node it goes to; by default the best one by the rule
        #[arg(long)]
        to: Option<u64>,
        #[command(flatten)]
        world: World,
    },
    /// Hand leadership to a node
    Transfer {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Skip a log entry that no member can apply, so that a quarantined cluster continues; its writes are lost
    Skip {
        name: String,
        /// The index of the entry, as the warning names it
        index: u64,
        #[command(flatten)]
        world: World,
    },
    /// Move it to another engine: its replicas are recreated one by one, online
    SetEngine(EngineMove),
    /// Change the default levels
    SetConsistency {
        name: String,
        #[command(flatten)]
        levels: Levels,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum LevelZeroCommand {
    /// Members: list, add, remove, replace; one change at a time
    #[command(subcommand)]
    Members(LevelZeroMembersCommand),
}

#[derive(Subcommand, Debug)]
pub enum LevelZeroMembersCommand {
    /// List the members
    List {
        #[command(flatten)]
        world: World,
    },
    /// Add a node: as a learner, then by a snapshot, then as a voter
    Add {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a member; a majority of the others must be up
    Remove {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Put another node in a member's place
    Replace {
        /// The member that goes
        from: u64,
        /// The node that takes its place
        to: u64,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum MembersCommand {
    /// List the members
    List {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Add a node: as a learner, then by a snapshot, then as a voter
    Add {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a node's replica
    Remove {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
}

/// What is to move to which engine.
#[derive(Args, Debug)]
pub struct EngineMove {
    pub name: String,
    #[arg(value_parser = EngineName::OfNodes, hide_possible_values = true, help = help_of_nodes("Its new engine"))]
    pub engine: String,
    /// Return at once; `hive ctl cluster show` of each cluster shows the progress
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub world: World,
}
