//! `hive ctl`: the world as an operator sees and changes it.

mod integrity;
mod namespace;
mod node;
mod rebalance;
mod recover;
mod s3;
mod show;
mod upgrade;

pub use s3::{read_secret, show_key};

use crate::arguments::{
    ClusterCommand, CtlCommand, EngineMove, KeyspaceCommand, LevelZeroCommand, LevelZeroMembersCommand, Levels,
    MembersCommand, UpgradeCommand, World,
};
use crate::failure::Failure;
use crate::output::{ask, client, failed, items};
use hive_client::{Client, ClientError};
use serde_json::{json, Value};
use std::time::Duration;

/// The most pages a listing reads.
const PAGES_MAX: usize = 10_000;
/// How often the progress of a reshard, or of a move to another engine, is asked for.
const RESHARD_PAUSE: Duration = Duration::from_millis(500);

/// Runs a command.
pub async fn run(command: CtlCommand) -> Result<(), Failure> {
    match command {
        CtlCommand::Status { world } => status(&world).await,
        CtlCommand::Alarms { world } => alarms(&world).await,
        CtlCommand::Topology { world } => once(&world, json!({"action": "ListNodes"}), show::topology).await,
        CtlCommand::Nodes { world } => once(&world, json!({"action": "ListNodes"}), show::nodes).await,
        CtlCommand::Node(command) => node::run(command).await,
        CtlCommand::Rebalance(command) => rebalance::run(command).await,
        CtlCommand::Decommission(flow) => node::decommission(flow).await,
        CtlCommand::Recommission { node, world } => node::recommission(node, &world).await,
        CtlCommand::Forget { node, world } => node::remove(node, &world).await,
        CtlCommand::Upgrade(UpgradeCommand::Status { world }) => {
            once(&world, json!({"action": "UpgradeStatus"}), upgrade::show).await
        }
        CtlCommand::Upgrade(UpgradeCommand::Finalize { world }) => {
            once(&world, json!({"action": "FinalizeUpgrade"}), upgrade::finalized).await
        }
        CtlCommand::Clusters { prefix, world } => clusters(&prefix, &world).await,
        CtlCommand::Cluster(command) => cluster(command).await,
        CtlCommand::World(command) => level_zero("allocator/reference@world".into(), command).await,
        CtlCommand::Region { region, command } => level_zero(format!("reference@region-{region}"), command).await,
        CtlCommand::Recover(command) => recover::run(command).await,
        CtlCommand::Verify { name, world } => integrity::verify(&name, &world).await,
        CtlCommand::Integrity { world } => integrity::show(&world).await,
        CtlCommand::Keyspace(command) => keyspace(command).await,
        CtlCommand::Namespace(command) => namespace::run(command).await,
        CtlCommand::S3(command) => s3::run(command).await,
        CtlCommand::Bucket(command) => s3::bucket(command).await,
        CtlCommand::Shards { bucket, world } => s3::shards(&bucket, &world).await,
    }
}

/// One action, one answer, shown.
async fn once(world: &World, body: Value, show: impl FnOnce(&Value)) -> Result<(), Failure> {
    let answer = ask(&client(world, &Levels::default())?, world, body).await?;
    if world.json {
        println!("{answer}");
    } else {
        show(&answer);
    }
    Ok(())
}

/// The status, with the nodes; exit code 0 where all is well, 1 where the node is degraded, 3 where it is not ready.
async fn status(world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let mut status = ask(&client, world, json!({"action": "Status"})).await?;
    if world.json {
        println!("{status}");
    } else {
        // The node map comes from a cluster that may be what is missing: the status stands without it.
        let nodes =
            client.action(json!({"action": "ListNodes", "read_consistency": "eventual"})).await.unwrap_or_default();
        status["nodes"] = nodes["nodes"].clone();
        show::status(&status);
    }
    let node = &status["node"];
    if status["ready"] != true {
        return Err(Failure::unavailable(format!("node {node} is not ready; the reasons stand above")));
    }
    if !items(&status, "degraded").is_empty() {
        return Err(Failure::refused(format!("node {node} is degraded; the reasons stand above")));
    }
    Ok(())
}

