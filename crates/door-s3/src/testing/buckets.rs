//! Accounts, buckets, their settings, and what is changed of one version.

use super::{Answered, Bucket, State};
use base_types::s3::*;
use base_types::Refusal;

fn or(code: S3ErrorCode) -> impl Fn() -> Refusal {
    move || code.into()
}

impl State {
    pub(super) fn call_on_version_or_bucket(&mut self, action: S3Action) -> Answered {
        use S3Action as A;
        match action {
            A::CreateAccount(call) => {
                let owner = Owner { id: call.account.clone(), display_name: call.display_name };
                self.accounts.insert(call.account, owner);
                Ok(S3Answer::Done)
            }
            A::CreateAccessKey(call) => self.create_key(*call),
            A::GetAccessKey(call) => {
                let key = self.keys.get(&call.access_key).cloned();
                Ok(key.ok_or_else(or(S3ErrorCode::NoSuchAccessKey))?.into())
            }
            A::DeleteAccessKey(call) => {
                self.keys.remove(&call.access_key).ok_or_else(or(S3ErrorCode::NoSuchAccessKey))?;
                Ok(S3Answer::Done)
            }
            A::CreateBucket(call) => self.create_bucket(*call),
            A::DeleteBucket(call) => self.delete_bucket(&call),
            A::ListBuckets(call) => self.list_buckets(&call),
            A::HeadBucket(call) => Ok(self.bucket(&call.bucket)?.info.clone().into()),
            A::GetObjectTagging(_)
            | A::PutObjectTagging(_)
            | A::DeleteObjectTagging(_)
            | A::PutObjectAcl(_)
            | A::PutObjectLegalHold(_)
            | A::PutObjectRetention(_) => self.change_version(action),
            other => self.setting(other),
        }
    }

    fn create_key(&mut self, call: CreateAccessKey) -> Answered {
        let owner = self.accounts.get(&call.account).cloned().ok_or_else(or(S3ErrorCode::NoSuchAccount))?;
        let number = self.next();
        let key = AccessKey {
            access_key: call.access_key.unwrap_or_else(|| format!("HIVE{number:016X}")),
            secret_key: call.secret_key.unwrap_or_else(|| format!("secret-{number:032x}")),
            account: owner.id,
            display_name: owner.display_name,
            sealed: call.sealed,
        };
        self.keys.insert(key.access_key.clone(), key.clone());
        Ok(key.into())
    }

    fn create_bucket(&mut self, call: CreateBucket) -> Answered {
        let anywhere = [self.region.as_str(), "us-east-1"];
        if let Some(region) = call.location_constraint.as_deref().filter(|region| !anywhere.contains(region)) {
            let message = format!("no bucket can be in {region}");
            return Err(S3ErrorCode::InvalidLocationConstraint.because(message));
        }
        let owner = self.accounts.get(&call.account).cloned().ok_or_else(or(S3ErrorCode::NoSuchAccount))?;
        if let Some(there) = self.buckets.get(&call.bucket) {
            let own = there.info.owner.id == owner.id;
            let code = if own { S3ErrorCode::BucketAlreadyOwnedByYou } else { S3ErrorCode::BucketAlreadyExists };
            return Err(code.into());
        }
        let all = PublicAccessBlock {
            block_public_acls: true,
            ignore_public_acls: true,
            block_public_policy: true,
            restrict_public_buckets: true,
        };
        let lock = call.object_lock_enabled_for_bucket;
        let info = BucketInfo {
            bucket: call.bucket.clone(),
            acl: call.acl.unwrap_or_else(|| crate::access::acl::private(owner.clone())),
            owner,
            creation_date_ms: self.now_ms,
            bucket_region: self.region.clone(),
            versioning: lock.then_some(Versioning::Enabled),
            object_ownership: Some(call.object_ownership),
            public_access_block: (!call.open_to_public).then_some(all),
            object_lock: lock.then_some(ObjectLockConfiguration { enabled: true, default_retention: None }),
            encryption: None,
            ..BucketInfo::default()
        };
        self.buckets.insert(call.bucket, Bucket { info, ..Bucket::default() });
        Ok(S3Answer::Done)
    }

