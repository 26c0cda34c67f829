//! Variables in policies: `${aws:username}` in a resource or a condition's value.
//!
//!   "home/${aws:username}/*" ─ann asks─▶ home/ann/*      `${*}`, `${?}`, `${$}`: the character itself
//!
//! Always: what a variable stands for is text, never a wildcard. Only variables that say who the caller is, where, and when are
//! known, so what they stand for is short; others are refused when the policy is put. A text whose variable has no value and
//! no default (`${aws:username, 'nobody'}`) matches nothing.
//! Held by: `what_is_no_variable_is_refused`, `variables_are_who_asks`.
//! Not here: what the values are (`Context`), wildcards (`wildcard`).

use super::condition::Context;
use super::wildcard::LITERAL;
use std::borrow::Cow;

/// The variables, by their keys in lower case.
const VARIABLES: [&str; 8] = [
    "aws:epochtime",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principaltype",
    "aws:securetransport",
    "aws:sourceip",
    "aws:userid",
    "aws:username",
];

/// A text that may have variables in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    /// A character that is no wildcard.
    Character(char),
    /// A key, and what it is where the request has none.
    Variable(String, Option<String>),
}

impl Template {
    /// A text without variables.
    pub fn plain(text: String) -> Template {
        Template { pieces: vec![Piece::Text(text)] }
    }

    /// Reads `a${aws:username}b`; why it is none.
    pub fn parse(text: String) -> Result<Template, String> {
        if text.contains(LITERAL) {
            return Err("a policy's text has a zero byte".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').ok_or_else(|| format!("a variable does not end: {text}"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(variable(name)?);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Template { pieces })
    }

    /// Whether it is this text, and nothing else.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Text(own)] if own == text)
    }

    /// The text for a request; as a pattern, what variables stand for is marked as no wildcard.
    pub fn expand(&self, context: &Context, as_pattern: bool) -> Option<Cow<'_, str>> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            return Some(Cow::Borrowed(text));
        }
        let mut out = String::new();
        let literal = |out: &mut String, character: char| {
            if as_pattern && matches!(character, '*' | '?' | LITERAL) {
                out.push(LITERAL);
            }
            out.push(character);
        };
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Character(character) => literal(&mut out, *character),
                Piece::Variable(key, default) => {
                    let value = context.one(key).or(default.as_deref())?;
                    value.chars().for_each(|character| literal(&mut out, character));
                }
            }
        }
        Some(Cow::Owned(out))
    }
}

fn variable(name: &str) -> Result<Piece, String> {
    if let "*" | "?" | "$" = name {
        return Ok(Piece::Character(name.chars().next().unwrap_or('$')));
    }
    let (key, default) = match name.split_once(',') {
        None => (name, None),
        Some((key, default)) => {
            let quoted = default.trim().strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
            (key, Some(quoted.ok_or_else(|| format!("the default of a variable is put in quotes: ${{{name}}}"))?))
        }
    };
    let key = key.trim().to_ascii_lowercase();
    if !VARIABLES.contains(&key.as_str()) {
        return Err(format!("policy variable ${{{name}}} is not supported; these are: {}", VARIABLES.join(", ")));
    }
    Ok(Piece::Variable(key, default.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str, as_pattern: bool, user: Option<&str>) -> Option<String> {
        let mut context = Context::default();
        user.into_iter().for_each(|user| context.set("aws:username", user));
        Template::parse(text.to_owned()).expect(text).expand(&context, as_pattern).map(Cow::into_owned)
    }

    #[test]
    fn table() {
        let table = [
            ("plain*", Some("ann"), Some("plain*")),
            ("a/${aws:username}/*", Some("ann"), Some("a/ann/*")),
            ("${AWS:UserName}", Some("ann"), Some("ann")),
            ("${aws:username}${aws:username}", Some("x"), Some("xx")),
            ("a/${aws:username}/*", None, None),
            ("a/${aws:username, 'nobody'}/*", None, Some("a/nobody/*")),
            ("${aws:username}", Some("a*?"), Some("a\0*\0?")),
            ("${*}${?}${$}{x}", None, Some("\0*\0?${x}")),
        ];
        for (text, user, expected) in table {
            assert_eq!(expanded(text, true, user).as_deref(), expected, "{text}");
        }
        assert_eq!(expanded("${*}${aws:username}", false, Some("?")).as_deref(), Some("*?"));
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for text in ["${", "${aws:username", "${aws:UserAgent}", "${}", "${aws:username, nobody}", "a\0b"] {
            assert!(Template::parse(text.to_owned()).is_err(), "{text}");
        }
    }
}
