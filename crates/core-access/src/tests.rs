//! Planners of the directory on a cluster in memory.

mod gifts;

use crate::family::{AccessPlanner, AccessState};
use crate::{planner_for, sync};
use base_access::{Directory, Token};
use base_types::access::*;
use base_types::action::{ActionResult, Level};
use base_types::{ErrorCode, OrderedAt, ReadConsistency, Refusal, Tick, WriteConsistency};
use core_backends::testing::MapSpace;
use core_backends::ApplyContext;
use core_flow::{Call, CallReply, CallResult, PlanContext, Random, Step};
use std::sync::Arc;

/// A world of one cluster, and the copies of its nodes.
struct World {
    space: Option<MapSpace>,
    now_ms: u64,
    random: Random,
    index: u64,
    nodes: Vec<AccessState>,
    /// Nobody's copy catches up by itself.
    no_sync: bool,
}

struct Running {
    planner: Box<AccessPlanner>,
    node: usize,
    calls: Vec<Call>,
    asked: usize,
    response: Option<Result<AccessAnswer, Refusal>>,
}

impl World {
    fn new(nodes: usize) -> World {
        let nodes = (0..nodes).map(|_| AccessState::default()).collect();
        World { space: None, now_ms: 1_700_000_000_000, random: Random::new(7), index: 0, nodes, no_sync: false }
    }

    fn call(&mut self, call: Call) -> CallResult {
        self.index += 1;
        let refused = |code: ErrorCode| Refusal::new(code, "in the test").into();
        let at = OrderedAt { index: base_types::LogIndex(self.index), ..OrderedAt::default() };
        let (reply, level) = match call {
            Call::CreateCluster { .. } if self.space.is_some() => return Err(refused(ErrorCode::ClusterExists)),
            Call::CreateCluster { .. } => {
                self.space = Some(MapSpace::default());
                return Ok(CallReply::Done { at: None });
            }
            Call::Read { backend, query, .. } => {
                let space = self.space.as_ref().ok_or_else(|| refused(ErrorCode::UnknownCluster))?;
                let reply = core_backends::query(backend, self.now_ms, space, &query).unwrap();
                (reply, Level::Read(ReadConsistency::Strong))
            }
            Call::Write { backend, command, .. } => {
                let space = self.space.as_mut().ok_or_else(|| refused(ErrorCode::UnknownCluster))?;
                let context = ApplyContext {
                    life: base_types::Generation(1),
                    index: base_types::LogIndex(self.index),
                    position: 0,
                    cluster_time_ms: self.now_ms,
                };
                let reply = core_backends::apply(backend, context, space, &command).unwrap();
                (reply, Level::Write(WriteConsistency::Strong))
            }
            other => panic!("not a call of the directory: {other:?}"),
        };
        Ok(CallReply::Backend { reply, at, level })
    }

    fn begin(&mut self, node: usize, planner: Box<AccessPlanner>) -> Running {
        let mut running = Running { planner, node, calls: Vec::new(), asked: 0, response: None };
        let step = self.enter(&mut running, |planner, context| planner.start(context));
        self.take(&mut running, step);
        running
    }

