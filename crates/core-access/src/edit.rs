//! What each call changes: rows in, rows out.
//!
//! Always: pure; nobody gives what it does not have (gift.rs); a user of a tenant is called `name@tenant`, and
//! the tenant exists (`tests::tenants_bound_their_users`); the directory has at most `ROWS_MAX` rows; names that were deleted
//! long ago are forgotten a few at a time; a request that made something and is retried makes nothing twice, and is answered as at
//! first (`tests::a_repeated_request_makes_nothing_twice`).
//! Not here: how an edit is committed (change.rs).

mod gift;
mod groups;
mod roles;
mod s3keys;

use crate::shown::{binding_text, no_planner, no_such_role, no_such_user, token_info};
use crate::store::{RowChange, ROWS_MAX};
use base_access::{
    builtin, check_name, Binding, Directory, GroupRow, Pattern, Requests, RoleRow, Row, RowBody, RowName, TenantRow,
    TokenRow, UserRow, BINDINGS_MAX, ROOT_USER,
};
use base_types::access::{
    AccessAction, AccessAnswer, Caller, ChangeUser, CreateRoot, CreateTenant, CreateToken, CreateUser, GrantRole,
    RevokeRole, RevokeToken, TokenInfo,
};
use base_types::{ErrorCode, Refusal};
use core_flow::Random;

/// Names that were deleted so long ago are forgotten, and tokens and S3 keys that expired so long ago deleted.
const FORGET_AFTER_MS: u64 = 30 * 86_400_000;
/// How many of them with one edit.
const FORGET_AT_A_TIME: usize = 8;
/// Tokens and S3 keys of a user that are removed with it; the others count for nothing and are removed when they are listed again.
const TOKENS_AT_A_TIME: usize = 1_000;
/// The longest note of a token.
const NOTE_BYTES_MAX: usize = 256;
/// The longest life of a token that ends: a hundred years.
const EXPIRY_S_MAX: u64 = 100 * 366 * 86_400;

/// What an edit comes to.
pub(crate) struct Edited {
    /// Empty: it is as it should be.
    pub changes: Vec<RowChange>,
    pub answer: AccessAnswer,
    /// Names deleted up to this epoch are forgotten.
    pub floor: u64,
}

/// An edit in the making.
struct Draft<'a> {
    directory: &'a Directory,
    by: &'a Caller,
    now_ms: u64,
    random: &'a mut Random,
    changes: Vec<(RowName, Option<RowBody>)>,
}

/// Computes an edit.
pub(crate) fn edit(
    call: &AccessAction,
    directory: &Directory,
    by: &Caller,
    now_ms: u64,
    random: &mut Random,
) -> Result<Edited, Refusal> {
    let mut draft = Draft { directory, by, now_ms, random, changes: Vec::new() };
    draft.check_caller(call)?;
    let answer = match call {
        AccessAction::CreateTenant(call) => draft.create_tenant(call),
        AccessAction::DeleteTenant(call) => draft.delete_tenant(&call.tenant),
        AccessAction::CreateUser(call) => draft.create_user(call),
        AccessAction::ChangeUser(call) => draft.change_user(call),
        AccessAction::DeleteUser(call) => draft.delete_user(&call.user),
        AccessAction::GrantRole(call) => draft.grant_role(call),
        AccessAction::RevokeRole(call) => draft.revoke_role(call),
        AccessAction::CreateRole(call) => roles::create(&mut draft, call),
        AccessAction::DeleteRole(call) => roles::delete(&mut draft, &call.role),
        AccessAction::CreateGroup(call) => groups::create(&mut draft, call),
        AccessAction::DeleteGroup(call) => groups::delete(&mut draft, &call.group),
        AccessAction::CreateToken(call) => draft.create_token(call),
        AccessAction::RevokeToken(call) => draft.revoke_token(call),
        AccessAction::CreateS3Key(call) => s3keys::create(&mut draft, call),
        AccessAction::RevokeS3Key(call) => s3keys::revoke(&mut draft, call),
        AccessAction::CreateRoot(call) => draft.create_root(call),
        other => Err(no_planner(other)),
    }?;
    draft.check_somebody_left(call)?;
    draft.finish(answer)
}

fn pattern(field: &str, text: &str) -> Result<Pattern, Refusal> {
    text.parse().map_err(|error| Refusal::new(ErrorCode::InvalidField, format!("{field}: {error}")))
}