/// What is wrong; exit code 1 where one of them is bad.
async fn alarms(world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let mut asked = client.get_path(0, "/alarms").await;
    for endpoint in 1..client.endpoints().len() {
        if asked.is_ok() {
            break;
        }
        asked = client.get_path(endpoint, "/alarms").await;
    }
    let (status, body) = asked?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status != 200 {
        let reason = answer["error"]["message"].as_str().unwrap_or("the node does not serve /alarms: it is older");
        return Err(Failure::refused(reason));
    }
    let alarms = items(&answer, "alarms");
    if world.json {
        println!("{answer}");
    } else {
        show::alarms(alarms);
    }
    match alarms.iter().filter(|alarm| alarm["severity"] == "bad").count() {
        0 => Ok(()),
        bad => Err(Failure::refused(format!("{bad} of {} alarms are bad", alarms.len()))),
    }
}

async fn clusters(prefix: &str, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let mut all: Vec<Value> = Vec::new();
    let mut start_after = Value::Null;
    for _ in 0..PAGES_MAX {
        let body = json!({"action": "ListClusters", "prefix": prefix, "start_after": start_after});
        let mut page = ask(&client, world, body).await?;
        if let Some(Value::Array(clusters)) = page.get_mut("clusters").map(Value::take) {
            all.extend(clusters);
        }
        start_after = page["next"].take();
        if start_after.is_null() {
            break;
        }
    }
    if world.json {
        println!("{}", json!({"ok": true, "clusters": all}));
    } else {
        show::clusters(&all);
    }
    Ok(())
}

async fn cluster(command: ClusterCommand) -> Result<(), Failure> {
    let done = |text: String| move |_: &Value| println!("{text}");
    match command {
        ClusterCommand::Create { name, rule, world } => create_cluster(&name, &rule, &world).await,
        ClusterCommand::Delete { name, world } => {
            once(&world, json!({"action": "DeleteCluster", "name": name}), done(format!("{name} is deleted"))).await
        }
        ClusterCommand::Show { name, world } | ClusterCommand::Members(MembersCommand::List { name, world }) => {
            once(&world, json!({"action": "DescribeCluster", "name": name}), show::cluster).await
        }
        ClusterCommand::Move { name, from, to, world } => {
            let text = format!("{name} has left node {from}");
            let body = json!({"action": "MoveMember", "name": name, "from": from, "to": to});
            once(&world, body, done(text)).await
        }
        ClusterCommand::Transfer { name, node, world } => {
            let text = format!("node {node} leads {name}");
            once(&world, json!({"action": "TransferLeader", "name": name, "node": node}), done(text)).await
        }
        ClusterCommand::Skip { name, index, world } => {
            let text = format!(
                "{name} has skipped entry {index} on every member that waited at it; its writes are not applied"
            );
            once(&world, json!({"action": "SkipEntry", "name": name, "index": index}), done(text)).await
        }
        ClusterCommand::Members(MembersCommand::Add { name, node, world }) => {
            let text = format!("node {node} is a member of {name}");
            once(&world, json!({"action": "AddMember", "name": name, "node": node}), done(text)).await
        }
        ClusterCommand::Members(MembersCommand::Remove { name, node, world }) => {
            let text = format!("node {node} is no longer a member of {name}");
            once(&world, json!({"action": "RemoveMember", "name": name, "node": node}), done(text)).await
        }
        ClusterCommand::SetEngine(to) => set_engine(to, false).await,
        ClusterCommand::SetConsistency { name, levels, world } => set_consistency(&name, &levels, &world).await,
    }
}

