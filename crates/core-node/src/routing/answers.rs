//! What comes back from an operation becomes the answer of its client.
//!
//! Always: every client's operation is answered exactly once, unless its client went away.
//! Held by: `a_client_that_went_away_is_not_answered`.
//! Not here: which operation or plan does a request (clients.rs), where it goes (router.rs).

use crate::api::Effect;
use crate::context::level_zero::WORLD_CLUSTER;
use crate::context::{CoreContext, Turn};
use crate::routing::cache::Route;
use crate::routing::operation::{Operation, Shape};
use crate::routing::{verification, Routing};
use base_types::action::{ActionResult, Answer, ClusterInfo, Failure, Level, MemberInfo, RedisReply, Response};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, ErrorKind, LogIndex, NodeId, Refusal, Term, Ticket};
use core_backends::reference::{ClusterRecord, Query, Reply};
use core_cluster::api::{ClusterDescription, LocalKind};
use core_flow::{decode_call, failures, members_of, CallReply, CallResult};
use core_keyspace::{read_redis_reply, read_reply, read_versioned_reply};
use core_placement::Rule;

impl Routing {
    /// A client's operation ended.
    pub fn finish_client(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Option<Ticket>,
        shape: Shape,
        operation: Operation,
        result: CallResult,
    ) {
        let Some((operation, result)) = self.keyspace_retry(turn, operation, result) else { return };
        let Some(answered) = ticket else { return };
        if let Some(spent) = operation.spent(turn) {
            turn.effects.list.push(Effect::Spent { ticket: answered, spent: Box::new(spent) });
        }
        let mut response = self.shape_response(turn.core, shape, &operation, result);
        match &mut response {
            Ok(answer) if answer.at.is_some() => answer.cluster = operation.target().map(|target| target.name.clone()),
            Err(failure) if failure.at.is_some() => {
                failure.cluster = operation.target().map(|target| target.name.clone())
            }
            _ => {}
        }
        self.reply(turn, ticket, response);
    }

    /// Answers a client.
    pub fn reply(&mut self, turn: &mut Turn<'_>, ticket: Option<Ticket>, mut response: Response) {
        let Some(ticket) = ticket else { return };
        let (at, cluster) = match &mut response {
            Ok(answer) => (answer.at, &mut answer.cluster),
            Err(failure) => (failure.at, &mut failure.cluster),
        };
        // Flows are ordered in the world cluster where they do not say otherwise.
        if cluster.is_none() && at.is_some_and(|at| at.cluster == WORLD_CLUSTER) {
            *cluster = Some(turn.core.world());
        }
        self.clients.remove(&ticket);
        if let Err(failure) = &response {
            turn.core.counters().requests_failed += 1;
            turn.core.counters().requests_unknown += u64::from(failure.refusal.kind() == ErrorKind::Unknown);
        }
        turn.effects.list.push(Effect::Reply { ticket, response });
    }

    fn shape_response(&self, core: &CoreContext, shape: Shape, operation: &Operation, result: CallResult) -> Response {
        match shape {
            Shape::Metadata | Shape::Redis | Shape::RedisCall | Shape::Versioned => {
                backend_response(shape, operation, result)
            }
            Shape::Describe => match result? {
                CallReply::Described(description) => {
                    let result = ActionResult::Cluster(self.description_info(core, &description));
                    Ok(Answer { result, at: None, level: None, cluster: None })
                }
                _ => Err(failures::internal("a description was answered by something else")),
            },
            Shape::Verify => match result? {
                CallReply::Verified(report) => {
                    let result = ActionResult::Verification(verification::info(&report));
                    Ok(Answer { result, at: None, level: None, cluster: None })
                }
                _ => Err(failures::internal("a verification was answered by something else")),
            },
            Shape::Done => match result? {
                CallReply::Done { at } => Ok(Answer { result: ActionResult::Done, at, level: None, cluster: None }),
                _ => Err(failures::internal("a change of a cluster was answered by something else")),
            },
            Shape::Resolve => self.resolve_response(core, result),
            Shape::List => self.list_response(core, operation.kind(), result),
        }
    }