    fn enter(
        &mut self,
        running: &mut Running,
        what: impl FnOnce(&mut AccessPlanner, &mut PlanContext<'_, AccessState>) -> Step,
    ) -> Step {
        let mut context = PlanContext {
            now: Tick(0),
            deadline: Tick::NEVER,
            node: base_types::NodeId(1),
            region: "r",
            random: &mut self.random,
            unix_ms: self.now_ms,
            machine_load: 0,
            state: &mut self.nodes[running.node],
        };
        what(running.planner.as_mut(), &mut context)
    }

    fn take(&mut self, running: &mut Running, step: Step) {
        match step {
            Step::Calls(calls) => running.calls.extend(calls),
            Step::Wait(pause) => {
                self.now_ms += pause.as_millis() as u64;
                if core::mem::take(&mut self.nodes[running.node].wanted) && !self.no_sync {
                    self.sync(running.node);
                }
                let step = self.enter(running, |planner, context| planner.on_wake(context));
                self.take(running, step);
            }
            Step::Done(response) => {
                running.response = Some(match response {
                    Ok(answer) => match answer.result {
                        ActionResult::Access(answer) => Ok(answer),
                        _ => Ok(AccessAnswer::Done),
                    },
                    Err(failure) => Err(failure.refusal),
                });
            }
        }
    }

    /// Carries out one call.
    fn step(&mut self, running: &mut Running) {
        let call = running.calls.remove(0);
        let result = self.call(call);
        let index = running.asked;
        running.asked += 1;
        let step = self.enter(running, |planner, context| planner.on_result(context, index, result));
        self.take(running, step);
    }

    fn finish(&mut self, mut running: Running) -> Result<AccessAnswer, Refusal> {
        for _ in 0..10_000 {
            if let Some(response) = running.response {
                return response;
            }
            self.step(&mut running);
        }
        panic!("a planner does not end")
    }

    /// Brings a node's copy up to date, as core-node and the host do.
    fn sync(&mut self, node: usize) {
        let running = self.begin(node, sync());
        self.finish(running).unwrap();
        let state = &mut self.nodes[node];
        state.directory = state.found.take().expect("a sync finds a copy");
    }

    fn ask(&mut self, node: usize, call: impl Into<AccessAction>) -> Result<AccessAnswer, Refusal> {
        self.ask_as(node, None, call)
    }

    fn ask_as(&mut self, node: usize, by: Option<u64>, call: impl Into<AccessAction>) -> Result<AccessAnswer, Refusal> {
        let by = by.map_or(Caller::Node, |credential| Caller::Identity { credential, decided_at: None });
        let running = self.begin(node, planner_for(call.into(), by, "size=3"));
        self.finish(running)
    }

    fn directory(&self, node: usize) -> Arc<Directory> {
        self.nodes[node].directory.clone()
    }

    fn epoch(&self, node: usize) -> u64 {
        self.nodes[node].directory.epoch()
    }
}

fn create_user(user: &str, roles: &[&str]) -> CreateUser {
    let roles = roles.iter().map(|role| role.to_string()).collect();
    CreateUser { user: user.into(), service: false, roles, password: None, password_hash: None, namespace: None, id: 0 }
}

fn create_token(user: &str, id: u64) -> (Token, CreateToken) {
    let token = Token::new(id, [id as u8; 32]);
    let call = CreateToken {
        user: user.into(),
        expires_in_s: None,
        on: None,
        note: String::new(),
        id,
        hash: token.hash().to_string(),
        of_request: false,
    };
    (token, call)
}

fn revoke(id: u64) -> RevokeToken {
    RevokeToken { id: format!("{id:016x}"), user: None }
}

#[test]
fn a_user_with_a_token_is_let_in_until_it_is_revoked() {
    let mut world = World::new(2);
    world.ask(0, create_user("alice", &["writer on kv/a/"])).unwrap();
    let (token, call) = create_token("alice", 77);
    world.ask(0, call).unwrap();
    assert!(world.directory(0).proves(&token), "the node that answered has it at once");
    assert!(!world.directory(1).proves(&token));
    world.sync(1);
    assert!(world.directory(1).proves(&token));
    let at = world.epoch(1);
    world.ask(1, revoke(77)).unwrap();
    assert!(!world.directory(1).proves(&token) && !world.directory(1).holds(77, at));
    assert_eq!(world.ask(1, revoke(77)).unwrap_err().code, ErrorCode::NoSuchToken);
}

#[test]
fn a_user_has_a_namespace_until_it_is_taken_away() {
    let mut world = World::new(1);
    let made = CreateUser { namespace: Some("team".into()), ..create_user("ann", &[]) };
    world.ask(0, made).unwrap();
    let set = |namespace: Option<&str>| ChangeUser {
        user: "ann".into(),
        disabled: None,
        password: None,
        no_password: false,
        password_hash: None,
        namespace: namespace.map(String::from),
        id: 0,
    };
    let shown = |world: &mut World| match world.ask(0, DescribeUser { user: "ann".into() }) {
        Ok(AccessAnswer::User(user)) => user.namespace,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&mut world).as_deref(), Some("team"));
    world.ask(0, set(None)).unwrap();
    assert_eq!(shown(&mut world).as_deref(), Some("team"), "another change leaves it");
    world.ask(0, set(Some("other"))).unwrap();
    assert_eq!(shown(&mut world).as_deref(), Some("other"));
    assert_eq!(world.ask(0, set(Some("no name"))).unwrap_err().code, ErrorCode::InvalidField);
    let wrong = CreateUser { namespace: Some(String::new()), ..create_user("bob", &[]) };
    assert_eq!(world.ask(0, wrong).unwrap_err().code, ErrorCode::InvalidField);
    world.ask(0, set(Some(""))).unwrap();
    assert_eq!(shown(&mut world), None);
}

