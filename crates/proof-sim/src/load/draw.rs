//! What a client asks next: by its kind, what it knows, and its own random numbers.
//!
//! Always: a client's draws depend only on the client and the answers it received; every value is written once.
//! Not here: through which node, how often, and what becomes of it (`load`).

use super::{Kind, Load, ANSWER_GRACE_US};
use crate::plan::Load as LoadPlan;
use crate::random::Random;
use crate::s3_upload::{self, Upload};
use crate::{s3_groups, s3_load, s3_owner, s3_quota};
use base_types::action::{Action, BatchStep, KvTarget, Level};
use base_types::{ClusterName, ReadConsistency, WriteConsistency};
use bytes::Bytes;
use proof_check::{Operation, Place};
use std::collections::BTreeMap;

/// Keys of one swapper.
const SWAPPED_KEYS: u64 = 4;

/// Of so many listings of a client of buckets one has a delimiter; of so many calls one removes a version, if one can.
const GROUPED_ONE_IN: u64 = 4;
const REMOVES_ONE_IN: u64 = 3;

pub(super) const STRONG_WRITE: Level = Level::Write(WriteConsistency::Strong);
pub(super) const STRONG_READ: Level = Level::Read(ReadConsistency::Strong);

impl Load {
    fn life_cluster(&self, client: usize) -> ClusterName {
        format!("metadata/redis@life{client}").parse().unwrap_or_else(|_| unreachable!("a name of ours is valid"))
    }

    /// What a client asks next: where, what, at which level, as which action.
    pub(super) fn draw(&mut self, client: usize, gives_up: u64) -> Option<Drawn> {
        let (clusters, keyspaces) = (self.targets.clusters.len() as u64, self.targets.keyspaces.len() as u64);
        let name = self.life_cluster(client);
        let plan = self.plan.clone();
        match self.clients[client].kind {
            Kind::S3 | Kind::S3Growing => return self.draw_of_bucket(client),
            Kind::Uploader => return self.draw_of_uploader(client),
            Kind::Owner => return self.draw_of_owner(client, gives_up),
            Kind::User => return self.draw_of_user(client),
            _ => {}
        }
        let this = &mut self.clients[client];
        let (place, target) = match this.kind {
            Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner | Kind::User => return None,
            Kind::Lifecycle => (Place((clusters + keyspaces) as u32 + client as u32), KvTarget::Cluster(name.clone())),
            Kind::Counter => {
                let number = this.random.below(clusters.max(1));
                (Place(number as u32), KvTarget::Cluster(self.targets.clusters.get(number as usize)?.clone()))
            }
            Kind::Mixed | Kind::Ledger | Kind::Reader | Kind::Writer | Kind::Swapper => {
                // Swappers are there for keys that move.
                let first = if this.kind == Kind::Swapper && keyspaces > 0 { clusters } else { 0 };
                let number = first + this.random.below(clusters + keyspaces - first);
                match number.checked_sub(clusters) {
                    None => (Place(number as u32), KvTarget::Cluster(self.targets.clusters[number as usize].clone())),
                    Some(keyspace) => {
                        (Place(number as u32), KvTarget::Keyspace(self.targets.keyspaces[keyspace as usize].clone()))
                    }
                }
            }
        };
        if this.kind == Kind::Lifecycle {
            match this.life_left {
                None => return Some(Drawn::Unrecorded(Action::CreateCluster { name, rule: "size=1".to_string() })),
                Some(0) => {
                    let delete = Action::DeleteCluster { name };
                    return Some(Drawn::Recorded(place, Operation::Clear, STRONG_WRITE, delete));
                }
                Some(_) => {}
            }
        }
        this.written += 1;
        let this_kind = this.kind;
        let mut draw = Draw { client, plan: &plan, random: &mut this.random, written: this.written };
        let operation = match this.kind {
            Kind::Ledger => draw.write_once(),
            Kind::Counter => draw.count(),
            Kind::Reader => Operation::Get { key: draw.key() },
            Kind::Writer => Operation::Put { key: draw.key(), value: draw.value(0) },
            Kind::Swapper => draw.swap(&mut this.held, place),
            Kind::Mixed | Kind::Lifecycle | Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner | Kind::User => {
                draw.mixed(matches!(target, KvTarget::Cluster(_)))
            }
        };
        let level = match this_kind {
            Kind::Reader => STRONG_READ,
            Kind::Writer => STRONG_WRITE,
            Kind::Swapper if matches!(operation, Operation::Get { .. }) => STRONG_READ,
            Kind::Swapper => STRONG_WRITE,
            _ => draw.level(&operation),
        };
        let action = action_of(&operation, target)?;
        Some(Drawn::Recorded(place, operation, level, action))
    }
}

/// What a client asks next, and whether the history knows it.
pub(super) enum Drawn {
    Recorded(Place, Operation, Level, Action),
    Unrecorded(Action),
}

