//! Collects bytes that nothing names: what crashes left, and what deletes and overwrites freed.
//!
//! Always: bytes are removed only when their intent has expired and no version names them, or when the
//! metadata service has put them on its list of freed ones. Each step may be done twice. What other stores
//! gave (another gateway's own, over the JSON API) is left to its own sweep.
//! The metadata service refuses a version whose intent has expired by its clock; a sweep waits
//! [`SLACK_MS`] longer by its own, so the two clocks may differ by that much.
//! Held by: `a_crash_at_each_step_leaves_no_orphan_and_loses_nothing`, `a_name_that_comes_behind_its_intent_is_refused`, `what_another_store_gave_is_left_alone`.

use crate::metadata::{ask, tell, MetadataService};
use crate::store::{DataStore, StoreError};
use base_types::s3::{ForgetFreedData, ListFreedData, Locations, LookupData, S3ErrorCode};
use base_types::{ErrorCode, Refusal};

/// How much later than its expiry an intent's bytes are removed.
pub const SLACK_MS: u64 = 15 * 60 * 1000;
/// How many intents, and how many freed names, one look takes.
const PAGE: usize = 256;
/// How many pages one sweep takes at most; the next one continues.
const PAGES_MAX: usize = 4096;
/// How many freed names are looked at, at most, to find one that is this store's behind others' ones.
/// (The node lists no more at a time.)
const FREED_LOOK_MAX: u32 = 1_000;

/// What a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Intents whose bytes a version names.
    pub settled: u64,
    /// Bytes nothing names, removed.
    pub orphans: u64,
    /// Bytes that were freed by deletes and overwrites, removed.
    pub freed: u64,
}

/// Why a sweep stopped. What it did stays done.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The data store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The metadata service refused.
    #[error(transparent)]
    Metadata(#[from] Refusal),
}

/// Goes once over all intents and all that is freed.
pub async fn sweep(metadata: &dyn MetadataService, store: &dyn DataStore, now_ms: u64) -> Result<Swept, SweepError> {
    let mut swept = Swept::default();
    let mut after: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let page = store.intents(after.as_deref(), PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        for (location, intent) in page {
            if now_ms <= intent.expires_ms.saturating_add(SLACK_MS) {
                continue;
            }
            if is_named(metadata, &intent.bucket, &intent.key, &location).await? {
                store.settle(&location).await?;
                swept.settled += 1;
            } else {
                store.remove(&location).await?;
                swept.orphans += 1;
            }
        }
    }
    swept.freed = drain_freed(metadata, store).await?;
    Ok(swept)
}

async fn is_named(metadata: &dyn MetadataService, bucket: &str, key: &str, location: &str) -> Result<bool, Refusal> {
    let lookup = LookupData { bucket: bucket.to_owned(), key: key.to_owned(), locations: vec![location.to_owned()] };
    match ask::<Locations>(metadata, lookup).await {
        Ok(named) => Ok(named.locations.iter().any(|named| named == location)),
        Err(refusal) if refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchBucket) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Removes what deletes and overwrites have freed.
pub async fn drain_freed(metadata: &dyn MetadataService, store: &dyn DataStore) -> Result<u64, SweepError> {
    let (mut freed, mut max) = (0, PAGE as u32);
    for _ in 0..PAGES_MAX {
        let page: Locations = ask(metadata, ListFreedData { max }).await?;
        let full = page.locations.len() >= max as usize;
        let own: Vec<String> = page.locations.into_iter().filter(|location| store.owns(location)).collect();
        if own.is_empty() {
            // Others' names, which only they can settle, may stand before ours.
            if !full || max >= FREED_LOOK_MAX {
                break;
            }
            max = FREED_LOOK_MAX;
            continue;
        }
        for location in &own {
            store.remove(location).await?;
        }
        freed += own.len() as u64;
        for names in own.chunks(PAGE) {
            tell(metadata, ForgetFreedData { locations: names.to_vec() }).await?;
        }
    }
    Ok(freed)
}
