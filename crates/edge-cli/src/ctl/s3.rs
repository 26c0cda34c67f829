//! `hive ctl s3` and `hive ctl bucket`: accounts, access keys, buckets.
//!
//! Not here: objects (any S3 client does that better).

use super::once;
use crate::arguments::{AccountCommand, BucketCommand, KeyCommand, Levels, S3Command, World};
use crate::calendar::day;
use crate::failure::Failure;
use crate::output::{ask, cell, client, failed, items, table};
use base_types::s3::S3ErrorCode;
use hive_client::ErrorCode;
use serde_json::{json, Value};
use std::io::Read;
use std::path::Path;

/// A longer secret is none.
const SECRET_BYTES_MAX: u64 = 4 << 10;
/// The most pages of buckets that are read.
const PAGES_MAX: usize = 10_000;
/// Buckets of a page.
const PAGE: u32 = 1_000;

/// Accounts and keys.
pub async fn run(command: S3Command) -> Result<(), Failure> {
    match command {
        S3Command::Account(AccountCommand::Create { account, display_name, world }) => {
            let name = display_name.unwrap_or_else(|| account.clone());
            let body = json!({"action": "CreateAccount", "account": account, "display_name": name});
            once(&world, body, |_| {
                println!("account {account} is made; `hive ctl s3 key create {account}` gives it a key")
            })
            .await
        }
        S3Command::Account(AccountCommand::List { world }) => accounts(&world).await,
        S3Command::Account(AccountCommand::Delete { account, world }) => {
            let body = json!({"action": "DeleteAccount", "account": account});
            once(&world, body, |_| println!("account {account} is removed")).await
        }
        S3Command::Key(KeyCommand::Create { secret_key: Some(_), .. }) => {
            Err(Failure::usage("every user of the machine can read a process's arguments: write the secret into a file of mode 0600 and name it with --secret-key-file (- for standard input)"))
        }
        S3Command::Key(KeyCommand::Create { account, access_key, secret_key_file, world, .. }) => {
            let secret_key = secret_key_file.as_deref().map(read_secret).transpose()?;
            let body = json!({
                "action": "CreateAccessKey", "account": account, "access_key": access_key, "secret_key": secret_key,
            });
            once(&world, body, show_key).await
        }
        S3Command::Key(KeyCommand::List { account, world }) => {
            let body = json!({"action": "ListAccessKeys", "account": account});
            once(&world, body, |answer| {
                items(answer, "access_keys").iter().for_each(|key| println!("{}", cell(key)));
            })
            .await
        }
        S3Command::Key(KeyCommand::Seal { account, world }) => seal(account, &world).await,
        S3Command::Key(KeyCommand::Delete { access_key, world }) => {
            let body = json!({"action": "DeleteAccessKey", "access_key": access_key});
            once(&world, body, |_| println!("access key {access_key} is removed")).await
        }
    }
}

/// A secret out of a file, or standard input; one line end at its end is none of it.
pub fn read_secret(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(SECRET_BYTES_MAX).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(SECRET_BYTES_MAX).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{}: not UTF-8", file.display())))?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() || secret.contains('\n') {
        return Err(Failure::usage(format!("{}: one line with the secret is wanted", file.display())));
    }
    Ok(secret.to_owned())
}

/// In the words that S3 clients read from the environment.
pub fn show_key(answer: &Value) {
    println!("AWS_ACCESS_KEY_ID={}", cell(&answer["access_key"]));
    println!("AWS_SECRET_ACCESS_KEY={}", cell(&answer["secret_key"]));
}

/// Seals what is not sealed by the world's first sealing key. A key that somebody deletes meanwhile is none.
async fn seal(account: Option<String>, world: &World) -> Result<(), Failure> {
    let client = client(world, &Levels::default())?;
    let accounts = match account {
        Some(account) => vec![account],
        None => {
            let all = pages(world, json!({"action": "ListAccounts", "max_accounts": PAGE}), "accounts").await?;
            all.iter().map(|account| cell(&account["id"])).collect()
        }
    };
    let mut count = 0u64;
    for account in &accounts {
        let listed = ask(&client, world, json!({"action": "ListAccessKeys", "account": account})).await?;
        for key in items(&listed, "access_keys") {
            match client.action(json!({"action": "SealAccessKey", "access_key": key})).await {
                Ok(_) => count += 1,
                Err(error) if error.code() == Some(ErrorCode::S3(S3ErrorCode::NoSuchAccessKey)) => {}
                Err(error) => return Err(failed(world.json, error)),
            }
        }
    }
    if world.json {
        println!("{}", json!({"ok": true, "sealed": count}));
    } else {
        println!("{count} access keys of {} accounts are sealed by the first sealing key", accounts.len());
    }
    Ok(())
}

