//! Clients of clusters that keep versions (`versioned@v…`): they commit with conditions, read the present and the past, attach keys to
//! leases, renew and revoke them, compact, and watch from member to member.
//!
//! ```text
//!   writer    idle ──draw──▶ asked ──answer──▶ a call in the book ──think──▶ idle
//!   watcher   await after a position, of any node ──changes, or none──▶ await after `reached` ──▶ …
//!                                                  └──compacted──▶ a new watch from what is known to be there
//! ```
//!
//! Always: a call has one request id for all its tries; it is `Failed` only if no try of it can have happened; every value is put by
//! one call.
//! Not here: what is right (proof-check, `versions`), what is asked after the load (`run/histories`).

use crate::load::{Targets, ANSWER_GRACE_US};
use crate::plan::{FaultKind, Plan};
use crate::random::Random;
use crate::world::{Answered, Due, World};
use base_types::action::{Action, ActionResult, KvTarget, Request, Response};
use base_types::versioned::{
    Check, Command, Condition, Operation, Outcome, Position, Put, Query, Read, Relation, Reply, Row, Span, Transaction,
    VersionedCall,
};
use base_types::{ClusterName, ErrorCode, ErrorKind, Outcome as Happened, ReadConsistency, RequestId, Ticket};
use bytes::Bytes;
use proof_check::versions::{Book, Call, Watch};
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
/// Lives of leases.
const TTLS_MS: &[u64] = &[600, 2_000, 6_000];
/// Leases of one client at a time.
const LEASES_MAX: usize = 3;
/// A compaction leaves so many stamps at least.
const COMPACT_KEEPS: u64 = 10;

struct Client {
    place: usize,
    watches: bool,
    random: Random,
    open: Option<Open>,
    /// Of a watcher: where it is in the book.
    watch: usize,
    /// Of a writer: its leases that may live.
    leases: Vec<u64>,
    made: u64,
    wake_at: u64,
}

struct Open {
    call: VersionedCall,
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

/// A call as a request.
pub fn request(name: &ClusterName, call: &VersionedCall, strong: bool, deadline_ms: u64, id: RequestId) -> Request {
    let level = if strong { ReadConsistency::Strong } else { ReadConsistency::Eventual };
    Request {
        action: Action::Versioned { target: KvTarget::Cluster(name.clone()), call: Box::new(call.clone()) },
        consistency: None,
        read_consistency: call.read_only().then_some(level),
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
                let (leases, open) = (Vec::new(), None);
                own.clients.push(Client { place, watches, random, open, watch, leases, made: 0, wake_at: 0 });
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
            (VersionedCall::Ask(query), strong, *this.random.pick(WATCH_DEADLINES_MS))
        } else {
            let (call, strong) = draw_call(this, client, &self.known[this.place], self.keys);
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
        open.ticket = world.ask(open.node, request(name, &open.call, open.strong, left_ms, open.request_id));
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
            Answered::Response(response) => match reply_of((**response).clone()) {
                Ok(reply) => self.finish(world, client, Ending::Ok, Some(Ok(reply))),
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

    fn finish(&mut self, world: &mut World, client: usize, ending: Ending, told: Option<Result<Reply, ErrorCode>>) {
        let Some(open) = self.clients[client].open.take() else { return };
        let place = self.clients[client].place;
        match &told {
            Some(Ok(reply)) => self.learn(world, client, &open, reply),
            Some(Err(ErrorCode::NoSuchLease)) => self.clients[client].leases.clear(),
            Some(Err(ErrorCode::StampCompacted)) if self.clients[client].watches => {
                world.probe("watch_was_compacted");
                self.restart_watch(world.now, client);
            }
            _ => {}
        }
        if !self.clients[client].watches {
            let id = self.books[place].calls.len() as u64;
            let (asked, strong, invoked) = (open.call, open.strong, open.invoked);
            let returned = (ending != Ending::Unknown).then_some(world.now);
            self.books[place].calls.push(Call { id, asked, strong, invoked, returned, ending, told });
        }
        if !self.draining {
            let think = if self.clients[client].watches { (0, 2_000) } else { (0, 2 * self.think_ms * 1_000) };
            self.rest(world, client, think);
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

    fn learn(&mut self, world: &mut World, client: usize, open: &Open, reply: &Reply) {
        let this = &mut self.clients[client];
        let known = &mut self.known[this.place];
        match (&open.call, reply) {
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
            (_, Reply::Page { .. }) => world.probe("read_of_the_past"),
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

/// What a writer asks next, and whether of the leader.
fn draw_call(this: &mut Client, client: usize, known: &Known, keys: u64) -> (VersionedCall, bool) {
    this.made += 1;
    let random = &mut this.random;
    let key = Bytes::from(format!("k{}", random.below(keys)));
    let value = |part: u64| format!("{client}.{}.{part}", this.made);
    let transact = |conditions, then, otherwise| {
        (VersionedCall::Change(Command::Commit { transaction: Transaction { conditions, then, otherwise } }), true)
    };
    let lease = if this.leases.is_empty() || random.per_mille(500) { 0 } else { *random.pick(&this.leases) };
    match random.below(100) {
        0..=29 => {
            let other = Bytes::from(format!("o{}", random.below(keys)));
            let then = [put_of(&key, value(0), lease, true), put_of(&other, value(1), 0, false)];
            transact(vec![], then[..1 + random.below(2) as usize].to_vec(), vec![])
        }
        30..=39 => transact(vec![], vec![Operation::Delete { span: Span::One { key }, previous: false }], vec![]),
        40..=54 => {
            let check = match known.rows.get(&key) {
                Some(row) if random.per_mille(500) => {
                    Check::Modified { relation: Relation::Equal, stamp: row.modified }
                }
                Some(row) if random.per_mille(500) => {
                    Check::Value { relation: Relation::Equal, value: row.value.clone() }
                }
                Some(_) => Check::UnchangedSince { stamp: known.stamp.max(known.compacted) },
                None => Check::Version { relation: Relation::Equal, number: 0 },
            };
            let conditions = vec![Condition { span: Span::One { key: key.clone() }, check }];
            let VersionedCall::Ask(Query::Read { read, .. }) = whole(0) else { return (whole(0), true) };
            transact(conditions, vec![put_of(&key, value(0), lease, true)], vec![Operation::Read(read)])
        }
        55..=66 => (whole(0), true),
        67..=78 => {
            let at = random.between(known.compacted.saturating_sub(3).max(1), known.stamp.max(1) + 1);
            (whole(at), random.per_mille(500))
        }
        79..=85 if this.leases.len() < LEASES_MAX => {
            let (lease, ttl_ms) = (1 + client as u64 * 1_000_000 + this.made, *random.pick(TTLS_MS));
            (VersionedCall::Change(Command::LeaseGrant { lease, ttl_ms }), true)
        }
        86..=93 if !this.leases.is_empty() => {
            (VersionedCall::Change(Command::LeaseKeepAlive { leases: this.leases.clone() }), true)
        }
        94..=95 if !this.leases.is_empty() => {
            let lease = *random.pick(&this.leases);
            (VersionedCall::Change(Command::LeaseRevoke { lease, limit: 1 + random.below(4) as u32 * 100 }), true)
        }
        96..=99 if known.stamp > known.compacted + COMPACT_KEEPS => {
            let stamp = known.stamp - COMPACT_KEEPS;
            (VersionedCall::Change(Command::Compact { stamp }), true)
        }
        _ => (whole(0), true),
    }
}
