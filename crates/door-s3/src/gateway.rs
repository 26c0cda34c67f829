//! The S3 API over a metadata service and a data store: each call is authorised, translated, asked, and
//! translated back.
//!
//!   s3s (HTTP, XML, signatures) ─▶ Gateway ─▶ access::decide ─▶ MetadataService
//!                                     └──────────────────────▶ DataStore (bytes over 64 KiB)
//!
//! Always: no call reaches the metadata service's objects before `authorize` let it through; bytes are
//! removed only after a refusal that says nothing was applied.
//! Not here: sockets (edge), what a call does (the metadata service).

mod absent;
mod api;
mod before;
mod buckets;
mod context;
mod copies;
mod expiry;
mod grantees;
mod listings;
mod multipart;
mod objects;
mod settings;
mod sites;
mod subresources;

pub use api::CALLS;
pub(crate) use before::BeforeBody;
use context::{context_of, Head};
use grantees::Grantees;

use crate::access::{acls_count, decide, decide_head, policy_of, Asked, Caller, Context, Denied, Policy};
use crate::auth::{Keys, KnownKeys};
use crate::convert::AskedAcl;
use crate::error::{because, code, to_s3};
use crate::metadata::{ask_as, MetadataService, OnBehalf};
use crate::store::{DataStore, Intent};
use crate::upload::Received;
use crate::upload::{receive, Promise};
use crate::{access::acl, noted, validate};
use base_types::s3::{
    Acl, BucketInfo, CorsRule, GetObject, HeadBucket, HeadObject, ListObjectVersions, ObjectHeaders, ObjectOwnership,
    ObjectVersion, Owner, PutObject, PutObjectAnswer, S3Action, S3Answer, S3ErrorCode, VersionPage, Website,
    PUT_BYTES_MAX,
};
use base_types::{Outcome, Refusal};
use s3s::{S3Error, S3Request, S3Result};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How long bytes may wait for their version: the longest upload of one part.
pub const INTENT_MS: u64 = 24 * 3600 * 1000;

/// Where a request came from; the host adds it to the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The client's address.
    pub address: IpAddr,
    /// Whether it came over TLS.
    pub secure: bool,
}

/// The gateway.
#[derive(Clone)]
pub struct Gateway {
    metadata: Arc<dyn MetadataService>,
    data: Arc<dyn DataStore>,
    keys: Keys,
    older_bucket_defaults: bool,
    rules: expiry::KnownRules,
}

/// Who asks, and what conditions of policies may test.
struct Who {
    caller: Caller,
    /// As what the core is asked: with the user's credential and the epoch that is decided by.
    asks_as: base_types::access::Caller,
    owner: Option<Owner>,
    context: Context,
    expected_bucket_owner: Option<String>,
    expected_source_owner: Option<String>,
    /// The policies that were read for this request, by their texts and buckets: two at most, those of a copy.
    policies: Mutex<Vec<ReadPolicy>>,
}

/// A policy's text and bucket, and what was read of it.
type ReadPolicy = (String, String, Arc<Result<Policy, Refusal>>);

/// A bucket as one caller sees it: what is asked of it is asked for that caller.
struct Bucket {
    info: BucketInfo,
    asks_as: base_types::access::Caller,
}

impl std::ops::Deref for Bucket {
    type Target = BucketInfo;

    fn deref(&self) -> &BucketInfo {
        &self.info
    }
}

impl Bucket {
    /// Of its owner's alone: the name may be another's by the time a body has come.
    fn behalf(&self) -> OnBehalf<'_> {
        OnBehalf { caller: self.asks_as.clone(), owner: Some(&self.info.owner.id) }
    }
}

