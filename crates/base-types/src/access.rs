//! Who asks, and the calls on the directory of users, roles, tokens and tenants.
//!
//! ```text
//!   Caller      what a door knows of who asks          Authority   what goes with a forwarded operation
//!   OidcUser    somebody that an OIDC issuer vouched for: no row of the directory
//!   CreateUser, GrantRole, CreateToken, …  ──▶ AccessAction ──▶ AccessAnswer
//! ```
//! The fields are the HTTP JSON API's own; docs/guides/access.md has each.
//!
//! Always: secrets are drawn and hashed at the edge: no call holds a token's secret or a password when a core gets it
//! ([`CreateToken::hash`], [`CreateUser::password_hash`] are all it sees).
//! Not here: what is decided (base-access), how rows change (core-access).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands for every OIDC user where a credential's id is asked for: the last epoch at which a group, role or tenant changed
/// is that of all of them. No row of the directory has this id.
pub const OIDC_CREDENTIAL: u64 = u64::MAX;

/// Somebody without a row in the directory: an OIDC issuer said who it is and in which groups. Proved by the edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OidcUser {
    /// What messages call it.
    pub name: String,
    /// Its S3 account, which hangs on the issuer and the subject.
    pub account: String,
    /// The ids of the directory's groups that it is in. What they allow is looked up at each use.
    pub groups: Vec<u64>,
    /// From when it counts for nothing, Unix milliseconds.
    pub expires_ms: u64,
}

/// Who asks, as a door found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The door asks nobody who they are.
    Anyone,
    /// This node itself, or a client on whose behalf a door has decided without a credential.
    Node,
    /// A credential of the directory, proved.
    Identity {
        /// Its id.
        credential: u64,
        /// The door has decided already (by a bucket's policy), at this epoch of the directory.
        decided_at: Option<u64>,
    },
    /// Somebody that an OIDC issuer vouched for.
    Oidc {
        /// Who.
        user: Arc<OidcUser>,
        /// As of an identity.
        decided_at: Option<u64>,
    },
}

impl Caller {
    /// What goes with the operations of a request that was decided.
    pub fn authority(&self) -> Authority {
        match self {
            Caller::Node => Authority::Node,
            Caller::Identity { decided_at: None, .. } | Caller::Oidc { decided_at: None, .. } | Caller::Anyone => {
                Authority::Anyone
            }
            Caller::Identity { credential, decided_at: Some(epoch) } => {
                Authority::Decided { credential: *credential, epoch: *epoch }
            }
            Caller::Oidc { decided_at: Some(epoch), .. } => {
                Authority::Decided { credential: OIDC_CREDENTIAL, epoch: *epoch }
            }
        }
    }
}

/// What goes with an operation on its way to the cluster's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authority {
    /// Of a node's own work, or an open world.
    Node,
    /// From a door that asks nobody who they are.
    Anyone,
    /// Decided for this credential at this epoch of the directory.
    Decided {
        /// The credential's id.
        credential: u64,
        /// The epoch.
        epoch: u64,
    },
}

macro_rules! calls {
    ($($call:ident $access:ident;)*) => {
        /// A call on the directory. Boxed: requests are passed around by value.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // Each is explained at its struct.
        pub enum AccessAction { $($call(Box<$call>),)* }

        impl AccessAction {
            /// The names of all.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($call),)*];

            /// The call's name.
            pub fn name(&self) -> &'static str {
                match self { $(AccessAction::$call(_) => stringify!($call),)* }
            }

            /// Whether it changes nothing.
            pub fn read_only(&self) -> bool {
                match self { $(AccessAction::$call(_) => calls!(@read $access),)* }
            }

            /// Reads the call of this name from its fields; `None` where there is no such call.
            pub fn read<'de, D: Deserializer<'de>>(name: &str, fields: D) -> Option<Result<AccessAction, D::Error>> {
                match name {
                    // Made by a node at its world's first start, never by a client.
                    "CreateRoot" => None,
                    $(stringify!($call) => {
                        Some($call::deserialize(fields).map(|call| AccessAction::$call(Box::new(call))))
                    })*
                    _ => None,
                }
            }
        }

        $(impl From<$call> for AccessAction {
            fn from(call: $call) -> AccessAction {
                AccessAction::$call(Box::new(call))
            }
        })*
    };
    (@read read) => { true };
    (@read write) => { false };
}

