//! The scrub: reads all that the lane's engines keep, again and again, a part at a time.
//!
//! ```text
//!   due ──Verify job──▶ engine's thread ──part──▶ damaged keys to their replicas (value_repair.rs); wait as the rate says
//!    ▲                                              │
//!    └────── next part, or (last) next round ◀──────┘
//! ```
//!
//! One part of an engine is read at a time, and on average so many bytes a second. A lane that has nothing else to do wakes
//! once a part, and once a round when all is read.
//! Not here: what is wrong and how it is found (engines), what becomes of it (value_repair.rs).

use crate::api::Notice;
use crate::lane::Lane;
use crate::replica::Replica;
use crate::storage::engine_jobs::Jobs;
use base_engine::{EngineError, VerifiedPart};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, SpaceId, Tick};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Between two parts at least: a part is small where pairs are.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The first round begins so long after the start, or after a round's time if that is less.
const FIRST_AFTER: Duration = Duration::from_secs(60);
/// After so many rounds of an engine, clusters in it are compared with their other members: once a day, as rounds are set.
pub const ROUNDS_BEFORE_COMPARED: u64 = 24;

struct Round {
    after: Bytes,
    begun: Tick,
    due: Tick,
    /// A part is at the engine's thread.
    out: bool,
    /// Rounds so far.
    done: u64,
}

/// How far the scrub of each engine is.
#[derive(Default)]
pub struct Scrub {
    rounds: BTreeMap<String, Round>,
    /// Replicas that may be what an engine could not read.
    to_check: VecDeque<ClusterId>,
    /// Clusters led here that are to be compared with their other members, and the one that is.
    to_compare: VecDeque<ClusterId>,
    comparing: Option<ClusterId>,
    bytes_per_second: u64,
    every: Duration,
}

impl Scrub {
    pub fn new<'a>(
        engines: impl Iterator<Item = &'a String>,
        bytes_per_second: u64,
        round_ms: u64,
        now: Tick,
    ) -> Scrub {
        let every = Duration::from_millis(round_ms);
        let due = now + every.min(FIRST_AFTER);
        let round = |name: &String| (name.clone(), Round { after: Bytes::new(), begun: due, due, out: false, done: 0 });
        let engines = engines.filter(|_| bytes_per_second > 0);
        Scrub { rounds: engines.map(round).collect(), bytes_per_second, every, ..Scrub::default() }
    }

    pub fn next_wake(&self) -> Tick {
        self.rounds.values().filter(|round| !round.out).map(|round| round.due).min().unwrap_or(Tick::NEVER)
    }

    pub fn poll(&mut self, now: Tick, jobs: &mut Jobs) {
        for (engine, round) in self.rounds.iter_mut().filter(|(_, round)| !round.out && round.due <= now) {
            round.out = true;
            jobs.verify(engine, round.after.clone());
        }
    }

    /// A part is read; whether it was the last of its round.
    fn on_part(&mut self, now: Tick, engine: &str, part: Option<&VerifiedPart>) -> bool {
        let Some(round) = self.rounds.get_mut(engine) else { return false };
        round.out = false;
        let bytes = part.map_or(0, |part| part.bytes);
        let takes = Duration::from_micros(bytes.saturating_mul(1_000_000) / self.bytes_per_second.max(1));
        round.due = now + takes.max(PAUSE_MIN);
        let next = part.and_then(|part| part.next.clone());
        let last = next.is_none();
        round.after = next.unwrap_or_default();
        if last {
            round.due = round.due.max(round.begun + self.every);
            round.begun = round.due;
        }
        last
    }
}

impl Lane {
    /// A part that cannot be read names no keys: the replicas of the engine are looked at one after the other.
    fn check_all_of(&mut self, now: Tick, engine: &str) {
        // Replicas that still wait come first: where each round fails, the last ones would never be looked at.
        if !self.scrub.to_check.is_empty() && !planted(Mutant::ChecksBeginAnew) {
            return;
        }
        let here = |replica: &Replica| *replica.spec.engine == *engine;
        self.scrub.to_check = self.replicas_where(&here).into_iter().map(|(cluster, _)| cluster).collect();
        if let Some(first) = self.scrub.to_check.front().copied() {
            // There are ticks only where a replica is awake.
            self.wake(now, first);
        }
    }