fn create_s3_key(world: &World, user: &str, id: u64) -> CreateS3Key {
    CreateS3Key {
        user: user.into(),
        expires_in_s: Some(60),
        on: Some("bucket/b/".into()),
        note: "backup".into(),
        id,
        user_id: world.directory(0).user(user).map_or(0, |row| row.id),
        sealed_by: "00112233".into(),
        sealed: "sealed".into(),
        of_request: false,
    }
}

#[test]
fn s3_keys_are_made_and_revoked() {
    let mut world = World::new(1);
    world.ask(0, create_user("alice", &["writer on bucket/b"])).unwrap();
    for id in [8, 9] {
        let call = create_s3_key(&world, "alice", id);
        let AccessAnswer::S3Key(made) = world.ask(0, call).unwrap() else { panic!("no key") };
        assert_eq!((made.access_key, made.secret_key), (base_access::access_key_of(id), None));
    }
    let list = ListS3Keys { limit: Some(1), ..ListS3Keys::default() };
    let AccessAnswer::S3Keys(page) = world.ask(0, list).unwrap() else { panic!("no keys") };
    assert_eq!((page.keys.len(), page.next.as_deref()), (1, Some(base_access::access_key_of(8).as_str())));
    // Sealed for an earlier user of that name; an id that is taken; nobody's.
    let call = CreateS3Key { user_id: 1, ..create_s3_key(&world, "alice", 10) };
    assert_eq!(world.ask(0, call).unwrap_err().code, ErrorCode::Conflict);
    let call = create_s3_key(&world, "alice", 9);
    assert_eq!(world.ask(0, call).unwrap_err().code, ErrorCode::Conflict);
    let call = create_s3_key(&world, "bob", 10);
    assert_eq!(world.ask(0, call).unwrap_err().code, ErrorCode::NoSuchUser);
    let revoke = |user: &str| RevokeS3Key { access_key: base_access::access_key_of(8), user: Some(user.into()) };
    assert_eq!(world.ask(0, revoke("bob")).unwrap_err().code, ErrorCode::NoSuchS3Key);
    let at = world.epoch(0);
    world.ask(0, revoke("alice")).unwrap();
    assert!(!world.directory(0).holds(8, at) && world.directory(0).identity(8).is_none());
    world.ask(0, DeleteUser { user: "alice".into() }).unwrap();
    assert!(world.directory(0).s3_key(&base_access::access_key_of(9)).is_none(), "keys go with their user");
}

