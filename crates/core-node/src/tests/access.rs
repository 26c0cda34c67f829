//! Who may do what, decided where a request comes in and looked at again where it arrives.

use super::*;
use base_access::{Directory, Token};
use base_types::access::{
    AccessAction, AccessAnswer, CreateGroup, CreateRoot, CreateToken, CreateUser, DeleteGroup, DeleteUser, GrantRole,
    OidcUser, RevokeRole, RevokeToken, WhoAmI,
};
use std::sync::Arc;

/// A revoked token may count for so long on a node that hears from the world.
const REVOKED_MS: u64 = 2_000;

/// Three nodes that ask who somebody is; a keyspace over one cluster.
fn world(lanes: u16) -> World {
    let mut world = World::with_access(&["r", "r", "r"], 3, lanes, true);
    world.ready();
    world.done(
        1,
        Action::CreateKeyspace {
            kind: base_types::action::KeyspaceKind::Plain,
            keyspace: "a".into(),
            partitioning: base_types::action::Partitioning::Range,
            partitions: 4,
            clusters: 1,
            split_keys: Vec::new(),
            rule: "size=3 location=world failure_domain=chassis".into(),
            engine: None,
        },
    );
    world
}

fn keyspace() -> KvTarget {
    KvTarget::Keyspace("a".into())
}

fn put(key: &str) -> Action {
    Action::KvPut { target: keyspace(), key: bytes(key), value: bytes("v") }
}

fn scan(prefix: &str, start_after: Option<&str>) -> Action {
    Action::KvScan {
        target: keyspace(),
        prefix: bytes(prefix),
        start_after: start_after.map(bytes),
        end: None,
        limit: 10,
        reverse: false,
        keys_only: false,
    }
}

impl World {
    fn access(&mut self, node: u64, call: impl Into<AccessAction>) -> Result<AccessAnswer, &'static str> {
        match self.act(node, Action::Access(call.into())) {
            Ok(answer) => match answer.result {
                ActionResult::Access(answer) => Ok(answer),
                other => panic!("{other:?}"),
            },
            Err(failure) => Err(failure.refusal.code.as_str()),
        }
    }

    /// As a door asks for a client with a credential.
    fn act_as(&mut self, credential: u64, node: u64, action: Action) -> Result<Answer, &'static str> {
        let caller = Caller::Identity { credential, decided_at: None };
        let asked = Request { caller, ..request(action) };
        self.request(node, asked).map_err(|failure| failure.refusal.code.as_str())
    }

    /// Makes a user with a token, and waits until every node has both.
    pub fn user(&mut self, user: &str, roles: &[&str], token: u64) {
        let roles = roles.iter().map(|role| role.to_string()).collect();
        let call = CreateUser {
            user: user.into(),
            service: false,
            roles,
            password: None,
            password_hash: None,
            namespace: None,
            id: 0,
        };
        self.access(1, call).unwrap();
        let hash = Token::new(token, [1; 32]).hash().to_string();
        let (id, note) = (token, String::new());
        self.access(
            1,
            CreateToken { user: user.into(), expires_in_s: None, on: None, note, id, hash, of_request: false },
        )
        .unwrap();
        let epoch = self.nodes[&NodeId(1)].directory.epoch();
        self.until("every node has the token", REVOKED_MS, |world| {
            world.nodes.values().all(|node| node.directory.epoch() >= epoch)
        });
    }

    fn revoke(&mut self, node: u64, token: u64) {
        self.access(node, RevokeToken { id: format!("{token:016x}"), user: None }).unwrap();
    }
}

#[test]
pub fn only_what_a_role_allows_is_done() {
    for lanes in [1, 2] {
        let mut world = world(lanes);
        world.user("alice", &["writer on kv/a/x/"], 7);
        for node in 1..=3 {
            world.act_as(7, node, put("x/1")).unwrap();
            world.act_as(7, node, scan("x/", None)).unwrap();
            assert_eq!(world.act_as(7, node, put("y")), Err("PermissionDenied"));
            assert_eq!(world.act_as(7, node, scan("", None)), Err("PermissionDenied"));
            assert_eq!(world.act_as(7, node, Action::ListNodes), Err("PermissionDenied"));
            assert_eq!(world.act_as(8, node, put("x/1")), Err("Unauthenticated"));
            let asked = Request { caller: Caller::Anyone, ..request(put("x/1")) };
            assert_eq!(code(world.request(node, asked)), "Unauthenticated");
        }
        let who = world.act_as(7, 2, Action::Access(AccessAction::from(WhoAmI {}))).unwrap();
        let ActionResult::Access(AccessAnswer::User(who)) = who.result else { panic!("{who:?}") };
        assert_eq!((who.user.as_str(), who.roles.len()), ("alice", 1));
    }
}

