//! Clients of clusters that keep versions (`versioned@v…`): they commit with conditions, read the present and the past, attach keys to
//! leases, renew and revoke them, compact, pin, and watch from member to member. Where such a cluster is a keyspace, they come to the
//! same keys by the plain door too (`KvPut`, `KvGet`, `KvScan`, …).
//!
//! ```text
//!   writer    idle ──draw──▶ asked ──answer──▶ a call in the book ──think──▶ idle
//!   watcher   await after a position, of any node ──changes, or none──▶ await after `reached` ──▶ …
//!                                                  └──compacted──▶ a new watch from what is known to be there
//! ```
//!
//! Always: a call has one request id for all its tries; it is `Failed` only if no try of it can have happened; every value is put by
//! one call.
//! Not here: what they draw (`draw`), what is right (proof-check, `versions`), what is asked after the load (`run/histories`).

mod draw;

use crate::load::{Targets, ANSWER_GRACE_US};
use crate::plan::{FaultKind, Plan};
use crate::random::Random;
use crate::world::{Answered, Due, World};
use base_types::action::{Action, ActionResult, KvTarget, Request, Response};
use base_types::versioned::{Command, Operation, Outcome, Position, Put, Query, Read, Reply, Row, Span, VersionedCall};
use base_types::{ClusterName, ErrorCode, ErrorKind, Outcome as Happened, ReadConsistency, RequestId, Ticket};
use bytes::Bytes;
use draw::{draw_call, draw_pinned, draw_plain, BOTH_DOORS_PLAIN, PINNED};
use proof_check::versions::{Book, Call, Plain, Watch};
use proof_check::Ending;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call is tried for so many deadlines, and no longer than its request id is remembered (`load`, `TRIES_US_MAX`).
const TRIES_DEADLINES: u64 = 3;
const TRIES_US_MAX: u64 = 12_000_000;
/// Between two tries.
const RETRY_US: (u64, u64) = (2_000, 60_000);
/// How long a watcher waits for an answer.
const WATCH_DEADLINES_MS: &[u64] = &[700, 3_000, 15_000];

struct Client {
    place: usize,
    watches: bool,
    random: Random,
    open: Option<Open>,
    /// Of a watcher: where it is in the book.
    watch: usize,
    /// Of a writer: its leases that may live.
    leases: Vec<u64>,
    /// Its pins that may hold, with their stamps.
    pins: Vec<(u64, u64)>,
    /// Of what only some worlds have: the others draw what they drew.
    more: Random,
    made: u64,
    wake_at: u64,
}

/// What is asked, and by which door.
#[derive(Clone, Debug)]
enum Asked {
    Versioned(VersionedCall),
    Plain(Action),
}

/// What was answered.
enum Told {
    Reply(Reply),
    Plain(ActionResult),
}

struct Open {
    call: Asked,
    strong: bool,
    request_id: RequestId,
    ticket: Option<Ticket>,
    invoked: u64,
    deadline_ms: u64,
    give_up_at: u64,
    /// When the answer to the present try is given up.
    answer_by: u64,
    unknown: bool,
    node: usize,
}

/// What all clients know of a cluster.
#[derive(Default)]
struct Known {
    stamp: u64,
    compacted: u64,
    rows: BTreeMap<Bytes, Row>,
}

/// All of them.
pub struct Histories {
    pub names: Vec<ClusterName>,
    pub books: Vec<Book>,
    known: Vec<Known>,
    clients: Vec<Client>,
    tickets: BTreeMap<Ticket, usize>,
    draining: bool,
    ids: Random,
    think_ms: u64,
    deadline_ms: u64,
    keys: u64,
    tries_us: u64,
}

/// Everything of a cluster.
pub fn all() -> Span {
    Span::From { start: Bytes::new() }
}

/// A read of everything.
pub fn whole(at: u64) -> VersionedCall {
    let read = Read {
        span: all(),
        at,
        limit: 0,
        keys_only: false,
        count: false,
        count_only: false,
        filter: Default::default(),
    };
    VersionedCall::Ask(Query::Read { read, pin: 0 })
}

/// A put of a value of its own.
pub fn put_of(key: &Bytes, value: String, lease: u64, previous: bool) -> Operation {
    let (key, value) = (key.clone(), Bytes::from(value));
    Operation::Put(Put { key, value, lease, previous, keep_value: false, keep_lease: false })
}

/// The name of a cluster that keeps versions: of its own, or of a keyspace.
pub fn name_of(number: u64, keyspace: bool) -> String {
    if keyspace {
        format!("versioned@ks-v{number}-0")
    } else {
        format!("versioned@v{number}")
    }
}