#[test]
fn a_repeated_request_makes_nothing_twice() {
    let mut world = World::new(2);
    let alice = CreateUser { id: 77, ..create_user("alice", &["writer on bucket/b"]) };
    for node in [0, 1] {
        world.ask(node, alice.clone()).unwrap();
        world.sync(1 - node);
    }
    assert_eq!(world.directory(0).user("alice").map(|user| user.id), Some(77));
    let other = CreateUser { id: 78, ..alice.clone() };
    assert_eq!(world.ask(0, other).unwrap_err().code, ErrorCode::UserExists, "another request");
    let taken = CreateUser { id: 77, ..create_user("bob", &[]) };
    assert_eq!(world.ask(0, taken).unwrap_err().code, ErrorCode::Conflict, "nobody gets another's id");
    a_repeated_request_finds_its_tenant_group_and_role(&mut world);
    // The secret whose answer was lost opens nothing.
    let (first, call) = create_token("alice", 8);
    let call = CreateToken { of_request: true, ..call };
    world.ask(0, call.clone()).unwrap();
    let second = Token::new(8, [9; 32]);
    let again = CreateToken { hash: second.hash().to_string(), ..call.clone() };
    world.ask(0, again.clone()).unwrap();
    assert!(world.directory(0).proves(&second) && !world.directory(0).proves(&first));
    let other = CreateToken { note: "another".into(), ..again.clone() };
    assert_eq!(world.ask(0, other).unwrap_err().code, ErrorCode::Conflict, "not the same request");
    assert_eq!(world.ask(0, CreateToken { of_request: false, ..again }).unwrap_err().code, ErrorCode::Conflict);
    let key = CreateS3Key { of_request: true, ..create_s3_key(&world, "alice", 9) };
    world.ask(0, key.clone()).unwrap();
    world.ask(0, CreateS3Key { sealed: "another".into(), ..key }).unwrap();
    let sealed = world.directory(0).s3_key(&base_access::access_key_of(9)).map(|key| key.sealed.clone());
    assert_eq!(sealed.as_deref(), Some("another"));
    // What was revoked does not come back.
    world.ask(0, RevokeToken { id: format!("{:016x}", 8), user: None }).unwrap();
    assert_eq!(world.ask(0, call).unwrap_err().code, ErrorCode::Conflict);
}

fn a_repeated_request_finds_its_tenant_group_and_role(world: &mut World) {
    let tenant = |id: u64| CreateTenant { tenant: "shop".into(), owns: vec!["kv/shop-*".into()], id };
    let group = |id: u64| CreateGroup { id, ..create_group("devs", &["reader"]) };
    let role = |id: u64, verbs: &str| CreateRole {
        role: "own".into(),
        rules: vec![RuleText { verbs: verbs.into(), on: "kv/a".into() }],
        replace: false,
        grantable: false,
        id,
    };
    let first: [AccessAction; 3] = [tenant(81).into(), group(82).into(), role(83, "read").into()];
    for call in &first {
        world.ask(0, call.clone()).unwrap();
    }
    // Others change what was made before the retry comes: it was made, and the retry takes nothing back.
    world.ask(0, CreateGroup { replace: true, ..group(92) }).unwrap();
    world.ask(0, CreateRole { replace: true, ..role(93, "write") }).unwrap();
    let epoch = world.epoch(0);
    for node in [0, 1] {
        world.sync(node);
        for call in &first {
            assert_eq!(world.ask(node, call.clone()), Ok(AccessAnswer::Done), "{call:?}");
        }
    }
    world.sync(0);
    assert_eq!(world.epoch(0), epoch, "a retry changes nothing");
    repeated_replacements_take_nothing_back(world, &group, &role);
    let others: [(AccessAction, ErrorCode); 6] = [
        (tenant(71).into(), ErrorCode::TenantExists),
        (group(72).into(), ErrorCode::GroupExists),
        (role(73, "read").into(), ErrorCode::RoleExists),
        (tenant(0).into(), ErrorCode::TenantExists),
        (CreateTenant { tenant: "other".into(), ..tenant(81) }.into(), ErrorCode::Conflict),
        (CreateRole { role: "other".into(), ..role(81, "read") }.into(), ErrorCode::Conflict),
    ];
    for (call, code) in others {
        assert_eq!(world.ask(0, call.clone()).unwrap_err().code, code, "{call:?}");
    }
}

