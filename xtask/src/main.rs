//! `cargo xtask tidy`: the house rules a compiler does not check — layer arrows, file headers, what a
//! core crate may name, documents with both sides of a merge. Each rule says why when it fails.

use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A layer's prefix and the prefixes it may depend on (ARCHITECTURE.md, "Layers").
const ARROWS: &[(&str, &[&str])] = &[
    ("base-", &["base-"]),
    ("core-", &["base-", "core-"]),
    ("engine-", &["base-"]),
    ("door-", &["base-", "core-"]),
    ("hive-client", &["base-", "edge-embedded"]),
    ("edge-", &["base-", "core-", "engine-", "door-", "edge-", "hive-client", "proof-bench"]),
    ("proof-", &["base-", "core-", "engine-", "door-", "edge-", "hive-client", "proof-"]),
];

/// Words no core crate may contain outside its tests: clocks, threads, sockets, files, the environment, randomness, state that
/// outlives a core (statics: `is_static`).
const FORBIDDEN_IN_CORE: &[&str] = &[
    "std::net",
    "std::thread",
    "std::fs",
    "std::process",
    "std::env",
    "OpenOptions",
    "thread_local!",
    "LocalKey",
    "OnceLock",
    "LazyLock",
    "lazy_static",
    "SystemTime",
    "Instant::now",
    "tokio",
    "HashMap",
    "HashSet",
    "rand::",
    "thread_rng",
    "getrandom",
];

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => bail!("usage: cargo xtask tidy"),
    }
}

fn tidy() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        check_arrows(&folder, &mut findings)?;
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
        for file in files_of(&folder.join("src"), "rs")? {
            check_file(&name, &file, &mut findings)?;
        }
    }
    for file in files_of(&root.join("docs"), "md")? {
        check_merged(&file, &mut findings)?;
    }
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

fn check_arrows(folder: &Path, findings: &mut Vec<String>) -> Result<()> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(prefix, _)| name.starts_with(prefix)) else {
        findings.push(format!("{name}: no layer has this prefix; see ARCHITECTURE.md"));
        return Ok(());
    };
    let section = manifest.split("[dependencies]").nth(1).unwrap_or("");
    let section = section.split("\n[").next().unwrap_or("");
    for line in section.lines() {
        let dependency = line.split(['.', ' ', '=']).next().unwrap_or("");
        let ours = ["base-", "core-", "engine-", "door-", "edge-", "proof-", "hive-"];
        let is_ours = ours.iter().any(|prefix| dependency.starts_with(prefix));
        if is_ours && !allowed.iter().any(|prefix| dependency.starts_with(prefix)) {
            findings.push(format!("{name}: may not depend on {dependency}: arrows point one way"));
        }
    }
    Ok(())
}

fn check_file(name: &str, file: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let shown = file.display();
    let is_test = shown.to_string().contains("tests") || shown.to_string().contains("testing");
    if !is_test && !text.trim_start().starts_with("//!") {
        findings.push(format!("{shown}: opens without //! (what it is, what always holds, what is not here)"));
    }
    if name.starts_with("core-") && !is_test {
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for (number, line) in code.lines().enumerate() {
            let line_code = line.split("//").next().unwrap_or("");
            if is_static(line_code) {
                let text = "a core crate has a static: state belongs to a core, and a table is a const";
                findings.push(format!("{shown}:{}: {text}", number + 1));
            }
            if let Some(word) = FORBIDDEN_IN_CORE.iter().find(|word| line_code.contains(*word)) {
                findings.push(format!("{shown}:{}: a core crate names {word}: it must be handed in", number + 1));
            }
        }
    }
    Ok(())
}

/// Whether a line begins a static item.
fn is_static(line: &str) -> bool {
    let line = line.trim_start();
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, item)| item).trim_start(),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => line,
    };
    item.starts_with("static ")
}

fn check_merged(file: &Path, findings: &mut Vec<String>) -> Result<()> {
    for (number, line) in fs::read_to_string(file)?.lines().enumerate() {
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            findings.push(format!("{}:{}: a merge left both sides here: keep one", file.display(), number + 1));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statics_are_told_from_lifetimes() {
        for line in ["static A: u8 = 0;", "  pub static A: u8", "pub(crate) static mut A", "static ref A"] {
            assert!(is_static(line), "{line}");
        }
        for line in ["const A: &'static str = \"static \";", "fn f() -> &'static str", "let statics = 1;", "pub fn x()"]
        {
            assert!(!is_static(line), "{line}");
        }
    }

    #[test]
    fn what_a_core_may_not_name_is_found() {
        let home = std::env::temp_dir().join(format!("hive-tidy-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        for line in ["std::env::vars()", "fs::OpenOptions::new()", "thread_local! {}", "static A: u8 = 0;"] {
            let file = home.join("x.rs");
            fs::write(&file, format!("//! A file.\n{line}\n")).unwrap();
            let mut findings = Vec::new();
            check_file("core-x", &file, &mut findings).unwrap();
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            findings.clear();
            check_file("edge-x", &file, &mut findings).unwrap();
            assert!(findings.is_empty(), "{line}");
        }
        fs::remove_dir_all(&home).unwrap();
    }
}