    fn resolve_response(&self, core: &CoreContext, result: CallResult) -> Response {
        match decode_call::<Reply>(result)? {
            (Reply::Resolved { record: Some(record), .. }, at) => Ok(Answer {
                result: ActionResult::Cluster(self.record_info(core, &record)),
                at: Some(at),
                level: None,
                cluster: None,
            }),
            (Reply::Resolved { .. }, _) => Err(Refusal::new(
                ErrorCode::UnknownCluster,
                "the cluster does not exist; `hive ctl clusters` (ListClusters) lists those that do",
            )
            .into()),
            _ => Err(failures::internal("reference answered another question")),
        }
    }

    /// A page of `reference`, and the level 0 clusters this node knows that belong on it.
    fn list_response(&self, core: &CoreContext, asked: Option<&LocalKind>, result: CallResult) -> Response {
        match decode_call::<Reply>(result)? {
            (Reply::Records { records, more }, at) => {
                let next = records.last().filter(|_| more).map(|record| record.name.as_str().to_string());
                let mut clusters: Vec<ClusterInfo> =
                    records.iter().map(|record| self.record_info(core, record)).collect();
                let on_page = |name: &str| match asked {
                    Some(LocalKind::Read { query, .. }) => match Query::from_bytes(query.clone()) {
                        Ok(Query::List { prefix, start_after, .. }) => {
                            name.starts_with(&prefix)
                                && start_after.is_none_or(|after| name > after.as_str())
                                && next.as_ref().is_none_or(|next| name <= next.as_str())
                        }
                        _ => false,
                    },
                    _ => false,
                };
                for zero in core.level_zero().iter().filter(|zero| on_page(zero.name.as_str())) {
                    if let Some(route) = self.routes.get(&zero.name) {
                        clusters.push(self.route_info(core, (*zero.name).clone(), route));
                    }
                }
                clusters.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
                Ok(Answer {
                    result: ActionResult::Clusters { clusters, next },
                    at: Some(at),
                    level: None,
                    cluster: None,
                })
            }
            _ => Err(failures::internal("reference answered another question")),
        }
    }

    fn member_info(&self, core: &CoreContext, member: &core_cluster::api::Member, matched: LogIndex) -> MemberInfo {
        MemberInfo {
            node: member.node,
            replica: member.replica,
            learner: member.learner,
            matched,
            kept: None,
            moves: false,
            up: core.is_up(member.node),
        }
    }

    fn record_info(&self, core: &CoreContext, record: &ClusterRecord) -> ClusterInfo {
        let route = self.routes.get(&record.name).filter(|route| route.cluster == record.cluster);
        let members = members_of(record);
        let mut warnings =
            self.rule_warnings(core, &record.rule, &members.iter().map(|member| member.node).collect::<Vec<_>>());
        if record.state != core_backends::reference::ClusterState::Active {
            warnings.insert(0, format!("the cluster is not active: {:?}", record.state));
        }
        ClusterInfo {
            name: record.name.clone(),
            cluster: record.cluster,
            generation: record.generation,
            rule: record.rule.clone(),
            leader: route.and_then(|route| route.leader),
            term: route.map_or(Term(0), |route| route.term),
            commit: LogIndex(0),
            applied: LogIndex(0),
            consistency: record.consistency,
            read_consistency: record.read_consistency,
            members: members.iter().map(|member| self.member_info(core, member, LogIndex(0))).collect(),
            engine: None,
            warnings,
        }
    }

    /// What is known without asking of a cluster known by configuration.
    pub fn pinned_info(&self, core: &CoreContext, name: &ClusterName) -> Option<ClusterInfo> {
        let route = self.routes.get(name).filter(|route| route.pinned)?;
        Some(self.route_info(core, name.clone(), route))
    }

