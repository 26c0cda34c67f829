//! The part of a bucket policy's text that says whether it is public, for gateways and cores alike.
//!
//! Always: a statement is public if it allows something to everybody, under no condition that limits callers to certain
//! places or persons. AWS calls this a public policy; we judge it as far as its conditions are known here. All callers
//! share this judgement: a policy that is refused as public is also reported as public.
//! Held by: `public_is_what_nobody_can_name`.
//! Not here: who may do what by a policy, and which policies are understood (door-s3).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::de::IgnoredAny;
use serde::Deserialize;

/// A policy's statements, as far as they say who is let in.
#[derive(Deserialize)]
pub struct PolicyShape {
    #[serde(rename = "Statement")]
    statements: Listed<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    #[serde(rename = "Effect")]
    effect: Word,
    /// Absent: `NotPrincipal`, which is everybody but some.
    #[serde(rename = "Principal")]
    principal: Option<Principal>,
    /// Operator, key, values.
    #[serde(rename = "Condition", default)]
    conditions: BTreeMap<String, BTreeMap<String, Listed<Word>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Principal {
    All(String),
    /// Kind (`AWS`, `CanonicalUser`) and who.
    Named(BTreeMap<String, Listed<Word>>),
}

/// A list or one. The list comes first: a struct would be read out of a list, too.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Many(Vec<T>),
    One(T),
}

/// A text; numbers and booleans never say who is let in.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Other(IgnoredAny),
}

impl<T> Listed<T> {
    fn all(&self) -> &[T] {
        match self {
            Listed::One(one) => core::slice::from_ref(one),
            Listed::Many(many) => many,
        }
    }
}

impl Word {
    fn text(&self) -> &str {
        match self {
            Word::Text(text) => text,
            Word::Other(_) => "",
        }
    }
}

impl PolicyShape {
    /// Whether it lets in callers nobody can name.
    pub fn is_public(&self) -> bool {
        self.statements.all().iter().any(Statement::is_public)
    }
}

impl Statement {
    fn is_public(&self) -> bool {
        let everybody = match &self.principal {
            None => true,
            Some(Principal::All(text)) => text == "*",
            Some(Principal::Named(kinds)) => kinds.values().flat_map(Listed::all).any(|account| account.text() == "*"),
        };
        let narrowed = self.conditions.iter().any(|(operator, keys)| {
            keys.iter().any(|(key, values)| narrows(operator, &key.to_ascii_lowercase(), values.all()))
        });
        self.effect.text() == "Allow" && everybody && !narrowed
    }
}

/// Whether only callers from certain places, or certain callers, can meet a condition. Not one that is negated, or that
/// holds of who has no such key: anybody meets that.
fn narrows(operator: &str, key: &str, values: &[Word]) -> bool {
    match operator {
        "IpAddress" => values.iter().all(|value| !value.text().ends_with("/0")),
        "StringEquals" | "StringEqualsIgnoreCase" => {
            matches!(key, "aws:principalaccount" | "aws:userid" | "aws:username")
        }
        _ => false,
    }
}
