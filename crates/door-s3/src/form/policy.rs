//! The policy of a form: who signed it, and whether the form keeps to it.
//!
//! Always: a form with any part of a signature has all of it, or is refused; a signature is compared in constant time.
//! Every field is named by a condition, save the ones that [`exempt`] lists.

use super::invalid;
use crate::signed::{for_s3, ALGORITHM};
use base_types::s3::{S3ErrorCode, PUT_BYTES_MAX};
use base_types::Refusal;
use hmac::{Hmac, KeyInit as _, Mac as _};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::post_policy::{PostPolicy, PostPolicyCondition};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The fields that say who signed the form; the policy is what is signed.
pub(super) const SIGNATURE_FIELDS: [&str; 4] = ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"];
/// The fields of version 2.
const OLD_FIELDS: [&str; 2] = ["awsaccesskeyid", "signature"];
/// How far ahead of this clock a form may be dated.
const SKEW_MAX_MS: u64 = 15 * 60 * 1000;
/// How long a form is good for after its date, whatever its policy says: seven days.
const AGE_MAX_MS: u64 = crate::signed::EXPIRES_MAX_S * 1000;

/// Who signed a form, and what is to be verified of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signer {
    /// The access key.
    pub access_key: String,
    /// Its date, region and service.
    scope: [String; 3],
    /// When it was signed, Unix milliseconds.
    pub date_ms: u64,
    policy: String,
    signature: Vec<u8>,
}

fn denied(message: impl Into<String>) -> Refusal {
    S3ErrorCode::AccessDenied.because(message)
}

impl Signer {
    pub(super) fn of(fields: &BTreeMap<String, String>) -> Result<Option<Signer>, Refusal> {
        if let Some(old) = OLD_FIELDS.into_iter().find(|name| fields.contains_key(*name)) {
            let message = format!("The form is signed by version 2 (its field {old}). Please use {ALGORITHM}.");
            return Err(S3ErrorCode::InvalidRequest.because(message));
        }
        let parts = SIGNATURE_FIELDS.iter().chain(&["policy"]);
        if !parts.clone().any(|name| fields.contains_key(*name)) {
            return Ok(None);
        }
        let field = |name: &str| {
            let missing = || invalid(format!("Bucket POST must contain a field named '{name}'"));
            fields.get(name).map(String::as_str).ok_or_else(missing)
        };
        if field("x-amz-algorithm")? != ALGORITHM {
            return Err(invalid(format!("X-Amz-Algorithm only supports \"{ALGORITHM}\"")));
        }
        let credential = field("x-amz-credential")?;
        let wrong = || invalid("x-amz-credential must be ACCESS-KEY/DATE/REGION/s3/aws4_request");
        let pieces: Vec<&str> = credential.split('/').collect();
        let &[access_key, day, region, service, _] = pieces.as_slice() else { return Err(wrong()) };
        let date = field("x-amz-date")?;
        let date_ms = signing_time(date).ok_or_else(|| invalid("x-amz-date must be like 20261123T120000Z"))?;
        if !for_s3(credential) || !date.starts_with(day) || day.len() != DAY_LEN {
            return Err(wrong());
        }
        let signature =
            unhex(field("x-amz-signature")?).ok_or_else(|| invalid("x-amz-signature must be hexadecimal"))?;
        let scope = [day.to_owned(), region.to_owned(), service.to_owned()];
        let policy = field("policy")?.to_owned();
        Ok(Some(Signer { access_key: access_key.to_owned(), scope, date_ms, policy, signature }))
    }

    /// Whether the owner of `secret` signed it, not too long ago.
    pub fn verify(&self, secret: &str, now_ms: u64) -> Result<(), Refusal> {
        if self.date_ms > now_ms.saturating_add(SKEW_MAX_MS) {
            return Err(S3ErrorCode::RequestTimeTooSkewed.into());
        }
        if now_ms.saturating_sub(self.date_ms) > AGE_MAX_MS {
            return Err(denied("The form was signed more than seven days ago. Sign it again."));
        }
        let mut key = mac(format!("AWS4{secret}").as_bytes(), self.scope[0].as_bytes());
        for part in [&self.scope[1], &self.scope[2], "aws4_request"] {
            key = mac(&key.finalize().into_bytes(), part.as_bytes());
        }
        let signed = mac(&key.finalize().into_bytes(), self.policy.as_bytes());
        signed.verify_slice(&self.signature).map_err(|_| S3ErrorCode::SignatureDoesNotMatch.into())
    }
}

fn mac(key: &[u8], text: &[u8]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
    mac.update(text);
    mac
}

/// `20261123`.
const DAY_LEN: usize = 8;

/// `20261123T120000Z` in milliseconds since 1970.
pub(crate) fn signing_time(date: &str) -> Option<u64> {
    let plain = date.len() == 16 && date.is_ascii();
    let (day, time) = (date.get(..DAY_LEN).filter(|_| plain)?, date.get(DAY_LEN..)?);
    let text =
        format!("{}-{}-{}{}:{}:{}", &day[..4], &day[4..6], &day[6..], time.get(..3)?, time.get(3..5)?, time.get(5..)?);
    let time = Timestamp::parse(TimestampFormat::DateTime, &text).ok()?;
    Some(crate::times::millis(&time))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(byte).collect()
}

/// Whether the form keeps to the policy; how long the file may be.
pub(super) fn judge(
    text: &str,
    fields: &BTreeMap<String, String>,
    bucket: &str,
    now_ms: u64,
) -> Result<RangeInclusive<u64>, Refusal> {
    let wrong = |why: String| S3ErrorCode::InvalidPolicyDocument.because(format!("Invalid Policy: {why}"));
    let policy = PostPolicy::from_base64(text).map_err(|error| wrong(error.to_string()))?;
    if crate::times::millis(&policy.expiration) <= now_ms {
        return Err(denied("Invalid according to Policy: Policy expired."));
    }
    if fields.get("bucket").is_some_and(|named| named != bucket) {
        return Err(denied(format!("Invalid according to Policy: the form is of another bucket than {bucket}")));
    }
    let value = |field: &str| match field {
        "bucket" => bucket,
        _ => fields.get(field).map_or("", String::as_str),
    };
    let failed =
        |condition: String| denied(format!("Invalid according to Policy: Policy Condition failed: {condition}"));
    let (mut shortest, mut longest) = (0, PUT_BYTES_MAX);
    let mut named = vec![];
    for condition in &policy.conditions {
        match condition {
            PostPolicyCondition::Eq { field, value: wanted } => {
                named.push(field.as_str());
                if value(field) != wanted {
                    return Err(failed(format!("[\"eq\", \"${field}\", \"{wanted}\"]")));
                }
            }
            PostPolicyCondition::StartsWith { field, prefix } => {
                named.push(field.as_str());
                if !value(field).starts_with(prefix.as_str()) {
                    return Err(failed(format!("[\"starts-with\", \"${field}\", \"{prefix}\"]")));
                }
            }
            PostPolicyCondition::ContentLengthRange { min, max } => {
                (shortest, longest) = (shortest.max(*min), longest.min(*max));
            }
        }
    }
    if let Some(extra) = fields.keys().find(|name| !exempt(name) && !named.contains(&name.as_str())) {
        return Err(denied(format!("Invalid according to Policy: Extra input fields: {extra}")));
    }
    Ok(shortest..=longest)
}

/// The fields that no condition has to name.
fn exempt(name: &str) -> bool {
    matches!(name, "x-amz-signature" | "policy" | "submit" | "bucket") || name.starts_with("x-ignore-")
}
