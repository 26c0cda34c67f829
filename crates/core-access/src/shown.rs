//! Rows as people read them, and refusals about names.
//!
//! Not here: what is listed (read.rs), what changes (edit.rs).

use base_access::{account_of, Binding, GroupRow, Rule, S3KeyRow, TokenRow, UserRow};
use base_types::access::{AccessAction, GroupInfo, S3KeyInfo, TokenInfo, UserInfo};
use base_types::{ErrorCode, Refusal};

pub(crate) fn no_planner(call: &AccessAction) -> Refusal {
    Refusal::new(ErrorCode::Internal, format!("{} has no planner", call.name()))
}

pub(crate) fn no_such_user(name: &str) -> Refusal {
    let message = format!("user '{}' does not exist; `hive user list` shows those that do", name.escape_debug());
    Refusal::new(ErrorCode::NoSuchUser, message)
}

pub(crate) fn no_such_role(name: &str) -> Refusal {
    let message = format!("role '{}' does not exist; `hive role list` shows those that do", name.escape_debug());
    Refusal::new(ErrorCode::NoSuchRole, message)
}

pub(crate) fn no_such_group(name: &str) -> Refusal {
    let shown: String = name.chars().take(128).collect();
    let message = format!("group '{}' does not exist; `hive group list` shows those that do", shown.escape_debug());
    Refusal::new(ErrorCode::NoSuchGroup, message)
}

/// A role of a user as people write it.
pub(crate) fn binding_text(binding: &Binding) -> String {
    match &binding.on {
        None => binding.role.clone(),
        Some(on) => format!("{} on {on}", binding.role),
    }
}

/// A rule as people write it.
pub(crate) fn rule_text(rule: &Rule) -> String {
    format!("{} on {}", rule.verbs, rule.on)
}

pub(crate) fn user_info(name: &str, user: &UserRow) -> UserInfo {
    UserInfo {
        user: name.to_string(),
        tenant: user.tenant.as_ref().map(|(tenant, _)| tenant.clone()),
        service: user.service,
        groups: None,
        disabled: user.disabled,
        password: user.password.is_some(),
        namespace: user.namespace.clone(),
        roles: user.roles.iter().map(binding_text).collect(),
        allowed: Vec::new(),
        created_ms: user.created_ms,
    }
}

pub(crate) fn group_info(name: &str, group: &GroupRow) -> GroupInfo {
    GroupInfo {
        group: name.to_string(),
        tenant: group.tenant.as_ref().map(|(tenant, _)| tenant.clone()),
        issuer: group.issuer.clone(),
        claim: group.claim.clone(),
        roles: group.roles.iter().map(binding_text).collect(),
        created_ms: group.created_ms,
    }
}

pub(crate) fn token_info(id: &str, token: &TokenRow) -> TokenInfo {
    TokenInfo {
        id: id.to_string(),
        token: None,
        user: token.user.0.clone(),
        on: token.on.as_ref().map(ToString::to_string),
        expires_ms: token.expires_ms,
        note: token.note.clone(),
        created_ms: token.created_ms,
    }
}

pub(crate) fn s3_key_info(access_key: &str, key: &S3KeyRow) -> S3KeyInfo {
    S3KeyInfo {
        access_key: access_key.to_string(),
        secret_key: None,
        user: key.user.0.clone(),
        account: account_of(key.user.1),
        on: key.on.as_ref().map(ToString::to_string),
        expires_ms: key.expires_ms,
        note: key.note.clone(),
        sealed_by: key.sealed_by.clone(),
        created_ms: key.created_ms,
    }
}