/// The role `own` and the group `devs` are there, as requests 93 and 92 left them.
fn repeated_replacements_take_nothing_back(
    world: &mut World,
    group: &dyn Fn(u64) -> CreateGroup,
    role: &dyn Fn(u64, &str) -> CreateRole,
) {
    let role = |id: u64, verbs: &str| CreateRole { replace: true, ..role(id, verbs) };
    let group = |id: u64, claim: &str| CreateGroup { replace: true, claim: Some(claim.into()), ..group(id) };
    // The second changes nothing, and is remembered all the same.
    for (id, verbs, claim) in [(94, "read", "a"), (95, "read", "a"), (96, "list", "b")] {
        world.ask(0, role(id, verbs)).unwrap();
        world.ask(0, group(id + 100, claim)).unwrap();
    }
    let epoch = world.epoch(0);
    for (id, verbs, claim) in [(93, "write", "devs"), (94, "read", "a"), (95, "read", "a")] {
        assert_eq!(world.ask(0, role(id, verbs)), Ok(AccessAnswer::Done));
        let id = if id == 93 { 92 } else { id + 100 };
        assert_eq!(world.ask(0, group(id, claim)), Ok(AccessAnswer::Done));
    }
    assert_eq!(world.epoch(0), epoch, "a retry takes a later change back");
    // A request that is none of these is a new one.
    world.ask(0, role(97, "write")).unwrap();
    assert_eq!(world.epoch(0), epoch + 1);
}

#[test]
fn an_answer_waits_for_the_copy() {
    let mut world = World::new(1);
    world.ask(0, create_user("alice", &[])).unwrap();
    world.no_sync = true;
    let before = world.epoch(0);
    let running = world.begin(0, planner_for(create_user("bob", &[]).into(), Caller::Node, "size=3"));
    let from = world.now_ms;
    world.finish(running).unwrap();
    assert_eq!(world.epoch(0), before);
    assert!(world.now_ms - from >= 900, "it waited for what did not come");
}

#[test]
fn two_edits_at_once_are_ordered() {
    for seed in 0..50 {
        let mut world = World::new(2);
        world.random = Random::new(seed);
        world.ask(0, create_user("carol", &[])).unwrap();
        let mut one = world.begin(0, planner_for(create_user("alice", &["reader"]).into(), Caller::Node, "size=3"));
        let mut other = world.begin(1, planner_for(create_user("alice", &["writer"]).into(), Caller::Node, "size=3"));
        while one.response.is_none() || other.response.is_none() {
            let first = other.response.is_some() || (one.response.is_none() && world.random.below(2) == 0);
            if first {
                world.step(&mut one);
            } else {
                world.step(&mut other);
            }
        }
        let codes: Vec<_> = [one, other]
            .map(|done| done.response.unwrap().err().map(|refusal| refusal.code))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(codes, [ErrorCode::UserExists], "one of them and only one was first");
        world.sync(0);
        world.sync(1);
        assert_eq!(world.directory(0).rows(), world.directory(1).rows());
        assert_eq!(world.epoch(0), 2);
    }
}

#[test]
fn a_copy_catches_up() {
    let mut world = World::new(2);
    for number in 0..20 {
        world.ask(0, create_user(&format!("user{number}"), &[])).unwrap();
    }
    world.sync(1);
    assert_eq!(world.directory(0).rows(), world.directory(1).rows());
    // Few changes, then more than are read one by one.
    for many in [3, 300] {
        for number in 0..many {
            let (_, call) = create_token("user3", 1_000 * many + number);
            world.ask(0, call).unwrap();
        }
        world.ask(0, DeleteUser { user: format!("user{}", if many == 3 { 4 } else { 5 }) }).unwrap();
        world.sync(1);
        assert_eq!(world.directory(0).rows(), world.directory(1).rows());
        assert_eq!(world.epoch(0), world.epoch(1));
    }
    assert!(world.directory(1).user("user4").is_none());
}

