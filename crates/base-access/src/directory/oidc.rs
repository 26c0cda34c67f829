//! Groups of users that OIDC issuers vouch for, and what somebody may do who is in some of them.
//!
//! ```text
//!   token of an issuer: iss, groups ──▶ Directory::groups_of ──▶ ids of groups ──▶ OidcUser
//!   each use: OidcUser ──▶ Directory::resolve ──▶ Identity: all that its groups give now
//! ```
//!
//! Always: a group is one issuer's: another issuer's group of the same name gives nothing
//! (`tests::a_group_is_one_issuers`); what a group gives is looked up at each use, so that a changed or deleted one counts at once
//! (`tests::a_deleted_group_gives_nothing`); whatever was decided for OIDC users holds only as long as no group, role or tenant
//! changes (`tests::every_group_moves_the_epoch`).
//! Not here: tokens, issuers, keys (edge-node).
//! Why: docs/decisions/0074-oidc-groups-are-rows-of-the-directory.md.

use super::{Directory, Identity, RULES_MAX};
use crate::cover::is_everything;
use crate::row::{GroupRow, RowBody};
use base_types::access::{Caller, OidcUser};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most groups of the directory that one OIDC user is in; those beyond are left out.
pub const GROUPS_MAX: usize = 64;
/// The longest issuer, and the longest name that it has for a group.
pub const CLAIM_BYTES_MAX: usize = 512;

/// All groups, compiled.
#[derive(Clone, Default, Debug)]
pub(crate) struct Groups {
    identities: BTreeMap<u64, Identity>,
    /// By the issuer, and by what it calls the group.
    by_claim: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    changed_at: u64,
}

impl Groups {
    /// A row's last change: groups, and what groups hang on, count.
    pub(crate) fn note(&mut self, name: &str, epoch: u64) {
        let counts = ["group/", "role/", "tenant/"].iter().any(|kind| name.starts_with(kind));
        if counts {
            self.changed_at = self.changed_at.max(epoch);
        }
    }

    pub(crate) fn add(&mut self, group: &GroupRow, identity: Identity) {
        self.identities.insert(group.id, identity);
        let of_issuer = self.by_claim.entry(group.issuer.clone()).or_default();
        of_issuer.entry(group.claim.clone()).or_default().push(group.id);
    }

    /// How many give everything.
    pub(crate) fn with_everything(&self) -> usize {
        self.identities.values().filter(|identity| is_everything(&identity.rules)).count()
    }

    /// The last epoch at which anything changed that OIDC users have rights by.
    pub(crate) fn changed_at(&self) -> u64 {
        self.changed_at
    }
}

impl Directory {
    /// A group by its name.
    pub fn group(&self, name: &str) -> Option<&GroupRow> {
        match &self.rows().get(&format!("group/{name}"))?.body {
            Some(RowBody::Group(group)) => Some(group),
            _ => None,
        }
    }

