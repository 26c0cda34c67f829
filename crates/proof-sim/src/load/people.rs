//! Users of a world that wants to know who asks: who they are, what an administrator gives them and takes back, through the public
//! actions, one change after the other.
//!
//! ```text
//!   idle ──draw──▶ a change ──done, or it was already──▶ idle          the book (proof-check, `access`) notes when each was asked for
//!                     └──lost, refused──▶ the same change again        and acknowledged
//! ```
//!
//! Always: a token or grant is given once and taken back once: each has an id, or a prefix, of its own. One of which some try
//! came to an unknown end is not taken back in this run: that try may yet come true. A `security-admin` tries now and then to come by
//! more than it has, and never does (mutant `GiftUnbounded`).
//! Not here: what users do (`load/users.rs`), what is right (proof-check).

use crate::load::Targets;
use crate::random::Random;
use crate::world::{Answered, Due, World};
use base_access::Token;
use base_types::access::{
    AccessAction, Caller, CreateRole, CreateRoot, CreateToken, CreateUser, GrantRole, RevokeRole, RevokeToken, RuleText,
};
use base_types::action::{Action, Request};
use base_types::{ErrorCode, Outcome, Ticket};
use bytes::Bytes;
use proof_check::access::{self, AccessBook, Given, Grant, Span};
use proof_check::Violation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The first user and its token: what clients that are no users of this story act as.
pub const ROOT: usize = 0;
pub const ROOT_TOKEN: u64 = 1;
/// A user with every keyspace, for good.
const WIDE: usize = 1;
/// A token that nobody made.
pub const NOBODY: u64 = 2;
/// A `security-admin`, and its token: no client acts as it.
const ADMIN: &str = "sam";
const ADMIN_TOKEN: u64 = 3;
/// Of a thousand changes, so many are tries of its own to come by more.
const TAKE_OVERS: u64 = 100;
/// Tokens have ids from here.
const FIRST_TOKEN: u64 = 1_000;
/// How long the administrator waits for an answer, and how much later it gives the answer up.
const DEADLINE: Duration = Duration::from_secs(3);
const GRACE_US: u64 = 2_000_000;
/// Between two changes, and between two tries of one.
const THINK_US: (u64, u64) = (20_000, 500_000);
const RETRY_US: (u64, u64) = (10_000, 200_000);
/// The most that one user has at a time.
const TOKENS_MAX: usize = 3;
const GRANTS_MAX: usize = 4;
/// The most tokens and grants of a run: each is a row, or a part of one, on every node.
const GIVEN_MAX: usize = 400;
/// Of a thousand changes, so many go through a node's own socket.
const BY_SOCKET: u64 = 200;
/// What keys of grants begin with, so that they lie in several partitions.
const FIRST_BYTES: &[u8] = b"0AZaz";

/// Somebody.
#[derive(Clone, Default, Debug)]
pub struct Person {
    name: String,
    /// Ids of all tokens ever, the newest last.
    pub tokens: Vec<u64>,
    /// Its grants, by their places in the book.
    pub grants: Vec<usize>,
}

/// Everybody, and what is under way.
pub struct Users {
    pub book: AccessBook,
    people: Vec<Person>,
    random: Random,
    /// Of the take-overs alone.
    ambition: Random,
    keyspaces: Vec<String>,
    clusters: Vec<String>,
    /// What comes before anything is drawn.
    queue: VecDeque<Change>,
    open: Option<Open>,
    /// Tokens and grants that may yet come true, whatever follows.
    unsure_tokens: BTreeSet<u64>,
    unsure_grants: BTreeSet<usize>,
    /// The role of each grant, as it was asked for.
    roles: BTreeMap<usize, (&'static str, Option<String>)>,
    /// Nothing new is begun.
    draining: bool,
    wake_at: u64,
    tokens_made: u64,
}

/// One change of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Root,
    User(usize),
    Token { person: usize, id: u64 },
    DropToken { id: u64 },
    Grant(usize),
    TakeBack(usize),
    Admin,
    AdminToken,
    TakeOver(Way),
}