/// A change at any moment of a sync, of few rows and of all.
#[test]
fn a_copy_that_rows_overtook_is_followed_by_another() {
    for (all, at) in [false, true].into_iter().flat_map(|all| (0..9).map(move |at| (all, at))) {
        let mut world = World::new(2);
        for name in ["alice", "bob"] {
            world.ask(0, create_user(name, &[])).unwrap();
        }
        if !all {
            world.sync(1);
        }
        let grant = |user: &str, role: &str| GrantRole { user: user.into(), role: role.into(), on: None, id: 0 };
        world.ask(0, grant("alice", "reader")).unwrap();
        world.ask(0, grant("bob", "reader")).unwrap();
        let mut running = world.begin(1, sync());
        for _ in 0..at {
            if running.response.is_none() {
                world.step(&mut running);
            }
        }
        world.ask(0, grant("bob", "writer")).unwrap();
        world.finish(running).unwrap();
        let mut found = world.nodes[1].found.take().expect("a copy");
        let alice = found.user("alice").map(|user| user.roles.len());
        assert!(alice == Some(1), "all that changed up to its epoch: {all} {at}");
        let holds = |copy: &Directory, name: &str| {
            let id = copy.user(name).map_or(0, |user| user.id);
            copy.holds(id, copy.epoch())
        };
        if world.nodes[1].overtaken {
            assert!(!holds(&found, "bob"), "else nothing need follow: {all} {at}");
            world.nodes[1].directory = found;
            let again = world.begin(1, sync());
            world.finish(again).unwrap();
            found = world.nodes[1].found.take().expect("a copy");
        }
        for name in ["alice", "bob"] {
            assert!(holds(&found, name), "what is decided by it holds: {name} {all} {at}");
        }
    }
}

#[test]
fn a_sync_ends_while_everything_changes() {
    let mut world = World::new(2);
    world.ask(0, create_user("alice", &[])).unwrap();
    let mut running = world.begin(1, sync());
    for number in 0..100 {
        if running.response.is_some() {
            return;
        }
        let (_, call) = create_token("alice", 1_000 + number);
        world.ask(0, call).unwrap();
        world.step(&mut running);
    }
    panic!("it reads on and on");
}

#[test]
fn deleted_names_are_forgotten_after_a_month() {
    let mut world = World::new(2);
    world.ask(0, create_user("alice", &[])).unwrap();
    let (_, call) = create_token("alice", 5);
    world.ask(0, CreateToken { expires_in_s: Some(60), ..call }).unwrap();
    world.sync(1);
    world.ask(0, DeleteUser { user: "alice".into() }).unwrap();
    assert_eq!(world.directory(0).rows().len(), 2, "both are deleted, and known to be");
    world.now_ms += 31 * 86_400_000;
    world.ask(0, create_user("bob", &[])).unwrap();
    assert_eq!(world.space.as_ref().map(|space| space.rows.len()), Some(3), "head, bob and when bob changed");
    // The copy that has not seen the deletion reads everything.
    world.sync(1);
    world.sync(0);
    assert_eq!(world.directory(1).rows().keys().collect::<Vec<_>>(), ["user/bob"]);
    assert!(world.directory(1).user("alice").is_none());
}

#[test]
fn tenants_bound_their_users() {
    let mut world = World::new(1);
    let refusal = world.ask(0, create_user("ann@shop", &[])).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NoSuchTenant);
    world.ask(0, CreateTenant { tenant: "shop".into(), owns: vec!["kv/shop-*".into()], id: 0 }).unwrap();
    world.ask(0, create_user("ann@shop", &["tenant-admin"])).unwrap();
    let described = world.ask(0, DescribeUser { user: "ann@shop".into() }).unwrap();
    let AccessAnswer::User(ann) = described else { panic!("{described:?}") };
    assert!(ann.allowed.iter().any(|rule| rule.ends_with(" on kv/shop-*")), "{:?}", ann.allowed);
    assert!(ann.allowed.iter().all(|rule| !rule.contains("kv/*") && !rule.contains("bucket")), "{:?}", ann.allowed);
    assert!(ann.allowed.iter().any(|rule| rule.ends_with(" on security/shop")), "{:?}", ann.allowed);
    let refusal = world.ask(0, DeleteTenant { tenant: "shop".into() }).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::TenantHasUsers);
    world.ask(0, DeleteUser { user: "ann@shop".into() }).unwrap();
    world.ask(0, DeleteTenant { tenant: "shop".into() }).unwrap();
}

fn create_group(group: &str, roles: &[&str]) -> CreateGroup {
    let roles = roles.iter().map(|role| role.to_string()).collect();
    CreateGroup { group: group.into(), issuer: "https://corp".into(), claim: None, roles, replace: false, id: 0 }
}

/// Somebody that `https://corp` puts into these groups, as a node's copy has them.
fn oidc(world: &World, claims: &[&str]) -> Caller {
    let groups = world.directory(0).groups_of("https://corp", claims.iter().copied());
    let user = OidcUser { name: "oidc:ann".into(), account: "oidc-1".into(), groups, expires_ms: 9 };
    Caller::Oidc { user: Arc::new(user), decided_at: None }
}

