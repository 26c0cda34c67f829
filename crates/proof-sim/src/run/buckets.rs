//! Buckets, around the load: they are made before it. After it, at rest, the audit compares every view of what they
//! hold.
//!
//! Always: an audit changes nothing that the history knows of, but what it reads goes into it; the markers it removes
//! are looked behind last.
//! Not here: what clients of buckets do (`s3_load`, `s3_upload`, `s3_owner`), what must hold of what was listed
//! (`s3_rest`, `s3_versions`).

use super::{Run, AUDIT_US, LOOK_US};
use crate::excuses::Excuse;
use crate::trace::line::{Kind, Line};
use crate::{s3_load, s3_owner, s3_quota, s3_rest, s3_upload, s3_versions};
use base_types::action::{Action, ActionResult, Response};
use base_types::s3::{
    CountObjects, CreateAccount, CreateBucket, DeleteBucket, DeleteObject, DescribeShards, GetObject, ListFreedData,
    ListObjectsV2, LookupData, ObjectCount, ObjectEntry, ObjectPage, PutBucketVersioning, S3Action, S3Answer,
    S3ErrorCode, Shards, Uploads, VersionPage, Versioning, NULL_VERSION,
};
use base_types::{ErrorCode, ReadConsistency};
use bytes::Bytes;
use proof_check::{Operation, Place};
use std::collections::BTreeSet;

/// A bucket's creation that timed out bars its name until a sweep has taken it back (core-s3, buckets/bucket_recovery.rs).
const MAKE_BUCKET_US: u64 = 400_000_000;
/// At rest, splits and merges that were begun end within this time.
const SETTLE_US: u64 = 180_000_000;
/// Places that nothing names any more must be on the list of freed ones within this time: each must be a minute old, and
/// the sweep of an idle bucket is rare.
const FREED_US: u64 = 600_000_000;
/// Behind the end of what is kept: collectors come by every few seconds.
const COLLECTED_MS: u64 = 20_000;
/// Places of freed data in one page.
const FREED_MAX: u32 = 1_000;
/// The most pages of one listing of the audit.
const PAGES_MAX: usize = 1_000;
/// Markers of one bucket that are removed to see what is behind.
const UNHIDDEN_MAX: usize = 3;

impl Run {
    pub(super) fn make_buckets(&mut self) {
        let account = s3_load::ACCOUNT.to_string();
        let owners = (0..self.world.plan.load.owners).map(s3_owner::account);
        let accounts = std::iter::once(account.clone()).chain(owners);
        let mut calls: Vec<S3Action> =
            accounts.map(|account| CreateAccount { account, ..CreateAccount::default() }.into()).collect();
        for (number, bucket) in self.load.targets.buckets.clone().into_iter().enumerate() {
            let (name, account) = (bucket.clone(), account.clone());
            calls.push(CreateBucket { bucket, account, ..CreateBucket::default() }.into());
            if (number as u64) < self.world.plan.shape.versioned {
                calls.push(PutBucketVersioning { bucket: name, status: Versioning::Enabled }.into());
            } else if self.is_suspended(number) {
                calls.push(PutBucketVersioning { bucket: name.clone(), status: Versioning::Enabled }.into());
                calls.push(PutBucketVersioning { bucket: name, status: Versioning::Suspended }.into());
            } else if let Some((_, keys_max)) = self.world.plan.shape.limited().filter(|(of, _)| *of == number) {
                calls.push(s3_quota::set(&name, keys_max));
            }
        }
        if calls.len() == 1 {
            return;
        }
        for call in calls {
            let name = call.name();
            let made = self.insist(Action::S3(call), None, MAKE_BUCKET_US, |response| match response {
                Ok(_) => true,
                Err(failure) => failure.refusal.code == ErrorCode::S3(S3ErrorCode::BucketAlreadyOwnedByYou),
            });
            if let Err(last) = made {
                return self.violate("set-up", format!("{name} is not done in time: {last}"));
            }
        }
    }

    /// Every key of the buckets is read once more; listings, snapshots and counts agree.
    pub(super) fn audit_buckets(&mut self) {
        let mut keys: Vec<(Place, Bytes)> = self.load.keys().into_iter().map(|(place, key, _)| (place, key)).collect();
        keys.dedup();
        self.probe_shards();
        self.shards_settle();
        self.audit_quota();
        for (number, bucket) in self.load.targets.buckets.clone().into_iter().enumerate() {
            let place = s3_load::place_of(number);
            for (_, key) in keys.iter().filter(|(of, _)| *of == place) {
                self.audit_bucket_one(place, Operation::Get { key: key.clone() }, &bucket, false);
            }
            let listing = s3_load::listing(None, s3_load::ALL_KEYS);
            self.audit_bucket_one(place, listing.clone(), &bucket, true);
            self.audit_bucket_one(place, listing, &bucket, false);
        }
    }

