//! When a lifecycle rule will expire an object: the header `x-amz-expiration`.
//!
//! By design: a bucket's rules are asked for once in [`RULES_TTL`], so the header follows another node's change of them that much later;
//! rules are carried out by what they are then (`lifecycle`), never by what a header said. At most [`BUCKETS_MAX`] buckets are remembered.
//! Held by: `the_earliest_rule_is_named`, `answers_carry_when_an_object_expires`.

use super::Bucket;
use crate::lifecycle::expires;
use crate::metadata::{ask_as, MetadataService};
use base_types::s3::{encode_url, BucketLifecycle, GetBucketLifecycleConfiguration, LifecycleRule, S3ErrorCode, Tag};
use s3s::dto::{Timestamp, TimestampFormat};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a bucket's rules are remembered.
const RULES_TTL: Duration = Duration::from_secs(10);
/// Of how many buckets.
const BUCKETS_MAX: usize = 4096;

/// The rules of buckets, as they were lately.
#[derive(Clone, Default)]
pub(super) struct KnownRules(Arc<Mutex<HashMap<String, Known>>>);

struct Known {
    /// A bucket of the same name that was recreated has other rules.
    created_ms: u64,
    until: Instant,
    rules: Arc<Vec<LifecycleRule>>,
}

impl KnownRules {
    pub(super) fn forget(&self, bucket: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(bucket);
    }

    fn get(&self, bucket: &Bucket) -> Option<Arc<Vec<LifecycleRule>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&bucket.bucket)?;
        let counts = found.created_ms == bucket.creation_date_ms && Instant::now() < found.until;
        counts.then(|| found.rules.clone())
    }

    fn put(&self, bucket: &Bucket, rules: Arc<Vec<LifecycleRule>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUCKETS_MAX {
            known.clear();
        }
        let until = Instant::now() + RULES_TTL;
        known.insert(bucket.bucket.clone(), Known { created_ms: bucket.creation_date_ms, until, rules });
    }
}

/// An object as a rule looks at it.
pub(super) struct Subject<'a> {
    pub key: &'a str,
    pub size: u64,
    pub tags: &'a [Tag],
    pub last_modified_ms: u64,
}

impl KnownRules {
    /// `x-amz-expiration` of a current version. What cannot be found out is left out: no call fails for it.
    pub(super) async fn expiration(
        &self,
        metadata: &dyn MetadataService,
        bucket: &Bucket,
        subject: Subject<'_>,
    ) -> Option<String> {
        header(&self.rules_of(metadata, bucket).await?, &subject)
    }

    async fn rules_of(&self, metadata: &dyn MetadataService, bucket: &Bucket) -> Option<Arc<Vec<LifecycleRule>>> {
        if let Some(rules) = self.get(bucket) {
            return Some(rules);
        }
        let call = GetBucketLifecycleConfiguration { bucket: bucket.bucket.clone() };
        let rules = match ask_as::<BucketLifecycle>(metadata, bucket.behalf(), call).await {
            Ok(found) => found.rules,
            Err(refusal) if refusal.code.s3() == Some(S3ErrorCode::NoSuchLifecycleConfiguration) => Vec::new(),
            Err(_) => return None,
        };
        let rules = Arc::new(rules);
        self.put(bucket, rules.clone());
        Some(rules)
    }
}

fn header(rules: &[LifecycleRule], subject: &Subject<'_>) -> Option<String> {
    let expiring = |rule: &LifecycleRule| {
        let Subject { key, size, tags, last_modified_ms } = *subject;
        Some((expires(rule, key, size, tags, last_modified_ms)?, rule.id.clone().unwrap_or_default()))
    };
    let (when_ms, id) = rules.iter().filter_map(expiring).min_by_key(|(when_ms, _)| *when_ms)?;
    let when = Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_millis(when_ms));
    let mut date = Vec::new();
    when.format(TimestampFormat::HttpDate, &mut date).ok()?;
    Some(format!("expiry-date=\"{}\", rule-id=\"{}\"", String::from_utf8(date).ok()?, encode_url(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::s3::{Expiration, LifecycleFilter};

    #[test]
    fn the_earliest_rule_is_named() {
        let rule = |id: &str, days: u32, prefix: &str, enabled: bool| LifecycleRule {
            id: Some(id.to_owned()),
            enabled,
            filter: LifecycleFilter { prefix: Some(prefix.to_owned()), ..LifecycleFilter::default() },
            expiration: Some(Expiration { days: Some(days), ..Expiration::default() }),
            ..LifecycleRule::default()
        };
        let rules = [rule("late", 9, "", true), rule("soon ü", 2, "a/", true), rule("off", 1, "", false)];
        let subject = |key| Subject { key, size: 1, tags: &[], last_modified_ms: 1 };
        let soon = "expiry-date=\"Sun, 04 Jan 1970 00:00:00 GMT\", rule-id=\"soon%20%C3%BC\"";
        assert_eq!(header(&rules, &subject("a/k")).as_deref(), Some(soon));
        assert!(header(&rules, &subject("b")).is_some_and(|text| text.contains("\"late\"")));
        assert_eq!(header(&rules[2..], &subject("b")), None);
    }
}