fn groups_of(world: &mut World, tenant: Option<&str>) -> Vec<GroupInfo> {
    let call = ListGroups { tenant: tenant.map(String::from), ..ListGroups::default() };
    let AccessAnswer::Groups(found) = world.ask(0, call).unwrap() else { panic!("not groups") };
    found.groups
}

#[test]
fn groups_are_made_and_replaced() {
    let mut world = World::new(1);
    world.ask(0, create_group("devs", &["reader on kv/a"])).unwrap();
    assert_eq!(world.ask(0, create_group("devs", &[])).unwrap_err().code, ErrorCode::GroupExists);
    let ann = oidc(&world, &["devs", "admins"]);
    let id = world.directory(0).group("devs").unwrap().id;
    world.ask(0, CreateGroup { replace: true, ..create_group("devs", &["writer on kv/b"]) }).unwrap();
    assert_eq!(world.directory(0).group("devs").unwrap().id, id, "other roles are the same group's");
    let identity = world.directory(0).resolve(&ann).unwrap().into_owned();
    assert_eq!(identity.rules[0].on.to_string(), "kv/b");
    // What the issuer calls otherwise is another group: nobody is carried over.
    let other = CreateGroup { claim: Some("/devs".into()), replace: true, ..create_group("devs", &["writer"]) };
    world.ask(0, other).unwrap();
    assert!(world.directory(0).resolve(&ann).is_none());
    assert_eq!(world.ask(0, create_group("ops@shop", &[])).unwrap_err().code, ErrorCode::NoSuchTenant);
    world.ask(0, CreateTenant { tenant: "shop".into(), owns: vec!["kv/shop-*".into()], id: 0 }).unwrap();
    world.ask(0, create_group("ops@shop", &["writer"])).unwrap();
    let listed = groups_of(&mut world, Some("shop"));
    assert_eq!((listed.len(), listed[0].claim.as_str(), listed[0].tenant.as_deref()), (1, "ops", Some("shop")));
    assert_eq!(groups_of(&mut world, None).len(), 2);
    assert_eq!(world.ask(0, DeleteTenant { tenant: "shop".into() }).unwrap_err().code, ErrorCode::TenantHasUsers);
    world.ask(0, DeleteGroup { group: "ops@shop".into() }).unwrap();
    assert_eq!(world.ask(0, DeleteGroup { group: "ops@shop".into() }).unwrap_err().code, ErrorCode::NoSuchGroup);
    for bad in [
        CreateGroup { issuer: String::new(), ..create_group("x", &[]) },
        CreateGroup { claim: Some("a\nb".into()), ..create_group("x", &[]) },
        CreateGroup { claim: Some("c".repeat(513)), ..create_group("x", &[]) },
        create_group("a b", &[]),
    ] {
        assert_eq!(world.ask(0, bad).unwrap_err().code, ErrorCode::InvalidField);
    }
}

#[test]
fn oidc_users_give_only_what_they_have() {
    let mut world = World::new(1);
    world.ask(0, create_group("sec", &["security-admin"])).unwrap();
    world.ask(0, create_group("boss", &["root"])).unwrap();
    let as_caller = |world: &mut World, by: Caller, call: AccessAction| {
        let running = world.begin(0, planner_for(call, by, "size=3"));
        world.finish(running)
    };
    for (claims, code) in
        [(&["sec"][..], Some(ErrorCode::PermissionDenied)), (&[], Some(ErrorCode::PermissionDenied)), (&["boss"], None)]
    {
        let by = oidc(&world, claims);
        let made = as_caller(&mut world, by, create_user("eve", &["root"]).into());
        assert_eq!(made.err().map(|refusal| refusal.code), code, "{claims:?}");
    }
    let by = oidc(&world, &["sec"]);
    let found = as_caller(&mut world, by, WhoAmI {}.into()).unwrap();
    let AccessAnswer::User(ann) = found else { panic!("{found:?}") };
    assert_eq!((ann.user.as_str(), ann.groups.as_deref()), ("oidc:ann", Some(&["sec".to_string()][..])));
    assert!(!ann.allowed.is_empty());
}

