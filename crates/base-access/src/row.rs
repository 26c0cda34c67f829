//! What the directory keeps: rows of JSON, each with the epoch of its last change.
//!
//! ```text
//!   tenant/<name>   user/<name>   role/<name>   group/<name>   token/<16 hexadecimal digits>   s3key/<access key>
//! ```
//!
//! Always: a row holds no secret, only hashes (`TokenRow::hash`, `UserRow::password`) and what only nodes with the sealing key
//! open (`S3KeyRow::sealed`); a row of a kind that this build does not know is kept as it is and gives nobody anything
//! (`tests::unknown_kinds_are_kept`); a name that is deleted leaves its row
//! without body, so that every node learns of it; what hangs on a name hangs on its id, so a later user of the same name gets
//! nothing of the earlier one's (`directory::tests::a_name_given_again_inherits_nothing`).
//! Not here: how rows change (core-access).

use crate::role::{builtin, Binding, Rule};
use base_types::{ErrorCode, Refusal};
use serde::{Deserialize, Serialize};

/// The longest name of a user, role, group or tenant.
pub const NAME_BYTES_MAX: usize = 128;
/// The most roles of a user or group, and rules of a role.
pub const BINDINGS_MAX: usize = 64;
/// The requests that a user, role or group remembers: more changes than one has while a client retries.
pub const REQUESTS_MAX: usize = 16;
/// The user that the root token is of.
pub const ROOT_USER: &str = "root";

/// A row's name: its kind, `/`, and what it is called.
pub type RowName = String;

/// A row as it was at an epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The directory's epoch of its last change.
    pub epoch: u64,
    /// When that was, Unix milliseconds.
    #[serde(default)]
    pub changed_ms: u64,
    /// `None`: deleted.
    pub body: Option<RowBody>,
}

/// What a row says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowBody {
    /// A tenant.
    Tenant(TenantRow),
    /// A user or a service.
    User(UserRow),
    /// A custom role.
    Role(RoleRow),
    /// A group of users of an OIDC issuer.
    Group(GroupRow),
    /// A bearer token.
    Token(TokenRow),
    /// An S3 access key of a user.
    S3Key(S3KeyRow),
    /// Of a later build, or damaged: kept, and passed over.
    #[serde(untagged)]
    Unknown(serde_json::Value),
}

/// A tenant: what its users have at most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TenantRow {
    /// Never another tenant's, whatever its name.
    pub id: u64,
    /// What belongs to it: no user of it reaches beyond.
    pub owns: Vec<crate::pattern::Pattern>,
    /// When it was made.
    pub created_ms: u64,
}

/// A user or a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserRow {
    /// Never another user's, whatever its name.
    pub id: u64,
    /// A program rather than a person: it has no password.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub service: bool,
    /// The tenant it belongs to, by name and id; of the world where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<(String, u64)>,
    /// Its roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Binding>,
    /// Its password as argon2 keeps it (PHC text).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// It may do nothing for now.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// The etcd namespace that it is in where it picks none. Earlier builds pass this over, and lose it where they change the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it was made.
    pub created_ms: u64,
    /// What changed it: granted and revoked roles, its password, whether it is disabled.
    #[serde(default, skip_serializing_if = "Requests::is_empty")]
    pub requests: Requests,
}

/// A custom role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoleRow {
    /// What it allows.
    pub rules: Vec<Rule>,
    /// Follows from the request that made it; zero where that had no id, and in rows of earlier builds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: u64,
    /// What replaced its rules.
    #[serde(default, skip_serializing_if = "Requests::is_empty")]
    pub requests: Requests,
    /// Who may secure users may give it without having it. Earlier builds pass this over, and lose it where they replace the role.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub grantable: bool,
}

/// The ids of the last requests that changed what a row says: a retry of one of them changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Requests(Vec<u64>);

impl Requests {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this request is among them; zero is none.
    pub fn has(&self, request: u64) -> bool {
        request != 0 && self.0.contains(&request)
    }

    /// With one more, where it has an id; the oldest goes.
    pub fn with(&self, request: u64) -> Requests {
        let mut ids = self.0.clone();
        ids.extend((request != 0).then_some(request));
        ids.drain(..ids.len().saturating_sub(REQUESTS_MAX));
        Requests(ids)
    }
}

