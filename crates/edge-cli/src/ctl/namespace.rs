//! `hive ctl namespace`: a namespace of the etcd door is a keyspace of the kind `versioned`.

use super::{confirm, once};
use crate::arguments::{Levels, NamespaceCommand, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, items, table};
use serde_json::{json, Value};

/// Makes, lists, shows and deletes.
pub async fn run(command: NamespaceCommand) -> Result<(), Failure> {
    match command {
        NamespaceCommand::Create { name, rule, engine, world } => {
            let body = json!({
                "action": "CreateKeyspace", "keyspace": name, "kind": "versioned", "rule": rule, "engine": engine,
            });
            once(&world, body, |_| {
                println!("namespace {name} is made; etcd clients pick it by their user, written user@{name}");
                println!(
                    "(etcdctl --user root@{name}:TOKEN), or by a listener of its own (etcd.namespaces in node.toml)"
                );
            })
            .await
        }
        NamespaceCommand::List { world } => list(&world).await,
        NamespaceCommand::Show { name, world } => {
            once(&world, json!({"action": "KvDescribe", "keyspace": name}), |answer| show(&name, answer)).await
        }
        NamespaceCommand::Delete { name, yes, world } => delete(&name, yes, &world).await,
    }
}

async fn list(world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let answer = ask(&client, world, json!({"action": "ListKeyspaces"})).await?;
    let versioned: Vec<&Value> =
        items(&answer, "keyspaces").iter().filter(|keyspace| keyspace["kind"] == "versioned").collect();
    if world.json {
        println!("{}", json!({ "ok": true, "namespaces": versioned }));
        return Ok(());
    }
    let mut out = table(["NAMESPACE", "CLUSTER", "RULE", "ENGINE"]);
    for keyspace in versioned {
        let cluster = items(keyspace, "owners").first().map(cell).unwrap_or_default();
        out.add_row([cell(&keyspace["name"]), cluster, cell(&keyspace["rule"]), cell(&keyspace["engine"])]);
    }
    println!("{out}");
    Ok(())
}

fn show(name: &str, answer: &Value) {
    let mut out = table(["NAMESPACE", "STAMP", "COMPACTED", "HISTORY FROM", "KEYS", "LEASES", "PINS"]);
    let fields = ["stamp", "compacted", "horizon", "keys", "leases", "pins"].map(|field| cell(&answer[field]));
    out.add_row(std::iter::once(name.to_owned()).chain(fields));
    println!("{out}");
}

/// Only what is a namespace is deleted here: a keyspace of another kind is something else.
async fn delete(name: &str, yes: bool, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let described = ask(&client, world, json!({"action": "DescribeKeyspace", "keyspace": name})).await?;
    let kind = cell(&described["keyspace"]["kind"]);
    if kind != "versioned" {
        let message =
            format!("{name} is a {kind} keyspace and no namespace; `hive ctl keyspace delete {name}` deletes it");
        return Err(Failure::refused(message));
    }
    confirm(yes, "namespace", name)?;
    once(world, json!({"action": "DeleteKeyspace", "keyspace": name}), |_| println!("namespace {name} is deleted"))
        .await
}
