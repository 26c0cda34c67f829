//! Lists and descriptions, from the node's own copy once it is as new as the head.
//!
//! Always: an answer holds everything that was committed before the question came.
//! Held by: `an_answer_waits_for_the_copy`, `lists_have_pages_and_what_was_just_made`.
//! Not here: the decision who may ask.

use crate::family::{AccessState, PlanContext};
use crate::shown::{group_info, no_planner, no_such_role, no_such_user, rule_text, s3_key_info, token_info, user_info};
use crate::store;
use base_access::{builtin, Directory, RowBody, BUILTIN_ROLES};
use base_types::access::{
    AccessAction, AccessAnswer, Caller, Groups, OidcUser, RoleInfo, Roles, S3Keys, TenantInfo, Tenants, Tokens,
    UserInfo, Users,
};
use base_types::action::{ActionResult, Failure};
use base_types::{ErrorCode, Refusal};
use core::time::Duration;
use core_flow::rounds::{answer, one, only, Rounds};
use core_flow::{CallResult, Step};

/// The most users or tokens of one page.
const PAGE_MAX: u32 = 1_000;
/// The pause while the node's copy catches up, and how often.
const COPY_PAUSE: Duration = Duration::from_millis(10);
const COPY_WAITS_MAX: u32 = 200;

#[derive(Default)]
enum Stage {
    #[default]
    Begin,
    Head,
    Copy {
        epoch: u64,
        waits: u32,
    },
}

pub(crate) struct Read {
    call: AccessAction,
    by: Caller,
    stage: Stage,
}

impl Read {
    pub fn new(call: AccessAction, by: Caller) -> Read {
        Read { call, by, stage: Stage::Begin }
    }

    fn turn(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        // Who somebody is, this node decides; the head need not be asked.
        if let AccessAction::WhoAmI(_) = self.call {
            return Ok(done(who_am_i(&context.state.directory, &self.by)));
        }
        match core::mem::take(&mut self.stage) {
            Stage::Begin => {
                self.stage = Stage::Head;
                Ok(one(store::read_head()?))
            }
            Stage::Head => {
                let head = store::head(only(answers))?.unwrap_or_default().head;
                self.wait(context, head.epoch, 0)
            }
            Stage::Copy { epoch, waits } => self.wait(context, epoch, waits),
        }
    }

    fn wait(&mut self, context: &mut PlanContext<'_>, epoch: u64, waits: u32) -> Result<Step, Failure> {
        if context.state.directory.epoch() >= epoch {
            return Ok(done(read(&self.call, &context.state.directory)?));
        }
        if waits >= COPY_WAITS_MAX {
            let message = "this node's copy of the directory does not catch up; ask another node, or retry";
            return Err(Refusal::new(ErrorCode::NotReady, message).into());
        }
        context.state.wanted = true;
        self.stage = Stage::Copy { epoch, waits: waits + 1 };
        Ok(Step::Wait(COPY_PAUSE))
    }
}

fn done(found: AccessAnswer) -> Step {
    answer(ActionResult::Access(found), None)
}

fn who_am_i(directory: &Directory, by: &Caller) -> AccessAnswer {
    if let Caller::Oidc { user, .. } = by {
        return AccessAnswer::User(Box::new(oidc_user(directory, user)));
    }
    let Some(identity) = directory.resolve(by) else {
        let nobody = UserInfo { user: "(this node)".into(), allowed: vec!["all on *".into()], ..UserInfo::default() };
        return AccessAnswer::User(Box::new(nobody));
    };
    let known = directory.user(&identity.user).map(|user| user_info(&identity.user, user)).unwrap_or_default();
    let allowed = identity.rules.iter().map(rule_text).collect();
    AccessAnswer::User(Box::new(UserInfo { allowed, ..known }))
}

/// An OIDC user, also one without any group: it may ask why it may do nothing.
fn oidc_user(directory: &Directory, user: &OidcUser) -> UserInfo {
    let identity = directory.oidc_identity(user);
    UserInfo {
        user: user.name.clone(),
        tenant: identity.as_ref().and_then(|own| own.tenant.as_deref().map(String::from)),
        groups: Some(directory.names_of_groups(user)),
        allowed: identity.iter().flat_map(|own| own.rules.iter()).map(rule_text).collect(),
        ..UserInfo::default()
    }
}

/// The rows below a kind, after a name.
fn below<'a>(
    directory: &'a Directory,
    kind: &str,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a str, &'a RowBody)> {
    let prefix = format!("{kind}/");
    let from = format!("{prefix}{}", after.map_or(String::new(), |name| format!("{name}\0")));
    directory
        .rows()
        .range(from..)
        .map_while(move |(name, row)| Some((name.strip_prefix(&prefix)?, row.body.as_ref())))
        .filter_map(|(name, body)| Some((name, body?)))
}

fn limit_of(limit: Option<u32>) -> Result<usize, Refusal> {
    match limit.unwrap_or(PAGE_MAX) {
        0 => Err(Refusal::new(ErrorCode::LimitOutOfRange, "limit is 0; ask for at least one")),
        limit => Ok(limit.min(PAGE_MAX) as usize),
    }
}

