//! A change of leader, member, node or flow as a line in the log.
//!
//! Always: one line for each, with its reason where there is one, under the target `hive::change`: `HIVE_LOG=warn,hive::change=info`
//! shows nothing else that is no warning.
//! Held by: `every_change_is_one_line`. Not here: what counts as a change (core-node's `Change`).

use base_types::NodeId;
use core_cluster::api::Leadership;
use core_node::api::{Change, NodeNews};

/// Writes it.
pub fn log(change: &Change) {
    match change {
        Change::Leadership { cluster, term, event } => match event {
            Leadership::Begun { before, reason } => {
                let before = before.map_or("none".into(), |node| node.to_string());
                tracing::info!(target: "hive::change", %cluster, %term, before, reason, "this node leads the cluster");
            }
            Leadership::HandingOver { to, reason } => {
                tracing::info!(target: "hive::change", %cluster, %term, %to, reason, "leadership is being handed over");
            }
            Leadership::Ended { reason } => {
                tracing::warn!(target: "hive::change", %cluster, %term, reason, "this node no longer leads the cluster");
            }
        },
        Change::Members { cluster, before, now } => {
            let (before, now) = (listed(before), listed(now));
            tracing::info!(target: "hive::change", %cluster, before, now, "the members of the cluster changed");
        }
        Change::Node { node, news } => match news {
            NodeNews::Joined => tracing::info!(target: "hive::change", %node, "the node joined the world"),
            NodeNews::Up => tracing::info!(target: "hive::change", %node, "the node is up"),
            NodeNews::Down => {
                let reason = "the world's leader has not heard from it for tuning.node_down_ms";
                tracing::warn!(target: "hive::change", %node, reason, "the node is down");
            }
            NodeNews::DiskLost => {
                let reason = "its data directory is new: what it held is rebuilt from other members";
                tracing::warn!(target: "hive::change", %node, reason, "the node came back without its data");
            }
            NodeNews::Forgotten => tracing::info!(target: "hive::change", %node, "the node was removed from the world"),
        },
        Change::FlowBegun { flow, subject } => tracing::info!(target: "hive::change", flow, subject, "begun"),
        Change::SlowCall(spent) => super::slow::log_call(spent),
        Change::FlowEnded { flow, subject, took, failed } => {
            let seconds = took.as_secs_f64();
            match failed {
                None => tracing::info!(target: "hive::change", flow, subject, seconds, "done"),
                Some(reason) => tracing::warn!(target: "hive::change", flow, subject, seconds, reason, "failed"),
            }
        }
    }
}

fn listed(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::tests::lines_with;
    use base_types::Term;
    use std::time::Duration;

    #[test]
    fn every_change_is_one_line() {
        let cluster = || "redis@ks-a-0".parse().unwrap();
        let (node, term) = (NodeId(3), Term(7));
        let leads = |event| Change::Leadership { cluster: cluster(), term, event };
        let (flow, subject) = ("members", || "cluster redis@ks-a-0: node 4 joins".to_string());
        let ended = |failed| Change::FlowEnded { flow, subject: subject(), took: Duration::from_millis(1_500), failed };
        let changes = [
            leads(Leadership::Begun { before: Some(NodeId(1)), reason: "why" }),
            leads(Leadership::HandingOver { to: NodeId(2), reason: "why" }),
            leads(Leadership::Ended { reason: "why" }),
            Change::Members { cluster: cluster(), before: vec![NodeId(1)], now: vec![NodeId(1), NodeId(4)] },
            Change::FlowBegun { flow, subject: subject() },
            ended(None),
            ended(Some("why".into())),
        ];
        let news = [NodeNews::Joined, NodeNews::Up, NodeNews::Down, NodeNews::DiskLost, NodeNews::Forgotten];
        let lines = lines_with("warn,hive::change=info", "json", || {
            changes.iter().for_each(log);
            news.iter().for_each(|news| log(&Change::Node { node, news: *news }));
        });
        let lines: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), changes.len() + news.len(), "{lines:?}");
        assert_eq!((&lines[0]["before"], &lines[0]["reason"]), (&"1".into(), &"why".into()));
        assert_eq!((&lines[3]["before"], &lines[3]["now"]), (&"1".into(), &"1,4".into()));
        assert_eq!((&lines[5]["seconds"], &lines[6]["reason"]), (&1.5.into(), &"why".into()));
        assert!(lines[7..].iter().all(|line| line["node"] == "3"));
    }
}
