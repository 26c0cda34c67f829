//! The clients: what they ask, through which node, how they retry, and the history of it all.
//!
//!   idle ──think──▶ asked ──answer──▶ idle
//!                     └──lost, refused, silent──▶ back off ──▶ asked (same request id)
//!
//! Always: a client has one operation open; every attempt of it carries the same request id; an
//! operation is `Failed` only if no attempt of it can have happened; every value is written once.
//! Not here: what is right (proof-check).

use crate::plan::Load as LoadPlan;
use crate::random::Random;
use crate::s3_groups::{self, Grouped};
use crate::s3_load;
use crate::s3_owner::{self, Owner, Register, Told};
use crate::s3_removal::{Removals, Remover};
use crate::s3_upload::{self, Fate, Fates, Places, Upload};
use crate::world::{Answered, Due, World};
use base_types::action::{Action, ActionResult, Answer, BatchStep, Failure, KvTarget, Level, RedisReply, Request};
use base_types::s3::{S3Action, S3Answer};
use base_types::{ClusterName, ErrorKind, OrderedAt, Outcome, ReadConsistency, RequestId, Ticket, WriteConsistency};
use bytes::Bytes;
use proof_check::{Ending, History, Observed, Operation, Place, Record, Violation};
use std::collections::BTreeMap;
use std::time::Duration;

/// A client tries one operation at most this long, in deadlines.
const TRIES_DEADLINES: u64 = 4;
/// …and never longer than this: request ids are remembered for a bounded time.
const TRIES_US_MAX: u64 = 25_000_000;
/// An answer may come this long behind its deadline (clocks drift); later is a broken promise.
pub const ANSWER_GRACE_US: u64 = 2_000_000;

/// Keys of one swapper.
const SWAPPED_KEYS: u64 = 4;

/// Of so many listings of a client of buckets one has a delimiter; of so many calls one removes a version, if one can.
const GROUPED_ONE_IN: u64 = 4;
const REMOVES_ONE_IN: u64 = 3;

/// Walks of one uploader.
const WALKS_MAX: u32 = 6;

/// What clients and operators may name.
#[derive(Clone, Default, Debug)]
pub struct Targets {
    pub clusters: Vec<ClusterName>,
    pub keyspaces: Vec<String>,
    pub buckets: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Mixed,
    Ledger,
    Counter,
    Lifecycle,
    /// Strong reads through a node of its own.
    Reader,
    /// Strong writes through a node of its own.
    Writer,
    /// Objects and listings of a bucket.
    S3,
    /// Of buckets, with keys that only grow.
    S3Growing,
    /// Uploads in parts, and walks over a snapshot's pages.
    Uploader,
    /// Races for the names of buckets.
    Owner,
    /// Compare-and-set, one after the other, on keys that nobody else writes: one that applies twice fails the second time.
    Swapper,
}

/// An operation under way.
struct Open {
    record: usize,
    action: Action,
    request_id: RequestId,
    ticket: Option<Ticket>,
    node: usize,
    asked_at: u64,
    give_up_at: u64,
    /// Some attempt may have happened.
    unknown: bool,
    /// Pages of a snapshot's walk so far.
    walked: Vec<(Bytes, Bytes)>,
}

struct Client {
    kind: Kind,
    random: Random,
    open: Option<Open>,
    written: u64,
    /// Times the plan's time to think.
    slowness: u64,
    /// Of a swapper: what its keys hold, where it knows.
    held: BTreeMap<Bytes, Option<Bytes>>,
    /// Of a lifecycle client: steps left in this life of its cluster; `None`: it does not exist.
    life_left: Option<u64>,
    upload: Option<Upload>,
    remover: Remover,
    /// A shard keeps few snapshots at a time.
    walks_left: u32,
    owner: Option<Owner>,
}