/// The members of the world's or a region's cluster.
async fn level_zero(name: String, command: LevelZeroCommand) -> Result<(), Failure> {
    let LevelZeroCommand::Members(command) = command;
    let done = |text: String| move |_: &Value| println!("{text}");
    match command {
        LevelZeroMembersCommand::List { world } => {
            once(&world, json!({"action": "DescribeCluster", "name": name}), show::cluster).await
        }
        LevelZeroMembersCommand::Add { node, world } => {
            let text = format!("node {node} is a member of {name}");
            once(&world, json!({"action": "AddMember", "name": name, "node": node}), done(text)).await
        }
        LevelZeroMembersCommand::Remove { node, world } => {
            let text = format!("node {node} is no longer a member of {name}");
            once(&world, json!({"action": "RemoveMember", "name": name, "node": node}), done(text)).await
        }
        LevelZeroMembersCommand::Replace { from, to, world } => {
            let text = format!("node {to} is a member of {name}, in the place of node {from}");
            once(&world, json!({"action": "MoveMember", "name": name, "from": from, "to": to}), done(text)).await
        }
    }
}

/// Creates a cluster; for people it is then shown as its leader sees it, once it has one.
async fn create_cluster(name: &str, rule: &str, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let answer = ask(&client, world, json!({"action": "CreateCluster", "name": name, "rule": rule})).await?;
    if world.json {
        println!("{answer}");
        return Ok(());
    }
    match client.action(json!({"action": "DescribeCluster", "name": name})).await {
        Ok(described) => show::cluster(&described),
        // It is created, and only that was asked for.
        Err(_) => show::cluster(&answer),
    }
    Ok(())
}

async fn set_consistency(name: &str, levels: &Levels, world: &World) -> Result<(), Failure> {
    if levels.consistency.is_none() && levels.read_consistency.is_none() {
        return Err(Failure::usage("give --consistency, --read-consistency or both"));
    }
    let body = json!({
        "action": "SetDefaultConsistency", "name": name,
        "consistency": levels.consistency, "read_consistency": levels.read_consistency,
    });
    once(world, body, |_| println!("the defaults of {name} are changed")).await
}

async fn keyspace(command: KeyspaceCommand) -> Result<(), Failure> {
    match command {
        KeyspaceCommand::Create { name, rule, kind, partition, partitions, clusters, split_keys, engine, world } => {
            let body = json!({
                "action": "CreateKeyspace", "keyspace": name, "kind": kind, "partition": partition, "partitions": partitions,
                "clusters": clusters, "split_keys": split_keys, "rule": rule, "engine": engine,
            });
            once(&world, body, |answer| show::created_keyspace(&name, answer)).await
        }
        KeyspaceCommand::Show { name, world } => {
            once(&world, json!({"action": "DescribeKeyspace", "keyspace": name}), |answer| {
                show::keyspace(&answer["keyspace"])
            })
            .await
        }
        KeyspaceCommand::List { world } => once(&world, json!({"action": "ListKeyspaces"}), show::keyspaces).await,
        KeyspaceCommand::Delete { name, yes, world } => {
            confirm(yes, "keyspace", &name)?;
            once(&world, json!({"action": "DeleteKeyspace", "keyspace": name}), |_| {
                println!("keyspace {name} is deleted")
            })
            .await
        }
        KeyspaceCommand::SetEngine(to) => set_engine(to, true).await,
        KeyspaceCommand::Reshard { name, clusters, wait, world } => reshard(&name, clusters, wait, &world).await,
    }
}

/// What cannot be undone is asked for once more: by its name at a terminal, by --yes elsewhere.
fn confirm(yes: bool, kind: &str, name: &str) -> Result<(), Failure> {
    use std::io::{BufRead, IsTerminal};
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!("{kind} {name} and all that is in it would be deleted; say so with --yes")));
    }
    eprint!("{kind} {name} and all that is in it will be deleted; type its name to continue: ");
    let mut typed = String::new();
    let read = stdin.lock().read_line(&mut typed);
    match read.is_ok() && typed.trim() == name {
        true => Ok(()),
        false => Err(Failure::usage(format!("{kind} {name} is left as it is"))),
    }
}