calls! {
    CreateTenant write;
    DeleteTenant write;
    ListTenants read;
    CreateUser write;
    ChangeUser write;
    DeleteUser write;
    DescribeUser read;
    ListUsers read;
    GrantRole write;
    RevokeRole write;
    CreateRole write;
    DeleteRole write;
    DescribeRole read;
    ListRoles read;
    CreateGroup write;
    DeleteGroup write;
    ListGroups read;
    CreateToken write;
    RevokeToken write;
    ListTokens read;
    CreateS3Key write;
    RevokeS3Key write;
    ListS3Keys read;
    WhoAmI read;
    CreateRoot write;
}

/// A password on its way from a client to the edge. Never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub String);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Secret, D::Error> {
        String::deserialize(input).map(Secret)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str("")
    }
}

/// A secret on its way to the one who asked for it: shown once, and never in `Debug`.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShownOnce(pub String);

impl core::fmt::Debug for ShownOnce {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ShownOnce(…)")
    }
}

/// Makes a tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTenant {
    /// Its name. Its users are called `name@tenant`.
    pub tenant: String,
    /// What belongs to it, for example `kv/shop-*` and `bucket/shop-*`.
    pub owns: Vec<String>,
    /// The id that follows from the request's, where it has one; zero: the core draws one. A tenant of this name and id is one that
    /// this request made before.
    #[serde(skip)]
    pub id: u64,
}

/// Removes a tenant that has no users.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteTenant {
    /// Its name.
    pub tenant: String,
}

/// Lists tenants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListTenants {}

/// Makes a user or a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// Its name; `name@tenant` for a tenant's.
    pub user: String,
    /// A program: it has no password.
    #[serde(default)]
    pub service: bool,
    /// Its roles, each `role` or `role on resource`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Its password; hashed at the edge.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// What the edge made of it.
    #[serde(skip)]
    pub password_hash: Option<String>,
    /// The etcd namespace that it is in where it picks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The id that follows from the request's, where it has one; zero: the core draws one. A user of this name and id is one that
    /// this request made before.
    #[serde(skip)]
    pub id: u64,
}

/// Changes a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// Its name.
    pub user: String,
    /// Whether it may do anything at all.
    pub disabled: Option<bool>,
    /// Its new password; hashed at the edge.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// It has no password any more.
    #[serde(default)]
    pub no_password: bool,
    /// What the edge made of the password.
    #[serde(skip)]
    pub password_hash: Option<String>,
    /// The etcd namespace that it is in where it picks none; empty: that of the listener again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Follows from the request's id, where it has one; zero: none. A user remembers the last such requests, and a retry of one of
    /// them changes nothing.
    #[serde(skip)]
    pub id: u64,
}

/// Removes a user and all of its tokens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteUser {
    /// Its name.
    pub user: String,
}

/// Describes a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeUser {
    /// Its name.
    pub user: String,
}

/// Lists users by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListUsers {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// From the page before.
    pub start_after: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Gives a role to a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRole {
    /// The user.
    pub user: String,
    /// The role.
    pub role: String,
    /// Only on this resource.
    pub on: Option<String>,
    /// Follows from the request's id, where it has one; zero: none. A user remembers the last such requests, and a retry of one of
    /// them changes nothing.
    #[serde(skip)]
    pub id: u64,
}

/// Takes a role from a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeRole {
    /// The user.
    pub user: String,
    /// The role.
    pub role: String,
    /// As it was granted.
    pub on: Option<String>,
    /// Follows from the request's id, where it has one; zero: none. A user remembers the last such requests, and a retry of one of
    /// them changes nothing.
    #[serde(skip)]
    pub id: u64,
}

