//! The Auth service: etcd's users, roles and permissions are those of Hive's directory. Nothing is kept apart.
//!
//! ```text
//!   user NAME           a user of the directory                    role NAME     a role of the directory
//!   permission on keys  a rule of the role on kv/<namespace>/<prefix> (permission.rs)
//! ```
//! Always: the directory decides who may change it; whether anybody is asked who they are is said in `node.toml`, so switching that on or off
//! here is refused unless it is so already.
//! Not here: the directory (core-access), passwords' hashes (edge-node).

mod permission;

use crate::door::{with_message, Door};
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::status::{
    of_refusal, unexpected, AUTH_FAILED, AUTH_NOT_ENABLED, PERMISSION_NOT_GIVEN, PERMISSION_NOT_GRANTED, ROLE_EMPTY,
    ROLE_NOT_GRANTED, USER_EMPTY,
};
use crate::store::{Place, Session};
use base_types::access::{
    AccessAction, AccessAnswer, ChangeUser, CreateRole, CreateUser, DeleteRole, DeleteUser, DescribeRole, DescribeUser,
    GrantRole, ListRoles, ListUsers, RevokeRole, RoleInfo, Secret, UserInfo,
};
use base_types::{ErrorCode, ErrorKind};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Pages of users that one list reads.
const USER_PAGES_MAX: usize = 1_000;

/// The service.
pub struct AuthService(pub Arc<Door>);

fn user_named(name: &str) -> Result<String, Status> {
    if name.is_empty() {
        return Err(USER_EMPTY.into());
    }
    Ok(name.to_string())
}

fn role_named(name: &str) -> Result<String, Status> {
    if name.is_empty() {
        return Err(ROLE_EMPTY.into());
    }
    Ok(name.to_string())
}

/// A role and what a grant narrows it to, as the directory writes both.
fn grant_of(role: &str) -> (String, Option<String>) {
    match role.split_once(" on ") {
        Some((role, on)) => (role.to_string(), Some(on.to_string())),
        None => (role.to_string(), None),
    }
}

impl AuthService {
    async fn call(&self, session: &Session, call: impl Into<AccessAction>) -> Result<AccessAnswer, Status> {
        self.0.store.access(session, call.into()).await.map_err(|refusal| of_refusal(&refusal))
    }

    async fn header<T>(&self, request: &Request<T>) -> Result<(Session, Option<pb::ResponseHeader>), Status> {
        let session = self.0.session(request).await?;
        let header = self.header_of(&session).await;
        Ok((session, header))
    }

    /// The directory is not the namespace's: its answers say nothing of a place.
    async fn header_of(&self, session: &Session) -> Option<pb::ResponseHeader> {
        let place = match self.0.describe(session, base_types::ReadConsistency::Eventual).await {
            Ok((_, place)) => place,
            Err(_) => Place::default(),
        };
        Some(self.0.header_without_stamp(session, place).await)
    }

    async fn change<T>(
        &self,
        request: &Request<T>,
        call: impl Into<AccessAction>,
    ) -> Result<Option<pb::ResponseHeader>, Status> {
        let (session, header) = self.header(request).await?;
        self.call(&session, call).await?;
        Ok(header)
    }

    async fn user(&self, session: &Session, user: String) -> Result<UserInfo, Status> {
        match self.call(session, DescribeUser { user }).await? {
            AccessAnswer::User(user) => Ok(*user),
            _ => Err(unexpected("DescribeUser")),
        }
    }

    async fn role(&self, session: &Session, role: String) -> Result<RoleInfo, Status> {
        match self.call(session, DescribeRole { role }).await? {
            AccessAnswer::Role(role) => Ok(*role),
            _ => Err(unexpected("DescribeRole")),
        }
    }

    /// Gives a role other rules. The directory replaces a role as a whole, so of two changes at a time one may be lost.
    async fn set_rules(&self, session: &Session, role: RoleInfo) -> Result<(), Status> {
        let RoleInfo { role, rules, grantable, .. } = role;
        let rules = rules.iter().filter_map(|rule| permission::rule_text(rule)).collect();
        self.call(session, CreateRole { role, rules, replace: true, grantable, id: 0 }).await.map(drop)
    }
}

#[tonic::async_trait]
impl Auth for AuthService {
    async fn auth_enable(
        &self,
        request: Request<pb::AuthEnableRequest>,
    ) -> Result<Response<pb::AuthEnableResponse>, Status> {
        let (_, header) = self.header(&request).await?;
        if !self.0.store.auth_required() {
            return Err(Status::failed_precondition(
                "hive: set access.required = true in every node.toml and restart each node; no client can switch it on",
            ));
        }
        Ok(Response::new(pb::AuthEnableResponse { header }))
    }