/// All clients and what they saw.
pub struct Load {
    plan: LoadPlan,
    pub targets: Targets,
    pub history: History,
    clients: Vec<Client>,
    tickets: BTreeMap<Ticket, usize>,
    /// No new operations are begun.
    pub draining: bool,
    /// Records of listings that are snapshots.
    pub instants: Vec<u64>,
    /// What became of uploads.
    pub uploads: Fates,
    /// Pages of listings with a delimiter, and versions that were removed.
    pub grouped: Vec<Grouped>,
    pub removals: Removals,
    /// Where the bytes of their parts are.
    pub places: Places,
    register: Register,
    request_ids: Random,
}

impl Load {
    /// Clients for a plan. Places are numbered: clusters, keyspaces, then lifecycle clusters.
    pub fn new(seed: u64, plan: LoadPlan, targets: Targets) -> Load {
        let has_buckets = u64::from(!targets.buckets.is_empty());
        let kinds = [
            (Kind::Mixed, plan.mixed),
            (Kind::Ledger, plan.ledger),
            (Kind::Counter, plan.counters),
            (Kind::Lifecycle, plan.lifecycle),
            (Kind::Reader, plan.readers),
            (Kind::Writer, plan.writers),
            (Kind::S3, plan.s3.saturating_sub(plan.s3_growing) * has_buckets),
            (Kind::S3Growing, plan.s3_growing.min(plan.s3) * has_buckets),
            (Kind::Swapper, plan.swappers),
            (Kind::Uploader, if targets.buckets.is_empty() { 0 } else { plan.uploaders }),
            (Kind::Owner, plan.owners),
        ];
        let mut clients = Vec::new();
        for (kind, count) in kinds {
            for number in 0..count {
                let random = Random::stream(seed, &format!("client {}", clients.len()));
                // Some readers come seldom, so that they are not all waiting when something breaks.
                let slowness = match kind {
                    Kind::Reader => [1, 8, 30][(number / 3) as usize % 3],
                    Kind::Writer => plan.writers_rest.max(1),
                    _ => 1,
                };
                clients.push(Client {
                    kind,
                    random,
                    open: None,
                    written: 0,
                    slowness,
                    held: BTreeMap::new(),
                    life_left: None,
                    upload: None,
                    remover: Remover::default(),
                    walks_left: WALKS_MAX,
                    owner: (kind == Kind::Owner).then(|| Owner::new(number)),
                });
            }
        }
        let first_keyspace = targets.clusters.len() as u32;
        let keyspaces = (0..targets.keyspaces.len() as u32).map(|number| Place(first_keyspace + number));
        let moving = keyspaces.chain((0..targets.buckets.len()).map(s3_load::place_of)).collect();
        Load {
            plan,
            targets,
            history: History { records: Vec::new(), moving },
            clients,
            tickets: BTreeMap::new(),
            draining: false,
            instants: Vec::new(),
            uploads: Fates::new(),
            grouped: Vec::new(),
            removals: Removals::new(),
            places: Places::new(),
            register: Register::default(),
            request_ids: Random::stream(seed, "request ids"),
        }
    }

    /// Sets every client going.
    pub fn begin(&mut self, world: &mut World) {
        for client in 0..self.clients.len() {
            let think = self.clients[client].random.below(self.plan.think_ms * 1_000 + 1);
            world.schedule(world.now + think, Due::Client(client));
        }
    }

    /// Whether no operation is open.
    pub fn idle(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
    }

    /// Every key any record names, with the place it lives in, and whether it is a counter.
    pub fn keys(&self) -> Vec<(Place, Bytes, bool)> {
        let mut keys = std::collections::BTreeSet::new();
        for record in &self.history.records {
            keys.extend(record.effects().into_iter().map(|(key, _)| (record.place, key.clone(), false)));
            if let Operation::Increment { key } = &record.operation {
                keys.insert((record.place, key.clone(), true));
            }
        }
        keys.into_iter().collect()
    }

    /// How a place is addressed; `None` for a lifecycle cluster, which may not be there.
    pub fn address(&self, place: Place) -> Option<KvTarget> {
        let number = place.0 as usize;
        match self.targets.clusters.get(number) {
            Some(name) => Some(KvTarget::Cluster(name.clone())),
            None => self.targets.keyspaces.get(number - self.targets.clusters.len()).cloned().map(KvTarget::Keyspace),
        }
    }

