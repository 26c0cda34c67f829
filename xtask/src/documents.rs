//! Documents: no both sides of a merge, no file named that is gone.
//!
//! Not here: what documents show of the program (their own scripts run it again), their words (words.rs).

use crate::files_of;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// A name that begins so and ends so is a file's.
const FOLDERS: &[&str] = &["crates/", "scripts/", "docs/", "fuzz/", "xtask/", "lints/"];
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh", ".py", ".c"];
/// What speaks of the past may name what is gone.
const OF_THE_PAST: &[&str] = &["CHANGELOG.md"];
/// The parts of a decision record, in order.
const RECORD_PARTS: &[&str] = &["Context", "Options", "Choice", "Consequence"];
/// A record is one page; what is longer is two decisions.
const RECORD_WORDS_MAX: usize = 600;

/// All documents of the repository.
pub fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files_of(&root.join("docs"), "md")?;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Checks them.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for file in documents(root)? {
        let text = fs::read_to_string(&file)?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                findings.push(format!("{shown}:{}: a merge left both sides here: keep one", number + 1));
            }
            if OF_THE_PAST.contains(&&*shown) {
                continue;
            }
            for gone in named(line).filter(|name| !root.join(name).exists()) {
                findings.push(format!("{shown}:{}: there is no {gone}", number + 1));
            }
            let beside = file.parent().unwrap_or(root);
            for gone in linked(line).filter(|link| !beside.join(link).exists()) {
                findings.push(format!("{shown}:{}: the link leads nowhere: {gone}", number + 1));
            }
        }
    }
    check_index(root, findings)
}

/// Every decision is in the index, under its number, begins with it, and has the form of a record.
fn check_index(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let folder = root.join("docs/decisions");
    let index = fs::read_to_string(folder.join("README.md"))?;
    for file in files_of(&folder, "md")? {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((number, _)) = name.split_once('-').filter(|(number, _)| number.parse::<u16>().is_ok()) else {
            continue;
        };
        if !index.contains(&format!("]({name})")) {
            findings.push(format!("docs/decisions/README.md: {name} is missing: add its number and title"));
        }
        let record = fs::read_to_string(&file)?;
        if !record.starts_with(&format!("# {number}")) {
            findings.push(format!("docs/decisions/{name}: begins with another line than `# {number} …`"));
        }
        findings.extend(unlike_a_record(&record).map(|finding| format!("docs/decisions/{name}: {finding}")));
    }
    Ok(())
}

/// What a record lacks of its form, or has too much of.
fn unlike_a_record(text: &str) -> impl Iterator<Item = String> {
    let has_status = text.lines().nth(2).is_some_and(|line| line.starts_with("Status: "));
    let status = (!has_status).then(|| "line 3 is not `Status: …`".to_string());
    let parts: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let form = (parts != RECORD_PARTS).then(|| format!("has the parts {parts:?}; a record has {RECORD_PARTS:?}"));
    let words = text.split_whitespace().count();
    let length = (words > RECORD_WORDS_MAX)
        .then(|| format!("has {words} words, and {RECORD_WORDS_MAX} are allowed: make a second record of a part"));
    [status, form, length].into_iter().flatten()
}

/// Files that a line names from the root of the repository.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    line.split(move |c| !is_part(c)).map(|word| word.trim_end_matches('.')).filter(|word| {
        FOLDERS.iter().any(|folder| word.starts_with(folder)) && ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// Where links of a line lead, inside the repository.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter_map(|link| {
        let path = link.split(['#', ' ']).next()?;
        (!path.is_empty() && !path.contains("://") && !path.starts_with("mailto:")).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_four_parts_on_one_page() {
        let record =
            |parts: &str, words: usize| format!("# 0001 A\n\nStatus: accepted\n\n{parts}{}", "word ".repeat(words));
        let whole = "## Context\n## Options\n## Choice\n## Consequence\n";
        assert_eq!(unlike_a_record(&record(whole, 500)).count(), 0);
        let long = unlike_a_record(&record(whole, 600)).next().unwrap();
        assert!(long.contains("600 are allowed"), "{long}");
        assert_eq!(unlike_a_record(&record("## Context\n## Choice\n", 9)).count(), 1);
        assert_eq!(unlike_a_record("# 0001 A\n\nText\n").count(), 2);
    }

    #[test]
    fn names_and_links_are_found() {
        let line = "see `crates/core-log/src/lib.rs`, [why](../decisions/0001-x.md#y), [here](#a), scripts/x.sh.";
        assert_eq!(named(line).collect::<Vec<_>>(), ["crates/core-log/src/lib.rs", "scripts/x.sh"]);
        assert_eq!(linked(line).collect::<Vec<_>>(), ["../decisions/0001-x.md"]);
        assert_eq!(linked("[x](https://a/b.md)").count(), 0);
    }
}