/// How clients name it.
pub fn target_of(name: &ClusterName) -> KvTarget {
    match name.tail().strip_prefix("ks-").and_then(|rest| rest.strip_suffix("-0")) {
        Some(keyspace) => KvTarget::Keyspace(keyspace.to_string()),
        None => KvTarget::Cluster(name.clone()),
    }
}

/// A call as a request.
pub fn request(name: &ClusterName, call: &VersionedCall, strong: bool, deadline_ms: u64, id: RequestId) -> Request {
    let action = Action::Versioned { target: target_of(name), call: Box::new(call.clone()) };
    request_of(action, call.read_only(), strong, deadline_ms, id)
}

fn request_of(action: Action, read_only: bool, strong: bool, deadline_ms: u64, id: RequestId) -> Request {
    let level = if strong { ReadConsistency::Strong } else { ReadConsistency::Eventual };
    Request {
        action,
        consistency: None,
        read_consistency: read_only.then_some(level),
        deadline: Duration::from_millis(deadline_ms),
        request_id: Some(id),
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    }
}

/// The reply in an answer.
pub fn reply_of(response: Response) -> Result<Reply, base_types::Refusal> {
    match response {
        Ok(answer) => match answer.result {
            ActionResult::Versioned(reply) => Ok(*reply),
            other => Err(base_types::Refusal::new(ErrorCode::Internal, format!("no reply of ours: {other:?}"))),
        },
        Err(failure) => Err(failure.refusal),
    }
}

impl Asked {
    fn request(&self, name: &ClusterName, strong: bool, deadline_ms: u64, id: RequestId) -> Request {
        match self {
            Asked::Versioned(call) => request(name, call, strong, deadline_ms, id),
            Asked::Plain(action) => {
                let read_only = matches!(action, Action::KvGet { .. } | Action::KvScan { .. });
                request_of(action.clone(), read_only, strong, deadline_ms, id)
            }
        }
    }

    fn told(&self, response: Response) -> Result<Told, base_types::Refusal> {
        match self {
            Asked::Versioned(_) => reply_of(response).map(Told::Reply),
            Asked::Plain(_) => response.map(|answer| Told::Plain(answer.result)).map_err(|failure| failure.refusal),
        }
    }
}

impl Histories {
    pub fn new(plan: &Plan, targets: &Targets) -> Histories {
        let names = targets.histories.clone();
        let leaps = plan.hazards.iter().any(|hazard| matches!(hazard.kind, FaultKind::ClockJump | FaultKind::Hold));
        let books: Vec<Book> = names.iter().map(|_| Book { leaps, ..Book::default() }).collect();
        let deadline_ms = plan.load.deadline_ms;
        let mut own = Histories {
            known: names.iter().map(|_| Known::default()).collect(),
            books,
            clients: Vec::new(),
            tickets: BTreeMap::new(),
            draining: false,
            ids: Random::stream(plan.seed, "ids of histories"),
            think_ms: plan.load.think_ms,
            deadline_ms,
            keys: plan.load.keys,
            tries_us: (deadline_ms * TRIES_DEADLINES * 1_000).min(TRIES_US_MAX),
            names,
        };
        for place in 0..own.names.len() {
            for number in 0..plan.load.committers + plan.load.watchers {
                let watches = number >= plan.load.committers;
                let watch = own.books[place].watches.len();
                if watches {
                    own.books[place].watches.push(Watch::default());
                }
                let random = Random::stream(plan.seed, &format!("history {place} client {number}"));
                let more = Random::stream(plan.seed, &format!("history {place} client {number}, more"));
                let (leases, pins, open) = (Vec::new(), Vec::new(), None);
                own.clients.push(Client {
                    place,
                    watches,
                    random,
                    open,
                    watch,
                    leases,
                    pins,
                    more,
                    made: 0,
                    wake_at: 0,
                });
            }
        }
        own
    }

