//! What roles of the world's directory give at the S3 door: an action of policies as a verb on a resource.
//!
//! Always: every action that a policy may name has a verb (`tests::every_action_has_a_verb`); what a key or a tenant is bounded by
//! bounds every reason to allow, policies and ownership among them.
//! Not here: roles (base-access), when grants count (`access.rs`).

use super::Context;
use base_access::{Identity, Keys, Kind, Need, Target, Verb};

/// The verb that an action needs; an action that is none needs one that only `root` has with everything else.
fn verb_of(action: &str) -> Verb {
    match action {
        "s3:AbortMultipartUpload"
        | "s3:PutObject"
        | "s3:PutObjectTagging"
        | "s3:PutObjectVersionTagging"
        | "s3:DeleteObjectTagging"
        | "s3:DeleteObjectVersionTagging"
        | "s3:RestoreObject" => Verb::Write,
        "s3:GetObject"
        | "s3:GetObjectAcl"
        | "s3:GetObjectAttributes"
        | "s3:GetObjectLegalHold"
        | "s3:GetObjectRetention"
        | "s3:GetObjectTagging"
        | "s3:GetObjectVersion"
        | "s3:GetObjectVersionAcl"
        | "s3:GetObjectVersionAttributes"
        | "s3:GetObjectVersionTagging" => Verb::Read,
        "s3:ListBucket" | "s3:ListBucketMultipartUploads" | "s3:ListBucketVersions" | "s3:ListMultipartUploadParts" => {
            Verb::List
        }
        "s3:DeleteObject" | "s3:DeleteObjectVersion" => Verb::Delete,
        "s3:GetBucketAcl"
        | "s3:GetBucketCORS"
        | "s3:GetBucketLocation"
        | "s3:GetBucketObjectLockConfiguration"
        | "s3:GetBucketOwnershipControls"
        | "s3:GetBucketPolicy"
        | "s3:GetBucketPolicyStatus"
        | "s3:GetBucketPublicAccessBlock"
        | "s3:GetBucketTagging"
        | "s3:GetBucketVersioning"
        | "s3:GetEncryptionConfiguration"
        | "s3:GetLifecycleConfiguration"
        | "s3:GetAccelerateConfiguration"
        | "s3:GetAnalyticsConfiguration"
        | "s3:GetBucketLogging"
        | "s3:GetBucketNotification"
        | "s3:GetBucketRequestPayment"
        | "s3:GetBucketWebsite"
        | "s3:GetIntelligentTieringConfiguration"
        | "s3:GetInventoryConfiguration"
        | "s3:GetMetricsConfiguration"
        | "s3:GetReplicationConfiguration" => Verb::Inspect,
        // Settings, locks and rights.
        _ => Verb::Configure,
    }
}

/// What a request is about; a listing's keys are those of its prefix.
fn target<'a>(action: &str, bucket: &'a str, key: Option<&'a str>, prefix: &'a str) -> Target<'a> {
    let keys = match key {
        Some(key) => Keys::One(key.as_bytes()),
        None if verb_of(action) == Verb::List => Keys::beginning_with(prefix.as_bytes()),
        None => Keys::ALL,
    };
    Target { kind: Kind::Bucket, name: Some(bucket), keys }
}

fn prefix_of(context: &Context) -> &str {
    context.one("s3:prefix").unwrap_or("")
}

/// Whether roles give this.
pub fn gives(identity: &Identity, action: &str, bucket: &str, key: Option<&str>, context: &Context) -> bool {
    let target = target(action, bucket, key, prefix_of(context));
    base_access::allow(identity, &Need { verb: verb_of(action), target }).is_ok()
}

/// Whether roles give this for any key of the bucket at all.
pub fn might_give(identity: &Identity, action: &str, bucket: &str) -> bool {
    let verb = verb_of(action);
    identity.rules.iter().any(|rule| rule.verbs.has(verb) && rule.on.touches(Kind::Bucket, bucket))
}

/// Whether a role gives anything in the bucket.
pub fn touches(identity: &Identity, bucket: &str) -> bool {
    identity.rules.iter().any(|rule| rule.on.touches(Kind::Bucket, bucket))
}

/// Whether anything of the bucket lies within what the key and the tenant are bounded by.
pub fn reaches(identity: &Identity, bucket: &str) -> bool {
    identity.within.as_ref().is_none_or(|bounds| bounds.iter().any(|bound| bound.touches(Kind::Bucket, bucket)))
}

/// Whether it lies within what the key and the tenant are bounded by.
pub fn within(identity: &Identity, action: &str, bucket: &str, key: Option<&str>, context: &Context) -> bool {
    let target = target(action, bucket, key, prefix_of(context));
    identity.within.as_ref().is_none_or(|bounds| bounds.iter().any(|bound| bound.covers(&target)))
}

#[cfg(test)]
mod tests {
    use super::super::ACTIONS;
    use super::*;

    #[test]
    fn every_action_has_a_verb() {
        let of = |verb: Verb| ACTIONS.iter().filter(|action| verb_of(action) == verb).count();
        let counts = [Verb::Read, Verb::List, Verb::Write, Verb::Delete, Verb::Inspect].map(of);
        assert_eq!(counts, [10, 4, 7, 2, 22]);
        // What changes settings, locks or rights; a new action that is none of these needs a line above.
        for action in ACTIONS.iter().filter(|action| verb_of(action) == Verb::Configure) {
            let known = ["s3:Put", "s3:DeleteBucket", "s3:CreateBucket", "s3:BypassGovernanceRetention"];
            assert!(known.iter().any(|start| action.starts_with(start)), "{action}");
        }
    }
}
