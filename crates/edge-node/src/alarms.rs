//! What is wrong, as this node knows it, and what to do about each: for `GET /alarms`, the console, `hive top` and `hive ctl alarms`.
//!
//! By design: alarms are computed when somebody asks, from what the node answers then and from its last samples; nothing is kept.
//! Always: the worst come first; each has an id that stays the same while texts may change, and a section of the runbook
//! (docs/guides/operations/alerts.md).
//! Held by: `each_fault_has_its_alarm`, `a_healthy_node_has_none`. Not here: Prometheus' rules (deploy/prometheus), which see
//! longer times; warnings of single clusters, which `ListClusters` has.

use base_types::action::{down_warning, NodeInfo, StatusInfo};
use edge_console::Look;
use serde_json::{json, Value};
use std::collections::BTreeSet;

const DAY_MS: i64 = 86_400_000;
const CERTIFICATE_WARN_MS: i64 = 14 * DAY_MS;
const DISK_WARN_PERMILLE: u32 = 800;
const DISK_BAD_PERMILLE: u32 = 900;
const LOAD_WARN_PERMILLE: u32 = 950;
const SYNC_WARN_US: u32 = 200_000;
const LOG_WRITE_WARN_MS: u32 = 1_000;
/// Load and slow syncs are an alarm once so many samples in a row show them: a minute.
pub const SAMPLES: usize = 6;
/// Of one answer: a world where everything is wrong has a few for each node.
const ALARMS_MAX: usize = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Somebody should act now.
    Bad,
    /// Somebody should look.
    Warn,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// Of the kind of alarm.
    pub id: &'static str,
    pub severity: Severity,
    pub title: String,
    /// What to do.
    pub todo: String,
    /// The runbook's section.
    pub runbook: &'static str,
}

impl Alarm {
    fn bad(id: &'static str, runbook: &'static str, title: String, todo: impl Into<String>) -> Alarm {
        Alarm { id, severity: Severity::Bad, title, todo: todo.into(), runbook }
    }

    fn warn(id: &'static str, runbook: &'static str, title: String, todo: impl Into<String>) -> Alarm {
        Alarm { severity: Severity::Warn, ..Alarm::bad(id, runbook, title, todo) }
    }
}

/// All alarms. `recent`: the last samples, at most [`SAMPLES`].
pub fn alarms(status: &StatusInfo, nodes: &[NodeInfo], recent: &[Look], unix_ms: u64) -> Vec<Alarm> {
    let mut all = of_status(status, nodes, unix_ms);
    all.extend(of_nodes(nodes));
    all.extend(of_samples(recent, status.node.0));
    all.sort_by_key(|alarm| alarm.severity);
    let mut seen = BTreeSet::new();
    all.retain(|alarm| seen.insert(alarm.title.clone()));
    all.truncate(ALARMS_MAX);
    all
}

/// As JSON; `None`: the node did not say in time how it is, which is an alarm, too.
pub fn json(node: u64, alarms: Option<Vec<Alarm>>) -> String {
    let silent = || {
        let title = format!("Node {node} does not report its health in time");
        vec![Alarm::bad(
            "health-silent",
            "node-not-ready",
            title,
            "It hangs or is overloaded: look at its CPU, its disk and its log.",
        )]
    };
    let listed: Vec<Value> = alarms.unwrap_or_else(silent).into_iter().map(shown).collect();
    json!({"ok": true, "node": node, "alarms": listed}).to_string()
}

fn shown(alarm: Alarm) -> Value {
    let severity = if alarm.severity == Severity::Bad { "bad" } else { "warn" };
    json!({"id": alarm.id, "severity": severity, "title": alarm.title, "todo": alarm.todo, "runbook": alarm.runbook})
}