    async fn auth_disable(
        &self,
        request: Request<pb::AuthDisableRequest>,
    ) -> Result<Response<pb::AuthDisableResponse>, Status> {
        self.0.session(&request).await?;
        if !self.0.store.auth_required() {
            return Err(AUTH_NOT_ENABLED.into());
        }
        Err(Status::failed_precondition(
            "hive: access.required in node.toml says that callers are asked who they are; no client can switch it off",
        ))
    }

    async fn auth_status(
        &self,
        request: Request<pb::AuthStatusRequest>,
    ) -> Result<Response<pb::AuthStatusResponse>, Status> {
        let (_, header) = self.header(&request).await?;
        let enabled = self.0.store.auth_required();
        let auth_revision = self.0.store.auth_revision();
        Ok(Response::new(pb::AuthStatusResponse { header, enabled, auth_revision }))
    }

    async fn authenticate(
        &self,
        request: Request<pb::AuthenticateRequest>,
    ) -> Result<Response<pb::AuthenticateResponse>, Status> {
        let pb::AuthenticateRequest { name, password } = request.into_inner();
        user_named(&name)?;
        let token = self.0.store.authenticate(&name, &password).await.map_err(|refusal| match refusal.kind() {
            // Nobody is asked who they are, and no namespace is picked: clients of etcd continue without a token.
            _ if refusal.code == ErrorCode::AccessOff => of_refusal(&refusal),
            ErrorKind::Unauthenticated | ErrorKind::NotFound | ErrorKind::Invalid => {
                with_message(AUTH_FAILED, &refusal)
            }
            _ => of_refusal(&refusal),
        })?;
        // No header of a namespace: the token's may be another than that of this request.
        Ok(Response::new(pb::AuthenticateResponse { header: Some(pb::ResponseHeader::default()), token }))
    }

    async fn user_add(
        &self,
        request: Request<pb::AuthUserAddRequest>,
    ) -> Result<Response<pb::AuthUserAddResponse>, Status> {
        let pb::AuthUserAddRequest { name, password, options, hashed_password } = request.get_ref();
        let no_password = options.as_ref().is_some_and(|options| options.no_password);
        if !hashed_password.is_empty() {
            return Err(Status::invalid_argument(
                "hive: passwords are hashed by the server, with another function than etcd's; send the password itself",
            ));
        }
        let call = CreateUser {
            user: user_named(name)?,
            service: no_password,
            roles: Vec::new(),
            password: (!no_password).then(|| Secret(password.clone())),
            password_hash: None,
            namespace: None,
            id: 0,
        };
        let header = self.change(&request, call).await?;
        Ok(Response::new(pb::AuthUserAddResponse { header }))
    }

    async fn user_get(
        &self,
        request: Request<pb::AuthUserGetRequest>,
    ) -> Result<Response<pb::AuthUserGetResponse>, Status> {
        let name = user_named(&request.get_ref().name)?;
        let (session, header) = self.header(&request).await?;
        let roles = self.user(&session, name).await?.roles;
        Ok(Response::new(pb::AuthUserGetResponse { header, roles }))
    }

    async fn user_list(
        &self,
        request: Request<pb::AuthUserListRequest>,
    ) -> Result<Response<pb::AuthUserListResponse>, Status> {
        let (session, header) = self.header(&request).await?;
        let (mut users, mut start_after) = (Vec::new(), None);
        for _ in 0..USER_PAGES_MAX {
            let call = ListUsers { tenant: None, start_after, limit: None };
            let AccessAnswer::Users(page) = self.call(&session, call).await? else {
                return Err(unexpected("ListUsers"));
            };
            users.extend(page.users.into_iter().map(|user| user.user));
            start_after = page.next;
            if start_after.is_none() {
                break;
            }
        }
        Ok(Response::new(pb::AuthUserListResponse { header, users }))
    }

    async fn user_delete(
        &self,
        request: Request<pb::AuthUserDeleteRequest>,
    ) -> Result<Response<pb::AuthUserDeleteResponse>, Status> {
        let user = user_named(&request.get_ref().name)?;
        let header = self.change(&request, DeleteUser { user }).await?;
        Ok(Response::new(pb::AuthUserDeleteResponse { header }))
    }

    async fn user_change_password(
        &self,
        request: Request<pb::AuthUserChangePasswordRequest>,
    ) -> Result<Response<pb::AuthUserChangePasswordResponse>, Status> {
        let pb::AuthUserChangePasswordRequest { name, password, hashed_password } = request.get_ref();
        if !hashed_password.is_empty() {
            return Err(Status::invalid_argument(
                "hive: passwords are hashed by the server, with another function than etcd's; send the password itself",
            ));
        }
        let call = ChangeUser {
            user: user_named(name)?,
            disabled: None,
            password: Some(Secret(password.clone())),
            no_password: false,
            password_hash: None,
            namespace: None,
            id: 0,
        };
        let header = self.change(&request, call).await?;
        Ok(Response::new(pb::AuthUserChangePasswordResponse { header }))
    }