    /// What the bucket with a quota holds at rest, and up to which number its shards are.
    fn audit_quota(&mut self) {
        let Some(limited) = self.load.targets.limited else { return };
        let bucket = self.load.targets.buckets[limited].clone();
        let mut highest = 0;
        self.pages(
            |_: Option<&Shards>| DescribeShards { bucket: bucket.clone(), ..DescribeShards::default() }.into(),
            |page: &Shards| {
                highest =
                    page.shards.iter().filter_map(|shard| s3_quota::shard_number(&shard.cluster)).fold(0, u64::max);
                false
            },
        );
        let count = CountObjects { bucket, ..CountObjects::default() };
        if let Some(S3Answer::ObjectCount(counted)) = self.told("count", count.into()) {
            self.load.quota.shards = highest;
            self.load.quota.counted.push((counted.keys, true));
            self.world.probe(if highest == 1 { "quota_of_one_shard" } else { "quota_of_several_shards" });
        }
    }

    /// All pages of a listing that is no operation of the history.
    fn pages<P>(&mut self, mut call: impl FnMut(Option<&P>) -> S3Action, mut more: impl FnMut(&P) -> bool)
    where
        P: TryFrom<S3Answer, Error = S3Answer>,
    {
        let mut last: Option<P> = None;
        for _ in 0..PAGES_MAX {
            let action = Action::S3(call(last.as_ref()));
            let answered = self.insist(action.clone(), Some(ReadConsistency::Strong), AUDIT_US, |told| told.is_ok());
            let page = match answered {
                Ok(Ok(answer)) => match answer.result {
                    ActionResult::S3(answer) => P::try_from(answer).ok(),
                    _ => None,
                },
                other => return self.violate("liveness", format!("the audit cannot list by {action:?}: {other:?}")),
            };
            let Some(page) = page else { return self.violate("listing", format!("another answer to {action:?}")) };
            if !more(&page) {
                return;
            }
            last = Some(page);
        }
        self.violate("listing", format!("a listing has more than {PAGES_MAX} pages"));
    }

    /// Uploads that are listed fit what clients know of theirs; so do versions, counts and groups.
    pub(super) fn audit_uploads_and_versions(&mut self) {
        for (number, bucket) in self.load.targets.buckets.clone().into_iter().enumerate() {
            let mut uploads: Vec<String> = Vec::new();
            self.pages(
                |behind| s3_upload::list_uploads(&bucket, behind, 3),
                |page: &Uploads| {
                    uploads.extend(page.uploads.iter().map(|upload| upload.upload_id.clone()));
                    page.is_truncated
                },
            );
            let found = s3_upload::check_listed(number, &uploads, &self.load.uploads);
            found.into_iter().for_each(|violation| self.world.violate(violation));
            let objects = self.audit_groups(&bucket);
            let mut counted = s3_rest::count_of_objects(&objects);
            if (number as u64) < self.world.plan.shape.versioned {
                counted = self.audit_versions(number, &bucket, counted.keys);
            } else if self.is_suspended(number) {
                counted = self.audit_null_versions(&bucket, counted.keys);
            }
            self.audit_count(&bucket, counted);
        }
    }

    /// Whether a bucket's versioning was suspended before anything was put.
    fn is_suspended(&self, number: usize) -> bool {
        let shape = &self.world.plan.shape;
        (shape.versioned..shape.versioned + shape.suspended).contains(&(number as u64))
    }

    /// Of suspended versioning: a key has one version, the null one, which each put and delete replaces.
    fn audit_null_versions(&mut self, bucket: &str, listed: u64) -> ObjectCount {
        let mut versions = Vec::new();
        self.pages(
            |behind| s3_versions::list_versions(bucket, behind, 17),
            |page: &VersionPage| s3_versions::take_page(&mut versions, page),
        );
        let left = s3_rest::count_of_versions(&versions);
        let mut keys = BTreeSet::new();
        let odd = versions.iter().find(|entry| entry.version_id != NULL_VERSION || !keys.insert(entry.key.as_str()));
        let message = match odd {
            Some(odd) => format!(
                "{bucket}, whose versioning is suspended, has a version that is not its key's only one: {odd:?}"
            ),
            None if left.keys != listed => {
                format!("{bucket} lists {listed} keys, and {} whose null version is no marker", left.keys)
            }
            None => return left,
        };
        if self.world.violations.is_empty() {
            self.violate("versions", message);
        }
        left
    }

