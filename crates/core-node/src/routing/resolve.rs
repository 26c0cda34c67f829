//! Where a cluster is: asked of the world cluster's `reference` backend, once for all who wait; of others beside it where that
//! does not answer (location.rs).
//!
//! Always: one question a name at a time; those who wait are tried again or learn that there is no such
//! cluster; nothing negative is kept. Held by: `nothing_is_denied_while_the_world_is_silent`. Not here: the cache (cache.rs).

use crate::context::Turn;
use crate::flows::region::{region_key, RegionDocument};
use crate::routing::cache::Route;
use crate::routing::operation::{LastSeen, Operation, Owner, Phase};
use crate::routing::Routing;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, ClusterName, NodeId, ReadConsistency, Term, WriteConsistency};
use core::time::Duration;
use core_backends::reference::{ClusterRecord, ClusterState, Query, Reply};
use core_cluster::api::LocalKind;
use core_flow::{decode_call, failures, members_of, CallResult};
use std::sync::Arc;

/// How long one question to `reference` may take.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A query of the `reference` backend as an operation's kind.
pub fn reference_read(query: &Query) -> LocalKind {
    LocalKind::Read {
        backend: BackendKind::Reference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }
}

/// A record as a route.
pub fn route_of(record: &ClusterRecord) -> Route {
    Route {
        cluster: record.cluster,
        generation: record.generation,
        members: members_of(record).into(),
        leader: None,
        term: Term(0),
        rule: record.rule.clone(),
        consistency: record.consistency,
        read_consistency: record.read_consistency,
        clock: None,
        pinned: false,
        used: true,
    }
}

/// Other regions' level 0 clusters have a document, every other cluster has a record.
pub(crate) fn question_for(name: &ClusterName) -> Query {
    match name.tail().strip_prefix("region-") {
        Some(region) => Query::GetDocument { key: region_key(region) },
        None => Query::Resolve { name: name.clone() },
    }
}

impl Routing {
    /// Lets an operation wait until its cluster's location is known.
    pub fn wait_for_route(&mut self, turn: &mut Turn<'_>, number: u64, name: Arc<ClusterName>) {
        if self.know_own_replica(turn.core, number, &name) {
            return self.attempt(turn, number);
        }
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.phase = Phase::Resolving;
        operation.last =
            LastSeen::Event("nobody has told where it is yet; if the world's cluster has no leader, start its members");
        let (old, at) = (operation.timer, operation.deadline);
        operation.timer = at;
        turn.core.set_timer(crate::timers::TimerKey::Operation(number), old, at);
        let first = !self.resolving.contains_key(&name);
        self.resolving.entry(name.clone()).or_default().waiting.push(number);
        if first {
            turn.core.counters().resolves += 1;
            let kind = reference_read(&question_for(&name));
            let deadline = turn.now + RESOLVE_TIMEOUT;
            let question = Operation::new(Owner::Resolve(name.clone()), turn.core.world(), kind, turn.now, deadline);
            self.start_operation(turn, question);
            self.watch_cluster(turn, &name);
        }
    }

    /// `reference` answered, or could not be asked.
    pub fn on_resolved(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>, result: CallResult) {
        let search = self.resolving.remove(name);
        let waiting = self.end_search(turn.core, search);
        let reply = decode_call::<Reply>(result);
        self.locations.world_silent = reply.is_err();
        match reply {
            Ok((Reply::Resolved { record: Some(record), .. }, _)) if record.state == ClusterState::Active => {
                self.learn_record(turn, &record);
                self.attempt_all(turn, waiting);
            }
            Ok((Reply::Resolved { record: Some(record), .. }, _)) if record.state == ClusterState::Creating => {
                self.back_off_all(turn, &waiting, "it is being created");
            }
            Ok((Reply::Document { document: Some(document) }, _)) => match RegionDocument::from_bytes(document.body) {
                Ok(document) => {
                    self.learn_region(turn, name, document);
                    self.attempt_all(turn, waiting);
                }
                Err(_) => self.back_off_all(turn, &waiting, "its region's document cannot be read"),
            },
            Ok((Reply::Resolved { .. } | Reply::Document { .. }, _)) => {
                // What others told meanwhile is over.
                if let Some((cluster, generation)) =
                    self.routes.get(name).map(|route| (route.cluster, route.generation))
                {
                    self.routes.flush(name, cluster, generation);
                }
                for number in waiting {
                    self.end_unknown_cluster(turn, number, name);
                }
            }
            _ => self.back_off_all(turn, &waiting, "the world cluster could not be asked for it"),
        }
    }

    pub(crate) fn attempt_all(&mut self, turn: &mut Turn<'_>, waiting: Vec<u64>) {
        for number in waiting {
            if self.waits_for_route(number) {
                self.attempt(turn, number);
            }
        }
    }

    fn learn_region(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>, document: RegionDocument) {
        for member in &document.members {
            turn.want_address(member.node);
        }
        let route = Route {
            cluster: document.cluster,
            generation: document.generation,
            members: document.members.into(),
            leader: None,
            term: Term(0),
            rule: String::new(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            clock: None,
            pinned: false,
            used: true,
        };
        self.routes.put(name.clone(), route);
    }

    pub(crate) fn waits_for_route(&self, number: u64) -> bool {
        self.operations.get(&number).is_some_and(|operation| operation.phase == Phase::Resolving)
    }

    fn back_off_all(&mut self, turn: &mut Turn<'_>, waiting: &[u64], last: &'static str) {
        for number in waiting {
            if !self.waits_for_route(*number) {
                continue;
            }
            if let Some(operation) = self.operations.get_mut(number) {
                operation.last = LastSeen::Event(last);
            }
            self.back_off(turn, *number);
        }
    }

    fn end_unknown_cluster(&mut self, turn: &mut Turn<'_>, number: u64, name: &ClusterName) {
        let Some(operation) = self.operations.get(&number) else { return };
        let maybe = operation.maybe_applied && !planted(Mutant::DeletedMeansNotApplied);
        let failure = if operation.is_write() && maybe {
            failures::unknown(name, "the cluster was deleted meanwhile")
        } else {
            failures::unknown_cluster(name)
        };
        self.end(turn, number, Err(failure));
    }

    /// Takes what `reference` says of a cluster into the cache, and its members' addresses to the host.
    pub fn learn_record(&mut self, turn: &mut Turn<'_>, record: &ClusterRecord) {
        let nodes: Vec<NodeId> = record.members.iter().map(|member| member.node).collect();
        for node in nodes {
            turn.want_address(node);
        }
        self.routes.put(Arc::new(record.name.clone()), route_of(record));
    }
}
