//! "Always:" in a file's header: what holds it is named, and is there.
//!
//! ```text
//!   //! Always: a claim (mutant `X`). Held by: `a_test`, `an_assertion`.     names are compared with the code
//!   //! By design: a claim that nothing checks                             is not looked at
//! ```
//!
//! A holder is a function (a test, a check, an assertion's), a mutant, or a file of tests or invariants of the crate.
//! Always: a name after "Held by:" or "mutant" that is gone is a finding; headers without a holder are counted (ratchet.rs).
//! Held by: `holders_are_found_or_missed`.
//! Not here: whether a holder holds what is claimed; a reader must look.

use crate::files_of;
use crate::ratchet::Ratchet;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What may be named as a holder.
#[derive(Default)]
struct Names {
    functions: BTreeSet<String>,
    mutants: BTreeSet<String>,
    /// Files of tests and invariants, from the root of the repository.
    files: Vec<String>,
}

/// Checks every header of every crate.
pub fn check(root: &Path, findings: &mut Vec<String>, ratchet: &mut Ratchet) -> Result<()> {
    let mut names = Names::default();
    let mut headers = Vec::new();
    for file in files_of(&root.join("crates"), "rs")? {
        let text = fs::read_to_string(&file)?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        if shown.ends_with("base-types/src/mutant.rs") {
            names.mutants.extend(capitalised(&text));
        }
        names.functions.extend(functions(&text));
        if shown.contains("tests") || shown.ends_with("invariants.rs") {
            names.files.push(shown.clone());
        }
        headers.push((shown, header(&text)));
    }
    let mut without: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (shown, header) in &headers {
        let home = shown.split('/').nth(1).unwrap_or_default();
        for gone in names.gone(header) {
            findings.push(format!("{shown}: the header names `{gone}` as a holder, and there is none: name today's"));
        }
        if always(header).is_some_and(|claim| !names.holds(home, claim)) {
            without.entry(home.to_string()).or_default().push(shown.clone());
        }
    }
    for (home, files) in without {
        let why = "name the test, mutant or assertion that holds it (`Held by:`), or write `By design:` instead";
        ratchet.count(
            format!("headers whose \"Always:\" names no holder, {home}"),
            files.len(),
            format!("{why}: {}", files.join(", ")),
        );
    }
    Ok(())
}

/// The lines `//!` that a file begins with, without that mark.
fn header(text: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with("//!")).take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").trim()).collect::<Vec<_>>().join("\n")
}

/// What a header claims, its holders included.
fn always(header: &str) -> Option<&str> {
    let claim = &header[header.find("Always:")?..];
    let end = ["\n\n", "Not here:"].iter().filter_map(|end| claim.find(end)).min();
    Some(&claim[..end.unwrap_or(claim.len())])
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn functions(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split("fn ").skip(1).map(|rest| rest.chars().take_while(|c| is_part(*c)).collect::<String>());
    words.filter(|word| !word.is_empty())
}

fn capitalised(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c| !is_part(c)).filter(|word| word.starts_with(char::is_uppercase)).map(str::to_string)
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of a list `a`, `b` and `c` that follows `word`.
fn listed<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(word) {
        let mut rest = text[at + word.len()..].trim_start_matches('s').trim_start();
        while let Some(name) = rest.strip_prefix('`').and_then(|rest| rest.split('`').next()) {
            found.extend(name.chars().all(|c| is_part(c) || c == ':').then_some(name));
            rest = rest[name.len() + 2..].trim_start_matches([',', ' ', '\n']);
            rest = rest.strip_prefix("and").unwrap_or(rest).trim_start();
        }
    }
    found
}

impl Names {
    fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name.rsplit("::").next().unwrap_or(name))
    }

    /// Whether a claim names a holder; a file counts if the crate has it.
    fn holds(&self, home: &str, claim: &str) -> bool {
        let is_file = |name: &str| {
            let ends_so = |file: &&String| file.ends_with(&format!("/{name}")) && file.contains(&format!("/{home}/"));
            name.ends_with(".rs") && self.files.iter().any(|file| ends_so(&file))
        };
        in_backticks(claim).any(|name| self.is_function(name) || self.mutants.contains(name) || is_file(name))
    }

    /// Holders that a header names and that are gone.
    fn gone<'t>(&self, header: &'t str) -> Vec<&'t str> {
        let held = listed(header, "Held by:").into_iter().filter(|name| !self.is_function(name));
        let mutants = listed(header, "mutant").into_iter().filter(|name| !self.mutants.contains(*name));
        held.chain(mutants).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let code = "fn a_test() {}\npub(crate) fn check_it(&self) {}";
        Names {
            functions: functions(code).collect(),
            mutants: capitalised("enum Mutant { VoteTwice, }").collect(),
            files: vec!["crates/core-a/src/tests/model.rs".into()],
        }
    }

    #[test]
    fn holders_are_found_or_missed() {
        let names = names();
        for held in [
            "Always: x (`a_test`).",
            "Always: x\n(mutant `VoteTwice`)",
            "Always: `Lane::check_it`",
            "Always: `tests/model.rs`",
        ] {
            assert!(names.holds("core-a", always(held).unwrap()), "{held}");
        }
        for bare in
            ["Always: x.", "Always: x `Other`.", "Always: x. Not here: `a_test`.", "Always: x.\n\nSee `a_test`."]
        {
            assert!(!names.holds("core-a", always(bare).unwrap()), "{bare}");
        }
        assert!(!names.holds("core-b", "Always: `tests/model.rs`"));
        assert_eq!(always("By design: x."), None);
    }

    #[test]
    fn holders_that_are_gone_are_named() {
        let header = "Always: x (mutants `VoteTwice`, `Gone` and\n`Lost`). Held by: `a_test`,\n`no_test`.";
        assert_eq!(names().gone(header), ["no_test", "Gone", "Lost"]);
    }
}
