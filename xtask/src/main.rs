//! `cargo xtask tidy`: the house rules a compiler does not check. Each rule says why when it fails.
//!
//! ```text
//!   layers.rs      arrows between crates, file headers, what a core crate may name
//!   circles.rs     rooms of a crate that use each other in a circle; types with `impl` blocks all over
//!   documents.rs   both sides of a merge, files that documents name and that are gone
//!   excerpts.rs    code that documents show, line by line as in the file that it is from
//!   error_codes.rs texts of error codes that code of production writes
//!   holders.rs     what holds the "Always:" of a file's header
//!   words.rs       turns of phrase that have a plainer word
//!   checked.rs     tests that docs/proof/safe-to-expose.md and docs/proof/nothing-lost.md name and that are gone
//!   tour.rs        functions that docs/tour names and that are gone
//!   releases.rs    the version of Cargo.toml, its format level and its commit in RELEASES.md
//!   ratchet.rs     what is not right yet and may only get better: xtask/ratchet.txt
//! ```

mod checked;
mod circles;
mod documents;
mod error_codes;
mod excerpts;
mod holders;
mod layers;
mod monitoring;
mod ratchet;
mod releases;
mod tour;
mod words;

use anyhow::{bail, Context, Result};
use ratchet::Ratchet;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(false),
        ["tidy", "--write"] => tidy(true),
        _ => bail!("usage: cargo xtask tidy [--write]; --write lowers xtask/ratchet.txt to what is found"),
    }
}

fn tidy(write: bool) -> Result<()> {
    // Where cargo runs it from, and not where it was built: a checkout may have moved since.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask tidy`")?;
    let root = Path::new(&own).parent().context("xtask lies in the workspace")?;
    let mut findings = Vec::new();
    let mut ratchet = Ratchet::read(&root.join("xtask/ratchet.txt"))?;
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        layers::check_arrows(&folder, &mut findings)?;
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
        let files = files_of(&folder.join("src"), "rs")?;
        for file in &files {
            layers::check_file(&name, file, &mut findings)?;
        }
        circles::check(&name, &folder.join("src"), &files, &mut ratchet)?;
    }
    documents::check(root, &mut findings)?;
    monitoring::check(root, &mut findings)?;
    checked::check(root, &mut findings)?;
    tour::check(root, &mut findings)?;
    excerpts::check(root, &mut findings)?;
    error_codes::check(root, &mut findings)?;
    releases::check(root, &mut findings)?;
    holders::check(root, &mut findings, &mut ratchet)?;
    words::check(root, &mut ratchet)?;
    ratchet.finish(write, &mut findings)?;
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy");
        return Ok(());
    }
    bail!("{} findings", findings.len())
}

/// Whether a file holds tests, or what only tests use.
fn is_test(file: &Path) -> bool {
    let shown = file.display().to_string();
    shown.contains("tests") || shown.contains("testing")
}

/// What of a file is not its tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or("")
}

/// All files below a folder whose names end so.
fn files_of(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                files.push(path);
            }
        }
    }
    Ok(files)
}