    /// Engines were scrubbed: after some rounds the clusters led here are compared with their other members, too. What
    /// rots under its seal is found by nothing else.
    fn compare_all_of(&mut self, engine: &str) {
        let Some(round) = self.scrub.rounds.get_mut(engine) else { return };
        round.done += 1;
        if round.done % ROUNDS_BEFORE_COMPARED != 0 || !self.scrub.to_compare.is_empty() {
            return;
        }
        let here = |replica: &Replica| *replica.spec.engine == *engine && replica.is_leader();
        self.scrub.to_compare = self.replicas_where(&here).into_iter().map(|(cluster, _)| cluster).collect();
    }

    /// One after the other, the next when the one before is done, so that the lane's other work continues.
    fn compare_the_next(&mut self, now: Tick) {
        if let Some(cluster) = self.scrub.comparing {
            let mut goes_on = false;
            self.with_replica(cluster, |_, replica| goes_on = replica.verification.is_busy());
            if goes_on {
                return;
            }
            self.scrub.comparing = None;
        }
        let Some(cluster) = self.scrub.to_compare.pop_front() else { return };
        let mut begun = false;
        self.with_replica(cluster, |context, replica| begun = replica.verify_unasked(context, now));
        if begun {
            self.wake(now, cluster);
            self.scrub.comparing = Some(cluster);
        }
    }

    /// One a tick.
    pub(crate) fn check_the_next(&mut self, now: Tick) {
        self.compare_the_next(now);
        let Some(cluster) = self.scrub.to_check.pop_front() else { return };
        self.wake(now, cluster);
        self.with_replica(cluster, |_, replica| {
            // One that is busy otherwise has its turn in the next round.
            let _begun = replica.check_own();
        });
    }

    /// An engine's thread has read a part.
    pub(crate) fn on_verified(&mut self, now: Tick, engine: &str, found: Result<VerifiedPart, EngineError>) {
        let last = self.scrub.on_part(now, engine, found.as_ref().ok());
        let part = match found {
            Ok(part) => part,
            Err(error) => {
                self.context.statistics.scrub_failures += 1;
                let message = error.to_string();
                if matches!(error, EngineError::Corrupt(_)) {
                    self.check_all_of(now, engine);
                }
                return self.context.output.notices.push(Notice::ScrubFailed { engine: engine.into(), message });
            }
        };
        let statistics = &mut self.context.statistics;
        statistics.scrub_entries += part.entries;
        statistics.scrub_bytes += part.bytes;
        statistics.scrub_rounds += u64::from(last);
        if last {
            self.compare_all_of(engine);
            if let Some(first) = self.scrub.to_compare.front().copied() {
                // There are ticks only where a replica is awake.
                self.wake(now, first);
            }
        }
        if (part.damaged.is_empty() && part.indexes.is_empty()) || planted(Mutant::ScrubIgnoresDamage) {
            return;
        }
        let mut by_space: BTreeMap<SpaceId, Vec<Bytes>> = BTreeMap::new();
        part.damaged.into_iter().for_each(|(space, key)| by_space.entry(space).or_default().push(key));
        // Spaces that no replica has (any more, or yet) are not read by anybody.
        let here = |replica: &Replica| *replica.spec.engine == *engine;
        let owners: Vec<(ClusterId, SpaceId)> = self.replicas_where(&here);
        for (cluster, space) in owners {
            let index = part.indexes.contains(&space);
            let keys = by_space.remove(&space).unwrap_or_default();
            if keys.is_empty() && !index {
                continue;
            }
            self.wake(now, cluster);
            self.with_replica(cluster, |context, replica| {
                replica.mend(context, now, keys);
                if index {
                    replica.write_anew(context, now);
                }
            });
        }
    }
}
