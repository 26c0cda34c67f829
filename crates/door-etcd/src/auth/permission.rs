//! Permissions of etcd and rules of Hive.
//!
//! ```text
//!   all keys    kv/<namespace>                    a prefix    kv/<namespace>/<prefix>
//!   one key     kv/<namespace>/*key:<key>         a range     kv/<namespace>/*range:<from>*<end>, without end: all from there on
//! ```
//! Always: [`of_rules`] gives back what [`rule`] made, and leaves out rules that are no permission of etcd's.
//! Held by: `permissions_become_rules_and_come_back`, `rules_elsewhere_are_no_permissions`.
//! Not here: what a rule covers (base-access).

use crate::proto::authpb::permission::Type;
use crate::proto::authpb::Permission;
use crate::status::INVALID_AUTH_MGMT;
use base_types::access::RuleText;
use bytes::Bytes;
use tonic::Status;

const READS: &str = "read,list";
const WRITES: &str = "write,delete";
const BOTH: &str = "read,list,write,delete";

/// The least key after all that begin with a prefix; none: all keys from it on.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte != 0xff) else { return vec![0] };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

/// Bytes that are no printable text are written `%hh`, and so are `%` and `*`: base-access reads them so.
fn escaped(prefix: &[u8]) -> String {
    let mut text = String::new();
    for byte in prefix {
        match byte {
            b'%' | b'*' => text.push_str(&format!("%{byte:02x}")),
            0x21..=0x7e => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

/// What stands before a single key, and before a range, in a resource.
const KEY_MARK: &str = "*key:";
const RANGE_MARK: &str = "*range:";

/// The resource of a permission's keys.
pub(super) fn resource_of(key: &[u8], range_end: &[u8], namespace: &str) -> Result<String, Status> {
    let own = |keys: String| Ok(format!("kv/{namespace}/{keys}"));
    match (key, range_end) {
        ([] | [0], [0]) => Ok(format!("kv/{namespace}")),
        ([], _) => Err(INVALID_AUTH_MGMT.into()),
        (_, []) => own(format!("{KEY_MARK}{}", escaped(key))),
        _ if end_of(key) == range_end => own(escaped(key)),
        (_, [0]) => own(format!("{RANGE_MARK}{}*", escaped(key))),
        _ if key >= range_end => Err(INVALID_AUTH_MGMT.into()),
        _ if range_end.strip_suffix(&[0]) == Some(key) => own(format!("{KEY_MARK}{}", escaped(key))),
        _ => own(format!("{RANGE_MARK}{}*{}", escaped(key), escaped(range_end))),
    }
}

/// The rule of a permission.
pub(super) fn rule(permission: &Permission, namespace: &str) -> Result<String, Status> {
    let verbs = match Type::try_from(permission.perm_type) {
        Ok(Type::Read) => READS,
        Ok(Type::Write) => WRITES,
        Ok(Type::Readwrite) => BOTH,
        Err(_) => {
            let message = format!("hive: the permission's type {} is none; use 0, 1 or 2", permission.perm_type);
            return Err(Status::invalid_argument(message));
        }
    };
    Ok(format!("{verbs} on {}", resource_of(&permission.key, &permission.range_end, namespace)?))
}

/// The resource of a rule.
pub(super) fn resource(rule: &str) -> Option<&str> {
    rule.split_once(" on ").map(|(_, on)| on)
}

/// A rule as calls on the directory have it.
pub(super) fn rule_text(rule: &str) -> Option<RuleText> {
    let (verbs, on) = rule.split_once(" on ")?;
    Some(RuleText { verbs: verbs.to_string(), on: on.to_string() })
}

/// The permissions in a namespace that rules come to.
pub(super) fn of_rules(rules: &[String], namespace: &str) -> Vec<Permission> {
    rules.iter().filter_map(|rule| of_rule(rule, namespace)).collect()
}

/// The key and the end of the range that a resource's keys are.
fn keys_of(text: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some(key) = text.strip_prefix(KEY_MARK) {
        return Some((unescaped(key)?, Vec::new()));
    }
    if let Some((from, end)) = text.strip_prefix(RANGE_MARK).and_then(|range| range.split_once('*')) {
        // etcd has no empty key: the least is a zero byte.
        let or_zero = |key: Vec<u8>| if key.is_empty() { vec![0] } else { key };
        return Some((or_zero(unescaped(from)?), or_zero(unescaped(end)?)));
    }
    let prefix = unescaped(text)?;
    if prefix.is_empty() {
        return Some((vec![0], vec![0]));
    }
    let end = end_of(&prefix);
    Some((prefix, end))
}

fn of_rule(rule: &str, namespace: &str) -> Option<Permission> {
    let (verbs, on) = rule.split_once(" on ")?;
    let has = |verb: &str| verbs == "all" || verbs.split(',').any(|own| own.trim() == verb);
    let perm_type = match (has("read") && has("list"), has("write") && has("delete")) {
        (true, true) => Type::Readwrite,
        (true, false) => Type::Read,
        (false, true) => Type::Write,
        (false, false) => return None,
    };
    let (key, range_end) = if on == "*" {
        (vec![0], vec![0])
    } else {
        let rest = on.strip_prefix("kv/")?;
        let (name, keys) = rest.split_once('/').unwrap_or((rest, ""));
        let covered = match name.strip_suffix('*') {
            Some(start) => namespace.starts_with(start),
            None => name == namespace,
        };
        if !covered {
            return None;
        }
        keys_of(keys)?
    };
    Some(Permission { perm_type: perm_type as i32, key: Bytes::from(key), range_end: Bytes::from(range_end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(perm_type: Type, key: &[u8], range_end: &[u8]) -> Permission {
        let bytes = Bytes::copy_from_slice;
        Permission { perm_type: perm_type as i32, key: bytes(key), range_end: bytes(range_end) }
    }

    #[test]
    fn permissions_become_rules_and_come_back() {
        let cases: [(&[u8], &[u8], &str); 12] = [
            (b"a", b"", "read,list,write,delete on kv/ns/*key:a"),
            (b"*", b"", "read,list,write,delete on kv/ns/*key:%2a"),
            (b"\0", b"", "read,list,write,delete on kv/ns/*key:%00"),
            (b"a", b"c", "read,list,write,delete on kv/ns/*range:a*c"),
            (b"a*", b"a\xff", "read,list,write,delete on kv/ns/*range:a%2a*a%ff"),
            (b"a", b"\0", "read,list,write,delete on kv/ns/*range:a*"),
            (b"\0", b"c", "read,list,write,delete on kv/ns/*range:%00*c"),
            (b"app/", b"app0", "read,list,write,delete on kv/ns/app/"),
            (b"\0", b"\0", "read,list,write,delete on kv/ns"),
            (b"a\xff", b"b", "read,list,write,delete on kv/ns/a%ff"),
            (b"50%*", b"50%+", "read,list,write,delete on kv/ns/50%25%2a"),
            (b"a b", b"a c", "read,list,write,delete on kv/ns/a%20b"),
        ];
        for (key, end, expected) in cases {
            let given = permission(Type::Readwrite, key, end);
            let text = rule(&given, "ns").unwrap();
            assert_eq!(text, expected);
            assert_eq!(of_rules(&[text], "ns"), [given]);
        }
    }

    /// What base-access makes of a rule covers exactly the permission's keys.
    #[test]
    fn rules_cover_what_was_permitted() {
        let keys: [&[u8]; 9] = [b"\0", b"a", b"a\0", b"ab", b"b", b"b\xff", b"c", b"c\0", b"\xff\xff"];
        for (from, end) in keys.iter().flat_map(|from| keys.iter().map(move |end| (*from, *end))) {
            for end in [end, &b""[..], &b"\0"[..]] {
                let Ok(text) = resource_of(from, end, "ns") else {
                    assert!(end != b"\0" && !end.is_empty() && from >= end, "{from:?} {end:?}");
                    continue;
                };
                let pattern: base_access::Pattern = text.parse().unwrap();
                for key in keys {
                    let permitted = match end {
                        b"" => key == from,
                        b"\0" => key >= from,
                        end => key >= from && key < end,
                    };
                    let keys = base_access::Keys::One(key);
                    let target = base_access::Target { kind: base_access::Kind::Kv, name: Some("ns"), keys };
                    assert_eq!(pattern.covers(&target), permitted, "{text} {key:?}");
                }
                assert_eq!(pattern.to_string(), text);
            }
        }
    }

    #[test]
    fn ranges_without_keys_are_refused() {
        let cases: [(&[u8], &[u8]); 4] = [(b"", b""), (b"", b"a"), (b"c", b"a"), (b"a", b"a")];
        for (key, end) in cases {
            let status = rule(&permission(Type::Read, key, end), "ns").unwrap_err();
            assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, INVALID_AUTH_MGMT.text));
        }
    }

    #[test]
    fn rules_elsewhere_are_no_permissions() {
        let rules = ["operate on cluster/*", "read on kv/ns", "read,list on kv/other/a", "inspect on *"];
        assert_eq!(of_rules(&rules.map(String::from), "ns"), []);
    }
}