/// A page of `limit`, and the name to start the next one after.
fn page<T>(found: impl Iterator<Item = T>, limit: usize, name: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    let mut list: Vec<T> = found.take(limit + 1).collect();
    let more = list.len() > limit;
    list.truncate(limit);
    let next = list.last().filter(|_| more).map(name);
    (list, next)
}

fn read(call: &AccessAction, directory: &Directory) -> Result<AccessAnswer, Refusal> {
    Ok(match call {
        AccessAction::DescribeUser(call) => {
            let user = directory.user(&call.user).ok_or_else(|| no_such_user(&call.user))?;
            let allowed =
                directory.identity(user.id).map_or(Vec::new(), |own| own.rules.iter().map(rule_text).collect());
            AccessAnswer::User(Box::new(UserInfo { allowed, ..user_info(&call.user, user) }))
        }
        AccessAction::ListUsers(call) => {
            let users = below(directory, "user", call.start_after.as_deref()).filter_map(|(name, body)| match body {
                RowBody::User(user) => Some(user_info(name, user)),
                _ => None,
            });
            let users = users.filter(|user| call.tenant.is_none() || user.tenant == call.tenant);
            let (users, next) = page(users, limit_of(call.limit)?, |user| user.user.clone());
            AccessAnswer::Users(Box::new(Users { users, next }))
        }
        AccessAction::DescribeRole(call) => AccessAnswer::Role(Box::new(role_info(directory, &call.role)?)),
        AccessAction::ListRoles(_) => {
            let own = below(directory, "role", None).map(|(name, _)| name);
            let names = BUILTIN_ROLES.iter().map(|(name, _)| *name).chain(own);
            let roles = names.map(|name| role_info(directory, name)).collect::<Result<_, _>>()?;
            AccessAnswer::Roles(Box::new(Roles { roles }))
        }
        AccessAction::ListGroups(call) => {
            let groups = below(directory, "group", call.start_after.as_deref()).filter_map(|(name, body)| match body {
                RowBody::Group(group) => Some(group_info(name, group)),
                _ => None,
            });
            let groups = groups.filter(|group| call.tenant.is_none() || group.tenant == call.tenant);
            let (groups, next) = page(groups, limit_of(call.limit)?, |group| group.group.clone());
            AccessAnswer::Groups(Box::new(Groups { groups, next }))
        }
        AccessAction::ListTokens(call) => {
            let tokens = below(directory, "token", call.start_after.as_deref()).filter_map(|(id, body)| match body {
                RowBody::Token(token) => Some(token_info(id, token)),
                _ => None,
            });
            let tokens = tokens.filter(|token| call.user.as_ref().is_none_or(|user| *user == token.user));
            let (tokens, next) = page(tokens, limit_of(call.limit)?, |token| token.id.clone());
            AccessAnswer::Tokens(Box::new(Tokens { tokens, next }))
        }
        AccessAction::ListS3Keys(call) => {
            let keys = below(directory, "s3key", call.start_after.as_deref()).filter_map(|(name, body)| match body {
                RowBody::S3Key(key) => Some(s3_key_info(name, key)),
                _ => None,
            });
            let keys = keys.filter(|key| call.user.as_ref().is_none_or(|user| *user == key.user));
            let (keys, next) = page(keys, limit_of(call.limit)?, |key| key.access_key.clone());
            AccessAnswer::S3Keys(Box::new(S3Keys { keys, next }))
        }
        AccessAction::ListTenants(_) => {
            let tenants = below(directory, "tenant", None).filter_map(|(name, body)| match body {
                RowBody::Tenant(tenant) => Some(TenantInfo {
                    tenant: name.to_string(),
                    owns: tenant.owns.iter().map(ToString::to_string).collect(),
                    created_ms: tenant.created_ms,
                }),
                _ => None,
            });
            AccessAnswer::Tenants(Box::new(Tenants { tenants: tenants.collect() }))
        }
        other => return Err(no_planner(other)),
    })
}

fn role_info(directory: &Directory, name: &str) -> Result<RoleInfo, Refusal> {
    if let Some(role) = builtin(name) {
        let about = BUILTIN_ROLES.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about);
        let rules = role.rules.iter().map(rule_text).collect();
        return Ok(RoleInfo { role: name.into(), builtin: true, about: about.into(), rules, grantable: false });
    }
    match directory.rows().get(&format!("role/{name}")).and_then(|row| row.body.as_ref()) {
        Some(RowBody::Role(role)) => {
            let rules = role.rules.iter().map(rule_text).collect();
            let about = String::new();
            Ok(RoleInfo { role: name.into(), builtin: false, about, rules, grantable: role.grantable })
        }
        _ => Err(no_such_role(name)),
    }
}

impl Rounds<AccessState> for Read {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        self.turn(context, answers).unwrap_or_else(|failure| Step::Done(Err(failure)))
    }
}