    async fn user_grant_role(
        &self,
        request: Request<pb::AuthUserGrantRoleRequest>,
    ) -> Result<Response<pb::AuthUserGrantRoleResponse>, Status> {
        let user = user_named(&request.get_ref().user)?;
        let (role, on) = grant_of(&role_named(&request.get_ref().role)?);
        let header = self.change(&request, GrantRole { user, role, on, id: 0 }).await?;
        Ok(Response::new(pb::AuthUserGrantRoleResponse { header }))
    }

    async fn user_revoke_role(
        &self,
        request: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Result<Response<pb::AuthUserRevokeRoleResponse>, Status> {
        let name = user_named(&request.get_ref().name)?;
        let granted = role_named(&request.get_ref().role)?;
        let (session, header) = self.header(&request).await?;
        if !self.user(&session, name.clone()).await?.roles.contains(&granted) {
            return Err(ROLE_NOT_GRANTED.into());
        }
        let (role, on) = grant_of(&granted);
        self.call(&session, RevokeRole { user: name, role, on, id: 0 }).await?;
        Ok(Response::new(pb::AuthUserRevokeRoleResponse { header }))
    }

    async fn role_add(
        &self,
        request: Request<pb::AuthRoleAddRequest>,
    ) -> Result<Response<pb::AuthRoleAddResponse>, Status> {
        let role = role_named(&request.get_ref().name)?;
        let header = self
            .change(&request, CreateRole { role, rules: Vec::new(), replace: false, grantable: false, id: 0 })
            .await?;
        Ok(Response::new(pb::AuthRoleAddResponse { header }))
    }

    async fn role_get(
        &self,
        request: Request<pb::AuthRoleGetRequest>,
    ) -> Result<Response<pb::AuthRoleGetResponse>, Status> {
        let role = role_named(&request.get_ref().role)?;
        let (session, header) = self.header(&request).await?;
        let rules = self.role(&session, role).await?.rules;
        let perm = permission::of_rules(&rules, &session.namespace);
        Ok(Response::new(pb::AuthRoleGetResponse { header, perm }))
    }

    async fn role_list(
        &self,
        request: Request<pb::AuthRoleListRequest>,
    ) -> Result<Response<pb::AuthRoleListResponse>, Status> {
        let (session, header) = self.header(&request).await?;
        let AccessAnswer::Roles(roles) = self.call(&session, ListRoles {}).await? else {
            return Err(unexpected("ListRoles"));
        };
        let roles = roles.roles.into_iter().map(|role| role.role).collect();
        Ok(Response::new(pb::AuthRoleListResponse { header, roles }))
    }

    async fn role_delete(
        &self,
        request: Request<pb::AuthRoleDeleteRequest>,
    ) -> Result<Response<pb::AuthRoleDeleteResponse>, Status> {
        let role = role_named(&request.get_ref().role)?;
        let header = self.change(&request, DeleteRole { role }).await?;
        Ok(Response::new(pb::AuthRoleDeleteResponse { header }))
    }

    async fn role_grant_permission(
        &self,
        request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<pb::AuthRoleGrantPermissionResponse>, Status> {
        let role = role_named(&request.get_ref().name)?;
        let perm = request.get_ref().perm.clone().ok_or(PERMISSION_NOT_GIVEN)?;
        let (session, header) = self.header(&request).await?;
        let rule = permission::rule(&perm, &session.namespace)?;
        let mut role = self.role(&session, role).await?;
        // As etcd: a permission on the same keys is replaced.
        role.rules.retain(|old| permission::resource(old) != permission::resource(&rule));
        role.rules.push(rule);
        self.set_rules(&session, role).await?;
        Ok(Response::new(pb::AuthRoleGrantPermissionResponse { header }))
    }

    async fn role_revoke_permission(
        &self,
        request: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<pb::AuthRoleRevokePermissionResponse>, Status> {
        let pb::AuthRoleRevokePermissionRequest { role, key, range_end } = request.get_ref().clone();
        let role = role_named(&role)?;
        let (session, header) = self.header(&request).await?;
        let on = permission::resource_of(&key, &range_end, &session.namespace)?;
        let mut role = self.role(&session, role).await?;
        let before = role.rules.len();
        role.rules.retain(|rule| permission::resource(rule) != Some(on.as_str()));
        if role.rules.len() == before {
            return Err(PERMISSION_NOT_GRANTED.into());
        }
        self.set_rules(&session, role).await?;
        Ok(Response::new(pb::AuthRoleRevokePermissionResponse { header }))
    }
}
