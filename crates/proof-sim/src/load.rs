//! The clients: what they ask, through which node, how they retry, and the history of it all.
//!
//!   idle ──think──▶ asked ──answer──▶ idle
//!                     └──lost, refused, silent──▶ back off ──▶ asked (same request id)
//!
//! Always: a client has one operation open; every attempt of it carries the same request id; an
//! operation is `Failed` only if no attempt of it can have happened; every value is written once.
//! Not here: what is right (proof-check), what is asked next (`draw`), what an answer leaves behind (`answers`).

mod answers;
mod draw;
mod late;
pub mod people;
mod sessions;
mod users;

pub use answers::observe;

use crate::excuses::Excuse;
use crate::http;
use crate::plan::Load as LoadPlan;
use crate::random::Random;
use crate::s3_groups::Grouped;
use crate::s3_load;
use crate::s3_owner::{self, Owner, Register, Told};
use crate::s3_quota;
use crate::s3_removal::{Removals, Remover};
use crate::s3_upload::{Fates, Places, Upload};
use crate::trace::line::About;
use crate::world::{Answered, Due, World};
use base_types::action::{Action, KvTarget, Level, ReadAfter, Request, Response};
use base_types::{ClusterName, RequestId, Ticket};
use bytes::Bytes;
use draw::Drawn;
use late::{Late, Repeat};
use people::Users;
use proof_check::{Ending, History, Operation, Place, Record, Violation};
use sessions::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A client tries one operation at most this long, in deadlines.
const TRIES_DEADLINES: u64 = 4;
/// …and never longer than this: request ids are remembered for a bounded time.
const TRIES_US_MAX: u64 = 25_000_000;
/// …nor longer than this behind the window of ids and its deadline: a lane keeps an id so long and six seconds, by clocks that differ (core-cluster,
/// `RequestIdTerms`).
const TRIES_BEHIND_US: u64 = 6_500_000;
/// An answer may come this long behind its deadline (clocks drift); later is a broken promise.
pub const ANSWER_GRACE_US: u64 = 2_000_000;

/// Nodes that are asked at once for one operation, beside the first.
const HURRIED_MAX: u32 = 3;

/// Walks of one uploader.
const WALKS_MAX: u32 = 6;

/// What clients and operators may name.
#[derive(Clone, Default, Debug)]
pub struct Targets {
    pub clusters: Vec<ClusterName>,
    pub keyspaces: Vec<String>,
    pub buckets: Vec<String>,
    /// The bucket with a quota.
    pub limited: Option<usize>,
    /// Clusters that keep versions.
    pub histories: Vec<ClusterName>,
    /// Clusters with Redis databases.
    pub databases: Vec<ClusterName>,
}

impl Targets {
    /// What a place is called, for a trace. `None`: a client's own cluster.
    pub fn about(&self, place: Place) -> Option<About> {
        let number = place.0 as usize;
        let keyspace = number.checked_sub(self.clusters.len()).and_then(|number| self.keyspaces.get(number));
        let bucket = (0..self.buckets.len()).find(|bucket| s3_load::place_of(*bucket) == place);
        let name = self.clusters.get(number).map(|name| name.as_str());
        let name = name.or(keyspace.map(String::as_str)).or(bucket.map(|bucket| self.buckets[bucket].as_str()));
        name.map(About::named)
    }
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
    /// One of the users, whose tokens and roles come and go.
    User,
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
    /// How often it was asked of another node before the one before had answered.
    hurried: u32,
    /// Pages of a snapshot's walk so far.
    walked: Vec<(Bytes, Bytes)>,
    /// It was done before, and is sent once more.
    repeat: Option<Repeat>,
    /// What its session had seen when it was last asked.
    after: Option<ReadAfter>,
    asker: users::Asker,
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
    /// It sends and hears JSON.
    http: bool,
    late: Late,
    session: Session,
    /// The user that it is.
    person: Option<usize>,
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
    /// Records that were refused for want of a bucket, where there was none.
    pub tailless: BTreeSet<usize>,
    /// Operations refused because their request id was issued elsewhere, or had expired.
    pub expired: BTreeSet<usize>,
    pub removals: Removals,
    /// Who may do what, in worlds that want to know who asks; and records that were denied.
    pub users: Option<Users>,
    pub denied: BTreeSet<usize>,
    /// Of the bucket with a quota.
    pub quota: s3_quota::Seen,
    /// Where the bytes of their parts are.
    pub places: Places,
    register: Register,
    request_ids: Random,
    /// For so long a client's request id is remembered.
    window_us: u64,
}

