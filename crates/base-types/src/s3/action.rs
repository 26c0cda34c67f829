//! Every call as one enum, every answer as another, and the table that joins them.

use super::*;
use alloc::boxed::Box;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! actions {
    ($($action:ident $access:ident;)*) => {
        /// A call of the S3 API that touches metadata. Boxed: requests are passed around by value.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // Each is explained at its struct.
        pub enum S3Action { $($action(Box<$action>),)* }

        impl S3Action {
            /// The names of all, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($action),)*];

            /// The call's name in the S3 API.
            pub fn name(&self) -> &'static str {
                match self { $(S3Action::$action(_) => stringify!($action),)* }
            }

            /// Whether it changes nothing.
            pub fn read_only(&self) -> bool {
                match self { $(S3Action::$action(_) => actions!(@read $access),)* }
            }

            /// Reads the call of this name from its fields; `None` where there is no such call.
            pub fn read<'de, D: Deserializer<'de>>(name: &str, fields: D) -> Option<Result<S3Action, D::Error>> {
                match name {
                    $(stringify!($action) => {
                        Some($action::deserialize(fields).map(|call| S3Action::$action(Box::new(call))))
                    })*
                    _ => None,
                }
            }

            /// Writes the call's fields.
            pub fn write<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                match self { $(S3Action::$action(call) => call.serialize(out),)* }
            }
        }

        $(impl From<$action> for S3Action {
            fn from(call: $action) -> S3Action {
                S3Action::$action(Box::new(call))
            }
        })*
    };
    (@read read) => { true };
    (@read write) => { false };
}

actions! {
    CreateAccount write;
    DeleteAccount write;
    ListAccounts read;
    CreateAccessKey write;
    GetAccessKey read;
    SealAccessKey write;
    DeleteAccessKey write;
    ListAccessKeys read;
    CreateBucket write;
    DeleteBucket write;
    HeadBucket read;
    ListBuckets read;
    GetBucketLocation read;
    GetBucketVersioning read;
    PutBucketVersioning write;
    GetBucketAcl read;
    PutBucketAcl write;
    GetBucketPolicy read;
    GetBucketPolicyStatus read;
    PutBucketPolicy write;
    DeleteBucketPolicy write;
    GetBucketCors read;
    PutBucketCors write;
    DeleteBucketCors write;
    GetBucketLifecycleConfiguration read;
    PutBucketLifecycleConfiguration write;
    DeleteBucketLifecycle write;
    GetBucketTagging read;
    PutBucketTagging write;
    DeleteBucketTagging write;
    GetBucketOwnershipControls read;
    PutBucketOwnershipControls write;
    DeleteBucketOwnershipControls write;
    GetPublicAccessBlock read;
    PutPublicAccessBlock write;
    DeletePublicAccessBlock write;
    GetObjectLockConfiguration read;
    PutObjectLockConfiguration write;
    GetBucketEncryption read;
    PutBucketEncryption write;
    DeleteBucketEncryption write;
    GetBucketQuota read;
    PutBucketQuota write;
    DeleteBucketQuota write;
    GetBucketWebsite read;
    PutBucketWebsite write;
    DeleteBucketWebsite write;
    GetBucketLogging read;
    PutBucketLogging write;
    PutObject write;
    GetObject read;
    HeadObject read;
    DeleteObject write;
    DeleteObjects write;
    CopyObject write;
    GetObjectAttributes read;
    GetObjectTagging read;
    PutObjectTagging write;
    DeleteObjectTagging write;
    GetObjectAcl read;
    PutObjectAcl write;
    GetObjectLegalHold read;
    PutObjectLegalHold write;
    GetObjectRetention read;
    PutObjectRetention write;
    RestoreObject write;
    CreateMultipartUpload write;
    UploadPart write;
    UploadPartCopy write;
    CompleteMultipartUpload write;
    AbortMultipartUpload write;
    ListParts read;
    ListMultipartUploads read;
    ListObjects read;
    ListObjectsV2 read;
    ListObjectVersions read;
    CountObjects read;
    CutPoints read;
    DescribeShards read;
    LookupData read;
    ListFreedData read;
    ForgetFreedData write;
}

macro_rules! answers {
    ($($answer:ident;)*) => {
        /// What a call came to.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // Each is explained at its struct.
        pub enum S3Answer {
            /// Nothing to say but that it was done.
            Done,
            $($answer(Box<$answer>),)*
        }

        impl S3Answer {
            /// Writes the answer's fields; of `Done` an empty object.
            pub fn write<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                match self {
                    S3Answer::Done => Nothing {}.serialize(out),
                    $(S3Answer::$answer(answer) => answer.serialize(out),)*
                }
            }
        }

        $(impl From<$answer> for S3Answer {
            fn from(answer: $answer) -> S3Answer {
                S3Answer::$answer(Box::new(answer))
            }
        }

        /// The answer of the kind that the call must have; gives back one of another kind.
        impl TryFrom<S3Answer> for $answer {
            type Error = S3Answer;
            fn try_from(answer: S3Answer) -> Result<$answer, S3Answer> {
                match answer {
                    S3Answer::$answer(answer) => Ok(*answer),
                    other => Err(other),
                }
            }
        })*
    };
}

#[derive(Serialize)]
struct Nothing {}

answers! {
    Accounts;
    AccessKey;
    AccessKeys;
    Buckets;
    BucketInfo;
    BucketLocation;
    BucketVersioning;
    AclAnswer;
    BucketPolicy;
    BucketPolicyStatus;
    BucketCors;
    BucketLifecycle;
    Tagging;
    BucketOwnershipControls;
    PublicAccessBlockAnswer;
    ObjectLockAnswer;
    BucketEncryption;
    BucketQuota;
    BucketWebsite;
    BucketLogging;
    PutObjectAnswer;
    ObjectVersion;
    DeleteObjectAnswer;
    DeleteObjectsAnswer;
    VersionChanged;
    ObjectTagging;
    LegalHold;
    RetentionAnswer;
    UploadCreated;
    PartUploaded;
    Parts;
    Uploads;
    ObjectPage;
    VersionPage;
    ObjectCount;
    Cuts;
    Shards;
    Locations;
}
