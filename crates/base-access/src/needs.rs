//! What each action needs: verbs on resources.
//!
//! Always: every action is named here, so that a new one does not compile until it says what it needs; what reads or changes
//! keys names every one of them. `golden_needs` in door-http lists all of them.
//! Not here: the decision (decide.rs).

mod redis;

use crate::pattern::{Keys, Kind, Target};
use crate::verb::Verb;
use base_types::access::AccessAction;
use base_types::action::{Action, BatchStep, KvTarget};
use base_types::mutant::{planted, Mutant};
use base_types::s3::S3Action;
use base_types::versioned::{Command, Operation, Query, Read, Span, Transaction, VersionedCall};
use base_types::ClusterName;

/// A verb on a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need<'a> {
    /// What is to be done.
    pub verb: Verb,
    /// To what.
    pub target: Target<'a>,
}

/// Gives everything that an action needs to `check`, and stops at its first error.
pub fn for_each<E>(action: &Action, check: &mut dyn FnMut(Need<'_>) -> Result<(), E>) -> Result<(), E> {
    use Verb::{Configure, Delete, Inspect, List, Operate, Read, Write};
    let mut need = |verb: Verb, target: Target<'_>| check(Need { verb, target });
    match action {
        Action::KvPut { target, key, .. } => need(Write, kv(target, Keys::One(key))),
        Action::KvGet { target, key } => need(Read, kv(target, Keys::One(key))),
        Action::KvDelete { target, key } => need(Delete, kv(target, Keys::One(key))),
        Action::KvScan { target, prefix, start_after, end, reverse, keys_only, .. } => {
            let start = start_after.as_deref().unwrap_or(b"");
            let end = end.as_deref();
            let (from, end) = match (*reverse, start_after) {
                (false, _) => (start, end),
                (true, None) => (&b""[..], end),
                (true, Some(_)) => (&b""[..], Some(end.map_or(start, |end| end.min(start)))),
            };
            let target = kv(target, Keys::Range { prefix, from, end });
            need(List, target)?;
            // Values are read as a get reads them.
            if *keys_only {
                return Ok(());
            }
            need(Read, target)
        }
        Action::KvBatch { target, steps } => steps.iter().try_for_each(|step| match step {
            BatchStep::Put { key, .. } => need(Write, kv(target, Keys::One(key))),
            BatchStep::Delete { key } => need(Delete, kv(target, Keys::One(key))),
        }),
        // Whether the comparison held says what the value is.
        Action::KvCompareAndSet { target, key, value, .. } => {
            let target = kv(target, Keys::One(key));
            need(Read, target)?;
            need(if value.is_some() { Write } else { Delete }, target)
        }
        Action::CreateKeyspace { keyspace, .. }
        | Action::DeleteKeyspace { keyspace }
        | Action::Reshard { keyspace, .. } => need(Configure, Target::whole(Kind::Kv, keyspace)),
        Action::DescribeKeyspace { keyspace } => need(Inspect, Target::whole(Kind::Kv, keyspace)),
        Action::ListKeyspaces => need(Inspect, Target::every(Kind::Kv)),
        Action::SetEngine { target: KvTarget::Keyspace(keyspace), .. } => {
            need(Configure, Target::whole(Kind::Kv, keyspace))
        }
        Action::SetEngine { target: KvTarget::Cluster(name), .. } => need(Operate, cluster(name)),
        Action::CreateCluster { name, .. }
        | Action::DeleteCluster { name }
        | Action::TransferLeader { name, .. }
        | Action::AddMember { name, .. }
        | Action::SkipEntry { name, .. }
        | Action::RecoverCluster { name, .. }
        | Action::DiscardEnded { name, .. }
        | Action::RemoveMember { name, .. }
        | Action::MoveMember { name, .. }
        | Action::SetDefaultConsistency { name, .. } => need(Operate, cluster(name)),
        Action::ResolveCluster { name } | Action::DescribeCluster { name } | Action::VerifyCluster { name, .. } => {
            need(Inspect, cluster(name))
        }
        Action::ListClusters { .. } | Action::ListRecoveries { name: None } => {
            need(Inspect, Target::every(Kind::Cluster))
        }
        Action::ListRecoveries { name: Some(name) } => need(Inspect, cluster(name)),
        Action::Redis { target, command } => redis::words(target, command, check),
        Action::RedisCall { target, call } => redis::call(target, call, check),
        Action::Versioned { target, call } => versioned(target, call, check),
        Action::S3(call) => s3(call, check),
        Action::ListNodes | Action::Status | Action::UpgradeStatus => need(Inspect, Target::every(Kind::Node)),
        Action::FinalizeUpgrade => need(Operate, Target::every(Kind::Node)),
        Action::DrainNode { .. } => need(Operate, Target::every(Kind::Node)),
        Action::DecommissionNode { .. } | Action::RecommissionNode { .. } | Action::ForgetNode { .. } => {
            need(Operate, Target::every(Kind::Node))
        }
        Action::Access(call) => access(call, check),
    }
}

fn kv<'a>(target: &'a KvTarget, keys: Keys<'a>) -> Target<'a> {
    match target {
        KvTarget::Keyspace(name) => Target { kind: Kind::Kv, name: Some(name), keys },
        // What lies there may be anybody's: keyspaces, accounts, buckets. It is never taken for a keyspace.
        KvTarget::Cluster(name) if planted(Mutant::RawClusterAllowed) => {
            Target { kind: Kind::Kv, name: Some(name.tail()), keys }
        }
        KvTarget::Cluster(name) => cluster(name),
    }
}

/// Of keys with versions: every span that is compared, read, put or deleted, in whichever branch. What is about no key (leases,
/// pins) may be used by who writes some; what changes the whole needs the right to configure it.
fn versioned<'a, E>(
    target: &'a KvTarget,
    call: &'a VersionedCall,
    check: &mut dyn FnMut(Need<'a>) -> Result<(), E>,
) -> Result<(), E> {
    use Verb::{Configure, Inspect, Write};
    let mut need = |verb: Verb, keys: Keys<'a>| check(Need { verb, target: kv(target, keys) });
    let mut whole = |verb: Verb| need(verb, Keys::ALL);
    match call {
        VersionedCall::Change(command) => match command {
            Command::Commit { transaction } => transaction_needs(target, transaction, check),
            // No key is touched: puts that attach one need what puts need.
            Command::LeaseGrant { .. } | Command::LeaseKeepAlive { .. } | Command::LeaseExpire { .. } => {
                need(Write, Keys::Any)
            }
            Command::Pin { .. } | Command::Unpin { .. } => whole(Write),
            // Deletes the keys that are attached, whichever they are.
            Command::LeaseRevoke { .. } => {
                whole(Write)?;
                whole(Verb::Delete)
            }
            Command::Compact { .. } | Command::Collect { .. } | Command::Close { .. } => whole(Configure),
        },
        VersionedCall::Ask(query) => match query {
            Query::Read { read, .. } => read_needs(target, read, check),
            Query::Changes { span, .. } | Query::Await { span, .. } => {
                check(Need { verb: Verb::Read, target: kv(target, keys_of(span)) })
            }
            Query::Lease { .. } | Query::Leases { .. } => whole(Verb::List),
            Query::Describe | Query::StampAt { .. } => whole(Inspect),
        },
    }
}

fn transaction_needs<'a, E>(
    target: &'a KvTarget,
    transaction: &'a Transaction,
    check: &mut dyn FnMut(Need<'a>) -> Result<(), E>,
) -> Result<(), E> {
    for condition in &transaction.conditions {
        check(Need { verb: Verb::Read, target: kv(target, keys_of(&condition.span)) })?;
    }
    for operation in transaction.then.iter().chain(&transaction.otherwise) {
        match operation {
            Operation::Put(put) => {
                let target = kv(target, Keys::One(&put.key));
                check(Need { verb: Verb::Write, target })?;
                if put.previous {
                    check(Need { verb: Verb::Read, target })?;
                }
            }
            Operation::Delete { span, previous } => {
                let target = kv(target, keys_of(span));
                check(Need { verb: Verb::Delete, target })?;
                if *previous {
                    check(Need { verb: Verb::Read, target })?;
                }
            }
            Operation::Read(read) => read_needs(target, read, check)?,
            Operation::Nested(transaction) => transaction_needs(target, transaction, check)?,
        }
    }
    Ok(())
}

fn read_needs<'a, E>(
    target: &'a KvTarget,
    read: &'a Read,
    check: &mut dyn FnMut(Need<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let target = kv(target, keys_of(&read.span));
    if !matches!(read.span, Span::One { .. }) {
        check(Need { verb: Verb::List, target })?;
        // Values are read as a get reads them; a count shows none.
        if read.keys_only || read.count_only {
            return Ok(());
        }
    }
    check(Need { verb: Verb::Read, target })
}

fn keys_of(span: &Span) -> Keys<'_> {
    match span {
        Span::One { key } => Keys::One(key),
        Span::Range { start, end } => Keys::Range { prefix: b"", from: start, end: Some(end) },
        Span::From { start } => Keys::Range { prefix: b"", from: start, end: None },
    }
}

