//! Policies of buckets and of sessions: the JSON text to statements, statements to a verdict.
//!
//! Always: what is not understood is refused when the policy is put (`MalformedPolicy`), never passed
//! over: an element that were ignored could open a bucket. An explicit deny wins over every allow.
//! A session's policy names no principals, for it is about its session alone, and resources of any bucket.
//! Held by: `what_is_not_understood_is_refused_when_it_is_put`, `an_explicit_deny_wins_in_any_order`.
//! Not here: ACLs, owners, public access block (`access.rs`).

use super::condition::{Condition, Context};
use super::variable::Template;
use super::wildcard::{matches, Steps, TooCostly};
use super::Caller;
use base_types::s3::policy::PolicyShape;
use base_types::s3::S3ErrorCode;
use base_types::Refusal;
use serde::Deserialize as _;
use serde_json::Value;

/// The longest policy text.
pub const POLICY_BYTES_MAX: usize = 20 << 10;
/// The longest pattern or value in one.
pub const PATTERN_BYTES_MAX: usize = 2 << 10;
/// What every resource of a bucket's policy begins with.
const RESOURCE_ARN: &str = "arn:aws:s3:::";
/// The longest policy of a session, in characters: AWS's bound.
pub const SESSION_POLICY_CHARS_MAX: usize = 2_048;
/// What a session's policy may name beside [`ACTIONS`]; no bucket has it.
const LIST_BUCKETS: &str = "s3:ListAllMyBuckets";
/// The versions of the policy language.
const VERSIONS: [&str; 2] = ["2012-10-17", "2008-10-17"];

/// The actions a policy may name.
pub const ACTIONS: &[&str] = &[
    "s3:AbortMultipartUpload",
    "s3:BypassGovernanceRetention",
    "s3:CreateBucket",
    "s3:DeleteBucket",
    "s3:DeleteBucketOwnershipControls",
    "s3:DeleteBucketPolicy",
    "s3:DeleteBucketWebsite",
    "s3:DeleteObject",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersion",
    "s3:DeleteObjectVersionTagging",
    "s3:GetAccelerateConfiguration",
    "s3:GetAnalyticsConfiguration",
    "s3:GetBucketAcl",
    "s3:GetBucketCORS",
    "s3:GetBucketLocation",
    "s3:GetBucketLogging",
    "s3:GetBucketNotification",
    "s3:GetBucketObjectLockConfiguration",
    "s3:GetBucketOwnershipControls",
    "s3:GetBucketPolicy",
    "s3:GetBucketPolicyStatus",
    "s3:GetBucketPublicAccessBlock",
    "s3:GetBucketRequestPayment",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetBucketWebsite",
    "s3:GetEncryptionConfiguration",
    "s3:GetIntelligentTieringConfiguration",
    "s3:GetInventoryConfiguration",
    "s3:GetLifecycleConfiguration",
    "s3:GetMetricsConfiguration",
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectAttributes",
    "s3:GetObjectLegalHold",
    "s3:GetObjectRetention",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionAttributes",
    "s3:GetObjectVersionTagging",
    "s3:GetReplicationConfiguration",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:PutBucketAcl",
    "s3:PutBucketCORS",
    "s3:PutBucketLogging",
    "s3:PutBucketObjectLockConfiguration",
    "s3:PutBucketOwnershipControls",
    "s3:PutBucketPolicy",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutBucketWebsite",
    "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
    "s3:PutObject",
    "s3:PutObjectAcl",
    "s3:PutObjectLegalHold",
    "s3:PutObjectRetention",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionAcl",
    "s3:PutObjectVersionTagging",
    "s3:PutReplicationConfiguration",
    "s3:RestoreObject",
];

/// A policy that was understood.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Policy {
    statements: Vec<Statement>,
    public: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Statement {
    allow: bool,
    principal: Principal,
    actions: Listed,
    resources: Listed,
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, Debug)]
enum Principal {
    Everybody,
    Accounts(Vec<String>),
    NotAccounts(Vec<String>),
}

/// Patterns, or with `except` all but those.
#[derive(Clone, PartialEq, Debug)]
struct Listed {
    except: bool,
    /// Those of actions are in lower case.
    patterns: Vec<Template>,
}

