//! `hive ctl rebalance`: leaders spread evenly over the nodes that may lead, by plan, then one after the other.
//!
//! ```text
//!  ListNodes, ListClusters, DescribeCluster of each ─▶ plan (pure) ─▶ shown ─▶ TransferLeader of each
//! ```
//!
//! Always: a leader moves only to a voter of its cluster whose node is up and is not being emptied; each move makes the spread more
//! even, so a second plan right after the first is empty. A leader stays in its region unless another is allowed.
//! Held by: `a_plan_evens_out_and_ends`, `nobody_leads_who_may_not`.
//! Not here: replicas (`hive ctl cluster move`, and decommissioning), a drained node (it refuses leadership: the move fails and says so).

use super::PAGES_MAX;
use crate::arguments::{Levels, RebalanceCommand, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, items, table};
use futures::stream::{self, StreamExt};
use hive_client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Clusters asked about at a time.
const ASKED_AT_ONCE: usize = 16;

/// What a plan is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cluster {
    name: String,
    leader: u64,
    /// Nodes that may lead it.
    candidates: Vec<u64>,
}

/// A leader that is to move.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Move {
    cluster: String,
    from: u64,
    to: u64,
}

/// Shows the plan; without `--plan` carries it out.
pub async fn run(command: RebalanceCommand) -> Result<(), Failure> {
    let RebalanceCommand { plan: only_plan, across_regions, world } = command;
    let client = client(&world, &Levels::default())?;
    let (nodes, clusters, silent) = survey(&client, &world, across_regions).await?;
    let before = count(&nodes, &clusters);
    let moves = plan(&nodes, &clusters);
    let mut after = before.clone();
    for step in &moves {
        *after.entry(step.from).or_default() -= 1;
        *after.entry(step.to).or_default() += 1;
    }
    if !world.json {
        show(&before, &after, &moves, &silent);
    }
    let mut results: Vec<Option<String>> = Vec::new();
    if !only_plan {
        results = carry_out(&client, &moves, world.json).await;
    }
    if world.json {
        println!("{}", as_json(&before, &after, &moves, &silent, (!only_plan).then_some(&results)));
    }
    let failed: Vec<(&Move, &String)> =
        moves.iter().zip(&results).filter_map(|(step, result)| Some((step, result.as_ref()?))).collect();
    if !world.json {
        for (step, why) in &failed {
            eprintln!("! {}: {why}", step.cluster);
        }
        if !only_plan && !moves.is_empty() {
            println!("{} of {} leaders have moved", moves.len() - failed.len(), moves.len());
        }
    }
    match failed.len() {
        0 => Ok(()),
        many => Err(Failure::refused(format!("{many} of {} leaders did not move; run it again", moves.len()))),
    }
}