    /// Each version once; what a marker hid is there again when the marker is gone. Returns what there is to count.
    fn audit_versions(&mut self, number: usize, bucket: &str, listed: u64) -> ObjectCount {
        let mut versions = Vec::new();
        self.pages(
            |behind| s3_versions::list_versions(bucket, behind, 17),
            |page: &VersionPage| s3_versions::take_page(&mut versions, page),
        );
        if self.world.violations.is_empty() {
            let found = s3_versions::check_versions(
                &self.load.history,
                s3_load::place_of(number),
                &self.load.removals,
                &versions,
            );
            found.into_iter().for_each(|violation| self.world.violate(violation));
        }
        let mut left = s3_rest::count_of_versions(&versions);
        if left.keys != listed && self.world.violations.is_empty() {
            let message = format!("{bucket} lists {listed} keys, and {} whose newest version is no marker", left.keys);
            self.violate("versions", message);
        }
        for (marker, behind) in s3_rest::hidden(&versions).into_iter().take(UNHIDDEN_MAX) {
            let (key, version_id) = (marker.key.clone(), Some(marker.version_id.clone()));
            let delete =
                DeleteObject { bucket: bucket.to_string(), key: key.clone(), version_id, ..DeleteObject::default() };
            let get = GetObject { bucket: bucket.to_string(), key, ..GetObject::default() };
            if self.told("remove the marker", delete.into()).is_none() {
                return left;
            }
            (left.keys, left.versions) = (left.keys + 1, left.versions - 1);
            match self.told("read what was hidden", get.into()) {
                Some(S3Answer::ObjectVersion(shown)) if shown.etag == behind.etag => {}
                other => {
                    if self.world.violations.is_empty() {
                        let message = format!("{marker:?} hid {behind:?}; without it {other:?} shows");
                        self.violate("versions", message);
                    }
                    return left;
                }
            }
        }
        left
    }

    /// Listings by groups show what one without groups does. Returns the objects.
    fn audit_groups(&mut self, bucket: &str) -> Vec<ObjectEntry> {
        let (objects, _) = self.listed(bucket, None, s3_load::ALL_KEYS);
        for delimiter in s3_rest::DELIMITERS {
            let expected = s3_rest::grouped(objects.iter().map(|object| object.key.as_str()), delimiter);
            for max_keys in [s3_load::ALL_KEYS, 2] {
                let (contents, groups) = self.listed(bucket, Some(delimiter), max_keys);
                let shown = (contents.into_iter().map(|object| object.key).collect::<Vec<_>>(), groups);
                if shown != expected && self.world.violations.is_empty() {
                    let message = format!("{bucket} by groups up to {delimiter:?}, {max_keys} a page, shows {shown:?}; it holds {expected:?}");
                    self.violate("listing", message);
                }
            }
        }
        objects
    }

    /// All pages of a listing.
    fn listed(&mut self, bucket: &str, delimiter: Option<&str>, max_keys: u32) -> (Vec<ObjectEntry>, Vec<String>) {
        let (mut contents, mut groups) = (Vec::new(), Vec::new());
        self.pages(
            |behind: Option<&ObjectPage>| s3_rest::list_by_groups(bucket, delimiter, max_keys, behind),
            |page: &ObjectPage| {
                contents.extend(page.contents.iter().cloned());
                groups.extend(page.common_prefixes.iter().cloned());
                page.is_truncated
            },
        );
        (contents, groups)
    }

    /// `CountObjects` counts what was listed.
    fn audit_count(&mut self, bucket: &str, listed: ObjectCount) {
        let count = CountObjects { bucket: bucket.to_string(), ..CountObjects::default() };
        match self.told("count", count.into()) {
            Some(S3Answer::ObjectCount(counted)) if *counted != listed => {
                self.violate("count", format!("{bucket} lists {listed:?} and counts {counted:?}"));
            }
            _ => {}
        }
    }