/// A group of users of an OIDC issuer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupRow {
    /// Never another group's, whatever its name.
    pub id: u64,
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// What the issuer calls the group.
    pub claim: String,
    /// The tenant it belongs to, by name and id; of the world where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<(String, u64)>,
    /// The roles of its members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Binding>,
    /// When it was made.
    pub created_ms: u64,
    /// What replaced it.
    #[serde(default, skip_serializing_if = "Requests::is_empty")]
    pub requests: Requests,
}

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenRow {
    /// Whose it is, by name and id.
    pub user: (String, u64),
    /// SHA-256 of its secret, hexadecimal.
    pub hash: String,
    /// Only so much of what the user may; all of it where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<crate::pattern::Pattern>,
    /// Unix milliseconds from when it counts for nothing; never where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// What its owner wrote of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made.
    pub created_ms: u64,
}

/// An S3 access key. Its row's name has the key's public half.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct S3KeyRow {
    /// Whose it is, by name and id.
    pub user: (String, u64),
    /// Which sealing key opens the secret.
    pub sealed_by: String,
    /// The secret half, sealed: the edge's, which alone can open it.
    pub sealed: String,
    /// Nothing but this, whatever allows more; all that the user may where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<crate::pattern::Pattern>,
    /// Unix milliseconds from when it counts for nothing; never where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// What its owner wrote of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was made.
    pub created_ms: u64,
}

fn is_zero(id: &u64) -> bool {
    *id == 0
}

impl Row {
    /// Out of its bytes.
    pub fn parse(body: &[u8]) -> Result<Row, Refusal> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!("a row of the access directory cannot be read (written by a newer Hive?): {error}");
            Refusal::new(ErrorCode::Internal, message)
        })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Refusal> {
        serde_json::to_vec(self).map_err(|error| {
            Refusal::new(ErrorCode::Internal, format!("a row of the access directory cannot be written: {error}"))
        })
    }
}

/// Refuses what is no name of a user, role, group or tenant. `what` is the field.
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'@' | b'+');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    let message = format!(
        "{what}: '{}' is no name: it has 1 to {NAME_BYTES_MAX} of letters, digits, '.', '_', '-', '@' and '+'",
        shown.escape_debug()
    );
    Err(Refusal::new(ErrorCode::InvalidField, message))
}

impl RoleRow {
    /// Refuses a custom role that takes a built-in one's name, or has too many rules. One without rules allows nothing: etcd's
    /// clients make a role first and grant it permissions then.
    pub fn check(&self, name: &str) -> Result<(), Refusal> {
        check_name("role", name)?;
        if builtin(name).is_some() {
            let message = format!("role '{name}' is built in; choose another name");
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        if self.rules.len() > BINDINGS_MAX {
            let message = format!("a role has at most {BINDINGS_MAX} rules, and '{name}' has {}", self.rules.len());
            return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_are_kept() {
        let bytes = br#"{"epoch":7,"changed_ms":1,"body":{"badge":{"colour":"red","since":3}}}"#;
        let row = Row::parse(bytes).unwrap();
        assert!(matches!(row.body, Some(RowBody::Unknown(_))));
        assert_eq!(Row::parse(&row.to_bytes().unwrap()).unwrap(), row);
        assert_eq!(row.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn requests_are_remembered_up_to_their_bound() {
        let all = (1..=20).fold(Requests::default(), |all, id| all.with(id));
        assert!(!all.has(4) && all.has(5) && all.has(20) && !all.has(0));
        assert_eq!(all.with(0), all);
        let row = br#"{"epoch":1,"changed_ms":1,"body":{"role":{"rules":[]}}}"#;
        let Some(RowBody::Role(role)) = Row::parse(row).unwrap().body else { panic!("a role of an earlier build") };
        assert!(role.requests.is_empty() && !role.grantable);
        let row = br#"{"epoch":1,"changed_ms":1,"body":{"user":{"id":7,"created_ms":1}}}"#;
        let row = Row::parse(row).unwrap();
        assert!(
            matches!(&row.body, Some(RowBody::User(user)) if user.requests.is_empty()),
            "a user of an earlier build"
        );
        assert_eq!(row.to_bytes().unwrap(), br#"{"epoch":1,"changed_ms":1,"body":{"user":{"id":7,"created_ms":1}}}"#);
    }

    #[test]
    fn known_kinds_read_back() {
        let key = S3KeyRow {
            user: ("ann".into(), 7),
            sealed_by: "0011aabb".into(),
            sealed: "abc".into(),
            on: "bucket/b/".parse().ok(),
            expires_ms: None,
            note: String::new(),
            created_ms: 1,
        };
        let row = Row { epoch: 1, changed_ms: 1, body: Some(RowBody::S3Key(key)) };
        let bytes = row.to_bytes().unwrap();
        assert!(bytes.windows(9).any(|part| part == br#"{"s3key":"#));
        assert_eq!(Row::parse(&bytes).unwrap(), row);
        let gone = Row { body: None, ..row };
        assert_eq!(Row::parse(&gone.to_bytes().unwrap()).unwrap(), gone);
    }
}
