//! The node as the gateway's metadata service: a call becomes a request to one of this node's cores, on
//! the path the HTTP door's requests take.
//!
//! By design: every call has a deadline, so every call ends.
//! The secret of an account's key is opened here, on its way to the gateway; JSON answers show no sealed one.
//! Not here: bounds of what is under way (cores.rs), retries (the core routes until the deadline; S3 clients retry what the answer
//! calls temporary).

use crate::access::s3_keys::open_account_key;
use crate::access::AccessHub;
use crate::cores::{Busy, Cores};
use base_types::action::{Action, ActionResult, Request, Response};
use base_types::s3::{S3Action, S3Answer, S3ErrorCode};
use base_types::{ReadConsistency, Refusal, WriteConsistency};
use door_s3::metadata::OnBehalf;
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take: less than clients wait for an answer (boto3: 60 s), longer than an election.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// The node's cores as a metadata service.
pub struct NodeMetadata {
    cores: Arc<Cores>,
    access: Arc<AccessHub>,
}

impl NodeMetadata {
    /// Over these cores.
    pub fn new(cores: Arc<Cores>, access: Arc<AccessHub>) -> NodeMetadata {
        NodeMetadata { cores, access }
    }

    /// Asks a core for any action. A call on a bucket: of this owner's alone, where one is named.
    pub async fn ask(&self, action: Action, write: bool, behalf: OnBehalf<'_>) -> Response {
        let request = Request {
            action,
            consistency: write.then_some(WriteConsistency::Strong),
            read_consistency: (!write).then_some(ReadConsistency::Strong),
            deadline: DEADLINE,
            request_id: None,
            after: None,
            expected_bucket_owner: behalf.owner.map(str::to_owned),
            caller: behalf.caller,
        };
        match self.cores.ask(request, write).await {
            Ok(response) => response,
            Err(Busy) => Err(S3ErrorCode::SlowDown.because(Busy::message()).into()),
        }
    }
}

#[async_trait::async_trait]
impl door_s3::metadata::MetadataService for NodeMetadata {
    async fn call(&self, action: S3Action, behalf: OnBehalf<'_>) -> Result<S3Answer, Refusal> {
        let (name, write) = (action.name(), !action.read_only());
        match self.ask(Action::S3(action), write, behalf).await {
            Ok(answer) => match answer.result {
                ActionResult::S3(S3Answer::AccessKey(key)) => Ok(open_account_key(&self.access.sealing, *key)?.into()),
                ActionResult::S3(answer) => Ok(answer),
                ActionResult::Done => Ok(S3Answer::Done),
                _ => Err(S3ErrorCode::InternalError.because(format!("{name} was answered with another call's answer"))),
            },
            Err(failure) => Err(failure.refusal),
        }
    }
}