/// How a `security-admin` could come by more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// A role for itself.
    Role,
    /// A role that it defines.
    Definition,
    /// A token of somebody who has more.
    Token,
}

const WAYS: &[Way] = &[Way::Role, Way::Definition, Way::Token];

struct Open {
    change: Change,
    ticket: Option<Ticket>,
    give_up_at: u64,
    /// Some try of it may yet come true.
    unsure: bool,
}

impl Users {
    /// Root, one with every keyspace, and the users of this many clients.
    pub fn new(seed: u64, clients: u64, targets: &Targets) -> Users {
        let names = (0..clients).map(|number| format!("user{number}"));
        let people = ["root".to_string(), "wide".to_string()].into_iter().chain(names);
        let people: Vec<Person> = people.map(|name| Person { name, ..Person::default() }).collect();
        let mut own = Users {
            book: AccessBook::default(),
            random: Random::stream(seed, "administrator"),
            ambition: Random::stream(seed, "ambition"),
            keyspaces: targets.keyspaces.clone(),
            clusters: targets.clusters.iter().map(|name| name.as_str().to_string()).collect(),
            queue: VecDeque::from([Change::Root]),
            open: None,
            unsure_tokens: BTreeSet::new(),
            unsure_grants: BTreeSet::new(),
            roles: BTreeMap::new(),
            draining: false,
            wake_at: 0,
            tokens_made: 0,
            people,
        };
        for person in 1..own.people.len() {
            own.queue.push_back(Change::User(person));
            let change = own.new_token(person);
            own.queue.push_back(change);
        }
        own.queue.extend([Change::Admin, Change::AdminToken]);
        own
    }

    /// The user of the client of this number among those that are users.
    pub fn person_of(number: u64) -> usize {
        WIDE + number as usize
    }

    pub fn person(&self, person: usize) -> &Person {
        &self.people[person]
    }

    /// Everybody is there, and has a token.
    pub fn is_set_up(&self) -> bool {
        self.queue.is_empty() && self.is_idle()
    }

    /// No change is under way.
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The prefixes of some grants, this person's or (`None`) anybody's, the newest last.
    pub fn prefixes(&self, person: Option<usize>) -> Vec<Bytes> {
        let grants = self.book.grants.iter().filter(|grant| person.is_none_or(|person| grant.user == person));
        let prefix = |grant: &Grant| match &grant.given {
            Given::Keys { prefix, .. } if !prefix.is_empty() => Some(prefix.clone()),
            _ => None,
        };
        grants.filter_map(prefix).collect()
    }

    fn new_token(&mut self, person: usize) -> Change {
        self.tokens_made += 1;
        Change::Token { person, id: FIRST_TOKEN + self.tokens_made }
    }

    /// The next change.
    fn draw(&mut self) -> Option<Change> {
        if let Some(change) = self.queue.pop_front() {
            return Some(change);
        }
        if self.draining || self.people.len() <= WIDE + 1 {
            return None;
        }
        if self.ambition.per_mille(TAKE_OVERS) {
            return Some(Change::TakeOver(*self.ambition.pick(WAYS)));
        }
        let person = self.random.between(WIDE as u64 + 1, self.people.len() as u64 - 1) as usize;
        let (tokens, grants) = (self.live_tokens(person), self.live_grants(person));
        let full = self.book.tokens.len() + self.book.grants.len() >= GIVEN_MAX;
        let draw = self.random.below(100);
        let sure_tokens: Vec<u64> = tokens.iter().copied().filter(|id| !self.unsure_tokens.contains(id)).collect();
        let sure_grants: Vec<usize> = grants.iter().copied().filter(|of| !self.unsure_grants.contains(of)).collect();
        match draw {
            _ if tokens.is_empty() && !full => Some(self.new_token(person)),
            0..=24 if !sure_tokens.is_empty() => Some(Change::DropToken { id: *self.random.pick(&sure_tokens) }),
            25..=39 if tokens.len() < TOKENS_MAX && !full => Some(self.new_token(person)),
            40..=64 if !sure_grants.is_empty() => Some(Change::TakeBack(*self.random.pick(&sure_grants))),
            _ if grants.len() < GRANTS_MAX && !full => Some(self.new_grant(person)),
            _ if !sure_grants.is_empty() => Some(Change::TakeBack(*self.random.pick(&sure_grants))),
            _ => None,
        }
    }