/// Whether a row was made by the very request that asks for it: one whose answer was lost, and that is retried.
fn made_before(there: u64, of_request: u64) -> bool {
    of_request != 0 && there == of_request
}

fn exists(code: ErrorCode, what: &str, name: &str) -> Refusal {
    Refusal::new(code, format!("{what} '{name}' exists already; choose another name"))
}

impl Draft<'_> {
    fn body(&self, name: &str) -> Option<&RowBody> {
        self.directory.rows().get(name)?.body.as_ref()
    }

    fn user(&self, name: &str) -> Result<UserRow, Refusal> {
        self.directory.user(name).cloned().ok_or_else(|| no_such_user(name))
    }

    fn tenant(&self, name: &str) -> Result<TenantRow, Refusal> {
        match self.body(&format!("tenant/{name}")) {
            Some(RowBody::Tenant(tenant)) => Ok(tenant.clone()),
            _ => {
                let message = format!("tenant '{}' does not exist; `hive tenant create` makes it", name.escape_debug());
                Err(Refusal::new(ErrorCode::NoSuchTenant, message))
            }
        }
    }

    fn set(&mut self, name: String, body: RowBody) {
        self.changes.push((name, Some(body)));
    }

    /// An id that nobody has.
    fn draw_id(&mut self) -> u64 {
        loop {
            let id = self.random.below(u64::MAX);
            if id != 0 && self.directory.identity(id).is_none() {
                return id;
            }
        }
    }

    /// The id that follows from the request, or one that is drawn where the request has none (zero).
    fn id_of(&mut self, what: &str, of_request: u64) -> Result<u64, Refusal> {
        if of_request == 0 {
            return Ok(self.draw_id());
        }
        if self.directory.identity(of_request).is_some() || self.is_taken(of_request) {
            let message = format!("the {what}'s id is taken: nothing was made; retry with another request_id");
            return Err(Refusal::new(ErrorCode::Conflict, message));
        }
        Ok(of_request)
    }

    /// Disabled users, too: nobody gets the id of one.
    fn is_taken(&self, id: u64) -> bool {
        let of = |body: &RowBody| match body {
            RowBody::User(UserRow { id: own, .. })
            | RowBody::Tenant(TenantRow { id: own, .. })
            | RowBody::Group(GroupRow { id: own, .. })
            | RowBody::Role(RoleRow { id: own, .. }) => *own == id,
            _ => false,
        };
        self.directory.rows().values().filter_map(|row| row.body.as_ref()).any(of)
    }

    fn binding(&self, role: &str, on: Option<&str>) -> Result<Binding, Refusal> {
        let rules = match (builtin(role), self.body(&format!("role/{role}"))) {
            (Some(role), _) => role.rules,
            (None, Some(RowBody::Role(role))) => role.rules.clone(),
            _ => return Err(no_such_role(role)),
        };
        let binding = Binding { role: role.to_string(), on: on.map(|on| pattern("on", on)).transpose()? };
        let narrowed = binding.narrow(&rules);
        if narrowed.is_empty() {
            let message = format!("role '{role}' allows nothing on {}", on.unwrap_or("*").escape_debug());
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        Ok(binding)
    }

    fn create_tenant(&mut self, call: &CreateTenant) -> Result<AccessAnswer, Refusal> {
        check_name("tenant", &call.tenant)?;
        if call.tenant.contains('@') {
            let message = "a tenant's name has no '@': its users are called name@tenant";
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        let name = format!("tenant/{}", call.tenant);
        match self.body(&name) {
            Some(RowBody::Tenant(there)) if made_before(there.id, call.id) => return Ok(AccessAnswer::Done),
            Some(_) => return Err(exists(ErrorCode::TenantExists, "tenant", &call.tenant)),
            None => {}
        }
        if !(1..=BINDINGS_MAX).contains(&call.owns.len()) {
            let message = format!("owns: a tenant owns 1 to {BINDINGS_MAX} resources, for example kv/shop-*");
            return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
        }
        let owns: Vec<Pattern> = call.owns.iter().map(|on| pattern("owns", on)).collect::<Result<_, _>>()?;
        let id = self.id_of("tenant", call.id)?;
        self.set(name, RowBody::Tenant(TenantRow { id, owns, created_ms: self.now_ms }));
        Ok(AccessAnswer::Done)
    }

    fn delete_tenant(&mut self, tenant: &str) -> Result<AccessAnswer, Refusal> {
        let TenantRow { id, .. } = self.tenant(tenant)?;
        let belongs = |body: &RowBody| match body {
            RowBody::User(UserRow { tenant, .. }) | RowBody::Group(GroupRow { tenant, .. }) => {
                tenant.as_ref().is_some_and(|own| own.1 == id)
            }
            _ => false,
        };
        let users = self.directory.rows().values().filter(|row| row.body.as_ref().is_some_and(belongs)).count();
        if users > 0 {
            let message = format!(
                "tenant '{tenant}' has {users} users and groups; delete them first (`hive user list --tenant {tenant}`, `hive group list --tenant {tenant}`)"
            );
            return Err(Refusal::new(ErrorCode::TenantHasUsers, message));
        }
        self.changes.push((format!("tenant/{tenant}"), None));
        Ok(AccessAnswer::Done)
    }

    /// The tenant that a name belongs to, with its id.
    fn tenant_of(&self, name: &str) -> Result<Option<(String, u64)>, Refusal> {
        match name.rsplit_once('@') {
            None => Ok(None),
            Some((_, tenant)) => Ok(Some((tenant.to_string(), self.tenant(tenant)?.id))),
        }
    }

    /// Roles out of their texts, each `role` or `role on resource`.
    fn bindings(&self, texts: &[String]) -> Result<Vec<Binding>, Refusal> {
        if texts.len() > BINDINGS_MAX {
            return Err(too_many_roles());
        }
        let split = |text: &str| match text.split_once(" on ") {
            Some((role, on)) => self.binding(role, Some(on)),
            None => self.binding(text, None),
        };
        texts.iter().map(|text| split(text)).collect()
    }

    fn create_user(&mut self, call: &CreateUser) -> Result<AccessAnswer, Refusal> {
        check_name("user", &call.user)?;
        let name = format!("user/{}", call.user);
        match self.body(&name) {
            Some(RowBody::User(there)) if made_before(there.id, call.id) => return Ok(AccessAnswer::Done),
            Some(_) => return Err(exists(ErrorCode::UserExists, "user", &call.user)),
            None => {}
        }
        if call.service && call.password_hash.is_some() {
            let message = "a service has no password; give it a token (`hive token create`)";
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        call.namespace.as_deref().map_or(Ok(()), |namespace| check_name("namespace", namespace))?;
        let tenant = self.tenant_of(&call.user)?;
        let roles = self.bindings(&call.roles)?;
        self.check_bindings(&roles, tenant.as_ref(), || format!("make user '{}' with these roles", call.user))?;
        let id = self.id_of("user", call.id)?;
        let row = UserRow {
            id,
            service: call.service,
            tenant,
            roles,
            password: call.password_hash.clone(),
            disabled: false,
            namespace: call.namespace.clone(),
            created_ms: self.now_ms,
            requests: Requests::default(),
        };
        self.set(name, RowBody::User(row));
        Ok(AccessAnswer::Done)
    }

    fn change_user(&mut self, call: &ChangeUser) -> Result<AccessAnswer, Refusal> {
        let mut user = self.user(&call.user)?;
        if user.requests.has(call.id) {
            return Ok(AccessAnswer::Done);
        }
        if user.service && call.password_hash.is_some() {
            let message = "a service has no password; give it a token (`hive token create`)";
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        if call.password_hash.is_some() && call.no_password {
            let message = "no_password and password contradict each other; give one of them";
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        if call.password_hash.is_some() {
            self.check_user(&user, None, || format!("set the password of user '{}'", call.user))?;
        }
        if user.disabled && call.disabled == Some(false) {
            self.check_user(&user, None, || format!("enable user '{}'", call.user))?;
        }
        match call.namespace.as_deref() {
            None => (),
            Some("") => user.namespace = None,
            Some(namespace) => {
                check_name("namespace", namespace)?;
                user.namespace = Some(namespace.to_string());
            }
        }
        user.disabled = call.disabled.unwrap_or(user.disabled);
        if call.no_password || call.password_hash.is_some() {
            user.password = call.password_hash.clone();
        }
        user.requests = user.requests.with(call.id);
        self.set(format!("user/{}", call.user), RowBody::User(user));
        Ok(AccessAnswer::Done)
    }

    fn delete_user(&mut self, name: &str) -> Result<AccessAnswer, Refusal> {
        let user = self.user(name)?;
        let owned = |body: &RowBody| match body {
            RowBody::Token(token) => token.user.1 == user.id,
            RowBody::S3Key(key) => key.user.1 == user.id,
            _ => false,
        };
        let tokens = self.directory.rows().iter().filter(|(_, row)| row.body.as_ref().is_some_and(owned));
        let tokens: Vec<RowName> = tokens.take(TOKENS_AT_A_TIME).map(|(name, _)| name.clone()).collect();
        self.changes.extend(tokens.into_iter().map(|token| (token, None)));
        self.changes.push((format!("user/{name}"), None));
        Ok(AccessAnswer::Done)
    }

    fn grant_role(&mut self, call: &GrantRole) -> Result<AccessAnswer, Refusal> {
        let mut user = self.user(&call.user)?;
        if user.requests.has(call.id) {
            return Ok(AccessAnswer::Done);
        }
        let binding = self.binding(&call.role, call.on.as_deref())?;
        let known = user.roles.contains(&binding);
        // A grant with an id is remembered though it changes nothing: its retry may come after the role was revoked.
        if known && call.id == 0 {
            return Ok(AccessAnswer::Done);
        }
        if !known {
            let what = || format!("give role '{}' to user '{}'", binding_text(&binding).escape_debug(), call.user);
            self.check_bindings(core::slice::from_ref(&binding), user.tenant.as_ref(), what)?;
            if user.roles.len() >= BINDINGS_MAX {
                return Err(too_many_roles());
            }
            user.roles.push(binding);
        }
        user.requests = user.requests.with(call.id);
        self.set(format!("user/{}", call.user), RowBody::User(user));
        Ok(AccessAnswer::Done)
    }

    fn revoke_role(&mut self, call: &RevokeRole) -> Result<AccessAnswer, Refusal> {
        let mut user = self.user(&call.user)?;
        if user.requests.has(call.id) {
            return Ok(AccessAnswer::Done);
        }
        let on = call.on.as_deref().map(|on| pattern("on", on)).transpose()?;
        let binding = Binding { role: call.role.clone(), on };
        let before = user.roles.len();
        user.roles.retain(|own| *own != binding);
        if user.roles.len() == before {
            let message = format!(
                "user '{}' does not have the role '{}'; `hive user show {}` shows its roles as they were granted",
                call.user,
                binding_text(&binding).escape_debug(),
                call.user
            );
            return Err(Refusal::new(ErrorCode::NoSuchRole, message));
        }
        user.requests = user.requests.with(call.id);
        self.set(format!("user/{}", call.user), RowBody::User(user));
        Ok(AccessAnswer::Done)
    }

    fn create_token(&mut self, call: &CreateToken) -> Result<AccessAnswer, Refusal> {
        let user = self.user(&call.user)?;
        check_terms(&call.note, call.expires_in_s)?;
        let id = format!("{:016x}", call.id);
        let name = format!("token/{id}");
        let on = call.on.as_deref().map(|on| pattern("on", on)).transpose()?;
        self.check_user(&user, on.as_ref(), || format!("make a token for user '{}'", call.user))?;
        let own = match self.body(&name) {
            Some(RowBody::Token(made)) => {
                call.of_request && (made.user.1, &made.on, &made.note) == (user.id, &on, &call.note)
            }
            _ => false,
        };
        let taken = self.directory.rows().contains_key(&name) || self.directory.identity(call.id).is_some();
        if call.id == 0 || taken && !own {
            return Err(Refusal::new(ErrorCode::Conflict, "the token's id is taken: nothing was made; retry"));
        }
        let token = TokenRow {
            user: (call.user.clone(), user.id),
            hash: call.hash.clone(),
            on,
            expires_ms: call.expires_in_s.map(|seconds| self.now_ms.saturating_add(seconds * 1_000)),
            note: call.note.clone(),
            created_ms: self.now_ms,
        };
        let info: TokenInfo = token_info(&id, &token);
        self.set(name, RowBody::Token(token));
        Ok(AccessAnswer::Token(Box::new(info)))
    }

    fn revoke_token(&mut self, call: &RevokeToken) -> Result<AccessAnswer, Refusal> {
        let name = format!("token/{}", call.id);
        let missing = || {
            let message =
                format!("token '{}' does not exist; `hive token list` shows those that do", call.id.escape_debug());
            Refusal::new(ErrorCode::NoSuchToken, message)
        };
        let Some(RowBody::Token(token)) = self.body(&name) else { return Err(missing()) };
        if call.user.as_ref().is_some_and(|user| *user != token.user.0) {
            return Err(missing());
        }
        self.changes.push((name, None));
        Ok(AccessAnswer::Done)
    }

    fn create_root(&mut self, call: &CreateRoot) -> Result<AccessAnswer, Refusal> {
        // The directory has never changed: a root user that was deleted is not made again, however long ago that was.
        if self.directory.epoch() > 0 {
            return Err(exists(ErrorCode::UserExists, "user", ROOT_USER));
        }
        let name = format!("user/{ROOT_USER}");
        let row = UserRow {
            id: call.user_id,
            service: false,
            tenant: None,
            roles: vec![Binding { role: "root".into(), on: None }],
            password: None,
            disabled: false,
            namespace: None,
            created_ms: self.now_ms,
            requests: Requests::default(),
        };
        let token = TokenRow {
            user: (ROOT_USER.into(), call.user_id),
            hash: call.hash.clone(),
            on: None,
            expires_ms: None,
            note: "made at the world's first start".into(),
            created_ms: self.now_ms,
        };
        self.set(name, RowBody::User(row));
        self.set(format!("token/{:016x}", call.id), RowBody::Token(token));
        Ok(AccessAnswer::Done)
    }

    /// Rows that can be forgotten or removed by the way, and the epoch that this raises the floor to.
    fn housekeeping(&self) -> (Vec<RowChange>, Vec<RowName>, u64) {
        let old = |ms: u64| ms.saturating_add(FORGET_AFTER_MS) < self.now_ms;
        let (mut forgotten, mut expired, mut floor) = (Vec::new(), Vec::new(), 0);
        for (name, row) in self.directory.rows() {
            if forgotten.len() + expired.len() >= FORGET_AT_A_TIME || self.now_ms == 0 {
                break;
            }
            if self.changes.iter().any(|(changed, _)| changed == name) {
                continue;
            }
            match &row.body {
                None if old(row.changed_ms) => {
                    floor = floor.max(row.epoch);
                    forgotten.push(RowChange { name: name.clone(), was: Some(row.epoch), row: None });
                }
                Some(RowBody::Token(token)) if token.expires_ms.is_some_and(old) => expired.push(name.clone()),
                Some(RowBody::S3Key(key)) if key.expires_ms.is_some_and(old) => expired.push(name.clone()),
                _ => {}
            }
        }
        (forgotten, expired, floor)
    }

    fn finish(mut self, answer: AccessAnswer) -> Result<Edited, Refusal> {
        if self.changes.is_empty() {
            return Ok(Edited { changes: Vec::new(), answer, floor: 0 });
        }
        let rows = self.directory.rows();
        let new = self.changes.iter().filter(|(name, _)| !rows.contains_key(name)).count();
        if rows.len() + new > ROWS_MAX {
            let message = format!(
                "the directory has {} of at most {ROWS_MAX} rows, deleted names of the last 30 days among them; delete users and tokens that nobody uses, or give tokens an end",
                rows.len()
            );
            return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
        }
        let (mut changes, expired, floor) = self.housekeeping();
        self.changes.extend(expired.into_iter().map(|name| (name, None)));
        let epoch = self.directory.epoch() + 1;
        changes.extend(self.changes.into_iter().map(|(name, body)| {
            let was = rows.get(&name).map(|row| row.epoch);
            RowChange { name, was, row: Some(Row { epoch, changed_ms: self.now_ms, body }) }
        }));
        Ok(Edited { changes, answer, floor })
    }
}

/// Refuses a note or a life of a credential that is out of bounds.
fn check_terms(note: &str, expires_in_s: Option<u64>) -> Result<(), Refusal> {
    if note.len() > NOTE_BYTES_MAX {
        let message = format!("note: at most {NOTE_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    if expires_in_s.is_some_and(|seconds| !(1..=EXPIRY_S_MAX).contains(&seconds)) {
        let message = format!("expires_in_s: 1 to {EXPIRY_S_MAX} seconds");
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    Ok(())
}

fn too_many_roles() -> Refusal {
    let message =
        format!("a user or group has at most {BINDINGS_MAX} roles; put their rules into one role (`hive role create`)");
    Refusal::new(ErrorCode::LimitOutOfRange, message)
}
