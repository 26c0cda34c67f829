//! Rules, roles, and the roles that every world has.
//!
//! Always: a built-in role's name is never a custom one's (`row::check_role`); a binding narrows its role and never widens it
//! (`tests::a_binding_narrows`).
//! Not here: who has which role (row.rs), the decision (decide.rs).

use crate::pattern::{Kind, Pattern};
use crate::verb::{Verb, Verbs};
use serde::{Deserialize, Serialize};

/// Verbs on resources.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What may be done.
    pub verbs: Verbs,
    /// To what.
    pub on: Pattern,
}

/// A named list of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// What it allows.
    pub rules: Vec<Rule>,
}

/// A role that somebody has, perhaps on a part of what it covers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The role's name.
    pub role: String,
    /// Only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Pattern>,
}

impl Binding {
    /// The rules of the role as far as the binding lets them.
    pub fn narrow(&self, rules: &[Rule]) -> Vec<Rule> {
        let Some(on) = &self.on else { return rules.to_vec() };
        rules.iter().filter_map(|rule| Some(Rule { verbs: rule.verbs, on: rule.on.and(on)? })).collect()
    }
}

/// The roles that every world has, each with what it is for.
pub const BUILTIN_ROLES: &[(&str, &str)] = &[
    ("reader", "reads and lists data"),
    ("writer", "reads, lists, puts and deletes data"),
    ("tenant-admin", "all of a tenant: its data, keyspaces, buckets, users, roles and tokens"),
    ("operator", "runs clusters and nodes, makes keyspaces; reads no data of keyspaces and buckets"),
    (
        "security-admin",
        "takes any role and credential away; gives only what it has itself and grantable roles; no data",
    ),
    ("auditor", "sees names, places, sizes, health, users and roles; no data, no secrets"),
    ("root", "everything"),
];

/// A built-in role by its name.
pub fn builtin(name: &str) -> Option<Role> {
    const DATA: [Kind; 4] = [Kind::Kv, Kind::Bucket, Kind::Redis, Kind::Etcd];
    const READ: Verbs = Verbs::of(&[Verb::Read, Verb::List]);
    const WRITE: Verbs = Verbs::of(&[Verb::Read, Verb::List, Verb::Write, Verb::Delete]);
    const OWN: Verbs = Verbs::of(&[Verb::Read, Verb::List, Verb::Write, Verb::Delete, Verb::Configure, Verb::Inspect]);
    const SETTINGS: Verbs = Verbs::of(&[Verb::Configure, Verb::Inspect]);
    const SECURE: Verbs = Verbs::of(&[Verb::Secure, Verb::Inspect]);
    const INSPECT: Verbs = Verbs::of(&[Verb::Inspect]);
    let on = |verbs: Verbs, kinds: &[Kind]| -> Vec<Rule> {
        kinds.iter().map(|kind| Rule { verbs, on: Pattern::every(*kind) }).collect()
    };
    let rules = match name {
        "reader" => on(READ, &DATA),
        "writer" => on(WRITE, &DATA),
        // What is done to an account's data may be done to the account: who makes a key of it has both.
        "tenant-admin" => {
            [on(OWN, &DATA), on(SECURE, &[Kind::Security, Kind::Account]), on(OWN, &[Kind::Account])].concat()
        }
        "operator" => {
            [on(Verbs::ALL, &[Kind::Cluster, Kind::Node]), on(SETTINGS, &DATA), on(INSPECT, &[Kind::Account])].concat()
        }
        "security-admin" => [on(SECURE, &[Kind::Security, Kind::Account]), on(INSPECT, &[Kind::Node])].concat(),
        "auditor" => on(INSPECT, Kind::ALL),
        "root" => vec![Rule { verbs: Verbs::ALL, on: Pattern::everything() }],
        _ => return None,
    };
    Some(Role { rules })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_roles_agree() {
        for (name, _) in BUILTIN_ROLES {
            assert!(!builtin(name).expect(name).rules.is_empty());
        }
        assert_eq!(builtin("king"), None);
    }

    #[test]
    fn a_binding_narrows() {
        let binding = Binding { role: "writer".into(), on: "kv/photos/2024/".parse().ok() };
        let rules = binding.narrow(&builtin("writer").unwrap().rules);
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].on.to_string(), "kv/photos/2024/");
        let elsewhere = Binding { role: "operator".into(), on: "account/a".parse().ok() };
        assert_eq!(elsewhere.narrow(&builtin("writer").unwrap().rules), []);
    }
}
