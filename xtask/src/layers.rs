//! Layer arrows, file headers, and what a core crate may name.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// A layer's prefix and the prefixes it may depend on (ARCHITECTURE.md, "Layers and crates").
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

/// A crate depends on nothing above its layer.
pub fn check_arrows(folder: &Path, findings: &mut Vec<String>) -> Result<()> {
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

/// A file opens with what it is; a core crate names nothing of the outside.
pub fn check_file(name: &str, file: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let shown = file.display();
    let is_test = crate::is_test(file);
    if !is_test && !text.trim_start().starts_with("//!") {
        findings.push(format!("{shown}: opens without //! (what it is, what always holds, what is not here)"));
    }
    if name.starts_with("core-") && !is_test {
        let code = crate::without_tests(&text);
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
