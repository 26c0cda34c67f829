//! `hive ctl verify` and `hive ctl integrity`: whether replicas hold what they should.
//!
//! Not here: checking and mending (core-cluster), what to do about a member that differs (core-node says it).

use crate::arguments::{Levels, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, client_of, items, table};
use serde_json::{json, Map, Value};

/// What of a node's `/metrics` is shown, under which name: numbers of all its lanes, added up.
const SHOWN: &[(&str, &str)] = &[
    ("scrub_rounds", "hive_scrub_rounds_total"),
    ("scrub_entries", "hive_scrub_entries_total"),
    ("scrub_bytes", "hive_scrub_bytes_total"),
    ("scrub_failures", "hive_scrub_failures_total"),
    ("found_damaged", "hive_entries_found_damaged_total"),
    ("being_mended", "hive_entries_damaged"),
    ("repaired", "hive_entries_recovered_total"),
    ("lost", "hive_entries_unrecoverable_total"),
    ("replicas_rebuilt", "hive_replicas_rebuilt_total"),
    ("log_entries_repaired", "hive_log_entries_repaired_total"),
];

/// Asks until every member has told.
pub async fn verify(name: &str, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let mut body = json!({"action": "VerifyCluster", "name": name});
    // Ends with the run, which has an end; ctrl-c leaves it going on.
    let answer = loop {
        let answer = ask(&client, world, body.clone()).await?;
        if answer["done"] == true {
            break answer;
        }
        body["run"] = answer["run"].clone();
        let count = |states: &[&str]| {
            items(&answer, "members").iter().filter(|one| states.iter().any(|state| one["state"] == *state)).count()
        };
        let (open, all) = (count(&["waiting", "checking", "missed"]), items(&answer, "members").len());
        eprintln!("{} of {all} members are done", all - open);
    };
    if world.json {
        println!("{answer}");
    } else {
        verified(name, &answer);
    }
    if answer["whole"] == true {
        return Ok(());
    }
    Err(Failure::refused(format!("the replicas of {name} are not whole and the same; follow the advice above")))
}

fn verified(name: &str, answer: &Value) {
    println!("{name} at index {}", answer["index"]);
    let mut out = table(["NODE", "REPLICA", "LEARNER", "STATE", "PAIRS", "BYTES", "DAMAGED", "DIGEST"]);
    for member in items(answer, "members") {
        let columns = ["node", "replica", "learner", "state", "pairs", "bytes", "damaged", "digest"];
        out.add_row(columns.map(|column| cell(&member[column])));
    }
    println!("{out}");
    for advice in items(answer, "advice") {
        println!("! {}", cell(advice));
    }
}

/// Every node's own numbers.
pub async fn show(world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let answer = ask(&client, world, json!({"action": "ListNodes"})).await?;
    let mut nodes = Vec::new();
    for node in items(&answer, "nodes") {
        let mut row = match numbers(world, client.endpoints()[0].scheme(), node).await {
            Ok(numbers) => numbers,
            Err(reason) => Map::from_iter([("error".into(), reason.into())]),
        };
        row.insert("node".into(), node["id"].clone());
        nodes.push(Value::Object(row));
    }
    nodes.sort_by_key(|row| row["node"].as_u64());
    if world.json {
        println!("{}", json!({"ok": true, "nodes": nodes}));
        return Ok(());
    }
    let mut out = table(["NODE", "ROUNDS", "SCRUBBED", "BYTES", "FOUND", "MENDING", "REPAIRED", "LOST", "REBUILT"]);
    let columns = [
        "node",
        "scrub_rounds",
        "scrub_entries",
        "scrub_bytes",
        "found_damaged",
        "being_mended",
        "repaired",
        "lost",
        "replicas_rebuilt",
    ];
    for row in &nodes {
        out.add_row(columns.map(|column| cell(&row[column])));
    }
    println!("{out}");
    for row in &nodes {
        let told = |name: &str| row[name].as_u64().unwrap_or_default();
        if !row["error"].is_null() {
            println!("! node {}: {}", row["node"], cell(&row["error"]));
        }
        if told("lost") > 0 {
            println!("! node {}: {} pairs are damaged on every member; its log names them", row["node"], told("lost"));
        }
        if told("scrub_failures") > 0 {
            println!("! node {}: {} parts could not be read; its log says why", row["node"], told("scrub_failures"));
        }
    }
    Ok(())
}

/// A node's, from its `/metrics`.
async fn numbers(world: &World, scheme: &str, node: &Value) -> Result<Map<String, Value>, String> {
    if node["up"] != true {
        return Err("it is down".into());
    }
    let door = format!("{scheme}://{}", cell(&node["http"]));
    let client = client_of(world, &[&door]).map_err(|failure| failure.message)?;
    match client.get_path(0, "/metrics").await {
        Ok((200, text)) => Ok(added_up(&String::from_utf8_lossy(&text))),
        Ok((status, _)) => Err(format!("{door}/metrics answers {status}")),
        Err(error) => Err(format!("{door}/metrics: {error}")),
    }
}

fn added_up(metrics: &str) -> Map<String, Value> {
    let sum = |metric: &str| -> u64 {
        let of = metrics.lines().filter_map(|line| line.strip_prefix(metric)).filter(|rest| rest.starts_with('{'));
        of.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    SHOWN.iter().map(|(name, metric)| ((*name).to_string(), sum(metric).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_added_up_and_names_are_whole_ones() {
        let text =
            "# HELP hive_entries_damaged x\nhive_entries_damaged{lane=\"0\"} 3\nhive_entries_damaged{lane=\"1\"} 4\n\
                    hive_entries_recovered_total{lane=\"0\"} 5\nhive_scrub_rounds_total{lane=\"0\"} 1\n";
        let numbers = added_up(text);
        assert_eq!((numbers["being_mended"].as_u64(), numbers["repaired"].as_u64()), (Some(7), Some(5)));
        assert_eq!((numbers["scrub_rounds"].as_u64(), numbers["lost"].as_u64()), (Some(1), Some(0)));
    }
}
