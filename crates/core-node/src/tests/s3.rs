//! Accounts and buckets on whole cores.

use super::*;
use base_types::s3::*;

fn s3(world: &mut World, node: u64, call: impl Into<S3Action>) -> Result<S3Answer, &'static str> {
    match world.act(node, Action::S3(call.into())) {
        Ok(answer) => match answer.result {
            ActionResult::S3(answer) => Ok(answer),
            other => panic!("{other:?}"),
        },
        Err(failure) => Err(failure.refusal.code),
    }
}

fn create(account: &str) -> CreateBucket {
    CreateBucket { bucket: "photos".into(), account: account.into(), ..CreateBucket::default() }
}

fn head() -> HeadBucket {
    HeadBucket { bucket: "photos".into() }
}

#[test]
fn a_bucket_is_made_on_one_node_and_found_and_removed_on_others() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    for account in ["ann", "bob"] {
        s3(&mut world, 1, CreateAccount { account: account.into(), display_name: String::new() }).unwrap();
    }
    let key =
        CreateAccessKey { account: "ann".into(), access_key: Some("AKEY".into()), secret_key: Some("a-secret".into()) };
    let made = s3(&mut world, 2, key).unwrap();
    assert_eq!(s3(&mut world, 3, GetAccessKey { access_key: "AKEY".into() }), Ok(made));
    assert_eq!(s3(&mut world, 1, head()), Err("NoSuchBucket"));
    s3(&mut world, 1, create("ann")).unwrap();
    for node in 1..=3 {
        let info = BucketInfo::try_from(s3(&mut world, node, head()).unwrap()).unwrap();
        assert_eq!(info.owner.id, "ann");
    }
    assert_eq!(s3(&mut world, 2, create("bob")), Err("BucketAlreadyExists"));
    let versioning = PutBucketVersioning { bucket: "photos".into(), status: Versioning::Enabled };
    s3(&mut world, 3, versioning).unwrap();
    let told = s3(&mut world, 1, GetBucketVersioning { bucket: "photos".into() });
    assert_eq!(told, Ok(BucketVersioning { status: Some(Versioning::Enabled) }.into()));
    s3(&mut world, 3, DeleteBucket { bucket: "photos".into() }).unwrap();
    assert_eq!(s3(&mut world, 1, head()), Err("NoSuchBucket"));
    s3(&mut world, 2, create("bob")).unwrap();
    for node in 1..=3 {
        let info = BucketInfo::try_from(s3(&mut world, node, head()).unwrap()).unwrap();
        assert_eq!((&info.owner.id[..], info.versioning), ("bob", None));
    }
}
