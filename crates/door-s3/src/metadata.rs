//! What the gateway needs of a metadata service: typed S3 calls in, answers out.

use base_types::access::Caller;
use base_types::s3::{S3Action, S3Answer, S3ErrorCode};
use base_types::Refusal;

/// For whom a call is made, and on whose bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnBehalf<'a> {
    /// A user of the directory with the epoch at which the gateway decided: the owner of the data looks whether that still holds.
    /// The node, where a key of an S3 account signed (the directory knows nothing of it) or nobody did.
    pub caller: Caller,
    /// The bucket must be this account's.
    pub owner: Option<&'a str>,
}

impl OnBehalf<'_> {
    /// The gateway's own question.
    pub const NODE: OnBehalf<'static> = OnBehalf { caller: Caller::Node, owner: None };
}

/// Carries out the S3 calls that touch metadata: the node, or a model of it in tests.
#[async_trait::async_trait]
pub trait MetadataService: Send + Sync + 'static {
    /// Carries one out. A refusal has an S3 code, or one of the world's own (no leader, deadline). A call on a bucket that
    /// has become another account's than the owner's, where one is named, touches nothing: `AccessDenied`.
    async fn call(&self, action: S3Action, behalf: OnBehalf<'_>) -> Result<S3Answer, Refusal>;
}

/// Carries one out and takes the answer of the kind that it must have.
pub async fn ask<T>(service: &dyn MetadataService, action: impl Into<S3Action>) -> Result<T, Refusal>
where
    T: TryFrom<S3Answer>,
{
    ask_as(service, OnBehalf::NODE, action).await
}

/// As [`ask`], on behalf of a caller.
pub async fn ask_as<T>(
    service: &dyn MetadataService,
    behalf: OnBehalf<'_>,
    action: impl Into<S3Action>,
) -> Result<T, Refusal>
where
    T: TryFrom<S3Answer>,
{
    let action = action.into();
    let name = action.name();
    let answer = service.call(action, behalf).await?;
    let wrong = || S3ErrorCode::InternalError.because(format!("{name} was answered with another call's answer"));
    T::try_from(answer).map_err(|_| wrong())
}

/// As [`ask`] of a call that only says that it was done.
pub async fn tell(service: &dyn MetadataService, action: impl Into<S3Action>) -> Result<(), Refusal> {
    service.call(action.into(), OnBehalf::NODE).await.map(|_| ())
}
