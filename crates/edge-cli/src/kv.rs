//! `hive kv`: single keys, scans, and files of commands.

mod exec;

use crate::arguments::{KvCommand, KvCommon};
use crate::failure::Failure;
use crate::output::{client, failed, output_failed};
use crate::text::escape;
use bytes::Bytes;
use hive_client::{put_bytes, Client, Scan};
use serde_json::{json, Map, Value};
use std::io::{Read, Write};

/// Entries asked for at a time by a scan.
const PAGE_LIMIT: u64 = 1_000;

/// Runs a command.
pub async fn run(command: KvCommand) -> Result<(), Failure> {
    match command {
        KvCommand::Put { key, value, request_id, common } => {
            let value = value_bytes(value)?;
            let client = client(&common.world, &common.levels)?;
            let answer =
                act(&client, &common, "KvPut", fields(&common, key.as_bytes(), Some(&value), request_id)).await?;
            say(&common, &answer, "ok");
            Ok(())
        }
        KvCommand::Get { key, after, common } => get(&key, after, &common).await,
        KvCommand::Del { key, request_id, common } => {
            let client = client(&common.world, &common.levels)?;
            let answer = act(&client, &common, "KvDelete", fields(&common, key.as_bytes(), None, request_id)).await?;
            say(&common, &answer, if answer["existed"] == true { "deleted" } else { "was not there" });
            Ok(())
        }
        KvCommand::Scan { prefix, start_after, end, limit, reverse, keys_only, common } => {
            let text = |text: Option<String>| text.map(Bytes::from);
            let what = Scan {
                prefix: prefix.into(),
                start_after: text(start_after),
                end: text(end),
                limit: None,
                reverse,
                keys_only,
            };
            scan(what, limit, &common).await
        }
        KvCommand::Exec(arguments) => exec::run(&arguments).await,
    }
}

/// `-` is standard input, to its end.
fn value_bytes(value: String) -> Result<Vec<u8>, Failure> {
    if value != "-" {
        return Ok(value.into_bytes());
    }
    let mut bytes = Vec::new();
    let most = base_types::VALUE_BYTES_MAX as u64 + 1;
    std::io::stdin()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("standard input: {error}")))?;
    Ok(bytes)
}

/// The fields of a request about one key.
fn fields(common: &KvCommon, key: &[u8], value: Option<&[u8]>, request_id: Option<String>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("keyspace".into(), common.keyspace.clone().into());
    put_bytes(&mut body, "key", key);
    if let Some(value) = value {
        put_bytes(&mut body, "value", value);
    }
    if let Some(id) = request_id {
        body.insert("request_id".into(), id.into());
    }
    body
}

async fn act(client: &Client, common: &KvCommon, action: &str, mut body: Map<String, Value>) -> Result<Value, Failure> {
    body.insert("action".into(), action.into());
    client.action(body.into()).await.map_err(|error| failed(common.world.json, error))
}

fn say(common: &KvCommon, answer: &Value, text: &str) {
    if common.world.json {
        println!("{answer}");
    } else {
        println!("{text}");
    }
}

async fn get(key: &str, after: Option<String>, common: &KvCommon) -> Result<(), Failure> {
    let client = client(&common.world, &common.levels)?;
    let mut body = fields(common, key.as_bytes(), None, None);
    if let Some(after) = after {
        body.insert("after".into(), after.into());
    }
    let answer = act(&client, common, "KvGet", body).await?;
    let value = hive_client::bytes_field(&answer, "value");
    if common.world.json {
        println!("{answer}");
    } else if let Some(value) = &value {
        // The value's own bytes: what a pipe gets is what was put, with a line end for people.
        let mut out = std::io::stdout().lock();
        let written = out.write_all(value).and_then(|()| out.write_all(b"\n"));
        written.map_err(output_failed)?;
    }
    match value {
        Some(_) => Ok(()),
        None => Err(Failure::refused(format!("keyspace {} has no key '{}'", common.keyspace, escape(key.as_bytes())))),
    }
}

async fn scan(mut what: Scan, limit: Option<u64>, common: &KvCommon) -> Result<(), Failure> {
    let client = client(&common.world, &common.levels)?;
    let mut left = limit.unwrap_or(u64::MAX);
    let mut all: Vec<Value> = Vec::new();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while left > 0 {
        what.limit = Some(left.min(PAGE_LIMIT) as u32);
        let page = client.scan(&common.keyspace, &what).await.map_err(|error| failed(common.world.json, error))?;
        for entry in page.entries.iter().take(left.min(usize::MAX as u64) as usize) {
            if common.world.json {
                let mut item = Map::new();
                put_bytes(&mut item, "key", &entry.key);
                if !what.keys_only {
                    put_bytes(&mut item, "value", &entry.value);
                }
                all.push(item.into());
            } else {
                let value = if what.keys_only { String::new() } else { format!("\t{}", escape(&entry.value)) };
                writeln!(out, "{}{value}", escape(&entry.key)).map_err(output_failed)?;
            }
        }
        left = left.saturating_sub(page.entries.len() as u64);
        match page.next {
            Some(next) => what.start_after = Some(next),
            None => break,
        }
    }
    if common.world.json {
        let _ = writeln!(out, "{}", json!({"ok": true, "entries": all}));
    }
    out.flush().map_err(output_failed)
}
