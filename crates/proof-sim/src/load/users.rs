//! Clients that are users: each acts by a token that it has or had, on keys that it may reach or not; and what is made of every
//! answer in a world that wants to know who asks.
//!
//! Always: an answer is judged by what the node that was asked must have known when it was asked; that a write or a strong read was
//! done, also by what its leader must have known. Clients of other kinds act as root.
//! Not here: who may do what (`users`, proof-check), how new a copy must be (`world/access.rs`).

use super::draw::{action_of, Draw, Drawn, STRONG_READ, STRONG_WRITE};
use super::{Kind, Load};
use crate::load::people::{Users, NOBODY, ROOT_TOKEN};
use crate::world::World;
use base_types::access::Caller;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Level, Response};
use base_types::{ErrorCode, ReadConsistency};
use bytes::Bytes;
use proof_check::{Operation, Place, Violation};

/// Keys below each prefix.
const KEYS: u64 = 6;
/// Of the prefixes that a client had, it mostly uses this many of the latest.
const LATEST: usize = 3;

/// Who asked, and how new the copies had to be.
#[derive(Clone, Default)]
pub(super) struct Asker {
    pub credential: Option<u64>,
    /// What each node knew when the operation was first asked for, and when that was.
    first: Vec<u64>,
    first_at: u64,
    /// What the asked node knew when it was asked last.
    entry: u64,
}

impl Asker {
    /// It is about to ask a node.
    pub fn asks(&mut self, world: &World, node: usize) {
        if self.credential.is_none() {
            return;
        }
        if self.first.is_empty() {
            (self.first, self.first_at) = (world.touch.all_known(), world.now);
        }
        self.entry = world.touch.known_since(node);
    }

    /// As whom.
    pub fn caller(&self, otherwise: Caller) -> Caller {
        self.credential.map_or(otherwise, |credential| Caller::Identity { credential, decided_at: None })
    }
}

impl Load {
    /// Whom a client's next operation comes from; nobody is asked in other worlds.
    pub(super) fn asker(&mut self, client: usize) -> Asker {
        let Some(users) = &self.users else { return Asker::default() };
        let this = &mut self.clients[client];
        let credential = match this.person {
            None => ROOT_TOKEN,
            Some(person) => {
                let tokens = &users.person(person).tokens;
                match (this.random.below(100), tokens.last()) {
                    (0..=4, _) | (_, None) => NOBODY,
                    (5..=29, _) => *this.random.pick(tokens),
                    (_, Some(newest)) => *newest,
                }
            }
        };
        Asker { credential: Some(credential), ..Asker::default() }
    }

    /// What a user asks next.
    pub(super) fn draw_of_user(&mut self, client: usize) -> Option<Drawn> {
        let (clusters, keyspaces) = (self.targets.clusters.len(), self.targets.keyspaces.len());
        let plan = self.plan.clone();
        let users = self.users.as_ref()?;
        let this = &mut self.clients[client];
        let person = this.person?;
        this.written += 1;
        let of = if this.random.per_mille(800) { Some(person) } else { None };
        let prefixes = users.prefixes(of);
        let latest = prefixes.len().saturating_sub(LATEST);
        let among = if this.random.per_mille(700) { &prefixes[latest..] } else { &prefixes[..] };
        let prefix = if among.is_empty() { Bytes::from_static(b"Q") } else { this.random.pick(among).clone() };
        let raw = keyspaces == 0 || this.random.per_mille(150);
        let (place, target) = if raw {
            let number = this.random.below(clusters as u64) as usize;
            (number, KvTarget::Cluster(self.targets.clusters.get(number)?.clone()))
        } else {
            let number = this.random.below(keyspaces as u64) as usize;
            (clusters + number, KvTarget::Keyspace(self.targets.keyspaces.get(number)?.clone()))
        };
        let mut draw = Draw { client, plan: &plan, random: &mut this.random, written: this.written };
        let operation = draw.of_user(&prefix);
        let level = match operation {
            Operation::Put { .. } | Operation::Delete { .. } => STRONG_WRITE,
            _ if draw.random.per_mille(200) => Level::Read(ReadConsistency::Eventual),
            _ => STRONG_READ,
        };
        let action = action_of(&operation, target)?;
        Some(Drawn::Recorded(Place(place as u32), operation, level, action))
    }