    fn live_tokens(&self, person: usize) -> Vec<u64> {
        let lives = |id: &u64| self.book.tokens.get(id).is_some_and(|token| is_live(&token.span));
        self.people[person].tokens.iter().copied().filter(lives).collect()
    }

    fn live_grants(&self, person: usize) -> Vec<usize> {
        let lives = |of: &usize| is_live(&self.book.grants[*of].span);
        self.people[person].grants.iter().copied().filter(lives).collect()
    }

    /// A grant of a prefix of its own; now and then of a whole cluster, once for a person.
    fn new_grant(&mut self, person: usize) -> Change {
        let number = self.book.grants.len();
        let has_cluster = |of: &usize| matches!(self.book.grants[*of].given, Given::Cluster(_));
        let cluster = !self.clusters.is_empty()
            && (self.keyspaces.is_empty() || self.random.per_mille(150))
            && !self.people[person].grants.iter().any(has_cluster);
        let (role, on, given) = if cluster || self.keyspaces.is_empty() {
            let name = self.random.pick(&self.clusters).clone();
            ("operator", format!("cluster/{name}"), Given::Cluster(name))
        } else {
            let keyspace = self.random.pick(&self.keyspaces).clone();
            let first = char::from(*self.random.pick(FIRST_BYTES));
            let prefix = format!("{first}{person}/{number}/");
            let writes = self.random.per_mille(700);
            let role = if writes { "writer" } else { "reader" };
            let on = format!("kv/{keyspace}/{prefix}");
            (role, on, Given::Keys { keyspace: Some(keyspace), prefix: prefix.into(), writes })
        };
        self.note_grant(person, role, Some(on), given);
        Change::Grant(number)
    }

    fn note_grant(&mut self, person: usize, role: &'static str, on: Option<String>, given: Given) {
        let number = self.book.grants.len();
        // Asked for when its request is sent.
        self.book.grants.push(Grant { user: person, given, span: Span::asked(u64::MAX) });
        self.people[person].grants.push(number);
        self.roles.insert(number, (role, on));
    }

    /// Its time has come: to begin a change, to try one again, or to give up waiting.
    pub fn on_wake(&mut self, world: &mut World) {
        if world.now < self.wake_at {
            return;
        }
        match &mut self.open {
            None => {
                if let Some(change) = self.draw() {
                    self.begin(world, change);
                } else if !self.draining {
                    self.rest(world, THINK_US);
                }
            }
            Some(open) if open.ticket.is_none() => self.ask(world),
            Some(open) if world.now >= open.give_up_at => {
                open.unsure = true;
                open.ticket.take().into_iter().for_each(|ticket| _ = world.cancel(ticket));
                self.ask(world);
            }
            Some(_) => {}
        }
    }

    fn rest(&mut self, world: &mut World, (low, high): (u64, u64)) {
        let wait = self.random.between(low, high);
        self.wake_at = world.now + wait;
        world.schedule(self.wake_at, Due::Administrator);
    }

    fn begin(&mut self, world: &mut World, change: Change) {
        let now = world.now;
        match change {
            Change::Root => {
                self.people[ROOT].tokens.push(ROOT_TOKEN);
                self.book.tokens.insert(ROOT_TOKEN, access::Token { user: ROOT, span: Span::asked(now) });
                self.note_grant(ROOT, "root", None, Given::All);
                self.book.grants[0].span.asked = now;
            }
            Change::User(WIDE) => {
                let given = Given::Keys { keyspace: None, prefix: Bytes::new(), writes: true };
                self.note_grant(WIDE, "writer", None, given);
                let number = self.book.grants.len() - 1;
                self.book.grants[number].span.asked = now;
            }
            Change::User(_) | Change::Admin | Change::AdminToken | Change::TakeOver(_) => {}
            Change::Token { person, id } => {
                self.people[person].tokens.push(id);
                self.book.tokens.insert(id, access::Token { user: person, span: Span::asked(now) });
            }
            Change::DropToken { id } => {
                self.book.tokens.get_mut(&id).into_iter().for_each(|token| token.span.taking = Some(now));
            }
            Change::Grant(number) => self.book.grants[number].span.asked = now,
            Change::TakeBack(number) => self.book.grants[number].span.taking = Some(now),
        }
        self.open = Some(Open { change, ticket: None, give_up_at: 0, unsure: false });
        self.ask(world);
    }

