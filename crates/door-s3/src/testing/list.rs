//! Listings, counts and cuts over what is in memory.

use super::{Answered, Bucket, State, Stored};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use base_types::s3::*;
use base_types::Refusal;
use std::collections::BTreeSet;

/// What one page came to: items in order, groups between them.
struct Page<T> {
    items: Vec<T>,
    groups: BTreeSet<String>,
    /// The last item or group, where there is more.
    last: Option<Last>,
}

enum Last {
    /// A place within the items: key and, of versions and uploads, the id.
    Item(String, String),
    Group(String),
}

/// The group a key falls into.
fn group_of<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter?;
    let behind = key.get(prefix.len()..)?;
    let end = prefix.len() + behind.find(delimiter)? + delimiter.len();
    key.get(..end)
}

/// Goes over items in order, which are already behind the marker.
fn page<T>(
    items: impl Iterator<Item = (String, String, T)>,
    prefix: &str,
    delimiter: Option<&str>,
    skipped_group: Option<&str>,
    max: usize,
) -> Page<T> {
    let mut page = Page { items: Vec::new(), groups: BTreeSet::new(), last: None };
    let mut last = None;
    if max == 0 {
        return page;
    }
    for (key, id, item) in items {
        if !key.starts_with(prefix) || skipped_group.is_some_and(|group| key.starts_with(group)) {
            continue;
        }
        let group = group_of(&key, prefix, delimiter);
        if group.is_some_and(|group| page.groups.contains(group)) {
            continue;
        }
        if page.items.len() + page.groups.len() == max {
            page.last = last;
            return page;
        }
        match group {
            Some(group) => {
                page.groups.insert(group.to_owned());
                last = Some(Last::Group(group.to_owned()));
            }
            None => {
                page.items.push(item);
                last = Some(Last::Item(key, id));
            }
        }
    }
    page
}

/// A marker that is itself a group skips all of it.
fn skipped<'m>(marker: Option<&'m str>, prefix: &str, delimiter: Option<&str>) -> Option<&'m str> {
    let marker = marker?;
    (group_of(marker, prefix, delimiter) == Some(marker)).then_some(marker)
}

fn owner_of(version: &ObjectVersion) -> Option<Owner> {
    Some(version.acl.owner.clone())
}

fn algorithm_of(version: &ObjectVersion) -> Option<ChecksumAlgorithm> {
    crate::checksum::given(&version.checksums).first().copied()
}

fn current_objects(bucket: &Bucket) -> impl Iterator<Item = &ObjectVersion> {
    bucket
        .objects
        .values()
        .filter_map(|versions| versions.first())
        .map(|stored| &stored.version)
        .filter(|version| !version.delete_marker)
}

fn token(bucket: &str, last: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{bucket}\n{last}"))
}

fn read_token(bucket: &str, token: &str) -> Result<String, Refusal> {
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let last = decoded.as_deref().and_then(|text| text.strip_prefix(bucket)?.strip_prefix('\n'));
    let wrong = || S3ErrorCode::InvalidArgument.because("The continuation token provided is incorrect");
    last.map(str::to_owned).ok_or_else(wrong)
}

