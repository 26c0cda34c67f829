//! The calls on buckets.

use super::{
    Acl, CorsRule, Encryption, LifecycleRule, LogTarget, ObjectLockConfiguration, ObjectOwnership, Owner, PolicyStatus,
    PublicAccessBlock, Quota, Tag, Versioning, Website,
};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Makes a bucket. Its name is unique in the whole world.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateBucket {
    /// Its name.
    pub bucket: String,
    /// Whose it is.
    pub account: String,
    /// The region it is asked for.
    pub location_constraint: Option<String>,
    /// Its ACL; only the owner's where absent.
    pub acl: Option<Acl>,
    /// Whether objects can be locked; switches versioning on.
    #[serde(default)]
    pub object_lock_enabled_for_bucket: bool,
    /// Who owns what others put.
    #[serde(default)]
    pub object_ownership: ObjectOwnership,
    /// Whether it is made without the four switches against public access.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub open_to_public: bool,
}

/// Lists the buckets of an account by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListBuckets {
    /// Whose.
    pub account: String,
    /// Only names that begin so.
    #[serde(default)]
    pub prefix: String,
    /// How many at most; all where absent.
    pub max_buckets: Option<u32>,
    /// Where the last page ended.
    pub continuation_token: Option<String>,
}

/// A page of buckets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    /// Whose.
    pub owner: Owner,
    /// By name.
    pub buckets: Vec<BucketEntry>,
    /// Where the next page begins.
    pub continuation_token: Option<String>,
}

/// A bucket in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketEntry {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub creation_date_ms: u64,
    /// Where it is.
    pub bucket_region: String,
}

/// All of a bucket at once: what a gateway decides access by. The answer of `HeadBucket`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketInfo {
    /// Its name.
    pub bucket: String,
    /// Whose it is.
    pub owner: Owner,
    /// When it was made.
    pub creation_date_ms: u64,
    /// Where it is.
    pub bucket_region: String,
    /// Never set: never versioned.
    pub versioning: Option<Versioning>,
    /// Its ACL.
    pub acl: Acl,
    /// Its policy, the JSON text as it was put.
    pub policy: Option<String>,
    /// Who owns what others put; absent once it was deleted (then as `ObjectWriter`).
    pub object_ownership: Option<ObjectOwnership>,
    /// The switches against public access.
    pub public_access_block: Option<PublicAccessBlock>,
    /// Its rules for browsers.
    pub cors_rules: Option<Vec<CorsRule>>,
    /// Whether and how objects are locked.
    pub object_lock: Option<ObjectLockConfiguration>,
    /// How objects are encrypted at rest.
    pub encryption: Option<Encryption>,
    /// What it may hold.
    pub quota: Option<Quota>,
    /// How it is served as a website.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<Website>,
    /// Where its access log goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<LogTarget>,
}

/// Removes an empty bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteBucket {
    /// The bucket.
    pub bucket: String,
    /// Whose it must be: one of that name that is another's by then stays.
    #[serde(default)]
    pub expected_bucket_owner: Option<String>,
}

macro_rules! of_bucket {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        $($(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The bucket.
            pub bucket: String,
        })*
    };
}

of_bucket! {
    /// Whether a bucket is there, and all of its settings.
    HeadBucket;
    /// Where a bucket is.
    GetBucketLocation;
    /// Whether it keeps old versions.
    GetBucketVersioning;
    /// Its ACL.
    GetBucketAcl;
    /// Its policy.
    GetBucketPolicy;
    /// Whether its policy lets in callers nobody can name.
    GetBucketPolicyStatus;
    /// Removes its policy.
    DeleteBucketPolicy;
    /// Its rules for browsers.
    GetBucketCors;
    /// Removes its rules for browsers.
    DeleteBucketCors;
    /// Its lifecycle rules.
    GetBucketLifecycleConfiguration;
    /// Removes its lifecycle rules.
    DeleteBucketLifecycle;
    /// Its tags.
    GetBucketTagging;
    /// Removes its tags.
    DeleteBucketTagging;
    /// Who owns what others put.
    GetBucketOwnershipControls;
    /// Forgets who owns what others put.
    DeleteBucketOwnershipControls;
    /// Its switches against public access.
    GetPublicAccessBlock;
    /// Removes its switches against public access.
    DeletePublicAccessBlock;
    /// Whether and how objects are locked.
    GetObjectLockConfiguration;
    /// How objects are encrypted at rest.
    GetBucketEncryption;
    /// Forgets how objects are encrypted at rest.
    DeleteBucketEncryption;
    /// What it may hold.
    GetBucketQuota;
    /// Removes its quota.
    DeleteBucketQuota;
    /// How it is served as a website.
    GetBucketWebsite;
    /// Serves it as a website no more.
    DeleteBucketWebsite;
    /// Where its access log goes.
    GetBucketLogging;
}