impl Load {
    /// What a client of buckets asks next.
    fn draw_of_bucket(&mut self, client: usize) -> Option<Drawn> {
        let this = &mut self.clients[client];
        this.written += 1;
        let bucket = this.random.below(self.targets.buckets.len() as u64) as usize;
        let growing = this.kind == Kind::S3Growing;
        if let Some(limited) = self.targets.limited.filter(|_| this.written.is_multiple_of(s3_quota::COUNTS_ONE_IN)) {
            let snapshot = this.written.is_multiple_of(2 * s3_quota::COUNTS_ONE_IN);
            return Some(Drawn::Unrecorded(s3_quota::count(&self.targets.buckets[limited], snapshot)));
        }
        if this.written.is_multiple_of(REMOVES_ONE_IN) && this.remover.is_ready() {
            let buckets = &self.targets.buckets;
            let named = |place: Place| (0..buckets.len()).find(|at| s3_load::place_of(*at) == place);
            return this.remover.next(|place| named(place).map(|at| buckets[at].clone())).map(Drawn::Unrecorded);
        }
        let (place, operation, level, instant) = s3_load::draw(&mut this.random, client, this.written, bucket, growing);
        if !instant && this.written.is_multiple_of(GROUPED_ONE_IN) {
            let prefix = if growing && this.written.is_multiple_of(2 * GROUPED_ONE_IN) { "grown/" } else { "" };
            let action = s3_groups::action_of(&operation, &self.targets.buckets[bucket], prefix);
            if let Some(action) = action {
                return Some(Drawn::Unrecorded(action));
            }
        }
        let action = s3_load::action_of(&operation, &self.targets.buckets[bucket], instant)?;
        if instant {
            // The record that is begun with it is the next.
            self.instants.push(self.history.records.len() as u64);
        }
        Some(Drawn::Recorded(place, operation, level, action))
    }

    /// What an uploader asks next: the next call of its upload, a walk, or what all clients of buckets ask.
    fn draw_of_uploader(&mut self, client: usize) -> Option<Drawn> {
        let this = &mut self.clients[client];
        this.written += 1;
        if this.upload.is_none() {
            let bucket = this.random.below(self.targets.buckets.len() as u64) as usize;
            match this.random.below(10) {
                0..=4 => this.upload = Some(Upload::draw(&mut this.random, client, this.written, bucket)),
                5..=7 if this.walks_left > 0 => {
                    this.walks_left -= 1;
                    let walk = s3_upload::walk(&mut this.random, &self.targets.buckets[bucket]);
                    self.instants.push(self.history.records.len() as u64);
                    let all = s3_load::listing(None, s3_load::ALL_KEYS);
                    return Some(Drawn::Recorded(s3_load::place_of(bucket), all, STRONG_READ, Action::S3(walk)));
                }
                _ => return self.draw_of_bucket(client),
            }
        }
        let upload = self.clients[client].upload.as_ref()?;
        Some(match upload.next(&self.targets.buckets[upload.bucket]) {
            s3_upload::Next::Call(call) => Drawn::Unrecorded(Action::S3(call)),
            s3_upload::Next::Put(put, call) => {
                Drawn::Recorded(s3_load::place_of(upload.bucket), put, STRONG_WRITE, Action::S3(call))
            }
        })
    }

    fn draw_of_owner(&mut self, client: usize, gives_up: u64) -> Option<Drawn> {
        let this = &mut self.clients[client];
        this.written += 1;
        let owner = this.owner.as_mut()?;
        match owner.next(&mut self.register, &mut this.random, (client, this.written), gives_up + ANSWER_GRACE_US) {
            s3_owner::Next::Call(call) => Some(Drawn::Unrecorded(Action::S3(call))),
            s3_owner::Next::Use(place, operation, bucket) => {
                if !self.history.moving.contains(&place) {
                    self.history.moving.push(place);
                }
                let level = match operation {
                    Operation::Get { .. } | Operation::Scan { .. } => STRONG_READ,
                    _ => STRONG_WRITE,
                };
                let action = s3_load::action_of(&operation, &bucket, false)?;
                Some(Drawn::Recorded(place, operation, level, action))
            }
        }
    }
}

pub(super) struct Draw<'a> {
    pub client: usize,
    pub plan: &'a LoadPlan,
    pub random: &'a mut Random,
    pub written: u64,
}

