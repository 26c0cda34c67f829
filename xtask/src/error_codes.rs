//! No code of production writes the text of an error code: it compares and builds the enum.
//!
//! Always: the texts are those of `crates/base-types/tests/golden/error_codes.txt`, which a test holds to the table.
//! Not here: codes of the S3 API that other programs write (base-objects reads another store's words).

use crate::{files_of, is_test, without_tests};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const GOLDEN: &str = "crates/base-types/tests/golden/error_codes.txt";
/// The table itself.
const TABLE: &str = "base-types/src/error/";
/// What runs Hive from outside reads its answers as texts.
const OUTSIDE: &str = "crates/proof-";

/// Checks the sources of every crate.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let golden = fs::read_to_string(root.join(GOLDEN)).context("the golden file of error codes")?;
    let texts = texts(&golden);
    for file in files_of(&root.join("crates"), "rs")? {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let outside = shown.contains(TABLE) || shown.starts_with(OUTSIDE) || shown.contains("/examples/");
        if outside || is_test(&file) {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        for (number, line) in without_tests(&text).lines().enumerate() {
            for found in literals(line).filter(|literal| texts.contains(literal)) {
                findings.push(format!("{shown}:{}: \"{found}\" is an error code: use ErrorCode::{found}", number + 1));
            }
        }
    }
    Ok(())
}

/// The texts of Hive's own codes: the second and third word of each row.
fn texts(golden: &str) -> BTreeSet<&str> {
    let own = golden.lines().skip(1).filter(|row| !row.starts_with("S3("));
    own.flat_map(|row| row.split(' ').skip(1).take(2)).collect()
}

/// Strings of one CamelCase word, outside of comments.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or("");
    code.split('"').filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_text_in_line_is_found() {
        let golden = "head\nNoLeader NoLeader NoLeader 503\nLastVoter QuorumAtRisk QuorumAtRisk 400\nS3(NoSuchKey) NoSuchKey NoSuchKey 404\n";
        let texts = texts(golden);
        assert_eq!(texts.iter().copied().collect::<Vec<_>>(), ["NoLeader", "QuorumAtRisk"]);
        let found = |line| literals(line).filter(|literal| texts.contains(literal)).count();
        assert_eq!(found(r#"if refusal.code.as_str() == "NoLeader" || code == "QuorumAtRisk" {"#), 2);
        assert_eq!(found(r#"ErrorCode::NoLeader => "leader" // not "NoLeader""#), 0);
    }
}
