//! The table of the calls that are carried out; every other one of the S3 API answers `NotImplemented`.

use super::Gateway;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, S3};

macro_rules! calls {
    ($($name:ident $on:ident $input:ident $output:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                self.$on(request).await
            })*
        }

        /// The S3 names of the calls that are carried out; docs/guides/s3.md is held to it.
        pub const CALLS: &[&str] = &[$(stringify!($name),)*];
    };
}

calls! {
    abort_multipart_upload on_abort_multipart_upload AbortMultipartUploadInput AbortMultipartUploadOutput;
    complete_multipart_upload on_complete_multipart_upload CompleteMultipartUploadInput CompleteMultipartUploadOutput;
    copy_object on_copy_object CopyObjectInput CopyObjectOutput;
    create_bucket on_create_bucket CreateBucketInput CreateBucketOutput;
    create_multipart_upload on_create_multipart_upload CreateMultipartUploadInput CreateMultipartUploadOutput;
    delete_bucket on_delete_bucket DeleteBucketInput DeleteBucketOutput;
    delete_bucket_cors on_delete_bucket_cors DeleteBucketCorsInput DeleteBucketCorsOutput;
    delete_bucket_encryption on_delete_bucket_encryption DeleteBucketEncryptionInput DeleteBucketEncryptionOutput;
    delete_bucket_lifecycle on_delete_bucket_lifecycle DeleteBucketLifecycleInput DeleteBucketLifecycleOutput;
    delete_bucket_ownership_controls on_delete_bucket_ownership_controls DeleteBucketOwnershipControlsInput DeleteBucketOwnershipControlsOutput;
    delete_bucket_policy on_delete_bucket_policy DeleteBucketPolicyInput DeleteBucketPolicyOutput;
    delete_bucket_replication on_delete_bucket_replication DeleteBucketReplicationInput DeleteBucketReplicationOutput;
    delete_bucket_tagging on_delete_bucket_tagging DeleteBucketTaggingInput DeleteBucketTaggingOutput;
    delete_bucket_website on_delete_bucket_website DeleteBucketWebsiteInput DeleteBucketWebsiteOutput;
    delete_object on_delete_object DeleteObjectInput DeleteObjectOutput;
    delete_object_tagging on_delete_object_tagging DeleteObjectTaggingInput DeleteObjectTaggingOutput;
    delete_objects on_delete_objects DeleteObjectsInput DeleteObjectsOutput;
    delete_public_access_block on_delete_public_access_block DeletePublicAccessBlockInput DeletePublicAccessBlockOutput;
    get_bucket_accelerate_configuration on_get_bucket_accelerate_configuration GetBucketAccelerateConfigurationInput GetBucketAccelerateConfigurationOutput;
    get_bucket_acl on_get_bucket_acl GetBucketAclInput GetBucketAclOutput;
    get_bucket_analytics_configuration on_get_bucket_analytics_configuration GetBucketAnalyticsConfigurationInput GetBucketAnalyticsConfigurationOutput;
    get_bucket_cors on_get_bucket_cors GetBucketCorsInput GetBucketCorsOutput;
    get_bucket_encryption on_get_bucket_encryption GetBucketEncryptionInput GetBucketEncryptionOutput;
    get_bucket_intelligent_tiering_configuration on_get_bucket_intelligent_tiering_configuration GetBucketIntelligentTieringConfigurationInput GetBucketIntelligentTieringConfigurationOutput;
    get_bucket_inventory_configuration on_get_bucket_inventory_configuration GetBucketInventoryConfigurationInput GetBucketInventoryConfigurationOutput;
    get_bucket_lifecycle_configuration on_get_bucket_lifecycle_configuration GetBucketLifecycleConfigurationInput GetBucketLifecycleConfigurationOutput;
    get_bucket_location on_get_bucket_location GetBucketLocationInput GetBucketLocationOutput;
    get_bucket_logging on_get_bucket_logging GetBucketLoggingInput GetBucketLoggingOutput;
    get_bucket_metrics_configuration on_get_bucket_metrics_configuration GetBucketMetricsConfigurationInput GetBucketMetricsConfigurationOutput;
    get_bucket_notification_configuration on_get_bucket_notification_configuration GetBucketNotificationConfigurationInput GetBucketNotificationConfigurationOutput;
    get_bucket_ownership_controls on_get_bucket_ownership_controls GetBucketOwnershipControlsInput GetBucketOwnershipControlsOutput;
    get_bucket_policy on_get_bucket_policy GetBucketPolicyInput GetBucketPolicyOutput;
    get_bucket_policy_status on_get_bucket_policy_status GetBucketPolicyStatusInput GetBucketPolicyStatusOutput;
    get_bucket_replication on_get_bucket_replication GetBucketReplicationInput GetBucketReplicationOutput;
    get_bucket_request_payment on_get_bucket_request_payment GetBucketRequestPaymentInput GetBucketRequestPaymentOutput;
    get_bucket_tagging on_get_bucket_tagging GetBucketTaggingInput GetBucketTaggingOutput;
    get_bucket_versioning on_get_bucket_versioning GetBucketVersioningInput GetBucketVersioningOutput;
    get_bucket_website on_get_bucket_website GetBucketWebsiteInput GetBucketWebsiteOutput;
    get_object on_get_object GetObjectInput GetObjectOutput;
    get_object_acl on_get_object_acl GetObjectAclInput GetObjectAclOutput;
    get_object_attributes on_get_object_attributes GetObjectAttributesInput GetObjectAttributesOutput;
    get_object_legal_hold on_get_object_legal_hold GetObjectLegalHoldInput GetObjectLegalHoldOutput;
    get_object_lock_configuration on_get_object_lock_configuration GetObjectLockConfigurationInput GetObjectLockConfigurationOutput;
    get_object_retention on_get_object_retention GetObjectRetentionInput GetObjectRetentionOutput;
    get_object_tagging on_get_object_tagging GetObjectTaggingInput GetObjectTaggingOutput;
    get_public_access_block on_get_public_access_block GetPublicAccessBlockInput GetPublicAccessBlockOutput;
    head_bucket on_head_bucket HeadBucketInput HeadBucketOutput;
    head_object on_head_object HeadObjectInput HeadObjectOutput;
    list_bucket_analytics_configurations on_list_bucket_analytics_configurations ListBucketAnalyticsConfigurationsInput ListBucketAnalyticsConfigurationsOutput;
    list_bucket_intelligent_tiering_configurations on_list_bucket_intelligent_tiering_configurations ListBucketIntelligentTieringConfigurationsInput ListBucketIntelligentTieringConfigurationsOutput;
    list_bucket_inventory_configurations on_list_bucket_inventory_configurations ListBucketInventoryConfigurationsInput ListBucketInventoryConfigurationsOutput;
    list_bucket_metrics_configurations on_list_bucket_metrics_configurations ListBucketMetricsConfigurationsInput ListBucketMetricsConfigurationsOutput;
    list_buckets on_list_buckets ListBucketsInput ListBucketsOutput;
    list_multipart_uploads on_list_multipart_uploads ListMultipartUploadsInput ListMultipartUploadsOutput;
    list_object_versions on_list_object_versions ListObjectVersionsInput ListObjectVersionsOutput;
    list_objects on_list_objects ListObjectsInput ListObjectsOutput;
    list_objects_v2 on_list_objects_v2 ListObjectsV2Input ListObjectsV2Output;
    list_parts on_list_parts ListPartsInput ListPartsOutput;
    put_bucket_acl on_put_bucket_acl PutBucketAclInput PutBucketAclOutput;
    put_bucket_cors on_put_bucket_cors PutBucketCorsInput PutBucketCorsOutput;
    put_bucket_encryption on_put_bucket_encryption PutBucketEncryptionInput PutBucketEncryptionOutput;
    put_bucket_lifecycle_configuration on_put_bucket_lifecycle_configuration PutBucketLifecycleConfigurationInput PutBucketLifecycleConfigurationOutput;
    put_bucket_ownership_controls on_put_bucket_ownership_controls PutBucketOwnershipControlsInput PutBucketOwnershipControlsOutput;
    put_bucket_policy on_put_bucket_policy PutBucketPolicyInput PutBucketPolicyOutput;
    put_bucket_tagging on_put_bucket_tagging PutBucketTaggingInput PutBucketTaggingOutput;
    put_bucket_logging on_put_bucket_logging PutBucketLoggingInput PutBucketLoggingOutput;
    put_bucket_versioning on_put_bucket_versioning PutBucketVersioningInput PutBucketVersioningOutput;
    put_bucket_website on_put_bucket_website PutBucketWebsiteInput PutBucketWebsiteOutput;
    put_object on_put_object PutObjectInput PutObjectOutput;
    put_object_acl on_put_object_acl PutObjectAclInput PutObjectAclOutput;
    put_object_legal_hold on_put_object_legal_hold PutObjectLegalHoldInput PutObjectLegalHoldOutput;
    put_object_lock_configuration on_put_object_lock_configuration PutObjectLockConfigurationInput PutObjectLockConfigurationOutput;
    put_object_retention on_put_object_retention PutObjectRetentionInput PutObjectRetentionOutput;
    put_object_tagging on_put_object_tagging PutObjectTaggingInput PutObjectTaggingOutput;
    put_public_access_block on_put_public_access_block PutPublicAccessBlockInput PutPublicAccessBlockOutput;
    restore_object on_restore_object RestoreObjectInput RestoreObjectOutput;
    upload_part on_upload_part UploadPartInput UploadPartOutput;
    upload_part_copy on_upload_part_copy UploadPartCopyInput UploadPartCopyOutput;
}