    /// What an answer says of who may do what.
    pub(super) fn judge_access(&mut self, world: &mut World, client: usize, response: &Response) {
        let (Some(users), Some(open)) = (&self.users, self.clients[client].open.as_ref()) else { return };
        let Some(credential) = open.asker.credential else { return };
        let lost = |node: usize| world.touch.directory_lost_at(node) >= open.asker.first_at;
        let entry = if lost(open.node) { 0 } else { open.asker.entry };
        let found = match response {
            Ok(answer) => {
                let owner = leader_of(world, open.record, &self.history, answer).filter(|owner| *owner != open.node);
                let by_owner = owner.filter(|owner| !lost(*owner)).and_then(|owner| open.asker.first.get(owner));
                let window = (entry.max(by_owner.copied().unwrap_or_default()), world.now);
                if users.book.is_gone(credential, entry) {
                    world.probe("revoked_token_done");
                } else if users.book.is_gone(credential, world.now) {
                    world.probe("revoked_token_done_in_its_window");
                }
                let shown = shown(&open.action, answer)
                    .and_then(|(target, keys)| users.book.check_shown(credential, target, keys.iter(), window));
                users.book.check_done(credential, &open.action, window).or(shown)
            }
            Err(failure) => {
                let code = failure.refusal.code;
                match code {
                    ErrorCode::Unauthenticated => world.probe("unauthenticated"),
                    ErrorCode::PermissionDenied => world.probe("permission_denied"),
                    ErrorCode::PermissionsChanged => world.probe("permissions_changed"),
                    _ => {}
                }
                if matches!(code, ErrorCode::Unauthenticated | ErrorCode::PermissionDenied) {
                    self.denied.insert(open.record);
                }
                users.book.check_denied(credential, &open.action, code, (entry, world.now))
            }
        };
        let Some(found) = found else { return };
        let message = format!(
            "client {client} by token {credential} through node {}, {:?}, asked at {}: {found}",
            open.node + 1,
            open.action,
            open.asked_at
        );
        let records = if open.record == usize::MAX { vec![] } else { vec![open.record as u64] };
        world.violate(Violation::new("access", message, records));
    }
}

/// The node that led the cluster where a write or a strong read was done: it looked, too, before it did it.
fn leader_of(world: &World, record: usize, history: &proof_check::History, answer: &Answer) -> Option<usize> {
    let record = history.records.get(record)?;
    let at = answer.at?;
    if record.level == Level::Read(ReadConsistency::Eventual) {
        return None;
    }
    let leader = world.leaders.sole_leader(at.cluster, at.generation, at.term, at.term)?;
    world.index_of(leader)
}

/// The keys that a listing showed.
fn shown<'a>(action: &'a Action, answer: &Answer) -> Option<(&'a KvTarget, Vec<Bytes>)> {
    match (action, &answer.result) {
        (Action::KvScan { target, .. }, ActionResult::Page { entries, .. }) => {
            Some((target, entries.iter().map(|(key, _)| key.clone()).collect()))
        }
        _ => None,
    }
}

impl Draw<'_> {
    /// Something below a prefix, or a scan that begins below it.
    fn of_user(&mut self, prefix: &Bytes) -> Operation {
        let number = self.random.below(KEYS);
        let key = Bytes::from([prefix, format!("{number}").as_bytes()].concat());
        match self.random.below(100) {
            0..=39 => Operation::Put { key, value: self.value(0) },
            40..=59 => Operation::Get { key },
            60..=67 => Operation::Delete { key },
            draw => {
                let inside = draw < 84;
                let end = (!inside && draw < 90).then(|| Bytes::from([prefix, &b"8"[..]].concat()));
                Operation::Scan {
                    prefix: if inside { prefix.clone() } else { Bytes::new() },
                    start_after: (!inside || self.random.per_mille(300)).then_some(key),
                    end,
                    limit: *self.random.pick(&[2, 100]),
                    reverse: self.random.per_mille(200),
                    keys_only: false,
                }
            }
        }
    }
}

/// The person of each client that is a user, in the order of such clients.
pub(super) fn person(kind: Kind, number: u64) -> Option<usize> {
    (kind == Kind::User).then(|| Users::person_of(number))
}
