//! Nobody gives more than it has: every way in which a `security-admin` could come by more is refused.

use super::*;

/// Who administers, and somebody who has everything; by the ids of their users.
struct Cast {
    world: World,
    sam: u64,
    boss: u64,
}

fn id(world: &World, name: &str) -> u64 {
    world.directory(0).user(name).expect(name).id
}

/// `sam` is a `security-admin` that may read `kv/own`; `boss` is root; `ann` has a role that sam has not.
fn cast() -> Cast {
    let mut world = World::new(1);
    world.ask(0, create_user("sam", &["security-admin", "reader on kv/own"])).unwrap();
    world.ask(0, CreateUser { password_hash: Some("hash".into()), ..create_user("boss", &["root"]) }).unwrap();
    world.ask(0, create_user("ann", &["writer on kv/a"])).unwrap();
    world.ask(0, create_user("bob", &[])).unwrap();
    let (sam, boss) = (id(&world, "sam"), id(&world, "boss"));
    Cast { world, sam, boss }
}

impl Cast {
    fn sam(&mut self, call: impl Into<AccessAction>) -> Result<AccessAnswer, Refusal> {
        self.world.ask_as(0, Some(self.sam), call)
    }

    fn boss(&mut self, call: impl Into<AccessAction>) -> Result<AccessAnswer, Refusal> {
        self.world.ask_as(0, Some(self.boss), call)
    }

    /// Sam is denied it, with this in the message, and nothing changes.
    fn denied(&mut self, part: &str, call: impl Into<AccessAction>) {
        let (epoch, call) = (self.world.epoch(0), call.into());
        let refusal = self.sam(call.clone()).expect_err(&format!("{call:?}"));
        assert_eq!(refusal.code, ErrorCode::PermissionDenied, "{call:?}: {refusal}");
        assert!(refusal.message.contains(part), "{call:?}: {}", refusal.message);
        assert_eq!(self.world.epoch(0), epoch, "{call:?}");
    }
}

fn grant(user: &str, role: &str, on: Option<&str>) -> GrantRole {
    GrantRole { user: user.into(), role: role.into(), on: on.map(String::from), id: 0 }
}

fn revoke_role(user: &str, role: &str, on: Option<&str>) -> RevokeRole {
    RevokeRole { user: user.into(), role: role.into(), on: on.map(String::from), id: 0 }
}

fn change(user: &str) -> ChangeUser {
    ChangeUser {
        user: user.into(),
        disabled: None,
        password: None,
        no_password: false,
        password_hash: None,
        namespace: None,
        id: 0,
    }
}

fn password(user: &str) -> ChangeUser {
    ChangeUser { password_hash: Some("new".into()), ..change(user) }
}

fn disabled(user: &str, disabled: bool) -> ChangeUser {
    ChangeUser { disabled: Some(disabled), ..change(user) }
}

fn role(role: &str, rules: &[&str]) -> CreateRole {
    let rule = |text: &&str| {
        let (verbs, on) = text.split_once(" on ").expect(text);
        RuleText { verbs: verbs.into(), on: on.into() }
    };
    CreateRole { role: role.into(), rules: rules.iter().map(rule).collect(), replace: true, grantable: false, id: 0 }
}

fn token(user: &str, id: u64, on: Option<&str>) -> CreateToken {
    CreateToken { on: on.map(String::from), ..create_token(user, id).1 }
}

#[test]
fn a_security_admin_gives_no_role_that_it_has_not() {
    let mut cast = cast();
    for role in ["reader", "writer", "tenant-admin", "operator", "auditor", "root"] {
        cast.denied("which sam does not have", grant("sam", role, None));
        cast.denied("which sam does not have", create_user("eve", &[role]));
        cast.denied("which sam does not have", create_group("devs", &[role]));
    }
    cast.denied("that gives \"read,list on kv/a\"", grant("bob", "reader", Some("kv/a")));
    cast.denied("that gives \"write,delete on kv/own\"", grant("bob", "writer", Some("kv/own")));
    cast.denied("hive role create NAME --allow \"read,list on kv/a\"", grant("bob", "reader", Some("kv/a")));
    // What it has, it gives, and narrower, too.
    cast.sam(grant("bob", "reader", Some("kv/own"))).unwrap();
    cast.sam(grant("bob", "reader", Some("kv/own/*range:a*c"))).unwrap();
    cast.sam(create_user("deputy", &["security-admin", "reader on kv/own/x/"])).unwrap();
    cast.sam(create_group("devs", &["reader on kv/own"])).unwrap();
}

