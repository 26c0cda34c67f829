//! Clients of Redis databases (`redis@r…`): they send the calls that the Redis door sends. Each continues as the door would: WATCH, a look,
//! EXEC; a pop that finds nothing, and waits for its key; a subscriber that follows a database's messages.
//!
//! ```text
//!   client      idle ──draw──▶ asked ──answer──▶ a call in the book ──▶ what follows from it, or ──think──▶ idle
//!   subscriber  Messages after the last one it has, of its own node ──messages, or none──▶ Messages …
//! ```
//!
//! Each call that writes begins with a push of its number to the journal, each that reads with the journal's length, and both then ask
//! for the cluster's time (`proof_check::redis`).
//!
//! Always: a call has one request id for all its tries; it is `Failed` only if no try of it can have happened; every element, value and
//! message is written by one command.
//! Held by: `a_call_is_tried_with_one_request_id`.
//! Not here: what they draw (`draw`), what is right (proof-check, `redis`), what is asked after the load (`run/redis`).

mod draw;
#[cfg(test)]
mod tests;

use crate::load::{Targets, ANSWER_GRACE_US};
use crate::plan::{FaultKind, Plan};
use crate::random::Random;
use crate::world::{Answered, Due, World};
use base_types::action::{Action, ActionResult, KvTarget, Request, Response};
use base_types::redis::{KeyVersion, RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{ClusterName, ErrorCode, Outcome as Happened, ReadConsistency, Refusal, RequestId, Ticket};
use bytes::Bytes;
pub use draw::whole;
use draw::{draw, Drawn};
use proof_check::redis::{Book, Call, Reader, Watched, CLOCK, CLOCK_MS, JOURNAL};
use proof_check::Ending;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call is tried for so many deadlines, and no longer than its request id is remembered.
const TRIES_DEADLINES: u64 = 3;
const TRIES_US_MAX: u64 = 12_000_000;
/// Between two tries.
const RETRY_US: (u64, u64) = (2_000, 60_000);
/// How long a subscriber waits for an answer.
const WAIT_DEADLINES_MS: &[u64] = &[400, 2_000, 12_000];
/// How long a client waits whose pop found nothing, and how often. Meanwhile it does nothing else.
const POP_DEADLINES_MS: &[u64] = &[100, 600, 3_000];
const WAITS_MAX: u32 = 2;
/// One of so many clients only looks.
const ONE_LOOKS: u64 = 3;
/// Calls of one cluster: the journal stays short enough for a snapshot of one pair at a time.
const CALLS_MAX: usize = 4_000;
/// The door's clock when a world begins.
const UNIX_MS: u64 = 1_700_000_000_000;

/// What a client does next, once its call is answered.
#[derive(Clone, Debug)]
enum Aim {
    /// Whatever it draws.
    Free,
    /// WATCH was sent; a look at the key follows.
    Watch,
    /// The look was sent; EXEC follows.
    Look { watched: Vec<KeyVersion>, invoked: u64 },
    /// A pop was sent. What follows if it finds nothing: the version that it was asked after, and how often it has waited.
    Pop { pop: RedisCommand, seen: Option<Vec<KeyVersion>>, waits: u32 },
    /// The versions were asked for, or the key is waited for; the pop follows.
    Versions { pop: RedisCommand, waits: u32, awaited: bool },
}

struct Client {
    place: usize,
    /// A subscriber: its node, and where it is in the book.
    subscriber: Option<(usize, usize)>,
    /// It only looks, and often: between two looks there may be no entry.
    looks: bool,
    random: Random,
    open: Option<Open>,
    aim: Aim,
    wake_at: u64,
}

/// What is asked.
struct Asked {
    ask: RedisAsk,
    strong: bool,
    deadline_ms: u64,
    watched: Option<Watched>,
}

struct Open {
    /// Its number in the book. A subscriber's question has none.
    id: Option<usize>,
    asked: Asked,
    unix_ms: u64,
    request_id: RequestId,
    ticket: Option<Ticket>,
    give_up_at: u64,
    /// When the answer to the present try is given up.
    answer_by: u64,
    unknown: bool,
}

/// All of them.
pub struct Databases {
    pub names: Vec<ClusterName>,
    pub books: Vec<Book>,
    clients: Vec<Client>,
    tickets: BTreeMap<Ticket, usize>,
    draining: bool,
    ids: Random,
    think_ms: u64,
    deadline_ms: u64,
    keys: u64,
    tries_us: u64,
}

/// The name of a cluster with Redis databases: of its own, or of a keyspace.
pub fn name_of(number: u64, keyspace: bool) -> String {
    if keyspace {
        format!("redis@ks-r{number}-0")
    } else {
        format!("redis@r{number}")
    }
}

/// How clients name it.
pub fn target_of(name: &ClusterName) -> KvTarget {
    match name.tail().strip_prefix("ks-").and_then(|rest| rest.strip_suffix("-0")) {
        Some(keyspace) => KvTarget::Keyspace(keyspace.to_string()),
        None => KvTarget::Cluster(name.clone()),
    }
}

/// A command by its words, in a database.
pub fn command(database: u8, words: &[&str]) -> RedisCommand {
    RedisCommand { database, words: words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect() }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The commands of a call that writes: they follow its place in the journal, and the cluster's time.
pub fn writing(id: usize, commands: Vec<RedisCommand>) -> Vec<RedisCommand> {
    let first = [command(0, &["RPUSH", text(JOURNAL), &id.to_string()]), command(0, &["PTTL", text(CLOCK)])];
    first.into_iter().chain(commands).collect()
}

/// The commands of a call that reads.
pub fn reading(commands: Vec<RedisCommand>) -> Vec<RedisCommand> {
    let first = [command(0, &["LLEN", text(JOURNAL)]), command(0, &["PTTL", text(CLOCK)])];
    first.into_iter().chain(commands).collect()
}

/// The first call of all: it makes the clock.
pub fn first_call(id: usize) -> RedisAsk {
    let clock = command(0, &["SET", text(CLOCK), "set", "PX", &CLOCK_MS.to_string()]);
    RedisAsk::Commands { commands: writing(id, vec![clock]) }
}

/// The door's clock.
pub fn unix_ms(now: u64) -> u64 {
    UNIX_MS + now / 1_000
}

/// A call as a request.
pub fn request(name: &ClusterName, call: &RedisCall, strong: bool, deadline_ms: u64, id: RequestId) -> Request {
    let level = if strong { ReadConsistency::Strong } else { ReadConsistency::Eventual };
    Request {
        read_consistency: call.read_only().then_some(level),
        action: Action::RedisCall { target: target_of(name), call: Box::new(call.clone()) },
        consistency: None,
        deadline: Duration::from_millis(deadline_ms),
        request_id: Some(id),
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    }
}

/// The reply in an answer.
pub fn reply_of(response: Response) -> Result<RedisAnswer, Refusal> {
    match response {
        Ok(answer) => match answer.result {
            ActionResult::RedisCall(answer) => Ok(answer),
            other => Err(Refusal::new(ErrorCode::Internal, format!("no reply of ours: {other:?}"))),
        },
        Err(failure) => Err(failure.refusal),
    }
}

impl Databases {
    pub fn new(plan: &Plan, targets: &Targets) -> Databases {
        let names = targets.databases.clone();
        let leaps = plan.hazards.iter().any(|hazard| matches!(hazard.kind, FaultKind::ClockJump | FaultKind::Hold));
        let deadline_ms = plan.load.deadline_ms;
        let mut own = Databases {
            books: names.iter().map(|_| Book { leaps, ..Book::default() }).collect(),
            clients: Vec::new(),
            tickets: BTreeMap::new(),
            draining: false,
            ids: Random::stream(plan.seed, "ids of databases"),
            think_ms: plan.load.think_ms,
            deadline_ms,
            keys: plan.load.keys,
            tries_us: (deadline_ms * TRIES_DEADLINES * 1_000).min(TRIES_US_MAX),
            names,
        };
        for place in 0..own.names.len() {
            let random = |name: String| Random::stream(plan.seed, &format!("database {place} {name}"));
            let client = |subscriber, looks, random| Client {
                place,
                subscriber,
                looks,
                random,
                open: None,
                aim: Aim::Free,
                wake_at: 0,
            };
            own.clients.extend((0..plan.load.redis).map(|number| {
                let looks = number % ONE_LOOKS == ONE_LOOKS - 1;
                client(None, looks, random(format!("client {number}")))
            }));
            for node in 0..plan.shape.nodes as usize {
                own.books[place].readers.push(Reader::default());
                own.clients.push(client(Some((node, node)), false, random(format!("subscriber {node}"))));
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
        world.schedule(this.wake_at, Due::Database(client));
    }

    fn draw(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        let book = &self.books[this.place];
        if let Some((_, reader)) = this.subscriber {
            let reader = &book.readers[reader];
            let after = reader.seen.last().map_or(reader.from, |message| message.number);
            let deadline_ms = *this.random.pick(WAIT_DEADLINES_MS);
            let ask = RedisAsk::Messages { after };
            return self.open(world, client, Asked { ask, strong: false, deadline_ms, watched: None });
        }
        // Who only looks leaves room for the others.
        if book.calls.len() >= if this.looks { CALLS_MAX / 2 } else { CALLS_MAX } {
            return;
        }
        let id = book.calls.len();
        let asked = |ask, strong| Asked { ask, strong, deadline_ms: self.deadline_ms, watched: None };
        this.aim = Aim::Free;
        let drawn = match this.looks {
            true => draw::draw_look(&mut this.random, self.keys),
            false => draw(&mut this.random, id, self.keys, unix_ms(world.now)),
        };
        let asked = match drawn {
            Drawn::Write(commands) => asked(RedisAsk::Commands { commands: writing(id, commands) }, true),
            Drawn::Read(commands, strong) => asked(RedisAsk::Commands { commands: reading(commands) }, strong),
            Drawn::Transaction(commands) => {
                asked(RedisAsk::Transaction { watched: Vec::new(), commands: writing(id, commands) }, true)
            }
            Drawn::Watch(keys) => {
                this.aim = Aim::Watch;
                asked(RedisAsk::Versions { keys }, true)
            }
            Drawn::Pop(pop) => {
                this.aim = Aim::Pop { pop: pop.clone(), seen: None, waits: 0 };
                asked(RedisAsk::Commands { commands: writing(id, vec![pop]) }, true)
            }
        };
        self.open(world, client, asked);
    }

    fn open(&mut self, world: &mut World, client: usize, asked: Asked) {
        let this = &mut self.clients[client];
        let calls = &mut self.books[this.place].calls;
        let (unix_ms, waits) = (unix_ms(world.now), self.deadline_ms != asked.deadline_ms);
        let id = this.subscriber.is_none().then_some(calls.len());
        if id.is_some() {
            calls.push(Call {
                asked: asked.ask.clone(),
                unix_ms,
                strong: asked.strong,
                invoked: world.now,
                returned: None,
                ending: Ending::Unknown,
                told: None,
                watched: asked.watched,
            });
        }
        let request_id = RequestId::opaque(u128::from(self.ids.draw()) << 64 | u128::from(self.ids.draw()));
        let tries_us = if waits { asked.deadline_ms * 1_000 } else { self.tries_us };
        this.open = Some(Open {
            id,
            asked,
            unix_ms,
            request_id,
            ticket: None,
            give_up_at: world.now + tries_us,
            answer_by: 0,
            unknown: false,
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
        // A subscriber's own node, unless it has refused: where nobody routes, it may be no member.
        let node = match this.subscriber {
            Some((node, _)) if this.random.per_mille(700) => node,
            _ => this.random.below(nodes) as usize,
        };
        let left_ms = (open.give_up_at - world.now).div_ceil(1_000).min(open.asked.deadline_ms).max(1);
        let call = RedisCall { unix_ms: open.unix_ms, seed: 0, ask: open.asked.ask.clone() };
        open.ticket = world.ask(node, request(name, &call, open.asked.strong, left_ms, open.request_id));
        let Some(ticket) = open.ticket else { return self.rest(world, client, RETRY_US) };
        open.answer_by = world.now + left_ms * 1_000 + ANSWER_GRACE_US;
        (this.wake_at, _) = (open.answer_by, self.tickets.insert(ticket, client));
        world.schedule(this.wake_at, Due::Database(client));
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
                Ok(told) => self.finish(world, client, Ending::Ok, Some(told)),
                Err(refusal) => {
                    open.unknown |= refusal.outcome() == Happened::Unknown || refusal.code.is_committed();
                    if refusal.kind().retryable() || refusal.kind() == base_types::ErrorKind::Full {
                        self.rest(world, client, RETRY_US);
                        return true;
                    }
                    let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
                    self.finish(world, client, ending, None);
                }
            },
        }
        true
    }

    fn finish(&mut self, world: &mut World, client: usize, ending: Ending, told: Option<RedisAnswer>) {
        let this = &mut self.clients[client];
        let Some(open) = this.open.take() else { return };
        let book = &mut self.books[this.place];
        if let (Some((_, reader)), Some(RedisAnswer::Messages { messages, lost, .. })) = (this.subscriber, &told) {
            world.probe(if messages.is_empty() { "subscriber_waited_for_nothing" } else { "subscriber_was_told" });
            let reader = &mut book.readers[reader];
            reader.seen.extend(messages.iter().cloned());
            reader.lost |= lost;
        }
        let aim = std::mem::replace(&mut this.aim, Aim::Free);
        if let Some(call) = open.id.and_then(|id| book.calls.get_mut(id)) {
            (call.ending, call.told) = (ending, told.clone());
            call.returned = (ending != Ending::Unknown).then_some(world.now);
        }
        if self.draining {
            return;
        }
        let next = told.and_then(|told| self.follow(world, client, aim, &open, &told));
        match next {
            Some(asked) => self.open(world, client, asked),
            None if self.clients[client].subscriber.is_some() => self.rest(world, client, (0, 1_000)),
            None if self.clients[client].looks => self.rest(world, client, (0, self.think_ms * 200)),
            None => self.rest(world, client, (0, 2 * self.think_ms * 1_000)),
        }
    }

    /// What the door would ask next for its client.
    fn follow(&mut self, world: &mut World, client: usize, aim: Aim, open: &Open, told: &RedisAnswer) -> Option<Asked> {
        let this = &mut self.clients[client];
        let calls = &self.books[this.place].calls;
        let (id, deadline_ms) = (calls.len(), self.deadline_ms);
        let asked = |ask| Asked { ask, strong: true, deadline_ms, watched: None };
        if id >= CALLS_MAX {
            return None;
        }
        match (aim, told) {
            (Aim::Watch, RedisAnswer::Versions { versions }) => {
                let RedisAsk::Versions { keys } = &open.asked.ask else { return None };
                let watched = keys.iter().zip(versions);
                let watched: Vec<KeyVersion> =
                    watched.map(|(key, version)| KeyVersion { version: *version, ..key.clone() }).collect();
                let gets = watched.iter().map(|key| command(key.database, &["GET", text(&key.key)]));
                let commands = reading(gets.collect());
                this.aim = Aim::Look { watched, invoked: open.id.map_or(world.now, |id| calls[id].invoked) };
                Some(asked(RedisAsk::Commands { commands }))
            }
            (Aim::Look { watched, invoked }, RedisAnswer::Replies { .. }) => {
                let looked = open.id.and_then(|id| calls[id].place())?;
                let writes = draw::draw_commit(&mut this.random, id, &watched);
                let commands = writing(id, writes);
                let since = Some(Watched { invoked, looked });
                Some(Asked { watched: since, ..asked(RedisAsk::Transaction { watched, commands }) })
            }
            (Aim::Pop { pop, seen, waits }, RedisAnswer::Replies { replies }) => {
                if !matches!(replies.last(), Some(RedisReply::Nil | RedisReply::NilArray)) {
                    world.probe(if waits > 0 { "pop_that_waited_was_served" } else { "pop_was_served" });
                    return None;
                }
                if waits >= WAITS_MAX {
                    return None;
                }
                let awaited = seen.is_some();
                let ask = match seen {
                    Some(keys) => RedisAsk::AwaitKeys { keys },
                    None => RedisAsk::Versions {
                        keys: vec![KeyVersion { database: pop.database, key: pop.words[1].clone(), version: 0 }],
                    },
                };
                this.aim = Aim::Versions { pop, waits: waits + u32::from(awaited), awaited };
                let deadline_ms = if awaited { *this.random.pick(POP_DEADLINES_MS) } else { deadline_ms };
                Some(Asked { deadline_ms, strong: this.random.per_mille(700), ..asked(ask) })
            }
            (Aim::Versions { pop, waits, awaited }, RedisAnswer::Versions { versions }) => {
                let (RedisAsk::Versions { keys } | RedisAsk::AwaitKeys { keys }) = &open.asked.ask else { return None };
                let seen = keys.iter().zip(versions);
                let seen = seen.map(|(key, version)| KeyVersion { version: *version, ..key.clone() }).collect();
                world.probe(if awaited { "pop_was_woken" } else { "pop_looked_again" });
                let commands = writing(id, vec![pop.clone()]);
                this.aim = Aim::Pop { pop, seen: Some(seen), waits };
                Some(asked(RedisAsk::Commands { commands }))
            }
            (_, RedisAnswer::Aborted) => {
                world.probe("transaction_was_aborted");
                None
            }
            (_, RedisAnswer::Replies { .. }) if open.asked.watched.is_some() => {
                world.probe("transaction_that_watches_was_carried_out");
                None
            }
            _ => None,
        }
    }
}
