//! A complete, commented node.toml, with settings of the caller's in their places: what `hive config init` writes.
//!
//! Always: every setting of [`NodeFile`] is in template.toml on one line of its own, with its default where it has one; what comes
//! out is parsed before anybody sees it.
//! Held by: `template_has_every_setting`, `template_shows_the_defaults`, `what_is_set_stands_in_its_place`.
//! Not here: whether the values fit together (`check.rs`).

use super::{ConfigError, NodeFile};
use std::collections::BTreeMap;

/// As it is with nothing set: a world of one node, on this machine only.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Why a setting cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "there is no setting {key}; `hive config init` prints every one, named by section and key as in tuning.tick_ms"
    )]
    Unknown { key: String },
    #[error("{key} is set twice; set it once")]
    Twice { key: String },
    #[error("{value} is no value for {key}: {reason}; write it as node.toml has it")]
    NoValue { key: String, value: String, reason: String },
    #[error(transparent)]
    Refused(#[from] ConfigError),
}

/// One line of the template.
enum Line<'t> {
    /// `[s3]`, or `#[s3]` of a section that is absent as long as nothing in it is set.
    Section(&'t str),
    /// `key = value`, or `#key = value` where that is the default or an example.
    Setting {
        key: &'t str,
        value: &'t str,
    },
    Text,
}

impl Line<'_> {
    fn of(line: &str) -> Line<'_> {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if let Some(section) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return Line::Section(section);
        }
        let is_key =
            |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b));
        match bare.split_once(" = ") {
            Some((key, value)) if is_key(key) => Line::Setting { key, value },
            _ => Line::Text,
        }
    }
}

/// The template with these settings: keys such as `tuning.tick_ms`, values as in a file. The quotes of a text may be left out.
pub fn with(settings: &[(String, String)]) -> Result<String, TemplateError> {
    let mut wanted = BTreeMap::new();
    for (key, value) in settings {
        if wanted.insert(key.as_str(), value.as_str()).is_some() {
            return Err(TemplateError::Twice { key: key.clone() });
        }
    }
    let mut lines: Vec<String> = TEMPLATE.lines().map(str::to_owned).collect();
    let (mut section, mut head) = ("", 0);
    for (at, line) in TEMPLATE.lines().enumerate() {
        match Line::of(line) {
            Line::Section(name) => (section, head) = (name, at),
            Line::Setting { key, value } => {
                let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
                let Some(given) = wanted.remove(path.as_str()) else { continue };
                lines[at] = format!("{key} = {}", value_like(value, given, &path)?);
                lines[head] = TEMPLATE.lines().nth(head).unwrap_or_default().replacen("#[", "[", 1);
            }
            Line::Text => {}
        }
    }
    if let Some(key) = wanted.keys().next() {
        return Err(TemplateError::Unknown { key: (*key).to_owned() });
    }
    let text = lines.join("\n") + "\n";
    NodeFile::parse("node.toml", &text)?;
    Ok(text)
}

/// A value as TOML: quoted where the template has a text there and the caller left out the quotes.
fn value_like(shown: &str, given: &str, key: &str) -> Result<String, TemplateError> {
    if shown.starts_with('"') && !given.starts_with(['"', '\'']) {
        return Ok(toml::Value::String(given.to_owned()).to_string());
    }
    let refuse = |reason: &str| {
        let (key, value, reason) = (key.to_owned(), given.to_owned(), reason.to_owned());
        Err(TemplateError::NoValue { key, value, reason })
    };
    if given.contains('\n') {
        return refuse("it has more than one line");
    }
    match format!("value = {given}").parse::<toml::Table>() {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => refuse(error.message()),
    }
}

#[cfg(test)]
mod tests;
