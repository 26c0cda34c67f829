//! `hive ctl recover`: a cluster whose majority is gone for good, surveyed and begun anew on its best survivor.
//!
//! Always: nothing is changed before the cluster's name was given as confirmation, at the terminal or by --confirm.
//! Held by: `level_zero_grows_by_an_operators_word`.
//! Not here: what is best, what may be lost (core-node, flows/recover.rs).

use crate::arguments::{Levels, RecoverCommand, World};
use crate::calendar::minute;
use crate::failure::Failure;
use crate::output::{ask, cell, client, items, table};
use serde_json::{json, Value};
use std::io::{BufRead, IsTerminal};

/// A survey waits for nodes that do not answer, and a recovery for the survivor's disk.
const DEADLINE_MS_MIN: u64 = 20_000;

/// Runs the command.
pub async fn run(command: RecoverCommand) -> Result<(), Failure> {
    let RecoverCommand { name, confirm, from, discard, world } = command;
    match (name, discard) {
        (None, _) => recoveries(&world).await,
        (Some(name), Some(node)) => discarded(&name, node, &world).await,
        (Some(name), None) => recover(&name, confirm.zip(from), &world).await,
    }
}

async fn recoveries(world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let answer = ask(&client, world, json!({"action": "ListRecoveries"})).await?;
    if world.json {
        println!("{answer}");
        return Ok(());
    }
    list(&answer);
    Ok(())
}

fn list(answer: &Value) {
    let mut out = table(["CLUSTER", "ENDED LIFE", "WHEN", "FROM NODE", "STATE", "DATA KEPT ON NODES"]);
    for recovery in items(answer, "recoveries") {
        out.add_row([
            cell(&recovery["name"]),
            cell(&recovery["ended"]),
            minute(&recovery["unix_ms"]),
            cell(&recovery["survivor"]),
            cell(&recovery["state"]),
            nodes(recovery, "held"),
        ]);
    }
    match items(answer, "recoveries").is_empty() {
        true => println!("no cluster was recovered"),
        false => println!("{out}"),
    }
}

fn nodes(of: &Value, name: &str) -> String {
    let nodes: Vec<String> = items(of, name).iter().map(Value::to_string).collect();
    match nodes.is_empty() {
        true => "-".into(),
        false => nodes.join(" "),
    }
}

async fn recover(name: &str, confirm: Option<(String, u64)>, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let body = |confirm: Option<&str>, survivor: Option<u64>| {
        json!({
            "action": "RecoverCluster", "name": name, "confirm": confirm, "survivor": survivor,
            "deadline_ms": world.deadline_ms.max(DEADLINE_MS_MIN),
        })
    };
    let (confirm, survivor) = match confirm {
        Some(confirm) => confirm,
        None => {
            let answer = ask(&client, world, body(None, None)).await?;
            if world.json {
                println!("{answer}");
                return Ok(());
            }
            survey(&answer["recovery"]);
            match asked(name, &answer["recovery"])? {
                Some(seen) => seen,
                None => return Ok(()),
            }
        }
    };
    let answer = ask(&client, world, body(Some(&confirm), Some(survivor))).await?;
    if world.json {
        println!("{answer}");
        return Ok(());
    }
    let recovery = &answer["recovery"];
    items(recovery, "findings").iter().for_each(|finding| println!("! {}", cell(finding)));
    println!("{name} began a new life on node {}", recovery["survivor"]);
    if !items(recovery, "held").is_empty() {
        println!(
            "members of the life before keep what they hold (on nodes {}) until `hive ctl recover {name} --discard NODE`",
            nodes(recovery, "held").replace(' ', ", ")
        );
    }
    println!("next: `hive ctl cluster show {name}` lists its members; {}", growth(name));
    Ok(())
}

/// How it gets its members again.
fn growth(name: &str) -> String {
    let add = |whose: &str| format!("add some with `hive ctl {whose} members add NODE`");
    match name.split_once('@') {
        Some((_, "world")) => add("world"),
        Some((_, tail)) => match tail.strip_prefix("region-") {
            Some(region) => add(&format!("region {region}")),
            None => "it gets as many as its rule wants where nodes are free".into(),
        },
        None => String::new(),
    }
}

/// The name as it is typed at a terminal, and the survivor it was typed for; elsewhere it is said how to give both.
fn asked(name: &str, recovery: &Value) -> Result<Option<(String, u64)>, Failure> {
    let Some(best) = recovery["survivor"].as_u64() else {
        println!("nothing was changed");
        return Ok(None);
    };
    if !std::io::stdin().is_terminal() {
        println!(
            "nothing was changed; to begin a new life on node {best}: hive ctl recover {name} --confirm {name} --from {best}"
        );
        return Ok(None);
    }
    eprint!(
        "members that do not answer must never come back unnoticed; type the cluster's name to begin its new life: "
    );
    let mut typed = String::new();
    let read = std::io::stdin().lock().read_line(&mut typed);
    match read.is_ok() && typed.trim() == name {
        true => Ok(Some((name.to_string(), best))),
        false => Err(Failure::usage(format!("{name} is left as it is"))),
    }
}

/// What each survivor holds, and what may be lost.
fn survey(recovery: &Value) {
    println!("{}: what is left of life {}", cell(&recovery["name"]), recovery["ended"]);
    let mut out = table(["NODE", "LIFE", "STATE", "LAST ENTRY", "COMMITTED", "APPLIED", "IN ENGINE", "BEST"]);
    for one in items(recovery, "survivors") {
        let best = one["node"] == recovery["survivor"];
        out.add_row([
            cell(&one["node"]),
            cell(&one["generation"]),
            cell(&one["state"]),
            format!("{} of term {}", one["last"], one["last_term"]),
            cell(&one["commit"]),
            cell(&one["applied"]),
            cell(&one["durable"]),
            String::from(if best { "best" } else { "" }),
        ]);
    }
    println!("{out}");
    items(recovery, "findings").iter().for_each(|finding| println!("! {}", cell(finding)));
}

async fn discarded(name: &str, node: u64, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let deadline_ms = world.deadline_ms.max(DEADLINE_MS_MIN);
    let body = json!({"action": "DiscardEnded", "name": name, "node": node, "deadline_ms": deadline_ms});
    let answer = ask(&client, world, body).await?;
    if world.json {
        println!("{answer}");
    } else {
        println!("node {node} keeps nothing of the ended life of {name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_zero_grows_by_an_operators_word() {
        assert!(growth("allocator/reference@world").contains("hive ctl world members add"));
        assert!(growth("reference@region-fr-par").contains("hive ctl region fr-par members add"));
        assert!(growth("metadata@users").contains("as its rule wants"));
    }
}
