//! docs/proof/safe-to-expose.md: the tests that it names exist, each in the file that it names.
//!
//! ```text
//!   `crates/door-s3/tests/exposed.rs::a_document_ends_with_its_limit`    a function of that name in that file
//!   `scripts/secure_world.py::take_overs`                                the same in Python
//! ```
//!
//! Always: a file or function that is gone is a finding, and so is a page that names none.
//! Held by: `names_are_looked_up`.
//! Not here: whether a test asserts what the page says of it; a reader must look.

use anyhow::Result;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/proof/safe-to-expose.md";
/// Fewer names than this, and the page was cut.
const NAMES_MIN: usize = 60;

/// Looks up every name.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let names = names(&page);
    if names.len() < NAMES_MIN {
        findings.push(format!("{PAGE} names {} tests, and it had {NAMES_MIN} and more: name them", names.len()));
    }
    for (file, function) in names {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        if let Some(finding) = missing(&text, file, function) {
            findings.push(finding);
        }
    }
    Ok(())
}

/// What stands in backticks as `FILE::FUNCTION`.
fn names(page: &str) -> Vec<(&str, &str)> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once("::")).filter(|(file, _)| file.contains('/')).collect()
}

fn missing(text: &str, file: &str, function: &str) -> Option<String> {
    if text.is_empty() {
        return Some(format!("{PAGE} names {file}, which is gone: name today's file"));
    }
    let keyword = if file.ends_with(".py") { "def" } else { "fn" };
    let there = text
        .match_indices(&format!("{keyword} {function}"))
        .any(|(at, found)| text[at + found.len()..].starts_with(['(', '<']));
    (!there).then(|| format!("{PAGE} names `{function}` in {file}, which is gone: name today's test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        let page = "x `crates/a/src/b.rs::holds` and `scripts/c.py::case`, `a::b` no file, `plain` no name";
        assert_eq!(names(page), [("crates/a/src/b.rs", "holds"), ("scripts/c.py", "case")]);
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
