//! How a lane starts: its log is read back, its replicas are made of their records, and damage is reported.
//!
//! Always: a log that lacks what a mark outside it says it had is refused before anything else is opened (mutant
//! `LostLogIsBlank`). A replica whose record or engine cannot be read is rebuilt from the others, never made blank: it may
//! have voted. A space that may still have an owner is not dropped.
//! Not here: entries that rotted (log_repair.rs), pairs that did (value_repair.rs), records that are gone (lost_replicas.rs).

use super::Lane;
use crate::api::*;
use crate::buggify::Buggify;
use crate::context::{LaneContext, HAND_OVERS_A_TICK};
use crate::lane::dirty_set::DirtySet;
use crate::lane::lost_replicas::LostReplicas;
use crate::lane::scrub::Scrub;
use crate::meta::{ReplicaRecord, STATE_REPLICA, STATE_TOMBSTONES};
use crate::replica::Replica;
use crate::storage::engine_jobs::Jobs;
use crate::storage::interner::Interner;
use crate::storage::log_stall::LogStall;
use crate::storage::tombstones::Tombstones;
use crate::wire::TellOrder;
use base_engine::{Engine, EngineError};
use base_types::codec::{DecodeError, Encode};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, SpaceId, Tick};
use core_log::{Damage, Log, LogDisk, LogError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;
/// Why a lane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The log cannot be read.
    #[error("log: {0}")]
    Log(#[from] LogError),
    /// An engine cannot be read.
    #[error("engine: {0}")]
    Engine(#[from] EngineError),
    /// The log is not the one that was here, or not all of it.
    #[error("{}", lost_log(*found, *expected))]
    LogLost {
        /// The last batch there is; 0: none.
        found: u64,
        /// The batch it had reached.
        expected: u64,
    },
    /// A record of ours does not decode.
    #[error(
        "{what} of cluster {cluster} does not decode: {error}; the data directory is damaged or of a newer version"
    )]
    Record {
        /// Which record.
        what: &'static str,
        /// Whose.
        cluster: ClusterId,
        /// Why.
        error: DecodeError,
    },
}

fn lost_log(found: u64, expected: u64) -> String {
    let found = match found {
        0 => "has no batch".to_string(),
        found => format!("ends at batch {found}"),
    };
    format!(
        "the log {found}, and it had reached batch {expected}: its files are missing, damaged, or older than the rest; \
         mount or put back the log that was here. If it is lost, move the whole data directory away and start the node \
         with an empty one: its members fill it again. Without its log it has forgotten its votes and must not continue"
    )
}

impl Lane {
    /// Recovers the lane: log, replicas. The notes are for the operator.
    pub fn open(
        config: LaneConfig,
        engines: Vec<Arc<dyn Engine>>,
        disk: &mut dyn LogDisk,
        now: Tick,
    ) -> Result<(Lane, Vec<String>), LaneError> {
        let (log, report) = Log::recover(disk, config.log.clone(), config.log_identity)?;
        let (found, expected) = (log.synced().0, config.log_reached);
        if found < expected && !planted(Mutant::LostLogIsBlank) {
            return Err(LaneError::LogLost { found, expected });
        }
        let guard = Duration::from_millis(config.tick_ms * (config.election_ticks as u64 + 1));
        let mut lane = Lane {
            context: LaneContext {
                log: Rc::new(RefCell::new(log)),
                engines: engines.into_iter().map(|engine| (engine.name().to_string(), engine)).collect(),
                interner: Interner::default(),
                output: LaneOutput::default(),
                statistics: LaneStatistics::default(),
                awaiting_sync: VecDeque::new(),
                drops: VecDeque::new(),
                jobs: Jobs::default(),
                down: BTreeSet::new(),
                no_vote_until: now + guard,
                next_space: 0,
                next_snapshot: 0,
                disk_full: false,
                leads_nothing: false,
                hand_overs_left: HAND_OVERS_A_TICK,
                storage_failed: false,
                snapshot_senders: 0,
                flush_soon: false,
                flush_percent: 100,
                steady: Duration::ZERO,
                last_turn: now,
                stall: LogStall::default(),
                witnessed: Vec::new(),
                won: Vec::new(),
                begun: Vec::new(),
                buggify: Buggify::new(config.seed, config.buggify_until),
                told: TellOrder { life: xxh3_64_with_seed(b"life of a lane", config.seed), number: 0 },
                config,
            },
            replicas: BTreeMap::new(),
            tombstones: Tombstones::default(),
            lost: LostReplicas::new(),
            dirty_set: DirtySet::default(),
            awake: BTreeSet::new(),
            dirty: BTreeSet::new(),
            dirty_order: BTreeSet::new(),
            alarms: BTreeSet::new(),
            next_tick: Tick::NEVER,
            ticks: 0,
            turns: 0,
            walked: ClusterId(0),
            walked_rows: ClusterId(0),
            scrub: Scrub::default(),
        };
        let (rate, round_ms) = (lane.context.config.scrub_bytes_per_second, lane.context.config.scrub_round_ms);
        lane.scrub = Scrub::new(lane.context.engines.keys(), rate, round_ms, now);
        if planted(Mutant::VoteAfterRestart) {
            lane.context.no_vote_until = now;
        }
        lane.context.draw_flush();
        lane.context.statistics.log_cut_records = report.cut_records;
        lane.context.statistics.log_cut_bytes = report.cut_bytes;
        let mut notes = report.notes.clone();
        lane.open_replicas(now, &mut notes)?;
        lane.note_damage(&report.damage, &mut notes);
        lane.drop_orphans(found == 0, &mut notes)?;
        Ok((lane, notes))
    }

