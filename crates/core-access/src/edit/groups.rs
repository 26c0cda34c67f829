//! Groups of OIDC users: made, replaced and removed.
//!
//! Always: who makes or changes a group gives its roles away, and is bounded as with users; of a group whose members stay the same, only
//! its new roles are given (`tests::gifts::a_group_is_no_way_round`); a
//! group that says another issuer or claim is another group: who was in it is not in the new one.
//! Not here: who is in a group (edge-node, by the issuer's tokens).

use super::{exists, made_before, Draft};
use crate::shown::no_such_group;
use base_access::{check_name, Binding, GroupRow, Requests, RowBody, CLAIM_BYTES_MAX};
use base_types::access::{AccessAnswer, CreateGroup};
use base_types::{ErrorCode, Refusal};

pub(super) fn create(draft: &mut Draft<'_>, call: &CreateGroup) -> Result<AccessAnswer, Refusal> {
    check_name("group", &call.group)?;
    let own_name = call.group.rsplit_once('@').map_or(call.group.as_str(), |(name, _)| name);
    let claim = call.claim.clone().unwrap_or_else(|| own_name.to_string());
    check_text("issuer", &call.issuer)?;
    check_text("claim", &claim)?;
    let tenant = draft.tenant_of(&call.group)?;
    let roles = draft.bindings(&call.roles)?;
    let known = draft.directory.group(&call.group).cloned();
    if known.as_ref().is_some_and(|own| made_before(own.id, call.id) || own.requests.has(call.id)) {
        return Ok(AccessAnswer::Done);
    }
    if known.is_some() && !call.replace {
        return Err(exists(ErrorCode::GroupExists, "group", &call.group));
    }
    let requests = known.as_ref().map_or_else(Requests::default, |own| own.requests.with(call.id));
    let same = known.filter(|own| own.issuer == call.issuer && own.claim == claim && own.tenant == tenant);
    // A replacement with an id is remembered though it changes nothing: its retry may come after another's change.
    if same.as_ref().is_some_and(|own| own.roles == roles) && call.id == 0 {
        return Ok(AccessAnswer::Done);
    }
    let had = same.as_ref().map_or(&[][..], |own| &own.roles);
    let new: Vec<Binding> = roles.iter().filter(|role| !had.contains(role)).cloned().collect();
    let what = || format!("give these roles to group '{}' of {}", call.group, call.issuer.escape_debug());
    draft.check_bindings(&new, tenant.as_ref(), what)?;
    let (id, created_ms) = match same {
        Some(own) => (own.id, own.created_ms),
        None => (draft.id_of("group", call.id)?, draft.now_ms),
    };
    let row = GroupRow { id, issuer: call.issuer.clone(), claim, tenant, roles, created_ms, requests };
    draft.set(format!("group/{}", call.group), RowBody::Group(row));
    Ok(AccessAnswer::Done)
}

fn check_text(field: &str, text: &str) -> Result<(), Refusal> {
    let legal = (1..=CLAIM_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if legal {
        return Ok(());
    }
    let message =
        format!("{field}: 1 to {CLAIM_BYTES_MAX} bytes without control characters, as the issuer's tokens have it");
    Err(Refusal::new(ErrorCode::InvalidField, message))
}

pub(super) fn delete(draft: &mut Draft<'_>, group: &str) -> Result<AccessAnswer, Refusal> {
    if draft.directory.group(group).is_none() {
        return Err(no_such_group(group));
    }
    draft.changes.push((format!("group/{group}"), None));
    Ok(AccessAnswer::Done)
}