/// The nodes that may lead, every cluster with a leader, and those that did not say who leads them.
async fn survey(
    client: &Client,
    world: &World,
    across_regions: bool,
) -> Result<(Vec<u64>, Vec<Cluster>, Vec<String>), Failure> {
    let listed = ask(client, world, json!({"action": "ListNodes"})).await?;
    let may_lead = |node: &&Value| node["up"] == true && node["draining"] != true;
    let regions: BTreeMap<u64, String> =
        items(&listed, "nodes").iter().filter_map(|node| Some((node["id"].as_u64()?, cell(&node["region"])))).collect();
    let nodes: Vec<u64> = items(&listed, "nodes").iter().filter(may_lead).filter_map(|n| n["id"].as_u64()).collect();
    let mut names: Vec<String> = Vec::new();
    let mut start_after = Value::Null;
    for _ in 0..PAGES_MAX {
        let body = json!({"action": "ListClusters", "prefix": "", "start_after": start_after});
        let mut page = ask(client, world, body).await?;
        names.extend(items(&page, "clusters").iter().filter_map(|one| Some(one["name"].as_str()?.to_owned())));
        start_after = page["next"].take();
        if start_after.is_null() {
            break;
        }
    }
    let described = stream::iter(names).map(|name| async move {
        let answer = client.action(json!({"action": "DescribeCluster", "name": name})).await;
        (name, answer)
    });
    let described: Vec<_> = described.buffered(ASKED_AT_ONCE).collect().await;
    let (mut clusters, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in described {
        let Some(leader) = answer.as_ref().ok().and_then(|answer| answer["cluster"]["leader"].as_u64()) else {
            silent.push(name);
            continue;
        };
        let near = |node: &u64| across_regions || regions.get(node) == regions.get(&leader);
        let members = answer.iter().flat_map(|answer| items(&answer["cluster"], "members"));
        let voters = members.filter(|member| member["learner"] != true && member["up"] != false);
        let candidates = voters.filter_map(|member| member["node"].as_u64()).filter(near).filter(|n| nodes.contains(n));
        clusters.push(Cluster { name, leader, candidates: candidates.collect() });
    }
    Ok((nodes, clusters, silent))
}

fn count(nodes: &[u64], clusters: &[Cluster]) -> BTreeMap<u64, usize> {
    let mut leads: BTreeMap<u64, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    clusters.iter().for_each(|cluster| *leads.entry(cluster.leader).or_default() += 1);
    leads
}

/// Moves until no single move makes the spread more even, each cluster's leader at most once.
fn plan(nodes: &[u64], clusters: &[Cluster]) -> Vec<Move> {
    let mut leads = count(nodes, clusters);
    let mut leader: Vec<u64> = clusters.iter().map(|cluster| cluster.leader).collect();
    // Every step lowers the sum of squares, so this ends.
    loop {
        let mut moved = false;
        for (cluster, leader) in clusters.iter().zip(&mut leader) {
            let least = cluster.candidates.iter().min_by_key(|node| (leads.get(*node).copied().unwrap_or(0), **node));
            let Some(to) = least.copied() else { continue };
            let (here, there) = (leads.get(leader).copied().unwrap_or(0), leads.get(&to).copied().unwrap_or(0));
            if here >= there + 2 {
                *leads.entry(*leader).or_default() -= 1;
                *leads.entry(to).or_default() += 1;
                *leader = to;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let moves = clusters.iter().zip(leader).filter(|(cluster, leader)| cluster.leader != *leader);
    moves.map(|(cluster, to)| Move { cluster: cluster.name.clone(), from: cluster.leader, to }).collect()
}

/// One after the other: a cluster has no leader for a moment while it moves. Of each, why it failed.
async fn carry_out(client: &Client, moves: &[Move], quiet: bool) -> Vec<Option<String>> {
    let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} eta {eta}");
        let bar = ProgressBar::new(moves.len() as u64);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    });
    let mut results = Vec::new();
    for step in moves {
        let body = json!({"action": "TransferLeader", "name": step.cluster, "node": step.to});
        results.push(client.action(body).await.err().map(|error| error.to_string()));
        if let Some(bar) = &bar {
            bar.inc(1);
            bar.set_message(step.cluster.clone());
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    results
}

fn show(before: &BTreeMap<u64, usize>, after: &BTreeMap<u64, usize>, moves: &[Move], silent: &[String]) {
    let mut out = table(["NODE", "LEADS", "AFTERWARDS"]);
    for (node, leads) in before {
        out.add_row([node.to_string(), leads.to_string(), after.get(node).copied().unwrap_or(0).to_string()]);
    }
    println!("{out}");
    for name in silent {
        println!("! {name} does not say who leads it and is left as it is");
    }
    if moves.is_empty() {
        return println!("no leader needs to move");
    }
    let mut out = table(["CLUSTER", "FROM", "TO"]);
    for step in moves {
        out.add_row([step.cluster.clone(), step.from.to_string(), step.to.to_string()]);
    }
    println!("{out}");
}

fn as_json(
    before: &BTreeMap<u64, usize>,
    after: &BTreeMap<u64, usize>,
    moves: &[Move],
    silent: &[String],
    results: Option<&Vec<Option<String>>>,
) -> Value {
    let spread = |leads: &BTreeMap<u64, usize>| -> Vec<Value> {
        leads.iter().map(|(node, leads)| json!({"node": node, "leads": leads})).collect()
    };
    let step = |(index, step): (usize, &Move)| {
        let mut shown = json!({"cluster": step.cluster, "from": step.from, "to": step.to});
        if let Some(result) = results.and_then(|results| results.get(index)) {
            shown["moved"] = json!(result.is_none());
            shown["error"] = json!(result);
        }
        shown
    };
    let moves: Vec<Value> = moves.iter().enumerate().map(step).collect();
    json!({"ok": true, "before": spread(before), "after": spread(after), "moves": moves, "without_leader": silent})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: usize, leader: u64, candidates: &[u64]) -> Cluster {
        Cluster { name: format!("c{name}"), leader, candidates: candidates.to_vec() }
    }

    fn carried_out(clusters: &[Cluster], moves: &[Move]) -> Vec<Cluster> {
        let mut done = clusters.to_vec();
        for step in moves {
            let cluster = done.iter_mut().find(|cluster| cluster.name == step.cluster).unwrap();
            assert_eq!(cluster.leader, step.from);
            cluster.leader = step.to;
        }
        done
    }

    #[test]
    fn a_plan_evens_out_and_ends() {
        let clusters: Vec<Cluster> = (0..100).map(|n| cluster(n, 1 + n as u64 % 2, &[1, 2, 3, 4])).collect();
        let moves = plan(&[1, 2, 3, 4], &clusters);
        let done = carried_out(&clusters, &moves);
        assert!(count(&[1, 2, 3, 4], &done).values().all(|leads| *leads == 25));
        assert_eq!(moves.len(), 50, "no leader moves that need not");
        assert_eq!(plan(&[1, 2, 3, 4], &done), []);
    }

    #[test]
    fn nobody_leads_who_may_not() {
        // Node 1 leads all; node 2 is a member nowhere, node 9 is not up: it leads, and is left.
        let mut clusters: Vec<Cluster> = (0..10).map(|n| cluster(n, 1, &[1, 3])).collect();
        clusters.push(cluster(10, 9, &[3]));
        clusters.push(cluster(11, 1, &[]));
        let done = carried_out(&clusters, &plan(&[1, 2, 3], &clusters));
        for (was, is) in clusters.iter().zip(&done) {
            assert!(is.leader == was.leader || was.candidates.contains(&is.leader), "{is:?}");
        }
        let leads = count(&[1, 2, 3], &done);
        assert_eq!((leads[&1], leads[&2]), (6, 0));
    }
}