fn cluster(name: &ClusterName) -> Target<'_> {
    Target::whole(Kind::Cluster, name.as_str())
}

/// Of users and roles. Who may grant what is core-access's to say: nobody gives what they do not have.
fn access<E>(call: &AccessAction, check: &mut dyn FnMut(Need<'_>) -> Result<(), E>) -> Result<(), E> {
    use AccessAction as A;
    let (verb, tenant) = match call {
        // Everybody may ask who they are.
        A::WhoAmI(_) => return Ok(()),
        A::ListUsers(call) => (Verb::Inspect, call.tenant.as_deref()),
        A::DescribeUser(call) => (Verb::Inspect, tenant_of(&call.user)),
        A::ListGroups(call) => (Verb::Inspect, call.tenant.as_deref()),
        A::CreateGroup(call) => (Verb::Secure, tenant_of(&call.group)),
        A::DeleteGroup(call) => (Verb::Secure, tenant_of(&call.group)),
        A::ListRoles(_) | A::DescribeRole(_) | A::ListTenants(_) => (Verb::Inspect, None),
        A::ListTokens(call) => (Verb::Inspect, call.user.as_deref().and_then(tenant_of)),
        A::ListS3Keys(call) => (Verb::Inspect, call.user.as_deref().and_then(tenant_of)),
        A::CreateUser(call) => (Verb::Secure, tenant_of(&call.user)),
        A::DeleteUser(call) => (Verb::Secure, tenant_of(&call.user)),
        A::ChangeUser(call) => (Verb::Secure, tenant_of(&call.user)),
        A::GrantRole(call) => (Verb::Secure, tenant_of(&call.user)),
        A::RevokeRole(call) => (Verb::Secure, tenant_of(&call.user)),
        A::CreateToken(call) => (Verb::Secure, tenant_of(&call.user)),
        A::CreateS3Key(call) => (Verb::Secure, tenant_of(&call.user)),
        // Whose it is shows its row; core-access looks again.
        A::RevokeToken(call) => (Verb::Secure, call.user.as_deref().and_then(tenant_of)),
        A::RevokeS3Key(call) => (Verb::Secure, call.user.as_deref().and_then(tenant_of)),
        A::CreateRole(_) | A::DeleteRole(_) | A::CreateTenant(_) | A::DeleteTenant(_) | A::CreateRoot(_) => {
            (Verb::Secure, None)
        }
    };
    let target = match tenant {
        Some(tenant) => Target::whole(Kind::Security, tenant),
        None => Target::every(Kind::Security),
    };
    check(Need { verb, target })
}

/// The tenant that a user's name belongs to: `alice@tenant`.
fn tenant_of(user: &str) -> Option<&str> {
    user.rsplit_once('@').map(|(_, tenant)| tenant)
}

fn s3<E>(call: &S3Action, check: &mut dyn FnMut(Need<'_>) -> Result<(), E>) -> Result<(), E> {
    use S3Action as S;
    use Verb::{Configure, Delete, Inspect, List, Operate, Read, Secure, Write};
    let mut need = |verb: Verb, target: Target<'_>| check(Need { verb, target });
    let object = |bucket, key| object(bucket, key);
    match call {
        S::CreateAccount(call) => need(Secure, account(&call.account)),
        S::DeleteAccount(call) => need(Secure, account(&call.account)),
        S::ListAccounts(_) => need(Inspect, Target::every(Kind::Account)),
        // Who has a key has what the account has.
        S::CreateAccessKey(call) => {
            need(Secure, account(&call.account))?;
            [Read, List, Write, Delete, Configure].into_iter().try_for_each(|verb| need(verb, account(&call.account)))
        }
        // It shows the secret, and of that which account it is of.
        S::GetAccessKey(_) => {
            need(Secure, Target::every(Kind::Account))?;
            [Read, List, Write, Delete, Configure]
                .into_iter()
                .try_for_each(|verb| need(verb, Target::every(Kind::Account)))
        }
        S::SealAccessKey(_) => need(Secure, Target::every(Kind::Account)),
        S::DeleteAccessKey(_) => need(Secure, Target::every(Kind::Account)),
        S::ListAccessKeys(call) => need(Inspect, account(&call.account)),
        S::CreateBucket(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucket(call) => need(Configure, bucket(&call.bucket)),
        S::HeadBucket(call) => need(Inspect, bucket(&call.bucket)),
        S::ListBuckets(_) => need(Inspect, Target::every(Kind::Bucket)),
        S::GetBucketLocation(call) => need(Inspect, bucket(&call.bucket)),
        S::GetBucketVersioning(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketVersioning(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketAcl(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketAcl(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketPolicy(call) => need(Inspect, bucket(&call.bucket)),
        S::GetBucketPolicyStatus(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketPolicy(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketPolicy(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketCors(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketCors(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketCors(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketLifecycleConfiguration(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketLifecycleConfiguration(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketLifecycle(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketTagging(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketTagging(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketTagging(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketOwnershipControls(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketOwnershipControls(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketOwnershipControls(call) => need(Configure, bucket(&call.bucket)),
        S::GetPublicAccessBlock(call) => need(Inspect, bucket(&call.bucket)),
        S::PutPublicAccessBlock(call) => need(Configure, bucket(&call.bucket)),
        S::DeletePublicAccessBlock(call) => need(Configure, bucket(&call.bucket)),
        S::GetObjectLockConfiguration(call) => need(Inspect, bucket(&call.bucket)),
        S::PutObjectLockConfiguration(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketEncryption(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketEncryption(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketEncryption(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketQuota(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketQuota(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketQuota(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketWebsite(call) => need(Inspect, bucket(&call.bucket)),
        S::PutBucketWebsite(call) => need(Configure, bucket(&call.bucket)),
        S::DeleteBucketWebsite(call) => need(Configure, bucket(&call.bucket)),
        S::GetBucketLogging(call) => need(Inspect, bucket(&call.bucket)),
        // The log is written there for the caller that asks for it.
        S::PutBucketLogging(call) => {
            need(Configure, bucket(&call.bucket))?;
            call.logging.iter().try_for_each(|to| need(Write, listed(&to.bucket, &to.prefix)))
        }
        S::PutObject(call) => need(Write, object(&call.bucket, &call.key)),
        S::GetObject(call) => need(Read, object(&call.bucket, &call.key)),
        S::HeadObject(call) => need(Read, object(&call.bucket, &call.key)),
        S::DeleteObject(call) => need(Delete, object(&call.bucket, &call.key)),
        S::DeleteObjects(call) => call.objects.iter().try_for_each(|one| need(Delete, object(&call.bucket, &one.key))),
        S::CopyObject(call) => {
            need(Read, object(&call.copy_source.bucket, &call.copy_source.key))?;
            need(Write, object(&call.bucket, &call.key))
        }
        S::GetObjectAttributes(call) => need(Read, object(&call.bucket, &call.key)),
        S::GetObjectTagging(call) => need(Read, object(&call.bucket, &call.key)),
        S::PutObjectTagging(call) => need(Write, object(&call.bucket, &call.key)),
        S::DeleteObjectTagging(call) => need(Write, object(&call.bucket, &call.key)),
        S::GetObjectAcl(call) => need(Read, object(&call.bucket, &call.key)),
        S::PutObjectAcl(call) => need(Configure, object(&call.bucket, &call.key)),
        S::GetObjectLegalHold(call) => need(Read, object(&call.bucket, &call.key)),
        S::PutObjectLegalHold(call) => need(Configure, object(&call.bucket, &call.key)),
        S::GetObjectRetention(call) => need(Read, object(&call.bucket, &call.key)),
        S::PutObjectRetention(call) => need(Configure, object(&call.bucket, &call.key)),
        S::RestoreObject(call) => need(Write, object(&call.bucket, &call.key)),
        S::CreateMultipartUpload(call) => need(Write, object(&call.bucket, &call.key)),
        S::UploadPart(call) => need(Write, object(&call.bucket, &call.key)),
        S::UploadPartCopy(call) => {
            need(Read, object(&call.copy_source.bucket, &call.copy_source.key))?;
            need(Write, object(&call.bucket, &call.key))
        }
        S::CompleteMultipartUpload(call) => need(Write, object(&call.bucket, &call.key)),
        S::AbortMultipartUpload(call) => need(Write, object(&call.bucket, &call.key)),
        S::ListParts(call) => need(List, object(&call.bucket, &call.key)),
        S::ListMultipartUploads(call) => need(List, listed(&call.bucket, &call.prefix)),
        S::ListObjects(call) => need(List, listed(&call.bucket, &call.prefix)),
        S::ListObjectsV2(call) => need(List, listed(&call.bucket, &call.prefix)),
        S::ListObjectVersions(call) => need(List, listed(&call.bucket, &call.prefix)),
        S::CountObjects(call) => need(List, listed(&call.bucket, &call.prefix)),
        S::CutPoints(call) => need(List, bucket(&call.bucket)),
        S::DescribeShards(call) => need(Inspect, bucket(&call.bucket)),
        S::LookupData(call) => need(Read, object(&call.bucket, &call.key)),
        // What no object has any more: whose it was is not known.
        S::ListFreedData(_) => need(Inspect, Target::every(Kind::Node)),
        S::ForgetFreedData(_) => need(Operate, Target::every(Kind::Node)),
    }
}

fn account(name: &str) -> Target<'_> {
    Target::whole(Kind::Account, name)
}

fn bucket(name: &str) -> Target<'_> {
    Target::whole(Kind::Bucket, name)
}

fn object<'a>(bucket: &'a str, key: &'a str) -> Target<'a> {
    Target { kind: Kind::Bucket, name: Some(bucket), keys: Keys::One(key.as_bytes()) }
}

fn listed<'a>(bucket: &'a str, prefix: &'a str) -> Target<'a> {
    Target { kind: Kind::Bucket, name: Some(bucket), keys: Keys::beginning_with(prefix.as_bytes()) }
}
