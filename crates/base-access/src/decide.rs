//! The decision.
//!
//! Always: every need must be covered, by one rule or by several whose keys meet (`tests::every_need_counts`, `ranges_that_meet_add_up`); a message says what was missing and to whom, and
//! nothing of what others may do.
//! Not here: what an action needs (needs.rs).

use crate::directory::Identity;
use crate::needs::{for_each, Need};
use crate::pattern::Pattern;
use base_types::action::Action;
use base_types::{ErrorCode, Refusal};

pub use base_types::access::Caller;

/// Whether this identity may do this.
pub fn decide(identity: &Identity, action: &Action) -> Result<(), Refusal> {
    for_each(action, &mut |need| allow(identity, &need))
}

/// Whether it has one need.
pub fn allow(identity: &Identity, need: &Need<'_>) -> Result<(), Refusal> {
    let with_verb = || identity.rules.iter().filter(|rule| rule.verbs.has(need.verb)).map(|rule| &rule.on);
    if with_verb().any(|on| on.covers(&need.target)) || Pattern::cover_together(with_verb(), &need.target) {
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
    fn ranges_that_meet_add_up() {
        let granted = |on: [&'static str; 2]| identity(&on.map(|on| ("reader", Some(on))));
        let asked = scan("", Some("a"), Some("f"), false);
        assert!(decide(&granted(["kv/a/*range:a*d", "kv/a/*range:c*f"]), &asked).is_ok());
        assert!(decide(&granted(["kv/a/*range:d*f", "kv/a/*range:a*d"]), &asked).is_ok());
        assert!(decide(&granted(["kv/a/*range:a*d", "kv/a/*range:d%00*f"]), &asked).is_err());
        assert!(decide(&granted(["kv/a/*range:a*d", "kv/b/*range:d*f"]), &asked).is_err());
        assert!(decide(&granted(["kv/a/*range:a*d", "kv/a/*range:d*e"]), &asked).is_err());
        let get = Action::KvGet { target: KvTarget::Keyspace("a".into()), key: "k".into() };
        assert!(decide(&granted(["kv/a/*key:k", "kv/a/*key:l"]), &get).is_ok());
        assert!(decide(&granted(["kv/a/*key:j", "kv/a/*key:l"]), &get).is_err());
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
