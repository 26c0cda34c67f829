//! Pages that say which test holds which line: the tests that they name exist, each in the file that is named.
//!
//! ```text
//!   `crates/door-s3/tests/exposed.rs::a_document_ends_with_its_limit`    a function of that name in that file
//!   `scripts/secure_world.py::take_overs`                                the same in Python
//!   `scenario world-gone-for-minutes`, `mutant BlankVotes`               of the simulator; of base-types
//! ```
//!
//! Always: a file or function that is gone is a finding, and so is a page that names none.
//! Held by: `names_are_looked_up`.
//! Not here: whether a test asserts what the page says of it; a reader must look.

use anyhow::Result;
use std::fs;
use std::path::Path;

const PAGES: [&str; 2] = ["docs/proof/safe-to-expose.md", "docs/proof/nothing-lost.md"];
/// Fewer names than this, and the page was cut.
const NAMES_MIN: usize = 60;
const SCENARIOS: &str = "crates/proof-sim/scenarios";
const MUTANTS: &str = "crates/base-types/src/mutant.rs";

/// Looks up every name.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let mutants = fs::read_to_string(root.join(MUTANTS))?;
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap_or_default();
        let names = names(&text);
        if names.len() < NAMES_MIN {
            findings.push(format!("{page} names {} tests, and it had {NAMES_MIN} and more: name them", names.len()));
        }
        for (file, function) in names {
            let source = fs::read_to_string(root.join(file)).unwrap_or_default();
            findings.extend(missing(&source, file, function).map(|finding| format!("{page} names {finding}")));
        }
        for name in words(&text, "scenario ").filter(|name| !root.join(SCENARIOS).join(format!("{name}.toml")).exists())
        {
            findings.push(format!("{page} names scenario {name}, which is gone: name today's"));
        }
        for name in words(&text, "mutant ").filter(|name| !mutants.contains(&format!("    {name} = \""))) {
            findings.push(format!("{page} names mutant {name}, which is gone: name today's"));
        }
    }
    Ok(())
}

/// What stands in backticks after this word.
fn words<'a>(page: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    page.split('`').skip(1).step_by(2).filter_map(move |text| text.strip_prefix(before))
}

/// What stands in backticks as `FILE::FUNCTION`.
fn names(page: &str) -> Vec<(&str, &str)> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once("::")).filter(|(file, _)| file.contains('/')).collect()
}

fn missing(text: &str, file: &str, function: &str) -> Option<String> {
    if text.is_empty() {
        return Some(format!("{file}, which is gone: name today's file"));
    }
    let keyword = if file.ends_with(".py") { "def" } else { "fn" };
    let there = text
        .match_indices(&format!("{keyword} {function}"))
        .any(|(at, found)| text[at + found.len()..].starts_with(['(', '<']));
    (!there).then(|| format!("`{function}` in {file}, which is gone: name today's test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        let page = "x `crates/a/src/b.rs::holds` and `scripts/c.py::case`, `a::b` no file, `plain` no name";
        assert_eq!(names(page), [("crates/a/src/b.rs", "holds"), ("scripts/c.py", "case")]);
        let page = "`scenario a-b`, `mutant Some`, `mutant` and `scenarios c`";
        assert_eq!(words(page, "scenario ").collect::<Vec<_>>(), ["a-b"]);
        assert_eq!(words(page, "mutant ").collect::<Vec<_>>(), ["Some"]);
        assert_eq!(missing("#[test]\nfn holds() {}", "crates/a/src/b.rs", "holds"), None);
        assert_eq!(missing("fn holds<T>() {}", "crates/a/src/b.rs", "holds"), None);
        assert_eq!(missing("def case(w):", "scripts/c.py", "case"), None);
        for (text, file, function) in [
            ("fn holds_more() {}", "crates/a/src/b.rs", "holds"),
            ("def holds():", "crates/a/src/b.rs", "holds"),
            ("fn case() {}", "scripts/c.py", "case"),
            ("", "crates/a/src/b.rs", "holds"),
        ] {
            assert!(missing(text, file, function).is_some(), "{text} {file}");
        }
    }
}
