//! What the gateway needs of a metadata service: typed S3 calls in, answers out.

use base_types::s3::{S3Action, S3Answer, S3ErrorCode};
use base_types::Refusal;

/// Carries out the S3 calls that touch metadata: the node, or a model of it in tests.
#[async_trait::async_trait]
pub trait MetadataService: Send + Sync + 'static {
    /// Carries one out. A refusal has an S3 code, or one of the world's own (no leader, deadline). A call on a bucket that
    /// has become another account's than `owner`'s, where one is named, touches nothing: `AccessDenied`.
    async fn call(&self, action: S3Action, owner: Option<&str>) -> Result<S3Answer, Refusal>;
}

/// Carries one out and takes the answer of the kind that it must have.
pub async fn ask<T>(service: &dyn MetadataService, action: impl Into<S3Action>) -> Result<T, Refusal>
where
    T: TryFrom<S3Answer>,
{
    ask_of(service, None, action).await
}

/// As [`ask`], on a bucket of this account alone.
pub async fn ask_of<T>(
    service: &dyn MetadataService,
    owner: Option<&str>,
    action: impl Into<S3Action>,
) -> Result<T, Refusal>
where
    T: TryFrom<S3Answer>,
{
    let action = action.into();
    let name = action.name();
    let answer = service.call(action, owner).await?;
    let wrong = || S3ErrorCode::InternalError.because(format!("{name} was answered with another call's answer"));
    T::try_from(answer).map_err(|_| wrong())
}

/// As [`ask`] of a call that only says that it was done.
pub async fn tell(service: &dyn MetadataService, action: impl Into<S3Action>) -> Result<(), Refusal> {
    service.call(action.into(), None).await.map(|_| ())
}