/// Buckets.
pub async fn bucket(command: BucketCommand) -> Result<(), Failure> {
    match command {
        BucketCommand::List { account, world } => list(&account, &world).await,
        BucketCommand::Describe { bucket, world } => describe(&bucket, &world).await,
        BucketCommand::Count { bucket, prefix, world } => {
            let body = json!({"action": "CountObjects", "bucket": bucket, "prefix": prefix});
            once(&world, body, |answer| {
                let mut out = table(["KEYS", "VERSIONS", "BYTES"]);
                out.add_row(["keys", "versions", "bytes"].map(|name| cell(&answer[name])));
                println!("{out}");
            })
            .await
        }
        BucketCommand::Quota { bucket, bytes, keys, none, world } => {
            quota(&bucket, json!({"bytes_max": bytes, "keys_max": keys}), none, &world).await
        }
    }
}

async fn list(account: &str, world: &World) -> Result<(), Failure> {
    let body = json!({"action": "ListBuckets", "account": account, "max_buckets": PAGE});
    let all = pages(world, body, "buckets").await?;
    if world.json {
        println!("{}", json!({"ok": true, "buckets": all}));
        return Ok(());
    }
    let mut out = table(["NAME", "REGION", "MADE"]);
    for bucket in &all {
        out.add_row([cell(&bucket["name"]), cell(&bucket["bucket_region"]), day(&bucket["creation_date_ms"])]);
    }
    println!("{out}");
    Ok(())
}

async fn accounts(world: &World) -> Result<(), Failure> {
    let all = pages(world, json!({"action": "ListAccounts", "max_accounts": PAGE}), "accounts").await?;
    if world.json {
        println!("{}", json!({"ok": true, "accounts": all}));
        return Ok(());
    }
    let mut out = table(["ACCOUNT", "NAME"]);
    for account in &all {
        out.add_row([cell(&account["id"]), cell(&account["display_name"])]);
    }
    println!("{out}");
    Ok(())
}

/// The shards of a bucket.
pub async fn shards(bucket: &str, world: &World) -> Result<(), Failure> {
    let all = pages(world, json!({"action": "DescribeShards", "bucket": bucket}), "shards").await?;
    if world.json {
        println!("{}", json!({"ok": true, "shards": all}));
        return Ok(());
    }
    let mut out = table(["CLUSTER", "EPOCH", "FROM", "BEFORE", "STATE", "KEYS", "VERSIONS", "BYTES", "SNAPSHOTS"]);
    for shard in &all {
        let names = ["cluster", "epoch", "start", "end", "state", "keys", "versions", "bytes", "snapshots"];
        out.add_row(names.map(|name| cell(&shard[name])));
    }
    println!("{out}");
    Ok(())
}

/// All items of a list that comes in pages.
async fn pages(world: &World, mut body: Value, items: &str) -> Result<Vec<Value>, Failure> {
    let client = client(world, &Levels::default())?;
    let mut all: Vec<Value> = Vec::new();
    for _ in 0..PAGES_MAX {
        let mut page = ask(&client, world, body.clone()).await?;
        if let Some(Value::Array(found)) = page.get_mut(items).map(Value::take) {
            all.extend(found);
        }
        let token = page["continuation_token"].take();
        if token.is_null() {
            break;
        }
        body["continuation_token"] = token;
    }
    Ok(all)
}

async fn describe(bucket: &str, world: &World) -> Result<(), Failure> {
    once(world, json!({"action": "HeadBucket", "bucket": bucket}), |answer| {
        println!(
            "bucket {} of account {}, made {} in {}",
            cell(&answer["bucket"]),
            cell(&answer["owner"]["id"]),
            day(&answer["creation_date_ms"]),
            cell(&answer["bucket_region"])
        );
        let mut out = table(["SETTING", "VALUE"]);
        let settings = [
            "versioning",
            "object_ownership",
            "public_access_block",
            "policy",
            "cors_rules",
            "object_lock",
            "encryption",
            "quota",
        ];
        for name in settings.iter().filter(|name| !answer[**name].is_null()) {
            out.add_row([(*name).to_owned(), cell(&answer[*name])]);
        }
        println!("{out}");
    })
    .await
}

async fn quota(bucket: &str, wanted: Value, none: bool, world: &World) -> Result<(), Failure> {
    if none {
        let body = json!({"action": "DeleteBucketQuota", "bucket": bucket});
        return once(world, body, |_| println!("bucket {bucket} has no quota any more")).await;
    }
    if wanted.as_object().is_some_and(|fields| fields.values().all(Value::is_null)) {
        let show = |answer: &Value| {
            let quota = &answer["quota"];
            println!(
                "at most {} keys and {} bytes (- is no limit)",
                cell(&quota["keys_max"]),
                cell(&quota["bytes_max"])
            );
        };
        return once(world, json!({"action": "GetBucketQuota", "bucket": bucket}), show).await;
    }
    let body = json!({"action": "PutBucketQuota", "bucket": bucket, "quota": wanted});
    once(world, body, |_| println!("the quota of bucket {bucket} is set")).await
}
