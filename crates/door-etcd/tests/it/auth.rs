//! Users, roles, sessions.

use super::*;
use door_etcd::proto::authpb::{permission::Type, Permission, UserAddOptions};
use door_etcd::CertificateUser;
use pb::auth_client::AuthClient;

fn secure() -> Bed {
    Bed::with(MemoryStore::new(true), Limits::default())
}

fn as_root<T>(message: T) -> tonic::Request<T> {
    with_token(message, "token.root")
}

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("token", token.parse().unwrap());
    request
}

fn auth(bed: &Bed) -> AuthClient<Connection> {
    AuthClient::new(bed.connection())
}

fn named(name: &str, password: &str) -> pb::AuthenticateRequest {
    pb::AuthenticateRequest { name: name.into(), password: password.into() }
}

#[tokio::test]
async fn tokens_open_the_door() {
    let bed = secure();
    let empty = "etcdserver: user name is empty";
    refused(bed.range(all()).await, Code::InvalidArgument, empty);
    let text = "etcdserver: invalid auth token";
    refused(bed.kv().range(with_token(all(), "wrong")).await, Code::Unauthenticated, text);
    let failed = "etcdserver: authentication failed, invalid user ID or password";
    refused(auth(&bed).authenticate(named("root", "no")).await, Code::InvalidArgument, failed);
    refused(auth(&bed).authenticate(named("", "no")).await, Code::InvalidArgument, empty);
    let token = auth(&bed).authenticate(named("root", "root")).await.unwrap().into_inner().token;
    bed.kv().range(with_token(all(), &token)).await.unwrap();
    let mut bearer = tonic::Request::new(all());
    bearer.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    bed.kv().range(bearer).await.unwrap();
    let mut binary = tonic::Request::new(all());
    let value = tonic::metadata::MetadataValue::try_from(&b"\xff\xfe"[..]).unwrap();
    binary.metadata_mut().insert("token", value);
    refused(bed.kv().range(binary).await, Code::Unauthenticated, text);
    let mut certificate = tonic::Request::new(all());
    certificate.extensions_mut().insert(CertificateUser("root".into()));
    bed.kv().range(certificate).await.unwrap();
}

#[tokio::test]
async fn open_world_has_no_auth() {
    let bed = Bed::new();
    let text = "etcdserver: authentication is not enabled";
    // The user may pick a namespace all the same.
    bed.put("a", "1").await;
    let token = auth(&bed).authenticate(named("any@other", "any")).await.unwrap().into_inner().token;
    assert_eq!(bed.kv().range(with_token(all(), &token)).await.unwrap().into_inner().count, 0);
    refused(auth(&bed).authenticate(named("root", "root")).await, Code::FailedPrecondition, text);
    refused(auth(&bed).auth_disable(pb::AuthDisableRequest {}).await, Code::FailedPrecondition, text);
    let status = auth(&bed).auth_enable(pb::AuthEnableRequest {}).await.unwrap_err();
    assert!(status.message().contains("access.required = true"), "{}", status.message());
    assert!(!auth(&bed).auth_status(pb::AuthStatusRequest {}).await.unwrap().into_inner().enabled);
    let secure = secure();
    auth(&secure).auth_enable(as_root(pb::AuthEnableRequest {})).await.unwrap();
    assert!(auth(&secure).auth_status(as_root(pb::AuthStatusRequest {})).await.unwrap().into_inner().enabled);
    let status = auth(&secure).auth_disable(as_root(pb::AuthDisableRequest {})).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
}

/// As etcd's: clients see by it that users, roles or permissions have changed.
#[tokio::test]
async fn auth_revision_grows_with_each_change() {
    let bed = secure();
    let mut client = auth(&bed);
    let mut before = None;
    for name in ["ann", "bob", "bob"] {
        let add = pb::AuthUserAddRequest { name: name.into(), password: "secret".into(), ..Default::default() };
        let made = client.user_add(as_root(add)).await.is_ok();
        let status = client.auth_status(as_root(pb::AuthStatusRequest {})).await.unwrap().into_inner();
        let grown = before.is_none_or(|before| status.auth_revision > before);
        assert_eq!(grown, made, "{name}: {before:?}, {}", status.auth_revision);
        before = Some(status.auth_revision);
    }
}

