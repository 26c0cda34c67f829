//! Permissions of etcd and rules of Hive: `verbs on kv/<namespace>/<prefix>`.
//!
//! A rule covers all keys with a prefix. So a permission on a single key, or on a range that is no prefix, has no rule, and is refused rather
//! than widened.
//!
//! Always: [`of_rules`] gives back what [`rule`] made, and leaves out rules that are no permission of etcd's.
//! Not here: what a rule covers (base-access).

use crate::proto::authpb::permission::Type;
use crate::proto::authpb::Permission;
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

/// The prefix whose keys a range is; none: it is no prefix.
fn prefix_of<'a>(key: &'a [u8], range_end: &[u8]) -> Option<&'a [u8]> {
    match (key, range_end) {
        ([] | [0], [0]) => Some(&[]),
        (_, []) => None,
        _ => (end_of(key) == range_end).then_some(key),
    }
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

/// The resource of a permission's keys.
pub(super) fn resource_of(key: &[u8], range_end: &[u8], namespace: &str) -> Result<String, Status> {
    match prefix_of(key, range_end) {
        Some([]) => Ok(format!("kv/{namespace}")),
        Some(prefix) => Ok(format!("kv/{namespace}/{}", escaped(prefix))),
        None => Err(Status::invalid_argument(
            "hive: a permission covers all keys with a prefix, no single key and no other range; grant a prefix \
             (`etcdctl role grant-permission ROLE readwrite KEY --prefix`)",
        )),
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

fn of_rule(rule: &str, namespace: &str) -> Option<Permission> {
    let (verbs, on) = rule.split_once(" on ")?;
    let has = |verb: &str| verbs == "all" || verbs.split(',').any(|own| own.trim() == verb);
    let perm_type = match (has("read") && has("list"), has("write") && has("delete")) {
        (true, true) => Type::Readwrite,
        (true, false) => Type::Read,
        (false, true) => Type::Write,
        (false, false) => return None,
    };
    let all = || (vec![0], vec![0]);
    let (key, range_end) = if on == "*" {
        all()
    } else {
        let rest = on.strip_prefix("kv/")?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let covered = match name.strip_suffix('*') {
            Some(start) => namespace.starts_with(start),
            None => name == namespace,
        };
        if !covered {
            return None;
        }
        let prefix = unescaped(prefix)?;
        if prefix.is_empty() {
            all()
        } else {
            let end = end_of(&prefix);
            (prefix, end)
        }
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
    fn prefixes_become_rules_and_come_back() {
        let cases: [(&[u8], &[u8], &str); 5] = [
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

    #[test]
    fn ranges_that_are_no_prefix_are_refused() {
        let cases: [(&[u8], &[u8]); 4] = [(b"a", b""), (b"a", b"c"), (b"a", b"\0"), (b"", b"")];
        for (key, end) in cases {
            let status = rule(&permission(Type::Read, key, end), "ns").unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains("--prefix"), "{}", status.message());
        }
    }

    #[test]
    fn rules_elsewhere_are_no_permissions() {
        let rules = ["operate on cluster/*", "read on kv/ns", "read,list on kv/other/a", "inspect on *"];
        assert_eq!(of_rules(&rules.map(String::from), "ns"), []);
    }
}