/// A bucket, and whether a call on it is let through.
struct Opened {
    who: Who,
    bucket: Bucket,
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Gateway {
    /// Over these.
    pub fn new(metadata: Arc<dyn MetadataService>, data: Arc<dyn DataStore>) -> Gateway {
        let keys = Keys::new(metadata.clone());
        let rules = expiry::KnownRules::default();
        Gateway { metadata, data, keys, older_bucket_defaults: false, rules }
    }

    /// With the S3 keys of users.
    pub fn with_known_keys(self, users: Arc<dyn KnownKeys>) -> Gateway {
        Gateway { keys: self.keys.with_users(users), ..self }
    }

    /// New buckets are as AWS made them before April 2023: ACLs count, and nothing is blocked for being public.
    pub fn with_older_bucket_defaults(self, older_bucket_defaults: bool) -> Gateway {
        Gateway { older_bucket_defaults, ..self }
    }

    /// Keys of accounts count for so long without the world.
    pub fn with_stale_limit(self, stale_limit: std::time::Duration) -> Gateway {
        Gateway { keys: self.keys.with_stale_limit(stale_limit), ..self }
    }

    /// The secrets of access keys, for s3s.
    pub(crate) fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// A bucket's rules for browsers; none where there is no such bucket.
    pub(crate) async fn cors_rules(&self, bucket: &str) -> Vec<CorsRule> {
        let bucket = self.bucket_as(base_types::access::Caller::Node, bucket).await;
        bucket.ok().and_then(|bucket| bucket.info.cors_rules).unwrap_or_default()
    }

    /// How a bucket is served, for who visits it.
    pub(crate) async fn website(&self, bucket: &str) -> S3Result<Website> {
        let bucket = self.bucket_as(base_types::access::Caller::Node, bucket).await?;
        bucket.info.website.ok_or_else(|| code(S3ErrorCode::NoSuchWebsiteConfiguration))
    }

    async fn ask<T: TryFrom<S3Answer>>(&self, who: &Who, action: impl Into<S3Action>) -> S3Result<T> {
        ask_as(&*self.metadata, who.behalf(), action).await.map_err(to_s3)
    }

    async fn tell(&self, who: &Who, action: impl Into<S3Action>) -> S3Result<()> {
        self.metadata.call(action.into(), who.behalf()).await.map(|_| ()).map_err(to_s3)
    }

    /// As `ask`, of a bucket that a caller was let through to.
    async fn ask_of<T: TryFrom<S3Answer>>(&self, bucket: &Bucket, action: impl Into<S3Action>) -> S3Result<T> {
        ask_as(&*self.metadata, bucket.behalf(), action).await.map_err(to_s3)
    }

    /// As `tell`, likewise.
    async fn tell_of(&self, bucket: &Bucket, action: impl Into<S3Action>) -> S3Result<()> {
        self.metadata.call(action.into(), bucket.behalf()).await.map(|_| ()).map_err(to_s3)
    }

    /// Who sent a request.
    async fn who<T>(&self, request: &S3Request<T>) -> S3Result<Who> {
        let credentials = request.credentials.as_ref().map(|own| &*own.access_key);
        self.sender(Head::of(credentials, &request.headers, &request.uri, &request.extensions)).await
    }

    /// As `who`, of a request's head alone.
    async fn sender(&self, request: Head<'_>) -> S3Result<Who> {
        let node = base_types::access::Caller::Node;
        let (caller, asks_as, owner) = match request.access_key() {
            None => (Caller::Anonymous, node, None),
            Some(access_key) => {
                let signer = self.keys.signer(access_key).await?;
                let account = signer.owner.id.clone();
                let (caller, asks_as) = match signer.user {
                    Some(user) => {
                        let identity = Box::new(user.identity);
                        let caller = match user.session_policy {
                            None => Caller::User(account, identity),
                            Some(policy) => Caller::Bounded(account, identity, policy),
                        };
                        (caller, user.asks_as)
                    }
                    None => (Caller::Account(account), node),
                };
                (caller, asks_as, Some(signer.owner))
            }
        };
        noted::note_requester(caller.account());
        let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(Who {
            context: context_of(&request, &caller),
            policies: Mutex::default(),
            caller,
            asks_as,
            owner,
            expected_bucket_owner: header("x-amz-expected-bucket-owner"),
            expected_source_owner: header("x-amz-source-expected-bucket-owner"),
        })
    }

    async fn bucket(&self, who: &Who, name: &str) -> S3Result<Bucket> {
        self.bucket_as(who.asks_as.clone(), name).await
    }

    async fn bucket_as(&self, asks_as: base_types::access::Caller, name: &str) -> S3Result<Bucket> {
        validate::bucket_name(name).map_err(to_s3)?;
        let behalf = OnBehalf { caller: asks_as.clone(), owner: None };
        let info = ask_as(&*self.metadata, behalf, HeadBucket { bucket: name.to_owned() }).await.map_err(to_s3)?;
        noted::note_bucket(&info);
        Ok(Bucket { info, asks_as })
    }

    /// Opens a bucket for a call on the bucket itself.
    async fn open<T>(&self, request: &S3Request<T>, bucket: &str, action: &str) -> S3Result<Opened> {
        let who = self.who(request).await?;
        let bucket = self.bucket(&who, bucket).await?;
        who.expect_owner(&bucket)?;
        who.authorize(&bucket, action, None, None)?;
        Ok(Opened { who, bucket })
    }

    /// Opens a bucket for a call that writes below a key.
    async fn open_key<T>(&self, request: &S3Request<T>, bucket: &str, key: &str, action: &str) -> S3Result<Opened> {
        let who = self.who(request).await?;
        let bucket = self.bucket(&who, bucket).await?;
        who.expect_owner(&bucket)?;
        validate::key(key).map_err(to_s3)?;
        who.authorize(&bucket, action, Some(key), None)?;
        Ok(Opened { who, bucket })
    }

    /// Reads a version for a caller who may: `action` is of a current version, `versioned` of a named one.
    /// To callers who may not list the bucket, what is not there is `AccessDenied`.
    async fn version(&self, opened: &VersionCall<'_>) -> S3Result<ObjectVersion> {
        let VersionCall { who, bucket, key, version_id, action, versioned, with_data } = *opened;
        validate::key(key).map_err(to_s3)?;
        let (name, key_owned, version) = (bucket.bucket.clone(), key.to_owned(), version_id.map(str::to_owned));
        let read: Result<ObjectVersion, Refusal> = if with_data {
            let call = GetObject { bucket: name, key: key_owned, version_id: version, ..GetObject::default() };
            ask_as(&*self.metadata, bucket.behalf(), call).await
        } else {
            let call = HeadObject { bucket: name, key: key_owned, version_id: version, ..HeadObject::default() };
            ask_as(&*self.metadata, bucket.behalf(), call).await
        };
        let action = if version_id.is_some() { versioned } else { action };
        match read {
            Ok(found) => {
                let mut context = who.context.clone();
                for tag in &found.tags {
                    context.set(&format!("s3:existingobjecttag/{}", tag.key), tag.value.clone());
                }
                let acl = (!found.delete_marker).then_some(&found.acl);
                who.authorize_in(bucket, action, Some(key), acl, &context)?;
                Ok(found)
            }
            Err(refusal) => {
                let absent = matches!(refusal.code.s3(), Some(S3ErrorCode::NoSuchKey | S3ErrorCode::NoSuchVersion));
                if absent {
                    let object = who.authorize(bucket, action, Some(key), None);
                    let list = who.authorize(bucket, "s3:ListBucket", None, None);
                    list.or_else(|denied| if bucket_owner_reads(who, bucket) { object } else { Err(denied) })?;
                    if let Some(marker) = self.marker(opened).await {
                        return Err(with_headers(to_s3(refusal), &marker));
                    }
                }
                Err(to_s3(refusal))
            }
        }
    }

    /// The headers of the delete marker that hides a key, if one does.
    async fn marker(&self, opened: &VersionCall<'_>) -> Option<[(&'static str, String); 2]> {
        let VersionCall { bucket, key, version_id, .. } = *opened;
        bucket.versioning.filter(|_| version_id.is_none())?;
        let call = ListObjectVersions {
            bucket: bucket.bucket.clone(),
            prefix: key.to_owned(),
            max_keys: Some(1),
            ..ListObjectVersions::default()
        };
        let page: VersionPage = self.ask_of(bucket, call).await.ok()?;
        let newest = page.versions.into_iter().next().filter(|entry| entry.delete_marker && entry.key == key)?;
        Some([("x-amz-delete-marker", "true".to_owned()), ("x-amz-version-id", newest.version_id)])
    }

