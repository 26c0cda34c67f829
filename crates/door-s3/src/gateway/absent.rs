//! Settings of buckets that Hive does not have. Tools read them routinely, so reading says what S3 says of a bucket where nobody has set
//! them, and removing them says that they are gone.
//!
//! By design: nothing here claims that a setting counts; setting one is refused (`NotImplemented`, `api.rs`). The caller needs the right to
//! read the setting, as in S3.

use super::Gateway;
use crate::error::code;
use base_types::s3::S3ErrorCode;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// A call on a bucket whose answer is the same for every bucket.
macro_rules! answers {
    ($($on:ident $input:ident $output:ident $action:literal $answer:expr;)*) => {
        impl Gateway {
            $(pub(super) async fn $on(
                &self,
                request: S3Request<dto::$input>,
            ) -> S3Result<S3Response<dto::$output>> {
                self.open(&request, &request.input.bucket, $action).await?;
                let answer: S3Result<dto::$output> = $answer;
                answer.map(S3Response::new)
            })*
        }
    };
}

answers! {
    on_get_bucket_accelerate_configuration GetBucketAccelerateConfigurationInput GetBucketAccelerateConfigurationOutput
        "s3:GetAccelerateConfiguration" Ok(dto::GetBucketAccelerateConfigurationOutput::default());
    on_get_bucket_notification_configuration GetBucketNotificationConfigurationInput GetBucketNotificationConfigurationOutput
        "s3:GetBucketNotification" Ok(dto::GetBucketNotificationConfigurationOutput::default());
    on_get_bucket_request_payment GetBucketRequestPaymentInput GetBucketRequestPaymentOutput
        "s3:GetBucketRequestPayment" Ok(dto::GetBucketRequestPaymentOutput {
            payer: Some(dto::Payer::from_static(dto::Payer::BUCKET_OWNER)),
        });
    on_get_bucket_replication GetBucketReplicationInput GetBucketReplicationOutput
        "s3:GetReplicationConfiguration" Err(code(S3ErrorCode::ReplicationConfigurationNotFoundError));
    on_delete_bucket_replication DeleteBucketReplicationInput DeleteBucketReplicationOutput
        "s3:PutReplicationConfiguration" Ok(dto::DeleteBucketReplicationOutput::default());
    on_get_bucket_analytics_configuration GetBucketAnalyticsConfigurationInput GetBucketAnalyticsConfigurationOutput
        "s3:GetAnalyticsConfiguration" Err(code(S3ErrorCode::NoSuchConfiguration));
    on_list_bucket_analytics_configurations ListBucketAnalyticsConfigurationsInput ListBucketAnalyticsConfigurationsOutput
        "s3:GetAnalyticsConfiguration" Ok(dto::ListBucketAnalyticsConfigurationsOutput {
            is_truncated: Some(false),
            ..Default::default()
        });
    on_get_bucket_intelligent_tiering_configuration GetBucketIntelligentTieringConfigurationInput GetBucketIntelligentTieringConfigurationOutput
        "s3:GetIntelligentTieringConfiguration" Err(code(S3ErrorCode::NoSuchConfiguration));
    on_list_bucket_intelligent_tiering_configurations ListBucketIntelligentTieringConfigurationsInput ListBucketIntelligentTieringConfigurationsOutput
        "s3:GetIntelligentTieringConfiguration" Ok(dto::ListBucketIntelligentTieringConfigurationsOutput {
            is_truncated: Some(false),
            ..Default::default()
        });
    on_get_bucket_inventory_configuration GetBucketInventoryConfigurationInput GetBucketInventoryConfigurationOutput
        "s3:GetInventoryConfiguration" Err(code(S3ErrorCode::NoSuchConfiguration));
    on_list_bucket_inventory_configurations ListBucketInventoryConfigurationsInput ListBucketInventoryConfigurationsOutput
        "s3:GetInventoryConfiguration" Ok(dto::ListBucketInventoryConfigurationsOutput {
            is_truncated: Some(false),
            ..Default::default()
        });
    on_get_bucket_metrics_configuration GetBucketMetricsConfigurationInput GetBucketMetricsConfigurationOutput
        "s3:GetMetricsConfiguration" Err(code(S3ErrorCode::NoSuchConfiguration));
    on_list_bucket_metrics_configurations ListBucketMetricsConfigurationsInput ListBucketMetricsConfigurationsOutput
        "s3:GetMetricsConfiguration" Ok(dto::ListBucketMetricsConfigurationsOutput {
            is_truncated: Some(false),
            ..Default::default()
        });
}