    /// A client's time has come: to begin, or to try again.
    pub fn on_wake(&mut self, world: &mut World, client: usize) {
        match self.clients[client].open {
            Some(_) => self.try_again(world, client),
            None if self.draining => {}
            None => self.begin_operation(world, client),
        }
    }

    fn begin_operation(&mut self, world: &mut World, client: usize) {
        let gives_up = world.now + self.tries_us(client);
        let (place, operation, level, action) = match self.draw(client, gives_up) {
            Some(Drawn::Recorded(place, operation, level, action)) => (place, operation, level, action),
            Some(Drawn::Unrecorded(action)) => {
                let request_id = self.request_id();
                return self.open(world, client, usize::MAX, action, request_id);
            }
            None => return,
        };
        let request_id = self.request_id();
        let id = self.history.records.len() as u64;
        self.history.records.push(Record {
            id,
            client: client as u32,
            place,
            operation,
            request_id,
            level,
            invoked: world.now,
            returned: None,
            ending: Ending::Unknown,
            observed: None,
            at: None,
        });
        self.open(world, client, id as usize, action, request_id);
    }

    fn request_id(&mut self) -> RequestId {
        RequestId(u128::from(self.request_ids.draw()) << 64 | u128::from(self.request_ids.draw()))
    }

    fn deadline_ms(&self, client: usize) -> u64 {
        match self.clients[client].kind {
            Kind::Owner => self.plan.deadline_ms.max(s3_owner::DEADLINE_MS),
            _ => self.plan.deadline_ms,
        }
    }

    /// How long an operation is tried.
    fn tries_us(&self, client: usize) -> u64 {
        (self.deadline_ms(client) * 1_000 * TRIES_DEADLINES).min(TRIES_US_MAX)
    }

    fn open(&mut self, world: &mut World, client: usize, record: usize, action: Action, request_id: RequestId) {
        let give_up_at = world.now + self.tries_us(client);
        self.clients[client].open = Some(Open {
            record,
            action,
            request_id,
            ticket: None,
            node: 0,
            asked_at: 0,
            give_up_at,
            unknown: false,
            walked: Vec::new(),
        });
        self.try_again(world, client);
    }

    fn try_again(&mut self, world: &mut World, client: usize) {
        let deadline_us = self.deadline_ms(client) * 1_000;
        let this = &mut self.clients[client];
        let Some(open) = this.open.as_mut().filter(|open| open.ticket.is_none()) else { return };
        if world.now >= open.give_up_at {
            let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
            return self.finish_as(world, client, ending, Told::Nothing);
        }
        let node = match this.kind {
            Kind::Reader | Kind::Writer => client % world.nodes.len(),
            _ => this.random.below(world.nodes.len() as u64) as usize,
        };
        let micros = deadline_us.min(open.give_up_at - world.now).max(1_000);
        let level = (open.record != usize::MAX).then(|| self.history.records[open.record].level);
        let request = Request {
            action: open.action.clone(),
            consistency: level.and_then(|level| match level {
                Level::Write(level) => Some(level),
                Level::Read(_) => None,
            }),
            read_consistency: level.and_then(|level| match level {
                Level::Read(level) => Some(level),
                Level::Write(_) => None,
            }),
            deadline: Duration::from_micros(micros),
            request_id: Some(open.request_id),
        };
        match world.ask(node, request) {
            Some(ticket) => {
                open.ticket = Some(ticket);
                open.node = node;
                open.asked_at = world.now;
                self.tickets.insert(ticket, client);
                world.schedule(world.now + micros + ANSWER_GRACE_US, Due::Timeout { client, ticket });
            }
            None => self.back_off(world, client),
        }
    }

