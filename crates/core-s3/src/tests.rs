//! The planners of S3 calls against clusters in memory ([`world`]). Not here: the very same planners under
//! faults of nodes, disks and networks (proof-sim).

mod accounts;
pub(crate) mod bed;
mod buckets;
mod cutover_gate;
mod figures;
mod flows;
mod given_back;
mod listings;
mod maintenance;
mod objects;
mod settings;
mod snapshots;
mod tended;
mod uploads;
pub(crate) mod world;
