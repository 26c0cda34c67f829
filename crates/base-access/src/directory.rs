//! All rows of one epoch, and what each credential may do by them.
//!
//! Always: what a credential may do follows from the rows alone; `changed_at` of an identity is at least the epoch of every row
//! that it follows from (`tests::every_row_moves_changed_at`); a credential whose user, tenant or row is gone is none.
//! Not here: the decision (decide.rs), how rows reach a node (core-access).

mod oidc;

pub use oidc::{CLAIM_BYTES_MAX, GROUPS_MAX};

use crate::cover::is_everything;
use crate::pattern::{Kind, Pattern};
use crate::role::{builtin, Binding, Rule};
use crate::row::{GroupRow, Row, RowBody, RowName, S3KeyRow, TokenRow, UserRow};
use crate::s3key;
use crate::token::{Token, TokenHash};
use base_types::access::{Caller, OIDC_CREDENTIAL};
use oidc::Groups;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most rules that one identity may have; those beyond are left out, and [`Directory::findings`] says so.
pub const RULES_MAX: usize = 1_024;

/// Who somebody is, and what they may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The user's name.
    pub user: Arc<str>,
    /// The tenant's name, where it has one.
    pub tenant: Option<Arc<str>>,
    /// What is allowed.
    pub rules: Arc<[Rule]>,
    /// What a tenant or the credential is bounded by; no bound where absent. The rules lie within; a door that has other
    /// reasons to allow something (a bucket's policy, its owner) bounds those, too.
    pub within: Option<Arc<[Pattern]>>,
    /// The last epoch at which any of this changed.
    pub changed_at: u64,
    /// From when it counts for nothing, Unix milliseconds.
    pub expires_ms: Option<u64>,
}

impl Identity {
    /// Rules as far as its bounds let them.
    pub fn bound(&self, rules: &[Rule]) -> Vec<Rule> {
        self.within.as_ref().map_or_else(|| rules.to_vec(), |bounds| within(rules, bounds))
    }
}

/// Who have everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Everything {
    /// Enabled users, and groups.
    pub holders: usize,
    /// Their passwords, tokens without bounds that count, and groups. Certificates are not known here.
    pub ways_in: usize,
}

/// One changed row.
pub type Change = (RowName, Row);

/// All rows at one epoch.
#[derive(Clone, Default, Debug)]
pub struct Directory {
    epoch: u64,
    rows: BTreeMap<RowName, Row>,
    /// By the ids of tokens, S3 keys and users.
    identities: BTreeMap<u64, Identity>,
    hashes: BTreeMap<u64, TokenHash>,
    /// Groups of OIDC users (oidc.rs).
    groups: Groups,
    /// The epochs at which credentials went.
    gone: BTreeMap<u64, u64>,
    /// Of all roles that are marked grantable.
    grantable: Vec<Rule>,
    findings: Vec<String>,
}

impl Directory {
    /// Of these rows.
    pub fn new(epoch: u64, rows: BTreeMap<RowName, Row>) -> Directory {
        let mut own = Directory { epoch, rows, ..Directory::default() };
        own.compile();
        own
    }

    /// As it is once these rows have changed.
    pub fn with(&self, epoch: u64, changes: Vec<Change>) -> Directory {
        let mut rows = self.rows.clone();
        for (name, row) in changes {
            // A row that was read twice may come in either order.
            if rows.get(&name).is_none_or(|own| own.epoch <= row.epoch) {
                rows.insert(name, row);
            }
        }
        Directory::new(epoch.max(self.epoch), rows)
    }

    /// The last change that it knows of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Every row.
    pub fn rows(&self) -> &BTreeMap<RowName, Row> {
        &self.rows
    }

    /// Rows that could not be followed: plain sentences, for an operator.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// The rules of all roles that who may secure users may give without having them.
    pub fn grantable(&self) -> &[Rule] {
        &self.grantable
    }

