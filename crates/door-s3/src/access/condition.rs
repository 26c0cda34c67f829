//! The conditions of a policy's statement.
//!
//! Always: an operator or key that is not known here is refused when the policy is put. A key that the
//! request does not have makes a condition false, of a negated operator or one with `…IfExists` true,
//! as in AWS; `ForAllValues:` is then true and `ForAnyValue:` false.
//! Held by: `what_is_not_understood_is_refused_when_it_is_put`, `conditions`.

use super::policy::PATTERN_BYTES_MAX;
use super::variable::Template;
use super::wildcard::{matches, Steps, TooCostly};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a request says of itself: condition keys in lower case, most with one value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Context(BTreeMap<String, Vec<String>>);

impl Context {
    /// Sets a key's only value; its name in any case.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_ascii_lowercase(), vec![value.into()]);
    }

    /// Adds a value to a key that may have several.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.0.entry(key.to_ascii_lowercase()).or_default().push(value.into());
    }

    /// Forgets the keys that begin so, in lower case.
    pub fn forget(&mut self, prefix: &str) {
        self.0.retain(|key, _| !key.starts_with(prefix));
    }

    /// The only value of a key, by its name in lower case.
    pub fn one(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|values| values.first()).map(String::as_str)
    }

    fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }
}

/// The keys that a policy may test; one ending in `/` has a tag's name after it.
const KEYS: &[&str] = &[
    "aws:currenttime",
    "aws:epochtime",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalisawsservice",
    "aws:principaltype",
    "aws:referer",
    "aws:resourceaccount",
    "aws:securetransport",
    "aws:sourceip",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
    "s3:authtype",
    "s3:delimiter",
    "s3:existingobjecttag/",
    "s3:if-match",
    "s3:if-none-match",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:prefix",
    "s3:requestobjecttag/",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];

/// `arn`, partition, service, region, account, resource.
const ARN_PARTS: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Test {
    Equals,
    EqualsIgnoreCase,
    Like,
    /// Each of an ARN's six parts by itself: a wildcard stays within its part.
    Arn,
    Number(Order),
    Date(Order),
    Bool,
    Address,
    Null,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How a test is of a key with several values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    /// It is of one value.
    One,
    /// Each must pass.
    All,
    /// One of them must.
    Any,
}

/// One key's test.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    test: Test,
    negated: bool,
    if_exists: bool,
    of: Of,
    key: String,
    /// One of these must match; of a negated test none may.
    values: Vec<Template>,
}

fn operator(name: &str) -> Option<(Test, bool)> {
    Some(match name {
        "StringEquals" => (Test::Equals, false),
        "StringNotEquals" => (Test::Equals, true),
        "StringEqualsIgnoreCase" => (Test::EqualsIgnoreCase, false),
        "StringNotEqualsIgnoreCase" => (Test::EqualsIgnoreCase, true),
        "StringLike" => (Test::Like, false),
        "StringNotLike" => (Test::Like, true),
        "ArnEquals" | "ArnLike" => (Test::Arn, false),
        "ArnNotEquals" | "ArnNotLike" => (Test::Arn, true),
        "NumericEquals" => (Test::Number(Order::Equal), false),
        "NumericNotEquals" => (Test::Number(Order::Equal), true),
        "NumericLessThan" => (Test::Number(Order::Less), false),
        "NumericLessThanEquals" => (Test::Number(Order::LessOrEqual), false),
        "NumericGreaterThan" => (Test::Number(Order::Greater), false),
        "NumericGreaterThanEquals" => (Test::Number(Order::GreaterOrEqual), false),
        "DateEquals" => (Test::Date(Order::Equal), false),
        "DateNotEquals" => (Test::Date(Order::Equal), true),
        "DateLessThan" => (Test::Date(Order::Less), false),
        "DateLessThanEquals" => (Test::Date(Order::LessOrEqual), false),
        "DateGreaterThan" => (Test::Date(Order::Greater), false),
        "DateGreaterThanEquals" => (Test::Date(Order::GreaterOrEqual), false),
        "Bool" => (Test::Bool, false),
        "IpAddress" => (Test::Address, false),
        "NotIpAddress" => (Test::Address, true),
        "Null" => (Test::Null, false),
        _ => return None,
    })
}

impl Condition {
    /// Reads `{"StringEquals": {"s3:prefix": ["a", "b"]}, …}`.
    pub fn parse_all(value: &Value) -> Result<Vec<Condition>, String> {
        let Value::Object(operators) = value else { return Err("Condition must be an object".to_owned()) };
        let mut out = Vec::new();
        for (name, keys) in operators {
            let (of, plain) = match name.split_once(':') {
                Some(("ForAllValues", plain)) => (Of::All, plain),
                Some(("ForAnyValue", plain)) => (Of::Any, plain),
                _ => (Of::One, name.as_str()),
            };
            let base = plain.strip_suffix("IfExists");
            let qualified = base.is_some() || of != Of::One;
            let found = operator(base.unwrap_or(plain)).filter(|(test, _)| !qualified || *test != Test::Null);
            let (test, negated) = found.ok_or_else(|| format!("Invalid Condition type: {name}"))?;
            let Value::Object(keys) = keys else { return Err(format!("Condition {name} must be an object")) };
            for (key, values) in keys {
                let values = values_of(values).ok_or_else(|| format!("Condition {name} on {key} needs values"))?;
                check_key(key)?;
                values.iter().try_for_each(|value| check_value(test, value))?;
                if let Some(long) = values.iter().find(|value| value.len() > PATTERN_BYTES_MAX) {
                    let bytes = long.len();
                    return Err(format!(
                        "Condition {name} on {key} has a value of {bytes} bytes; at most {PATTERN_BYTES_MAX} are taken"
                    ));
                }
                let key = key.to_ascii_lowercase();
                let texts = matches!(test, Test::Equals | Test::EqualsIgnoreCase | Test::Like | Test::Arn);
                let template = |value: String| if texts { Template::parse(value) } else { Ok(Template::plain(value)) };
                let values = values.into_iter().map(template).collect::<Result<Vec<_>, _>>()?;
                out.push(Condition { test, negated, if_exists: base.is_some(), of, key, values });
            }
        }
        Ok(out)
    }