#[test]
fn root_is_made_once() {
    let mut world = World::new(2);
    let token = Token::new(11, [3; 32]);
    let call = CreateRoot { id: 11, hash: token.hash().to_string(), user_id: 12 };
    world.ask(0, call.clone()).unwrap();
    assert!(world.directory(0).proves(&token));
    let again = CreateRoot { id: 21, user_id: 22, ..call };
    assert_eq!(world.ask(1, again.clone()).unwrap_err().code, ErrorCode::UserExists);
    // Not even after it was deleted: an operator who did that has the Unix socket.
    world.ask(0, DeleteUser { user: "root".into() }).unwrap();
    assert_eq!(world.ask(0, again.clone()).unwrap_err().code, ErrorCode::UserExists);
    // Nor once that it ever was has been forgotten.
    world.now_ms += 31 * 86_400_000;
    world.ask(0, create_user("alice", &[])).unwrap();
    world.sync(1);
    assert!(!world.directory(1).rows().contains_key("user/root"));
    assert_eq!(world.ask(1, again).unwrap_err().code, ErrorCode::UserExists);
}

#[test]
fn lists_have_pages_and_what_was_just_made() {
    let mut world = World::new(2);
    for name in ["a", "b", "c"] {
        world.ask(0, create_user(name, &["reader"])).unwrap();
    }
    let page = |world: &mut World, after: Option<&str>| {
        let call = ListUsers { tenant: None, start_after: after.map(String::from), limit: Some(2) };
        match world.ask(1, call).unwrap() {
            AccessAnswer::Users(users) => {
                (users.users.iter().map(|user| user.user.clone()).collect::<Vec<_>>(), users.next)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(page(&mut world, None), (vec!["a".into(), "b".into()], Some("b".into())));
    assert_eq!(page(&mut world, Some("b")), (vec!["c".into()], None));
    let AccessAnswer::Roles(roles) = world.ask(1, ListRoles {}).unwrap() else { panic!("roles") };
    assert_eq!(roles.roles.len(), base_access::BUILTIN_ROLES.len());
}

#[test]
fn bad_fields_are_refused_before_anything_changes() {
    let mut world = World::new(1);
    world.ask(0, create_user("alice", &[])).unwrap();
    let before = world.epoch(0);
    let code = |world: &mut World, call: AccessAction| world.ask(0, call).unwrap_err().code;
    assert_eq!(code(&mut world, create_user("", &[]).into()), ErrorCode::InvalidField);
    assert_eq!(code(&mut world, create_user("a b", &[]).into()), ErrorCode::InvalidField);
    assert_eq!(code(&mut world, create_user("bob", &["king"]).into()), ErrorCode::NoSuchRole);
    assert_eq!(code(&mut world, create_user("bob", &["reader on kv"]).into()), ErrorCode::InvalidField);
    assert_eq!(code(&mut world, create_user("bob", &["reader on cluster/*"]).into()), ErrorCode::InvalidField);
    assert_eq!(code(&mut world, create_user("bob", &["reader"; 65]).into()), ErrorCode::LimitOutOfRange);
    let (_, token) = create_token("alice", 5);
    let endless = CreateToken { expires_in_s: Some(u64::MAX), ..token.clone() };
    assert_eq!(code(&mut world, endless.into()), ErrorCode::LimitOutOfRange);
    assert_eq!(code(&mut world, CreateToken { user: "bob".into(), ..token }.into()), ErrorCode::NoSuchUser);
    let role = |role: &str, verbs: &str| CreateRole {
        role: role.into(),
        rules: vec![RuleText { verbs: verbs.into(), on: "kv/*".into() }],
        replace: false,
        grantable: false,
        id: 0,
    };
    assert_eq!(code(&mut world, role("reader", "read").into()), ErrorCode::InvalidField);
    assert_eq!(code(&mut world, role("x", "fly").into()), ErrorCode::InvalidField);
    assert_eq!(world.epoch(0), before);
}