    fn take_over(way: Way) -> AccessAction {
        match way {
            Way::Role => GrantRole { user: ADMIN.into(), role: "writer".into(), on: None, id: 0 }.into(),
            Way::Definition => {
                let rules = vec![RuleText { verbs: "all".into(), on: "kv/*".into() }];
                CreateRole { role: "mine".into(), rules, replace: true, grantable: false, id: 0 }.into()
            }
            Way::Token => token_of("root".into(), ADMIN_TOKEN + 1).into(),
        }
    }

    fn call(&self, change: Change) -> AccessAction {
        let name = |person: usize| self.people[person].name.clone();
        match change {
            Change::Root => CreateRoot { id: ROOT_TOKEN, hash: hash_of(ROOT_TOKEN), user_id: 1 << 40 }.into(),
            Change::User(person) => {
                let roles = if person == WIDE { vec!["writer".to_string()] } else { Vec::new() };
                let (password, password_hash) = (None, None);
                CreateUser {
                    user: name(person),
                    service: false,
                    roles,
                    password,
                    password_hash,
                    namespace: None,
                    id: 0,
                }
                .into()
            }
            Change::Token { person, id } => token_of(name(person), id).into(),
            Change::Admin => {
                let (user, roles) = (ADMIN.to_string(), vec!["security-admin".to_string()]);
                let (password, password_hash) = (None, None);
                CreateUser { user, service: false, roles, password, password_hash, namespace: None, id: 0 }.into()
            }
            Change::AdminToken => token_of(ADMIN.into(), ADMIN_TOKEN).into(),
            Change::TakeOver(way) => Self::take_over(way),
            Change::DropToken { id } => RevokeToken { id: format!("{id:016x}"), user: None }.into(),
            Change::Grant(number) | Change::TakeBack(number) => {
                let (role, on) = self.roles.get(&number).cloned().unwrap_or_default();
                let (user, role) = (name(self.book.grants[number].user), role.to_string());
                match change {
                    Change::Grant(_) => GrantRole { user, role, on, id: 0 }.into(),
                    _ => RevokeRole { user, role, on, id: 0 }.into(),
                }
            }
        }
    }

    fn ask(&mut self, world: &mut World) {
        let Some(change) = self.open.as_ref().map(|open| open.change) else { return };
        let by_socket = change == Change::Root || self.random.per_mille(BY_SOCKET);
        let caller = match (change, by_socket) {
            (Change::TakeOver(_), _) => Caller::Identity { credential: ADMIN_TOKEN, decided_at: None },
            (_, true) => Caller::Node,
            (_, false) => Caller::Identity { credential: ROOT_TOKEN, decided_at: None },
        };
        let request = Request {
            action: Action::Access(self.call(change)),
            consistency: None,
            read_consistency: None,
            deadline: DEADLINE,
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller,
        };
        let node = self.random.below(world.nodes.len() as u64) as usize;
        let ticket = world.ask_as(node, request);
        let Some(open) = self.open.as_mut() else { return };
        open.ticket = ticket;
        if ticket.is_none() {
            return self.rest(world, RETRY_US);
        }
        open.give_up_at = world.now + DEADLINE.as_micros() as u64 + GRACE_US;
        self.wake_at = open.give_up_at;
        world.schedule(open.give_up_at, Due::Administrator);
    }