/// What a policy says of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A statement allows it and none denies it.
    Allow,
    /// A statement denies it.
    Deny,
    /// No statement speaks of it.
    Silent,
    /// To know it would take more work than a decision may.
    TooCostly,
}

/// What a policy is of.
#[derive(Clone, Copy)]
enum Of<'a> {
    Bucket(&'a str),
    Session,
}

fn malformed(message: impl Into<String>) -> Refusal {
    S3ErrorCode::MalformedPolicy.because(message)
}

impl Policy {
    /// Reads a policy that is put on `bucket`.
    pub fn parse(text: &str, bucket: &str) -> Result<Policy, Refusal> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(malformed(format!(
                "the policy has {} bytes; at most {POLICY_BYTES_MAX} are taken",
                text.len()
            )));
        }
        let value = serde_json::from_str(text).map_err(|_| malformed("Policies must be valid JSON"))?;
        let public = PolicyShape::deserialize(&value).is_ok_and(|shape| shape.is_public());
        Ok(Policy { statements: statements_of(&value, Of::Bucket(bucket))?, public })
    }

    /// Reads the policy of a session: what it may do at most. Its caller has bounded the text ([`SESSION_POLICY_CHARS_MAX`]).
    pub fn of_session(value: &Value) -> Result<Policy, Refusal> {
        Ok(Policy { statements: statements_of(value, Of::Session)?, public: false })
    }

    /// What it says of a request on a bucket, or on a key of it.
    pub fn judge(&self, caller: &Caller, action: &str, bucket: &str, key: Option<&str>, context: &Context) -> Verdict {
        self.judge_within(&mut Steps::default(), caller, action, (bucket, key), context)
    }

    /// As `judge`, with the steps that are left to a decision.
    pub(super) fn judge_within(
        &self,
        steps: &mut Steps,
        caller: &Caller,
        action: &str,
        (bucket, key): (&str, Option<&str>),
        context: &Context,
    ) -> Verdict {
        let resource = match key {
            Some(key) => format!("{RESOURCE_ARN}{bucket}/{key}"),
            None => format!("{RESOURCE_ARN}{bucket}"),
        };
        let asked = Question { caller, action: action.to_ascii_lowercase(), resource, context };
        let mut verdict = Verdict::Silent;
        for statement in &self.statements {
            match statement.speaks_of(&asked, steps) {
                Ok(false) => {}
                Ok(true) if statement.allow => verdict = Verdict::Allow,
                Ok(true) => return Verdict::Deny,
                Err(TooCostly) => return Verdict::TooCostly,
            }
        }
        verdict
    }

    /// Whether a session's policy lets it list buckets by name.
    pub fn allows_list_of_buckets(&self, caller: &Caller, context: &Context) -> bool {
        self.judge(caller, LIST_BUCKETS, "*", None, context) == Verdict::Allow
    }

    /// Whether it lets this caller do that to any key at all, under some condition: enough to read a request's body for.
    pub fn might_allow(&self, caller: &Caller, action: &str) -> bool {
        let (action, nothing) = (action.to_ascii_lowercase(), Context::default());
        let mut steps = Steps::default();
        let mut named = self.statements.iter().filter(|statement| statement.allow && statement.principal.is(caller));
        named.any(|statement| statement.actions.covers(&action, &nothing, true, &mut steps).unwrap_or(true))
    }

    /// Whether it lets in callers nobody can name.
    pub fn is_public(&self) -> bool {
        self.public
    }
}

fn statements_of(value: &Value, of: Of<'_>) -> Result<Vec<Statement>, Refusal> {
    let Value::Object(fields) = value else { return Err(malformed("the policy must be a JSON object")) };
    let mut statements = Vec::new();
    let mut version = false;
    for (name, value) in fields {
        match name.as_str() {
            "Version" => {
                version = value.as_str().is_some_and(|text| VERSIONS.contains(&text));
                if !version {
                    return Err(malformed(format!("the policy's Version must be {}", VERSIONS[0])));
                }
            }
            "Id" if value.is_string() => {}
            "Statement" => statements = parse_statements(value, of)?,
            other => return Err(malformed(format!("Unknown field {other}"))),
        }
    }
    if !version {
        return Err(malformed(format!("the policy must contain a Version, {}", VERSIONS[0])));
    }
    if statements.is_empty() {
        return Err(malformed("Missing required field Statement"));
    }
    let old = fields.get("Version").and_then(Value::as_str) == Some(VERSIONS[1]);
    if old && has_variables(value) {
        return Err(malformed(format!("policy variables need the Version {}", VERSIONS[0])));
    }
    Ok(statements)
}