    /// Whether it holds of a request.
    ///
    /// `grants`: whether it is of a statement that allows. A variable without a value lets nobody in.
    pub fn holds(&self, context: &Context, grants: bool, steps: &mut Steps) -> Result<bool, TooCostly> {
        let found = context.all(&self.key);
        if self.test == Test::Null {
            let wanted_absent = self.values.iter().any(|value| value.is("true"));
            return Ok(found.is_empty() == wanted_absent);
        }
        match self.of {
            Of::One if found.is_empty() => Ok(self.negated || self.if_exists),
            Of::One | Of::Any => {
                for found in found {
                    if self.passes(found, context, grants, steps)? {
                        return Ok(true);
                    }
                }
                Ok(found.is_empty() && self.if_exists)
            }
            Of::All => {
                for found in found {
                    if !self.passes(found, context, grants, steps)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn passes(&self, found: &str, context: &Context, grants: bool, steps: &mut Steps) -> Result<bool, TooCostly> {
        for value in &self.values {
            let Some(value) = value.expand(context, matches!(self.test, Test::Like | Test::Arn)) else {
                if self.negated && grants {
                    return Ok(false);
                }
                continue;
            };
            if self.test.matches(found, &value, steps)? {
                return Ok(!self.negated);
            }
        }
        Ok(self.negated)
    }
}

impl Test {
    fn matches(self, found: &str, value: &str, steps: &mut Steps) -> Result<bool, TooCostly> {
        Ok(match self {
            Test::Equals => found == value,
            Test::EqualsIgnoreCase => found.eq_ignore_ascii_case(value),
            Test::Like => matches(value, found, steps)?,
            Test::Arn => arn_matches(value, found, steps)?,
            Test::Bool => found.eq_ignore_ascii_case(value),
            Test::Number(order) => {
                matches!((number(found), number(value)), (Some(found), Some(value)) if order.holds(found, value))
            }
            Test::Date(order) => match (seconds(found), seconds(value)) {
                (Some(found), Some(value)) => order.holds(found, value),
                _ => false,
            },
            Test::Address => match (found.parse::<IpAddr>(), network(value)) {
                (Ok(found), Some((address, bits))) => inside(found, address, bits),
                _ => false,
            },
            Test::Null => false,
        })
    }
}

impl Order {
    fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Order::Equal => left == right,
            Order::Less => left < right,
            Order::LessOrEqual => left <= right,
            Order::Greater => left > right,
            Order::GreaterOrEqual => left >= right,
        }
    }
}

fn values_of(value: &Value) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        _ => None,
    };
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().map(one).collect(),
        other => one(other).map(|value| vec![value]),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let lower = key.to_ascii_lowercase();
    let known = KEYS.iter().any(|known| match known.strip_suffix('/') {
        Some(_) => lower.strip_prefix(known).is_some_and(|tag| !tag.is_empty()),
        None => lower == *known,
    });
    if known {
        return Ok(());
    }
    Err(format!("Policy has an invalid condition key: {key}"))
}

fn check_value(test: Test, value: &str) -> Result<(), String> {
    let good = match test {
        Test::Number(_) => number(value).is_some(),
        Test::Date(_) => seconds(value).is_some(),
        Test::Bool | Test::Null => matches!(value, "true" | "false"),
        Test::Address => network(value).is_some(),
        Test::Arn => value.splitn(ARN_PARTS, ':').count() == ARN_PARTS && value.starts_with("arn:"),
        Test::Equals | Test::EqualsIgnoreCase | Test::Like => true,
    };
    if good {
        return Ok(());
    }
    Err(format!("Invalid condition value: {value}"))
}

/// A number that can be compared: neither `NaN` nor without end.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn arn_matches(pattern: &str, found: &str, steps: &mut Steps) -> Result<bool, TooCostly> {
    let (mut patterns, mut parts) = (pattern.splitn(ARN_PARTS, ':'), found.splitn(ARN_PARTS, ':'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return Ok(true),
            (Some(pattern), Some(part)) if matches(pattern, part, steps)? => {}
            _ => return Ok(false),
        }
    }
}

/// Seconds since 1970 of a number or of `2026-11-21T16:00:00Z`.
fn seconds(text: &str) -> Option<f64> {
    if let Some(number) = number(text) {
        return Some(number);
    }
    let time = s3s::dto::Timestamp::parse(s3s::dto::TimestampFormat::DateTime, text).ok()?;
    Some(crate::times::millis(&time) as f64 / 1000.0)
}

fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse::<u32>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some((address, bits))
}

fn inside(found: IpAddr, address: IpAddr, bits: u32) -> bool {
    match (found, address) {
        (IpAddr::V4(found), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(found) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(found), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(found) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}
