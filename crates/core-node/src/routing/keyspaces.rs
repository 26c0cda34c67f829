//! The cached keyspace documents, and requests on keys while partitions move under them.
//!
//! Always: a request keeps its id wherever it goes; it is sent elsewhere only when a cluster has definitely
//! refused it, and then that cluster never takes it: an epoch that was given up does not come back. What was applied
//! is remembered by the cluster, and goes along when the partition moves. At most `KEYSPACES_MAX` documents.
//! Held by: `a_batch_asked_again_after_its_keys_have_parted_is_found_done`, `counters_survive_chaos`.
//! Not here: what a document means, how keys are found in it (keyspace/).

use crate::context::{CoreContext, Turn};
use crate::flows::copy::{CopyFlow, DocumentCopy};
use crate::routing::cache::RouteCache;
use crate::routing::location::Search;
use crate::routing::operation::{
    Asked, Goal, KeyspaceWork, LastSeen, Operation, Owner, Phase, Shape, Target, PENDING_REQUESTS_MAX,
};
use crate::routing::resolve::{reference_read, RESOLVE_TIMEOUT};
use crate::routing::{ClientWork, Routing, RoutingEvent};
use crate::timers::TimerKey;
use base_types::action::{Action, Failure, KeyspaceKind, Request};
use base_types::{ErrorCode, ErrorKind, Refusal, Tick, Ticket};
use bytes::Bytes;
use core::time::Duration;
use core_backends::reference::{Query, Reply};
use core_flow::{decode_call, CallReply, CallResult};
use core_keyspace::DocumentNews;
use core_keyspace::{document_key, retry_of, scan_planner, KeyspaceMap, Retry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a document waits before it is copied into the region's cluster, how many go at a time, and how long each may take.
const COPY_PAUSE: Duration = Duration::from_secs(1);
const COPIES_AT_ONCE: usize = 16;
pub const COPY_TIMEOUT: Duration = Duration::from_secs(60);
/// The most keyspaces remembered.
pub const KEYSPACES_MAX: usize = 10_000;

/// What is cached.
#[derive(Debug, Default)]
pub struct KeyspaceTable {
    pub maps: BTreeMap<String, KeyspaceMap>,
    /// Operations that wait for a document.
    pub fetching: BTreeMap<String, Search>,
    /// What the region's cluster is to hold copies of (`None`: no more), and when.
    to_copy: BTreeMap<String, Option<DocumentCopy>>,
    copies_timer: Tick,
}

/// Where an operation on keys goes next.
enum Located {
    /// To this cluster, with this.
    At(Target),
    /// No document here says where, or only one that proved wrong.
    Unknown,
    /// To all clusters of the keyspace, by a plan.
    Scan,
    /// Nowhere.
    Refused(Refusal),
}

impl Located {
    fn target(self) -> Option<Target> {
        match self {
            Located::At(target) => Some(target),
            Located::Unknown | Located::Scan | Located::Refused(_) => None,
        }
    }
}

impl KeyspaceTable {
    /// Where the keys lie by the cached document, and what their cluster is asked: built here, once for each cluster.
    fn locate(&mut self, routes: &mut RouteCache, work: &mut KeyspaceWork) -> Located {
        let usable = |map: &&KeyspaceMap| work.avoid.is_none_or(|avoid| map.version > avoid);
        let Some(map) = self.maps.get(&work.keyspace).filter(usable) else { return Located::Unknown };
        if matches!(work.action, Action::KvScan { .. }) && map.kind() == KeyspaceKind::Plain {
            return Located::Scan;
        }
        let routed = match map.route(&work.action) {
            Ok(routed) => routed,
            // A document that does not serve may be out of date.
            Err(refusal)
                if work.avoid.is_none()
                    && refusal.kind() != ErrorKind::Invalid
                    && refusal.kind() != ErrorKind::TooLarge =>
            {
                work.avoid = Some(map.version.saturating_sub(1));
                self.maps.remove(&work.keyspace);
                return Located::Unknown;
            }
            Err(refusal) => return Located::Refused(refusal),
        };
        work.place = false;
        (work.avoid, work.crosses) = (Some(map.version), routed.crosses);
        let name = match routes.find(routed.cluster) {
            Some((name, _)) => name.clone(),
            None => Arc::new(routed.cluster.clone()),
        };
        Located::At(Target { name, kind: work.kind(routed.backend, routed.payload) })
    }
}

impl Routing {
    /// A request on keys of a keyspace (all but scans).
    pub fn on_keyspace_request(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: Request,
        keyspace: String,
        deadline: Tick,
    ) {
        let granted = turn.core.access().grant(&request.caller);
        let request_id = request.request_id.unwrap_or_else(|| turn.core.random().request_id());
        let mut work = KeyspaceWork {
            keyspace,
            action: request.action,
            request_id,
            consistency: request.consistency,
            read_consistency: request.read_consistency,
            place: true,
            avoid: None,
            crosses: None,
        };
        // A full table refuses the operation: nothing is built for it.
        let target = match self.operations.len() < PENDING_REQUESTS_MAX {
            true => self.keyspaces.locate(&mut self.routes, &mut work).target(),
            false => None,
        };
        let owner = Owner::Client { ticket: Some(ticket), shape: Shape::Metadata };
        let goal = Goal::Keys { work: Box::new(work), target };
        let operation = Operation {
            after: request.after,
            granted: Some(granted),
            ..Operation::with_goal(owner, goal, turn.now, deadline)
        };
        self.start_client_operation(turn, ticket, operation);
    }

    /// Starts a client's operation and remembers it, so that the client can go away.
    pub fn start_client_operation(&mut self, turn: &mut Turn<'_>, ticket: Ticket, operation: Operation) {
        let number = turn.core.upcoming_number();
        self.clients.insert(ticket, ClientWork::Operation(number));
        self.start_operation(turn, operation);
    }

    /// Finds the cluster of an operation on keys (again), and makes the attempt.
    pub fn place(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Goal::Keys { work, target } = &mut operation.goal else { return };
        match self.keyspaces.locate(&mut self.routes, work) {
            Located::At(found) => {
                *target = Some(found);
                operation.tried.clear();
                self.attempt(turn, number)
            }
            Located::Unknown => self.wait_for_keyspace(turn, number),
            Located::Scan => self.scan(turn, number),
            Located::Refused(refusal) => self.end(turn, number, Err(refusal.into())),
        }
    }

    fn wait_for_keyspace(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Some(keyspace) = operation.keys().map(|work| work.keyspace.clone()) else { return };
        operation.phase = Phase::Resolving;
        operation.last = LastSeen::Event(
            "nobody has told where its keys are yet; if the world's cluster has no leader, start its members",
        );
        let (old, at) = (operation.timer, operation.deadline);
        operation.timer = at;
        turn.core.set_timer(TimerKey::Operation(number), old, at);
        let first = !self.keyspaces.fetching.contains_key(&keyspace);
        self.keyspaces.fetching.entry(keyspace.clone()).or_default().waiting.push(number);
        if first {
            let key = Bytes::from(document_key(&keyspace).into_bytes());
            let kind = reference_read(&Query::GetDocument { key });
            let deadline = turn.now + RESOLVE_TIMEOUT;
            let owner = Owner::Keyspace(keyspace.clone());
            let question = Operation::new(owner, turn.core.world(), kind, turn.now, deadline);
            self.start_operation(turn, question);
            self.watch_keyspace(turn, &keyspace);
        }
    }

    /// The world cluster told a keyspace's document, or could not be asked.
    pub fn on_keyspace_document(&mut self, turn: &mut Turn<'_>, keyspace: &str, result: CallResult) {
        let search = self.keyspaces.fetching.remove(keyspace);
        let waiting = self.end_search(turn.core, search);
        let reply = decode_call::<Reply>(result);
        self.locations.world_silent = reply.is_err();
        match reply {
            Ok((Reply::Document { document: Some(document) }, _)) => {
                let version = document.version;
                self.want_copy(turn, keyspace, Some(DocumentCopy { version, body: document.body.clone() }));
                self.learn_document(
                    turn,
                    DocumentNews { keyspace: keyspace.into(), version, body: Some(document.body) },
                );
                for number in waiting {
                    self.place_if_newer(turn, number, version);
                }
            }
            Ok((Reply::Document { document: None }, _)) => {
                if self.keyspaces.maps.remove(keyspace).is_some() {
                    self.want_copy(turn, keyspace, None);
                }
                for number in waiting {
                    let message = format!("keyspace '{}' does not exist; create it first", keyspace.escape_default());
                    let refusal = Refusal::new(ErrorCode::UnknownKeyspace, message);
                    self.end_waiting(turn, number, refusal);
                }
            }
            Ok(_) => {}
            Err(_) => {
                for number in waiting {
                    if self.operations.get(&number).is_some_and(|operation| operation.phase == Phase::Resolving) {
                        self.back_off(turn, number);
                    }
                }
            }
        }
    }

    /// What the world told of a keyspace is to be in the region's cluster, too: soon, for it may change again.
    pub(crate) fn want_copy(&mut self, turn: &mut Turn<'_>, keyspace: &str, copy: Option<DocumentCopy>) {
        if turn.core.level_zero().len() < 2 || self.keyspaces.to_copy.len() >= KEYSPACES_MAX {
            return;
        }
        self.keyspaces.to_copy.insert(keyspace.into(), copy);
        if self.keyspaces.copies_timer <= turn.now {
            self.set_copies_timer(turn.core, turn.now + COPY_PAUSE);
        }
    }

    fn set_copies_timer(&mut self, core: &mut CoreContext, at: Tick) {
        let old = core::mem::replace(&mut self.keyspaces.copies_timer, at);
        core.set_timer(TimerKey::Copies, old, at);
    }

    /// The copies that are due, some at a time.
    pub fn take_copies(&mut self, turn: &mut Turn<'_>) -> Vec<CopyFlow> {
        let Some(region) = turn.core.level_zero().get(1).map(|zero| (*zero.name).clone()) else { return Vec::new() };
        let due = core::iter::from_fn(|| self.keyspaces.to_copy.pop_first()).take(COPIES_AT_ONCE);
        let flows = due.map(|(keyspace, copy)| CopyFlow::new(region.clone(), &keyspace, copy)).collect();
        if !self.keyspaces.to_copy.is_empty() {
            self.set_copies_timer(turn.core, turn.now + COPY_PAUSE);
        }
        flows
    }

    /// A scan's keyspace is known: from here on it is a plan.
    fn scan(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.remove(&number) else { return };
        turn.core.cancel_timer(TimerKey::Operation(number), operation.timer);
        let (Owner::Client { ticket: Some(ticket), .. }, Goal::Keys { work, .. }) = (operation.owner, operation.goal)
        else {
            return;
        };
        let map = self.keyspaces.maps.get(&work.keyspace);
        if let Some(planner) = scan_planner(&work.action, map, work.read_consistency) {
            let asked = Asked { deadline: operation.deadline, granted: operation.granted };
            self.report(RoutingEvent::Scan { ticket, planner, asked });
        }
    }

    fn end_waiting(&mut self, turn: &mut Turn<'_>, number: u64, refusal: Refusal) {
        if self.operations.get(&number).is_some_and(|operation| operation.phase == Phase::Resolving) {
            self.end(turn, number, Err(refusal.into()));
        }
    }

    fn place_if_newer(&mut self, turn: &mut Turn<'_>, number: u64, version: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if operation.phase != Phase::Resolving {
            return;
        }
        let Some(work) = operation.keys_mut() else { return };
        if work.avoid.is_none_or(|avoid| version > avoid) {
            return self.place(turn, number);
        }
        match work.crosses.take() {
            Some(refusal) => self.end(turn, number, Err(refusal.into())),
            None => self.back_off(turn, number),
        }
    }

    /// Takes a document into the cache, if it is newer than what is there.
    pub fn learn_document(&mut self, turn: &mut Turn<'_>, news: DocumentNews) {
        let known = self.keyspaces.maps.get(&news.keyspace).map_or(0, |map| map.version);
        let Some(body) = news.body else {
            if news.version == 0 || news.version >= known {
                self.keyspaces.maps.remove(&news.keyspace);
            }
            return;
        };
        if news.version <= known {
            return;
        }
        match KeyspaceMap::from_body(news.version, body) {
            Ok(map) => {
                if self.keyspaces.maps.len() >= KEYSPACES_MAX {
                    self.keyspaces.maps.pop_first();
                }
                self.keyspaces.maps.insert(news.keyspace, map);
            }
            Err(refusal) => turn.note(
                crate::api::NoteLevel::Error,
                format!("the document of keyspace {} cannot be read: {refusal}", news.keyspace),
            ),
        }
    }

    /// A keyspace's operation ended. `Some`: it did for good; `None`: it continues.
    pub fn keyspace_retry(
        &mut self,
        turn: &mut Turn<'_>,
        mut operation: Operation,
        result: CallResult,
    ) -> Option<(Operation, CallResult)> {
        let Goal::Keys { work, .. } = &mut operation.goal else { return Some((operation, result)) };
        let (refusal, at) = match &result {
            Err(failure) => (Some(failure.refusal.clone()), failure.at),
            Ok(CallReply::Backend { reply, at, .. }) if core_backends::is_refusal(reply) => {
                (refusal_in(reply), Some(*at))
            }
            Ok(_) => (None, None),
        };
        let retry = refusal.as_ref().map_or(Retry::No, retry_of);
        let Some(refusal) = refusal.filter(|_| retry != Retry::No) else { return Some((operation, result)) };
        if turn.now >= operation.deadline || operation.attempt >= crate::routing::operation::ATTEMPTS_MAX {
            return Some((operation, Err(Failure { refusal, at, cluster: None })));
        }
        work.place = true;
        if retry == Retry::Later {
            work.avoid = None;
        }
        operation.maybe_applied = false;
        operation.last = LastSeen::Code(refusal.code);
        self.resume_operation(turn, operation, retry == Retry::Later);
        None
    }

    fn resume_operation(&mut self, turn: &mut Turn<'_>, mut operation: Operation, pause: bool) {
        let number = turn.core.next_number();
        if let Owner::Client { ticket: Some(ticket), .. } = operation.owner {
            self.clients.insert(ticket, ClientWork::Operation(number));
        }
        operation.timer = operation.deadline;
        turn.core.set_timer(TimerKey::Operation(number), Tick::NEVER, operation.timer);
        self.operations.insert(number, operation);
        if pause {
            self.back_off(turn, number);
        } else {
            self.attempt(turn, number);
        }
    }
}

fn refusal_in(reply: &Bytes) -> Option<Refusal> {
    struct Nothing;
    impl base_types::codec::Encode for Nothing {
        fn encode(&self, _: &mut base_types::codec::Writer) {}
        fn decode(_: &mut base_types::codec::Reader) -> Result<Self, base_types::codec::DecodeError> {
            Ok(Nothing)
        }
    }
    core_backends::decode_reply::<Nothing>(reply.clone()).err()
}
