//! The version in Cargo.toml has a row in RELEASES.md, with the greatest format level that its source serves, and a commit.
//!
//! Always: a row is `| version | levels | commit |`; a commit is 7 to 40 hex digits in backticks, or the release is still to come.
//! Not here: what a release brings (CHANGELOG.md), whether its formats are the released ones (docs/formats/golden).

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The commit of a release that is still to come.
const TO_COME: &str = "not released yet";
const COMMIT_DIGITS_MIN: usize = 7;
const COMMIT_DIGITS_MAX: usize = 40;

/// Checks the newest release.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| name.to_string());
    let manifest = read("Cargo.toml")?;
    let version = between(&manifest, "\nversion = \"", "\"").context("Cargo.toml has no version")?;
    let levels = read("crates/base-types/src/format_level.rs")?;
    let level = levels.lines().find(|line| line.contains("LEVEL_MAX:")).and_then(|line| between(line, "else { ", " }"));
    let level = level.context("format_level.rs: LEVEL_MAX has another form")?;
    findings.extend(finding(&read("RELEASES.md")?, version, level));
    Ok(())
}

/// What is wrong with the row of this version.
fn finding(releases: &str, version: &str, level: &str) -> Option<String> {
    let rows = releases.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let row = rows.into_iter().find(|cells| cells.get(1) == Some(&version));
    let Some([_, _, levels, commit, _]) = row.as_deref() else {
        return Some(format!(
            "RELEASES.md: no row of version {version} of Cargo.toml: | {version} | {level} | `commit` |"
        ));
    };
    if levels.split_whitespace().last() != Some(level) {
        return Some(format!("RELEASES.md: version {version} serves levels {levels}, but LEVEL_MAX is {level}: a level needs a version of its own"));
    }
    let digits = commit.trim_matches('`');
    let is_hash = digits.bytes().all(|digit| digit.is_ascii_hexdigit() && !digit.is_ascii_uppercase());
    let is_commit = is_hash && (COMMIT_DIGITS_MIN..=COMMIT_DIGITS_MAX).contains(&digits.len());
    let known = *commit == TO_COME || is_commit && commit.starts_with('`') && commit.ends_with('`');
    (!known).then(|| {
        format!("RELEASES.md: the commit of {version} is {commit:?}: write its hash in backticks, or \"{TO_COME}\"")
    })
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_has_a_row_with_its_level_and_commit() {
        let row =
            |commit: &str| format!("| version | format levels | commit |\n|---|---|---|\n| 0.2.0 | 1 | {commit} |\n");
        assert_eq!(finding(&row("`58a3767`"), "0.2.0", "1"), None);
        assert_eq!(finding(&row(TO_COME), "0.2.0", "1"), None);
        assert!(finding(&row("`58a3767`"), "0.3.0", "1").is_some_and(|text| text.contains("no row of version 0.3.0")));
        assert!(finding(&row("`58a3767`"), "0.2.0", "2").is_some_and(|text| text.contains("LEVEL_MAX is 2")));
        for commit in ["58a3767", "`58a`", "`HEAD~12`", ""] {
            assert!(finding(&row(commit), "0.2.0", "1").is_some(), "{commit:?}");
        }
    }
}
