//! Who may do what: a pure decision over the bucket's owner, policy, public access block and ACLs.
//!
//!   not allowed by the session's policy ─▶ no      beyond the key's or the tenant's bounds ─▶ no
//!   explicit deny of the bucket's policy ─▶ no
//!   owner ─▶ yes   a role of the user ─▶ yes   allow of the policy ─▶ yes   ACL (where ACLs count) ─▶ yes   else no
//!
//! Always: no answer without a reason; a session with a policy may do nothing that the policy does not allow, whatever else would
//! (`tests::a_sessions_policy_bounds_every_reason`, mutant `SessionPolicyDropped`); a policy that cannot be read lets in only the bucket's owner; no decision takes
//! more than [`STEPS_MAX`] steps: a request that would is refused.
//! Not here: signatures (s3s), what a call needs (`gateway`), S3's own texts of ACLs (`acl.rs`).

pub mod acl;
mod condition;
mod grants;
mod policy;
mod variable;
mod wildcard;

pub use condition::Context;
pub use policy::{Policy, Verdict, ACTIONS, PATTERN_BYTES_MAX, POLICY_BYTES_MAX, SESSION_POLICY_CHARS_MAX};
pub use wildcard::STEPS_MAX;

use base_access::Identity;
use base_types::mutant::{planted, Mutant};
use base_types::s3::{Acl, BucketInfo, Grantee, ObjectOwnership, Permission, PublicAccessBlock};
use base_types::Refusal;
use std::sync::Arc;
use wildcard::Steps;

/// Who asks.
#[derive(Clone, PartialEq, Debug)]
pub enum Caller {
    /// Nobody signed the request.
    Anonymous,
    /// An account; its key signed the request.
    Account(String),
    /// A user of the world's directory, whose account is named so.
    User(String, Box<Identity>),
    /// A session of such a user that has a policy: it may do what both allow.
    Bounded(String, Box<Identity>, Arc<Policy>),
}

impl Caller {
    /// Whether this is that account.
    pub fn is(&self, account: &str) -> bool {
        self.account() == Some(account)
    }

    /// Its account.
    pub fn account(&self) -> Option<&str> {
        match self {
            Caller::Anonymous => None,
            Caller::Account(account) | Caller::User(account, _) | Caller::Bounded(account, ..) => Some(account),
        }
    }

    /// What the world's directory says of it.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Caller::User(_, identity) | Caller::Bounded(_, identity, _) => Some(identity),
            Caller::Anonymous | Caller::Account(_) => None,
        }
    }

    /// What bounds its session.
    fn session_policy(&self) -> Option<&Policy> {
        match self {
            Caller::Bounded(.., policy) if !planted(Mutant::SessionPolicyDropped) => Some(policy),
            _ => None,
        }
    }
}

/// A request to be decided.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// The policy action, for example `s3:GetObject`.
    pub action: &'a str,
    /// The bucket.
    pub bucket: &'a BucketInfo,
    /// Its policy, read by [`policy_of`].
    pub policy: Option<&'a Result<Policy, Refusal>>,
    /// The key, where the action is on an object.
    pub key: Option<&'a str>,
    /// The ACL of the version, where it is there and the action is on it.
    pub object_acl: Option<&'a Acl>,
    /// What conditions of the policy test.
    pub context: &'a Context,
}

/// Why a request is refused, for logs and tests; clients learn `AccessDenied` alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// A statement of the policy denies it.
    ByPolicy,
    /// The policy allows it, but the bucket is closed to the public.
    PublicBlocked,
    /// It is beyond what the caller's key or tenant is bounded by.
    OutOfBounds,
    /// The session's policy does not allow it.
    BySession,
    /// Nothing allows it.
    NotAllowed,
    /// The policy would take too much work to judge this request by.
    TooCostly,
}

/// A bucket's policy, if it has one, as far as it is understood.
pub fn policy_of(bucket: &BucketInfo) -> Option<Result<Policy, Refusal>> {
    bucket.policy.as_deref().map(|text| Policy::parse(text, &bucket.bucket))
}