/// Moves a cluster, or all of a keyspace's, to an engine.
async fn set_engine(to: EngineMove, of_keyspace: bool) -> Result<(), Failure> {
    let EngineMove { name, engine, no_wait, world } = to;
    let client = client(&world, &Levels::default())?;
    let kind = if of_keyspace { "keyspace" } else { "name" };
    let answer = ask(&client, &world, json!({"action": "SetEngine", kind: name, "engine": engine})).await?;
    if no_wait {
        match (world.json, of_keyspace) {
            (true, _) => println!("{answer}"),
            (false, false) => println!(
                "{name} is being moved to engine {engine}; `hive ctl cluster show {name}` shows how far it is"
            ),
            (false, true) => println!(
                "keyspace {name} is being moved to engine {engine}; `hive ctl cluster show` of its clusters shows how far it is"
            ),
        }
        return Ok(());
    }
    if !of_keyspace {
        return wait_for_engine(&client, &world, &[name], &engine).await;
    }
    let described = ask(&client, &world, json!({"action": "DescribeKeyspace", "keyspace": name})).await?;
    let owners: std::collections::BTreeSet<String> =
        items(&described["keyspace"], "owners").iter().filter_map(Value::as_str).map(String::from).collect();
    wait_for_engine(&client, &world, &Vec::from_iter(owners), &engine).await
}

/// Until every replica of these clusters was made in the engine. Ctrl-c leaves them moving, as `--no-wait` would.
async fn wait_for_engine(client: &Client, world: &World, clusters: &[String], engine: &str) -> Result<(), Failure> {
    let mut told = None;
    loop {
        let (mut left, mut all, mut silent) = (0, 0, None);
        for name in clusters {
            // A leader that hands over for the move is away for a moment; what is refused for good is the end.
            match client.action(json!({"action": "DescribeCluster", "name": name})).await {
                Ok(answer) => {
                    let members = items(&answer["cluster"], "members");
                    all += members.len();
                    left +=
                        members.iter().filter(|member| member["moves"] == true || member["learner"] == true).count();
                }
                Err(error @ ClientError::Refused { retryable: false, .. }) => return Err(failed(world.json, error)),
                Err(error) => silent = Some((name, error)),
            }
        }
        if left == 0 && silent.is_none() {
            let done = json!({"ok": true, "engine": engine, "replicas": all});
            println!(
                "{}",
                if world.json { done.to_string() } else { format!("{all} replicas are in engine {engine}") }
            );
            return Ok(());
        }
        if told.replace((left, all)) != Some((left, all)) {
            eprintln!("{left} of {all} replicas are still to move to engine {engine}");
            silent.iter().for_each(|(name, error)| eprintln!("! {name}: {error}"));
        }
        tokio::time::sleep(RESHARD_PAUSE).await;
    }
}

async fn reshard(name: &str, clusters: u16, wait: bool, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let answer = ask(&client, world, json!({"action": "Reshard", "keyspace": name, "clusters": clusters})).await?;
    if !wait {
        if world.json {
            println!("{answer}");
        } else {
            println!("keyspace {name} is being spread over {clusters} clusters; `hive ctl keyspace show {name}` shows how far it is");
        }
        return Ok(());
    }
    // Ends with the reshard; ctrl-c leaves it running, as it would without --wait.
    loop {
        let answer = ask(&client, world, json!({"action": "DescribeKeyspace", "keyspace": name})).await?;
        let info = &answer["keyspace"];
        if info["reshard"].is_null() {
            if world.json {
                println!("{answer}");
            } else {
                let owners: std::collections::BTreeSet<String> =
                    items(info, "owners").iter().map(Value::to_string).collect();
                println!(
                    "keyspace {name} is spread over {} clusters; {} keys were moved",
                    owners.len(),
                    info["moved_keys"]
                );
            }
            return Ok(());
        }
        eprintln!("{} of {} partitions moved", info["reshard"]["moves_done"], info["reshard"]["moves_total"]);
        tokio::time::sleep(RESHARD_PAUSE).await;
    }
}
