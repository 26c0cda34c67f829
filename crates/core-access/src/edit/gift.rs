//! Nobody gives more than it has, and nobody takes everything from everybody.
//!
//! ```text
//!   may give   what the credential that asks may do, and grantable roles within that credential's bounds
//!   gives      a grant; a user, group or role made or replaced; a token, key or password made; a user enabled   ──▶ must be covered
//!   takes      a revocation, a narrower role, a user disabled or deleted  ──▶ somebody who has everything must be left
//! ```
//!
//! Always: it is looked at in the directory of exactly the epoch that the edit is committed on, so no change comes in between
//! (`tests::gifts::a_giver_that_loses_its_role_gives_nothing`); a user counts with what it has when it is enabled
//! (`tests::gifts::a_disabled_user_is_no_way_round`). Only the node itself is not compared (mutant `GiftUnbounded`).
//! Not here: whether rules cover others (base-access, cover.rs), what is given (the other files).
//! Why: docs/decisions/0093-nobody-grants-more-than-he-has.md.

use super::Draft;
use crate::shown::{binding_text, rule_text};
use base_access::{
    decide, is_everything, uncovered, Binding, Identity, Kind, Pattern, Row, Rule, UserRow, Verb, Verbs,
};
use base_types::access::{AccessAction, Caller};
use base_types::action::Action;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, Refusal};
use std::borrow::Cow;

/// What the owner of a bucket may do with it.
const OWNERS: Verbs = Verbs::of(&[Verb::Read, Verb::List, Verb::Write, Verb::Delete, Verb::Configure, Verb::Inspect]);

fn denied(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PermissionDenied, message.into())
}

impl Draft<'_> {
    fn caller(&self) -> Result<Cow<'_, Identity>, Refusal> {
        self.directory
            .resolve(self.by)
            .ok_or_else(|| denied("the credential that asks was revoked, or may do nothing any more; ask with another"))
    }

    /// The way in of last resort, and the node's own work.
    fn is_node(&self) -> bool {
        *self.by == Caller::Node
    }

    /// Decides once more: the door's copy may be another epoch's.
    pub(super) fn check_caller(&self, call: &AccessAction) -> Result<(), Refusal> {
        if self.is_node() {
            return Ok(());
        }
        decide(&*self.caller()?, &Action::Access(call.clone()))
    }

    /// Refuses to give rules that the caller has not, nor who gets them had before. `what`: what it is about to do.
    pub(super) fn check_gift(&self, given: &[Rule], had: &[Rule], what: impl Fn() -> String) -> Result<(), Refusal> {
        if self.is_node() || planted(Mutant::GiftUnbounded) {
            return Ok(());
        }
        let caller = self.caller()?;
        let grantable = caller.bound(self.directory.grantable());
        let Some(rule) = uncovered(given, caller.rules.iter().chain(&grantable).chain(had)) else { return Ok(()) };
        let (user, what, rule) = (&caller.user, what(), rule_text(&rule));
        Err(denied(format!(
            "user {user} may not {what}: that gives \"{rule}\", which {user} does not have. Ask a user who has it, or \
             a user with the role root to make a role that you may give: `hive role create NAME --allow \"{rule}\" --grantable`"
        )))
    }

    /// The same of roles, for somebody of this tenant.
    pub(super) fn check_bindings(
        &self,
        bindings: &[Binding],
        tenant: Option<&(String, u64)>,
        what: impl Fn() -> String,
    ) -> Result<(), Refusal> {
        bindings.iter().try_for_each(|binding| self.check_gift(&self.directory.rules_by(binding, tenant), &[], &what))
    }

    /// Refuses to come by what a user has, as far as `on` lets it, without having that.
    pub(super) fn check_user(
        &self,
        user: &UserRow,
        on: Option<&Pattern>,
        what: impl Fn() -> String,
    ) -> Result<(), Refusal> {
        user.roles.iter().try_for_each(|binding| {
            let rules = self.directory.rules_by(binding, user.tenant.as_ref());
            let what = || format!("{}, who has the role '{}'", what(), binding_text(binding).escape_debug());
            self.check_gift(&cut(&rules, on), &[], what)
        })
    }

    /// The same of a key at the S3 door: it reaches, too, what the user's account owns and what policies and ACLs let it, in all buckets
    /// that it is not kept from. Which those are is not known here.
    pub(super) fn check_s3_user(
        &self,
        user: &UserRow,
        on: Option<&Pattern>,
        what: impl Fn() -> String,
    ) -> Result<(), Refusal> {
        self.check_user(user, on, &what)?;
        let buckets = [Rule { verbs: OWNERS, on: Pattern::every(Kind::Bucket) }];
        let reached = cut(&self.directory.within_tenant(&buckets, user.tenant.as_ref()), on);
        let what = || format!("{}, which reaches what that user owns in S3", what());
        self.check_gift(&reached, &[], what)
    }

    /// Refuses to take everything from the last one who has it, or the last credential that gives it.
    pub(super) fn check_somebody_left(&self, call: &AccessAction) -> Result<(), Refusal> {
        if self.is_node() || self.changes.is_empty() || !takes(call) {
            return Ok(());
        }
        let epoch = self.directory.epoch() + 1;
        let changes = self
            .changes
            .iter()
            .map(|(name, body)| (name.clone(), Row { epoch, changed_ms: self.now_ms, body: body.clone() }));
        let after = self.directory.with(epoch, changes.collect());
        if after.resolve(self.by).is_some_and(|caller| is_everything(&caller.rules)) {
            return Ok(());
        }
        let (had, left) = (self.directory.everything(self.now_ms), after.everything(self.now_ms));
        let locked_out = had.holders > 0 && left.holders == 0 || had.ways_in > 0 && left.ways_in == 0;
        if !locked_out {
            return Ok(());
        }
        Err(denied(
            "nobody who has everything could come in any more; first give another user the role root (`hive user grant`), with a token or \
             password, or do this by a node's Unix socket (--endpoint unix:DATA/admin.sock)",
        ))
    }
}

/// Whether a call can take rights.
fn takes(call: &AccessAction) -> bool {
    use AccessAction as A;
    match call {
        A::ChangeUser(_) | A::DeleteUser(_) | A::RevokeRole(_) | A::CreateRole(_) | A::DeleteRole(_) => true,
        A::CreateGroup(_) | A::DeleteGroup(_) | A::RevokeToken(_) | A::DeleteTenant(_) => true,
        A::CreateTenant(_) | A::CreateUser(_) | A::GrantRole(_) | A::CreateToken(_) | A::CreateRoot(_) => false,
        A::CreateS3Key(_) | A::RevokeS3Key(_) | A::WhoAmI(_) => false,
        A::ListTenants(_) | A::DescribeUser(_) | A::ListUsers(_) | A::DescribeRole(_) | A::ListRoles(_) => false,
        A::ListGroups(_) | A::ListTokens(_) | A::ListS3Keys(_) => false,
    }
}

fn cut(rules: &[Rule], on: Option<&Pattern>) -> Vec<Rule> {
    let Some(on) = on else { return rules.to_vec() };
    rules.iter().filter_map(|rule| Some(Rule { verbs: rule.verbs, on: rule.on.and(on)? })).collect()
}
