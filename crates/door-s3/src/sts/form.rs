//! A form that a client sends to STS, read and checked.
//!
//! Always: pure; work is bounded by the form's length; a parameter that nobody knows, comes twice, or is not done refuses the form
//! (`tests::what_is_not_done_is_refused`); a session's policy is understood whole, or refused (`tests::policies_are_bounded_and_understood`).
//! Not here: whether the token is good (edge-node).

use super::Fault;
use crate::access::{Policy, SESSION_POLICY_CHARS_MAX};
use serde_json::Value;

/// The version of STS's API.
const VERSION: &str = "2011-06-15";
/// The most parameters.
const PARAMETERS_MAX: usize = 32;
/// The shortest and longest life of a session, and the usual one, seconds.
pub const DURATION_S_MIN: u64 = 900;
/// The longest.
pub const DURATION_S_MAX: u64 = 43_200;
/// Where none is asked for.
const DURATION_S: u64 = 3_600;
/// What a role's ARN begins with.
const ROLE_ARNS: [&str; 2] = ["arn:aws:iam::hive:role/", "arn:aws:iam::000000000000:role/"];
/// STS's code for a policy that does not fit into a session.
pub const POLICY_TOO_LARGE: &str = "PackedPolicyTooLarge";
/// The longest name of a role.
const ROLE_BYTES_MAX: usize = 128;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// `GetCallerIdentity`.
    WhoAmI,
    /// `AssumeRoleWithWebIdentity`.
    Assume(Box<Assume>),
}

/// `AssumeRoleWithWebIdentity`.
#[derive(Clone, PartialEq, Eq)]
pub struct Assume {
    /// The issuer's token.
    pub token: String,
    /// The one group of the directory that the session is for; all of its user's where absent.
    pub group: Option<String>,
    /// What the session is called.
    pub name: String,
    /// How long it lives, seconds.
    pub duration_s: u64,
    /// What the session may do at most ([`Policy::of_session`] reads it).
    pub policy: Option<Value>,
}

impl std::fmt::Debug for Assume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assume").field("group", &self.group).field("name", &self.name).finish_non_exhaustive()
    }
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new("ValidationError", 400, message)
}

/// Reads a form.
pub fn parse(bytes: &[u8]) -> Result<Asked, Fault> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in form_urlencoded::parse(bytes) {
        if found.len() >= PARAMETERS_MAX {
            return Err(invalid(format!("the form has more than {PARAMETERS_MAX} parameters")));
        }
        if found.iter().any(|(own, _)| *own == name) {
            return Err(invalid(format!("the parameter {} comes twice", shown(&name))));
        }
        found.push((name.into_owned(), value.into_owned()));
    }
    let mut take = |name: &str| {
        let at = found.iter().position(|(own, _)| own == name)?;
        Some(found.swap_remove(at).1)
    };
    let action = take("Action").ok_or_else(|| Fault::new("MissingAction", 400, "the form has no Action"))?;
    if take("Version").as_deref() != Some(VERSION) {
        return Err(Fault::new("InvalidAction", 400, format!("Version must be {VERSION}")));
    }
    let asked = match action.as_str() {
        "GetCallerIdentity" => Asked::WhoAmI,
        "AssumeRoleWithWebIdentity" => Asked::Assume(Box::new(assume(&mut take)?)),
        other => {
            let message = format!(
                "the action {} is not offered here; AssumeRoleWithWebIdentity and GetCallerIdentity are",
                shown(other)
            );
            return Err(Fault::new("InvalidAction", 400, message));
        }
    };
    match found.first() {
        None => Ok(asked),
        Some((name, _)) if name.starts_with("PolicyArns") => Err(invalid(format!(
            "{}: there are no managed policies here; send the policy itself as Policy, or narrow the session to one group by RoleArn",
            shown(name)
        ))),
        Some((name, _)) => Err(invalid(format!("the parameter {} is not offered for {action}", shown(name)))),
    }
}