    fn back_off(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        // Who has one node only asks it often: something may just have changed there.
        let longest = if matches!(this.kind, Kind::Reader | Kind::Writer) { 15_000 } else { 100_000 };
        let wait = this.random.between(2_000, longest);
        world.schedule(world.now + wait, Due::Client(client));
    }

    /// No answer came in time.
    pub fn on_timeout(&mut self, world: &mut World, client: usize, ticket: Ticket) {
        let Some(open) = self.clients[client].open.as_mut().filter(|open| open.ticket == Some(ticket)) else { return };
        let node = &world.nodes[open.node];
        let disturbed = node.disturbed_at >= open.asked_at || world.is_paused(open.node);
        if !disturbed {
            let message = format!("node {} never answered {ticket:?}: {:?}", node.id, open.action);
            world.violate(Violation::new("unanswered", message, vec![]));
        }
        open.ticket = None;
        open.unknown = true;
        self.tickets.remove(&ticket);
        world.cancel(ticket);
        self.try_again(world, client);
    }

    /// An answer came. False: it is not a client's of this load.
    pub fn on_answer(&mut self, world: &mut World, ticket: Ticket, answered: Answered) -> bool {
        let Some(client) = self.tickets.remove(&ticket) else { return false };
        let Some(open) = self.clients[client].open.as_mut().filter(|open| open.ticket == Some(ticket)) else {
            return true;
        };
        open.ticket = None;
        match answered {
            Answered::Lost => {
                open.unknown = true;
                self.back_off(world, client);
            }
            Answered::Response(response) => match *response {
                Ok(answer) => self.on_done(world, client, answer),
                Err(failure) => self.on_refused(world, client, failure),
            },
        }
        true
    }

