//! Whether rules give no more than others do: what a giver needs to give them.
//!
//! ```text
//!   rule given ──for each verb──▶ one rule held includes its resource, or several held whose keys meet ──▶ covered
//!                                  └── none does ──▶ the first part that is not covered, for the message
//! ```
//!
//! Always: a caller whose rules are covered may do nothing that the holder of the others may not
//! (`tests::covered_rules_allow_no_more`); every rule covers itself, and what a binding leaves of it.
//! Where it is hard to say, it is not covered: `all on *` is covered by nothing but rules on `*`, for later builds have more kinds.
//! Not here: who gives what to whom (core-access).
//! Why: docs/decisions/0093-nobody-grants-more-than-he-has.md.

use crate::pattern::Pattern;
use crate::role::Rule;
use crate::verb::{Verb, Verbs};

/// The first of these rules that is not covered, as far as it is not; `None`: all are.
pub fn uncovered<'r>(given: &[Rule], held: impl Iterator<Item = &'r Rule> + Clone) -> Option<Rule> {
    given.iter().find_map(|rule| {
        let verbs = missing(rule, held.clone());
        (!verbs.is_empty()).then(|| Rule { verbs, on: rule.on.clone() })
    })
}

/// Whether rules allow everything.
pub fn is_everything(rules: &[Rule]) -> bool {
    let everything = Rule { verbs: Verbs::ALL, on: Pattern::everything() };
    missing(&everything, rules.iter()).is_empty()
}