/// One rule of a role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// Verbs with commas between them, or `all`.
    pub verbs: String,
    /// The resource.
    pub on: String,
}

/// Makes a role, or replaces the rules of one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRole {
    /// Its name.
    pub role: String,
    /// What it allows.
    pub rules: Vec<RuleText>,
    /// One of this name is replaced.
    #[serde(default)]
    pub replace: bool,
    /// Who may secure users may give it without having it.
    #[serde(default)]
    pub grantable: bool,
    /// The id that follows from the request's, where it has one; zero: it gets none. A role of this name and id is one that
    /// this request made before.
    #[serde(skip)]
    pub id: u64,
}

/// Removes a role. Who has it keeps nothing of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRole {
    /// Its name.
    pub role: String,
}

/// Describes a role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeRole {
    /// Its name.
    pub role: String,
}

/// Lists roles, built-in ones first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRoles {}

/// Makes a group, or replaces what one says: who an OIDC issuer puts into it has its roles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateGroup {
    /// Its name; `name@tenant` for a tenant's.
    pub group: String,
    /// The issuer, as its tokens name it (`iss`).
    pub issuer: String,
    /// What the issuer calls the group in its tokens; the group's own name, without the tenant, where absent.
    pub claim: Option<String>,
    /// Its roles, each `role` or `role on resource`. None: its members may do nothing by it.
    #[serde(default)]
    pub roles: Vec<String>,
    /// One of this name is replaced.
    #[serde(default)]
    pub replace: bool,
    /// The id that follows from the request's, where it has one; zero: the core draws one. A group of this name and id is one that
    /// this request made before.
    #[serde(skip)]
    pub id: u64,
}

/// Removes a group. Its members keep nothing of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteGroup {
    /// Its name.
    pub group: String,
}

/// Lists groups by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListGroups {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// From the page before.
    pub start_after: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Makes a bearer token for a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Whose.
    pub user: String,
    /// For so long; without end where absent.
    pub expires_in_s: Option<u64>,
    /// Only on this resource.
    pub on: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub note: String,
    /// Drawn by the edge.
    #[serde(skip)]
    pub id: u64,
    /// Of the secret that the edge has drawn.
    #[serde(skip)]
    pub hash: String,
    /// The id follows from the request's: what has it is what this request made before, and its secret is replaced.
    #[serde(skip)]
    pub of_request: bool,
}

/// Ends a token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    /// Its id, as `ListTokens` shows it.
    pub id: String,
    /// Whose it is; refused if it is another's.
    pub user: Option<String>,
}

/// Lists tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListTokens {
    /// Only this user's.
    pub user: Option<String>,
    /// From the page before.
    pub start_after: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Makes an S3 access key for a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateS3Key {
    /// Whose.
    pub user: String,
    /// For so long; without end where absent.
    pub expires_in_s: Option<u64>,
    /// Nothing but this resource, whatever allows more.
    pub on: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub note: String,
    /// The credential's id, drawn by the edge.
    #[serde(skip)]
    pub id: u64,
    /// The user's id that the secret was sealed for.
    #[serde(skip)]
    pub user_id: u64,
    /// Which key sealed the secret.
    #[serde(skip)]
    pub sealed_by: String,
    /// The secret as the edge sealed it.
    #[serde(skip)]
    pub sealed: String,
    /// The id follows from the request's: what has it is what this request made before, and its secret is replaced.
    #[serde(skip)]
    pub of_request: bool,
}

/// Ends an S3 access key of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeS3Key {
    /// Its public half, as `ListS3Keys` shows it.
    pub access_key: String,
    /// Whose it is; refused if it is another's.
    pub user: Option<String>,
}

/// Lists S3 access keys of users.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListS3Keys {
    /// Only this user's.
    pub user: Option<String>,
    /// From the page before.
    pub start_after: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Who asks, and what they may do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhoAmI {}

/// Makes the user `root` with its first token, where the directory is empty. A node's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRoot {
    /// The token's id.
    pub id: u64,
    /// The hash of its secret.
    pub hash: String,
    /// The user's id.
    pub user_id: u64,
}

