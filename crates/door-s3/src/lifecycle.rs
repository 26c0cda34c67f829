//! Carries out a bucket's lifecycle rules: one walk over its versions, one over its uploads.
//!
//! ```text
//!   versions by key, newest first ─▶ what is due ─▶ DeleteObject, conditional on what was seen
//!   uploads, oldest of a key first ─▶ what is due ─▶ AbortMultipartUpload, conditional on when it began
//! ```
//!
//! Always: a delete says what it saw (etag and time, or a version id, which never comes back), so a put that
//! comes in between is not lost, and two walks at once do no more than one. What is locked is refused by the
//! metadata service and stays. As S3 does, days are counted up to the next midnight (UTC).
//! Held by: `objects_expire_at_the_midnight_behind_their_days`, `in_a_versioned_bucket_expiry_lays_a_marker_and_locks_hold`.
//! Not here: which buckets are walked when, and by whom (edge-node).

use crate::metadata::{ask, tell, MetadataService};
use base_types::s3::{
    AbortMultipartUpload, DeleteObject, HeadObject, LifecycleFilter, LifecycleRule, ListMultipartUploads,
    ListObjectVersions, ObjectVersion, Tag, UploadEntry, Uploads, VersionEntry, VersionPage, WriteConditions,
    MAX_KEYS_MAX,
};
use base_types::{ErrorKind, Refusal};
use std::time::Duration;

/// Milliseconds of a day.
pub const DAY_MS: u64 = 24 * 3600 * 1000;
/// Pages one walk takes at most: a thousand million versions.
const PAGES_MAX: usize = 1_000_000;
/// Old versions of one key that are remembered to tell which are the newest; rules keep fewer (S3: at most 100).
const KEPT_MAX: u32 = 100;

/// What a walk did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Current objects that expired.
    pub expired: u64,
    /// Old versions that went.
    pub versions: u64,
    /// Delete markers that were the last of their key.
    pub markers: u64,
    /// Uploads that were never completed.
    pub uploads: u64,
    /// What was due and refused: locked, or changed meanwhile.
    pub refused: u64,
}

/// A walk over one bucket.
pub struct Walk<'w> {
    /// Asked.
    pub metadata: &'w dyn MetadataService,
    /// The bucket.
    pub bucket: &'w str,
    /// Its rules.
    pub rules: &'w [LifecycleRule],
    /// Now, milliseconds since 1970.
    pub now_ms: u64,
    /// The pause between two pages.
    pub pace: Duration,
}

/// What becomes of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// A delete without a version: a marker is laid where versions are kept.
    Expire,
    /// The version itself goes.
    Remove,
    /// A marker with nothing below it goes.
    RemoveMarker,
}

/// A version and where it stands among those of its key.
struct Standing {
    /// When the next newer version came; none for the current one.
    replaced_ms: Option<u64>,
    /// How many old versions of the key are newer.
    newer: u32,
    /// Nothing else is left of the key.
    alone: bool,
}