    /// Sets every client going.
    pub fn begin(&mut self, world: &mut World) {
        for client in 0..self.clients.len() {
            self.rest(world, client, (0, self.think_ms * 1_000));
        }
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn is_idle(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
    }

    /// A client's time has come.
    pub fn on_wake(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        if world.now < this.wake_at {
            return;
        }
        match &mut this.open {
            None if self.draining => {}
            None => self.draw(world, client),
            Some(open) if open.ticket.is_none() => self.ask(world, client),
            Some(open) if world.now >= open.answer_by => {
                open.unknown = true;
                let ticket = open.ticket.take();
                ticket.into_iter().for_each(|ticket| {
                    self.tickets.remove(&ticket);
                    world.cancel(ticket);
                });
                self.ask(world, client);
            }
            Some(_) => {}
        }
    }

    fn rest(&mut self, world: &mut World, client: usize, (low, high): (u64, u64)) {
        let this = &mut self.clients[client];
        this.wake_at = world.now + this.random.between(low, high.max(low + 1));
        world.schedule(this.wake_at, Due::History(client));
    }

    fn draw(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        let (call, strong, deadline_ms) = if this.watches {
            let after = self.books[this.place].watches[this.watch].reached;
            let limit = *this.random.pick(&[0, 0, 1, 3]);
            let query = Query::Await { span: all(), after, limit, before: true, pin: 0 };
            let strong = this.random.per_mille(100);
            (Asked::Versioned(VersionedCall::Ask(query)), strong, *this.random.pick(WATCH_DEADLINES_MS))
        } else {
            let (target, known) = (target_of(&self.names[this.place]), &self.known[this.place]);
            let plain = matches!(target, KvTarget::Keyspace(_)) && this.more.per_mille(BOTH_DOORS_PLAIN);
            let (call, strong) = if plain {
                let (action, strong) = draw_plain(this, client, known, self.keys, target);
                (Asked::Plain(action), strong)
            } else if this.more.per_mille(PINNED) {
                (Asked::Versioned(draw_pinned(this, client)), true)
            } else {
                let (call, strong) = draw_call(this, client, known, self.keys);
                (Asked::Versioned(call), strong)
            };
            (call, strong, self.deadline_ms)
        };
        let request_id = RequestId::opaque(u128::from(self.ids.draw()) << 64 | u128::from(self.ids.draw()));
        let tries_us = if this.watches { deadline_ms * 1_000 } else { self.tries_us };
        this.open = Some(Open {
            call,
            strong,
            request_id,
            ticket: None,
            invoked: world.now,
            deadline_ms,
            give_up_at: world.now + tries_us,
            answer_by: 0,
            unknown: false,
            node: 0,
        });
        self.ask(world, client);
    }

    fn ask(&mut self, world: &mut World, client: usize) {
        let nodes = world.nodes.len() as u64;
        let this = &mut self.clients[client];
        let name = &self.names[this.place];
        let Some(open) = this.open.as_mut() else { return };
        if world.now >= open.give_up_at {
            let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
            return self.finish(world, client, ending, None);
        }
        open.node = this.random.below(nodes) as usize;
        let left_ms = (open.give_up_at - world.now).div_ceil(1_000).min(open.deadline_ms).max(1);
        open.ticket = world.ask(open.node, open.call.request(name, open.strong, left_ms, open.request_id));
        let Some(ticket) = open.ticket else { return self.rest(world, client, RETRY_US) };
        open.answer_by = world.now + left_ms * 1_000 + ANSWER_GRACE_US;
        (this.wake_at, _) = (open.answer_by, self.tickets.insert(ticket, client));
        world.schedule(this.wake_at, Due::History(client));
    }

    /// An answer. False: it is none of ours.
    pub fn on_answer(&mut self, world: &mut World, ticket: Ticket, answered: &Answered) -> bool {
        let Some(client) = self.tickets.remove(&ticket) else { return false };
        let Some(open) = self.clients[client].open.as_mut().filter(|open| open.ticket == Some(ticket)) else {
            return true;
        };
        open.ticket = None;
        match answered {
            Answered::Lost => {
                open.unknown = true;
                self.rest(world, client, RETRY_US);
            }
            Answered::Response(response) => match open.call.told((**response).clone()) {
                Ok(told) => self.finish(world, client, Ending::Ok, Some(Ok(told))),
                // An answer: the comparison failed.
                Err(refusal) if refusal.code == ErrorCode::ConditionFailed => {
                    self.finish(world, client, Ending::Ok, Some(Err(refusal.code)));
                }
                Err(refusal) => {
                    open.unknown |= refusal.outcome() == Happened::Unknown || refusal.code.is_committed();
                    if refusal.kind().retryable() || refusal.kind() == ErrorKind::Full {
                        self.rest(world, client, RETRY_US);
                        return true;
                    }
                    let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
                    self.finish(world, client, ending, Some(Err(refusal.code)));
                }
            },
        }
        true
    }

    fn finish(&mut self, world: &mut World, client: usize, ending: Ending, told: Option<Result<Told, ErrorCode>>) {
        let Some(open) = self.clients[client].open.take() else { return };
        match &told {
            Some(Ok(told)) => self.learn(world, client, &open, told),
            Some(Err(ErrorCode::NoSuchLease)) => self.clients[client].leases.clear(),
            Some(Err(ErrorCode::NoSuchPin)) => self.clients[client].pins.clear(),
            Some(Err(ErrorCode::StampCompacted)) if self.clients[client].watches => {
                world.probe("watch_was_compacted");
                self.restart_watch(world.now, client);
            }
            _ => {}
        }
        if !self.clients[client].watches {
            self.note(world.now, client, open, ending, told);
        }
        if !self.draining {
            let think = if self.clients[client].watches { (0, 2_000) } else { (0, 2 * self.think_ms * 1_000) };
            self.rest(world, client, think);
        }
    }

    /// A call goes into the book.
    fn note(&mut self, now: u64, client: usize, open: Open, ending: Ending, told: Option<Result<Told, ErrorCode>>) {
        let book = &mut self.books[self.clients[client].place];
        let (strong, invoked) = (open.strong, open.invoked);
        let returned = (ending != Ending::Unknown).then_some(now);
        match open.call {
            Asked::Versioned(asked) => {
                let told = told.and_then(|told| match told {
                    Ok(Told::Reply(reply)) => Some(Ok(reply)),
                    Ok(Told::Plain(_)) => None,
                    Err(code) => Some(Err(code)),
                });
                let id = book.calls.len() as u64;
                book.calls.push(Call { id, asked, strong, invoked, returned, ending, told });
            }
            Asked::Plain(asked) => {
                let told = told.and_then(|told| match told {
                    Ok(Told::Plain(result)) => Some(Ok(result)),
                    Ok(Told::Reply(_)) => None,
                    Err(code) => Some(Err(code)),
                });
                let id = book.plain.len() as u64;
                book.plain.push(Plain { id, asked, strong, invoked, returned, ending, told });
            }
        }
    }

    /// A watcher begins once more where history is kept.
    fn restart_watch(&mut self, now: u64, client: usize) {
        let place = self.clients[client].place;
        let from = Position::end_of(self.known[place].compacted.max(self.known[place].stamp));
        let watches = &mut self.books[place].watches;
        watches[self.clients[client].watch].lost = Some(now);
        self.clients[client].watch = watches.len();
        watches.push(Watch { from, reached: from, ..Watch::default() });
    }

    fn learn(&mut self, world: &mut World, client: usize, open: &Open, told: &Told) {
        let this = &mut self.clients[client];
        let known = &mut self.known[this.place];
        let (call, reply) = match (&open.call, told) {
            (Asked::Versioned(call), Told::Reply(reply)) => (call, reply),
            (Asked::Plain(action), _) => return world.probe(action.name()),
            _ => return,
        };
        match (call, reply) {
            (_, Reply::Changes { changes, reached, .. }) => {
                let watch = &mut self.books[this.place].watches[this.watch];
                let probe = if changes.is_empty() { "watch_waited_for_nothing" } else { "watch_was_told" };
                world.probe(probe);
                watch.seen.extend(changes.iter().map(|change| (change.clone(), world.now)));
                if *reached < watch.reached {
                    let text = format!("a watcher at {:?} learned that it had reached {reached:?}", watch.reached);
                    world.violate(proof_check::Violation::new("versions", text, vec![]));
                }
                watch.reached = watch.reached.max(*reached);
            }
            (_, Reply::Committed { stamp, committed, .. }) => {
                known.stamp = known.stamp.max(*stamp);
                for outcome in &committed.results {
                    if let Outcome::Page(page) = outcome {
                        known.rows = page.rows.iter().map(|pair| (pair.key.clone(), pair.row.clone())).collect();
                    }
                }
                world.probe(if committed.succeeded { "commit_succeeded" } else { "commit_failed_its_conditions" });
            }
            (VersionedCall::Ask(Query::Read { read, .. }), Reply::Page { stamp, page }) if read.at == 0 => {
                known.stamp = known.stamp.max(*stamp);
                known.rows = page.rows.iter().map(|pair| (pair.key.clone(), pair.row.clone())).collect();
            }
            (VersionedCall::Ask(Query::Read { pin, .. }), Reply::Page { .. }) if *pin > 0 => {
                world.probe("read_of_what_is_pinned");
            }
            (_, Reply::Page { .. }) => world.probe("read_of_the_past"),
            (VersionedCall::Change(Command::Pin { pin, .. }), Reply::Pinned { stamp, .. }) => {
                this.pins.push((*pin, *stamp));
            }
            (VersionedCall::Change(Command::Unpin { pin }), _) => this.pins.retain(|(of, _)| of != pin),
            (VersionedCall::Change(Command::LeaseGrant { lease, .. }), _) => this.leases.push(*lease),
            (VersionedCall::Change(Command::LeaseKeepAlive { leases }), Reply::Kept { ttls_ms }) => {
                let gone: Vec<u64> =
                    leases.iter().zip(ttls_ms).filter(|(_, ttl)| **ttl == 0).map(|(of, _)| *of).collect();
                if !gone.is_empty() {
                    world.probe("lease_was_over");
                }
                this.leases.retain(|lease| !gone.contains(lease));
            }
            (VersionedCall::Change(Command::LeaseRevoke { lease, .. }), _) => this.leases.retain(|of| of != lease),
            (VersionedCall::Change(Command::Compact { stamp }), _) => known.compacted = known.compacted.max(*stamp),
            _ => {}
        }
    }
}
