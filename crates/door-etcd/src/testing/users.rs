//! Users and roles for tests of Auth: names, passwords, grants, rules. No rule is enforced.
//!
//! Always: refusals have the codes that the directory gives.
//! Not here: the directory (core-access).

use base_types::access::{AccessAction, AccessAnswer, CreateRole, RoleInfo, Roles, UserInfo, Users as Page};
use base_types::{ErrorCode, Refusal};
use std::collections::BTreeMap;

#[derive(Default)]
struct User {
    password: Option<String>,
    roles: Vec<String>,
}

/// Who there is.
#[derive(Default)]
pub(super) struct Users {
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, Vec<String>>,
    /// As the directory's epoch.
    revision: u64,
}

fn missing(code: ErrorCode, what: &str) -> Refusal {
    Refusal::new(code, format!("there is no '{what}'"))
}

impl Users {
    pub fn with_root() -> Users {
        let mut users = Users::default();
        let root = User { password: Some("root".into()), roles: vec!["root".into()] };
        users.users.insert("root".into(), root);
        users
    }

    pub fn token(&self, user: &str, password: &str) -> Result<String, Refusal> {
        match self.users.get(user) {
            Some(known) if known.password.as_deref() == Some(password) => Ok(format!("token.{user}")),
            _ => Err(Refusal::new(ErrorCode::Unauthenticated, "the name or password counts for nothing")),
        }
    }

    pub fn of_token(&self, token: &str) -> Option<u64> {
        self.of_certificate(token.strip_prefix("token.")?)
    }

    pub fn of_certificate(&self, user: &str) -> Option<u64> {
        self.users.keys().position(|known| known == user).map(|place| place as u64)
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn call(&mut self, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        let changes = !call.read_only();
        let answer = self.answer(call)?;
        self.revision += u64::from(changes);
        Ok(answer)
    }

    fn answer(&mut self, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        match call {
            AccessAction::CreateUser(call) => {
                if self.users.contains_key(&call.user) {
                    return Err(Refusal::new(ErrorCode::UserExists, "it exists"));
                }
                let user = User { password: call.password.map(|secret| secret.0), roles: call.roles };
                self.users.insert(call.user, user);
            }
            AccessAction::ChangeUser(call) => {
                self.user(&call.user)?.password = call.password.map(|secret| secret.0);
            }
            AccessAction::DeleteUser(call) => {
                self.user(&call.user)?;
                self.users.remove(&call.user);
            }
            AccessAction::DescribeUser(call) => {
                let roles = self.user(&call.user)?.roles.clone();
                let info = UserInfo { user: call.user, roles, ..UserInfo::default() };
                return Ok(AccessAnswer::User(Box::new(info)));
            }
            AccessAction::ListUsers(_) => {
                let info = |user: &String| UserInfo { user: user.clone(), ..UserInfo::default() };
                let users = self.users.keys().map(info).collect();
                return Ok(AccessAnswer::Users(Box::new(Page { users, next: None })));
            }
            AccessAction::GrantRole(call) => {
                if !self.roles.contains_key(&call.role) && call.role != "root" {
                    return Err(missing(ErrorCode::NoSuchRole, &call.role));
                }
                self.user(&call.user)?.roles.push(call.role);
            }
            AccessAction::RevokeRole(call) => self.user(&call.user)?.roles.retain(|role| *role != call.role),
            other => return self.role_call(other),
        }
        Ok(AccessAnswer::Done)
    }

    fn role_call(&mut self, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        match call {
            AccessAction::CreateRole(call) => {
                let CreateRole { role, rules, replace, .. } = *call;
                if self.roles.contains_key(&role) && !replace {
                    return Err(Refusal::new(ErrorCode::RoleExists, "it exists"));
                }
                self.roles
                    .insert(role, rules.into_iter().map(|rule| format!("{} on {}", rule.verbs, rule.on)).collect());
                Ok(AccessAnswer::Done)
            }
            AccessAction::DeleteRole(call) => match self.roles.remove(&call.role) {
                Some(_) => Ok(AccessAnswer::Done),
                None => Err(missing(ErrorCode::NoSuchRole, &call.role)),
            },
            AccessAction::DescribeRole(call) => {
                let rules = self.roles.get(&call.role).ok_or_else(|| missing(ErrorCode::NoSuchRole, &call.role))?;
                let info = RoleInfo { role: call.role.clone(), rules: rules.clone(), ..RoleInfo::default() };
                Ok(AccessAnswer::Role(Box::new(info)))
            }
            AccessAction::ListRoles(_) => {
                let info = |role: &String| RoleInfo { role: role.clone(), ..RoleInfo::default() };
                Ok(AccessAnswer::Roles(Box::new(Roles { roles: self.roles.keys().map(info).collect() })))
            }
            other => Err(Refusal::new(ErrorCode::Internal, format!("{} is not in the model", other.name()))),
        }
    }

    fn user(&mut self, name: &str) -> Result<&mut User, Refusal> {
        self.users.get_mut(name).ok_or_else(|| missing(ErrorCode::NoSuchUser, name))
    }
}
