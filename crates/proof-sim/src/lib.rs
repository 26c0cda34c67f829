//! Deterministic simulation of whole worlds: many nodes, one process, virtual time.
//!
//!   seed ─swarm─▶ plan ◀─ scenario file
//!                  │
//!        run: world (hosts, disks, network, clocks) + load (clients) + faults ──▶ checkers ──▶ report
//!                                                                                   └─▶ shrink
//!
//! Always: one run is one thread without wall clock, hash-ordered iteration or chance but the seed's.
//! Not here: C engines, sockets, threads, TLS (real-process suites), what is right (proof-check).

pub mod availability;
pub mod campaign;
pub mod clock;
pub mod clock_faults;
pub mod disk;
pub mod emphasis;
pub mod excuses;
pub mod faults;
pub mod histories;
pub mod host;
pub mod http;
pub mod lane_machine;
pub mod ledger;
pub mod load;
pub mod machine;
pub mod marks;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod network;
pub mod overload;
pub mod panics;
pub mod plan;
pub mod random;
pub mod real;
pub mod redis;
pub mod replay;
pub mod run;
pub mod s3_groups;
pub mod s3_load;
pub mod s3_owner;
pub mod s3_quota;
pub mod s3_removal;
pub mod s3_rest;
pub mod s3_upload;
pub mod s3_versions;
pub mod segment;
pub mod shrink;
pub mod swarm;
#[cfg(test)]
mod toy;
pub mod trace;
pub mod twice;
pub mod world;