macro_rules! put_setting {
    ($($(#[$meta:meta])* $name:ident { $field:ident: $type:ty }) *) => {
        $($(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The bucket.
            pub bucket: String,
            /// The setting's new value, whole.
            pub $field: $type,
        })*
    };
}

put_setting! {
    /// Switches versioning on or suspends it.
    PutBucketVersioning { status: Versioning }
    /// Replaces its ACL.
    PutBucketAcl { acl: Acl }
    /// Replaces its policy: the JSON text.
    PutBucketPolicy { policy: String }
    /// Replaces its rules for browsers.
    PutBucketCors { cors_rules: Vec<CorsRule> }
    /// Replaces its lifecycle rules.
    PutBucketLifecycleConfiguration { rules: Vec<LifecycleRule> }
    /// Replaces its tags.
    PutBucketTagging { tags: Vec<Tag> }
    /// Says who owns what others put.
    PutBucketOwnershipControls { object_ownership: ObjectOwnership }
    /// Replaces its switches against public access.
    PutPublicAccessBlock { public_access_block: PublicAccessBlock }
    /// Says how objects are locked by default.
    PutObjectLockConfiguration { object_lock: ObjectLockConfiguration }
    /// Says how objects are encrypted at rest.
    PutBucketEncryption { encryption: Encryption }
    /// Says what it may hold.
    PutBucketQuota { quota: Quota }
    /// Serves it as a website.
    PutBucketWebsite { website: Website }
    /// Says where its access log goes; nowhere where absent.
    PutBucketLogging { logging: Option<LogTarget> }
}

macro_rules! setting_answer {
    ($($(#[$meta:meta])* $name:ident { $field:ident: $type:ty }) *) => {
        $($(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The setting.
            pub $field: $type,
        })*
    };
}

setting_answer! {
    /// Where a bucket is.
    BucketLocation { location_constraint: String }
    /// Whether it keeps old versions; absent where it never did.
    BucketVersioning { status: Option<Versioning> }
    /// An ACL, of a bucket or an object.
    AclAnswer { acl: Acl }
    /// A policy, the JSON text as it was put.
    BucketPolicy { policy: String }
    /// Whether a policy is public.
    BucketPolicyStatus { policy_status: PolicyStatus }
    /// Rules for browsers.
    BucketCors { cors_rules: Vec<CorsRule> }
    /// Lifecycle rules.
    BucketLifecycle { rules: Vec<LifecycleRule> }
    /// Tags, of a bucket or an object.
    Tagging { tags: Vec<Tag> }
    /// Who owns what others put.
    BucketOwnershipControls { object_ownership: ObjectOwnership }
    /// Switches against public access.
    PublicAccessBlockAnswer { public_access_block: PublicAccessBlock }
    /// Whether and how objects are locked.
    ObjectLockAnswer { object_lock: ObjectLockConfiguration }
    /// How objects are encrypted at rest.
    BucketEncryption { encryption: Encryption }
    /// What it may hold.
    BucketQuota { quota: Quota }
    /// How a bucket is served as a website.
    BucketWebsite { website: Website }
    /// Where an access log goes; nowhere where absent.
    BucketLogging { logging: Option<LogTarget> }
}
