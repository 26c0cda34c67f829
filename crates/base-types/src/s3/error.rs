//! The S3 API's error codes: code → HTTP status → what the caller should do.
//!
//! Always: a code is spelled as in the S3 API reference; a [`Refusal`] made of one carries that spelling, so
//! every door finds the status again ([`ErrorCode::s3`]).

use crate::{ErrorCode, ErrorKind, Refusal};
use alloc::string::String;

macro_rules! codes {
    ($($code:ident $status:literal $kind:ident $message:literal;)*) => {
        /// An error code of the S3 API.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)] // The S3 API reference explains each.
        pub enum S3ErrorCode { $($code,)* }

        impl S3ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [S3ErrorCode] = &[$(S3ErrorCode::$code,)*];

            /// Its spelling in answers.
            pub const fn name(self) -> &'static str {
                match self { $(S3ErrorCode::$code => stringify!($code),)* }
            }

            /// The HTTP status it travels with.
            pub const fn status(self) -> u16 {
                match self { $(S3ErrorCode::$code => $status,)* }
            }

            /// What the caller should do.
            pub const fn kind(self) -> ErrorKind {
                match self { $(S3ErrorCode::$code => ErrorKind::$kind,)* }
            }

            /// What S3 says where there is nothing more exact to say.
            pub const fn message(self) -> &'static str {
                match self { $(S3ErrorCode::$code => $message,)* }
            }
        }
    };
}