/// What a call came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each is explained at its struct.
pub enum AccessAnswer {
    /// Done.
    Done,
    User(Box<UserInfo>),
    Users(Box<Users>),
    Role(Box<RoleInfo>),
    Roles(Box<Roles>),
    Groups(Box<Groups>),
    Token(Box<TokenInfo>),
    Tokens(Box<Tokens>),
    S3Key(Box<S3KeyInfo>),
    S3Keys(Box<S3Keys>),
    Tenants(Box<Tenants>),
}

impl AccessAnswer {
    /// Writes the answer's fields; of `Done` an empty object.
    pub fn write<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            AccessAnswer::Done => ListTenants {}.serialize(out),
            AccessAnswer::User(answer) => answer.serialize(out),
            AccessAnswer::Users(answer) => answer.serialize(out),
            AccessAnswer::Role(answer) => answer.serialize(out),
            AccessAnswer::Roles(answer) => answer.serialize(out),
            AccessAnswer::Groups(answer) => answer.serialize(out),
            AccessAnswer::Token(answer) => answer.serialize(out),
            AccessAnswer::Tokens(answer) => answer.serialize(out),
            AccessAnswer::S3Key(answer) => answer.serialize(out),
            AccessAnswer::S3Keys(answer) => answer.serialize(out),
            AccessAnswer::Tenants(answer) => answer.serialize(out),
        }
    }
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UserInfo {
    /// Its name.
    pub user: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// A program.
    pub service: bool,
    /// Known by an OIDC issuer's word, without a row here; the groups of the directory that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// It may do nothing for now.
    pub disabled: bool,
    /// Whether it has a password.
    pub password: bool,
    /// The etcd namespace that it is in where it picks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its roles, each `role` or `role on resource`.
    pub roles: Vec<String>,
    /// What they come to, each `verbs on resource`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
}

/// A page of users.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Users {
    /// The users.
    pub users: Vec<UserInfo>,
    /// The `start_after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoleInfo {
    /// Its name.
    pub role: String,
    /// Every world has it.
    pub builtin: bool,
    /// What it is for, of a built-in one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What it allows, each `verbs on resource`.
    pub rules: Vec<String>,
    /// Who may secure users may give it without having it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub grantable: bool,
}

/// Roles.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Roles {
    /// The roles.
    pub roles: Vec<RoleInfo>,
}

/// A group of OIDC users.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its name.
    pub group: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The issuer.
    pub issuer: String,
    /// What the issuer calls it.
    pub claim: String,
    /// Its roles, each `role` or `role on resource`.
    pub roles: Vec<String>,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
}

/// A page of groups.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Groups {
    /// The groups.
    pub groups: Vec<GroupInfo>,
    /// The `start_after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A token, without its secret, but for the one answer that made it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TokenInfo {
    /// Its id.
    pub id: String,
    /// The token itself, in the one answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<ShownOnce>,
    /// Whose it is.
    pub user: String,
    /// Only on this resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Until when, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
}

/// A page of tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// The tokens.
    pub tokens: Vec<TokenInfo>,
    /// The `start_after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An S3 access key of a user, without its secret, but for the one answer that made it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct S3KeyInfo {
    /// The public half.
    pub access_key: String,
    /// The secret half, in the one answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<ShownOnce>,
    /// Whose it is.
    pub user: String,
    /// What policies and ACLs of buckets call the user.
    pub account: String,
    /// Nothing but this resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Until when, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Which sealing key opens its secret.
    pub sealed_by: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
}

/// A page of S3 access keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct S3Keys {
    /// The keys.
    pub keys: Vec<S3KeyInfo>,
    /// The `start_after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A tenant.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantInfo {
    /// Its name.
    pub tenant: String,
    /// What belongs to it.
    pub owns: Vec<String>,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
}

/// Tenants.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tenants {
    /// The tenants.
    pub tenants: Vec<TenantInfo>,
}