    fn grantees(&self) -> Grantees<'_> {
        Grantees(&*self.metadata)
    }

    /// The intent of bytes that are about to come.
    fn intent(&self, bucket: &str, key: &str) -> Intent {
        Intent { bucket: bucket.to_owned(), key: key.to_owned(), expires_ms: now_ms().saturating_add(INTENT_MS) }
    }

    /// Asks for what names received bytes, and then settles or removes them.
    async fn commit<T: TryFrom<S3Answer>>(
        &self,
        bucket: &Bucket,
        received: &Received,
        action: impl Into<S3Action>,
    ) -> S3Result<T> {
        let asked: Result<T, Refusal> = ask_as(&*self.metadata, bucket.behalf(), action).await;
        for location in received.data.locations() {
            // What fails here, the sweep does again.
            let _ = match &asked {
                Ok(_) => self.data.settle(location).await,
                Err(refusal) if refusal.outcome() == Outcome::NotApplied && !refusal.kind().retryable() => {
                    self.data.remove(location).await
                }
                Err(_) => Ok(()),
            };
        }
        asked.map_err(to_s3)
    }

    /// Puts an access log, if the bucket is still that owner's.
    pub(crate) async fn put_log(&self, bucket: &str, owner: &str, key: String, lines: bytes::Bytes) -> S3Result<()> {
        let bucket = self.bucket_as(base_types::access::Caller::Node, bucket).await?;
        if bucket.owner.id != owner {
            return Err(code(S3ErrorCode::AccessDenied));
        }
        let promise = Promise { length: Some(lines.len() as u64), ..Promise::default() };
        let body = futures::stream::iter([Ok::<_, std::io::Error>(lines)]);
        let received = receive(&self.data, body, promise, PUT_BYTES_MAX, self.intent(&bucket.bucket, &key)).await?;
        let call = PutObject {
            bucket: bucket.bucket.clone(),
            key,
            data: received.data.clone(),
            size: received.hashed.length,
            etag: received.hashed.etag(),
            checksums: received.hashed.checksums.clone(),
            headers: ObjectHeaders { content_type: Some("text/plain".to_owned()), ..ObjectHeaders::default() },
            acl: Some(acl::private(bucket.owner.clone())),
            data_expires_ms: received.expires_ms,
            ..PutObject::default()
        };
        self.commit::<PutObjectAnswer>(&bucket, &received, call).await.map(|_| ())
    }

    /// The ACL of a new object: who owns it, who else may touch it. Absent where ACLs do not count.
    fn new_object_acl(&self, opened: &Opened, asked: &AskedAcl) -> S3Result<Acl> {
        let bucket = &opened.bucket;
        let writer = opened.who.owner.clone().unwrap_or_else(|| bucket.owner.clone());
        if !acls_count(bucket) {
            let built = asked.build(bucket.owner.clone(), &bucket.owner.id)?;
            if asked.is_given() && !acl::is_owner_only(&built, &bucket.owner.id) {
                return Err(code(S3ErrorCode::AccessControlListNotSupported));
            }
            return Ok(acl::private(bucket.owner.clone()));
        }
        let hands_over = bucket.object_ownership == Some(ObjectOwnership::BucketOwnerPreferred)
            && asked.canned.as_deref() == Some("bucket-owner-full-control");
        let owner = if hands_over { bucket.owner.clone() } else { writer };
        let built = asked.build(owner, &bucket.owner.id)?;
        refuse_blocked_acl(bucket, &built)?;
        Ok(built)
    }
}