#[test]
fn a_security_admin_defines_no_role_beyond_itself() {
    let mut cast = cast();
    cast.denied("define role 'all' so: that gives \"all on *\"", role("all", &["all on *"]));
    cast.denied("that gives \"write on kv/own\"", role("mine", &["read on kv/own", "write on kv/own"]));
    cast.denied("that gives \"read on kv/*\"", CreateRole { grantable: true, ..role("mine", &["read on kv/*"]) });
    cast.sam(role("mine", &["read on kv/own/x/", "secure on security/*"])).unwrap();
    cast.denied("that gives \"read on bucket/b\"", role("mine", &["read on bucket/b"]));
    // A role that others hold, and that it holds itself.
    cast.boss(role("shared", &["read on kv/a"])).unwrap();
    cast.boss(grant("sam", "shared", None)).unwrap();
    cast.denied("that gives \"write on kv/a\"", role("shared", &["read,write on kv/a"]));
    cast.denied("that gives \"read on kv/*\"", role("shared", &["read on kv/a", "read on kv/*"]));
}

#[test]
fn a_role_is_replaced_by_less() {
    let mut cast = cast();
    cast.boss(role("team", &["read,write on kv/a", "read on kv/b"])).unwrap();
    cast.boss(grant("ann", "team", None)).unwrap();
    // Narrower is a revocation; with what sam has itself it is a gift of its own.
    cast.sam(role("team", &["read on kv/a", "read on kv/own"])).unwrap();
    cast.denied("that gives \"read on kv/b\"", role("team", &["read on kv/a", "read on kv/b"]));
    // To mark it grantable gives all of it to whomever sam likes.
    cast.denied("that gives \"read on kv/a\"", CreateRole { grantable: true, ..role("team", &["read on kv/a"]) });
    cast.sam(DeleteRole { role: "team".into() }).unwrap();
    cast.denied("that gives \"read on kv/a\"", role("team", &["read on kv/a"]));
}

#[test]
fn credentials_of_who_has_more_are_not_made() {
    let mut cast = cast();
    for user in ["boss", "ann"] {
        cast.denied(&format!("make a token for user '{user}'"), token(user, 9, None));
        cast.denied(&format!("set the password of user '{user}'"), password(user));
        let key = CreateS3Key { on: None, ..create_s3_key(&cast.world, user, 9) };
        cast.denied(&format!("make an S3 key for user '{user}'"), key);
    }
    // Of who has no more than sam: all but what a key reaches by ownership.
    cast.sam(grant("bob", "reader", Some("kv/own"))).unwrap();
    cast.sam(token("bob", 9, None)).unwrap();
    cast.sam(password("bob")).unwrap();
    let key = create_s3_key(&cast.world, "bob", 10);
    cast.denied(
        "which reaches what that user owns in S3: that gives \"read,list,write,delete,configure,inspect on bucket/b\"",
        key.clone(),
    );
    cast.sam(CreateS3Key { on: Some("kv/own".into()), ..key.clone() }).unwrap();
    cast.boss(CreateS3Key { id: 11, ..key }).unwrap();
    // A token that reaches only what sam has.
    cast.boss(grant("ann", "reader", Some("kv/own"))).unwrap();
    cast.sam(token("ann", 12, Some("kv/own/x/"))).unwrap();
    cast.denied("make a token for user 'ann', who has the role 'writer on kv/a'", token("ann", 13, Some("kv/a/x")));
}