#[test]
pub fn a_scan_ends_where_the_grant_ends() {
    let mut world = world(1);
    world.user("alice", &["reader on kv/a/x/"], 7);
    for key in ["x/1", "x/2", "y"] {
        world.put(1, &keyspace(), key, "v").unwrap();
    }
    world.act_as(7, 1, scan("x/", None)).unwrap();
    // From within the grant, and beyond its end.
    assert_eq!(world.act_as(7, 1, scan("", Some("x/1"))), Err("PermissionDenied"));
}

#[test]
pub fn a_raw_cluster_is_no_keyspace() {
    let mut world = world(1);
    let name = world.create(1, "metadata@a", "size=3 location=world failure_domain=chassis");
    let target = KvTarget::Cluster(name);
    world.put(1, &target, "x", "v").unwrap();
    world.user("alice", &["writer on kv/a"], 7);
    let get = Action::KvGet { target, key: bytes("x") };
    assert_eq!(world.act_as(7, 1, get.clone()), Err("PermissionDenied"));
    world.user("olga", &["operator"], 8);
    world.act_as(8, 1, get).unwrap();
    // What users and tokens are kept in is nobody's to read.
    let rows = KvTarget::Cluster(core_access::ACCESS_CLUSTER.parse().unwrap());
    let secret = Action::KvGet { target: rows, key: bytes("head") };
    assert_eq!(world.act_as(8, 1, secret.clone()), Err("InvalidClusterName"));
    assert_eq!(code(world.act(1, secret)), "InvalidClusterName");
}

/// Through every node: it is decided where the change is committed.
#[test]
pub fn a_security_admin_gives_only_what_it_has() {
    let mut world = world(1);
    world.user("sam", &["security-admin", "reader on kv/a/x/"], 7);
    world.user("bob", &[], 8);
    let grant = |user: &str, role: &str, on: Option<&str>| {
        let (user, role, on) = (user.to_string(), role.to_string(), on.map(String::from));
        Action::Access(GrantRole { user, role, on, id: 0 }.into())
    };
    for node in 1..=3 {
        for user in ["sam", "bob"] {
            assert_eq!(world.act_as(7, node, grant(user, "writer", None)).unwrap_err(), "PermissionDenied");
            assert_eq!(world.act_as(7, node, grant(user, "reader", Some("kv/a"))).unwrap_err(), "PermissionDenied");
        }
        world.act_as(7, node, grant("bob", "reader", Some("kv/a/x/"))).unwrap();
        world.run(REVOKED_MS);
        assert_eq!(world.act_as(7, node, put("x/1")).unwrap_err(), "PermissionDenied");
        assert_eq!(world.act_as(8, node, scan("", None)).unwrap_err(), "PermissionDenied");
        world.act_as(8, node, scan("x/", None)).unwrap();
    }
}

#[test]
pub fn a_revoked_token_is_refused_everywhere() {
    let mut world = world(2);
    world.user("alice", &["writer on kv/a"], 7);
    world.revoke(2, 7);
    let since = world.now;
    assert!(world.act_as(7, 2, put("x")).is_err(), "the node that answered knows");
    for node in [1, 3] {
        world.until("the token is refused", REVOKED_MS, |world| world.act_as(7, node, put("x")).is_err());
    }
    assert!(world.now.since(since) <= Duration::from_millis(REVOKED_MS));
}

/// A node that does not hear of a revocation forwards to one that has.
#[test]
pub fn an_owner_knows_better_than_a_stale_entry() {
    let mut world = world(1);
    world.user("alice", &["writer on kv/a"], 7);
    world.act_as(7, 3, put("x")).unwrap();
    let owner = world.leader(&"metadata@ks-a-0".parse().unwrap_or_else(|_| panic!("a name")));
    let entry = (1..=3).find(|node| *node != owner).unwrap();
    let old = world.nodes[&NodeId(entry)].directory.clone();
    world.access(owner, DeleteUser { user: "alice".into() }).unwrap();
    // As if it had not heard: its cores are given the copy of before, again and again.
    let mut denied = None;
    for _ in 0..20 {
        world.tell_all(NodeId(entry), || Event::Directory { directory: old.clone() });
        match world.act_as(7, entry, put("x")) {
            Err(code) => denied = Some(code),
            Ok(_) => panic!("the owner let a deleted user write"),
        }
    }
    assert!(denied.is_some());
}

/// A node that lost its disk owns data before it has a copy of the directory. It refuses until it has one (context/access.rs).
#[test]
fn an_owner_without_a_directory_serves_users_once_it_has_one() {
    let mut world = world(1);
    world.user("alice", &["writer on kv/a"], 7);
    world.act_as(7, 3, put("x")).unwrap();
    let owner = world.leader(&"metadata@ks-a-0".parse().unwrap_or_else(|_| panic!("a name")));
    let entry = (1..=3).find(|node| *node != owner).unwrap();
    let none = Arc::new(Directory::default());
    world.tell_all(NodeId(owner), || Event::Directory { directory: none.clone() });
    world.until("the owner serves users again", 5_000, |world| world.act_as(7, entry, put("y")).is_ok());
}