    fn delete_bucket(&mut self, call: &DeleteBucket) -> Answered {
        let name = &call.bucket;
        let bucket = self.bucket(name)?;
        if call.expected_bucket_owner.as_ref().is_some_and(|owner| *owner != bucket.info.owner.id) {
            return Err(S3ErrorCode::AccessDenied.into());
        }
        if !bucket.objects.is_empty() {
            return Err(S3ErrorCode::BucketNotEmpty.into());
        }
        if let Some(bucket) = self.buckets.remove(name) {
            for part in bucket.uploads.values().flat_map(|upload| upload.parts.values()) {
                self.free(Some(&part.0.data));
            }
        }
        Ok(S3Answer::Done)
    }

    fn list_buckets(&mut self, call: &ListBuckets) -> Answered {
        let owner = self.accounts.get(&call.account).cloned().ok_or_else(or(S3ErrorCode::NoSuchAccount))?;
        let after = call.continuation_token.as_deref().unwrap_or("");
        let own = |bucket: &&Bucket| {
            let name = &bucket.info.bucket;
            bucket.info.owner.id == call.account && name.starts_with(&call.prefix) && name.as_str() > after
        };
        let max = call.max_buckets.map_or(usize::MAX, |max| max as usize);
        let entry = |bucket: &Bucket| BucketEntry {
            name: bucket.info.bucket.clone(),
            creation_date_ms: bucket.info.creation_date_ms,
            bucket_region: bucket.info.bucket_region.clone(),
        };
        let buckets: Vec<BucketEntry> = self.buckets.values().filter(own).take(max).map(entry).collect();
        let more = self.buckets.values().filter(own).nth(max).is_some();
        let continuation_token = buckets.last().filter(|_| more).map(|bucket| bucket.name.clone());
        Ok(Buckets { owner, buckets, continuation_token }.into())
    }

    fn setting(&mut self, action: S3Action) -> Answered {
        use S3Action as A;
        macro_rules! set {
            ($call:ident, $($field:ident).+ = $value:expr) => {{
                let bucket = self.bucket(&$call.bucket)?;
                bucket.$($field).+ = $value;
                Ok(S3Answer::Done)
            }};
        }
        match action {
            A::PutBucketVersioning(call) => set!(call, info.versioning = Some(call.status)),
            A::PutBucketAcl(call) => set!(call, info.acl = call.acl),
            A::PutBucketPolicy(call) => set!(call, info.policy = Some(call.policy)),
            A::DeleteBucketPolicy(call) => set!(call, info.policy = None),
            A::PutBucketCors(call) => set!(call, info.cors_rules = Some(call.cors_rules)),
            A::DeleteBucketCors(call) => set!(call, info.cors_rules = None),
            A::PutBucketLifecycleConfiguration(call) => set!(call, lifecycle = Some(call.rules)),
            A::DeleteBucketLifecycle(call) => set!(call, lifecycle = None),
            A::GetBucketLifecycleConfiguration(call) => {
                let rules = self.bucket(&call.bucket)?.lifecycle.clone();
                Ok(BucketLifecycle { rules: rules.ok_or_else(or(S3ErrorCode::NoSuchLifecycleConfiguration))? }.into())
            }
            A::PutBucketTagging(call) => set!(call, tags = Some(call.tags)),
            A::DeleteBucketTagging(call) => set!(call, tags = None),
            A::GetBucketTagging(call) => {
                let tags = self.bucket(&call.bucket)?.tags.clone();
                Ok(Tagging { tags: tags.ok_or_else(or(S3ErrorCode::NoSuchTagSet))? }.into())
            }
            A::PutBucketOwnershipControls(call) => set!(call, info.object_ownership = Some(call.object_ownership)),
            A::DeleteBucketOwnershipControls(call) => set!(call, info.object_ownership = None),
            A::PutPublicAccessBlock(call) => {
                set!(call, info.public_access_block = Some(call.public_access_block))
            }
            A::DeletePublicAccessBlock(call) => set!(call, info.public_access_block = None),
            A::PutObjectLockConfiguration(call) => set!(call, info.object_lock = Some(call.object_lock)),
            A::PutBucketEncryption(_) => Err(S3ErrorCode::NotImplemented.into()),
            A::DeleteBucketEncryption(call) => set!(call, info.encryption = None),
            A::PutBucketQuota(call) => set!(call, info.quota = Some(call.quota)),
            A::DeleteBucketQuota(call) => set!(call, info.quota = None),
            A::PutBucketWebsite(call) => set!(call, info.website = Some(call.website)),
            A::DeleteBucketWebsite(call) => set!(call, info.website = None),
            A::PutBucketLogging(call) => set!(call, info.logging = call.logging),
            other => Err(S3ErrorCode::NotImplemented.because(format!("{} is not asked by the gateway", other.name()))),
        }
    }
}