impl State {
    fn objects_page(
        &mut self,
        bucket: &str,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<&str>,
        max: Option<u32>,
    ) -> Result<(ObjectPage, Option<String>), Refusal> {
        let bucket = self.bucket(bucket)?;
        let entry = |version: &ObjectVersion| ObjectEntry {
            key: version.key.clone(),
            last_modified_ms: version.last_modified_ms,
            etag: version.etag.clone(),
            size: version.size,
            storage_class: version.headers.storage_class.clone(),
            owner: owner_of(version),
            checksum_algorithm: algorithm_of(version),
            checksum_type: version.checksums.checksum_type,
        };
        let behind = current_objects(bucket).filter(|version| after.is_none_or(|after| version.key.as_str() > after));
        let items = behind.map(|version| (version.key.clone(), String::new(), entry(version)));
        let max = max.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX) as usize;
        let found = page(items, prefix, delimiter, skipped(after, prefix, delimiter), max);
        let last = found.last.map(|last| match last {
            Last::Item(key, _) => key,
            Last::Group(group) => group,
        });
        let listed = ObjectPage {
            key_count: u32::try_from(found.items.len() + found.groups.len()).unwrap_or(u32::MAX),
            contents: found.items,
            common_prefixes: found.groups.into_iter().collect(),
            is_truncated: last.is_some(),
            next_marker: None,
            next_continuation_token: None,
        };
        Ok((listed, last))
    }

    pub(super) fn list_objects(&mut self, call: ListObjects) -> Answered {
        let (delimiter, marker) = (call.delimiter.as_deref(), call.marker.as_deref());
        let (mut listed, last) = self.objects_page(&call.bucket, &call.prefix, delimiter, marker, call.max_keys)?;
        listed.next_marker = last;
        Ok(listed.into())
    }

    pub(super) fn list_objects_v2(&mut self, call: ListObjectsV2) -> Answered {
        let from = call.continuation_token.as_deref().map(|text| read_token(&call.bucket, text)).transpose()?;
        let after = from.or(call.start_after);
        let delimiter = call.delimiter.as_deref();
        let (mut listed, last) =
            self.objects_page(&call.bucket, &call.prefix, delimiter, after.as_deref(), call.max_keys)?;
        listed.next_continuation_token = last.map(|last| token(&call.bucket, &last));
        Ok(listed.into())
    }

    pub(super) fn list_versions(&mut self, call: ListObjectVersions) -> Answered {
        let bucket = self.bucket(&call.bucket)?;
        let marker = call.key_marker.as_deref();
        let id_marker = call.version_id_marker.as_deref();
        let mut items = Vec::new();
        for (key, versions) in &bucket.objects {
            let skip = match marker {
                Some(marker) if key.as_str() < marker => versions.len(),
                Some(marker) if key == marker => match id_marker {
                    None => versions.len(),
                    Some(id) => versions.iter().position(|stored| stored.id == id).map_or(0, |at| at + 1),
                },
                _ => 0,
            };
            let entries = versions.iter().enumerate().skip(skip);
            items.extend(entries.map(|(at, stored)| (key.clone(), stored.id.clone(), version_entry(stored, at == 0))));
        }
        let delimiter = call.delimiter.as_deref();
        let max = call.max_keys.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX) as usize;
        let found = page(items.into_iter(), &call.prefix, delimiter, skipped(marker, &call.prefix, delimiter), max);
        let (key, id) = match found.last {
            None => (None, None),
            Some(Last::Item(key, id)) => (Some(key), Some(id)),
            Some(Last::Group(group)) => (Some(group), None),
        };
        Ok(VersionPage {
            versions: found.items,
            common_prefixes: found.groups.into_iter().collect(),
            is_truncated: key.is_some(),
            next_key_marker: key,
            next_version_id_marker: id,
        }
        .into())
    }

    pub(super) fn list_uploads(&mut self, call: ListMultipartUploads) -> Answered {
        let bucket = self.bucket(&call.bucket)?;
        let marker = call.key_marker.as_deref();
        let id_marker = call.upload_id_marker.as_deref();
        let behind = |(key, id): &(String, String)| match (marker, id_marker) {
            (None, _) => true,
            (Some(marker), Some(id_marker)) => (key.as_str(), id.as_str()) > (marker, id_marker),
            (Some(marker), None) => key.as_str() > marker,
        };
        let items = bucket.uploads.iter().filter(|(at, _)| behind(at));
        let items = items.map(|((key, id), upload)| (key.clone(), id.clone(), upload.entry.clone()));
        let delimiter = call.delimiter.as_deref();
        let max = call.max_uploads.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX) as usize;
        let found = page(items, &call.prefix, delimiter, skipped(marker, &call.prefix, delimiter), max);
        let (key, id) = match found.last {
            None => (None, None),
            Some(Last::Item(key, id)) => (Some(key), Some(id)),
            Some(Last::Group(group)) => (Some(group), None),
        };
        Ok(Uploads {
            uploads: found.items,
            common_prefixes: found.groups.into_iter().collect(),
            is_truncated: key.is_some(),
            next_key_marker: key,
            next_upload_id_marker: id,
        }
        .into())
    }

    pub(super) fn count(&mut self, bucket: &str, prefix: &str) -> Answered {
        let bucket = self.bucket(bucket)?;
        let below = bucket.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        let versions: Vec<&Stored> = below.flat_map(|(_, versions)| versions).collect();
        Ok(ObjectCount {
            keys: current_objects(bucket).filter(|version| version.key.starts_with(prefix)).count() as u64,
            versions: versions.len() as u64,
            bytes: versions.iter().map(|stored| stored.version.size).sum(),
        }
        .into())
    }

    pub(super) fn cut(&mut self, bucket: &str, parts: u32) -> Answered {
        let keys: Vec<String> = self.bucket(bucket)?.objects.keys().cloned().collect();
        let parts = (parts as usize).clamp(1, keys.len().max(1));
        let keys = (1..parts).map(|part| keys[part * keys.len() / parts].clone()).collect();
        Ok(Cuts { keys }.into())
    }
}

fn version_entry(stored: &Stored, is_latest: bool) -> VersionEntry {
    let version = &stored.version;
    VersionEntry {
        key: version.key.clone(),
        version_id: stored.id.clone(),
        is_latest,
        delete_marker: version.delete_marker,
        last_modified_ms: version.last_modified_ms,
        etag: version.etag.clone(),
        size: version.size,
        storage_class: version.headers.storage_class.clone(),
        owner: owner_of(version),
        checksum_algorithm: algorithm_of(version),
        checksum_type: version.checksums.checksum_type,
    }
}
