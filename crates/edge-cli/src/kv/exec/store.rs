//! The same commands on the directory of an embedded store, which this process opens for itself.
//!
//! Always: the store is closed before the command ends, so that weak writes are on the disk then.
//! Held by: `a_file_of_commands_runs_on_a_store`.
//! Not here: parsing (`exec.rs`).

use super::{ended, got, say, scanned, Line, Told};
use crate::arguments::ExecArguments;
use crate::failure::Failure;
use hive_client::embedded::{Durability, OpenError, Options, Range, Store, StoreError};
use hive_client::put_bytes;
use serde_json::{json, Map, Value};
use std::path::Path;

/// Runs the commands.
pub fn run(directory: &Path, arguments: &ExecArguments, lines: Vec<(usize, Line)>) -> Result<(), Failure> {
    let durability = if arguments.weak { Durability::Weak } else { Durability::Strong };
    let options = Options { durability, ..Options::default() };
    let store = Store::open(directory, options).map_err(not_opened)?;
    store.notes().iter().for_each(|note| eprintln!("hive: {note}"));
    let mut worst = 0;
    for (number, line) in lines {
        say(number, on_store(&store, &line).map_err(refused), arguments.common.world.json, &mut worst);
    }
    store.close().map_err(refused)?;
    ended(worst)
}

fn on_store(store: &Store, line: &Line) -> Result<Told, StoreError> {
    let done = || Told { json: json!({"ok": true}), text: "ok".into() };
    match line {
        Line::Put(key, value) => store.put(key, value).map(|()| done()),
        Line::Del(key) => {
            let existed = store.get(key)?.is_some();
            store.delete(key)?;
            let text = if existed { "deleted" } else { "was not there" };
            Ok(Told { json: json!({"ok": true, "existed": existed}), text: text.into() })
        }
        Line::Get(key) => {
            let value = store.get(key)?;
            let mut json = Map::new();
            json.insert("ok".into(), true.into());
            match &value {
                Some(value) => put_bytes(&mut json, "value", value),
                None => drop(json.insert("value".into(), Value::Null)),
            }
            Ok(Told { json: json.into(), text: got(value.as_deref()) })
        }
        Line::Scan(prefix, limit) => {
            let scan = store.scan(Range::prefix(prefix.clone()))?.take(*limit as usize);
            Ok(scanned(scan.collect::<Result<Vec<_>, _>>()?.into_iter()))
        }
    }
}

fn not_opened(error: OpenError) -> Failure {
    let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
    let message = format!("{error}{source}");
    match error {
        OpenError::InUse { .. } => Failure::unavailable(message),
        OpenError::Corrupt { .. } | OpenError::Engine { .. } | OpenError::Io { .. } => Failure::refused(message),
        _ => Failure::usage(message),
    }
}

fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::Unknown { .. } => Failure { code: 4, message: error.to_string() },
        StoreError::Overloaded { .. } | StoreError::Closed => Failure::unavailable(error.to_string()),
        _ => Failure::refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command, KvCommand};
    use clap::Parser;

    fn exec(words: &[&str]) -> Result<(), Failure> {
        let line = ["hive", "kv", "exec"].iter().chain(words);
        let Command::Kv(KvCommand::Exec(arguments)) = Arguments::parse_from(line).command.unwrap() else { panic!() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(super::super::run(&arguments))
    }

    #[test]
    fn a_file_of_commands_runs_on_a_store() {
        let home = tempfile::tempdir().unwrap();
        let (file, store) = (home.path().join("commands"), home.path().join("store"));
        let (file_name, store_name) = (file.to_str().unwrap(), store.to_str().unwrap());
        std::fs::write(&file, "put a 1\nput b 2\nput c \\x00\ndelete b\nget a\nget none\nscan\n").unwrap();
        exec(&[file_name, "--store", store_name]).unwrap();
        exec(&[file_name, "--store", store_name, "--weak", "--json"]).unwrap();
        let opened = Store::open(&store, Options::default()).unwrap();
        let pairs: Vec<_> = opened.scan(Range::all()).unwrap().map(|pair| pair.unwrap()).collect();
        assert_eq!(pairs.len(), 2);
        assert_eq!((&pairs[1].0[..], &pairs[1].1[..]), (&b"c"[..], &b"\0"[..]));
        // Open elsewhere: unavailable. A wrong line: nothing is run. A foreign directory: usage.
        assert_eq!(exec(&[file_name, "--store", store_name]).unwrap_err().code, 3);
        drop(opened);
        std::fs::write(&file, "del a\nputt x y\n").unwrap();
        assert_eq!(exec(&[file_name, "--store", store_name]).unwrap_err().code, 2);
        assert!(Store::open(&store, Options::default()).unwrap().get(b"a").unwrap().is_some());
        std::fs::write(&file, "get a\n").unwrap();
        let refused = exec(&[file_name, "--store", home.path().to_str().unwrap()]).unwrap_err();
        assert!(refused.code == 2 && refused.message.contains("hive-store.json"), "{}", refused.message);
    }
}
