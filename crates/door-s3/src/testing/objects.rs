//! Versions: put, read, changed, deleted.

use super::{Answered, Bucket, State, Stored};
use base_types::s3::*;
use base_types::Refusal;

/// The current version that conditions of writes look at: none where it is a delete marker.
fn current(bucket: &Bucket, key: &str) -> Option<(String, u64, u64)> {
    let newest = bucket.objects.get(key)?.first()?;
    let version = &newest.version;
    (!version.delete_marker).then(|| (version.etag.clone(), version.last_modified_ms, version.size))
}

pub(super) fn check_conditions(bucket: &Bucket, key: &str, conditions: &WriteConditions) -> Result<(), Refusal> {
    let found = current(bucket, key);
    let found = found.as_ref().map(|(etag, modified, size)| (etag.as_str(), *modified, *size));
    conditions.check(found).map_err(Refusal::from)
}

fn check_version_id(id: Option<&str>) -> Result<(), Refusal> {
    let legal = |id: &str| id == NULL_VERSION || (id.len() == 20 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match id {
        Some(id) if !legal(id) => Err(S3ErrorCode::NoSuchVersion.into()),
        _ => Ok(()),
    }
}

/// Who holds a version fast.
fn check_locks(version: &ObjectVersion, now_ms: u64, bypass: bool) -> Result<(), Refusal> {
    let kept = version.retention.is_some_and(|retention| {
        retention.retain_until_ms > now_ms && !(bypass && retention.mode == RetentionMode::Governance)
    });
    if kept || version.legal_hold {
        return Err(S3ErrorCode::AccessDenied.because("Access Denied because object protected by object lock."));
    }
    Ok(())
}

impl State {
    pub(super) fn put_object(&mut self, call: PutObject) -> Answered {
        let now_ms = self.now_ms;
        if call.data_expires_ms.is_some_and(|expires| expires < now_ms) {
            return Err(S3ErrorCode::RequestTimeout.because("the data took too long to come; put it again"));
        }
        let bucket = self.bucket(&call.bucket)?;
        check_conditions(bucket, &call.key, &call.conditions)?;
        let version = ObjectVersion {
            key: call.key.clone(),
            version_id: None,
            delete_marker: false,
            last_modified_ms: now_ms,
            size: call.size,
            etag: call.etag,
            checksums: call.checksums,
            parts_count: None,
            headers: call.headers,
            tags: call.tags,
            acl: call.acl.unwrap_or_else(|| crate::access::acl::private(bucket.info.owner.clone())),
            retention: call.retention,
            legal_hold: call.legal_hold,
            data: Some(call.data),
        };
        self.add_version(&call.bucket, version).map(Into::into)
    }

    /// Lays a version over a key, as the bucket's versioning has it.
    pub(super) fn add_version(&mut self, bucket: &str, mut version: ObjectVersion) -> Result<PutObjectAnswer, Refusal> {
        let now_ms = self.now_ms;
        let number = self.next();
        let bucket = self.bucket(bucket)?;
        check_quota(bucket, &version)?;
        let versioning = bucket.info.versioning;
        let default = bucket.info.object_lock.as_ref().and_then(|lock| lock.default_retention.as_ref());
        if !version.delete_marker && version.retention.is_none() {
            version.retention = default.map(|default| default.from(now_ms));
        }
        let id = match versioning {
            Some(Versioning::Enabled) => format!("{number:020x}"),
            _ => NULL_VERSION.to_owned(),
        };
        let answer = PutObjectAnswer {
            etag: version.etag.clone(),
            version_id: versioning.map(|_| id.clone()),
            last_modified_ms: version.last_modified_ms,
            size: version.size,
            checksums: version.checksums.clone(),
        };
        let versions = bucket.objects.entry(version.key.clone()).or_default();
        let replaced = versions.iter().position(|stored| stored.id == NULL_VERSION && id == NULL_VERSION);
        let replaced = replaced.map(|at| versions.remove(at));
        versions.insert(0, Stored { id, version });
        self.free(replaced.and_then(|stored| stored.version.data).as_ref());
        Ok(answer)
    }

    /// A version that is there.
    fn find(&mut self, bucket: &str, key: &str, version_id: Option<&str>) -> Result<(&mut Stored, bool), Refusal> {
        check_version_id(version_id)?;
        let bucket = self.bucket(bucket)?;
        let versioned = bucket.info.versioning.is_some();
        let versions = bucket.objects.get_mut(key).map(Vec::as_mut_slice).unwrap_or_default();
        let found = match version_id {
            None => versions.first_mut().filter(|stored| !stored.version.delete_marker),
            Some(id) => versions.iter_mut().find(|stored| stored.id == id),
        };
        let absent = if version_id.is_some() { S3ErrorCode::NoSuchVersion } else { S3ErrorCode::NoSuchKey };
        Ok((found.ok_or_else(|| Refusal::from(absent))?, versioned))
    }

    pub(super) fn get_object(
        &mut self,
        bucket: &str,
        key: &str,
        version_id: Option<&str>,
        conditions: &ReadConditions,
        with_data: bool,
    ) -> Answered {
        let (stored, versioned) = self.find(bucket, key, version_id)?;
        let mut version = stored.version.clone();
        version.version_id = versioned.then(|| stored.id.clone());
        conditions.check(&version.etag, version.last_modified_ms)?;
        if !with_data && !matches!(version.data, Some(Data::Parts(_))) {
            version.data = None;
        }
        Ok(version.into())
    }

    pub(super) fn delete_objects(&mut self, call: DeleteObjects) -> Answered {
        let mut results = Vec::with_capacity(call.objects.len());
        for object in call.objects {
            let one = DeleteObject {
                bucket: call.bucket.clone(),
                key: object.key.clone(),
                version_id: object.version_id.clone(),
                bypass_governance_retention: call.bypass_governance_retention,
                conditions: object.conditions,
            };
            let mut result = DeleteResult { key: object.key, version_id: object.version_id, ..DeleteResult::default() };
            match self.delete_object(one) {
                Ok(deleted) => result.deleted = Some(deleted),
                Err(refusal) if refusal.code == S3ErrorCode::NoSuchBucket.into() => return Err(refusal),
                Err(refusal) => {
                    (result.code, result.message) = (Some(refusal.code.to_string()), Some(refusal.message));
                }
            }
            results.push(result);
        }
        Ok(DeleteObjectsAnswer { results }.into())
    }

    pub(super) fn delete_object(&mut self, call: DeleteObject) -> Result<DeleteObjectAnswer, Refusal> {
        check_version_id(call.version_id.as_deref())?;
        let now_ms = self.now_ms;
        let bucket = self.bucket(&call.bucket)?;
        check_conditions(bucket, &call.key, &call.conditions)?;
        let versioning = bucket.info.versioning;
        match (&call.version_id, versioning) {
            (Some(id), _) => {
                let versions = bucket.objects.get(&call.key).map(Vec::as_slice).unwrap_or_default();
                let found = versions.iter().find(|stored| stored.id == *id);
                if let Some(stored) = found {
                    check_locks(&stored.version, now_ms, call.bypass_governance_retention)?;
                }
                let marker = found.is_some_and(|stored| stored.version.delete_marker);
                self.remove(&call.bucket, &call.key, id);
                Ok(DeleteObjectAnswer { delete_marker: marker, version_id: Some(id.clone()) })
            }
            (None, None) => {
                self.remove(&call.bucket, &call.key, NULL_VERSION);
                Ok(DeleteObjectAnswer::default())
            }
            (None, Some(_)) => {
                let owner = bucket.info.owner.clone();
                let marker = ObjectVersion {
                    key: call.key,
                    delete_marker: true,
                    last_modified_ms: now_ms,
                    acl: crate::access::acl::private(owner),
                    ..ObjectVersion::default()
                };
                let laid = self.add_version(&call.bucket, marker)?;
                Ok(DeleteObjectAnswer { delete_marker: true, version_id: laid.version_id })
            }
        }
    }

    fn remove(&mut self, bucket: &str, key: &str, id: &str) {
        let Ok(bucket) = self.bucket(bucket) else { return };
        let Some(versions) = bucket.objects.get_mut(key) else { return };
        let removed = versions.iter().position(|stored| stored.id == id).map(|at| versions.remove(at));
        if versions.is_empty() {
            bucket.objects.remove(key);
        }
        self.free(removed.and_then(|stored| stored.version.data).as_ref());
    }

    pub(super) fn change_version(&mut self, action: S3Action) -> Answered {
        use S3Action as A;
        let now_ms = self.now_ms;
        macro_rules! change {
            ($call:ident, $field:ident = $value:expr) => {{
                let (stored, versioned) = self.find(&$call.bucket, &$call.key, $call.version_id.as_deref())?;
                stored.version.$field = $value;
                Ok(VersionChanged { version_id: versioned.then(|| stored.id.clone()) }.into())
            }};
        }
        match action {
            A::PutObjectTagging(call) => change!(call, tags = call.tags),
            A::DeleteObjectTagging(call) => change!(call, tags = Vec::new()),
            A::PutObjectAcl(call) => change!(call, acl = call.acl),
            A::PutObjectLegalHold(call) => change!(call, legal_hold = call.legal_hold),
            A::PutObjectRetention(call) => {
                let (stored, _) = self.find(&call.bucket, &call.key, call.version_id.as_deref())?;
                check_retention(stored.version.retention, call.retention, now_ms, call.bypass_governance_retention)?;
                change!(call, retention = call.retention)
            }
            other => Err(S3ErrorCode::NotImplemented.because(format!("{} is not asked by the gateway", other.name()))),
        }
    }
}

/// A retention may always be lengthened; shortened only in governance mode, by those with the right.
fn check_retention(old: Option<Retention>, new: Option<Retention>, now_ms: u64, bypass: bool) -> Result<(), Refusal> {
    let Some(old) = old.filter(|old| old.retain_until_ms > now_ms) else { return Ok(()) };
    let longer = new.is_some_and(|new| new.retain_until_ms >= old.retain_until_ms);
    let same_mode = new.is_some_and(|new| new.mode == old.mode);
    let stricter = new.is_some_and(|new| new.mode == RetentionMode::Compliance);
    let allowed = match old.mode {
        RetentionMode::Compliance => longer && same_mode,
        RetentionMode::Governance => bypass || (longer && (same_mode || stricter)),
    };
    if allowed {
        return Ok(());
    }
    Err(S3ErrorCode::AccessDenied.because("Access Denied because object protected by object lock."))
}

fn check_quota(bucket: &Bucket, version: &ObjectVersion) -> Result<(), Refusal> {
    let Some(quota) = bucket.info.quota.filter(|_| !version.delete_marker) else { return Ok(()) };
    let all = bucket.objects.values().flatten();
    let bytes: u64 = all.map(|stored| stored.version.size).sum();
    if quota.bytes_max.is_some_and(|max| bytes + version.size > max) {
        return Err(S3ErrorCode::QuotaExceeded.into());
    }
    let is_new = !bucket.objects.contains_key(&version.key);
    if quota.keys_max.is_some_and(|max| is_new && bucket.objects.len() as u64 >= max) {
        return Err(S3ErrorCode::QuotaExceeded.into());
    }
    Ok(())
}