fn assume(take: &mut dyn FnMut(&str) -> Option<String>) -> Result<Assume, Fault> {
    let token = take("WebIdentityToken").filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| invalid("WebIdentityToken is absent: it is the issuer's token (a JWT)"))?;
    let group = match take("RoleArn") {
        None => None,
        Some(arn) => role_of(&arn)?,
    };
    let name = take("RoleSessionName").unwrap_or_else(|| "session".into());
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_=,.@+-".contains(&byte);
    if !(2..=64).contains(&name.len()) || !name.bytes().all(legal) {
        return Err(invalid("RoleSessionName has 2 to 64 of letters, digits, '_', '=', ',', '.', '@', '+' and '-'"));
    }
    let duration_s = match take("DurationSeconds") {
        None => DURATION_S,
        Some(text) => {
            text.parse().ok().filter(|seconds| (DURATION_S_MIN..=DURATION_S_MAX).contains(seconds)).ok_or_else(
                || invalid(format!("DurationSeconds is a number from {DURATION_S_MIN} to {DURATION_S_MAX}")),
            )?
        }
    };
    let policy = take("Policy").map(|text| policy_of(&text)).transpose()?;
    Ok(Assume { token, group, name, duration_s, policy })
}

/// A session's policy that is short enough and understood.
fn policy_of(text: &str) -> Result<Value, Fault> {
    let malformed = |message: String| Fault::new("MalformedPolicyDocument", 400, message);
    if text.chars().nth(SESSION_POLICY_CHARS_MAX).is_some() {
        let message = format!("Policy has more than {SESSION_POLICY_CHARS_MAX} characters; send a shorter one");
        return Err(Fault::new(POLICY_TOO_LARGE, 400, message));
    }
    let legal = |character: char| matches!(character, '\t' | '\n' | '\r' | ' '..='\u{ff}');
    if !text.chars().all(legal) {
        return Err(malformed("Policy has characters beyond U+00FF; write them as JSON's \\u escapes".into()));
    }
    let value = serde_json::from_str(text).map_err(|_| malformed("Policy is no JSON".into()))?;
    Policy::of_session(&value).map_err(|refusal| malformed(shown_longer(&refusal.message)))?;
    Ok(value)
}

/// The group that a role's ARN names; `None`: all of them (`*`).
fn role_of(arn: &str) -> Result<Option<String>, Fault> {
    let role = ROLE_ARNS.iter().find_map(|mark| arn.strip_prefix(mark));
    let legal = |role: &&str| (1..=ROLE_BYTES_MAX).contains(&role.len());
    match role.filter(legal) {
        Some("*") => Ok(None),
        Some(role) => Ok(Some(role.to_owned())),
        None => Err(invalid(
            "RoleArn is arn:aws:iam::hive:role/GROUP for one group of the directory (`hive group list`), or arn:aws:iam::hive:role/* for all of the user's",
        )),
    }
}

/// The beginning of a client's own word, fit for a message.
fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

