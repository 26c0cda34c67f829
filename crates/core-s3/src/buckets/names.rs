//! The world-wide cluster of bucket names, told and asked. Not here: what the steps are (core-backends,
//! bucket_names).

use crate::clusters;
use crate::request::reply;
use base_types::action::{Failure, RedisReply};
use base_types::codec::Encode;
use base_types::s3::S3ErrorCode;
use base_types::{BackendKind, ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use core_backends::bucket_names::{self, Name};
use core_backends::redis;
use core_flow::{Call, CallResult};

/// Makes the cluster; `ClusterExists` is as good.
pub(crate) fn make(rule: &str) -> Result<Call, Refusal> {
    Ok(Call::CreateCluster { cluster: clusters::bucket_names()?, rule: rule.to_string() })
}

/// Asks for a name.
pub(crate) fn ask(bucket: &str) -> Result<Call, Refusal> {
    ask_at(bucket, ReadConsistency::Strong)
}

/// Asks whichever member has it: an answer while the cluster has no majority, and maybe a late one.
pub(crate) fn ask_nearby(bucket: &str) -> Result<Call, Refusal> {
    ask_at(bucket, ReadConsistency::Eventual)
}

fn ask_at(bucket: &str, consistency: ReadConsistency) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::bucket_names()?,
        backend: BackendKind::Redis,
        query: bucket_names::look_up(bucket).to_bytes(),
        consistency: Some(consistency),
    })
}

/// Takes one of the steps on a name.
pub(crate) fn tell(command: &redis::Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::bucket_names()?,
        backend: BackendKind::Redis,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// What a name's key says; `None`: there is no cluster of names yet.
pub(crate) fn told(bucket: &str, result: CallResult) -> Result<Option<Name>, Failure> {
    let found = match reply::<RedisReply>(result) {
        Ok((found, _)) => found,
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let value = match &found {
        RedisReply::Bulk(value) => Some(&value[..]),
        RedisReply::Nil => None,
        _ => return Err(S3ErrorCode::InternalError.because("a bucket's name was answered otherwise").into()),
    };
    Ok(Some(bucket_names::parse(bucket, value)?))
}
