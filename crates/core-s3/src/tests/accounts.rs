//! Accounts and access keys: made, found and removed, by several at once.

use super::buckets::{account, create};
use super::world::{Running, World};
use base_types::s3::*;

fn key(account: &str, access_key: Option<&str>) -> CreateAccessKey {
    let access_key = access_key.map(String::from);
    CreateAccessKey { account: account.into(), access_key, secret_key: Some("a-secret-of-mine".into()), sealed: None }
}

fn get(access_key: &str) -> GetAccessKey {
    GetAccessKey { access_key: access_key.into() }
}

fn code<T>(result: Result<T, base_types::Refusal>) -> &'static str {
    result.err().map_or("", |refusal| refusal.code.as_str())
}

#[test]
fn keys_are_made_found_listed_and_removed() {
    let mut world = World::new(1);
    assert_eq!(code(world.call(get("AKEY"))), "NoSuchAccessKey");
    assert_eq!(code(world.call(ListAccessKeys { account: "ann".into() })), "NoSuchAccount");
    assert_eq!(
        code(world.call(CreateAccount { account: "Ann".into(), ..CreateAccount::default() })),
        "InvalidArgument"
    );
    world
        .call(CreateAccount { account: "ann".into(), display_name: "Ann".into(), ..CreateAccount::default() })
        .unwrap();
    account(&mut world, "ann");
    account(&mut world, "bob");
    account(&mut world, "user-00000000000000ab");
    assert_eq!(code(world.call(key("user-00000000000000ab", None))), "InvalidRequest", "roles would not count");
    let made: AccessKey = world.ask(key("ann", Some("AKEY"))).unwrap();
    assert_eq!((world.ask(get("AKEY")), &made.display_name[..]), (Ok(made.clone()), "Ann"));
    assert_eq!(world.ask(key("ann", Some("AKEY"))), Ok(made), "the very same is the same");
    assert_eq!(code(world.call(key("bob", Some("AKEY")))), "InvalidArgument");
    assert_eq!(code(world.call(key("ann", Some("a/b")))), "InvalidArgument");
    let drawn: AccessKey = world.ask(key("ann", None)).unwrap();
    let list = ListAccessKeys { account: "ann".into() };
    let listed: AccessKeys = world.ask(list.clone()).unwrap();
    assert_eq!(listed.access_keys, ["AKEY".to_string(), drawn.access_key]);
    world.call(DeleteAccessKey { access_key: "AKEY".into() }).unwrap();
    assert_eq!(code(world.call(DeleteAccessKey { access_key: "AKEY".into() })), "NoSuchAccessKey");
    assert_eq!(world.ask::<AccessKeys>(list).unwrap().access_keys.len(), 1);
    assert_eq!(world.ask::<AccessKeys>(ListAccessKeys { account: "bob".into() }).unwrap().access_keys.len(), 0);
}

fn sealed(text: &str) -> Option<SealedSecret> {
    Some(SealedSecret { sealed_by: "00ff00ff".into(), sealed: text.into() })
}

#[test]
fn a_sealed_secret_is_in_no_row_and_no_answer() {
    let mut world = World::new(1);
    account(&mut world, "ann");
    let make = CreateAccessKey { sealed: sealed("one"), ..key("ann", Some("AKEY")) };
    let made: AccessKey = world.ask(make.clone()).unwrap();
    assert_eq!(made.secret_key, "a-secret-of-mine", "shown once");
    let found: AccessKey = world.ask(get("AKEY")).unwrap();
    assert_eq!((found.secret_key.as_str(), &found.sealed), ("", &sealed("one")));
    assert_eq!(world.ask(make.clone()), Ok(made), "the very same is the same");
    let other = CreateAccessKey { sealed: sealed("two"), ..make };
    assert_eq!(code(world.call(other)), "InvalidArgument", "another secret under the same access key");
}

#[test]
fn a_plain_secret_is_sealed_once_if_nobody_changed_it() {
    let mut world = World::new(1);
    account(&mut world, "ann");
    world.call(key("ann", Some("AKEY"))).unwrap();
    let plain: AccessKey = world.ask(get("AKEY")).unwrap();
    assert_eq!((plain.secret_key.as_str(), &plain.sealed), ("a-secret-of-mine", &None));
    // Made again by one that has a sealing key by now: the same key.
    let same = CreateAccessKey { sealed: sealed("one"), ..key("ann", Some("AKEY")) };
    world.call(same.clone()).unwrap();
    let seal = SealAccessKey { access_key: "AKEY".into(), read: Some(plain.clone()), sealed: sealed("one") };
    assert_eq!(code(world.call(SealAccessKey { read: None, ..seal.clone() })), "InvalidArgument");
    let elses = AccessKey { secret_key: "another-secret".into(), ..plain.clone() };
    assert_eq!(code(world.call(SealAccessKey { read: Some(elses), ..seal.clone() })), "ServiceUnavailable");
    world.call(seal.clone()).unwrap();
    world.call(seal.clone()).unwrap();
    world.call(same).unwrap();
    let kept: AccessKey = world.ask(get("AKEY")).unwrap();
    assert_eq!((kept.secret_key.as_str(), &kept.sealed), ("", &sealed("one")));
    // By the next sealing key.
    world.call(SealAccessKey { read: Some(kept), sealed: sealed("two"), ..seal.clone() }).unwrap();
    assert_eq!(code(world.call(seal.clone())), "ServiceUnavailable", "what was read before is no more");
    world.call(DeleteAccessKey { access_key: "AKEY".into() }).unwrap();
    assert_eq!(code(world.call(seal)), "NoSuchAccessKey", "a key that was deleted does not come back");
}