/// The credential that asks counts, not its user.
#[test]
fn a_narrow_token_makes_no_wider_one() {
    let mut cast = cast();
    cast.boss(token("boss", 20, Some("security/*"))).unwrap();
    let ask =
        |cast: &mut Cast, call: AccessAction| cast.world.ask_as(0, Some(20), call).map_err(|refusal| refusal.code);
    assert_eq!(ask(&mut cast, token("boss", 21, None).into()), Err(ErrorCode::PermissionDenied));
    assert_eq!(ask(&mut cast, password("boss").into()), Err(ErrorCode::PermissionDenied));
    assert_eq!(ask(&mut cast, grant("bob", "reader", None).into()), Err(ErrorCode::PermissionDenied));
    assert!(ask(&mut cast, token("boss", 21, Some("security/*")).into()).is_ok());
}

#[test]
fn a_disabled_user_is_no_way_round() {
    let mut cast = cast();
    cast.sam(disabled("ann", true)).unwrap();
    cast.denied("set the password of user 'ann'", password("ann"));
    cast.denied("make a token for user 'ann'", token("ann", 9, None));
    cast.denied("enable user 'ann'", disabled("ann", false));
    cast.boss(disabled("ann", false)).unwrap();
    // A change that gives nothing back.
    cast.sam(disabled("ann", false)).unwrap();
    cast.sam(ChangeUser { no_password: true, ..change("ann") }).unwrap();
    cast.sam(disabled("bob", true)).unwrap();
    cast.sam(disabled("bob", false)).unwrap();
}

#[test]
fn a_group_is_no_way_round() {
    let mut cast = cast();
    cast.boss(create_group("devs", &["writer on kv/a", "reader on kv/b"])).unwrap();
    let replace = |claim: Option<&str>, roles: &[&str]| CreateGroup {
        replace: true,
        claim: claim.map(String::from),
        ..create_group("devs", roles)
    };
    // Other people under the same roles, an issuer of its own, and more for the same people.
    cast.denied("give these roles to group 'devs'", replace(Some("sams"), &["writer on kv/a"]));
    let elsewhere = CreateGroup { issuer: "https://sam".into(), ..replace(None, &["writer on kv/a"]) };
    cast.denied("of https://sam", elsewhere);
    cast.denied("that gives \"write,delete on kv/own\"", replace(None, &["writer on kv/a", "writer on kv/own"]));
    // Less for the same people, and what sam has.
    cast.sam(replace(None, &["writer on kv/a", "reader on kv/own"])).unwrap();
    cast.sam(DeleteGroup { group: "devs".into() }).unwrap();
    cast.denied("give these roles to group 'devs'", create_group("devs", &["writer on kv/a"]));
}

#[test]
fn root_delegates_by_grantable_roles() {
    let mut cast = cast();
    cast.boss(CreateRole { grantable: true, ..role("uploads", &["write on bucket/in/", "read,list on kv/team-*"]) })
        .unwrap();
    cast.sam(grant("bob", "uploads", None)).unwrap();
    cast.sam(grant("bob", "reader", Some("kv/team-a"))).unwrap();
    cast.sam(token("bob", 9, None)).unwrap();
    cast.denied("that gives \"write,delete on kv/team-a\"", grant("bob", "writer", Some("kv/team-a")));
    let AccessAnswer::Role(shown) = cast.sam(DescribeRole { role: "uploads".into() }).unwrap() else {
        panic!("a role")
    };
    assert!(shown.grantable);
    // It stays grantable when it becomes less, and is no longer when somebody says so.
    cast.sam(CreateRole { grantable: true, ..role("uploads", &["write on bucket/in/"]) }).unwrap();
    cast.denied("that gives \"read,list on kv/team-a\"", grant("ann", "reader", Some("kv/team-a")));
    cast.denied("that gives", CreateRole { grantable: true, ..role("uploads", &["write on bucket/out"]) });
    cast.boss(role("uploads", &["write on bucket/in/"])).unwrap();
    cast.denied("which sam does not have", grant("ann", "uploads", None));
}

