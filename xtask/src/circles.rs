//! Rooms of a crate that use each other in a circle, and types whose `impl` blocks lie all over.
//!
//! A room is a folder of `src`, or a file there that has none. One room uses another where it says `crate::<room>`.
//! Always: tests are not looked at. Not here: circles between crates (cargo refuses them).

use crate::ratchet::Ratchet;
use crate::{is_test, without_tests};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A type with `impl` blocks in more files than this cannot be read from one place.
const IMPL_FILES_MAX: usize = 6;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Counts both for a crate.
pub fn check(name: &str, source: &Path, files: &[PathBuf], ratchet: &mut Ratchet) -> Result<()> {
    let mut graph = Graph::new();
    let mut blocks: BTreeMap<String, BTreeSet<&PathBuf>> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(file)?;
        let code = without_tests(&text);
        for line in code.lines() {
            if let Some(own) = inherent(line) {
                blocks.entry(own.into()).or_default().insert(file);
            }
        }
        if let Some(room) = room_of(source, file) {
            graph.entry(room).or_default().extend(used(code));
        }
    }
    for circle in circles(&graph) {
        let rooms = circle.join(", ");
        let why = format!("these rooms use each other in a circle, so none can be read alone: {rooms}");
        ratchet.count(format!("rooms in a circle, {name}, with {}", circle[0]), circle.len(), why);
    }
    for (own, files) in blocks.iter().filter(|(_, files)| files.len() > IMPL_FILES_MAX) {
        let why = format!(
            "more than {IMPL_FILES_MAX} files have an `impl {own}`: give its parts fields and types of their own"
        );
        ratchet.count(format!("files with an impl of {own}, {name}"), files.len(), why);
    }
    Ok(())
}

fn room_of(source: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(source).ok()?;
    let first = inside.components().next()?.as_os_str().to_str()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main", "bin"].contains(&room)).then(|| room.to_string())
}

/// The type of an `impl Type {` or `impl<…> Type<…> {`; none of a trait's.
fn inherent(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end).filter(|own| !own.is_empty())
}

/// The rooms that `crate::a` and `crate::{a::X, b}` name; comments count for nothing.
fn used(code: &str) -> BTreeSet<String> {
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or("").to_string() + "\n").collect();
    let mut rooms = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => rooms.extend(first_of_each(list)),
            None => rooms.extend(ident(rest)),
        }
    }
    rooms
}

fn ident(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|word| word.starts_with(|c: char| c.is_lowercase())).map(str::to_string)
}

fn first_of_each(list: &str) -> Vec<String> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                found.extend(ident(&list[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// The sets of rooms from each of which every other can be reached, largest first.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut left: Vec<&String> = graph[from].iter().filter(|room| graph.contains_key(*room)).collect();
        while let Some(room) = left.pop() {
            if seen.insert(room) {
                left.extend(graph[room].iter().filter(|room| graph.contains_key(*room)));
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|room| (room, reached(room))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for room in graph.keys() {
        let circle: Vec<String> =
            reach[room].iter().filter(|other| reach[**other].contains(room)).map(|other| other.to_string()).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| core::cmp::Reverse(circle.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_found_in_uses() {
        let code = "use crate::{a::{X, Y}, b, Item};\ncrate::c::go(); // crate::d\nuse crate::e;";
        assert_eq!(used(code).into_iter().collect::<Vec<_>>(), ["a", "b", "c", "e"]);
    }

    #[test]
    fn blocks_of_types_are_told_from_those_of_traits() {
        assert_eq!(inherent("impl NodeState {"), Some("NodeState"));
        assert_eq!(inherent("impl<R: Rounds> InRounds<R> {"), Some("InRounds"));
        assert_eq!(inherent("impl Display for NodeState {"), None);
        assert_eq!(inherent("implement"), None);
    }

    #[test]
    fn circles_are_found() {
        let edge = |from: &str, to: &[&str]| (from.to_string(), to.iter().map(|to| to.to_string()).collect());
        let graph =
            Graph::from([edge("a", &["b", "elsewhere"]), edge("b", &["c"]), edge("c", &["a"]), edge("d", &["a", "d"])]);
        assert_eq!(circles(&graph), vec![vec!["a".to_string(), "b".into(), "c".into()]]);
    }
}