/// A read of a version.
#[derive(Clone, Copy)]
struct VersionCall<'a> {
    who: &'a Who,
    bucket: &'a Bucket,
    key: &'a str,
    version_id: Option<&'a str>,
    action: &'a str,
    versioned: &'a str,
    with_data: bool,
}

/// A refusal with headers of its own.
fn with_headers(mut error: S3Error, headers: &[(&'static str, String)]) -> S3Error {
    let mut map = hyper::HeaderMap::new();
    for (name, value) in headers {
        map.extend(
            hyper::header::HeaderValue::from_str(value)
                .map(|value| (hyper::header::HeaderName::from_static(name), value)),
        );
    }
    error.set_headers(map);
    error
}

/// An owner whose own policy denies listing still learns that a key is not there.
fn bucket_owner_reads(who: &Who, bucket: &BucketInfo) -> bool {
    who.caller.is(&bucket.owner.id)
}

/// A bucket that is closed to public ACLs takes none.
fn refuse_blocked_acl(bucket: &BucketInfo, acl: &Acl) -> S3Result<()> {
    let blocked = bucket.public_access_block.unwrap_or_default().block_public_acls;
    if blocked && acl::is_public(acl) {
        return Err(because(
            S3ErrorCode::AccessDenied,
            "the bucket's public access block refuses public ACLs; send another ACL, or change the block first",
        ));
    }
    Ok(())
}

impl Who {
    fn behalf(&self) -> OnBehalf<'static> {
        OnBehalf { caller: self.asks_as.clone(), owner: None }
    }

    fn authorize(&self, bucket: &BucketInfo, action: &str, key: Option<&str>, object: Option<&Acl>) -> S3Result<()> {
        self.authorize_in(bucket, action, key, object, &self.context)
    }

    /// Whether the caller may learn that the bucket is there.
    fn authorize_head(&self, bucket: &BucketInfo) -> S3Result<()> {
        self.decide_by(decide_head, bucket, "s3:ListBucket", None, None, &self.context)
    }

    fn authorize_in(
        &self,
        bucket: &BucketInfo,
        action: &str,
        key: Option<&str>,
        object: Option<&Acl>,
        context: &Context,
    ) -> S3Result<()> {
        self.decide_by(decide, bucket, action, key, object, context)
    }

    /// As `authorize`, with why not.
    fn judged(&self, bucket: &BucketInfo, action: &str, key: Option<&str>) -> Result<(), Denied> {
        self.judge_by(decide, bucket, action, key, None, &self.context)
    }

    fn decide_by(
        &self,
        decide: fn(&Asked<'_>) -> Result<(), Denied>,
        bucket: &BucketInfo,
        action: &str,
        key: Option<&str>,
        object: Option<&Acl>,
        context: &Context,
    ) -> S3Result<()> {
        let judged = self.judge_by(decide, bucket, action, key, object, context);
        judged.map_err(|_| code(S3ErrorCode::AccessDenied))
    }

    fn judge_by(
        &self,
        decide: fn(&Asked<'_>) -> Result<(), Denied>,
        bucket: &BucketInfo,
        action: &str,
        key: Option<&str>,
        object: Option<&Acl>,
        context: &Context,
    ) -> Result<(), Denied> {
        let policy = self.policy(bucket);
        let policy = policy.as_deref();
        let mut context = Cow::Borrowed(context);
        if policy.is_some() {
            for key in ["aws:ResourceAccount", "s3:ResourceAccount"] {
                context.to_mut().set(key, bucket.owner.id.as_str());
            }
        }
        let context = &*context;
        let asked = Asked { caller: &self.caller, action, bucket, policy, key, object_acl: object, context };
        decide(&asked)
    }

    /// A bucket's policy, read once a request: some calls decide for a thousand keys.
    fn policy(&self, bucket: &BucketInfo) -> Option<Arc<Result<Policy, Refusal>>> {
        let text = bucket.policy.as_ref()?;
        let mut known = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., found)) = known.iter().find(|(of, name, _)| of == text && *name == bucket.bucket) {
            return Some(found.clone());
        }
        let read = Arc::new(policy_of(bucket)?);
        known.truncate(1);
        known.push((text.clone(), bucket.bucket.clone(), read.clone()));
        Some(read)
    }

    fn expect_owner(&self, bucket: &BucketInfo) -> S3Result<()> {
        match &self.expected_bucket_owner {
            Some(expected) if *expected != bucket.owner.id => Err(code(S3ErrorCode::AccessDenied)),
            _ => Ok(()),
        }
    }
}
