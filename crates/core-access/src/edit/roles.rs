//! Custom roles: made, replaced and removed.
//!
//! Always: who replaces a role gives its holders no more than they had or the caller has; a role is marked grantable only by somebody
//! who may give all of it (`tests::gifts::a_role_is_replaced_by_less`, `tests::gifts::root_delegates_by_grantable_roles`).
//! Not here: who has a role (edit.rs, groups.rs).

use super::{made_before, pattern, Draft};
use crate::shown::no_such_role;
use base_access::{builtin, Requests, RoleRow, RowBody, Rule};
use base_types::access::{AccessAnswer, CreateRole, RuleText};
use base_types::{ErrorCode, Refusal};

fn rule_of(text: &RuleText) -> Result<Rule, Refusal> {
    let verbs = text.verbs.parse();
    let verbs = verbs.map_err(|error| Refusal::new(ErrorCode::InvalidField, format!("verbs: {error}")))?;
    Ok(Rule { verbs, on: pattern("on", &text.on)? })
}

pub(super) fn create(draft: &mut Draft<'_>, call: &CreateRole) -> Result<AccessAnswer, Refusal> {
    let rules = call.rules.iter().map(rule_of).collect::<Result<_, Refusal>>()?;
    let mut row = RoleRow { rules, id: call.id, requests: Requests::default(), grantable: call.grantable };
    row.check(&call.role)?;
    let name = format!("role/{}", call.role);
    let known = match draft.body(&name) {
        Some(RowBody::Role(known)) => Some(known.clone()),
        Some(_) if !call.replace => return Err(exists(&call.role)),
        _ => None,
    };
    if let Some(known) = &known {
        // Also after others replaced its rules: the retry takes nothing of theirs back.
        let again = made_before(known.id, call.id) || known.requests.has(call.id);
        let same = known.rules == row.rules && known.grantable == row.grantable;
        // A replacement with an id is remembered though it changes nothing: its retry may come after another's change.
        if again || same && !(call.replace && call.id != 0) {
            return Ok(AccessAnswer::Done);
        }
        if !call.replace {
            return Err(exists(&call.role));
        }
    }
    let what = || format!("define role '{}' so", call.role);
    // Who has the role, or may give it, keeps what it had.
    let newly_grantable = row.grantable && !known.as_ref().is_some_and(|known| known.grantable);
    let had = known.as_ref().filter(|_| !newly_grantable).map_or(&[][..], |known| &known.rules);
    draft.check_gift(&row.rules, had, what)?;
    match &known {
        Some(known) => (row.id, row.requests) = (known.id, known.requests.with(call.id)),
        None if call.id != 0 => row.id = draft.id_of("role", call.id)?,
        None => {}
    }
    draft.set(name, RowBody::Role(row));
    Ok(AccessAnswer::Done)
}

fn exists(role: &str) -> Refusal {
    let message = format!("role '{role}' exists with other rules; `replace` (--replace) changes them");
    Refusal::new(ErrorCode::RoleExists, message)
}

pub(super) fn delete(draft: &mut Draft<'_>, role: &str) -> Result<AccessAnswer, Refusal> {
    let name = format!("role/{role}");
    if builtin(role).is_some() {
        let message = format!("role '{role}' is built in and stays");
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    if draft.body(&name).is_none() {
        return Err(no_such_role(role));
    }
    draft.changes.push((name, None));
    Ok(AccessAnswer::Done)
}
