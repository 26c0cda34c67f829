//! When a lifecycle rule will expire an object: what `x-amz-expiration` tells.
//!
//! By design: a bucket's rules are asked for once in [`RULES_TTL`], so another node's change of them is told that much later; rules
//! are carried out by what they are then (`lifecycle`), never by what was told here. At most [`BUCKETS_MAX`] buckets are remembered.
//! Held by: `expirations_are_told` (scripts/s3/cases_outside.py), `the_earliest_rule_is_told`.

use super::{Bucket, Gateway};
use crate::lifecycle::expires;
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
    /// A bucket of the same name that was made anew has other rules.
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

impl Gateway {
    /// `x-amz-expiration` of a current version. What cannot be found out is not told: no call fails for it.
    pub(super) async fn expiration(&self, bucket: &Bucket, subject: Subject<'_>) -> Option<String> {
        told(&self.rules_of(bucket).await?, &subject)
    }

    async fn rules_of(&self, bucket: &Bucket) -> Option<Arc<Vec<LifecycleRule>>> {
        if let Some(rules) = self.rules.get(bucket) {
            return Some(rules);
        }
        let call = GetBucketLifecycleConfiguration { bucket: bucket.bucket.clone() };
        let rules = match self.ask_of::<BucketLifecycle>(bucket, call).await {
            Ok(found) => found.rules,
            Err(error) if error.code().as_str() == S3ErrorCode::NoSuchLifecycleConfiguration.name() => Vec::new(),
            Err(_) => return None,
        };
        let rules = Arc::new(rules);
        self.rules.put(bucket, rules.clone());
        Some(rules)
    }
}

fn told(rules: &[LifecycleRule], subject: &Subject<'_>) -> Option<String> {
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
    fn the_earliest_rule_is_told() {
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
        assert_eq!(told(&rules, &subject("a/k")).as_deref(), Some(soon));
        assert!(told(&rules, &subject("b")).is_some_and(|text| text.contains("\"late\"")));
        assert_eq!(told(&rules[2..], &subject("b")), None);
    }
}
