//! Bytes that a release wrote, as docs/formats/golden/*.hex keeps them: what tests of formats compare with.
//!
//! ```text
//!   # a comment
//!   name: hex
//! ```
//!
//! `HIVE_GOLDEN=add cargo test …` adds a line that a test wants and that is not there.
//!
//! Always: a line that a release wrote stays as it is. A format that changes gets a version and lines of its own, and this build reads
//! both (decision 0070).
//! Not here: what the bytes mean (docs/formats).
#![allow(dead_code)] // Not every crate needs everything.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A test may read files.

use std::fmt::Write as _;
use std::io::Write as _;
#[allow(unused_imports)] // Crates without std have no prelude of it.
use std::{string::String, string::ToString, vec::Vec};

fn place(file: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/golden").join(file).with_extension("hex")
}

/// Every line of a file: its name and its bytes.
pub fn lines(file: &str) -> Vec<(String, Vec<u8>)> {
    let place = place(file);
    let text = std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| line.split_once(": ").map(|(name, hex)| Some((name.to_string(), unhex(hex)?)));
    lines
        .map(|line| read(line).flatten().unwrap_or_else(|| panic!("{}: no name and hex: {line}", place.display())))
        .collect()
}

/// The bytes of one line.
pub fn line(file: &str, name: &str) -> Vec<u8> {
    let found = lines(file).into_iter().find(|(of, _)| of == name);
    found.unwrap_or_else(|| panic!("{} has no line {name:?}", place(file).display())).1
}

/// What this build writes is what the line holds.
#[track_caller]
pub fn check(file: &str, name: &str, written: &[u8]) {
    let known = lines(file).into_iter().find(|(of, _)| of == name).map(|(_, bytes)| hex(&bytes));
    let written = hex(written);
    let place = place(file);
    match known {
        Some(known) => assert_eq!(
            written,
            known,
            "{}, {name}: this build writes other bytes than 0.2.0. A format changes only with a version and a format level of its \
             own (docs/decisions/0070-format-levels-are-raised-by-one-command.md)",
            place.display()
        ),
        None if std::env::var_os("HIVE_GOLDEN").is_some_and(|mode| mode == "add") => {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(&place);
            file.and_then(|mut file| writeln!(file, "{name}: {written}")).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        }
        None => panic!("{} lacks this line; HIVE_GOLDEN=add adds it:\n{name}: {written}", place.display()),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..text.len()).step_by(2).map(digits).collect()
}
