//! The planners of S3 calls against clusters in memory ([`world`]). Not here: the very same planners under
//! faults of nodes, disks and networks (proof-sim).

mod accounts;
pub(crate) mod bed;
mod buckets;
mod figures;
mod flows;
mod given_back;
mod listings;
mod objects;
mod settings;
mod snapshots;
mod standstill;
mod tended;
mod upkeep;
mod uploads;
pub(crate) mod world;
