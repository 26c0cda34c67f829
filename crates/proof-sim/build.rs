//! Stamps the commit that is being built, and whether the crates differ from it: a ledger names what
//! really ran, not what happened to be checked out when it was started.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_string())
}

/// Where each planted bug is asked about, outside of tests: name and module (crate and folder or file).
fn planted(file: &Path, module: &str, found: &mut BTreeSet<(String, String)>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let names = text.split("planted(Mutant::").skip(1);
    let name = |rest: &str| rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_string();
    found.extend(names.map(|rest| (name(rest), module.to_string())));
}

fn walk(folder: &Path, module: &str, found: &mut BTreeSet<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
        if stem == "tests" || stem.starts_with("test") {
            continue;
        }
        if path.is_dir() {
            walk(&path, &format!("{module}/{stem}"), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            // A file beside its folder belongs to it.
            let own = folder.join(&stem).is_dir();
            planted(&path, &if own { format!("{module}/{stem}") } else { module.to_string() }, found);
        }
    }
}

/// `MODULES`: the list above as a table of the program.
fn write_modules() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("..").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().to_string();
        if name != "proof-sim" && name != "base-types" {
            walk(&entry.path().join("src"), &name, &mut found);
        }
    }
    let rows: String = found.iter().map(|(mutant, module)| format!("    ({mutant:?}, {module:?}),\n")).collect();
    let out = std::env::var("OUT_DIR").unwrap_or_else(|_| ".".to_string());
    let text = format!("/// Bugs, and where they are planted.\nconst MODULES: &[(&str, &str)] = &[\n{rows}];\n");
    if let Err(error) = std::fs::write(Path::new(&out).join("modules.rs"), text) {
        println!("cargo:warning=the list of planted bugs was not written: {error}");
    }
}

fn main() {
    write_modules();
    // An exported tree (`git archive`) has no repository: its maker sets which commit it is.
    let exported = std::env::var("HIVE_COMMIT").ok();
    let checked_out = git(&["rev-parse", "--short", "HEAD"]);
    let dirty =
        checked_out.is_some() && git(&["status", "--porcelain", "--", ".."]).is_none_or(|changes| !changes.is_empty());
    let commit = checked_out.or(exported).unwrap_or_else(|| "unknown".to_string());
    println!("cargo:rerun-if-env-changed=HIVE_COMMIT");
    println!("cargo:rustc-env=HIVE_BUILD_COMMIT={commit}{}", if dirty { "+uncommitted" } else { "" });
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo:rerun-if-changed=..");
}