impl Walk<'_> {
    /// Carries the rules out.
    pub async fn run(&self) -> Result<Done, Refusal> {
        let mut done = Done::default();
        let enabled = self.rules.iter().any(|rule| rule.enabled);
        let versions = |rule: &LifecycleRule| rule.expiration.is_some() || rule.noncurrent_version_expiration.is_some();
        if enabled && self.rules.iter().any(versions) {
            self.walk_versions(&mut done).await?;
        }
        if enabled && self.rules.iter().any(|rule| rule.abort_incomplete_multipart_upload_days.is_some()) {
            self.walk_uploads(&mut done).await?;
        }
        Ok(done)
    }

    async fn walk_versions(&self, done: &mut Done) -> Result<(), Refusal> {
        let mut call = ListObjectVersions {
            bucket: self.bucket.to_owned(),
            prefix: self.common_prefix(),
            max_keys: Some(MAX_KEYS_MAX),
            ..ListObjectVersions::default()
        };
        // The version before the one in hand, and the number of old ones of its key.
        let (mut before, mut newer): (Option<VersionEntry>, u32) = (None, 0);
        // A marker is alone only if the next entry is another key's: it waits for that.
        let mut marker: Option<VersionEntry> = None;
        for _ in 0..PAGES_MAX {
            let page: VersionPage = ask(self.metadata, call.clone()).await?;
            for entry in page.versions {
                let same_key = before.as_ref().is_some_and(|before| before.key == entry.key);
                if let Some(held) = marker.take() {
                    let standing = Standing { replaced_ms: None, newer: 0, alone: !same_key };
                    self.apply(&held, &standing, done).await?;
                }
                let replaced_ms = before.as_ref().filter(|_| same_key).map(|before| before.last_modified_ms);
                newer = if replaced_ms.is_none() { 0 } else { newer.saturating_add(1) };
                if entry.delete_marker && replaced_ms.is_none() {
                    marker = Some(entry.clone());
                } else {
                    let standing = Standing { replaced_ms, newer: newer.saturating_sub(1), alone: false };
                    self.apply(&entry, &standing, done).await?;
                }
                before = Some(entry);
            }
            if !page.is_truncated {
                break;
            }
            (call.key_marker, call.version_id_marker) = (page.next_key_marker, page.next_version_id_marker);
            tokio::time::sleep(self.pace).await;
        }
        if let Some(held) = marker {
            self.apply(&held, &Standing { replaced_ms: None, newer: 0, alone: true }, done).await?;
        }
        Ok(())
    }

    /// Where all rules begin alike, only what begins so is walked.
    fn common_prefix(&self) -> String {
        let mut prefixes = self.rules.iter().filter(|rule| rule.enabled).map(|rule| rule.filter.prefix.as_deref());
        let Some(Some(first)) = prefixes.next() else { return String::new() };
        let mut common = first;
        for prefix in prefixes {
            let prefix = prefix.unwrap_or("");
            let length = common.char_indices().zip(prefix.chars()).take_while(|((_, a), b)| a == b).count();
            let end = common.char_indices().nth(length).map_or(common.len(), |(at, _)| at);
            common = &common[..end];
        }
        common.to_owned()
    }

    async fn apply(&self, entry: &VersionEntry, standing: &Standing, done: &mut Done) -> Result<(), Refusal> {
        let mut tags: Option<Vec<Tag>> = None;
        for rule in self.rules.iter().filter(|rule| rule.enabled) {
            let Some(due) = due(rule, entry, standing, self.now_ms) else { continue };
            // Listings do not tell tags: they are read where a rule that is due asks for them.
            if !rule.filter.tags.is_empty() && tags.is_none() {
                tags = Some(self.tags(entry).await?);
            }
            if !rule.filter.tags.iter().all(|tag| tags.as_ref().is_some_and(|tags| tags.contains(tag))) {
                continue;
            }
            return self.carry_out(entry, due, done).await;
        }
        Ok(())
    }

    async fn tags(&self, entry: &VersionEntry) -> Result<Vec<Tag>, Refusal> {
        let call = HeadObject {
            bucket: self.bucket.to_owned(),
            key: entry.key.clone(),
            version_id: Some(entry.version_id.clone()),
            ..HeadObject::default()
        };
        match ask::<ObjectVersion>(self.metadata, call).await {
            Ok(version) => Ok(version.tags),
            Err(refusal) if refusal.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(refusal) => Err(refusal),
        }
    }

    async fn carry_out(&self, entry: &VersionEntry, due: Due, done: &mut Done) -> Result<(), Refusal> {
        let seen = WriteConditions {
            if_match: Some(entry.etag.clone()),
            if_match_last_modified_ms: Some(entry.last_modified_ms),
            ..WriteConditions::default()
        };
        let (version_id, conditions, counter) = match due {
            Due::Expire => (None, seen, &mut done.expired),
            Due::Remove => (Some(entry.version_id.clone()), WriteConditions::default(), &mut done.versions),
            Due::RemoveMarker => (Some(entry.version_id.clone()), WriteConditions::default(), &mut done.markers),
        };
        let call = DeleteObject {
            bucket: self.bucket.to_owned(),
            key: entry.key.clone(),
            version_id,
            bypass_governance_retention: false,
            conditions,
        };
        match tell(self.metadata, call).await {
            Ok(()) => *counter += 1,
            // Locked, or changed since it was seen.
            Err(refusal) if !refusal.kind().retryable() && refusal.kind() != ErrorKind::Internal => done.refused += 1,
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    async fn walk_uploads(&self, done: &mut Done) -> Result<(), Refusal> {
        let mut call = ListMultipartUploads { bucket: self.bucket.to_owned(), ..ListMultipartUploads::default() };
        for _ in 0..PAGES_MAX {
            let page: Uploads = ask(self.metadata, call.clone()).await?;
            for upload in page.uploads.iter().filter(|upload| self.upload_is_due(upload)) {
                let abort = AbortMultipartUpload {
                    bucket: self.bucket.to_owned(),
                    key: upload.key.clone(),
                    upload_id: upload.upload_id.clone(),
                    if_match_initiated_time_ms: Some(upload.initiated_ms),
                };
                match tell(self.metadata, abort).await {
                    Ok(()) => done.uploads += 1,
                    Err(refusal) if !refusal.kind().retryable() && refusal.kind() != ErrorKind::Internal => {
                        done.refused += 1
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
            if !page.is_truncated {
                break;
            }
            (call.key_marker, call.upload_id_marker) = (page.next_key_marker, page.next_upload_id_marker);
            tokio::time::sleep(self.pace).await;
        }
        Ok(())
    }

    fn upload_is_due(&self, upload: &UploadEntry) -> bool {
        let of_key = |filter: &LifecycleFilter| {
            filter.prefix.as_ref().is_none_or(|prefix| upload.key.starts_with(prefix.as_str()))
        };
        self.rules.iter().filter(|rule| rule.enabled && of_key(&rule.filter)).any(|rule| {
            let days = rule.abort_incomplete_multipart_upload_days;
            days.is_some_and(|days| self.now_ms >= days_after(upload.initiated_ms, days))
        })
    }
}

/// When a rule will expire the current version of a key, should it stay as it is; `None`: never, by this rule.
pub fn expires(rule: &LifecycleRule, key: &str, size: u64, tags: &[Tag], last_modified_ms: u64) -> Option<u64> {
    let filter = &rule.filter;
    let takes = rule.enabled
        && filter.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
        && filter.object_size_greater_than.is_none_or(|least| size > least)
        && filter.object_size_less_than.is_none_or(|most| size < most)
        && filter.tags.iter().all(|tag| tags.contains(tag));
    let expiration = rule.expiration.as_ref().filter(|_| takes)?;
    let by_days = expiration.days.map(|days| days_after(last_modified_ms, days));
    [by_days, expiration.date_ms].into_iter().flatten().min()
}

/// What a rule wants of a version, its tags aside.
fn due(rule: &LifecycleRule, entry: &VersionEntry, standing: &Standing, now_ms: u64) -> Option<Due> {
    if !filter_takes(&rule.filter, entry) {
        return None;
    }
    if let Some(replaced_ms) = standing.replaced_ms {
        let old = rule.noncurrent_version_expiration.as_ref()?;
        let kept = old.newer_noncurrent_versions.unwrap_or(0).min(KEPT_MAX);
        let over = standing.newer >= kept && now_ms >= days_after(replaced_ms, old.noncurrent_days);
        return over.then_some(Due::Remove);
    }
    let expiration = rule.expiration.as_ref()?;
    let days = expiration.days.is_some_and(|days| now_ms >= days_after(entry.last_modified_ms, days));
    let date = expiration.date_ms.is_some_and(|date| now_ms >= date);
    if entry.delete_marker {
        // A marker that is alone goes by its own rule, and by one that counts days too.
        let lonely = expiration.expired_object_delete_marker == Some(true) || days || date;
        return (standing.alone && lonely).then_some(Due::RemoveMarker);
    }
    (days || date).then_some(Due::Expire)
}

fn filter_takes(filter: &LifecycleFilter, entry: &VersionEntry) -> bool {
    let sized = filter.object_size_greater_than.is_some() || filter.object_size_less_than.is_some();
    filter.prefix.as_ref().is_none_or(|prefix| entry.key.starts_with(prefix.as_str()))
        && filter.object_size_greater_than.is_none_or(|least| entry.size > least)
        && filter.object_size_less_than.is_none_or(|most| entry.size < most)
        // A marker has neither size nor tags.
        && !(entry.delete_marker && (sized || !filter.tags.is_empty()))
}

/// So many days later, up to the next midnight.
fn days_after(since_ms: u64, days: u32) -> u64 {
    since_ms.saturating_add(u64::from(days).saturating_mul(DAY_MS)).div_ceil(DAY_MS).saturating_mul(DAY_MS)
}