#[test]
fn a_tenants_administrator_gives_within_the_tenant() {
    let mut cast = cast();
    cast.boss(CreateTenant { tenant: "shop".into(), owns: vec!["kv/shop-*".into(), "bucket/shop-*".into()], id: 0 })
        .unwrap();
    cast.boss(create_user("eve@shop", &["tenant-admin"])).unwrap();
    cast.boss(CreateRole { grantable: true, ..role("wide", &["operate on node/*", "read on bucket/*"]) }).unwrap();
    let eve = id(&cast.world, "eve@shop");
    let mut ask = |call: AccessAction| cast.world.ask_as(0, Some(eve), call).map_err(|refusal| refusal.code);
    assert!(
        ask(create_user("bot@shop", &["writer", "tenant-admin", "wide"]).into()).is_ok(),
        "all of it within the tenant"
    );
    assert!(ask(token("bot@shop", 9, None).into()).is_ok());
    assert_eq!(ask(create_user("spy", &[]).into()), Err(ErrorCode::PermissionDenied));
    assert_eq!(ask(grant("bob", "reader", Some("kv/shop-a")).into()), Err(ErrorCode::PermissionDenied));
    assert_eq!(ask(role("own", &["read on kv/shop-a"]).into()), Err(ErrorCode::PermissionDenied));
    let key = CreateS3Key { on: None, ..create_s3_key(&cast.world, "bot@shop", 10) };
    cast.world.ask_as(0, Some(eve), key).unwrap();
    // The world's security-admin has nothing in there, and makes no tenant of it.
    cast.denied("which sam does not have", create_user("mine@shop", &["tenant-admin"]));
    cast.denied("make a token for user 'bot@shop'", token("bot@shop", 11, None));
}

#[test]
fn the_last_who_has_everything_stays() {
    let mut cast = cast();
    let part = "nobody who has everything could come in";
    cast.denied(part, revoke_role("boss", "root", None));
    cast.denied(part, disabled("boss", true));
    cast.denied(part, DeleteUser { user: "boss".into() });
    cast.denied(part, ChangeUser { no_password: true, ..change("boss") });
    let refusal = cast.boss(DeleteUser { user: "boss".into() }).unwrap_err();
    assert!(refusal.message.contains(part), "{refusal}");
    // A token of its own is a way in, until it is the last.
    cast.boss(token("boss", 9, None)).unwrap();
    cast.sam(ChangeUser { no_password: true, ..change("boss") }).unwrap();
    cast.denied(part, revoke(9));
    cast.boss(token("boss", 10, None)).unwrap();
    cast.sam(revoke(9)).unwrap();
    // Another takes over.
    cast.boss(create_user("chief", &["root"])).unwrap();
    cast.denied(part, DeleteUser { user: "boss".into() });
    cast.boss(token("chief", 11, None)).unwrap();
    cast.sam(DeleteUser { user: "boss".into() }).unwrap();
    cast.denied(part, DeleteUser { user: "chief".into() });
    cast.world.ask(0, DeleteUser { user: "chief".into() }).unwrap();
}

/// By a role of the world's own, and by a group of an issuer.
#[test]
fn the_last_who_has_everything_stays_whatever_gives_it() {
    let mut cast = cast();
    let part = "nobody who has everything could come in";
    cast.boss(role("all", &["all on *"])).unwrap();
    cast.boss(grant("boss", "all", None)).unwrap();
    cast.sam(revoke_role("boss", "root", None)).unwrap();
    cast.denied(part, DeleteRole { role: "all".into() });
    cast.denied(part, role("all", &["read on *"]));
    cast.boss(create_group("chiefs", &["root"])).unwrap();
    cast.sam(DeleteUser { user: "boss".into() }).unwrap();
    cast.denied(part, DeleteGroup { group: "chiefs".into() });
    cast.denied(part, CreateGroup { replace: true, ..create_group("chiefs", &[]) });
}

