//! The walks of docs/tour and ARCHITECTURE.md: every function that they name is there, in the type or module that they say,
//! and every room of the map.
//!
//! Always: a name is `Type::function` or `module::function` in backticks; a module is a file, a folder or a crate.
//! Not here: whether the walk is right; a reader must follow it.

use crate::files_of;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Functions of the workspace, each with the types and modules that have one of the name.
#[derive(Default)]
struct Functions(BTreeMap<String, BTreeSet<String>>);

/// Checks every walk.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let mut functions = Functions::default();
    for file in files_of(&root.join("crates"), "rs")? {
        functions.read(&file, &fs::read_to_string(&file)?);
    }
    let mut walks = files_of(&root.join("docs/tour"), "md")?;
    walks.push(root.join("ARCHITECTURE.md"));
    for walk in walks {
        let shown = walk.strip_prefix(root).unwrap_or(&walk).display().to_string();
        for (number, line) in fs::read_to_string(&walk)?.lines().enumerate() {
            for (home, function) in named(line).filter(|(home, function)| !functions.has(home, function)) {
                findings.push(format!(
                    "{shown}:{}: `{home}::{function}` is not in crates/: follow the function's name of today",
                    number + 1
                ));
            }
        }
    }
    let map = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    for (crates, room) in map.lines().flat_map(rooms) {
        let is_there = |name: &&str| {
            let sources = root.join("crates").join(name).join("src");
            sources.join(room).is_dir() || !room.ends_with('/') && sources.join(format!("{room}.rs")).is_file()
        };
        if !crates.iter().any(is_there) {
            findings.push(format!("ARCHITECTURE.md: {} has no room `{room}`", crates.join(", ")));
        }
    }
    Ok(())
}

/// Rooms that a row of the map names, each with the crates of the row.
fn rooms(row: &str) -> Vec<(Vec<&str>, &str)> {
    let cells: Vec<&str> = row.split('|').collect();
    let [_, crates, _, rooms, _] = cells[..] else { return Vec::new() };
    let crates: Vec<&str> = in_backticks(crates).collect();
    let is_map = crates.iter().all(|name| name.contains('-') && !name.contains('*')) && !crates.is_empty();
    in_backticks(rooms).filter(|_| is_map).map(|room| (crates.clone(), room)).collect()
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

impl Functions {
    fn has(&self, home: &str, function: &str) -> bool {
        self.0.get(function).is_some_and(|homes| homes.contains(home))
    }

    /// A function counts for its file, the folder and crate it lies in, and every type that the file has an `impl` of.
    fn read(&mut self, file: &Path, text: &str) {
        let mut homes: BTreeSet<String> = types_of(text).map(str::to_string).collect();
        let parts = file.components().filter_map(|part| part.as_os_str().to_str());
        homes.extend(parts.map(|part| part.trim_end_matches(".rs").replace('-', "_")));
        for function in words_after(text, "fn ") {
            self.0.entry(function.to_string()).or_default().extend(homes.iter().cloned());
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Words that follow `keyword`, where that begins a word itself.
fn words_after<'t>(text: &'t str, keyword: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(keyword).filter_map(move |(at, _)| {
        let begins = !text[..at].ends_with(is_part);
        let rest = &text[at + keyword.len()..];
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        (begins && !word.is_empty()).then_some(word)
    })
}

/// Types and traits that a file has blocks of.
fn types_of(text: &str) -> impl Iterator<Item = &str> {
    let begins_block =
        |line: &&str| ["impl ", "impl<", "trait ", "pub trait "].iter().any(|word| line.starts_with(word));
    let heads = text.lines().map(str::trim_start).filter(begins_block);
    let words = heads.flat_map(|head| head.split('{').next().unwrap_or("").split(|c| !is_part(c)));
    words.filter(|word| word.starts_with(|c: char| c.is_uppercase()))
}

/// What a line names as `home::function` in backticks.
fn named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    in_backticks(line).filter_map(|name| {
        let (home, function) = name.split_once("::")?;
        let whole = !home.is_empty() && function.chars().all(is_part) && home.chars().all(is_part);
        (whole && function.starts_with(|c: char| c.is_lowercase() || c == '_')).then_some((home, function))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_type_and_module() {
        let mut functions = Functions::default();
        let text = "impl<T: Copy> Lane<T> {\n    pub fn submit(&mut self) {}\n}\npub(crate) fn often() {}\n";
        functions.read(Path::new("crates/core-cluster/src/lane.rs"), text);
        for (home, function) in [("Lane", "submit"), ("lane", "often"), ("core_cluster", "often")] {
            assert!(functions.has(home, function), "{home}::{function}");
        }
        assert!(!functions.has("Lane", "ten") && !functions.has("Log", "submit"));
    }

    #[test]
    fn rooms_of_the_map_are_found() {
        let row = "| `core-a`, `core-b` | what `x` | `reshard/` parts that move; `map` |";
        let crates = vec!["core-a", "core-b"];
        assert_eq!(rooms(row), [(crates.clone(), "reshard/"), (crates, "map")]);
        assert!(
            rooms("| question | `log::open` |").is_empty() && rooms("| `engine-*` | one each | `shim/` |").is_empty()
        );
    }

    #[test]
    fn names_in_backticks_are_found() {
        let line = "`Core::step`, `flow::decide_all` and `Phase::Cutting`; `fn x`, Core::open, `a::b::c`";
        assert_eq!(named(line).collect::<Vec<_>>(), [("Core", "step"), ("flow", "decide_all")]);
    }
}
