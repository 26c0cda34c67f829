//! `hive ctl node`: drained for a restart, emptied for good, taken back, removed from the list.
//!
//! Draining is asked of the node itself, at the address that the node map gives: it is a matter of its process.
//! Not here: `hive ctl nodes` as a table (show.rs), what the nodes do (core-node).

use super::{once, show};
use crate::arguments::{Levels, NodeCommand, NodeFlow, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, client_of, items};
use hive_client::Client;
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// How often a decommissioning's progress is asked for.
const DECOMMISSION_PAUSE: Duration = Duration::from_secs(2);
/// How often a drain's progress is asked for.
const DRAIN_PAUSE: Duration = Duration::from_millis(200);
/// The status counts leaders with each heartbeat.
const STATUS_AGE_MAX: Duration = Duration::from_millis(1_500);
/// A drain without progress for so long will make none: the other members are drained or stopped, too.
const DRAIN_STILL_MAX: Duration = Duration::from_secs(30);

/// Runs a command.
pub async fn run(command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List { world } => once(&world, json!({"action": "ListNodes"}), show::nodes).await,
        NodeCommand::Drain(flow) => drain(flow).await,
        NodeCommand::Undrain { node, world } => undrain(node, &world).await,
        NodeCommand::Decommission(flow) => decommission(flow).await,
        NodeCommand::Recommission { node, world } => recommission(node, &world).await,
        NodeCommand::Remove { node, world } => remove(node, &world).await,
    }
}

pub async fn recommission(node: u64, world: &World) -> Result<(), Failure> {
    let done = |_: &Value| println!("node {node} is in service again");
    once(world, json!({"action": "RecommissionNode", "node": node}), done).await
}

pub async fn remove(node: u64, world: &World) -> Result<(), Failure> {
    let done = |_: &Value| println!("node {node} is removed from the list of nodes");
    once(world, json!({"action": "ForgetNode", "node": node}), done).await
}

/// A client of this one node, wherever the world's other endpoints are.
async fn client_of_node(node: u64, world: &World) -> Result<Client, Failure> {
    let any = client(world, &Levels::default())?;
    let answer = ask(&any, world, json!({"action": "ListNodes"})).await?;
    let listed = items(&answer, "nodes").iter().find(|listed| listed["id"] == node);
    let Some(address) = listed.and_then(|listed| listed["http"].as_str()) else {
        let message = format!("node {node} is not known; `hive ctl nodes` lists those that are");
        return Err(Failure::refused(message));
    };
    // The map names host and port; whether the door speaks TLS is as it is at the endpoints given.
    let scheme = any.endpoints()[0].scheme();
    let endpoint = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    Ok(client_of(world, &[endpoint])?.with_options(any.options().clone()))
}

/// Ends when nothing is left that another member could lead; ctrl-c leaves the node drained.
async fn drain(flow: NodeFlow) -> Result<(), Failure> {
    let NodeFlow { node, no_wait, world } = flow;
    let of_node = client_of_node(node, &world).await?;
    let (mut told, mut changed) = (None, Instant::now());
    loop {
        let answer = ask(&of_node, &world, json!({"action": "DrainNode", "node": node, "drained": true})).await?;
        let due = answer["hand_overs_due"].as_u64();
        if no_wait || due == Some(0) {
            return drained(node, &of_node, &world, &answer).await;
        }
        if told != due {
            (told, changed) = (due, Instant::now());
            due.inspect(|due| eprintln!("node {node} leads {due} clusters that others can take over"));
        }
        if changed.elapsed() > DRAIN_STILL_MAX {
            let due = told.unwrap_or_default();
            let message = format!("node {node} is drained, but leads {due} clusters on, since no member takes over: see `hive ctl nodes` for nodes that are down, or undrain another one");
            return Err(Failure::refused(message));
        }
        tokio::time::sleep(DRAIN_PAUSE).await;
    }
}

/// Says how a drain stands.
async fn drained(node: u64, of_node: &Client, world: &World, answer: &Value) -> Result<(), Failure> {
    if world.json {
        println!("{answer}");
        return Ok(());
    }
    let Some(0) = answer["hand_overs_due"].as_u64() else {
        println!("node {node} hands over what it leads; run it again to see how far it is");
        return Ok(());
    };
    tokio::time::sleep(STATUS_AGE_MAX).await;
    let status = ask(of_node, world, json!({"action": "Status"})).await?;
    match status["leaders"].as_u64().unwrap_or_default() {
        0 => println!("node {node} leads nothing any more and can be restarted"),
        alone => println!(
            "node {node} can be restarted; it still leads {alone} clusters that no other member can lead now, and they have no leader meanwhile"
        ),
    }
    Ok(())
}

async fn undrain(node: u64, world: &World) -> Result<(), Failure> {
    let answer =
        ask(&client_of_node(node, world).await?, world, json!({"action": "DrainNode", "node": node, "drained": false}))
            .await?;
    match world.json {
        true => println!("{answer}"),
        false => println!("node {node} may lead again; leaders come back as elections fall and members ask"),
    }
    Ok(())
}

/// Ends when the node holds nothing more; ctrl-c leaves the world at work on it, as --no-wait does.
pub async fn decommission(flow: NodeFlow) -> Result<(), Failure> {
    let NodeFlow { node, no_wait, world } = flow;
    let client = client(&world, &Levels::default())?;
    let mut told = None;
    loop {
        let answer = ask(&client, &world, json!({"action": "DecommissionNode", "node": node})).await?;
        let left = answer["replicas"].as_u64().unwrap_or_default();
        if no_wait || left == 0 {
            match (world.json, left) {
                (true, _) => println!("{answer}"),
                (false, 0) => println!("node {node} holds no replicas any more and can be stopped"),
                (false, left) => println!(
                    "node {node} is being decommissioned: {left} replicas are left; run it again to see how far it is"
                ),
            }
            return Ok(());
        }
        let obstacles = items(&answer, "obstacles");
        if told.replace((left, obstacles.len())) != Some((left, obstacles.len())) {
            eprintln!("{left} replicas are left on node {node}");
            obstacles.iter().for_each(|obstacle| eprintln!("! {}", cell(obstacle)));
        }
        tokio::time::sleep(DECOMMISSION_PAUSE).await;
    }
}
