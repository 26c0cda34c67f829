//! Stamps the commit that is being built, and whether the crates differ from it: a ledger names what
//! really ran, not what happened to be checked out when it was started.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_string())
}

fn main() {
    // An exported tree (`git archive`) has no repository: whoever exported it says which commit it is.
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