    /// What one binding gives in a tenant (by its name and id), or in the world.
    pub fn rules_by(&self, binding: &Binding, tenant: Option<&(String, u64)>) -> Vec<Rule> {
        let principal = Principal { roles: core::slice::from_ref(binding), tenant };
        let identity = principal_of(&self.rows, "", &principal, 0, &mut Vec::new());
        identity.map_or(Vec::new(), |identity| identity.rules.to_vec())
    }

    /// Rules as far as a tenant owns what they are on; for the world as they are. A tenant that is gone owns nothing.
    pub fn within_tenant(&self, rules: &[Rule], tenant: Option<&(String, u64)>) -> Vec<Rule> {
        let Some(tenant) = tenant else { return rules.to_vec() };
        owned_by(&self.rows, tenant).map_or(Vec::new(), |(owned, _)| within(rules, &owned))
    }

    /// Who have everything at this moment, and by what they come in.
    pub fn everything(&self, now_ms: u64) -> Everything {
        let mut found = Everything { holders: self.groups.with_everything(), ways_in: self.groups.with_everything() };
        for (name, row) in &self.rows {
            match &row.body {
                Some(RowBody::User(user)) if self.has_everything(user.id) => {
                    found.holders += 1;
                    found.ways_in += usize::from(user.password.is_some());
                }
                Some(RowBody::Token(token)) if token.expires_ms.is_none_or(|end| end > now_ms) => {
                    let whole = credential_named(name).is_some_and(|id| self.has_everything(id));
                    found.ways_in += usize::from(whole);
                }
                _ => {}
            }
        }
        found
    }

    /// Whether a credential may do everything.
    fn has_everything(&self, credential: u64) -> bool {
        self.identities.get(&credential).is_some_and(|identity| is_everything(&identity.rules))
    }

    /// A credential by its id.
    pub fn identity(&self, credential: u64) -> Option<&Identity> {
        self.identities.get(&credential)
    }

    /// A user by name, with its id.
    pub fn user(&self, name: &str) -> Option<&UserRow> {
        match &self.rows.get(&format!("user/{name}"))?.body {
            Some(RowBody::User(user)) => Some(user),
            _ => None,
        }
    }

    /// The etcd namespace of a caller that picks none; `None`: it has none of its own.
    pub fn namespace_of(&self, caller: &Caller) -> Option<String> {
        let identity = self.resolve(caller)?;
        self.user(&identity.user)?.namespace.clone()
    }