#[test]
fn accounts_are_listed_in_pages() {
    let mut world = World::new(3);
    let list = |token: Option<String>| ListAccounts { max_accounts: Some(2), continuation_token: token };
    assert_eq!(world.ask(list(None)), Ok(Accounts::default()), "none was ever made");
    for name in ["ann", "ann-b", "bob"] {
        account(&mut world, name);
    }
    let names = |page: &Accounts| page.accounts.iter().map(|owner| owner.id.clone()).collect::<Vec<_>>();
    let page: Accounts = world.ask(list(None)).unwrap();
    assert_eq!(names(&page), ["ann", "ann-b"]);
    let page: Accounts = world.ask(list(page.continuation_token)).unwrap();
    assert_eq!((names(&page), page.continuation_token), (vec!["bob".to_string()], None));
}

#[test]
fn an_account_goes_with_its_keys_and_its_name_is_not_given_again() {
    let mut world = World::new(2);
    account(&mut world, "ann");
    for at in 0..150 {
        world.call(key("ann", Some(&format!("AKEY{at}")))).unwrap();
    }
    world.call(DeleteAccount { account: "ann".into() }).unwrap();
    assert_eq!(code(world.call(DeleteAccount { account: "ann".into() })), "NoSuchAccount");
    assert_eq!(code(world.call(CreateAccount { account: "ann".into(), ..Default::default() })), "AccountProblem");
    assert_eq!(code(world.call(get("AKEY7"))), "NoSuchAccessKey");
    assert_eq!(code(world.call(ListAccessKeys { account: "ann".into() })), "NoSuchAccount");
    assert_eq!(code(world.call(key("ann", Some("AKEY7")))), "NoSuchAccount");
    assert_eq!(code(world.call(create("photos", "ann"))), "NoSuchAccount");
    account(&mut world, "bob");
    world.call(key("bob", Some("AKEY7"))).unwrap();
}

#[test]
fn pages_of_accounts_pass_over_those_that_are_gone() {
    let mut world = World::new(4);
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        account(&mut world, name);
    }
    for name in ["a", "b", "d", "e"] {
        world.call(DeleteAccount { account: name.into() }).unwrap();
    }
    let (mut seen, mut token, mut pages) = (Vec::new(), None, 0);
    loop {
        let page: Accounts = world.ask(ListAccounts { max_accounts: Some(2), continuation_token: token }).unwrap();
        seen.extend(page.accounts.into_iter().map(|owner| owner.id));
        (token, pages) = (page.continuation_token, pages + 1);
        if token.is_none() {
            break;
        }
    }
    assert_eq!((seen, pages), (vec!["c".to_string()], 3));
}

#[test]
fn one_of_two_gets_an_access_key() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        account(&mut world, "bob");
        (world.lost, world.late) = if seed % 3 == 0 { (0, 0) } else { (50, 50) };
        let mut all: Vec<Running> =
            ["ann", "bob"].iter().enumerate().map(|(at, by)| world.begin(at, key(by, Some("AKEY"))).unwrap()).collect();
        world.race(&mut all);
        (world.lost, world.late) = (0, 0);
        world.settle();
        let owner: AccessKey = world.ask(get("AKEY")).unwrap();
        let told: Vec<&str> = all.iter().map(Running::code).collect();
        let won = if owner.account == "ann" { 0 } else { 1 };
        assert_eq!((told[won], told[1 - won]), ("", "InvalidArgument"), "seed {seed}");
        let other = if won == 0 { "bob" } else { "ann" };
        let listed: AccessKeys = world.ask(ListAccessKeys { account: other.into() }).unwrap();
        assert_eq!(listed.access_keys.len(), 0, "seed {seed}");
    }
}

#[test]
fn no_bucket_outlives_its_account() {
    let (mut gone, mut kept) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        let mut all = vec![
            world.begin(0, create("photos", "ann")).unwrap(),
            world.begin(1, DeleteAccount { account: "ann".into() }).unwrap(),
        ];
        for _ in 0..seed % 20 {
            world.step(&mut all[0]);
        }
        world.race(&mut all);
        let (created, deleted) = (all[0].code().is_empty(), all[1].code().is_empty());
        assert!(!(created && deleted), "seed {seed}");
        gone += u32::from(deleted);
        kept += u32::from(created);
    }
    assert!(gone > 5 && kept > 5, "{gone} gone, {kept} kept");
}
