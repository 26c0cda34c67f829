//! Alert rules, dashboards and the guides' lists: no metric that no node has, no alert without its runbook and its test.
//!
//! Not here: whether a rule fires (scripts/alerts.sh asks promtool), which metrics there are (edge-node's `testdata/metrics.txt`).

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const METRICS: &str = "crates/edge-node/testdata/metrics.txt";
const RULES: &str = "deploy/prometheus/alerts.yaml";
const TESTS: &str = "deploy/prometheus/alerts_test.yaml";
const RUNBOOK: &str = "docs/guides/operations/alerts.md";
/// Where metrics are named.
const NAMED_IN: &[&str] = &[
    RULES,
    TESTS,
    RUNBOOK,
    "deploy/grafana/hive.json",
    "docs/guides/operations/watch.md",
    "docs/guides/api/metrics.md",
];
/// What a histogram's samples have behind its name.
const OF_HISTOGRAMS: &[&str] = &["_bucket", "_count", "_sum"];

/// Checks them.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| name.to_string());
    let metrics = read(METRICS)?;
    let known: BTreeSet<&str> = metrics.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    for file in NAMED_IN {
        for name in named(&read(file)?).filter(|name| !is_known(&known, name)) {
            findings.push(format!("{file}: there is no metric {name} in {METRICS}"));
        }
    }
    let listed = read("docs/guides/api/metrics.md")?;
    for name in
        known.iter().filter(|name| !listed.contains(&format!("`{name}`")) && !listed.contains(&format!("`{name}{{")))
    {
        findings.push(format!("docs/guides/api/metrics.md: the metric {name} is missing"));
    }
    findings.extend(without_help(&read(RULES)?, &read(TESTS)?, &read(RUNBOOK)?));
    Ok(())
}

/// Names of metrics in a text.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(move |c: char| !is_part(c)).filter(|word| word.starts_with("hive_") && word.len() > 5)
}

fn is_known(known: &BTreeSet<&str>, name: &str) -> bool {
    let bare = OF_HISTOGRAMS.iter().find_map(|end| name.strip_suffix(end));
    known.contains(name) || bare.is_some_and(|bare| known.contains(bare))
}

/// Alerts that no test makes fire, or whose runbook has no section.
fn without_help(rules: &str, tests: &str, runbook: &str) -> Vec<String> {
    let value = |line: &str, key: &str| line.trim().strip_prefix(key).map(|value| value.trim().to_string());
    let mut findings = Vec::new();
    let mut alert = String::new();
    for line in rules.lines() {
        if let Some(name) = value(line, "- alert:") {
            if !tests.contains(&format!("alertname=\"{name}\"")) {
                findings.push(format!("{TESTS}: no test makes {name} fire"));
            }
            if !runbook.contains(&format!("`{name}`")) {
                findings.push(format!("{RUNBOOK}: {name} is named nowhere"));
            }
            alert = name;
        }
        if let Some(section) = value(line, "runbook:") {
            if !runbook.lines().any(|line| line == format!("## {section}")) {
                findings.push(format!("{RUNBOOK}: there is no section {section}, which {alert} names"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_with_the_suffixes_of_histograms() {
        let known = BTreeSet::from(["hive_ready", "hive_log_sync_seconds"]);
        let text = "rate(hive_log_sync_seconds_bucket{a=\"b\"}[5m]) > hive_ready and hive_gone_total == 1";
        let gone: Vec<&str> = named(text).filter(|name| !is_known(&known, name)).collect();
        assert_eq!(gone, ["hive_gone_total"]);
    }

    #[test]
    fn an_alert_needs_a_test_and_a_section() {
        let rules = "- alert: One\n  annotations:\n    runbook: one\n- alert: Two\n  annotations:\n    runbook: two\n";
        let (tests, runbook) = ("alertname=\"One\"", "## one\n\n`One` and `Two`.\n");
        let findings = without_help(rules, tests, runbook);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("no test makes Two fire") && findings[1].contains("no section two"));
    }
}