/// Whether a call that is decided key by key, once they are known, could be allowed for any: else its body need not
/// be read.
pub fn might_allow(caller: &Caller, action: &str, bucket: &BucketInfo) -> bool {
    let by_policy = || match policy_of(bucket) {
        Some(Ok(policy)) => policy.might_allow(caller, action),
        Some(Err(_)) | None => false,
    };
    let bounded = caller.session_policy().is_some_and(|policy| !policy.might_allow(caller, action));
    let any_object =
        Asked { caller, action, bucket, policy: None, key: None, object_acl: None, context: &Context::default() };
    let by_any = || {
        caller.is(&bucket.owner.id)
            || caller.identity().is_some_and(|identity| grants::might_give(identity, action, &bucket.bucket))
            || acl_allows(&any_object, bucket.public_access_block.unwrap_or_default())
            || by_policy()
    };
    !bounded && by_any()
}

/// The calls by which a bucket's owner can always mend a policy that shuts everybody out.
const OWNER_ALWAYS: [&str; 3] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

/// Decides.
pub fn decide(asked: &Asked<'_>) -> Result<(), Denied> {
    let owner = asked.caller.is(&asked.bucket.owner.id);
    let mut steps = Steps::default();
    in_session(asked, &mut steps)?;
    if !in_bounds(asked) {
        return Err(Denied::OutOfBounds);
    }
    if owner && OWNER_ALWAYS.contains(&asked.action) {
        return Ok(());
    }
    let verdict = match asked.policy {
        None => Verdict::Silent,
        Some(Ok(policy)) => {
            let resource = (asked.bucket.bucket.as_str(), asked.key);
            policy.judge_within(&mut steps, asked.caller, asked.action, resource, asked.context)
        }
        Some(Err(_)) if owner => Verdict::Silent,
        Some(Err(_)) => Verdict::Deny,
    };
    match verdict {
        Verdict::Deny => return Err(Denied::ByPolicy),
        Verdict::TooCostly => return Err(Denied::TooCostly),
        Verdict::Allow | Verdict::Silent => {}
    }
    if owner_may(asked, owner) || role_allows(asked) {
        return Ok(());
    }
    let block = asked.bucket.public_access_block.unwrap_or_default();
    if verdict == Verdict::Allow && !foreign_object(asked) {
        let public = matches!(asked.policy, Some(Ok(policy)) if policy.is_public());
        if block.restrict_public_buckets && public && !owner {
            return Err(Denied::PublicBlocked);
        }
        return Ok(());
    }
    if acl_allows(asked, block) {
        return Ok(());
    }
    Err(Denied::NotAllowed)
}

/// Whether the caller's key and tenant reach so far.
fn in_bounds(asked: &Asked<'_>) -> bool {
    let bucket = &asked.bucket.bucket;
    asked.caller.identity().is_none_or(|own| grants::within(own, asked.action, bucket, asked.key, asked.context))
}

/// What the session's policy says, if there is one: what it does not allow, nothing else does. It takes of the decision's steps.
fn in_session(asked: &Asked<'_>, steps: &mut Steps) -> Result<(), Denied> {
    let Some(policy) = asked.caller.session_policy() else { return Ok(()) };
    let resource = (asked.bucket.bucket.as_str(), asked.key);
    match policy.judge_within(steps, asked.caller, asked.action, resource, asked.context) {
        Verdict::Allow => Ok(()),
        Verdict::Deny | Verdict::Silent => Err(Denied::BySession),
        Verdict::TooCostly => Err(Denied::TooCostly),
    }
}

/// Whether a role of the user gives it. The world's roles are above its buckets: an object that somebody else put is no exception.
fn role_allows(asked: &Asked<'_>) -> bool {
    let bucket = &asked.bucket.bucket;
    asked.caller.identity().is_some_and(|own| grants::gives(own, asked.action, bucket, asked.key, asked.context))
}

/// Whether a user's roles, and its session's policy, let it make this bucket. An S3 account makes any.
pub fn may_create(caller: &Caller, bucket: &str, context: &Context) -> bool {
    const CREATE: &str = "s3:CreateBucket";
    let session = caller.session_policy();
    session.is_none_or(|policy| policy.judge(caller, CREATE, bucket, None, context) == Verdict::Allow)
        && caller.identity().is_none_or(|own| grants::gives(own, CREATE, bucket, None, context))
}

/// Whether the caller's session may list buckets by name at all.
pub fn may_list_buckets(caller: &Caller, context: &Context) -> bool {
    caller.session_policy().is_none_or(|policy| policy.allows_list_of_buckets(caller, context))
}