fn of_status(status: &StatusInfo, nodes: &[NodeInfo], unix_ms: u64) -> Vec<Alarm> {
    let node = status.node;
    let mut list = Vec::new();
    for reason in &status.not_ready {
        let todo = "This node serves nobody until then. Send clients to other nodes.";
        list.push(Alarm::bad("node-not-ready", "node-not-ready", format!("Node {node} is not ready: {reason}"), todo));
    }
    for reason in &status.degraded {
        let todo = "What else this node serves is not affected.";
        list.push(Alarm::bad("node-degraded", "node-degraded", format!("Node {node} is degraded: {reason}"), todo));
    }
    for quorum in status.quorum.iter().filter(|quorum| !quorum.answers) {
        let cluster = &quorum.cluster;
        let todo = format!("Start its members that are down. If they are gone for good: hive ctl recover {cluster}");
        list.push(Alarm::bad("quorum-lost", "quorum-lost", format!("Cluster {cluster} has no majority"), todo));
    }
    // Nodes that are down have an alarm of their own.
    let down: BTreeSet<String> =
        nodes.iter().filter(|node| !node.up).map(|node| down_warning(node.node, &node.peer_address)).collect();
    for warning in status.warnings.iter().filter(|warning| !down.contains(*warning)) {
        list.push(Alarm::warn("warning", "node-degraded", warning.clone(), "hive ctl status shows more."));
    }
    if status.log_write_ms > LOG_WRITE_WARN_MS {
        let title = format!("A log write of node {node} takes {}", span(i64::from(status.log_write_ms)));
        let todo = "Check this node's disk: its leaders hand over while it hangs. Replace it if that repeats.";
        list.push(Alarm::bad("log-write-hangs", "slow-disk", title, todo));
    }
    let left = i64::try_from(status.certificate_expires_ms).unwrap_or(i64::MAX).saturating_sub_unsigned(unix_ms);
    if status.certificate_expires_ms > 0 && left < CERTIFICATE_WARN_MS {
        let todo = "Replace it: hive ca issue, then copy the files over the old ones. The node reloads them by itself.";
        list.push(if left < 0 {
            Alarm::bad(
                "certificate-expired",
                "certificates",
                format!("The certificate of node {node} has expired"),
                todo,
            )
        } else {
            let title = format!("The certificate of node {node} expires in {}", span(left));
            Alarm::warn("certificate-expires", "certificates", title, todo)
        });
    }
    list
}

fn of_nodes(nodes: &[NodeInfo]) -> Vec<Alarm> {
    let mut list = Vec::new();
    for node in nodes.iter().filter(|node| !node.up) {
        let id = node.node;
        let seen = span(i64::try_from(node.seen_ms_ago).unwrap_or(i64::MAX));
        let title =
            format!("Node {id} is down ({}, {}, {}); last seen {seen} ago", node.region, node.az, node.http_address);
        let todo = format!("Start it, or look at its log. If it is gone for good: hive ctl node decommission {id}, then hive ctl node remove {id}");
        list.push(Alarm::bad("node-down", "node-down", title, todo));
    }
    for node in nodes.iter().filter(|node| node.draining) {
        let (id, left) = (node.node, node.clusters);
        let title = format!("Node {id} is being decommissioned; {left} replicas are left");
        let todo = match left {
            0 => format!("It is empty: stop it, then hive ctl node remove {id}"),
            _ => format!("Wait; to undo it: hive ctl node recommission {id}"),
        };
        list.push(Alarm::warn("node-decommissioned", "node-down", title, todo));
    }
    let versions: BTreeSet<&str> = nodes.iter().filter(|node| node.up).map(|node| &*node.version).collect();
    if versions.len() > 1 {
        let listed = versions.into_iter().collect::<Vec<_>>().join(", ");
        let todo = "Finish the rolling upgrade, then hive ctl upgrade finalize.";
        list.push(Alarm::warn(
            "versions-differ",
            "versions-differ",
            format!("Nodes run different versions: {listed}"),
            todo,
        ));
    }
    list
}

