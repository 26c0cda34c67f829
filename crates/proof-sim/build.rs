//! Stamps the commit that is being built, and whether the crates differ from it: a ledger names what
//! really ran, not what happened to be checked out when it was started.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_string())
}

fn main() {
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_string());
    let dirty = git(&["status", "--porcelain", "--", ".."]).is_none_or(|changes| !changes.is_empty());
    println!("cargo:rustc-env=HIVE_BUILD_COMMIT={commit}{}", if dirty { "+uncommitted" } else { "" });
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo:rerun-if-changed=..");
}