/// Whether the caller's key and tenant reach into this bucket at all: a list of names has no others.
pub fn reaches(caller: &Caller, bucket: &str) -> bool {
    caller.identity().is_none_or(|own| grants::reaches(own, bucket))
}

/// Decides whether a caller may learn that a bucket is there and in which region: who may list it, and a user with a role for any
/// part of it. Clients look before they put below a prefix. The policy's deny of listing wins here, too.
pub fn decide_head(asked: &Asked<'_>) -> Result<(), Denied> {
    let denied = match decide(asked) {
        Err(denied @ (Denied::NotAllowed | Denied::OutOfBounds)) => denied,
        done => return done,
    };
    let bucket = &asked.bucket.bucket;
    let known = asked.caller.identity().is_some_and(|own| grants::reaches(own, bucket) && grants::touches(own, bucket));
    let verdict = match asked.policy {
        None => Verdict::Silent,
        Some(Ok(policy)) => policy.judge(asked.caller, asked.action, bucket, asked.key, asked.context),
        Some(Err(_)) => Verdict::Deny,
    };
    match verdict {
        Verdict::Allow | Verdict::Silent if known => Ok(()),
        Verdict::Deny if denied == Denied::OutOfBounds => Err(Denied::ByPolicy),
        _ => Err(denied),
    }
}

/// Whether ACLs count in this bucket.
pub fn acls_count(bucket: &BucketInfo) -> bool {
    bucket.object_ownership.unwrap_or(ObjectOwnership::ObjectWriter) != ObjectOwnership::BucketOwnerEnforced
}

/// An object that somebody else owns: the bucket's owner and policy give nothing away of it.
fn foreign_object(asked: &Asked<'_>) -> bool {
    let foreign = asked.object_acl.is_some_and(|acl| acl.owner.id != asked.bucket.owner.id);
    foreign && acls_count(asked.bucket)
}

fn owner_may(asked: &Asked<'_>, bucket_owner: bool) -> bool {
    let foreign = foreign_object(asked);
    if foreign && asked.object_acl.is_some_and(|acl| asked.caller.is(&acl.owner.id)) {
        // The owner of an object in another's bucket reads it and changes its ACL, but the bucket's own
        // calls (listing, deleting) stay with the bucket.
        return object_permission(asked.action).is_some();
    }
    bucket_owner && (!foreign || object_permission(asked.action).is_none())
}

fn acl_allows(asked: &Asked<'_>, block: PublicAccessBlock) -> bool {
    if !acls_count(asked.bucket) {
        return false;
    }
    let (acl, wanted) = match (object_permission(asked.action), bucket_permission(asked.action)) {
        (Some(wanted), _) => match asked.object_acl {
            Some(acl) => (acl, wanted),
            None => return false,
        },
        (None, Some(wanted)) => (&asked.bucket.acl, wanted),
        (None, None) => return false,
    };
    acl.grants.iter().any(|grant| {
        let for_caller = match &grant.grantee {
            Grantee::CanonicalUser(id) => asked.caller.is(id),
            Grantee::AllUsers => !block.ignore_public_acls,
            Grantee::AuthenticatedUsers => !block.ignore_public_acls && *asked.caller != Caller::Anonymous,
            Grantee::LogDelivery => false,
        };
        for_caller && (grant.permission == wanted || grant.permission == Permission::FullControl)
    })
}

/// The permission in an object's ACL that an action needs.
fn object_permission(action: &str) -> Option<Permission> {
    Some(match action {
        "s3:GetObject" | "s3:GetObjectVersion" | "s3:GetObjectAttributes" | "s3:GetObjectVersionAttributes" => {
            Permission::Read
        }
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => Permission::ReadAcp,
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => Permission::WriteAcp,
        _ => return None,
    })
}

/// The permission in a bucket's ACL that an action needs.
fn bucket_permission(action: &str) -> Option<Permission> {
    Some(match action {
        "s3:ListBucket" | "s3:ListBucketVersions" | "s3:ListBucketMultipartUploads" => Permission::Read,
        "s3:PutObject" | "s3:DeleteObject" => Permission::Write,
        "s3:GetBucketAcl" => Permission::ReadAcp,
        "s3:PutBucketAcl" => Permission::WriteAcp,
        _ => return None,
    })
}

#[cfg(all(test, feature = "mutants"))]
mod mutants;
#[cfg(test)]
mod tests;