    /// The row of an S3 access key; `None`: there is none, or it was revoked.
    pub fn s3_key(&self, access_key: &str) -> Option<&S3KeyRow> {
        match &self.rows.get(&format!("s3key/{access_key}"))?.body {
            Some(RowBody::S3Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Whether the token is one of this directory's: its id is known and its secret is right. Always one comparison.
    pub fn proves(&self, token: &Token) -> bool {
        // An unknown id costs what a known one costs.
        let nobody = Token::new(0, [0; 32]).hash();
        let (hash, known) = match self.hashes.get(&token.id) {
            Some(hash) => (*hash, true),
            None => (nobody, false),
        };
        (hash == token.hash()) & known
    }

    /// Whether what was decided for a credential at `epoch` still holds here. A credential that this directory has not heard of
    /// was made later than it: the decision is the newer one's.
    pub fn holds(&self, credential: u64, epoch: u64) -> bool {
        if credential == OIDC_CREDENTIAL {
            return self.groups.changed_at() <= epoch;
        }
        match (self.identities.get(&credential), self.gone.get(&credential)) {
            (Some(identity), _) => identity.changed_at <= epoch,
            (None, Some(gone_at)) => epoch > *gone_at,
            (None, None) => epoch > self.epoch,
        }
    }

    fn compile(&mut self) {
        let rows = core::mem::take(&mut self.rows);
        for (name, row) in &rows {
            self.groups.note(name, row.epoch);
            match &row.body {
                Some(RowBody::User(user)) => self.compile_user(&rows, name, user, row.epoch),
                Some(RowBody::Token(token)) => self.compile_token(&rows, name, token, row.epoch),
                Some(RowBody::S3Key(key)) => self.compile_s3_key(&rows, name, key, row.epoch),
                Some(RowBody::Group(group)) => self.compile_group(&rows, name, group, row.epoch),
                Some(RowBody::Unknown(_)) => {
                    self.findings
                        .push(format!("{name} is not understood (written by a newer Hive?); it gives nothing"));
                }
                Some(RowBody::Role(role)) if role.grantable => self.compile_grantable(name, &role.rules),
                Some(RowBody::Tenant(_) | RowBody::Role(_)) => {}
                None => self.compile_gone(name, row.epoch),
            }
        }
        self.rows = rows;
    }

    fn compile_gone(&mut self, name: &str, epoch: u64) {
        if let Some(id) = credential_named(name) {
            self.gone.insert(id, epoch);
        }
    }

    fn compile_grantable(&mut self, name: &str, rules: &[Rule]) {
        if self.grantable.len() + rules.len() > RULES_MAX {
            let message = format!("{name} is not grantable: grantable roles have at most {RULES_MAX} rules in all");
            return self.findings.push(message);
        }
        self.grantable.extend_from_slice(rules);
    }

    fn compile_user(&mut self, rows: &BTreeMap<RowName, Row>, name: &str, user: &UserRow, epoch: u64) {
        if let Some(identity) = self.identity_of(rows, name, user, epoch) {
            self.identities.insert(user.id, identity);
        } else {
            self.gone.insert(user.id, self.epoch);
        }
    }

    fn compile_group(&mut self, rows: &BTreeMap<RowName, Row>, name: &str, group: &GroupRow, epoch: u64) {
        let principal = Principal { roles: &group.roles, tenant: group.tenant.as_ref() };
        if let Some(identity) = principal_of(rows, name, &principal, epoch, &mut self.findings) {
            self.groups.add(group, identity);
        }
    }

    /// A user's own identity; `None`: it may do nothing.
    fn identity_of(
        &mut self,
        rows: &BTreeMap<RowName, Row>,
        name: &str,
        user: &UserRow,
        epoch: u64,
    ) -> Option<Identity> {
        if user.disabled {
            return None;
        }
        let principal = Principal { roles: &user.roles, tenant: user.tenant.as_ref() };
        principal_of(rows, name, &principal, epoch, &mut self.findings)
    }

    fn compile_token(&mut self, rows: &BTreeMap<RowName, Row>, name: &str, token: &TokenRow, epoch: u64) {
        let Some(hash) = TokenHash::parse(&token.hash) else {
            return self.findings.push(format!("{name} has no hash; it lets nobody in"));
        };
        let credential = Credential { user: &token.user, on: token.on.as_ref(), expires_ms: token.expires_ms };
        if let Some(id) = self.compile_credential(rows, name, &credential, epoch) {
            self.hashes.insert(id, hash);
        }
    }

    fn compile_s3_key(&mut self, rows: &BTreeMap<RowName, Row>, name: &str, key: &S3KeyRow, epoch: u64) {
        let credential = Credential { user: &key.user, on: key.on.as_ref(), expires_ms: key.expires_ms };
        self.compile_credential(rows, name, &credential, epoch);
    }

    /// What a credential may do of what its user may. Its id, where it may do anything.
    fn compile_credential(
        &mut self,
        rows: &BTreeMap<RowName, Row>,
        name: &str,
        credential: &Credential<'_>,
        epoch: u64,
    ) -> Option<u64> {
        let Some(id) = credential_named(name) else {
            self.findings.push(format!("{name} is no name of such a row; the row is left out"));
            return None;
        };
        let (user_name, user_id) = credential.user;
        let key = format!("user/{user_name}");
        let row = rows.get(&key);
        let user = row.and_then(|row| match &row.body {
            Some(RowBody::User(user)) if user.id == *user_id => Some((user, row.epoch)),
            _ => None,
        });
        let identity = user.and_then(|(user, user_epoch)| self.identity_of(rows, &key, user, user_epoch));
        let Some(identity) = identity else {
            // Its user is gone, of another life, or disabled.
            let gone_at = row.map_or(epoch, |row| row.epoch.max(epoch));
            self.gone.insert(id, gone_at.max(self.epoch));
            return None;
        };
        let bounds = identity.within.clone();
        let (rules, bounds) = match credential.on {
            None => (identity.rules.clone(), bounds),
            Some(on) => {
                let bounds =
                    bounds.map_or_else(|| vec![on.clone()], |all| all.iter().filter_map(|one| one.and(on)).collect());
                (within(&identity.rules, core::slice::from_ref(on)).into(), Some(bounds.into()))
            }
        };
        let changed_at = identity.changed_at.max(epoch);
        let expires_ms = credential.expires_ms;
        self.identities.insert(id, Identity { rules, within: bounds, changed_at, expires_ms, ..identity });
        Some(id)
    }
}

/// What users and groups have in common.
struct Principal<'a> {
    roles: &'a [Binding],
    tenant: Option<&'a (String, u64)>,
}

/// What roles give, within a tenant; `None`: the tenant is gone.
fn principal_of(
    rows: &BTreeMap<RowName, Row>,
    name: &str,
    principal: &Principal<'_>,
    epoch: u64,
    findings: &mut Vec<String>,
) -> Option<Identity> {
    let mut changed_at = epoch;
    let mut rules: Vec<Rule> = Vec::new();
    for binding in principal.roles {
        let (of_role, at) = rules_of(rows, name, binding, findings);
        changed_at = changed_at.max(at);
        rules.extend(of_role);
    }
    let mut bound = None;
    let tenant = match principal.tenant {
        None => None,
        Some(tenant) => {
            let (owned, at) = owned_by(rows, tenant)?;
            changed_at = changed_at.max(at);
            rules = within(&rules, &owned);
            bound = Some(owned.into());
            Some(Arc::from(tenant.0.as_str()))
        }
    };
    if rules.len() > RULES_MAX {
        findings.push(format!("{name} has {} rules; only the first {RULES_MAX} count", rules.len()));
        rules.truncate(RULES_MAX);
    }
    let user = Arc::from(name.split_once('/').map_or(name, |(_, name)| name));
    Some(Identity { user, tenant, rules: rules.into(), within: bound, changed_at, expires_ms: None })
}

/// All that a tenant owns, and when that changed; `None`: it is gone, or another of its name.
fn owned_by(rows: &BTreeMap<RowName, Row>, (tenant, id): &(String, u64)) -> Option<(Vec<Pattern>, u64)> {
    let row = rows.get(&format!("tenant/{tenant}"))?;
    let Some(RowBody::Tenant(found)) = &row.body else { return None };
    // Its own users and accounts are its own without being named.
    let own = [Kind::Security, Kind::Account].map(|kind| Pattern::named(kind, tenant));
    (found.id == *id).then(|| ([&found.owns[..], &own].concat(), row.epoch))
}

/// The rules of one binding, and when they changed. A role that is gone allows nothing, from when it went.
fn rules_of(
    rows: &BTreeMap<RowName, Row>,
    name: &str,
    binding: &Binding,
    findings: &mut Vec<String>,
) -> (Vec<Rule>, u64) {
    if let Some(role) = builtin(&binding.role) {
        return (binding.narrow(&role.rules), 0);
    }
    let row = rows.get(&format!("role/{}", binding.role));
    match row.map(|row| (&row.body, row.epoch)) {
        Some((Some(RowBody::Role(role)), epoch)) => (binding.narrow(&role.rules), epoch),
        other => {
            findings.push(format!("{name} has the role {}, which does not exist", binding.role));
            (Vec::new(), other.map_or(0, |(_, epoch)| epoch))
        }
    }
}

/// What tokens and S3 keys have in common.
struct Credential<'a> {
    user: &'a (String, u64),
    on: Option<&'a Pattern>,
    expires_ms: Option<u64>,
}

/// The id of the credential that a row is of.
fn credential_named(name: &str) -> Option<u64> {
    match name.split_once('/')? {
        ("token", id) => u64::from_str_radix(id, 16).ok(),
        ("s3key", access_key) => s3key::credential_of(access_key),
        _ => None,
    }
}

/// Rules as far as they lie within one of these.
fn within(rules: &[Rule], bounds: &[Pattern]) -> Vec<Rule> {
    let narrowed = |rule: &Rule| -> Vec<Rule> {
        bounds.iter().filter_map(|bound| Some(Rule { verbs: rule.verbs, on: rule.on.and(bound)? })).collect()
    };
    rules.iter().flat_map(narrowed).take(RULES_MAX + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{RoleRow, TenantRow};

    fn user(id: u64, roles: &[(&str, Option<&str>)]) -> UserRow {
        let roles =
            roles.iter().map(|(role, on)| Binding { role: role.to_string(), on: on.map(|on| on.parse().expect(on)) });
        UserRow {
            id,
            service: false,
            tenant: None,
            roles: roles.collect(),
            password: None,
            disabled: false,
            namespace: None,
            created_ms: 0,
            requests: Default::default(),
        }
    }

    #[test]
    fn a_users_namespace_is_that_of_all_its_credentials() {
        let (_, key) = token(9, ("ann", 1));
        let (_, other) = token(10, ("bob", 2));
        let ann = UserRow { namespace: Some("team".into()), ..user(1, &[("writer", None)]) };
        let bob = user(2, &[("writer", None)]);
        let list = vec![
            ("user/ann", 1, Some(RowBody::User(ann))),
            ("user/bob", 1, Some(RowBody::User(bob))),
            ("token/0000000000000009", 1, Some(key)),
            ("token/000000000000000a", 1, Some(other)),
        ];
        let directory = Directory::new(1, rows(list));
        let of = |credential| directory.namespace_of(&Caller::Identity { credential, decided_at: None });
        assert_eq!((of(1).as_deref(), of(9).as_deref()), (Some("team"), Some("team")));
        assert_eq!((of(2), of(10), of(11), directory.namespace_of(&Caller::Anyone)), (None, None, None, None));
    }

    fn token(id: u64, of: (&str, u64)) -> (Token, RowBody) {
        let token = Token::new(id, [id as u8; 32]);
        let row = TokenRow {
            user: (of.0.into(), of.1),
            hash: token.hash().to_string(),
            on: None,
            expires_ms: None,
            note: String::new(),
            created_ms: 0,
        };
        (token, RowBody::Token(row))
    }

    fn rows(list: Vec<(&str, u64, Option<RowBody>)>) -> BTreeMap<RowName, Row> {
        list.into_iter().map(|(name, epoch, body)| (name.to_string(), Row { epoch, changed_ms: 0, body })).collect()
    }

    fn name_of(id: u64) -> String {
        format!("token/{id:016x}")
    }

    #[test]
    fn a_token_proves_its_user() {
        let (own, row) = token(7, ("alice", 1));
        let all = rows(vec![
            ("user/alice", 3, Some(RowBody::User(user(1, &[("writer", Some("kv/a"))])))),
            (&name_of(7), 5, Some(row)),
        ]);
        let directory = Directory::new(5, all);
        assert!(directory.proves(&own));
        assert!(!directory.proves(&Token::new(7, [9; 32])));
        assert!(!directory.proves(&Token::new(0, [0; 32])));
        let identity = directory.identity(7).unwrap();
        assert_eq!((&*identity.user, identity.changed_at, identity.rules.len()), ("alice", 5, 1));
    }

    #[test]
    fn every_row_moves_changed_at() {
        let (_, row) = token(7, ("alice", 1));
        let role = RoleRow {
            rules: vec![Rule { verbs: crate::Verbs::ALL, on: "kv/*".parse().unwrap() }],
            id: 0,
            requests: Default::default(),
            grantable: false,
        };
        let tenant = TenantRow { id: 4, owns: vec!["kv/t-*".parse().unwrap()], created_ms: 0 };
        let alice = UserRow { tenant: Some(("t".into(), 4)), ..user(1, &[("custom", None)]) };
        let base = Directory::new(
            4,
            rows(vec![
                ("user/alice", 1, Some(RowBody::User(alice))),
                ("role/custom", 2, Some(RowBody::Role(role))),
                ("tenant/t", 3, Some(RowBody::Tenant(tenant))),
                (&name_of(7), 4, Some(row)),
            ]),
        );
        assert_eq!(base.identity(7).unwrap().changed_at, 4);
        assert_eq!(base.identity(7).unwrap().rules[0].on.to_string(), "kv/t-*");
        for name in ["user/alice", "role/custom", "tenant/t", &name_of(7)] {
            let row = Row { epoch: 9, ..base.rows()[name].clone() };
            let later = base.with(9, vec![(name.to_string(), row)]);
            assert_eq!(later.identity(7).unwrap().changed_at, 9, "{name}");
            assert!(!later.holds(7, 8) && later.holds(7, 9), "{name}");
            let gone = base.with(9, vec![(name.to_string(), Row { epoch: 9, changed_ms: 0, body: None })]);
            let allowed = gone.identity(7).is_some_and(|identity| !identity.rules.is_empty());
            assert!(!allowed && !gone.holds(7, 8), "{name}");
        }
    }

    #[test]
    fn what_a_binding_gives_is_the_tenants() {
        let tenant = TenantRow { id: 4, owns: vec!["kv/t-*".parse().unwrap()], created_ms: 0 };
        let rules = vec![Rule { verbs: crate::Verbs::ALL, on: "kv/*".parse().unwrap() }];
        let own = RoleRow { rules, id: 0, requests: Default::default(), grantable: true };
        let other = RoleRow { grantable: false, ..own.clone() };
        let all = rows(vec![
            ("role/other", 1, Some(RowBody::Role(other))),
            ("role/own", 2, Some(RowBody::Role(own))),
            ("tenant/t", 3, Some(RowBody::Tenant(tenant))),
        ]);
        let directory = Directory::new(3, all);
        let by = |tenant: Option<(&str, u64)>, role: &str| {
            let binding = Binding { role: role.into(), on: None };
            let tenant = tenant.map(|(name, id)| (name.to_string(), id));
            let rules = directory.rules_by(&binding, tenant.as_ref());
            rules.iter().map(|rule| rule.on.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((by(None, "own"), by(Some(("t", 4)), "own")), (vec!["kv/*".into()], vec!["kv/t-*".into()]));
        assert!(by(Some(("t", 5)), "own").is_empty() && by(None, "gone").is_empty());
        assert_eq!(directory.grantable().len(), 1, "marked roles alone");
        assert!(!is_everything(directory.grantable()));
    }

    #[test]
    fn who_has_everything_is_counted() {
        let boss = UserRow { password: Some("hash".into()), ..user(1, &[("root", None)]) };
        let (_, whole) = token(7, ("boss", 1));
        let RowBody::Token(row) = whole.clone() else { panic!("a token") };
        let narrow = RowBody::Token(TokenRow { on: "kv/a".parse().ok(), ..row.clone() });
        let ended = RowBody::Token(TokenRow { expires_ms: Some(99), ..row });
        let base = Directory::new(
            5,
            rows(vec![
                ("user/boss", 1, Some(RowBody::User(boss.clone()))),
                ("user/ann", 2, Some(RowBody::User(user(2, &[("writer", None)])))),
                (&name_of(7), 3, Some(whole)),
                (&name_of(8), 4, Some(narrow)),
                (&name_of(9), 5, Some(ended)),
            ]),
        );
        assert_eq!(base.everything(99), Everything { holders: 1, ways_in: 2 });
        assert_eq!(base.everything(98), Everything { holders: 1, ways_in: 3 });
        let disabled = Some(RowBody::User(UserRow { disabled: true, ..boss }));
        let after = base.with(6, vec![("user/boss".into(), Row { epoch: 6, changed_ms: 0, body: disabled })]);
        assert_eq!(after.everything(98), Everything { holders: 0, ways_in: 0 });
    }

    #[test]
    fn a_name_given_again_inherits_nothing() {
        let (own, row) = token(7, ("alice", 1));
        let all =
            rows(vec![("user/alice", 6, Some(RowBody::User(user(2, &[("root", None)])))), (&name_of(7), 2, Some(row))]);
        let directory = Directory::new(6, all);
        assert!(directory.identity(7).is_none());
        assert!(!directory.proves(&own));
        assert!(!directory.holds(7, 5));
    }

    #[test]
    fn a_disabled_user_may_nothing() {
        let (own, row) = token(7, ("alice", 1));
        let alice = UserRow { disabled: true, ..user(1, &[("root", None)]) };
        let directory =
            Directory::new(6, rows(vec![("user/alice", 6, Some(RowBody::User(alice))), (&name_of(7), 2, Some(row))]));
        assert!(!directory.proves(&own));
        assert!(directory.identity(1).is_none() && directory.identity(7).is_none());
        assert!(!directory.holds(1, 5) && !directory.holds(7, 5));
    }

    fn s3_key(of: (&str, u64), on: Option<&str>) -> RowBody {
        RowBody::S3Key(S3KeyRow {
            user: (of.0.into(), of.1),
            sealed_by: "k".into(),
            sealed: "s".into(),
            on: on.map(|on| on.parse().expect(on)),
            expires_ms: Some(9),
            note: String::new(),
            created_ms: 0,
        })
    }

    #[test]
    fn an_s3_key_has_what_its_user_has() {
        let tenant = TenantRow { id: 4, owns: vec!["bucket/t-*".parse().unwrap()], created_ms: 0 };
        let alice = UserRow { tenant: Some(("t".into(), 4)), ..user(1, &[("writer", None)]) };
        let name = format!("s3key/{}", s3key::access_key_of(7));
        let base = Directory::new(
            4,
            rows(vec![
                ("user/alice", 1, Some(RowBody::User(alice))),
                ("tenant/t", 3, Some(RowBody::Tenant(tenant))),
                (&name, 4, Some(s3_key(("alice", 1), Some("bucket/t-a/x/")))),
            ]),
        );
        let identity = base.identity(7).unwrap();
        assert_eq!((identity.rules.len(), identity.expires_ms), (1, Some(9)));
        assert_eq!(identity.rules[0].on.to_string(), "bucket/t-a/x/");
        let bounds: Vec<String> = identity.within.iter().flat_map(|all| all.iter()).map(ToString::to_string).collect();
        assert_eq!(bounds, ["bucket/t-a/x/"]);
        assert!(base.s3_key(&s3key::access_key_of(7)).is_some() && base.s3_key("HIVK").is_none());
        assert!(!base.proves(&Token::new(7, [7; 32])), "an access key is no token");
        let gone = base.with(9, vec![(name, Row { epoch: 9, changed_ms: 0, body: None })]);
        assert!(gone.identity(7).is_none() && !gone.holds(7, 8) && gone.s3_key(&s3key::access_key_of(7)).is_none());
    }

    #[test]
    fn an_unknown_row_is_passed_over() {
        let unknown = RowBody::Unknown(serde_json::json!({"badge": {}}));
        let directory = Directory::new(
            4,
            rows(vec![("badge/a", 4, Some(unknown)), ("user/alice", 1, Some(RowBody::User(user(1, &[]))))]),
        );
        assert!(directory.user("alice").is_some() && directory.identity(1).is_some());
        assert_eq!((directory.rows().len(), directory.findings().len()), (2, 1));
    }

    #[test]
    fn an_older_row_does_not_replace_a_newer() {
        let base = Directory::new(6, rows(vec![("user/alice", 6, None)]));
        let late = base.with(
            6,
            vec![("user/alice".into(), Row { epoch: 5, changed_ms: 0, body: Some(RowBody::User(user(1, &[]))) })],
        );
        assert!(late.user("alice").is_none());
    }
}