    fn on_done(&mut self, world: &mut World, client: usize, answer: Answer) {
        let gives_up = world.now + self.tries_us(client);
        if let ActionResult::S3(told) = &answer.result {
            self.on_bucket_told(world, client, told);
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        if open.record == usize::MAX {
            let told = match &answer.result {
                ActionResult::S3(answer) => Some(answer),
                _ => None,
            };
            return self.finish_as(world, client, Ending::Ok, Told::Answer(told));
        }
        if s3_upload::goes_on(&mut open.action, &mut open.walked, &answer.result) {
            world.probe("snapshot_of_several_pages");
            open.give_up_at = gives_up;
            return self.back_off(world, client);
        }
        let asked = self.history.records[open.record].level;
        let mut observed = observe(&answer.result, answer.level.unwrap_or(asked));
        if let Some(Observed::Page { entries, .. }) = &mut observed {
            entries.splice(0..0, open.walked.drain(..));
        }
        self.finish(world, client, Ending::Ok, observed, answer.at, answer.level);
    }

    /// What a client of buckets keeps of an answer beside the history.
    fn on_bucket_told(&mut self, world: &mut World, client: usize, answer: &S3Answer) {
        let this = &mut self.clients[client];
        let Some(open) = this.open.as_ref().filter(|_| this.owner.is_none()) else { return };
        match answer {
            S3Answer::PutObjectAnswer(put) => {
                let Some(record) = self.history.records.get(open.record) else { return };
                this.remover.put(record.place, &record.operation, put.version_id.as_ref());
            }
            S3Answer::ObjectPage(page) if open.record == usize::MAX => {
                let Action::S3(S3Action::ListObjectsV2(call)) = &open.action else { return };
                let Some(bucket) = self.targets.buckets.iter().position(|bucket| *bucket == call.bucket) else {
                    return;
                };
                let window = (open.asked_at, world.now);
                let found = s3_groups::grouped(&open.action, s3_load::place_of(bucket), page, window);
                if found.as_ref().is_some_and(Grouped::has_prefixes) {
                    world.probe("listing_with_common_prefixes");
                }
                self.grouped.extend(found);
            }
            S3Answer::DeleteObjectAnswer(_) if open.record == usize::MAX => world.probe("version_removed"),
            _ => {}
        }
    }

    fn on_refused(&mut self, world: &mut World, client: usize, failure: Failure) {
        let refusal = &failure.refusal;
        world.trace.say(world.now, || format!("client {client}: {} ({})", refusal.code, refusal.message));
        let lifecycle = self.clients[client].kind == Kind::Lifecycle;
        let of_bucket = matches!(self.clients[client].kind, Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner);
        if of_bucket {
            let this = &self.clients[client];
            let Some(open) = this.open.as_ref() else { return };
            if refusal.code == "NoSuchBucket" && this.owner.is_some() {
                self.miss_bucket(world, client);
            } else if s3_load::is_broken(refusal.code) {
                let message = format!("client {client}, {:?}: {refusal}", open.action);
                world.violate(Violation::new("bucket", message, vec![]));
            }
            let Some(open) = self.clients[client].open.as_mut() else { return };
            let operation = self.history.records.get(open.record).map(|record| &record.operation);
            let observed = operation.and_then(|operation| s3_load::observe_refusal(operation, refusal.code));
            if observed.is_some() {
                return self.finish(world, client, Ending::Ok, observed, failure.at, None);
            }
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        let is_swap = matches!(open.action, Action::KvCompareAndSet { .. });
        let is_delete_cluster = matches!(open.action, Action::DeleteCluster { .. });
        match refusal.code {
            "ConditionFailed" if is_swap => {
                return self.finish(world, client, Ending::Ok, Some(Observed::ConditionFailed), failure.at, None);
            }
            "CommittedNotAbsolute" if !is_swap => {
                // Said aloud, so no silent downgrade: it counts as the strong write it is.
                if let Some(record) = self.history.records.get_mut(open.record) {
                    record.level = STRONG_WRITE;
                }
                return self.finish(world, client, Ending::Ok, Some(Observed::Done), failure.at, None);
            }
            "UnknownCluster" if is_delete_cluster && open.unknown => {
                return self.finish(world, client, Ending::Ok, Some(Observed::Done), None, None);
            }
            "ClusterExists" if lifecycle && open.record == usize::MAX => {
                return self.finish(world, client, Ending::Ok, None, None, None);
            }
            _ => {}
        }
        let may_have_happened = refusal.outcome() == Outcome::Unknown || refusal.code == "CommittedNotAbsolute";
        open.unknown |= may_have_happened;
        if refusal.kind.retryable() || refusal.kind == ErrorKind::Full {
            return self.back_off(world, client);
        }
        world.probe("refused_for_good");
        let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
        self.finish_as(world, client, ending, Told::Refused(refusal.code));
    }

    /// Of a bucket that an owner has: it is not there.
    fn miss_bucket(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        let (Some(owner), Some(open)) = (this.owner.as_mut(), this.open.as_ref()) else { return };
        if open.record != usize::MAX {
            world.violations.extend(owner.missed(&mut self.register, client));
        }
    }

    /// An operation ends without a result that the history shows; what it told goes to whoever takes several steps.
    fn finish_as(&mut self, world: &mut World, client: usize, ending: Ending, told: Told<'_>) {
        let Some(open) = self.clients[client].open.as_ref() else { return };
        let (record, again, asked_at) = (open.record, open.unknown, open.asked_at);
        let this = &mut self.clients[client];
        match (&mut this.owner, &mut this.upload) {
            (Some(owner), _) if record == usize::MAX => {
                let violation =
                    owner.called(&mut self.register, &mut this.random, client, (ending, again, asked_at), told);
                world.violations.extend(violation);
            }
            (_, Some(_)) if record == usize::MAX || !matches!(told, Told::Answer(_)) => {
                self.after_upload_step(world, client, ending, told);
            }
            _ => {}
        }
        self.finish(world, client, ending, None, None, None);
    }

    /// An uploader's call has ended.
    fn after_upload_step(&mut self, world: &mut World, client: usize, ending: Ending, told: Told<'_>) {
        let this = &mut self.clients[client];
        let Some(mut upload) = this.upload.take() else { return };
        if matches!((ending, &told), (Ending::Failed, Told::Refused("NoSuchUpload"))) {
            let message = format!("upload {:?} of client {client} is gone, and nobody has ended it", upload.id);
            world.violate(Violation::new("uploads", message, vec![]));
        }
        let id = upload.id.clone().map(|id| (upload.bucket, id));
        let is_ending = upload.is_ending();
        let answer = match told {
            Told::Answer(answer) => answer,
            _ => None,
        };
        if let (Ending::Ok, Some((key, place))) = (ending, upload.place()) {
            self.places.entry((upload.bucket, key)).or_default().push(place);
        }
        let goes_on = ending == Ending::Ok && upload.went_well(answer);
        match (id, is_ending, ending) {
            (Some(id), true, Ending::Ok) => _ = self.uploads.insert(id, Fate::Ended),
            (Some(id), true, _) => _ = self.uploads.insert(id, Fate::Doubtful),
            (None, _, _) => {
                let id = upload.id.clone().map(|id| (upload.bucket, id));
                self.uploads.extend(id.map(|id| (id, Fate::Open)));
            }
            _ => {}
        }
        self.clients[client].upload = Some(upload).filter(|_| goes_on);
    }

    fn finish(
        &mut self,
        world: &mut World,
        client: usize,
        ending: Ending,
        observed: Option<Observed>,
        at: Option<OrderedAt>,
        level: Option<Level>,
    ) {
        let Some(open) = self.clients[client].open.take() else { return };
        if let Some(record) = self.history.records.get_mut(open.record) {
            record.ending = ending;
            record.returned = (ending != Ending::Unknown).then_some(world.now);
            record.observed = observed;
            record.at = at;
            if let Some(level) = level {
                check_level(world, record, level);
                record.level = level;
            }
            world.trace.note(world.now, "finished", &[record.id, ending as u64]);
            world.trace.say(world.now, || told(client, record));
        }
        self.clients[client].remover.ended(&open.action, ending, &mut self.removals);
        self.after_life_step(client, open.record, ending);
        self.after_swap(client, open.record);
        self.after_put_of_parts(world, client, &open.action, ending);
        if let (Some(owner), Some(record)) = (&mut self.clients[client].owner, self.history.records.get(open.record)) {
            owner.used(&record.operation, ending, record.observed.as_ref(), open.asked_at);
        }
        let think = self.plan.think_ms * 1_000 * self.clients[client].slowness;
        let wait = self.clients[client].random.between(1, think * 2 + 1);
        world.schedule(world.now + wait, Due::Client(client));
    }

    /// A lifecycle client goes from a cluster's making through some steps to its end.
    fn after_life_step(&mut self, client: usize, record: usize, ending: Ending) {
        if self.clients[client].kind != Kind::Lifecycle {
            return;
        }
        let deleted = self.history.records.get(record).is_some_and(|record| record.operation == Operation::Clear);
        let this = &mut self.clients[client];
        this.life_left = match (record, this.life_left) {
            (usize::MAX, _) if ending == Ending::Ok => Some(this.random.between(1, 12)),
            (usize::MAX, _) => None,
            (_, _) if deleted => None,
            (_, left) => left.map(|left| left.saturating_sub(1)),
        };
    }

    /// What a swapper's key holds now, if its answer leaves no doubt.
    fn after_swap(&mut self, client: usize, record: usize) {
        let this = &mut self.clients[client];
        let Some(record) = self.history.records.get(record).filter(|_| this.kind == Kind::Swapper) else { return };
        match (&record.operation, &record.observed) {
            (Operation::CompareAndSet { key, value, .. }, Some(Observed::Done)) => {
                this.held.insert(key.clone(), value.clone());
            }
            (Operation::Get { key }, Some(Observed::Value(value))) => {
                this.held.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }

    /// The put that completes an upload is in the history, and ends the upload too.
    fn after_put_of_parts(&mut self, world: &mut World, client: usize, action: &Action, ending: Ending) {
        let completes = matches!(action, Action::S3(S3Action::CompleteMultipartUpload(_)));
        if completes && ending == Ending::Ok {
            world.probe("upload_completed");
            self.after_upload_step(world, client, ending, Told::Answer(None));
        }
    }

    fn life_cluster(&self, client: usize) -> ClusterName {
        format!("metadata/redis@life{client}").parse().unwrap_or_else(|_| unreachable!("a name of ours is valid"))
    }

    /// What a client asks next: where, what, at which level, as which action.
    fn draw(&mut self, client: usize, gives_up: u64) -> Option<Drawn> {
        let (clusters, keyspaces) = (self.targets.clusters.len() as u64, self.targets.keyspaces.len() as u64);
        let name = self.life_cluster(client);
        let plan = self.plan.clone();
        match self.clients[client].kind {
            Kind::S3 | Kind::S3Growing => return self.draw_of_bucket(client),
            Kind::Uploader => return self.draw_of_uploader(client),
            Kind::Owner => return self.draw_of_owner(client, gives_up),
            _ => {}
        }
        let this = &mut self.clients[client];
        let (place, target) = match this.kind {
            Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner => return None,
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
            Kind::Mixed | Kind::Lifecycle | Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner => {
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
enum Drawn {
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

const STRONG_WRITE: Level = Level::Write(WriteConsistency::Strong);
const STRONG_READ: Level = Level::Read(ReadConsistency::Strong);

struct Draw<'a> {
    client: usize,
    plan: &'a LoadPlan,
    random: &'a mut Random,
    written: u64,
}

impl Draw<'_> {
    fn value(&mut self, part: u64) -> Bytes {
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
                _ => STRONG_WRITE,
            },
            _ => STRONG_WRITE,
        }
    }
}

fn action_of(operation: &Operation, target: KvTarget) -> Option<Action> {
    let redis = |words: &[&[u8]]| match &target {
        KvTarget::Cluster(cluster) => Some(Action::Redis {
            cluster: cluster.clone(),
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

/// What an answer tells a client.
pub fn observe(result: &ActionResult, level: Level) -> Option<Observed> {
    let applied = !matches!(level, Level::Write(WriteConsistency::Hopeful | WriteConsistency::Eventual));
    Some(match result {
        ActionResult::Done => Observed::Done,
        ActionResult::Value { value } => Observed::Value(value.clone()),
        ActionResult::Deleted { existed } => Observed::Deleted(applied.then_some(*existed)),
        ActionResult::Page { entries, next } => Observed::Page { entries: entries.clone(), next: next.clone() },
        ActionResult::S3(answer) => return s3_load::observe(answer),
        ActionResult::Redis { reply: RedisReply::Integer(value) } => Observed::Integer(*value),
        ActionResult::Redis { reply: RedisReply::Nil } => Observed::Integer(0),
        ActionResult::Redis { reply: RedisReply::Bulk(text) } => {
            Observed::Integer(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok())?)
        }
        _ => return None,
    })
}

/// A record for the reader of a trace.
fn told(client: usize, record: &Record) -> String {
    format!(
        "client {client}: {:?} {:?} {:?} {:?} at {:?}",
        record.operation, record.level, record.ending, record.observed, record.at
    )
}

/// A level is never silently lowered.
fn check_level(world: &mut World, record: &Record, reached: Level) {
    let lowered = match (record.level, reached) {
        (Level::Write(asked), Level::Write(reached)) => reached < asked,
        (Level::Read(asked), Level::Read(reached)) => reached < asked,
        _ => true,
    };
    if let (Level::Write(WriteConsistency::Absolute), Some(at)) = (reached, record.at) {
        if let Some(node) = world.member_away_since(at.cluster, record.invoked) {
            let message =
                format!("an absolute write was acknowledged at {at:?} although member {node:?} was down all the while");
            world.violate(Violation::new("levels", message, vec![record.id]));
        }
    }
    if lowered {
        let message = format!("{:?} was asked at {:?} and answered at {reached:?}", record.operation, record.level);
        world.violate(Violation::new("levels", message, vec![record.id]));
    }
}
