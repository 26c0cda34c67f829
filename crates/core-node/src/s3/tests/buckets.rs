//! Accounts and buckets: made, found, listed, by several at once, and after crashes.

use super::world::World;
use base_types::s3::*;

fn account(world: &mut World, name: &str) {
    world.call(CreateAccount { account: name.into(), display_name: String::new() }).unwrap();
}

fn create(name: &str, account: &str) -> CreateBucket {
    CreateBucket { bucket: name.into(), account: account.into(), ..CreateBucket::default() }
}

fn head(name: &str) -> HeadBucket {
    HeadBucket { bucket: name.into() }
}

#[test]
fn an_account_its_keys_and_a_bucket_are_made_and_found() {
    let mut world = World::new(1);
    assert_eq!(world.call(ListAccessKeys { account: "ann".into() }).unwrap_err().code, "NoSuchAccount");
    assert_eq!(world.call(create("photos", "ann")).unwrap_err().code, "NoSuchAccount");
    assert_eq!(world.call(head("photos")).unwrap_err().code, "NoSuchBucket");
    account(&mut world, "ann");
    account(&mut world, "ann");
    let made: AccessKey = world
        .ask(CreateAccessKey { account: "ann".into(), access_key: Some("AKEY".into()), secret_key: None })
        .unwrap();
    let found: AccessKey = world.ask(GetAccessKey { access_key: "AKEY".into() }).unwrap();
    assert_eq!((&found, &found.account[..], &found.display_name[..]), (&made, "ann", "ann"));
    world.call(create("photos", "ann")).unwrap();
    let info: BucketInfo = world.ask(head("photos")).unwrap();
    assert_eq!((&info.owner.id[..], &info.bucket_region[..], info.versioning), ("ann", "fr-par", None));
    assert_eq!(world.call(create("photos", "ann")).unwrap_err().code, "BucketAlreadyOwnedByYou");
    let page: Buckets = world.ask(ListBuckets { account: "ann".into(), ..ListBuckets::default() }).unwrap();
    assert_eq!(page.buckets.len(), 1);
}
