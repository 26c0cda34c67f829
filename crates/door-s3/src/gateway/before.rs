//! What is decided of a call before its body is read: whether it is carried out at all, and whether this caller may
//! send it.
//!
//! Always: no document is read that is longer than [`DOCUMENT_BYTES_MAX`], nor any of a caller who could not do what it asks. The call itself decides again once it has
//! the document: between the two the bucket may change hands.
//! Held by: `documents_are_read_of_callers_who_may`, `a_document_ends_with_its_limit`.
//! Not here: calls without a document (each decides by itself), objects' bytes (`objects`, `multipart`).

use super::{Gateway, Head, VersionCall, CALLS};
use crate::access::{may_create, might_allow};
use crate::error::{because, code};
use crate::metrics;
use crate::validate::DOCUMENT_BYTES_MAX;
use base_types::s3::S3ErrorCode;
use hyper::header::{HeaderMap, CONTENT_LENGTH, TRANSFER_ENCODING};
use s3s::access::{S3Access, S3AccessContext};
use s3s::path::S3Path;
use s3s::S3Result;

/// What a caller must be allowed to send a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    /// To have an account.
    Account,
    /// This right on the bucket.
    OnBucket(&'static str),
    /// This right on the key.
    OnKey(&'static str),
    /// This right on the key's version, whose own ACL may give it.
    OnVersion(&'static str, &'static str),
    /// One of these rights on some key, under some condition: what exactly the document says.
    OnSomeKey([&'static str; 2]),
}

/// The calls that have a document, by their names in `s3s`.
const DOCUMENTS: &[(&str, Needs)] = &[
    ("CompleteMultipartUpload", Needs::OnKey("s3:PutObject")),
    ("CreateBucket", Needs::Account),
    ("DeleteObjects", Needs::OnSomeKey(["s3:DeleteObject", "s3:DeleteObjectVersion"])),
    ("PutBucketAcl", Needs::OnBucket("s3:PutBucketAcl")),
    ("PutBucketCors", Needs::OnBucket("s3:PutBucketCORS")),
    ("PutBucketEncryption", Needs::OnBucket("s3:PutEncryptionConfiguration")),
    ("PutBucketLifecycleConfiguration", Needs::OnBucket("s3:PutLifecycleConfiguration")),
    ("PutBucketOwnershipControls", Needs::OnBucket("s3:PutBucketOwnershipControls")),
    ("PutBucketPolicy", Needs::OnBucket("s3:PutBucketPolicy")),
    ("PutBucketTagging", Needs::OnBucket("s3:PutBucketTagging")),
    ("PutBucketLogging", Needs::OnBucket("s3:PutBucketLogging")),
    ("PutBucketVersioning", Needs::OnBucket("s3:PutBucketVersioning")),
    ("PutBucketWebsite", Needs::OnBucket("s3:PutBucketWebsite")),
    ("PutObjectAcl", Needs::OnVersion("s3:PutObjectAcl", "s3:PutObjectVersionAcl")),
    ("PutObjectLegalHold", Needs::OnSomeKey(["s3:PutObjectLegalHold"; 2])),
    ("PutObjectLockConfiguration", Needs::OnBucket("s3:PutBucketObjectLockConfiguration")),
    ("PutObjectRetention", Needs::OnSomeKey(["s3:PutObjectRetention"; 2])),
    ("PutObjectTagging", Needs::OnSomeKey(["s3:PutObjectTagging", "s3:PutObjectVersionTagging"])),
    ("PutPublicAccessBlock", Needs::OnBucket("s3:PutBucketPublicAccessBlock")),
    ("RestoreObject", Needs::OnKey("s3:RestoreObject")),
];

/// `PutBucketAcl` as in [`CALLS`], if it is there.
fn call_of(name: &str) -> Option<&'static str> {
    let mut snake = String::with_capacity(name.len() + 8);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    CALLS.iter().copied().find(|call| *call == snake)
}

/// Stands before a gateway's calls.
pub struct BeforeBody(pub(crate) Gateway);

#[async_trait::async_trait]
impl S3Access for BeforeBody {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Some(call) = call_of(context.s3_op().name()) else {
            let name = context.s3_op().name();
            return Err(because(
                S3ErrorCode::NotImplemented,
                format!("{name} is not offered; docs/guides/s3.md lists the calls that are"),
            ));
        };
        if let Some(asked) = context.extensions_mut().get::<metrics::Asked>() {
            asked.is(call);
        }
        let name = context.s3_op().name();
        let Some((_, needs)) = DOCUMENTS.iter().find(|(call, _)| *call == name) else { return Ok(()) };
        bounded(context.headers())?;
        let extensions = std::mem::take(context.extensions_mut());
        let checked = {
            let access_key = context.credentials().map(|own| &*own.access_key);
            let head = Head::of(access_key, context.headers(), context.uri(), &extensions);
            self.may_send(head, context.s3_path(), *needs).await
        };
        *context.extensions_mut() = extensions;
        checked
    }
}

impl BeforeBody {
    async fn may_send(&self, head: Head<'_>, path: &S3Path, needs: Needs) -> S3Result<()> {
        let denied = || code(S3ErrorCode::AccessDenied);
        let version_id = version_of(head.uri.query().unwrap_or(""));
        let who = self.0.sender(head).await?;
        if needs == Needs::Account {
            let may = path.get_bucket_name().is_some_and(|bucket| may_create(&who.caller, bucket, &who.context));
            return who.owner.filter(|_| may).map(|_| ()).ok_or_else(denied);
        }
        let bucket = self.0.bucket(&who, path.get_bucket_name().ok_or_else(denied)?).await?;
        who.expect_owner(&bucket)?;
        let key = path.get_object_key();
        match needs {
            Needs::Account => Ok(()),
            Needs::OnBucket(right) => who.authorize(&bucket, right, None, None),
            Needs::OnKey(right) => who.authorize(&bucket, right, key, None),
            Needs::OnSomeKey(rights) => {
                let could = rights.iter().any(|right| might_allow(&who.caller, right, &bucket));
                could.then_some(()).ok_or_else(denied)
            }
            Needs::OnVersion(action, versioned) => {
                let (key, version_id) = (key.ok_or_else(denied)?, version_id.as_deref());
                let call =
                    VersionCall { who: &who, bucket: &bucket, key, version_id, action, versioned, with_data: false };
                self.0.version(&call).await.map(|_| ())
            }
        }
    }
}

/// Refuses a document that says it is too long, or does not say how long it is.
fn bounded(headers: &HeaderMap) -> S3Result<()> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    match length {
        None if headers.contains_key(TRANSFER_ENCODING) => Err(code(S3ErrorCode::MissingContentLength)),
        Some(length) if length > DOCUMENT_BYTES_MAX => Err(because(
            S3ErrorCode::MaxMessageLengthExceeded,
            format!("The document has {length} bytes; send at most {DOCUMENT_BYTES_MAX}"),
        )),
        _ => Ok(()),
    }
}

/// The version that a query names.
fn version_of(query: &str) -> Option<String> {
    let decoded = |text: &str| crate::validate::percent_decoded(text);
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(name, _)| decoded(name).as_deref() == Some("versionId")).and_then(|(_, value)| decoded(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_puts_a_document_is_known() {
        for (name, _) in DOCUMENTS {
            assert!(call_of(name).is_some(), "{name} is no call");
        }
        assert_eq!(call_of("ListObjectsV2"), Some("list_objects_v2"));
        assert!(call_of("SelectObjectContent").is_none() && call_of("PostObject").is_none());
    }

    #[test]
    fn the_version_is_found_however_its_name_is_written() {
        assert_eq!(version_of("acl&version%49d=a%2Fb"), Some("a/b".to_owned()));
        assert_eq!(version_of("acl"), None);
    }
}