/// As a door asks for somebody that an issuer puts into these groups.
fn as_oidc(groups: &[u64], action: Action) -> Request {
    let user = OidcUser { name: "oidc:ann".into(), account: "oidc-1".into(), groups: groups.to_vec(), expires_ms: 1 };
    Request { caller: Caller::Oidc { user: Arc::new(user), decided_at: None }, ..request(action) }
}

#[test]
fn oidc_users_have_what_their_groups_give() {
    let mut world = world(2);
    let (group, issuer) = ("devs".to_string(), "https://corp".to_string());
    let roles = vec!["writer on kv/a/x/".to_string()];
    world.access(1, CreateGroup { group, issuer, claim: None, roles, replace: false, id: 0 }).unwrap();
    let epoch = world.nodes[&NodeId(1)].directory.epoch();
    world.until("every node has the group", REVOKED_MS, |world| {
        world.nodes.values().all(|node| node.directory.epoch() >= epoch)
    });
    let old = world.nodes[&NodeId(1)].directory.clone();
    let devs = old.group("devs").unwrap().id;
    for node in 1..=3 {
        // Most nodes forward it.
        world.request(node, as_oidc(&[devs], put("x/1"))).unwrap();
        assert_eq!(code(world.request(node, as_oidc(&[devs], put("y")))), "PermissionDenied");
        assert_eq!(code(world.request(node, as_oidc(&[], put("x/1")))), "PermissionDenied");
        assert_eq!(code(world.request(node, as_oidc(&[devs + 1], put("x/1")))), "PermissionDenied");
        world.request(node, as_oidc(&[], Action::Access(AccessAction::from(WhoAmI {})))).unwrap();
    }
    // The owner of the data knows that the group is gone, and the node that forwards does not.
    let owner = world.leader(&"metadata@ks-a-0".parse().unwrap_or_else(|_| panic!("a name")));
    let entry = (1..=3).find(|node| *node != owner).unwrap();
    world.access(owner, DeleteGroup { group: "devs".into() }).unwrap();
    for _ in 0..20 {
        world.tell_all(NodeId(entry), || Event::Directory { directory: old.clone() });
        assert!(world.request(entry, as_oidc(&[devs], put("x/1"))).is_err(), "the owner let a deleted group write");
    }
}

/// Any change of a group ends what was decided for OIDC users, at the owner, too. Who has what it had does not see it.
#[test]
fn oidc_users_do_not_see_changes_of_other_groups() {
    let mut world = world(1);
    let group = |group: &str, on: &str| {
        let (group, issuer, roles) = (group.to_string(), "https://corp".to_string(), vec![format!("writer on {on}")]);
        CreateGroup { group, issuer, claim: None, roles, replace: true, id: 0 }
    };
    world.access(1, group("devs", "kv/a")).unwrap();
    world.run(REVOKED_MS);
    let owner = world.leader(&"metadata@ks-a-0".parse().unwrap_or_else(|_| panic!("a name")));
    let entry = (1..=3).find(|node| *node != owner).unwrap();
    let devs = world.nodes[&NodeId(1)].directory.group("devs").unwrap().id;
    for round in 0..5 {
        let old = world.nodes[&NodeId(entry)].directory.clone();
        world.access(owner, group(&format!("others-{round}"), "kv/b")).unwrap();
        // The node that it comes to has not heard, and one that hears while the request is under way.
        world.tell_all(NodeId(entry), || Event::Directory { directory: old.clone() });
        world.request(entry, as_oidc(&[devs], put("x"))).unwrap();
        world.run(REVOKED_MS);
    }
    // What it has itself is another matter.
    let old = world.nodes[&NodeId(entry)].directory.clone();
    world.access(owner, group("devs", "kv/a/y")).unwrap();
    world.tell_all(NodeId(entry), || Event::Directory { directory: old.clone() });
    assert_eq!(code(world.request(entry, as_oidc(&[devs], put("x")))), "PermissionsChanged");
}