/// Whether a text anywhere in it has `${`, names of fields too.
fn has_variables(value: &Value) -> bool {
    value.to_string().contains("${")
}

/// What a policy is asked.
struct Question<'a> {
    caller: &'a Caller,
    /// In lower case.
    action: String,
    resource: String,
    context: &'a Context,
}

impl Statement {
    fn speaks_of(&self, asked: &Question<'_>, steps: &mut Steps) -> Result<bool, TooCostly> {
        let subject = self.principal.is(asked.caller)
            && self.actions.covers(&asked.action, asked.context, self.allow, steps)?
            && self.resources.covers(&asked.resource, asked.context, self.allow, steps)?;
        if !subject {
            return Ok(false);
        }
        for condition in &self.conditions {
            if !condition.holds(asked.context, self.allow, steps)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Principal {
    fn is(&self, caller: &Caller) -> bool {
        let named =
            |accounts: &[String]| caller.account().is_some_and(|account| accounts.iter().any(|named| named == account));
        match self {
            Principal::Everybody => true,
            Principal::Accounts(accounts) => named(accounts),
            Principal::NotAccounts(accounts) => !named(accounts),
        }
    }
}

impl Listed {
    /// A pattern whose variable has no value is passed over; where `grants` is what it would be excepted from, nothing
    /// is covered: nobody is let in by what is not known.
    fn covers(&self, text: &str, context: &Context, grants: bool, steps: &mut Steps) -> Result<bool, TooCostly> {
        for pattern in &self.patterns {
            let Some(pattern) = pattern.expand(context, true) else {
                if self.except && grants {
                    return Ok(false);
                }
                continue;
            };
            if matches(&pattern, text, steps)? {
                return Ok(!self.except);
            }
        }
        Ok(self.except)
    }
}

fn parse_statements(value: &Value, of: Of<'_>) -> Result<Vec<Statement>, Refusal> {
    match value {
        Value::Array(items) => items.iter().map(|item| parse_statement(item, of)).collect(),
        Value::Object(_) => Ok(vec![parse_statement(value, of)?]),
        _ => Err(malformed("Statement must be a list of objects")),
    }
}

fn parse_statement(value: &Value, of: Of<'_>) -> Result<Statement, Refusal> {
    let Value::Object(fields) = value else { return Err(malformed("each Statement must be an object")) };
    let (mut allow, mut principal, mut actions, mut resources) = (None, None, None, None);
    let mut conditions = Vec::new();
    for (name, value) in fields {
        match name.as_str() {
            "Sid" if value.is_string() => {}
            "Effect" => {
                allow = Some(match value.as_str() {
                    Some("Allow") => true,
                    Some("Deny") => false,
                    _ => return Err(malformed("Invalid effect: it must be Allow or Deny")),
                });
            }
            "Principal" | "NotPrincipal" if matches!(of, Of::Session) => {
                return Err(malformed(format!("a session's policy has no {name}: it is about its session alone")));
            }
            "Principal" | "NotPrincipal" if principal.is_some() => {
                return Err(malformed("a Statement has Principal or NotPrincipal, not both"));
            }
            "Principal" => principal = Some(parse_principal(value)?),
            "NotPrincipal" => {
                principal = Some(match parse_principal(value)? {
                    Principal::Accounts(accounts) => Principal::NotAccounts(accounts),
                    _ => return Err(malformed("Invalid principal in policy: NotPrincipal must name accounts")),
                });
            }
            "Action" | "NotAction" if actions.is_none() => {
                let patterns = texts(value, name)?;
                let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
                patterns.iter().try_for_each(|pattern| check_action(pattern, of))?;
                let patterns = patterns.into_iter().map(Template::plain).collect();
                actions = Some(Listed { except: name == "NotAction", patterns });
            }
            "Resource" | "NotResource" if resources.is_none() => {
                let patterns = texts(value, name)?;
                patterns.iter().try_for_each(|pattern| check_resource(pattern, of))?;
                let patterns =
                    patterns.into_iter().map(Template::parse).collect::<Result<Vec<_>, _>>().map_err(malformed)?;
                resources = Some(Listed { except: name == "NotResource", patterns });
            }
            "Condition" => conditions = Condition::parse_all(value).map_err(malformed)?,
            other => return Err(malformed(format!("Unknown field {other}"))),
        }
    }
    let missing = |field: &str| malformed(format!("Missing required field {field}"));
    let principal = match of {
        Of::Session => Principal::Everybody,
        Of::Bucket(_) => principal.ok_or_else(|| missing("Principal"))?,
    };
    let allow = allow.ok_or_else(|| missing("Effect"))?;
    if allow && matches!(principal, Principal::NotAccounts(_)) {
        return Err(malformed("Allow with NotPrincipal is not supported: it lets in everybody else"));
    }
    Ok(Statement {
        allow,
        principal,
        actions: actions.ok_or_else(|| missing("Action"))?,
        resources: resources.ok_or_else(|| missing("Resource"))?,
        conditions,
    })
}

/// A text or a list of texts.
fn texts(value: &Value, what: &str) -> Result<Vec<String>, Refusal> {
    let wrong = || malformed(format!("{what} must be a string or a list of strings"));
    let found = match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    if found.is_empty() {
        return Err(wrong());
    }
    match found.iter().find(|text| text.len() > PATTERN_BYTES_MAX) {
        Some(text) => Err(malformed(format!("{what} has {} bytes; give at most {PATTERN_BYTES_MAX}", text.len()))),
        None => Ok(found),
    }
}

fn parse_principal(value: &Value) -> Result<Principal, Refusal> {
    let invalid = || malformed("Invalid principal in policy");
    match value {
        Value::String(text) if text == "*" => Ok(Principal::Everybody),
        Value::Object(kinds) => {
            let mut accounts = Vec::new();
            for (kind, named) in kinds {
                if !matches!(kind.as_str(), "AWS" | "CanonicalUser") {
                    return Err(malformed(format!("Invalid principal in policy: {kind} is not known")));
                }
                for text in texts(named, kind)? {
                    match account_of(&text) {
                        None => return Ok(Principal::Everybody),
                        Some(account) if account.is_empty() || account.contains(['*', '$']) => return Err(invalid()),
                        Some(account) => accounts.push(account.to_owned()),
                    }
                }
            }
            if accounts.is_empty() {
                return Err(invalid());
            }
            Ok(Principal::Accounts(accounts))
        }
        _ => Err(invalid()),
    }
}

/// The account that a principal's text names; `None` for `*`. Hive's accounts have no users: of an ARN
/// only `root` is an account.
fn account_of(text: &str) -> Option<&str> {
    if text == "*" {
        return None;
    }
    match text.strip_prefix("arn:aws:iam::") {
        Some(rest) => Some(rest.strip_suffix(":root").unwrap_or("")),
        None => Some(text),
    }
}

fn check_action(pattern: &str, of: Of<'_>) -> Result<(), Refusal> {
    let mut steps = Steps::default();
    let mut is = |action: &&str| matches(pattern, &action.to_ascii_lowercase(), &mut steps);
    let of_session = matches!(of, Of::Session) && is(&LIST_BUCKETS).unwrap_or(false);
    if of_session || ACTIONS.iter().any(|action| is(action).unwrap_or(false)) {
        return Ok(());
    }
    Err(malformed(format!("Policy has invalid action: {pattern}")))
}

fn check_resource(pattern: &str, of: Of<'_>) -> Result<(), Refusal> {
    let Of::Bucket(bucket) = of else {
        return match pattern == "*" || pattern.starts_with(RESOURCE_ARN) {
            true => Ok(()),
            false => {
                Err(malformed(format!("Policy has invalid resource: {pattern} does not begin with {RESOURCE_ARN}")))
            }
        };
    };
    let own = pattern.strip_prefix(RESOURCE_ARN).is_some_and(|rest| {
        let name = rest.split('/').next().unwrap_or(rest);
        matches(name, bucket, &mut Steps::default()).unwrap_or(false)
    });
    if own || pattern == "*" {
        return Ok(());
    }
    Err(malformed(format!("Policy has invalid resource: {pattern} is not in bucket {bucket}")))
}

#[cfg(test)]
mod tests;