/// The verbs of a rule that are not covered.
fn missing<'r>(rule: &Rule, held: impl Iterator<Item = &'r Rule> + Clone) -> Verbs {
    let mut missing = rule.verbs;
    for own in held.clone() {
        if missing.is_empty() {
            return missing;
        }
        if own.on.includes(&rule.on) {
            missing = missing.without(own.verbs);
        }
    }
    let open = missing;
    for verb in Verb::ALL.iter().filter(|verb| open.has(**verb)) {
        let with_verb = held.clone().filter(|own| own.verbs.has(*verb)).map(|own| &own.on);
        if Pattern::include_together(with_verb, &rule.on) {
            missing = missing.without(Verbs::of(&[*verb]));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::allow;
    use crate::directory::Identity;
    use crate::needs::Need;
    use crate::pattern::{Keys, Kind, Target};
    use crate::role::{builtin, Binding, BUILTIN_ROLES};
    use proptest::prelude::*;

    fn rule(text: &str) -> Rule {
        let (verbs, on) = text.split_once(" on ").expect(text);
        Rule { verbs: verbs.parse().expect(text), on: on.parse().expect(text) }
    }

    /// The part that is not covered, as people write it.
    fn lacks(given: &[&str], held: &[&str]) -> Option<String> {
        let rules = |texts: &[&str]| -> Vec<Rule> { texts.iter().map(|text| rule(text)).collect() };
        let held = rules(held);
        uncovered(&rules(given), held.iter()).map(|rule| format!("{} on {}", rule.verbs, rule.on))
    }

    #[test]
    fn each_dimension_counts() {
        let none: Option<String> = None;
        assert_eq!(lacks(&[], &[]), none);
        assert_eq!(lacks(&["read on kv/a/x"], &["read,list on kv/a"]), none);
        assert_eq!(lacks(&["read,write on kv/a"], &["read on kv/a"]), Some("write on kv/a".into()));
        assert_eq!(lacks(&["read on kv/b"], &["read on kv/a"]), Some("read on kv/b".into()));
        assert_eq!(lacks(&["read on kv/a*"], &["read on kv/a"]), Some("read on kv/a*".into()));
        assert_eq!(lacks(&["read on kv/a"], &["read on kv/a/x"]), Some("read on kv/a".into()));
        assert_eq!(
            lacks(&["read on kv/a/*range:b*d"], &["read on kv/a/*range:b*c"]),
            Some("read on kv/a/*range:b*d".into())
        );
        assert_eq!(lacks(&["read on bucket/a"], &["read on kv/*"]), Some("read on bucket/a".into()));
        assert_eq!(lacks(&["secure on security/shop"], &["secure on security/*"]), none);
        assert_eq!(lacks(&["secure on security/*"], &["secure on security/shop"]), Some("secure on security/*".into()));
    }

    #[test]
    fn several_rules_add_up() {
        assert_eq!(lacks(&["read,write on kv/a/x"], &["read on kv/a", "write on kv/*"]), None);
        assert_eq!(lacks(&["read on kv/a/*range:a*d"], &["read on kv/a/*range:c*", "read on kv/a/*range:a*c"]), None);
        let apart = ["read on kv/a/*range:a*c", "write on kv/a/*range:c*d"];
        assert_eq!(lacks(&["read on kv/a/*range:a*d"], &apart), Some("read on kv/a/*range:a*d".into()));
        assert_eq!(
            lacks(&["all on *"], &["read,list,write,delete on *", "configure,inspect,operate,secure on *"]),
            None
        );
        let kinds: Vec<String> = Kind::ALL.iter().map(|kind| format!("all on {}/*", kind.as_str())).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        assert_eq!(lacks(&["all on *"], &kinds), Some("all on *".into()), "later builds have more kinds");
    }

    #[test]
    fn roles_cover_what_bindings_leave_of_them() {
        for (name, _) in BUILTIN_ROLES {
            let whole = builtin(name).expect(name).rules;
            assert_eq!(uncovered(&whole, whole.iter()), None, "{name}");
            for on in ["kv/a/x/", "bucket/*", "security/shop", "cluster/metadata@a", "kv/a/*key:k"] {
                let narrowed = Binding { role: name.to_string(), on: on.parse().ok() }.narrow(&whole);
                assert_eq!(uncovered(&narrowed, whole.iter()), None, "{name} on {on}");
            }
        }
        let admin = builtin("security-admin").expect("built in").rules;
        for (name, _) in BUILTIN_ROLES.iter().filter(|(name, _)| *name != "security-admin") {
            assert!(uncovered(&builtin(name).expect(name).rules, admin.iter()).is_some(), "{name}");
        }
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let key = || proptest::sample::select(vec!["", "a", "b", "c", "ab", "b%00"]);
        let span = (key(), key(), 0..4_u8).prop_map(|(from, end, what)| match what {
            0 => String::new(),
            1 => format!("/{from}"),
            2 => format!("/*key:{from}"),
            _ => format!("/*range:{from}*{end}"),
        });
        let on = (proptest::sample::select(vec!["kv/m", "kv/mn", "kv/n"]), span)
            .prop_map(|(name, span)| format!("{name}{span}"));
        let wide = proptest::sample::select(vec!["*", "kv/*", "kv/m*", "bucket/*", "bucket/m", "bucket/m/a"]);
        let on = prop_oneof![4 => on, 2 => wide.prop_map(String::from)];
        let on = on.prop_filter_map("no pattern", |on| on.parse().ok());
        let verbs = proptest::sample::select(vec!["read", "write", "read,write", "all"]);
        (verbs, on).prop_map(|(verbs, on): (&str, Pattern)| Rule { verbs: verbs.parse().expect(verbs), on })
    }

    fn identity(rules: &[Rule]) -> Identity {
        Identity { user: "u".into(), tenant: None, rules: rules.into(), within: None, changed_at: 0, expires_ms: None }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// What is covered allows nothing that the holder may not do.
        #[test]
        fn covered_rules_allow_no_more(
            mut given in proptest::collection::vec(any_rule(), 0..6),
            held in proptest::collection::vec(any_rule(), 0..6),
            verb in proptest::sample::select(vec![Verb::Read, Verb::Write, Verb::Secure]),
            kind in proptest::sample::select(vec![Kind::Kv, Kind::Bucket, Kind::Node]),
            name in proptest::sample::select(vec![None, Some("m"), Some("mn"), Some("n")]),
            keys in proptest::collection::vec(0x61_u8..0x64, 0..3),
            end in proptest::option::of(proptest::collection::vec(0x61_u8..0x64, 1..3)),
            what in 0..3_u8,
        ) {
            given.retain(|rule| uncovered(core::slice::from_ref(rule), held.iter()).is_none());
            prop_assert_eq!(uncovered(&given, held.iter()), None);
            let keys = match what {
                _ if name.is_none() => Keys::ALL,
                0 => Keys::One(&keys),
                1 => Keys::Range { prefix: b"", from: &keys, end: end.as_deref() },
                _ => Keys::Any,
            };
            let need = Need { verb, target: Target { kind, name, keys } };
            prop_assert!(allow(&identity(&given), &need).is_err() || allow(&identity(&held), &need).is_ok());
        }

        /// Who has the rules, whatever else it has, may give each of them, narrowed, too.
        #[test]
        fn everybody_covers_what_it_has(
            held in proptest::collection::vec(any_rule(), 1..6),
            at in any::<proptest::sample::Index>(),
            on in any_rule(),
        ) {
            let own = at.get(&held);
            prop_assert_eq!(uncovered(core::slice::from_ref(own), held.iter()), None);
            let narrowed: Vec<Rule> = own.on.and(&on.on).map(|both| Rule { verbs: own.verbs, on: both }).into_iter().collect();
            prop_assert_eq!(uncovered(&narrowed, held.iter()), None);
        }

        /// A key that a rule allows and no rule of the holder does is found.
        #[test]
        fn a_key_too_many_is_found(
            given in any_rule(),
            held in proptest::collection::vec(any_rule(), 0..6),
            key in proptest::collection::vec(0x61_u8..0x64, 0..3),
        ) {
            let keys = Keys::One(&key);
            let need = Need { verb: Verb::Read, target: Target { kind: Kind::Kv, name: Some("m"), keys } };
            let given = [given];
            if allow(&identity(&given), &need).is_ok() && allow(&identity(&held), &need).is_err() {
                prop_assert!(uncovered(&given, held.iter()).is_some());
            }
        }
    }
}