/// The same of what the S3 gateway has decided, by a policy or a role: the shard's owner looks whether it still holds.
#[test]
pub fn an_owner_looks_again_at_what_the_gateway_decided() {
    use base_types::s3::*;
    let mut world = world(1);
    let node = |world: &mut World, call: S3Action| world.act(1, Action::S3(call)).unwrap().result;
    node(&mut world, CreateAccount { account: "ann".into(), ..CreateAccount::default() }.into());
    let bucket = CreateBucket { bucket: "photos".into(), account: "ann".into(), ..CreateBucket::default() };
    node(&mut world, bucket.into());
    let shards =
        node(&mut world, DescribeShards { bucket: "photos".into(), max_shards: None, continuation_token: None }.into());
    let ActionResult::S3(S3Answer::Shards(shards)) = shards else { panic!("{shards:?}") };
    let owner = world.leader(&shards.shards[0].cluster.parse().unwrap_or_else(|_| panic!("a name")));
    let entry = (1..=3).find(|node| *node != owner).unwrap();
    world.user("alice", &["reader on kv/a"], 7);
    let old = world.nodes[&NodeId(entry)].directory.clone();
    let caller = Caller::Identity { credential: 7, decided_at: Some(old.epoch()) };
    let put = |key: &str| PutObject {
        bucket: "photos".into(),
        key: key.into(),
        data: Data::Inline(bytes("v")),
        size: 1,
        etag: "e".into(),
        ..PutObject::default()
    };
    let ask = |world: &mut World, key: &str| {
        let asked = Request { caller: caller.clone(), ..request(Action::S3(put(key).into())) };
        world.request(entry, asked).map_err(|failure| failure.refusal.code)
    };
    ask(&mut world, "early").unwrap();
    world.access(owner, DeleteUser { user: "alice".into() }).unwrap();
    let mut denied = None;
    for _ in 0..20 {
        world.tell_all(NodeId(entry), || Event::Directory { directory: old.clone() });
        match ask(&mut world, "late") {
            Err(code) => denied = Some(code),
            Ok(_) => panic!("the owner let a deleted user put an object"),
        }
    }
    assert!(denied.is_some());
}

/// The same where the entry has decided before the change, and it retries after it.
#[test]
pub fn a_decision_does_not_outlive_a_change() {
    let mut world = World::with_access(&["r", "r", "r", "s", "s", "s"], 3, 1, true);
    world.ready();
    let name = world.create(4, "metadata@there", "size=3 location=s failure_domain=chassis");
    world.user("olga", &["operator"], 7);
    let target = KvTarget::Cluster(name);
    let put = |key: &str| Action::KvPut { target: target.clone(), key: bytes(key), value: bytes("v") };
    world.act_as(7, 1, put("early")).unwrap();
    // Its cluster has no leader: the request waits where it came in, while the user loses the role.
    world.cut.extend([NodeId(4), NodeId(5)]);
    world.run(1_000);
    let caller = Caller::Identity { credential: 7, decided_at: None };
    let ticket = world.ask(1, Request { caller, deadline: Duration::from_secs(30), ..request(put("late")) });
    world.run(100);
    world.access(2, RevokeRole { user: "olga".into(), role: "operator".into(), on: None, id: 0 }).unwrap();
    world.run(REVOKED_MS);
    world.cut.clear();
    world.until("answered", 30_000, |world| world.replies.contains_key(&ticket));
    let response = world.replies.remove(&ticket).unwrap();
    assert!(response.is_err(), "{response:?}");
    assert_eq!(world.get(2, &target, "late"), None);
}

#[test]
pub fn a_world_without_majority_knows_its_users() {
    let mut world = World::with_access(&["r", "r", "r", "s", "s", "s"], 3, 1, true);
    world.ready();
    let name = world.create(4, "metadata@there", "size=3 location=s failure_domain=chassis");
    world.user("olga", &["operator"], 7);
    world.kill(1);
    world.kill(2);
    world.run(5_000);
    let target = KvTarget::Cluster(name);
    let put = Action::KvPut { target, key: bytes("k"), value: bytes("v") };
    for node in 4..=6 {
        world.act_as(7, node, put.clone()).unwrap();
        assert_eq!(world.act_as(8, node, put.clone()), Err("Unauthenticated"));
    }
    // Also a node that has started since.
    world.kill(5);
    world.start(5);
    world.until("node 5 serves", 20_000, |world| world.act_as(7, 5, put.clone()).is_ok());
}

#[test]
fn the_root_is_made_once_by_nodes() {
    let mut world = world(1);
    let root = |id: u64| CreateRoot { id, hash: Token::new(id, [2; 32]).hash().to_string(), user_id: id + 100 };
    world.access(1, root(1)).unwrap();
    assert_eq!(world.access(2, root(2)), Err("UserExists"));
    world.act_as(1, 1, Action::ListNodes).unwrap();
}

#[test]
fn a_world_that_asks_nobody_has_no_users() {
    let mut world = World::new(&["r"], 1, 1);
    world.ready();
    let call = CreateUser {
        user: "a".into(),
        service: false,
        roles: Vec::new(),
        password: None,
        password_hash: None,
        namespace: None,
        id: 0,
    };
    assert_eq!(world.access(1, call), Err("AccessOff"));
}