    /// The ids of the groups that an issuer means by these names, at most [`GROUPS_MAX`].
    pub fn groups_of<'a>(&self, issuer: &str, claims: impl Iterator<Item = &'a str>) -> Vec<u64> {
        let Some(known) = self.groups.by_claim.get(issuer) else { return Vec::new() };
        let mut ids: Vec<u64> = claims.filter_map(|claim| known.get(claim)).flatten().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(GROUPS_MAX);
        ids
    }

    /// The names of the groups that an OIDC user is in, as far as they exist.
    pub fn names_of_groups(&self, user: &OidcUser) -> Vec<String> {
        let known = user.groups.iter().take(GROUPS_MAX).filter_map(|id| self.groups.identities.get(id));
        known.map(|identity| identity.user.to_string()).collect()
    }

    /// What an OIDC user may do; `None`: none of its groups exists.
    pub fn oidc_identity(&self, user: &OidcUser) -> Option<Identity> {
        let groups: Vec<&Identity> =
            user.groups.iter().take(GROUPS_MAX).filter_map(|id| self.groups.identities.get(id)).collect();
        let first = groups.first()?;
        let rules = groups.iter().flat_map(|group| group.rules.iter()).take(RULES_MAX).cloned().collect();
        // A user of a group without tenant is bounded by none; one of several tenants reaches what each owns.
        let within = groups.iter().map(|group| group.within.as_deref()).collect::<Option<Vec<_>>>();
        let same_tenant = groups.iter().all(|group| group.tenant == first.tenant);
        Some(Identity {
            user: user.name.as_str().into(),
            tenant: first.tenant.clone().filter(|_| same_tenant),
            rules,
            within: within.map(|all| all.concat().into()),
            changed_at: self.groups.changed_at,
            expires_ms: Some(user.expires_ms),
        })
    }

    /// What a caller with a name may do; `None`: it has none, or may do nothing any more.
    pub fn resolve(&self, caller: &Caller) -> Option<Cow<'_, Identity>> {
        match caller {
            Caller::Anyone | Caller::Node => None,
            Caller::Identity { credential, .. } => self.identity(*credential).map(Cow::Borrowed),
            Caller::Oidc { user, .. } => self.oidc_identity(user).map(Cow::Owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Binding;
    use crate::row::{Row, RowName, TenantRow};
    use base_types::access::OIDC_CREDENTIAL;

    const CORP: &str = "https://corp.example";

    fn group(id: u64, claim: &str, role: &str, tenant: Option<(&str, u64)>) -> RowBody {
        let (role, on) = role.split_once(" on ").map_or((role, None), |(role, on)| (role, Some(on)));
        RowBody::Group(GroupRow {
            id,
            issuer: CORP.into(),
            claim: claim.into(),
            tenant: tenant.map(|(name, id)| (name.into(), id)),
            roles: vec![Binding { role: role.into(), on: on.map(|on| on.parse().expect(on)) }],
            created_ms: 0,
            requests: Default::default(),
        })
    }

    fn rows() -> BTreeMap<RowName, Row> {
        let shop = TenantRow { id: 4, owns: vec!["kv/shop-*".parse().unwrap()], created_ms: 0 };
        let list = [
            ("tenant/shop", 1, RowBody::Tenant(shop)),
            ("group/readers", 2, group(11, "/all/readers", "reader on kv/a", None)),
            ("group/writers", 3, group(12, "writers", "writer on kv/b/x/", None)),
            ("group/staff@shop", 4, group(13, "staff", "writer", Some(("shop", 4)))),
        ];
        list.into_iter()
            .map(|(name, epoch, body)| (name.to_string(), Row { epoch, changed_ms: 0, body: Some(body) }))
            .collect()
    }

    fn user(groups: &[u64]) -> OidcUser {
        OidcUser { name: "ann".into(), account: "oidc-1".into(), groups: groups.to_vec(), expires_ms: 9 }
    }

    fn allowed(directory: &Directory, groups: &[u64]) -> Vec<String> {
        let identity = directory.oidc_identity(&user(groups));
        identity.iter().flat_map(|own| own.rules.iter()).map(|rule| format!("{} on {}", rule.verbs, rule.on)).collect()
    }

    #[test]
    fn a_group_is_one_issuers() {
        let directory = Directory::new(4, rows());
        let of = |issuer: &str, claims: &[&str]| directory.groups_of(issuer, claims.iter().copied());
        assert_eq!(of(CORP, &["writers", "/all/readers", "writers", "nobody"]), [11, 12]);
        assert_eq!(of("https://corp.example/", &["writers"]), [] as [u64; 0]);
        assert_eq!(of(CORP, &["readers", "group/writers", ""]), [] as [u64; 0]);
        assert_eq!(directory.names_of_groups(&user(&[11, 13, 99])), ["readers", "staff@shop"]);
    }

    #[test]
    fn groups_add_up_within_their_tenants() {
        let directory = Directory::new(4, rows());
        assert_eq!(allowed(&directory, &[11, 12]), ["read,list on kv/a", "read,list,write,delete on kv/b/x/"]);
        let of_shop = directory.oidc_identity(&user(&[13])).unwrap();
        assert_eq!(of_shop.tenant.as_deref(), Some("shop"));
        assert!(of_shop.rules.iter().all(|rule| rule.on.to_string() == "kv/shop-*"));
        assert!(of_shop.within.is_some() && of_shop.expires_ms == Some(9));
        let both = directory.oidc_identity(&user(&[11, 13])).unwrap();
        assert!(both.within.is_none() && both.tenant.is_none());
        assert!(directory.oidc_identity(&user(&[])).is_none() && directory.oidc_identity(&user(&[99])).is_none());
    }

    #[test]
    fn a_deleted_group_gives_nothing() {
        let directory = Directory::new(4, rows());
        let gone = directory.with(9, vec![("group/writers".into(), Row { epoch: 9, changed_ms: 0, body: None })]);
        assert_eq!(allowed(&gone, &[11, 12]), ["read,list on kv/a"]);
        assert!(gone.oidc_identity(&user(&[12])).is_none());
        assert_eq!(gone.groups_of(CORP, ["writers"].into_iter()), [] as [u64; 0]);
        // Made again, it is another: what was vouched for before is not in it.
        let again = Row { epoch: 10, changed_ms: 0, body: Some(group(77, "writers", "root", None)) };
        assert!(gone.with(10, vec![("group/writers".into(), again)]).oidc_identity(&user(&[12])).is_none());
    }

    #[test]
    fn every_group_moves_the_epoch() {
        let directory = Directory::new(8, rows());
        assert!(directory.holds(OIDC_CREDENTIAL, 4) && !directory.holds(OIDC_CREDENTIAL, 3));
        for name in ["group/readers", "tenant/shop", "role/custom"] {
            for body in [None, directory.rows().get(name).and_then(|row| row.body.clone())] {
                let later = directory.with(9, vec![(name.into(), Row { epoch: 9, changed_ms: 0, body })]);
                assert!(!later.holds(OIDC_CREDENTIAL, 8) && later.holds(OIDC_CREDENTIAL, 9), "{name}");
            }
        }
        let other = directory.with(9, vec![("user/ann".into(), Row { epoch: 9, changed_ms: 0, body: None })]);
        assert!(other.holds(OIDC_CREDENTIAL, 4));
    }
}