impl Draw<'_> {
    pub fn value(&mut self, part: u64) -> Bytes {
        let mut value = format!("{}.{}.{part}.", self.client, self.written).into_bytes();
        value.resize((self.plan.value_bytes as usize).max(value.len()), b'x');
        Bytes::from(value)
    }

    fn key(&mut self) -> Bytes {
        // Spread over the first byte, so that range partitions all get some.
        let number = self.random.below(self.plan.keys);
        Bytes::from(vec![(number * 251 / self.plan.keys.max(1)) as u8 + 1, b'k', (number >> 8) as u8, number as u8])
    }

    /// The next value for a key of this client's own, or a read where it does not know what is there.
    fn swap(&mut self, held: &mut BTreeMap<Bytes, Option<Bytes>>, place: Place) -> Operation {
        let number = self.random.below(SWAPPED_KEYS);
        let first = (self.client as u64 * 67 + number * 61) as u8;
        let key = Bytes::from(vec![first | 1, b's', place.0 as u8, self.client as u8, number as u8]);
        match held.remove(&key) {
            Some(expected) => Operation::CompareAndSet { key, expected, value: Some(self.value(0)) },
            None => Operation::Get { key },
        }
    }

    fn write_once(&mut self) -> Operation {
        let key = Bytes::from(format!("once/{}/{}", self.client, self.written));
        Operation::Put { key, value: self.value(0) }
    }

    fn count(&mut self) -> Operation {
        let key = Bytes::from(format!("counter/{}", self.random.below(2)));
        match self.random.per_mille(800) {
            true => Operation::Increment { key },
            false => Operation::ReadCounter { key },
        }
    }

    fn mixed(&mut self, one_cluster: bool) -> Operation {
        let key = self.key();
        match self.random.below(100) {
            0..=29 => Operation::Put { key, value: self.value(0) },
            30..=64 => Operation::Get { key },
            65..=74 => Operation::Delete { key },
            75..=84 => {
                let expected = match self.random.below(3) {
                    0 => None,
                    _ => Some(self.guess()),
                };
                let value = (!self.random.per_mille(200)).then(|| self.value(0));
                Operation::CompareAndSet { key, expected, value }
            }
            85..=91 if one_cluster => {
                let mut steps: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
                for part in 0..self.random.between(1, 3) {
                    let value = (!self.random.per_mille(250)).then(|| self.value(part));
                    steps.insert(self.key(), value);
                }
                Operation::Batch { steps: steps.into_iter().collect() }
            }
            _ => Operation::Scan {
                prefix: Bytes::new(),
                start_after: self.random.per_mille(300).then(|| key.clone()),
                end: None,
                limit: *self.random.pick(&[1, 2, 100]),
                reverse: self.random.per_mille(250),
                keys_only: false,
            },
        }
    }

    /// A value this client may have written: a compare-and-set that sometimes holds.
    fn guess(&mut self) -> Bytes {
        let written = self.written;
        self.written = written.saturating_sub(self.random.between(1, 6));
        let value = self.value(0);
        self.written = written;
        value
    }

    fn level(&mut self, operation: &Operation) -> Level {
        let plan = self.plan;
        match operation {
            Operation::Get { .. } | Operation::Scan { .. } => match self.random.per_mille(200) {
                true => Level::Read(ReadConsistency::Eventual),
                false => STRONG_READ,
            },
            Operation::ReadCounter { .. } => STRONG_READ,
            Operation::Put { .. } => match self.random.below(1000) {
                draw if draw < plan.hopeful => Level::Write(WriteConsistency::Hopeful),
                draw if draw < plan.hopeful + plan.eventual => Level::Write(WriteConsistency::Eventual),
                draw if draw < plan.hopeful + plan.eventual + plan.absolute => Level::Write(WriteConsistency::Absolute),
                draw if draw < plan.hopeful + plan.eventual + plan.absolute + plan.kept => {
                    Level::Write(WriteConsistency::S3)
                }
                _ => STRONG_WRITE,
            },
            _ => STRONG_WRITE,
        }
    }
}

pub(super) fn action_of(operation: &Operation, target: KvTarget) -> Option<Action> {
    let redis = |words: &[&[u8]]| match &target {
        KvTarget::Cluster(cluster) => Some(Action::Redis {
            target: KvTarget::Cluster(cluster.clone()),
            command: words.iter().map(|word| Bytes::copy_from_slice(word)).collect(),
        }),
        KvTarget::Keyspace(_) => None,
    };
    Some(match operation.clone() {
        Operation::Increment { key } => redis(&[b"INCR", &key])?,
        Operation::ReadCounter { key } => redis(&[b"GET", &key])?,
        Operation::Put { key, value } => Action::KvPut { target, key, value },
        Operation::Get { key } => Action::KvGet { target, key },
        Operation::Delete { key } => Action::KvDelete { target, key },
        Operation::CompareAndSet { key, expected, value } => Action::KvCompareAndSet { target, key, expected, value },
        Operation::Batch { steps } => Action::KvBatch {
            target,
            steps: steps
                .into_iter()
                .map(|(key, value)| match value {
                    Some(value) => BatchStep::Put { key, value },
                    None => BatchStep::Delete { key },
                })
                .collect(),
        },
        Operation::Scan { prefix, start_after, end, limit, reverse, keys_only } => {
            Action::KvScan { target, prefix, start_after, end, limit, reverse, keys_only }
        }
        Operation::Clear => return None,
    })
}