codes! {
    AccessControlListNotSupported 400 Invalid "The bucket does not allow ACLs";
    AccessDenied 403 Invalid "Access Denied";
    AccountProblem 403 Invalid "There is a problem with your account that prevents the operation";
    AuthorizationHeaderMalformed 400 Invalid "The authorization header is malformed";
    AuthorizationQueryParametersError 400 Invalid "The authorization query parameters are malformed";
    BadDigest 400 Invalid "The Content-MD5 or checksum value you specified did not match what we received";
    BucketAlreadyExists 409 Conflict "The requested bucket name is not available; select a different name";
    BucketAlreadyOwnedByYou 409 Conflict "The bucket that you tried to create already exists, and you own it";
    BucketNotEmpty 409 Conflict "The bucket you tried to delete is not empty";
    ConditionalRequestConflict 409 Conflict "A conflicting operation occurred during the request; retry it";
    EntityTooLarge 400 TooLarge "Your proposed upload exceeds the maximum allowed object size";
    EntityTooSmall 400 Invalid "Your proposed upload is smaller than the minimum allowed size";
    ExpiredToken 400 Invalid "The provided token has expired";
    IllegalLocationConstraintException 400 Invalid "The location constraint is incompatible with the region asked";
    IncompleteBody 400 Invalid "You did not provide the number of bytes specified by the Content-Length header";
    InternalError 500 Internal "An internal error occurred; try again";
    InvalidAccessKeyId 403 Invalid "The access key id you provided does not exist in our records";
    InvalidArgument 400 Invalid "Invalid Argument";
    InvalidBucketName 400 Invalid "The specified bucket is not valid";
    InvalidBucketState 409 Conflict "The request is not valid with the current state of the bucket";
    InvalidDigest 400 Invalid "The Content-MD5 or checksum value that you specified is not valid";
    InvalidEncryptionAlgorithmError 400 Invalid "The encryption request that you specified is not valid";
    InvalidLocationConstraint 400 Invalid "The specified location constraint is not valid";
    InvalidObjectState 403 Invalid "The operation is not valid for the current state of the object";
    InvalidPart 400 Invalid "One or more of the specified parts could not be found or did not match";
    InvalidPartOrder 400 Invalid "The list of parts was not in ascending order";
    InvalidPolicyDocument 400 Invalid "The content of the form does not meet the conditions of the policy document";
    InvalidRange 416 Invalid "The requested range is not satisfiable";
    InvalidRequest 400 Invalid "The request is not valid";
    InvalidStorageClass 400 Invalid "The storage class you specified is not valid";
    InvalidTag 400 Invalid "The tag provided was not a valid tag";
    InvalidToken 400 Invalid "The provided token is malformed or otherwise not valid";
    InvalidURI 400 Invalid "The specified URI could not be parsed";
    KeyTooLongError 400 Invalid "Your key is too long";
    MalformedACLError 400 Invalid "The ACL that you provided was not well formed";
    MalformedPOSTRequest 400 Invalid "The body of your POST request is not well-formed multipart/form-data";
    MalformedPolicy 400 Invalid "The policy is not in the valid JSON format";
    MalformedXML 400 Invalid "The XML that you provided was not well formed or did not validate";
    MaxMessageLengthExceeded 400 TooLarge "Your request was too big";
    MaxPostPreDataLengthExceededError 400 TooLarge "Your POST request fields preceding the upload file were too large";
    MetadataTooLarge 400 Invalid "Your metadata headers exceed the maximum allowed metadata size";
    MethodNotAllowed 405 Invalid "The specified method is not allowed against this resource";
    MissingContentLength 411 Invalid "You must provide the Content-Length HTTP header";
    MissingSecurityHeader 400 Invalid "Your request is missing a required header";
    NoSuchAccessKey 404 NotFound "The access key does not exist";
    NoSuchAccount 404 NotFound "The account does not exist";
    NoSuchBucket 404 NotFound "The specified bucket does not exist";
    NoSuchBucketPolicy 404 NotFound "The bucket policy does not exist";
    NoSuchBucketQuota 404 NotFound "The bucket has no quota";
    NoSuchCORSConfiguration 404 NotFound "The CORS configuration does not exist";
    NoSuchConfiguration 404 NotFound "The specified configuration does not exist";
    NoSuchKey 404 NotFound "The specified key does not exist";
    NoSuchLifecycleConfiguration 404 NotFound "The lifecycle configuration does not exist";
    NoSuchObjectLockConfiguration 404 NotFound "The specified object does not have an object lock configuration";
    NoSuchPublicAccessBlockConfiguration 404 NotFound "The public access block configuration was not found";
    NoSuchTagSet 404 NotFound "The TagSet does not exist";
    NoSuchUpload 404 NotFound "The specified multipart upload does not exist; it might have been aborted or completed";
    NoSuchVersion 404 NotFound "The version id specified in the request does not match an existing version";
    InvalidTargetBucketForLogging 400 Invalid "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants for the log-delivery group";
    NoSuchWebsiteConfiguration 404 NotFound "The specified bucket does not have a website configuration";
    NotImplemented 501 Invalid "A header or query you provided implies functionality that is not implemented";
    NotModified 304 Precondition "Not Modified";
    ObjectLockConfigurationNotFoundError 404 NotFound "Object Lock configuration does not exist for this bucket";
    OperationAborted 409 Conflict "A conflicting conditional operation is in progress against this resource; try again";
    OwnershipControlsNotFoundError 404 NotFound "The bucket ownership controls were not found";
    PreconditionFailed 412 Precondition "At least one of the preconditions you specified did not hold";
    QuotaExceeded 403 Full "The bucket's quota would be exceeded";
    ReplicationConfigurationNotFoundError 404 NotFound "There is no replication configuration for this bucket";
    RequestTimeTooSkewed 403 Invalid "The difference between the request time and the server's time is too large";
    RequestTimeout 400 Unavailable "Your socket connection to the server was not read from or written to in time";
    ServerSideEncryptionConfigurationNotFoundError 404 NotFound "The encryption configuration was not found";
    ServiceUnavailable 503 Unavailable "Service is unable to handle the request";
    SignatureDoesNotMatch 403 Invalid "The request signature that the server calculated does not match";
    SnapshotExpired 409 Conflict "The snapshot that this listing reads has ended; begin the listing again";
    SnapshotTooLarge 413 TooLarge "The bucket has more shards than one snapshot can pin";
    SlowDown 503 Overloaded "Reduce your request rate";
    TooManyBuckets 400 Invalid "You have attempted to create more buckets than are allowed";
    UnexpectedContent 400 Invalid "This request contains unsupported content";
    UnresolvableGrantByEmailAddress 400 Invalid "The email address you provided does not match any account on record";
    XAmzContentSHA256Mismatch 400 Invalid "The provided x-amz-content-sha256 header does not match what was computed";
}

impl S3ErrorCode {
    /// The code with this spelling.
    pub fn from_name(name: &str) -> Option<S3ErrorCode> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// Whether the same request may succeed later without being changed.
    pub fn retryable(self) -> bool {
        self.kind().retryable() || matches!(self, Self::InternalError | Self::OperationAborted)
    }

    /// A refusal with this code and more to say than its own words.
    pub fn because(self, message: impl Into<String>) -> Refusal {
        Refusal::new(ErrorCode::from(self), message)
    }
}

impl From<S3ErrorCode> for Refusal {
    fn from(code: S3ErrorCode) -> Refusal {
        code.because(code.message())
    }
}
