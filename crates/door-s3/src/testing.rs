//! A metadata service in memory: one process, nothing kept, the semantics of the S3 API. A model to test
//! the gateway by until the node carries the calls out, and to compare the node with afterwards.
//!
//! By design: every call is atomic (one lock). Not here: lifecycle flows, snapshots of listings, what a
//! world of nodes can refuse.

mod buckets;
mod list;
mod objects;
mod uploads;

use crate::metadata::{MetadataService, OnBehalf};
use base_types::s3::*;
use base_types::Refusal;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

type Answered = Result<S3Answer, Refusal>;

/// The service.
#[derive(Default)]
pub struct MemoryMetadata {
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    region: String,
    now_ms: u64,
    /// Set by tests that move the clock; else the system's.
    fixed_now_ms: Option<u64>,
    sequence: u64,
    accounts: BTreeMap<String, Owner>,
    keys: BTreeMap<String, AccessKey>,
    buckets: BTreeMap<String, Bucket>,
    freed: VecDeque<String>,
}

#[derive(Default)]
struct Bucket {
    info: BucketInfo,
    tags: Option<Vec<Tag>>,
    lifecycle: Option<Vec<LifecycleRule>>,
    /// Newest first; a key without versions is not there.
    objects: BTreeMap<String, Vec<Stored>>,
    uploads: BTreeMap<(String, String), Upload>,
    /// Uploads that became objects: completing them again is answered the same.
    completed: BTreeMap<String, PutObjectAnswer>,
}

/// A version; its id is `null` where the bucket kept none when it was put.
#[derive(Clone)]
struct Stored {
    id: String,
    version: ObjectVersion,
}

struct Upload {
    entry: UploadEntry,
    begun: CreateMultipartUpload,
    parts: BTreeMap<u32, (PartData, u64)>,
}

impl MemoryMetadata {
    /// A service in one region.
    pub fn new(region: &str) -> MemoryMetadata {
        let state = State { region: region.to_owned(), ..State::default() };
        MemoryMetadata { state: Mutex::new(state) }
    }

    /// Makes an account with a key.
    pub fn add_account(&self, account: &str, access_key: &str, secret_key: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = Owner { id: account.to_owned(), display_name: account.to_owned() };
        state.accounts.insert(account.to_owned(), owner);
        let key = AccessKey {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            account: account.to_owned(),
            display_name: account.to_owned(),
            sealed: None,
        };
        state.keys.insert(access_key.to_owned(), key);
    }

    /// From now on the clock stands here.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fixed_now_ms = Some(now_ms);
    }
}

#[async_trait::async_trait]
impl MetadataService for MemoryMetadata {
    async fn call(&self, action: S3Action, behalf: OnBehalf<'_>) -> Answered {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = behalf.owner {
            state.expect_owner(&action, owner)?;
        }
        state.now_ms = state.fixed_now_ms.unwrap_or_else(crate::gateway::now_ms);
        state.call(action)
    }
}

impl State {
    /// The bucket that a call names, in its own words, must be of this account.
    fn expect_owner(&mut self, action: &S3Action, owner: &str) -> Result<(), Refusal> {
        let fields = action.write(serde_json::value::Serializer).unwrap_or_default();
        let name = fields.get("bucket").and_then(|name| name.as_str()).unwrap_or_default();
        match self.buckets.get(name) {
            Some(bucket) if bucket.info.owner.id != owner => Err(S3ErrorCode::AccessDenied.into()),
            _ => Ok(()),
        }
    }

    fn call(&mut self, action: S3Action) -> Answered {
        use S3Action as A;
        match action {
            A::PutObject(call) => self.put_object(*call),
            A::GetObject(call) => {
                self.get_object(&call.bucket, &call.key, call.version_id.as_deref(), &call.conditions, true)
            }
            A::HeadObject(call) => {
                self.get_object(&call.bucket, &call.key, call.version_id.as_deref(), &call.conditions, false)
            }
            A::GetObjectAttributes(call) => {
                self.get_object(&call.bucket, &call.key, call.version_id.as_deref(), &ReadConditions::default(), false)
            }
            A::DeleteObject(call) => self.delete_object(*call).map(Into::into),
            A::DeleteObjects(call) => self.delete_objects(*call),
            A::CopyObject(_) | A::UploadPartCopy(_) => {
                Err(S3ErrorCode::NotImplemented.because("the gateway copies bytes itself"))
            }
            A::CreateMultipartUpload(call) => self.create_upload(*call),
            A::UploadPart(call) => self.upload_part(*call),
            A::CompleteMultipartUpload(call) => self.complete_upload(*call),
            A::AbortMultipartUpload(call) => self.abort_upload(*call),
            A::ListParts(call) => self.list_parts(*call),
            A::ListMultipartUploads(call) => self.list_uploads(*call),
            A::ListObjects(call) => self.list_objects(*call),
            A::ListObjectsV2(call) => self.list_objects_v2(*call),
            A::ListObjectVersions(call) => self.list_versions(*call),
            A::CountObjects(call) => self.count(&call.bucket, &call.prefix),
            A::CutPoints(call) => self.cut(&call.bucket, call.parts),
            A::LookupData(call) => self.lookup_data(*call),
            A::ListFreedData(call) => {
                let locations = self.freed.iter().take(call.max as usize).cloned().collect();
                Ok(Locations { locations }.into())
            }
            A::ForgetFreedData(call) => {
                self.freed.retain(|location| !call.locations.contains(location));
                Ok(S3Answer::Done)
            }
            other => self.call_on_version_or_bucket(other),
        }
    }

    fn bucket(&mut self, name: &str) -> Result<&mut Bucket, Refusal> {
        self.buckets.get_mut(name).ok_or_else(|| S3ErrorCode::NoSuchBucket.into())
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn free(&mut self, data: Option<&Data>) {
        if let Some(data) = data {
            self.freed.extend(data.locations().into_iter().map(str::to_owned));
        }
    }

    fn lookup_data(&mut self, call: LookupData) -> Answered {
        let bucket = self.bucket(&call.bucket)?;
        let mut named: Vec<String> = Vec::new();
        let versions = bucket.objects.get(&call.key).into_iter().flatten();
        named.extend(
            versions
                .filter_map(|stored| stored.version.data.as_ref())
                .flat_map(|data| data.locations().into_iter().map(str::to_owned).collect::<Vec<_>>()),
        );
        let uploads = bucket.uploads.iter().filter(|((key, _), _)| *key == call.key);
        let parts = uploads.flat_map(|(_, upload)| upload.parts.values());
        named.extend(
            parts.flat_map(|(part, _)| part.data.locations().into_iter().map(str::to_owned).collect::<Vec<_>>()),
        );
        let locations = call.locations.into_iter().filter(|location| named.contains(location)).collect();
        Ok(Locations { locations }.into())
    }
}
