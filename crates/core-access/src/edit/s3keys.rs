//! S3 access keys of users: made and revoked.
//!
//! Always: a key's secret comes sealed for the user who has the name now, or nothing is made: a user of the same name that was made
//! meanwhile gets no key that was asked for the earlier one (`tests::s3_keys_are_made_and_revoked`).
//! Not here: drawing and sealing (edge-node).

use super::{check_terms, pattern, Draft};
use crate::shown::s3_key_info;
use base_access::{access_key_of, RowBody, S3KeyRow};
use base_types::access::{AccessAnswer, CreateS3Key, RevokeS3Key};
use base_types::{ErrorCode, Refusal};

/// The most S3 keys of a user.
const KEYS_MAX: usize = 100;

pub(super) fn create(draft: &mut Draft<'_>, call: &CreateS3Key) -> Result<AccessAnswer, Refusal> {
    let user = draft.user(&call.user)?;
    check_terms(&call.note, call.expires_in_s)?;
    let on = call.on.as_deref().map(|on| pattern("on", on)).transpose()?;
    draft.check_s3_user(&user, on.as_ref(), || format!("make an S3 key for user '{}'", call.user))?;
    if call.user_id != user.id {
        let message = format!("user '{}' was made or changed a moment ago: nothing was made; retry", call.user);
        return Err(Refusal::new(ErrorCode::Conflict, message));
    }
    let access_key = access_key_of(call.id);
    let name = format!("s3key/{access_key}");
    let own = match draft.body(&name) {
        Some(RowBody::S3Key(made)) => {
            call.of_request && (made.user.1, &made.on, &made.note) == (user.id, &on, &call.note)
        }
        _ => false,
    };
    let taken = draft.directory.rows().contains_key(&name) || draft.directory.identity(call.id).is_some();
    if call.id == 0 || taken && !own {
        return Err(Refusal::new(ErrorCode::Conflict, "the access key drawn is taken: nothing was made; retry"));
    }
    let owned = |body: &RowBody| matches!(body, RowBody::S3Key(key) if key.user.1 == user.id);
    let bodies = draft.directory.rows().values().filter_map(|row| row.body.as_ref());
    if !own && bodies.filter(|body| owned(body)).count() >= KEYS_MAX {
        let message = format!("user '{}' has {KEYS_MAX} S3 keys; revoke one first (`hive key revoke`)", call.user);
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    let key = S3KeyRow {
        user: (call.user.clone(), user.id),
        sealed_by: call.sealed_by.clone(),
        sealed: call.sealed.clone(),
        on,
        expires_ms: call.expires_in_s.map(|seconds| draft.now_ms.saturating_add(seconds * 1_000)),
        note: call.note.clone(),
        created_ms: draft.now_ms,
    };
    let info = s3_key_info(&access_key, &key);
    draft.set(name, RowBody::S3Key(key));
    Ok(AccessAnswer::S3Key(Box::new(info)))
}

pub(super) fn revoke(draft: &mut Draft<'_>, call: &RevokeS3Key) -> Result<AccessAnswer, Refusal> {
    let owner = draft.directory.s3_key(&call.access_key).map(|key| &key.user.0);
    let owner = owner.filter(|owner| call.user.as_ref().is_none_or(|user| user == *owner));
    if owner.is_none() {
        let shown: String = call.access_key.chars().take(128).collect();
        let message = format!(
            "S3 key '{}' does not exist; `hive key list` shows those of users, `hive ctl s3 key list` those of accounts",
            shown.escape_debug()
        );
        return Err(Refusal::new(ErrorCode::NoSuchS3Key, message));
    }
    draft.changes.push((format!("s3key/{}", call.access_key), None));
    Ok(AccessAnswer::Done)
}
