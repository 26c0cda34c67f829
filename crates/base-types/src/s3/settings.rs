//! A bucket's settings as data.

use super::{Retention, RetentionMode, Tag};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Whether a bucket keeps old versions. A bucket that was never versioned has none of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Versioning {
    /// Every put makes a version.
    Enabled,
    /// Versions that exist stay; puts replace the null version.
    Suspended,
}

/// Who owns what others put into a bucket, and whether ACLs count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ObjectOwnership {
    /// The bucket's owner owns all; ACLs do not count.
    #[default]
    BucketOwnerEnforced,
    /// The bucket's owner owns what is put with `bucket-owner-full-control`.
    BucketOwnerPreferred,
    /// Who puts, owns.
    ObjectWriter,
}

/// The four switches against public access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicAccessBlock {
    /// Puts with a public ACL are refused.
    #[serde(default)]
    pub block_public_acls: bool,
    /// Public ACLs that exist do not count.
    #[serde(default)]
    pub ignore_public_acls: bool,
    /// Policies that make the bucket public are refused.
    #[serde(default)]
    pub block_public_policy: bool,
    /// A bucket with a public policy serves only its owner's account.
    #[serde(default)]
    pub restrict_public_buckets: bool,
}

/// What a bucket's policy makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyStatus {
    /// It lets in callers nobody can name ([`PolicyShape::is_public`](super::policy::PolicyShape::is_public)).
    pub is_public: bool,
}

/// One rule for requests of browsers from elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct CorsRule {
    pub id: Option<String>,
    pub allowed_methods: Vec<String>,
    pub allowed_origins: Vec<String>,
    #[serde(default)]
    pub allowed_headers: Vec<String>,
    #[serde(default)]
    pub expose_headers: Vec<String>,
    pub max_age_seconds: Option<u32>,
}

/// One rule about what happens to objects with time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifecycleRule {
    /// Its name; unique in the bucket.
    pub id: Option<String>,
    /// Whether it counts.
    pub enabled: bool,
    /// Which objects it is for.
    #[serde(default)]
    pub filter: LifecycleFilter,
    /// Its prefix came beside it, as rules had it before filters, and is shown so.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub prefix_beside: bool,
    /// When current versions expire.
    pub expiration: Option<Expiration>,
    /// When old versions go.
    pub noncurrent_version_expiration: Option<NoncurrentExpiration>,
    /// After how many days an upload that was never completed goes.
    pub abort_incomplete_multipart_upload_days: Option<u32>,
}

/// Which objects a rule is for: those that meet all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifecycleFilter {
    /// Keys that begin so.
    pub prefix: Option<String>,
    /// Objects with all of these tags.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Objects with more bytes.
    pub object_size_greater_than: Option<u64>,
    /// Objects with fewer bytes.
    pub object_size_less_than: Option<u64>,
}

/// When current versions expire: exactly one of these.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expiration {
    /// So many days after they were put.
    pub days: Option<u32>,
    /// At this midnight.
    pub date_ms: Option<u64>,
    /// Delete markers that are the last of their key go.
    pub expired_object_delete_marker: Option<bool>,
}

/// When old versions go.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoncurrentExpiration {
    /// So many days after they were replaced.
    pub noncurrent_days: u32,
    /// But this many of the newest are kept.
    pub newer_noncurrent_versions: Option<u32>,
}

/// A bucket whose objects can be locked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectLockConfiguration {
    /// Always, once it was: it cannot be switched off.
    #[serde(default)]
    pub enabled: bool,
    /// What is put gets this retention where it names none.
    pub default_retention: Option<DefaultRetention>,
}

/// The retention of what names none: exactly one of days and years.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct DefaultRetention {
    pub mode: RetentionMode,
    pub days: Option<u32>,
    pub years: Option<u32>,
}

impl DefaultRetention {
    /// The retention of what is put at this time.
    pub fn from(&self, now_ms: u64) -> Retention {
        const DAY_MS: u64 = 24 * 3600 * 1000;
        let days = u64::from(self.days.unwrap_or(0)) + 365 * u64::from(self.years.unwrap_or(0));
        Retention { mode: self.mode, retain_until_ms: now_ms.saturating_add(days.saturating_mul(DAY_MS)) }
    }
}

/// How objects are encrypted at rest; kept for clients, the disk's own business.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// `AES256`.
    pub sse_algorithm: String,
    /// As given.
    #[serde(default)]
    pub bucket_key_enabled: bool,
}

/// What a bucket may hold at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Versions and parts together.
    pub bytes_max: Option<u64>,
    /// Keys that have a current version.
    pub keys_max: Option<u64>,
}

/// How a bucket is served as a website: all of it elsewhere, or its objects with an index, an error page and redirects.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Website {
    /// Every request is sent there; nothing else is given then.
    #[serde(default)]
    pub redirect_all: Option<RedirectAll>,
    /// What is put behind a path that ends with `/`: `index.html`.
    #[serde(default)]
    pub index_suffix: Option<String>,
    /// The key of the page that is shown where a request fails.
    #[serde(default)]
    pub error_key: Option<String>,
    /// Tried in their order.
    #[serde(default)]
    pub routing_rules: Vec<RoutingRule>,
}

/// Where all requests of a website are sent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedirectAll {
    /// The host.
    pub host_name: String,
    /// `http` or `https`; that of the request where absent.
    pub protocol: Option<String>,
}

/// One redirect of a website.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingRule {
    /// For keys that begin so.
    pub key_prefix: Option<String>,
    /// For requests that fail with this status.
    pub http_error_code: Option<u16>,
    /// The host; that of the request where absent.
    pub host_name: Option<String>,
    /// `http` or `https`; that of the request where absent.
    pub protocol: Option<String>,
    /// The status of the redirect; 301 where absent.
    pub http_redirect_code: Option<u16>,
    /// What the key's prefix becomes.
    pub replace_key_prefix_with: Option<String>,
    /// What the whole key becomes.
    pub replace_key_with: Option<String>,
}

/// Where a bucket's access log goes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogTarget {
    /// The bucket, of the same owner.
    pub bucket: String,
    /// What its keys begin with there.
    #[serde(default)]
    pub prefix: String,
}
