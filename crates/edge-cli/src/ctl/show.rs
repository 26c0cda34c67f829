//! Answers as tables and trees for people.

use crate::output::{cell, items, table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong, the worst first.
pub fn alarms(alarms: &[Value]) {
    if alarms.is_empty() {
        println!("no alarms");
    }
    for alarm in alarms {
        println!(
            "{} {} ({})",
            if alarm["severity"] == "bad" { "!" } else { "·" },
            cell(&alarm["title"]),
            cell(&alarm["id"])
        );
        println!("  {}", cell(&alarm["todo"]));
    }
}

/// The world's health.
pub fn status(status: &Value) {
    let word = match (status["ready"] == true, items(status, "degraded").is_empty()) {
        (true, true) => "ready",
        (true, false) => "DEGRADED",
        (false, _) => "NOT READY",
    };
    println!("world {} is {word}, as node {} sees it", cell(&status["world"]), status["node"]);
    println!(
        "{} of {} nodes up; this node holds {} clusters, leads {}, {} idle",
        status["nodes_up"], status["nodes_total"], status["clusters"], status["leaders"], status["quiesced"]
    );
    for reason in items(status, "not_ready") {
        println!("not ready: {}", cell(reason));
    }
    for reason in items(status, "degraded") {
        println!("degraded: {}", cell(reason));
    }
    for warning in items(status, "warnings") {
        println!("! {}", cell(warning));
    }
    if !items(status, "nodes").is_empty() {
        println!();
        nodes(status);
    }
}

/// The node map.
pub fn nodes(answer: &Value) {
    let mut out = table([
        "NODE", "UP", "REGION", "AZ", "RACK", "CHASSIS", "HTTP", "PEER", "SCORE", "CLUSTERS", "LEADS", "SEEN",
        "VERSION",
    ]);
    for node in items(answer, "nodes") {
        let seen = format!("{} ms ago", cell(&node["seen_ms_ago"]));
        let mut row: Vec<String> =
            ["id", "up", "region", "az", "rack", "chassis", "http", "peer", "score", "clusters", "leaders"]
                .iter()
                .map(|name| cell(&node[*name]))
                .collect();
        if node["draining"] == true {
            row[1].push_str(", draining");
        }
        row.extend([seen, cell(&node["version"])]);
        out.add_row(row);
    }
    println!("{out}");
}

/// Region, zone, rack and chassis, with the nodes at the ends.
pub fn topology(answer: &Value) {
    let mut tree: BTreeMap<[String; 4], Vec<String>> = BTreeMap::new();
    for node in items(answer, "nodes") {
        let path = ["region", "az", "rack", "chassis"].map(|name| cell(&node[name]));
        let down = if node["up"] == true { "" } else { ", DOWN" };
        let state = if node["draining"] == true { ", DRAINING" } else { down };
        tree.entry(path).or_default().push(format!("node {} ({}{state})", cell(&node["id"]), cell(&node["http"])));
    }
    let mut before: [String; 4] = Default::default();
    for (path, nodes) in tree {
        // A level is shown when it, or one above it, differs from the line before.
        let mut same = true;
        for (depth, name) in path.iter().enumerate() {
            same = same && before[depth] == *name;
            if !same {
                let kind = ["region", "az", "rack", "chassis"][depth];
                println!("{}{kind} {name}", "  ".repeat(depth));
            }
        }
        for node in nodes {
            println!("        {node}");
        }
        before = path;
    }
}

fn members(cluster: &Value) -> String {
    let word = |member: &Value| {
        let learner = if member["learner"] == true { " (learner)" } else { "" };
        let down = if member["up"] == false { " (down)" } else { "" };
        format!("{}{learner}{down}", cell(&member["node"]))
    };
    sorted_members(cluster).into_iter().map(word).collect::<Vec<_>>().join(" ")
}

fn sorted_members(cluster: &Value) -> Vec<&Value> {
    let mut members: Vec<&Value> = items(cluster, "members").iter().collect();
    members.sort_by_key(|member| member["node"].as_u64());
    members
}

/// The engine of a keyspace.
fn engine(info: &Value) -> String {
    info["engine"].as_str().filter(|name| !name.is_empty()).map_or("the nodes' default".into(), str::to_owned)
}

/// One line a cluster.
pub fn clusters(clusters: &[Value]) {
    let mut out = table(["NAME", "ID", "GEN", "LEADER", "MEMBERS", "RULE", "WARNINGS"]);
    for cluster in clusters {
        let warnings = items(cluster, "warnings").iter().map(cell).collect::<Vec<_>>().join("; ");
        out.add_row([
            cell(&cluster["name"]),
            cell(&cluster["id"]),
            cell(&cluster["generation"]),
            cell(&cluster["leader"]),
            members(cluster),
            cell(&cluster["rule"]),
            warnings,
        ]);
    }
    println!("{out}");
}

/// What a member that keeps its replica in a bucket has there, and how many entries it is behind the leader.
fn in_bucket(member: &Value, applied: &Value) -> String {
    match (member["kept"].as_u64(), applied.as_u64()) {
        (Some(kept), Some(applied)) => format!("{kept} ({} behind)", applied.saturating_sub(kept)),
        _ => String::new(),
    }
}

/// One cluster with its members' progress.
pub fn cluster(answer: &Value) {
    let info = &answer["cluster"];
    if info.is_null() {
        println!("done");
        return;
    }
    println!("{} (id {}, generation {})", cell(&info["name"]), info["id"], info["generation"]);
    println!("rule {}", cell(&info["rule"]));
    println!(
        "leader {}{}, term {}, committed {}, applied {}",
        cell(&info["leader"]),
        info["engine"].as_str().map(|engine| format!(" (its replica in {engine})")).unwrap_or_default(),
        info["term"],
        info["commit"],
        info["applied"]
    );
    println!("writes {}, reads {} by default", cell(&info["consistency"]), cell(&info["read_consistency"]));
    let mut out = table(["NODE", "REPLICA", "LEARNER", "MATCHED", "IN BUCKET", "UP"]);
    for member in sorted_members(info) {
        let cells = ["node", "replica", "learner", "matched"].map(|name| cell(&member[name]));
        out.add_row(cells.into_iter().chain([in_bucket(member, &info["applied"]), cell(&member["up"])]));
    }
    println!("{out}");
    for warning in items(info, "warnings") {
        println!("! {}", cell(warning));
    }
}

/// A keyspace just made.
pub fn created_keyspace(name: &str, answer: &Value) {
    match &answer["keyspace"] {
        Value::Object(_) => keyspace(&answer["keyspace"]),
        _ => println!("keyspace {name} is created"),
    }
}

/// One keyspace.
pub fn keyspace(info: &Value) {
    let kind = match info["kind"].as_str() {
        None | Some("plain") => String::new(),
        Some(kind) => format!(" ({kind})"),
    };
    println!(
        "keyspace {}{kind}: {} partitions by {}, engine {}, epoch {}",
        cell(&info["name"]),
        info["partitions"],
        cell(&info["partition"]),
        engine(info),
        info["epoch"]
    );
    println!("rule {}", cell(&info["rule"]));
    let mut out = table(["CLUSTER", "PARTITIONS"]);
    let mut owned: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (partition, owner) in items(info, "owners").iter().enumerate() {
        owned.entry(cell(owner)).or_default().push(partition);
    }
    for (owner, partitions) in owned {
        out.add_row([owner, ranges(&partitions)]);
    }
    println!("{out}");
    if !info["reshard"].is_null() {
        let reshard = &info["reshard"];
        println!(
            "resharding to {} clusters: {} of {} moves done",
            reshard["target_clusters"], reshard["moves_done"], reshard["moves_total"]
        );
    }
    println!("last reshard moved {} partitions, {} keys", info["moved_partitions"], info["moved_keys"]);
}

/// `[0, 1, 2, 5]` as `0-2 5`.
fn ranges(numbers: &[usize]) -> String {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match out.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => out.push((number, number)),
        }
    }
    let word =
        |&(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    out.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// One line a keyspace.
pub fn keyspaces(answer: &Value) {
    let mut out = table(["NAME", "KIND", "PARTITION", "PARTITIONS", "CLUSTERS", "ENGINE", "RULE", "RESHARD"]);
    for info in items(answer, "keyspaces") {
        let owners: BTreeSet<String> = items(info, "owners").iter().map(cell).collect();
        let reshard = if info["reshard"].is_null() { "-" } else { "running" };
        out.add_row([
            cell(&info["name"]),
            cell(&info["kind"]),
            cell(&info["partition"]),
            cell(&info["partitions"]),
            owners.len().to_string(),
            engine(info),
            cell(&info["rule"]),
            reshard.into(),
        ]);
    }
    println!("{out}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn partitions_are_told_as_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 5, 7, 8]), "0-2 5 7-8");
        assert_eq!(super::ranges(&[]), "");
    }
}