    /// An answer to a change. False: it is not one.
    pub fn on_answer(&mut self, world: &mut World, ticket: Ticket, answered: &Answered) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| open.ticket == Some(ticket)) else { return false };
        open.ticket = None;
        let change = open.change;
        match answered {
            Answered::Lost => open.unsure = true,
            Answered::Response(response) => match (change, &**response) {
                (Change::TakeOver(way), Ok(_)) => {
                    let message = format!("a security-admin came by more than it has: {:?}", Self::take_over(way));
                    world.violate(Violation::new("access", message, Vec::new()));
                    self.on_done(world);
                }
                (_, Ok(_)) => self.on_done(world),
                (_, Err(failure)) if is_already(change, failure.refusal.code) => self.on_done(world),
                (_, Err(failure)) => {
                    open.unsure |= failure.refusal.outcome() == Outcome::Unknown;
                    let taken = matches!(change, Change::Token { .. }) && failure.refusal.code == ErrorCode::Conflict;
                    if taken && open.unsure {
                        // Perhaps an earlier try made it. Nobody relies on it.
                        self.on_abandoned(world);
                    }
                }
            },
        }
        if self.open.is_some() {
            self.rest(world, RETRY_US);
        }
        true
    }

    fn on_done(&mut self, world: &mut World) {
        let Some(Open { change, unsure, .. }) = self.open.take() else { return };
        let now = world.now;
        match change {
            Change::Root => {
                self.book.tokens.get_mut(&ROOT_TOKEN).into_iter().for_each(|token| token.span.given = Some(now));
                self.book.grants[0].span.given = Some(now);
            }
            Change::User(person) => {
                let grants = self.people[person].grants.clone();
                grants.into_iter().for_each(|number| self.book.grants[number].span.given = Some(now));
            }
            Change::Admin | Change::AdminToken => {}
            Change::TakeOver(_) => world.probe("take_over_refused"),
            Change::Token { id, .. } => {
                self.book.tokens.get_mut(&id).into_iter().for_each(|token| token.span.given = Some(now));
                self.unsure_tokens.extend(unsure.then_some(id));
            }
            Change::DropToken { id } => {
                self.book.tokens.get_mut(&id).into_iter().for_each(|token| token.span.taken = Some(now));
                world.probe("token_revoked");
            }
            Change::Grant(number) => {
                self.book.grants[number].span.given = Some(now);
                self.unsure_grants.extend(unsure.then_some(number));
            }
            Change::TakeBack(number) => {
                self.book.grants[number].span.taken = Some(now);
                world.probe("role_taken_back");
            }
        }
        self.next(world);
    }

    fn on_abandoned(&mut self, world: &mut World) {
        let Some(Open { change: Change::Token { person, id }, .. }) = self.open.take() else { return };
        self.unsure_tokens.insert(id);
        if !self.queue.is_empty() {
            let change = self.new_token(person);
            self.queue.push_back(change);
        }
        self.next(world);
    }

    fn next(&mut self, world: &mut World) {
        let pause = if self.queue.is_empty() { THINK_US } else { RETRY_US };
        if !self.draining || !self.queue.is_empty() {
            self.rest(world, pause);
        }
    }
}

fn hash_of(id: u64) -> String {
    Token::new(id, [id as u8; 32]).hash().to_string()
}

fn token_of(user: String, id: u64) -> CreateToken {
    CreateToken { user, expires_in_s: None, on: None, note: String::new(), id, hash: hash_of(id), of_request: false }
}

fn is_live(span: &Span) -> bool {
    span.given.is_some() && span.taking.is_none()
}

/// A refusal that says that the change is there.
fn is_already(change: Change, code: ErrorCode) -> bool {
    match change {
        Change::Root | Change::User(_) | Change::Admin => code == ErrorCode::UserExists,
        Change::AdminToken => code == ErrorCode::Conflict,
        Change::TakeOver(_) => code == ErrorCode::PermissionDenied,
        Change::DropToken { .. } => code == ErrorCode::NoSuchToken,
        Change::TakeBack(_) => code == ErrorCode::NoSuchRole,
        Change::Token { .. } | Change::Grant(_) => false,
    }
}
