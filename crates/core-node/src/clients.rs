//! Requests of clients: each action goes to the operation, plan or table that does it.
//!
//! Always: every request is answered exactly once, unless its client went away.
//! Held by: `a_client_that_went_away_is_not_answered`, `counters_survive_chaos`.
//! Not here: where an operation goes and what its client is answered (routing/), flows (flows/).

use crate::api::Effect;
use crate::context::{CoreContext, Turn};
use crate::flows::create::CreateFlow;
use crate::flows::decommission::DecommissionFlow;
use crate::flows::delete::DeleteFlow;
use crate::flows::forget::ForgetFlow;
use crate::flows::levels::LevelsFlow;
use crate::flows::members::{Change, MembersFlow};
use crate::flows::moving::MoveFlow;
use crate::flows::recover::{DiscardFlow, ListFlow, RecoverFlow};
use crate::flows::upgrade::UpgradeFlow;
use crate::membership::{status, Membership};
use crate::plan_runner::{AfterPlan, AnyPlanner, PlanRunner};
use crate::routing::operation::{Asked, Operation, Owner, Shape};
use crate::routing::resolve::reference_read;
use crate::routing::ClientWork;
use base_types::action::{
    Action, ActionResult, Answer, DrainInfo, Failure, KeyspaceKind, KvTarget, ReadAfter, Request,
};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::versioned::VersionedCall;
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, ReadConsistency, Refusal, Tick, Ticket, DEADLINE_MAX};
use bytes::Bytes;
use core_backends::reference::{Query, LIST_PAGE_MAX};
use core_cluster::api::{AdminCommand, LocalKind};
use core_flow::failures;
use core_keyspace::{
    follow_up, is_keyspace_cluster, plain_payload, planner_for, redis_payload, scan_planner, KeyspacePlanner, Payload,
};
use core_placement::Rule;
use core_s3::Terms;
use std::collections::BTreeSet;

/// What a client's request can turn to.
pub struct Clients<'a> {
    pub runner: &'a mut PlanRunner,
    pub membership: &'a mut Membership,
}