fn of_samples(recent: &[Look], node: u64) -> Vec<Alarm> {
    let Some(last) = recent.last() else { return Vec::new() };
    let mut list = Vec::new();
    if last.disk_permille >= DISK_WARN_PERMILLE {
        let title = format!("The disk of node {node} is {} % full", last.disk_permille / 10);
        let todo =
            "Free space or add a node: the node refuses writes when less than limits.disk_free_bytes_min is left.";
        let alarm = Alarm::warn("disk-fills", "disk-fills", title, todo);
        let severity = if last.disk_permille >= DISK_BAD_PERMILLE { Severity::Bad } else { Severity::Warn };
        list.push(Alarm { severity, ..alarm });
    }
    let lasts = |is: fn(&Look) -> bool| recent.len() >= SAMPLES && recent.iter().all(is);
    if lasts(|look| look.load_permille >= LOAD_WARN_PERMILLE) {
        let title = format!("The machine of node {node} has been busy for a minute");
        list.push(Alarm::warn(
            "machine-busy",
            "overload",
            title,
            "Add nodes or cores, move leaders away, or send less.",
        ));
    }
    if lasts(|look| look.log_sync_p99_us >= SYNC_WARN_US) {
        let title = format!("One in a hundred log writes of node {node} takes more than {} ms", SYNC_WARN_US / 1_000);
        list.push(Alarm::warn("slow-disk", "slow-disk", title, "Check its disk, and what else uses it."));
    }
    list
}

/// A time in its largest unit.
fn span(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / DAY_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{healthy, node_info};
    use base_types::action::QuorumInfo;
    use base_types::NodeId;

    const NOW: u64 = 1_800_000_000_000;

    fn ids(alarms: &[Alarm]) -> Vec<&str> {
        alarms.iter().map(|alarm| alarm.id).collect()
    }

    #[test]
    fn a_healthy_node_has_none() {
        let looks = [Look { load_permille: 300, disk_permille: 500, log_sync_p99_us: 900 }; SAMPLES];
        let mut status = healthy("dev".into(), NodeId(1));
        status.certificate_expires_ms = NOW + 100 * DAY_MS as u64;
        assert_eq!(alarms(&status, &[node_info(1), node_info(2)], &looks, NOW), []);
    }

    #[test]
    fn each_fault_has_its_alarm() {
        let mut status = healthy("dev".into(), NodeId(1));
        status.not_ready.push("it starts".into());
        status.degraded.push("a part is away".into());
        status.quorum.push(QuorumInfo { cluster: "metadata@a".parse().unwrap(), answers: false });
        status.warnings.extend([down_warning(NodeId(2), ""), "cluster x lacks members".into()]);
        status.log_write_ms = 5_000;
        status.certificate_expires_ms = NOW + DAY_MS as u64;
        let mut nodes = [node_info(1), node_info(2), node_info(3)];
        nodes[1].up = false;
        nodes[2].draining = true;
        nodes[2].version = "9.9.9".into();
        let looks = [Look { load_permille: 990, disk_permille: 930, log_sync_p99_us: 300_000 }; SAMPLES];
        let found = alarms(&status, &nodes, &looks, NOW);
        let bad = ["node-not-ready", "node-degraded", "quorum-lost", "log-write-hangs", "node-down", "disk-fills"];
        let warn =
            ["warning", "certificate-expires", "node-decommissioned", "versions-differ", "machine-busy", "slow-disk"];
        assert_eq!(ids(&found), [&bad[..], &warn[..]].concat());
        status.certificate_expires_ms = NOW - 1;
        assert!(ids(&alarms(&status, &[], &[], NOW)).contains(&"certificate-expired"));
        // Too few samples say nothing of load.
        assert!(!ids(&alarms(&status, &[], &looks[1..], NOW)).contains(&"machine-busy"));
    }

    /// Each names a section that is there.
    #[test]
    fn every_alarm_has_its_runbook() {
        let runbook = include_str!("../../../docs/guides/operations/alerts.md");
        let own = include_str!("alarms.rs");
        let code = own.split("mod tests").next().unwrap_or_default();
        let made = code.split("Alarm::bad(").flat_map(|part| part.split("Alarm::warn("));
        // The first two texts: the id, and the section.
        let sections: Vec<&str> =
            made.filter(|part| part.trim_start().starts_with('"')).filter_map(|part| part.split('"').nth(3)).collect();
        for section in &sections {
            assert!(runbook.lines().any(|line| line == format!("## {section}")), "there is no section {section}");
        }
        assert_eq!(sections.len(), 14, "{sections:?}");
        let silent: Value = serde_json::from_str(&json(4, None)).unwrap();
        assert_eq!(silent["alarms"][0]["id"], "health-silent");
    }
}