#[tokio::test]
async fn users_are_made_and_removed() {
    let bed = secure();
    let mut client = auth(&bed);
    let add =
        |name: &str| pb::AuthUserAddRequest { name: name.into(), password: "secret".into(), ..Default::default() };
    client.user_add(as_root(add("ann"))).await.unwrap();
    refused(
        client.user_add(as_root(add("ann"))).await,
        Code::FailedPrecondition,
        "etcdserver: user name already exists",
    );
    refused(client.user_add(as_root(add(""))).await, Code::InvalidArgument, "etcdserver: user name is empty");
    let robot = pb::AuthUserAddRequest { options: Some(UserAddOptions { no_password: true }), ..add("robot") };
    client.user_add(as_root(robot)).await.unwrap();
    let hashed = pb::AuthUserAddRequest { hashed_password: "x".into(), ..add("bob") };
    assert_eq!(client.user_add(as_root(hashed)).await.unwrap_err().code(), Code::InvalidArgument);
    let users = client.user_list(as_root(pb::AuthUserListRequest {})).await.unwrap().into_inner().users;
    assert_eq!(users, ["ann", "robot", "root"]);
    client.authenticate(named("ann", "secret")).await.unwrap();
    let change = pb::AuthUserChangePasswordRequest { name: "ann".into(), password: "new".into(), ..Default::default() };
    client.user_change_password(as_root(change)).await.unwrap();
    client.authenticate(named("ann", "new")).await.unwrap();
    let missing = "etcdserver: user name not found";
    let get = |name: &str| as_root(pb::AuthUserGetRequest { name: name.into() });
    refused(client.user_get(get("nobody")).await, Code::FailedPrecondition, missing);
    client.user_delete(as_root(pb::AuthUserDeleteRequest { name: "ann".into() })).await.unwrap();
    refused(client.user_get(get("ann")).await, Code::FailedPrecondition, missing);
}

#[tokio::test]
async fn roles_hold_permissions_on_prefixes_keys_and_ranges() {
    let bed = secure();
    let mut client = auth(&bed);
    let role = || "app".to_string();
    let missing = "etcdserver: role name not found";
    let get = || as_root(pb::AuthRoleGetRequest { role: role() });
    refused(client.role_get(get()).await, Code::FailedPrecondition, missing);
    let add = |name: String| as_root(pb::AuthRoleAddRequest { name });
    client.role_add(add(role())).await.unwrap();
    refused(client.role_add(add(role())).await, Code::FailedPrecondition, "etcdserver: role name already exists");
    refused(client.role_add(add(String::new())).await, Code::InvalidArgument, "etcdserver: role name is empty");
    let perm = |perm_type: Type, key: &str, end: &str| Permission {
        perm_type: perm_type as i32,
        key: bytes(key),
        range_end: bytes(end),
    };
    let grant = |perm: Option<Permission>| as_root(pb::AuthRoleGrantPermissionRequest { name: role(), perm });
    refused(client.role_grant_permission(grant(None)).await, Code::InvalidArgument, "etcdserver: permission not given");
    client.role_grant_permission(grant(Some(perm(Type::Read, "app/", "app0")))).await.unwrap();
    client.role_grant_permission(grant(Some(perm(Type::Readwrite, "app/", "app0")))).await.unwrap();
    client.role_grant_permission(grant(Some(perm(Type::Write, "\0", "\0")))).await.unwrap();
    let others = [perm(Type::Read, "key", ""), perm(Type::Readwrite, "a", "c"), perm(Type::Read, "m", "\0")];
    for other in &others {
        client.role_grant_permission(grant(Some(other.clone()))).await.unwrap();
    }
    let backwards = client.role_grant_permission(grant(Some(perm(Type::Read, "c", "a")))).await;
    refused(backwards, Code::InvalidArgument, "etcdserver: invalid auth management");
    let held = client.role_get(get()).await.unwrap().into_inner().perm;
    assert_eq!(held[..2], [perm(Type::Readwrite, "app/", "app0"), perm(Type::Write, "\0", "\0")]);
    assert_eq!(held[2..], others);
    let revoke = |key: &str, end: &str| {
        as_root(pb::AuthRoleRevokePermissionRequest { role: role(), key: bytes(key), range_end: bytes(end) })
    };
    for (key, end) in [("\0", "\0"), ("a", "c"), ("m", "\0")] {
        client.role_revoke_permission(revoke(key, end)).await.unwrap();
    }
    let held = client.role_get(get()).await.unwrap().into_inner().perm;
    assert_eq!(held, [perm(Type::Readwrite, "app/", "app0"), perm(Type::Read, "key", "")]);
    let text = "etcdserver: permission is not granted to the role";
    refused(client.role_revoke_permission(revoke("\0", "\0")).await, Code::FailedPrecondition, text);
    assert_eq!(client.role_list(as_root(pb::AuthRoleListRequest {})).await.unwrap().into_inner().roles, ["app"]);

    let user = || "root".to_string();
    client.user_grant_role(as_root(pb::AuthUserGrantRoleRequest { user: user(), role: role() })).await.unwrap();
    let roles = client.user_get(as_root(pb::AuthUserGetRequest { name: user() })).await.unwrap().into_inner().roles;
    assert_eq!(roles, ["root", "app"]);
    let revoke = || as_root(pb::AuthUserRevokeRoleRequest { name: user(), role: role() });
    client.user_revoke_role(revoke()).await.unwrap();
    let text = "etcdserver: role is not granted to the user";
    refused(client.user_revoke_role(revoke()).await, Code::FailedPrecondition, text);
    client.role_delete(as_root(pb::AuthRoleDeleteRequest { role: role() })).await.unwrap();
    refused(client.role_get(get()).await, Code::FailedPrecondition, missing);
}