    fn open_replicas(&mut self, now: Tick, notes: &mut Vec<String>) -> Result<(), LaneError> {
        let clusters = self.context.log.borrow().clusters();
        for cluster in clusters {
            let log = self.context.log.borrow();
            let record = log.state(cluster, STATE_REPLICA);
            let buried = log.state(cluster, STATE_TOMBSTONES);
            drop(log);
            if let Some(bytes) = buried {
                self.tombstones = Tombstones::from_bytes(bytes).map_err(|error| LaneError::Record {
                    what: "list of the destroyed",
                    cluster,
                    error,
                })?;
            }
            let Some(bytes) = record else {
                if cluster != ClusterId(0) {
                    self.note_lost(cluster, notes);
                }
                continue;
            };
            let record = ReplicaRecord::from_bytes(bytes).map_err(|error| LaneError::Record {
                what: "replica record",
                cluster,
                error,
            })?;
            self.context.next_space = self.context.next_space.max(record.space.0);
            let replica = self.open_replica(record, now, notes)?;
            if let Some(repair) = &replica.repair {
                let _shown_in_notes = repair;
                notes.push(format!("cluster {}: entries rotted; asking the other members for them", replica.spec.name));
            }
            self.add(now, replica);
        }
        Ok(())
    }

    /// A replica whose engine has lost what it must know to begin is rebuilt from the others, if there are any.
    fn open_replica(
        &mut self,
        record: ReplicaRecord,
        now: Tick,
        notes: &mut Vec<String>,
    ) -> Result<Replica, EngineError> {
        let alone = record.spec.initial_members.len() == 1;
        match Replica::open(&mut self.context, record.clone(), now) {
            Err(EngineError::Corrupt(text)) if !alone => {
                notes
                    .push(format!("cluster {}: {text}; its leader is asked to replace this replica", record.spec.name));
                self.context.statistics.replicas_rebuilt += 1;
                let damaged = Replica::open_damaged(&mut self.context, record, now, text.clone());
                damaged.ok_or(EngineError::Corrupt(text))
            }
            opened => opened,
        }
    }

    /// State that rotted in every copy cannot be mended: those replicas must be replaced.
    fn note_damage(&mut self, damage: &[Damage], notes: &mut Vec<String>) {
        for finding in damage {
            let clusters = match finding {
                Damage::Entry { .. } => continue,
                Damage::State { cluster: ClusterId(0), kind: STATE_TOMBSTONES } => {
                    let known = self.context.log.borrow().clusters();
                    self.bury_all(&known, notes);
                    continue;
                }
                Damage::State { cluster, .. } => vec![*cluster],
                Damage::Unknown { clusters } => {
                    // A cluster of which nothing is left may have been here, and voted.
                    self.bury_unknown(clusters);
                    clusters.clone()
                }
            };
            for cluster in clusters {
                if let Some(replica) = self.replicas.get_mut(&cluster) {
                    notes.push(format!("cluster {}: its records rotted beyond repair", replica.spec.name));
                    replica.damage(&mut self.context, "its log records rotted beyond repair".into());
                }
            }
        }
    }

    /// Spaces that no replica owns are dropped: left by a crash between staging and installing, or while being
    /// dropped. Not where a replica's record rotted: it may be its space. Nor after a log without a batch, which can have
    /// dropped nothing: what lies there is somebody's.
    fn drop_orphans(&mut self, new_log: bool, notes: &mut Vec<String>) -> Result<(), LaneError> {
        let mut kept = 0;
        let owned: BTreeSet<SpaceId> = self.replicas.values().map(|replica| replica.space).collect();
        let engines: Vec<Arc<dyn Engine>> = self.context.engines.values().cloned().collect();
        for engine in engines {
            for space in engine.spaces()? {
                self.context.next_space = self.context.next_space.max(space.0);
                if owned.contains(&space) || !self.lost.is_empty() {
                    continue;
                }
                if new_log && !planted(Mutant::LostLogIsBlank) {
                    kept += 1;
                } else {
                    self.context.jobs.drop_space(engine.name(), space);
                }
            }
        }
        if kept > 0 {
            notes.push(format!(
                "the log is new and {kept} spaces lie in the engine; they are kept until its next start"
            ));
        }
        Ok(())
    }
}