impl Load {
    /// Clients for a plan. Places are numbered: clusters, keyspaces, then lifecycle clusters.
    pub fn new(seed: u64, plan: LoadPlan, targets: Targets, window_ms: u64) -> Load {
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
            (Kind::User, plan.users),
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
                    http: Random::stream(seed, &format!("http {}", clients.len())).per_mille(plan.http),
                    late: Late::new(seed, clients.len()),
                    session: Session::new(seed, clients.len(), plan.sessions),
                    person: users::person(kind, number),
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
            tailless: BTreeSet::new(),
            expired: BTreeSet::new(),
            removals: Removals::new(),
            users: None,
            denied: BTreeSet::new(),
            quota: s3_quota::Seen::default(),
            places: Places::new(),
            register: Register::default(),
            request_ids: Random::stream(seed, "request ids"),
            window_us: window_ms * 1_000,
        }
    }

    /// What a place is called, for a trace.
    pub fn about(&self, place: Place) -> Option<About> {
        self.targets.about(place)
    }

    /// Sets every client going.
    pub fn begin(&mut self, world: &mut World) {
        for client in 0..self.clients.len() {
            let think = self.clients[client].random.below(self.plan.think_ms * 1_000 + 1);
            world.schedule(world.now + think, Due::Client(client));
        }
    }

    /// No new operations are begun.
    pub fn drain(&mut self) {
        self.draining = true;
        self.users.iter_mut().for_each(Users::drain);
    }

    /// The administrator's time has come.
    pub fn administer(&mut self, world: &mut World) {
        self.users.iter_mut().for_each(|users| users.on_wake(world));
    }

    /// An answer to the administrator. False: it is not.
    pub fn on_administered(&mut self, world: &mut World, ticket: Ticket, answered: &Answered) -> bool {
        self.users.as_mut().is_some_and(|users| users.on_answer(world, ticket, answered))
    }

    /// Whether no operation is open.
    pub fn idle(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none()) && self.users.as_ref().is_none_or(Users::is_idle)
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
        if let Some(repeat) = self.clients[client].late.due(world.now) {
            let (action, request_id) = (repeat.action.clone(), repeat.request_id);
            return self.open(world, client, usize::MAX, (action, request_id), Some(repeat));
        }
        let gives_up = world.now + self.tries_us(client);
        let (place, operation, level, action) = match self.draw(client, gives_up) {
            Some(Drawn::Recorded(place, operation, level, action)) => (place, operation, level, action),
            Some(Drawn::Unrecorded(action)) => {
                let request_id = self.request_id();
                return self.open(world, client, usize::MAX, (action, request_id), None);
            }
            None => return,
        };
        let drawn = self.request_id();
        // The door reads an id of JSON as one that was made out of the blue.
        let by_place = matches!(level, Level::Write(_)) && !self.clients[client].http;
        let late = if by_place { self.plan.late } else { 0 };
        let issued = self.clients[client].late.issued(place, late);
        let request_id = issued.unwrap_or(drawn);
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
        self.open(world, client, id as usize, (action, request_id), None);
    }

    fn request_id(&mut self) -> RequestId {
        RequestId::opaque(u128::from(self.request_ids.draw()) << 64 | u128::from(self.request_ids.draw()))
    }

    fn deadline_ms(&self, client: usize) -> u64 {
        match self.clients[client].kind {
            Kind::Owner => self.plan.deadline_ms.max(s3_owner::DEADLINE_MS),
            _ => self.plan.deadline_ms,
        }
    }

    /// How long an operation is tried.
    fn tries_us(&self, client: usize) -> u64 {
        let deadline_us = self.deadline_ms(client) * 1_000;
        // No repetition comes later than ids are kept.
        let kept_us = self.window_us + deadline_us + TRIES_BEHIND_US;
        (deadline_us * TRIES_DEADLINES).min(TRIES_US_MAX).min(kept_us)
    }

    fn open(
        &mut self,
        world: &mut World,
        client: usize,
        record: usize,
        (action, request_id): (Action, RequestId),
        repeat: Option<Repeat>,
    ) {
        let asker = self.asker(client);
        let give_up_at = world.now + self.tries_us(client);
        let give_up_at = repeat.as_ref().map_or(give_up_at, |repeat| give_up_at.min(repeat.gives_up_at()));
        self.clients[client].open = Some(Open {
            record,
            action,
            request_id,
            ticket: None,
            node: 0,
            asked_at: 0,
            give_up_at,
            unknown: false,
            hurried: 0,
            walked: Vec::new(),
            repeat,
            after: None,
            asker,
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
        // Whole milliseconds, as doors take them.
        let micros = deadline_us.min(open.give_up_at - world.now).max(1_000) / 1_000 * 1_000;
        let asked = (open.record != usize::MAX).then(|| &self.history.records[open.record]);
        let level = asked.map(|record| record.level);
        let plain = asked.filter(|record| (record.place.0 as usize) < self.targets.clusters.len() && !this.http);
        open.after = plain.and_then(|record| this.session.position(record));
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
            after: open.after,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        };
        let request = match this.http.then(|| http::through_door(&request)).flatten() {
            None => request,
            Some(Ok(read)) => {
                world.probe("asked_over_http");
                read
            }
            Some(Err(message)) => return world.violate(Violation::new("http", message, vec![])),
        };
        open.asker.asks(world, node);
        let request = Request { caller: open.asker.caller(request.caller), ..request };
        match world.ask_as(node, request) {
            Some(ticket) => {
                open.ticket = Some(ticket);
                open.node = node;
                open.asked_at = world.now;
                self.tickets.insert(ticket, client);
                world.schedule(world.now + micros + ANSWER_GRACE_US, Due::Timeout { client, ticket });
                // Who makes anew what it removed waits for its own requests first: one that is under way meanwhile is
                // carried out in the next life of that name, which knows nothing of it (docs/proof/open, 300).
                let remakes = matches!(this.kind, Kind::Lifecycle | Kind::Owner);
                let hurry = if remakes { 0 } else { self.plan.hurry_ms * 1_000 };
                if hurry > 0 && hurry < micros && open.hurried < HURRIED_MAX {
                    world.schedule(world.now + hurry, Due::Hurry { client, ticket });
                }
            }
            None => self.back_off(world, client),
        }
    }

    /// What the answer's bytes say, to who hears bytes.
    fn heard(&mut self, world: &mut World, client: usize, response: Response) -> Response {
        let this = &self.clients[client];
        let Some(open) = this.open.as_ref().filter(|_| this.http) else { return response };
        match http::heard(&open.action, &response) {
            Ok(heard) => heard,
            Err(message) => {
                world.violate(Violation::new("http", message, vec![]));
                response
            }
        }
    }

    fn back_off(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        // Who has one node only asks it often: something may just have changed there.
        let longest = if matches!(this.kind, Kind::Reader | Kind::Writer) { 15_000 } else { 100_000 };
        let wait = this.random.between(2_000, longest);
        world.schedule(world.now + wait, Due::Client(client));
    }

    /// After so long without an answer the client asks another node as well, under the same id; the first request stays
    /// under way.
    pub fn on_hurry(&mut self, world: &mut World, client: usize, ticket: Ticket) {
        let Some(open) = self.clients[client].open.as_mut().filter(|open| open.ticket == Some(ticket)) else { return };
        (open.ticket, open.unknown, open.hurried) = (None, true, open.hurried + 1);
        self.tickets.remove(&ticket);
        world.probe("asked_of_two_nodes_at_once");
        self.try_again(world, client);
    }

    /// No answer came in time.
    pub fn on_timeout(&mut self, world: &mut World, client: usize, ticket: Ticket) {
        let Some(open) = self.clients[client].open.as_mut().filter(|open| open.ticket == Some(ticket)) else { return };
        let node = &world.nodes[open.node];
        let disturbed = node.disturbed_at >= open.asked_at || world.is_paused(open.node);
        match disturbed {
            true => world.excuses.used(Excuse::LateAnswer, (ticket.0, 0)),
            false => {
                let message = format!("node {} never answered {ticket:?}: {:?}", node.id, open.action);
                world.violate(Violation::new("unanswered", message, vec![]));
            }
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
            Answered::Response(response) => {
                self.judge_access(world, client, &response);
                match self.heard(world, client, *response) {
                    Ok(answer) => self.on_done(world, client, answer),
                    Err(failure) => self.on_refused(world, client, failure),
                }
            }
        }
        true
    }
}