/// Likewise of a sentence with such words in it.
fn shown_longer(text: &str) -> String {
    text.chars().take(256).filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=a.b.c";

    fn read(rest: &str) -> Result<Assume, Fault> {
        match parse(format!("{START}{rest}").as_bytes())? {
            Asked::Assume(asked) => Ok(*asked),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn forms_are_read() {
        let plain = read("").unwrap();
        assert_eq!(
            (plain.token.as_str(), plain.group, plain.name.as_str(), plain.duration_s),
            ("a.b.c", None, "session", 3_600)
        );
        let full =
            read("&RoleArn=arn%3Aaws%3Aiam%3A%3Ahive%3Arole%2Fdevs%40shop&RoleSessionName=ci&DurationSeconds=900")
                .unwrap();
        assert_eq!((full.group.as_deref(), full.name.as_str(), full.duration_s), (Some("devs@shop"), "ci", 900));
        assert_eq!(read("&RoleArn=arn:aws:iam::hive:role/*").unwrap().group, None);
        assert_eq!(read("&RoleArn=arn:aws:iam::000000000000:role/devs").unwrap().group.as_deref(), Some("devs"));
        assert_eq!(parse(b"Version=2011-06-15&Action=GetCallerIdentity"), Ok(Asked::WhoAmI));
        assert!(!format!("{plain:?}", plain = read("").unwrap()).contains("a.b.c"));
    }

    #[test]
    fn policies_are_bounded_and_understood() {
        let with = |policy: &str| {
            let rest: String = form_urlencoded::Serializer::new(String::new()).append_pair("Policy", policy).finish();
            read(&format!("&{rest}")).map(|asked| asked.policy)
        };
        let statement = |rest: &str| {
            format!(r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Action":"s3:GetObject",{rest}}}}}"#)
        };
        let good = statement(r#""Resource":"arn:aws:s3:::b/*""#);
        assert!(with(&good).unwrap().is_some());
        let longest = format!("{good}{}", " ".repeat(SESSION_POLICY_CHARS_MAX - good.len()));
        assert!(with(&longest).unwrap().is_some());
        assert_eq!(with(&format!("{longest} ")).unwrap_err().code, POLICY_TOO_LARGE);
        for bad in [
            "",
            "{}",
            "[]",
            "{",
            &"[".repeat(2_000),
            &statement(r#""Resource":"arn:aws:s3:::b/*","Principal":"*""#),
            &statement(r#""Resource":"arn:aws:iam::hive:role/x""#),
            &statement(r#""Resource":"arn:aws:s3:::b/日""#),
            &statement(r#""Resource":"arn:aws:s3:::b/*","Colour":"red""#),
            &statement(r#""Resource":"arn:aws:s3:::b/*","Condition":{"Colour":{"aws:username":"x"}}"#),
            &good.replace("s3:GetObject", "s3:Fly"),
            &good.replace("s3:GetObject", "iam:PassRole"),
            &good.replace("2012", "2011"),
            &statement(&format!(r#""Resource":"{}\n""#, "x".repeat(1_800))),
        ] {
            let fault = with(bad).unwrap_err();
            assert_eq!((fault.code, fault.status), ("MalformedPolicyDocument", 400), "{bad}");
            assert!(fault.message.len() < 1_024 && !fault.message.contains('\n'), "{}", fault.message);
        }
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for (rest, part) in [
            ("&PolicyArns.member.1.arn=arn:aws:iam::aws:policy/ReadOnly", "managed policies"),
            ("&ProviderId=www.amazon.com", "ProviderId"),
            ("&Colour=red", "Colour"),
            ("&DurationSeconds=899", "DurationSeconds"),
            ("&DurationSeconds=43201", "DurationSeconds"),
            ("&DurationSeconds=1h", "DurationSeconds"),
            ("&RoleSessionName=a", "RoleSessionName"),
            ("&RoleSessionName=a%20b", "RoleSessionName"),
            ("&RoleArn=admin", "RoleArn"),
            ("&RoleArn=arn:aws:iam::123456789012:role/devs", "RoleArn"),
            ("&RoleArn=arn:aws:iam::hive:role/", "RoleArn"),
            ("&WebIdentityToken=x", "twice"),
        ] {
            let fault = read(rest).unwrap_err();
            assert_eq!((fault.code, fault.status), ("ValidationError", 400), "{rest}");
            assert!(fault.message.contains(part), "{rest}: {}", fault.message);
        }
        for (form, code) in [
            ("", "MissingAction"),
            ("Action=GetCallerIdentity", "InvalidAction"),
            ("Action=AssumeRole&Version=2011-06-15", "InvalidAction"),
            ("Action=GetCallerIdentity&Version=2011-06-15&x=y", "ValidationError"),
            ("Action=AssumeRoleWithWebIdentity&Version=2011-06-15", "ValidationError"),
        ] {
            assert_eq!(parse(form.as_bytes()).unwrap_err().code, code, "{form}");
        }
        let many: String = (0..100).map(|at| format!("p{at}=x&")).collect();
        assert_eq!(parse(many.as_bytes()).unwrap_err().code, "ValidationError");
        let long = parse(format!("Action={}&Version=2011-06-15", "%0a".repeat(9_000)).as_bytes()).unwrap_err();
        assert!(long.message.len() < 512 && !long.message.contains('\n'));
    }
}
