//! Turns of phrase that have a plainer word. They are counted, and the count only falls.
//!
//! Not here: what the words of ours mean (docs/glossary.md).

use crate::documents::documents;
use crate::files_of;
use crate::ratchet::Ratchet;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// The phrase, and the plainer word.
const PHRASES: &[(&str, &str)] = &[
    ("in vain", "without effect, or what failed"),
    ("stands still", "is frozen, is idle"),
    ("stood still", "was frozen, was idle"),
    ("is told", "receives, learns"),
    ("are told", "receive, learn"),
    ("was told", "received, learned"),
    ("tells", "reports, says"),
    ("made anew", "recreated"),
    ("asked again", "retried"),
    ("ask again", "retry"),
    ("asks again", "retries"),
    ("behind it", "after it"),
    ("behind them", "after them"),
    ("such a one", "one like it, or its name"),
    ("for as long as", "while"),
    ("as long as it", "while it"),
    ("who waits for", "the waiter, or its name"),
    ("whereabouts", "location"),
    ("whoever", "the node, client or caller that"),
    ("stands back", "defers, yields"),
    ("goes on", "continues"),
    ("go on", "continue"),
];

/// Counts each phrase in code and documents.
pub fn check(root: &Path, ratchet: &mut Ratchet) -> Result<()> {
    let mut files = documents(root)?;
    files.extend(files_of(&root.join("crates"), "rs")?);
    let mut text = String::new();
    for file in files {
        text.push_str(&fs::read_to_string(file)?.to_lowercase());
        text.push('\n');
    }
    for (phrase, plainer) in PHRASES {
        let count = text.match_indices(phrase).filter(|(at, _)| is_whole(&text, *at, phrase.len())).count();
        if count > 0 {
            ratchet.count(format!("times \"{phrase}\""), count, format!("say: {plainer}"));
        }
    }
    Ok(())
}

fn is_whole(text: &str, at: usize, length: usize) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + length..].chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        let count = |text: &str| text.match_indices("tells").filter(|(at, _)| is_whole(text, *at, 5)).count();
        assert_eq!((count("it tells, tells"), count("retells tellsome")), (2, 0));
    }
}
