//! A bucket's record: a value of the `metadata` backend of its own cluster, changed by compare-and-set.
//!
//! By design: the record is there from the moment the bucket is built until its cluster is dropped.
//! Not here: who may change it (door-s3), the entry of its account (buckets.rs).

use base_types::codec::Encode;
use base_types::s3::{BucketInfo, LifecycleRule, S3ErrorCode, Tag, Versioning};
use base_types::{BackendKind, ReadConsistency, Refusal, RequestId, WriteConsistency};
use bytes::Bytes;
use core_backends::metadata::{Command, Query};
use core_backends::shard;
use core_flow::Call;
use serde::{Deserialize, Serialize};

/// The record's key in the bucket cluster.
const RECORD_KEY: &[u8] = b"record";

/// Whether a bucket takes calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum BucketState {
    #[default]
    Active,
    /// It was found empty and is going; to clients it is not there any more.
    Deleting,
}

/// All that is kept of a bucket beside its objects.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BucketRecord {
    pub(crate) state: BucketState,
    pub(crate) info: BucketInfo,
    pub(crate) tags: Option<Vec<Tag>>,
    pub(crate) lifecycle: Option<Vec<LifecycleRule>>,
    /// What its clusters are made by.
    pub(crate) rule: String,
    /// Drawn when it was made: seals the tokens of its listings.
    pub(crate) token_secret: (u64, u64),
    /// A random number of the removal that made it `Deleting`, so that two removals do not take each other's for their
    /// own. Otherwise zero.
    #[serde(default)]
    pub(crate) closing: u64,
    /// Grows with every change, so that a change that comes late never finds the bytes it expects come back.
    #[serde(default)]
    pub(crate) revision: u64,
}

impl BucketRecord {
    /// The byte form: JSON, for it is read seldom and by people.
    pub(crate) fn to_body(&self) -> Result<Bytes, Refusal> {
        let text = serde_json::to_vec(self);
        let text = text.map_err(|error| S3ErrorCode::InternalError.because(format!("a bucket's record: {error}")))?;
        Ok(text.into())
    }

    /// From the byte form.
    pub(crate) fn from_body(body: &[u8]) -> Result<BucketRecord, Refusal> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!("the bucket's record cannot be read (written by a newer Hive?): {error}");
            S3ErrorCode::InternalError.because(message)
        })
    }

    /// How its shards keep versions.
    pub(crate) fn versioning(&self) -> shard::Versioning {
        match self.info.versioning {
            None => shard::Versioning::Unversioned,
            Some(Versioning::Enabled) => shard::Versioning::Enabled,
            Some(Versioning::Suspended) => shard::Versioning::Suspended,
        }
    }
}

/// Asks a bucket's cluster for its record.
pub(crate) fn read_record(id: u128) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: crate::clusters::bucket(id)?,
        backend: BackendKind::Metadata,
        query: Query::Get { scope: None, key: Bytes::from_static(RECORD_KEY) }.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// Writes a bucket's record over `before` (`None`: there is none yet); `ConditionFailed` where it is another.
pub(crate) fn write_record(
    id: u128,
    before: Option<Bytes>,
    after: &BucketRecord,
    request_id: Option<RequestId>,
) -> Result<Call, Refusal> {
    let key = Bytes::from_static(RECORD_KEY);
    let value = Some(after.to_body()?);
    let command = Command::CompareAndSet { scope: None, key, expected: before, value };
    Ok(Call::Write {
        cluster: crate::clusters::bucket(id)?,
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_rubbish_is_refused() {
        let record = BucketRecord { rule: "size=3 location=world".into(), token_secret: (1, 2), ..Default::default() };
        assert_eq!(BucketRecord::from_body(&record.to_body().unwrap()).unwrap(), record);
        assert_eq!(BucketRecord::from_body(b"{").unwrap_err().code.as_str(), "InternalError");
    }
}
