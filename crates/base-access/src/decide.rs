//! The decision.
//!
//! Always: every need must be covered by one rule (`tests::every_need_counts`); a message says what was missing and to whom, and
//! nothing of what others may do.
//! Not here: what an action needs (needs.rs).

use crate::directory::Identity;
use crate::needs::{for_each, Need};
use base_types::action::Action;
use base_types::{ErrorCode, Refusal};

pub use base_types::access::Caller;

/// Whether this identity may do this.
pub fn decide(identity: &Identity, action: &Action) -> Result<(), Refusal> {
    for_each(action, &mut |need| allow(identity, &need))
}

/// Whether it has one need.
pub fn allow(identity: &Identity, need: &Need<'_>) -> Result<(), Refusal> {
    let covers = |rule: &crate::Rule| rule.verbs.has(need.verb) && rule.on.covers(&need.target);
    if identity.rules.iter().any(covers) {
        return Ok(());
    }
    let message = format!(
        "user {} may not {} {}; a role that allows it is given by `hive user grant` (GrantRole)",
        identity.user,
        need.verb.as_str(),
        need.target
    );
    Err(Refusal::new(ErrorCode::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::{builtin, Binding};
    use base_types::action::{BatchStep, KvTarget};
    use bytes::Bytes;

    fn identity(bindings: &[(&str, Option<&str>)]) -> Identity {
        let rules = bindings.iter().flat_map(|(role, on)| {
            let binding = Binding { role: role.to_string(), on: on.map(|on| on.parse().expect(on)) };
            binding.narrow(&builtin(role).expect(role).rules)
        });
        Identity {
            user: "alice".into(),
            tenant: None,
            rules: rules.collect(),
            within: None,
            changed_at: 0,
            expires_ms: None,
        }
    }

    fn put(keyspace: &str, key: &'static str) -> Action {
        Action::KvPut { target: KvTarget::Keyspace(keyspace.into()), key: key.into(), value: "v".into() }
    }

    fn scan(
        prefix: &'static str,
        start_after: Option<&'static str>,
        end: Option<&'static str>,
        reverse: bool,
    ) -> Action {
        Action::KvScan {
            target: KvTarget::Keyspace("a".into()),
            prefix: prefix.into(),
            start_after: start_after.map(Bytes::from),
            end: end.map(Bytes::from),
            limit: 10,
            reverse,
            keys_only: false,
        }
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        let nobody = identity(&[]);
        for action in [put("a", "k"), scan("", None, None, false), Action::ListNodes, Action::ListKeyspaces] {
            let refusal = decide(&nobody, &action).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::PermissionDenied);
        }
    }

    #[test]
    fn every_need_counts() {
        let alice = identity(&[("writer", Some("kv/a/x/"))]);
        let step = |key: &'static str| BatchStep::Delete { key: key.into() };
        let batch = |keys: &[&'static str]| Action::KvBatch {
            target: KvTarget::Keyspace("a".into()),
            steps: keys.iter().map(|key| step(key)).collect(),
        };
        assert!(decide(&alice, &batch(&["x/1", "x/2"])).is_ok());
        let refusal = decide(&alice, &batch(&["x/1", "y"])).unwrap_err();
        assert!(refusal.message.contains("user alice may not delete kv/a/y"), "{}", refusal.message);
    }

    #[test]
    fn scans_are_allowed_inside_a_prefix_only() {
        let alice = identity(&[("reader", Some("kv/a/x/"))]);
        assert!(decide(&alice, &scan("x/", None, None, false)).is_ok());
        assert!(decide(&alice, &scan("x/", Some("x/5"), None, false)).is_ok());
        assert!(decide(&alice, &scan("x/", Some("x/5"), None, true)).is_ok());
        assert!(decide(&alice, &scan("", Some("x/5"), Some("x/9"), false)).is_ok());
        assert!(decide(&alice, &scan("", Some("x/5"), None, false)).is_err());
        assert!(decide(&alice, &scan("", Some("x/5"), None, true)).is_err());
        assert!(decide(&alice, &scan("x", None, None, false)).is_err());
        assert!(decide(&alice, &put("a", "x/1")).is_err());
    }

    #[test]
    fn raw_clusters_are_operators_alone() {
        let target = KvTarget::Cluster("metadata@default-0".parse().unwrap());
        let get = Action::KvGet { target, key: "k".into() };
        assert!(decide(&identity(&[("writer", None)]), &get).is_err());
        assert!(decide(&identity(&[("tenant-admin", None)]), &get).is_err());
        assert!(decide(&identity(&[("operator", None)]), &get).is_ok());
        assert!(decide(&identity(&[("operator", None)]), &put("a", "k")).is_err());
    }
}