#[test]
fn a_security_admin_takes_anything_away() {
    let mut cast = cast();
    cast.boss(token("ann", 9, None)).unwrap();
    cast.boss(create_s3_key(&cast.world, "ann", 10)).unwrap();
    cast.sam(revoke(9)).unwrap();
    cast.sam(RevokeS3Key { access_key: base_access::access_key_of(10), user: None }).unwrap();
    cast.sam(revoke_role("ann", "writer", Some("kv/a"))).unwrap();
    cast.boss(grant("ann", "operator", None)).unwrap();
    cast.sam(disabled("ann", true)).unwrap();
    cast.sam(DeleteUser { user: "ann".into() }).unwrap();
}

/// It lost the role after its door had decided, and between the read of the head and the commit.
#[test]
fn a_giver_that_loses_its_role_gives_nothing() {
    for (steps, secures) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut cast = cast();
        let by = Caller::Identity { credential: cast.sam, decided_at: Some(1) };
        let call = grant("bob", "reader", Some("kv/own"));
        let mut running = cast.world.begin(0, planner_for(call.into(), by, "size=3"));
        for _ in 0..steps {
            cast.world.step(&mut running);
        }
        let lost = match secures {
            true => revoke_role("sam", "security-admin", None),
            false => revoke_role("sam", "reader", Some("kv/own")),
        };
        cast.world.ask(0, lost).unwrap();
        let refusal = cast.world.finish(running).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::PermissionDenied, "{refusal}");
        assert!(cast.world.directory(0).user("bob").is_some_and(|bob| bob.roles.is_empty()));
    }
}

#[test]
fn a_repeated_change_of_a_user_is_answered_the_same() {
    let mut cast = cast();
    let given = GrantRole { id: 71, ..grant("bob", "reader", Some("kv/own")) };
    let taken = RevokeRole { id: 72, ..revoke_role("bob", "reader", Some("kv/own")) };
    let changed = ChangeUser { id: 73, ..disabled("bob", true) };
    let calls: [AccessAction; 3] = [given.into(), taken.into(), changed.into()];
    for call in &calls {
        cast.sam(call.clone()).unwrap();
    }
    // Others change it back, and sam loses what it gave.
    cast.boss(disabled("bob", false)).unwrap();
    cast.boss(revoke_role("sam", "reader", Some("kv/own"))).unwrap();
    let epoch = cast.world.epoch(0);
    for call in &calls {
        assert_eq!(cast.sam(call.clone()), Ok(AccessAnswer::Done), "{call:?}");
    }
    assert_eq!(cast.world.epoch(0), epoch, "a retry changes nothing");
    let bob = cast.world.directory(0).user("bob").cloned().unwrap();
    assert!(bob.roles.is_empty() && !bob.disabled);
    // Other requests are new ones.
    let refusal = cast.sam(RevokeRole { id: 74, ..revoke_role("bob", "reader", Some("kv/own")) }).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NoSuchRole);
    cast.denied("which sam does not have", GrantRole { id: 75, ..grant("bob", "reader", Some("kv/own")) });
    // A grant of what is there is remembered, too.
    cast.boss(GrantRole { id: 76, ..grant("bob", "auditor", None) }).unwrap();
    cast.boss(GrantRole { id: 77, ..grant("bob", "auditor", None) }).unwrap();
    cast.sam(revoke_role("bob", "auditor", None)).unwrap();
    cast.boss(GrantRole { id: 77, ..grant("bob", "auditor", None) }).unwrap();
    assert!(cast.world.directory(0).user("bob").is_some_and(|bob| bob.roles.is_empty()));
}

/// Calls on users of a world that asks nobody are refused before (core-node); none would be let through here.
#[test]
fn nobody_gives_nothing() {
    let mut world = World::new(1);
    let ask = |world: &mut World, call: AccessAction| {
        let running = world.begin(0, planner_for(call, Caller::Anyone, "size=3"));
        world.finish(running).map_err(|refusal| refusal.code)
    };
    assert_eq!(ask(&mut world, create_user("ann", &["reader"]).into()), Err(ErrorCode::PermissionDenied));
    assert_eq!(ask(&mut world, DeleteUser { user: "ann".into() }.into()), Err(ErrorCode::PermissionDenied));
}