    /// The answer to a call at rest; a violation where there is none.
    fn told(&mut self, what: &str, call: S3Action) -> Option<S3Answer> {
        if !self.world.violations.is_empty() {
            return None;
        }
        let read = matches!(call, S3Action::CountObjects(_) | S3Action::GetObject(_) | S3Action::LookupData(_));
        let strong = read.then_some(ReadConsistency::Strong);
        let final_word = |told: &Response| match told {
            Ok(_) => true,
            Err(failure) => failure.refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchKey),
        };
        match self.insist(Action::S3(call.clone()), strong, AUDIT_US, final_word) {
            Ok(Ok(answer)) => match answer.result {
                ActionResult::S3(answer) => Some(answer),
                _ => None,
            },
            Ok(Err(failure)) if failure.refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchKey) => None,
            other => {
                self.violate("liveness", format!("the audit cannot {what}: {call:?}: {other:?}"));
                None
            }
        }
    }

    /// No place is forgotten: what was uploaded is named, or told to who removes the bytes that nothing names.
    pub(super) fn audit_places(&mut self) {
        let Some((_, mut unnamed)) = self.named_places() else { return };
        let until = self.world.now + FREED_US;
        while !unnamed.is_empty() {
            let Some(S3Answer::Locations(freed)) = self.told("list", ListFreedData { max: FREED_MAX }.into()) else {
                return;
            };
            freed.locations.iter().for_each(|place| _ = unnamed.remove(place));
            if freed.locations.len() as u32 == FREED_MAX {
                return self.world.probe("freed_data_beyond_one_page");
            }
            if self.world.now >= until && !unnamed.is_empty() {
                let message = format!("nothing names these places, and no list of freed ones holds them: {unnamed:?}");
                return self.violate("places", message);
            }
            let pause = self.world.now + LOOK_US * 50;
            self.pump(pause, |_| false);
        }
        self.none_is_named_and_freed();
    }

    /// The places of parts that an object or an upload names now, and those that none does.
    fn named_places(&mut self) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let (mut named, mut unnamed) = (BTreeSet::new(), BTreeSet::new());
        for ((bucket, key), locations) in self.load.places.clone() {
            let Some(bucket) = self.load.targets.buckets.get(bucket).cloned() else { continue };
            let looked_up = self.told("look up", LookupData { bucket, key, locations: locations.clone() }.into());
            let Some(S3Answer::Locations(found)) = looked_up else { return None };
            unnamed.extend(locations.into_iter().filter(|place| !found.locations.contains(place)));
            named.extend(found.locations);
        }
        Some((named, unnamed))
    }

    /// What collectors hand on is named by nothing, looked at when everything that is kept for a while has come to its end:
    /// until then uploads that are over name their parts, too.
    fn none_is_named_and_freed(&mut self) {
        let tuning = &self.world.plan.tuning;
        if self.load.places.is_empty() || tuning.keep_ms == 0 || !self.world.violations.is_empty() {
            return;
        }
        let over_ms = tuning.keep_ms + tuning.freed_age_ms + COLLECTED_MS;
        let over = self.world.load_ends_at + over_ms * 1_000;
        self.pump(over, |_| false);
        let Some((named, _)) = self.named_places() else { return };
        let Some(S3Answer::Locations(freed)) = self.told("list", ListFreedData { max: FREED_MAX }.into()) else {
            return;
        };
        self.world.probe("freed_and_named_compared");
        let both: Vec<&String> = freed.locations.iter().filter(|place| named.contains(*place)).collect();
        let read = self.read_by_an_object(&both);
        for place in 0..both.len() - read.len() {
            self.world.excuses.used(Excuse::CompletingStillNames, (place as u64, 0));
        }
        if !read.is_empty() {
            let message = format!("these places are named by an object, and told to be freed: {read:?}");
            self.violate("places", message);
        }
    }

    /// Those of the places where an object that is there now has its bytes. The others are named by an upload whose
    /// completion has put its object and was not ended: nothing reads them there any more.
    fn read_by_an_object(&mut self, places: &[&String]) -> Vec<String> {
        let mut read = Vec::new();
        for ((bucket, key), locations) in self.load.places.clone() {
            let asked: Vec<&&String> = places.iter().filter(|place| locations.contains(**place)).collect();
            let Some(bucket) = self.load.targets.buckets.get(bucket).filter(|_| !asked.is_empty()).cloned() else {
                continue;
            };
            let Some(object) = self.told("get", GetObject { bucket, key, ..GetObject::default() }.into()) else {
                continue;
            };
            // Wherever in the answer it stands: as the one place, or as a part's.
            let text = format!("{object:?}");
            read.extend(asked.into_iter().filter(|place| text.contains(place.as_str())).map(|place| place.to_string()));
        }
        read
    }

    /// Splits and merges that were begun come to their end: every shard is seen to serve once.
    fn shards_settle(&mut self) {
        let until = self.world.now + SETTLE_US;
        for bucket in self.load.targets.buckets.clone() {
            loop {
                let mut busy = Vec::new();
                self.pages(
                    |_: Option<&Shards>| DescribeShards { bucket: bucket.clone(), ..DescribeShards::default() }.into(),
                    |page: &Shards| {
                        busy = page.shards.iter().filter(|shard| shard.state != "serving").cloned().collect();
                        false
                    },
                );
                if busy.is_empty() || !self.world.violations.is_empty() {
                    break;
                }
                if self.world.now >= until {
                    let seconds = SETTLE_US / 1_000_000;
                    let message =
                        format!("a change of {bucket}'s shards has not ended in {seconds} s without load: {busy:?}");
                    return self.violate("liveness", message);
                }
                let pause = self.world.now + LOOK_US * 5;
                self.pump(pause, |_| false);
            }
        }
    }

    /// No name is barred for ever: each contested name is free again once its owner has removed its bucket.
    pub(super) fn audit_names(&mut self) {
        let names = if self.world.plan.load.owners > 0 { s3_owner::names() } else { Vec::new() };
        for bucket in names {
            let until = self.world.now + MAKE_BUCKET_US;
            loop {
                let account = s3_load::ACCOUNT.to_string();
                let make = CreateBucket { bucket: bucket.clone(), account, ..CreateBucket::default() };
                let last = match self.call(0, Action::S3(make.into()), None, 20_000_000) {
                    Some(Ok(_)) => break,
                    Some(Err(failure))
                        if failure.refusal.code == ErrorCode::S3(S3ErrorCode::BucketAlreadyOwnedByYou) =>
                    {
                        break
                    }
                    Some(Err(failure)) if failure.refusal.code == ErrorCode::S3(S3ErrorCode::BucketAlreadyExists) => {
                        self.remove_bucket(&bucket)
                    }
                    other => format!("{other:?}"),
                };
                if self.world.now >= until && self.world.violations.is_empty() {
                    self.violate("owners", format!("the name {bucket} cannot be had again: {last}"));
                }
                if !self.world.violations.is_empty() {
                    return;
                }
                let pause = self.world.now + LOOK_US;
                self.pump(pause, |_| false);
            }
        }
    }

    /// Removes all objects of a bucket, and it; the last answer.
    fn remove_bucket(&mut self, bucket: &str) -> String {
        let all = Action::S3(ListObjectsV2 { bucket: bucket.to_string(), ..ListObjectsV2::default() }.into());
        if let Some(Ok(answer)) = self.call(0, all, Some(ReadConsistency::Strong), 20_000_000) {
            if let ActionResult::S3(S3Answer::ObjectPage(page)) = answer.result {
                for entry in page.contents {
                    let (bucket, key) = (bucket.to_string(), entry.key);
                    let delete = DeleteObject { bucket, key, ..DeleteObject::default() };
                    self.call(0, Action::S3(delete.into()), None, 20_000_000);
                }
            }
        }
        let delete = Action::S3(DeleteBucket { bucket: bucket.to_string(), ..DeleteBucket::default() }.into());
        format!("{:?}", self.call(0, delete, None, 20_000_000))
    }

    /// How many flows of buckets came to their end, as the numbers of shards that were given tell.
    fn probe_shards(&mut self) {
        let machines =
            self.world.nodes.iter().flat_map(|node| node.lanes.iter().filter_map(|lane| lane.machine.as_ref()));
        let mut numbers = std::collections::BTreeSet::new();
        for view in machines.flat_map(|machine| machine.views()) {
            let number = view.name.as_str().strip_prefix("shard@").and_then(|name| name.rsplit_once('-'));
            numbers.extend(number.and_then(|(_, number)| number.parse::<u64>().ok()));
        }
        self.world.trace.say(self.world.now, || Line::new(Kind::Phase, format!("shards of buckets: {numbers:?}")));
        if numbers.len() > 1 {
            self.world.probe("bucket_of_many_shards");
        }
        // A split ends its source: who is still there was narrowed.
        if numbers.len() > 1 && numbers.contains(&1) {
            self.world.probe("bucket_shard_narrowed");
        }
        if numbers.last().is_some_and(|last| *last > 4) {
            self.world.probe("bucket_split_more_than_once");
        }
        if numbers.first().is_some_and(|first| *first > 1) {
            self.world.probe("bucket_lost_its_first_shard_to_a_split");
        }
    }

    fn audit_bucket_one(&mut self, place: Place, operation: Operation, bucket: &str, instant: bool) {
        let Some(action) = s3_load::action_of(&operation, bucket, instant) else { return };
        if instant {
            self.load.instants.push(self.load.history.records.len() as u64);
        }
        self.audit_one(place, operation, action);
    }
}