impl Clients<'_> {
    /// A client's request.
    pub fn on_request(&mut self, turn: &mut Turn<'_>, ticket: Ticket, asked: Tick, request: Request) {
        turn.core.counters().requests += 1;
        // From when the door had it, not from when this core came to it: a busy core must not work for clients that have
        // given up, or it never gets to those that have not.
        let since = if planted(Mutant::ExpiredIsDone) { turn.now } else { asked.min(turn.now) };
        let deadline = since + request.deadline.min(DEADLINE_MAX);
        if turn.now >= deadline {
            turn.core.counters().requests_expired += 1;
            return self.runner.routing_mut().reply(turn, Some(ticket), Err(failures::expired(turn.now.since(asked))));
        }
        if let Some(refusal) =
            turn.core.superseded().filter(|_| !matches!(request.action, Action::Status | Action::ListNodes))
        {
            return self.runner.routing_mut().reply(turn, Some(ticket), Err(refusal.into()));
        }
        let mut request = request;
        if let Err(refusal) = turn.core.access().authorize(&mut request) {
            turn.core.counters().requests_denied += 1;
            return self.runner.routing_mut().reply(turn, Some(ticket), Err(refusal.into()));
        }
        if let Some(keyspace) = keyspace_of(&request.action) {
            return self.runner.routing_mut().on_keyspace_request(turn, ticket, request, keyspace, deadline);
        }
        let granted = Some(turn.core.access().grant(&request.caller));
        if let Err(failure) = self.dispatch(turn, ticket, request, Asked { deadline, granted }) {
            self.runner.routing_mut().reply(turn, Some(ticket), Err(failure));
        }
    }

    fn dispatch(&mut self, turn: &mut Turn<'_>, ticket: Ticket, request: Request, asked: Asked) -> Result<(), Failure> {
        match &request.action {
            Action::KvPut { .. }
            | Action::KvGet { .. }
            | Action::KvDelete { .. }
            | Action::KvBatch { .. }
            | Action::KvCompareAndSet { .. }
            | Action::KvScan { target: KvTarget::Cluster(_), .. } => self.on_plain_kv(turn, ticket, &request, asked),
            Action::KvScan { target: KvTarget::Keyspace(keyspace), .. } => {
                let map = self.runner.routing().keyspace(keyspace);
                // Of several clusters a session's position names one: strong reads are never older.
                let level = request.after.map(|_| ReadConsistency::Strong).or(request.read_consistency);
                if map.is_none_or(|map| map.kind() != KeyspaceKind::Plain) {
                    let keyspace = keyspace.clone();
                    let request = Request { read_consistency: level, ..request };
                    self.runner.routing_mut().on_keyspace_request(turn, ticket, request, keyspace, asked.deadline);
                    return Ok(());
                }
                let planner = scan_planner(&request.action, map, level);
                self.run_planner(turn, ticket, &request, planner, asked)
            }
            Action::CreateKeyspace { rule, engine, .. } => {
                self.refuse_unknown_engine(turn.core, rule, engine.as_deref())?;
                let planner = planner_for(&request.action, None);
                self.run_planner(turn, ticket, &request, planner, asked)
            }
            Action::SetEngine { target: KvTarget::Cluster(name), .. } if name.is_level_zero() => {
                let message =
                    format!("the replicas of {name} are in each node's default engine (engine.default in node.toml)");
                Err(Refusal::new(ErrorCode::PlacementRefused, message).into())
            }
            Action::SetEngine { engine, .. } => {
                self.refuse_unknown_engine(turn.core, "", Some(engine))?;
                let planner = planner_for(&request.action, None);
                self.run_planner(turn, ticket, &request, planner, asked)
            }
            Action::DeleteKeyspace { .. }
            | Action::DescribeKeyspace { .. }
            | Action::ListKeyspaces
            | Action::Reshard { .. } => {
                let planner = planner_for(&request.action, None);
                self.run_planner(turn, ticket, &request, planner, asked)
            }
            Action::Redis { target: KvTarget::Cluster(name), .. }
            | Action::RedisCall { target: KvTarget::Cluster(name), .. } => {
                self.on_redis(turn, ticket, &request, name, asked)
            }
            Action::Versioned { target: KvTarget::Cluster(name), call } => {
                self.on_versioned(turn, ticket, &request, name, call, asked)
            }
            Action::S3(_) => self.on_s3(turn, ticket, request, asked),
            Action::Access(_) => self.on_access(turn, ticket, request, asked),
            Action::ListNodes => {
                let nodes = status::node_infos(turn.core, turn.now);
                self.answer(turn, ticket, ActionResult::Nodes { nodes })
            }
            Action::DrainNode { node, drained } => {
                let (node, drained) = (*node, *drained);
                if node != turn.core.node() {
                    return Err(other_node(turn.core, node));
                }
                turn.effects.list.push(Effect::Drained { drained });
                self.answer(turn, ticket, ActionResult::Drain(DrainInfo { node, drained, hand_overs_due: None }))
            }
            Action::Status => self.membership.on_status_request(turn, self.runner.routing_mut(), ticket),
            _ => self.on_cluster_action(turn, ticket, request, asked),
        }
    }

    fn answer(&mut self, turn: &mut Turn<'_>, ticket: Ticket, result: ActionResult) -> Result<(), Failure> {
        self.runner.routing_mut().reply(
            turn,
            Some(ticket),
            Ok(Answer { result, at: None, level: None, cluster: None }),
        );
        Ok(())
    }

    fn run_planner(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: &Request,
        planner: Option<Box<KeyspacePlanner>>,
        asked: Asked,
    ) -> Result<(), Failure> {
        let planner = planner.ok_or_else(|| failures::internal(format!("{} has no planner", request.action.name())))?;
        let read_only =
            matches!(request.action, Action::KvScan { .. } | Action::DescribeKeyspace { .. } | Action::ListKeyspaces);
        let after = AfterPlan { read_only, follow_up: follow_up(&request.action).map(AnyPlanner::from) };
        self.runner.start_client_plan(turn, ticket, planner.into(), asked, after);
        Ok(())
    }

    fn on_s3(&mut self, turn: &mut Turn<'_>, ticket: Ticket, request: Request, asked: Asked) -> Result<(), Failure> {
        let terms = Terms {
            consistency: request.consistency,
            read_consistency: request.read_consistency,
            request_id: request.request_id,
        };
        let Action::S3(call) = request.action else { return Err(failures::internal("not a call of S3")) };
        let after =
            AfterPlan { read_only: call.read_only(), follow_up: core_s3::follow_up(&call).map(AnyPlanner::from) };
        let planner = core_s3::planner_for(call, &terms)?;
        let planner = core_s3::check_owner(planner, request.expected_bucket_owner);
        self.runner.start_client_plan(turn, ticket, planner.into(), asked, after);
        Ok(())
    }

    fn on_access(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: Request,
        asked: Asked,
    ) -> Result<(), Failure> {
        let Action::Access(call) = request.action else { return Err(failures::internal("not a call on users")) };
        if !turn.core.access().required() {
            let message = "this world asks nobody who they are: users and roles would count for nothing; set access.required in every node.toml, or use `hive dev --secure`";
            return Err(Refusal::new(ErrorCode::AccessOff, message).into());
        }
        let after = AfterPlan { read_only: call.read_only(), ..AfterPlan::default() };
        let rule = turn.core.config().s3.rule.clone();
        let planner = core_access::planner_for(call, request.caller, &rule);
        self.runner.start_client_plan(turn, ticket, planner.into(), asked, after);
        Ok(())
    }

    fn on_plain_kv(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: &Request,
        asked: Asked,
    ) -> Result<(), Failure> {
        let Some(name) = plain_cluster(&request.action) else {
            return Err(failures::internal(format!("{} names no cluster", request.action.name())));
        };
        if !name.has(BackendKind::Metadata) {
            return Err(failures::no_backend(name, "metadata"));
        }
        refuse_s3_cluster(name)?;
        let kind = match plain_payload(&request.action)? {
            Payload::Write(command) => self.write_kind(turn.core, BackendKind::Metadata, command, request),
            Payload::Read(query) => {
                LocalKind::Read { backend: BackendKind::Metadata, query, consistency: request.read_consistency }
            }
        };
        let name = name.clone();
        self.session_operation(turn, ticket, Shape::Metadata, name, kind, (asked, request.after));
        Ok(())
    }

    fn write_kind(
        &mut self,
        core: &mut CoreContext,
        backend: BackendKind,
        command: Bytes,
        request: &Request,
    ) -> LocalKind {
        let request_id = request.request_id.unwrap_or_else(|| core.random().request_id());
        LocalKind::Write { backend, command, consistency: request.consistency, request_id, cluster_time_ms: 0 }
    }

    fn client_operation(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        shape: Shape,
        name: ClusterName,
        kind: LocalKind,
        asked: Asked,
    ) {
        self.session_operation(turn, ticket, shape, name, kind, (asked, None));
    }

    /// The same of a session that has seen a position.
    fn session_operation(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        shape: Shape,
        name: ClusterName,
        kind: LocalKind,
        (asked, after): (Asked, Option<ReadAfter>),
    ) {
        let owner = Owner::Client { ticket: Some(ticket), shape };
        let name = self.runner.routing_mut().shared_name(name);
        let operation =
            Operation { after, granted: asked.granted, ..Operation::new(owner, name, kind, turn.now, asked.deadline) };
        self.runner.routing_mut().start_client_operation(turn, ticket, operation);
    }

    fn on_redis(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: &Request,
        cluster: &ClusterName,
        asked: Asked,
    ) -> Result<(), Failure> {
        let backend = BackendKind::Redis;
        if !cluster.has(backend) {
            return Err(failures::no_backend(cluster, backend.name()));
        }
        let kind = match redis_payload(&request.action, cluster.as_str())? {
            Payload::Read(query) => LocalKind::Read { backend, query, consistency: request.read_consistency },
            Payload::Write(command) => {
                refuse_s3_cluster(cluster)?;
                core_backends::validate(backend, &command)?;
                self.write_kind(turn.core, backend, command, request)
            }
        };
        let shape = match request.action {
            Action::RedisCall { .. } => Shape::RedisCall,
            _ => Shape::Redis,
        };
        self.session_operation(turn, ticket, shape, cluster.clone(), kind, (asked, request.after));
        Ok(())
    }

    /// A call on a cluster that its client named.
    fn on_versioned(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: &Request,
        cluster: &ClusterName,
        call: &VersionedCall,
        asked: Asked,
    ) -> Result<(), Failure> {
        let backend = BackendKind::Versioned;
        if !cluster.has(backend) {
            return Err(failures::no_backend(cluster, backend.name()));
        }
        refuse_s3_cluster(cluster)?;
        core_keyspace::refuse_internal(call)?;
        let kind = match call {
            VersionedCall::Change(command) => {
                let command = command.to_bytes();
                core_backends::validate(backend, &command)?;
                self.write_kind(turn.core, backend, command, request)
            }
            VersionedCall::Ask(query) => {
                LocalKind::Read { backend, query: query.to_bytes(), consistency: request.read_consistency }
            }
        };
        self.session_operation(turn, ticket, Shape::Versioned, cluster.clone(), kind, (asked, request.after));
        Ok(())
    }

    /// An engine that no node of the world offers is a mistake in the request, not a want of nodes.
    pub(crate) fn refuse_unknown_engine(
        &self,
        core: &CoreContext,
        rule: &str,
        engine: Option<&str>,
    ) -> Result<(), Refusal> {
        let in_rule = rule.parse::<Rule>().ok().and_then(|rule| rule.engine);
        let Some(wanted) = engine.map(String::from).or(in_rule) else { return Ok(()) };
        let mut offered: BTreeSet<&str> = core.config().engines.iter().map(String::as_str).collect();
        offered.extend(core.map().records().flat_map(|record| record.engines.iter().map(String::as_str)));
        if offered.contains(wanted.as_str()) {
            return Ok(());
        }
        let offered: Vec<&str> = offered.into_iter().collect();
        let message = format!("no node offers engine '{wanted}'; choose one of {}", offered.join(", "));
        Err(Refusal::new(ErrorCode::UnknownEngine, message))
    }

    fn on_cluster_action(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        request: Request,
        asked: Asked,
    ) -> Result<(), Failure> {
        match request.action {
            Action::CreateCluster { name, rule } => {
                refuse_reserved(&name)?;
                self.refuse_unknown_engine(turn.core, &rule, None)?;
                let flow = CreateFlow::new(name, rule, turn.core.config().default_engine.clone());
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::DeleteCluster { name } => {
                refuse_reserved(&name)?;
                self.runner.start_client_plan(
                    turn,
                    ticket,
                    AnyPlanner::flow(DeleteFlow::new(name)),
                    asked,
                    AfterPlan::default(),
                );
            }
            Action::ResolveCluster { name } => {
                if let Some(info) = self.runner.routing().pinned_info(turn.core, &name) {
                    return self.answer(turn, ticket, ActionResult::Cluster(info));
                }
                let kind = reference_read(&Query::Resolve { name });
                self.client_operation(turn, ticket, Shape::Resolve, ClusterName::world(), kind, asked);
            }
            Action::ListClusters { prefix, start_after, limit } => {
                let limit = limit.clamp(1, LIST_PAGE_MAX);
                let kind = reference_read(&Query::List { prefix, start_after, limit });
                self.client_operation(turn, ticket, Shape::List, ClusterName::world(), kind, asked);
            }
            Action::DescribeCluster { name } => {
                self.client_operation(
                    turn,
                    ticket,
                    Shape::Describe,
                    name,
                    LocalKind::Admin(AdminCommand::Describe),
                    asked,
                );
            }
            Action::VerifyCluster { name, run } => {
                let kind = LocalKind::Admin(AdminCommand::Verify { run });
                self.client_operation(turn, ticket, Shape::Verify, name, kind, asked);
            }
            Action::SetDefaultConsistency { name, consistency, read_consistency } => {
                let flow = LevelsFlow::new(name, consistency, read_consistency);
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::TransferLeader { name, node } => {
                self.admin(turn, ticket, name, AdminCommand::TransferLeader { node }, asked)
            }
            Action::MoveMember { name, from, to: Some(to) } if name.is_level_zero() => {
                self.change_members(turn, ticket, name, Change::Replace { from, to }, asked);
            }
            Action::AddMember { name, node } if name.is_level_zero() => {
                self.change_members(turn, ticket, name, Change::Add(node), asked);
            }
            Action::MoveMember { name, from, to } => {
                let flow = match to {
                    Some(to) => MoveFlow::given(name, from, to, turn.core.map().records().cloned().collect()),
                    None => MoveFlow::elected(name, from, turn.core.random().next()),
                };
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::DecommissionNode { node } => {
                let flow = DecommissionFlow::new(node, true, turn.core.map().get(node));
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::RecommissionNode { node } => {
                let flow = DecommissionFlow::new(node, false, turn.core.map().get(node));
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::ForgetNode { node } => {
                self.runner.start_client_plan(
                    turn,
                    ticket,
                    AnyPlanner::flow(ForgetFlow::new(node)),
                    asked,
                    AfterPlan::default(),
                );
            }
            Action::UpgradeStatus | Action::FinalizeUpgrade => {
                let finalize = request.action == Action::FinalizeUpgrade;
                let flow = UpgradeFlow::new(turn.core.config().level_max, finalize);
                let after = AfterPlan { read_only: !finalize, ..AfterPlan::default() };
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, after);
            }
            Action::RecoverCluster { name, confirm, survivor } => {
                let flow = match name.is_level_zero() {
                    true => {
                        let (known, nodes) = self.membership.known_zero(turn.core, &name)?;
                        RecoverFlow::new(name, confirm.as_deref(), survivor, nodes)?.of_level_zero(known)
                    }
                    false => {
                        let nodes = turn.core.map().records().map(|record| (record.node, record.up)).collect();
                        RecoverFlow::new(name, confirm.as_deref(), survivor, nodes)?
                    }
                };
                let after = AfterPlan { read_only: confirm.is_none(), ..AfterPlan::default() };
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, after);
            }
            Action::ListRecoveries { name } => {
                let after = AfterPlan { read_only: true, ..AfterPlan::default() };
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(ListFlow::new(name)), asked, after);
            }
            Action::DiscardEnded { name, node } => {
                let flow = DiscardFlow::new(name, node, turn.core.map().get(node));
                self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
            }
            Action::SkipEntry { name, index } => {
                self.admin(turn, ticket, name, AdminCommand::SkipEntry { index }, asked)
            }
            Action::RemoveMember { name, node } => {
                self.change_members(turn, ticket, name, Change::Remove(node), asked);
            }
            Action::AddMember { name, node } => {
                let disk =
                    turn.core.map().get(node).map(|record| record.disk).ok_or_else(|| failures::unknown_node(node))?;
                self.admin(turn, ticket, name, AdminCommand::AddMember { node, disk }, asked);
            }
            other => return Err(failures::internal(format!("{} was not dispatched", other.name()))),
        }
        Ok(())
    }

    fn change_members(&mut self, turn: &mut Turn<'_>, ticket: Ticket, name: ClusterName, change: Change, asked: Asked) {
        let flow = MembersFlow::new(name, change, turn.core.map().records().cloned().collect());
        self.runner.start_client_plan(turn, ticket, AnyPlanner::flow(flow), asked, AfterPlan::default());
    }

    fn admin(&mut self, turn: &mut Turn<'_>, ticket: Ticket, name: ClusterName, command: AdminCommand, asked: Asked) {
        self.client_operation(turn, ticket, Shape::Done, name, LocalKind::Admin(command), asked);
    }

    /// A client went away.
    pub fn on_cancel(&mut self, ticket: Ticket) {
        match self.runner.routing_mut().forget_client(ticket) {
            Some(ClientWork::Operation(_)) => {}
            Some(ClientWork::Plan(number)) => self.runner.forget_client(number),
            None => self.membership.forget_client(ticket),
        }
    }
}

fn other_node(core: &CoreContext, asked: NodeId) -> Failure {
    let own = core.node();
    let message = match core.map().get(asked) {
        Some(record) => {
            format!("this is node {own}: ask node {asked}, whose clients reach it at {}", record.http_address)
        }
        None => {
            format!("this is node {own}, and it knows no node {asked}; `hive ctl nodes` lists those that are known")
        }
    };
    Refusal::new(ErrorCode::OtherNode, message).into()
}

fn keyspace_of(action: &Action) -> Option<String> {
    match action {
        Action::KvPut { target: KvTarget::Keyspace(keyspace), .. }
        | Action::KvGet { target: KvTarget::Keyspace(keyspace), .. }
        | Action::KvDelete { target: KvTarget::Keyspace(keyspace), .. }
        | Action::KvBatch { target: KvTarget::Keyspace(keyspace), .. }
        | Action::KvCompareAndSet { target: KvTarget::Keyspace(keyspace), .. }
        | Action::Redis { target: KvTarget::Keyspace(keyspace), .. }
        | Action::RedisCall { target: KvTarget::Keyspace(keyspace), .. }
        | Action::Versioned { target: KvTarget::Keyspace(keyspace), .. } => Some(keyspace.clone()),
        _ => None,
    }
}

fn plain_cluster(action: &Action) -> Option<&ClusterName> {
    match action {
        Action::KvPut { target: KvTarget::Cluster(name), .. }
        | Action::KvGet { target: KvTarget::Cluster(name), .. }
        | Action::KvDelete { target: KvTarget::Cluster(name), .. }
        | Action::KvBatch { target: KvTarget::Cluster(name), .. }
        | Action::KvCompareAndSet { target: KvTarget::Cluster(name), .. }
        | Action::KvScan { target: KvTarget::Cluster(name), .. } => Some(name),
        _ => None,
    }
}

/// Clusters that Hive makes for itself are not a client's to make or remove.
fn refuse_reserved(name: &ClusterName) -> Result<(), Failure> {
    let tail = name.tail();
    let own = tail == "world" || tail.starts_with("region-") || tail.starts_with("config-");
    if own || is_keyspace_cluster(name) || core_s3::is_reserved(name) || tail == core_access::RESERVED {
        let message = format!("cluster {name} is Hive's own (names behind '@' that are access or begin with world, region-, config-, ks-, bucket-, account- or s3-, and shards of buckets); take another name");
        return Err(Refusal::new(ErrorCode::InvalidClusterName, message).into());
    }
    Ok(())
}

/// What S3 metadata is kept in is changed by S3's calls alone, and accounts' secrets are read by none but them.
fn refuse_s3_cluster(name: &ClusterName) -> Result<(), Failure> {
    if name.tail() == core_access::RESERVED {
        let message =
            format!("cluster {name} holds users and tokens; use CreateUser, CreateToken, … (docs/guides/access.md)");
        return Err(Refusal::new(ErrorCode::InvalidClusterName, message).into());
    }
    if !core_s3::is_reserved(name) {
        return Ok(());
    }
    let message = format!("cluster {name} holds S3 metadata; use the S3 actions (docs/guides/s3.md)");
    Err(Refusal::new(ErrorCode::InvalidClusterName, message).into())
}