    fn route_info(&self, core: &CoreContext, name: ClusterName, route: &Route) -> ClusterInfo {
        ClusterInfo {
            name,
            cluster: route.cluster,
            generation: route.generation,
            rule: route.rule.clone(),
            leader: route.leader,
            term: route.term,
            commit: LogIndex(0),
            applied: LogIndex(0),
            consistency: route.consistency,
            read_consistency: route.read_consistency,
            members: route.members.iter().map(|member| self.member_info(core, member, LogIndex(0))).collect(),
            engine: None,
            warnings: Vec::new(),
        }
    }

    fn description_info(&self, core: &CoreContext, description: &ClusterDescription) -> ClusterInfo {
        let nodes: Vec<NodeId> = description.members.iter().map(|(member, _)| member.node).collect();
        let mut warnings = self.rule_warnings(core, &description.rule, &nodes);
        warnings.extend(engine_warning(description));
        let kept_by = |node| description.kept.iter().find(|(tail, _)| *tail == node).map(|(_, index)| *index);
        let members = description.members.iter();
        let members = members.map(|(member, matched)| MemberInfo {
            kept: kept_by(member.node),
            moves: member.replica < description.engine_since,
            ..self.member_info(core, member, *matched)
        });
        ClusterInfo {
            name: description.name.clone(),
            cluster: description.cluster,
            generation: description.generation,
            rule: description.rule.clone(),
            leader: description.leader,
            term: description.term,
            commit: description.commit,
            applied: description.applied,
            consistency: description.consistency,
            read_consistency: description.read_consistency,
            members: members.collect(),
            engine: Some(description.engine.clone()),
            warnings,
        }
    }

    fn rule_warnings(&self, core: &CoreContext, rule: &str, members: &[NodeId]) -> Vec<String> {
        match rule.parse::<Rule>() {
            Ok(rule) => core_placement::check(&rule, members, core.map().records()),
            Err(_) => Vec::new(),
        }
    }
}

/// What a cluster that moves to another engine has still before it.
fn engine_warning(description: &ClusterDescription) -> Option<String> {
    let stale = description.members.iter().filter(|(member, _)| member.replica < description.engine_since).count();
    let engine = description.rule.parse::<Rule>().ok().and_then(|rule| rule.engine)?;
    let members = description.members.len();
    (stale > 0).then(|| format!("{stale} of {members} replicas are still to be recreated in engine {engine}"))
}

fn backend_response(shape: Shape, operation: &Operation, result: CallResult) -> Response {
    let (reply, at, level) = match result? {
        CallReply::Backend { reply, at, level } => (reply, at, level),
        _ => return Err(failures::internal("an operation was answered without a reply")),
    };
    // Hopeful and eventual writes are acknowledged before they are applied: there is no reply yet.
    let early = operation.is_write() && matches!(level, Level::Write(_)) && reply.is_empty();
    let result = match shape {
        _ if early => Ok(ActionResult::Done),
        Shape::Redis => core_backends::decode_reply::<RedisReply>(reply).map(|reply| ActionResult::Redis { reply }),
        Shape::RedisCall => core_backends::decode_reply(reply).map(ActionResult::RedisCall),
        Shape::Versioned => core_backends::decode_reply(reply).map(|reply| ActionResult::Versioned(Box::new(reply))),
        _ => match (operation.keys(), operation.backend()) {
            (Some(work), Some(BackendKind::Versioned)) => read_versioned_reply(&work.action, reply),
            (Some(work), Some(BackendKind::Redis)) => read_redis_reply(&work.action, reply),
            _ => read_reply(reply),
        },
    };
    match result {
        Ok(result) => Ok(Answer { result, at: Some(at), level: Some(level), cluster: None }),
        Err(refusal) => Err(Failure { refusal, at: Some(at), cluster: None }),
    }
}
