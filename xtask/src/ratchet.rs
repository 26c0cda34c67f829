//! What is not right yet, and may only get better: a number for each rule and place.
//!
//! Always: a number above the one written down is a finding; one below it is said, so that what was won can be written down.
//! Not here: what is counted.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# What `cargo xtask tidy` counts and does not forbid yet. A change may lower a number (`cargo xtask tidy --write`), never raise one.
";

/// The numbers written down, and those found.
pub struct Ratchet {
    path: PathBuf,
    allowed: BTreeMap<String, usize>,
    found: BTreeMap<String, (usize, String)>,
}

impl Ratchet {
    /// Lines `<number> <name>`; `#` begins a comment.
    pub fn read(path: &Path) -> Result<Ratchet> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut allowed = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let (number, name) = line.split_once(' ').with_context(|| format!("{}: {line}", path.display()))?;
            allowed.insert(name.to_string(), number.parse().with_context(|| format!("{}: {line}", path.display()))?);
        }
        Ok(Ratchet { path: path.to_path_buf(), allowed, found: BTreeMap::new() })
    }

    /// So many were found; `why` says what is wrong with them, and where they are.
    pub fn count(&mut self, name: String, number: usize, why: String) {
        self.found.insert(name, (number, why));
    }

    /// Compares, or writes what was found where that is less.
    pub fn finish(self, write: bool, findings: &mut Vec<String>) -> Result<()> {
        let is_new = self.allowed.is_empty();
        let mut kept: BTreeMap<&String, usize> = BTreeMap::new();
        let mut lower = 0;
        for (name, (number, why)) in &self.found {
            let allowed = self.allowed.get(name).copied().unwrap_or(if is_new && write { *number } else { 0 });
            if *number > allowed {
                findings.push(format!("{name}: {number}, and {allowed} are allowed: {why}"));
            }
            lower += usize::from(*number < allowed);
            if (*number).min(allowed) > 0 {
                kept.insert(name, (*number).min(allowed));
            }
        }
        lower += self.allowed.keys().filter(|name| !self.found.contains_key(*name)).count();
        if write {
            let lines: String = kept.iter().map(|(name, number)| format!("{number} {name}\n")).collect();
            fs::write(&self.path, format!("{HEAD}{lines}"))?;
        } else if lower > 0 {
            println!("{lower} numbers of xtask/ratchet.txt can be lowered: run `cargo xtask tidy --write`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(allowed: &str, found: &[(&str, usize)], write: bool) -> (Vec<String>, String) {
        let home = std::env::temp_dir().join(format!("hive-ratchet-{}-{:p}", std::process::id(), found));
        fs::create_dir_all(&home).unwrap();
        let path = home.join("ratchet.txt");
        fs::write(&path, allowed).unwrap();
        let mut ratchet = Ratchet::read(&path).unwrap();
        found.iter().for_each(|(name, number)| ratchet.count(name.to_string(), *number, "why".into()));
        let mut findings = Vec::new();
        ratchet.finish(write, &mut findings).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(&home).unwrap();
        (findings, written)
    }

    #[test]
    fn numbers_only_fall() {
        assert_eq!(finish("3 words\n", &[("words", 3)], false).0.len(), 0);
        assert!(finish("3 words\n", &[("words", 4)], false).0[0].contains("4, and 3 are allowed"));
        assert_eq!(finish("3 words\n", &[("words", 2)], false).0.len(), 0);
        assert!(finish("3 words\n", &[("words", 3), ("circle", 2)], false).0[0].contains("0 are allowed"));
        let (findings, written) = finish("3 words\n", &[("words", 2), ("circle", 2)], true);
        assert_eq!((findings.len(), written.lines().last()), (1, Some("2 words")));
    }
}
