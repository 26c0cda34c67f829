//! A child process that writes strongly, killed with SIGKILL in the middle of it, again and again: what
//! it had been told is there, and of each batch all or nothing.

use crate::{Batch, Durability, Options, Range, Store};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// More by HIVE_KILLS=n.
const KILLS: u64 = 6;
const CHILD_DIRECTORY: &str = "HIVE_EMBEDDED_CHILD";
/// Keys of each batch, over all cores.
const PARTS: u64 = 5;

fn options() -> Options {
    let engine_every = Duration::from_millis(5);
    Options { cores: Some(3), pin: false, engine_every, durability: Durability::Strong, ..Options::default() }
}

/// Not a test of its own: what the child runs.
#[test]
#[ignore = "run by `killed_writers_lose_nothing`"]
fn child() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let store = Store::open(Path::new(&directory), options()).unwrap();
    let first = next_round(&store);
    std::thread::scope(|scope| {
        let store = &store;
        // Weak writes beside the strong ones, so that logs hold both.
        scope.spawn(move || {
            for number in 0u64.. {
                store.put_with(format!("weak {}", number % 500).as_bytes(), &[1; 400], Durability::Weak).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for round in first.. {
            let mut batch = Batch::new();
            for part in 0..PARTS {
                batch.put(format!("round {round:08} {part}"), round.to_be_bytes());
            }
            store.write(&batch).unwrap();
            store.put(b"last", &u64::to_be_bytes(round)).unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "acknowledged {round}").unwrap();
            out.flush().unwrap();
        }
    });
}

fn next_round(store: &Store) -> u64 {
    let last = store.scan(Range::prefix("round ").reversed()).unwrap().next();
    last.map_or(0, |pair| u64::from_be_bytes(pair.unwrap().1[..].try_into().unwrap()) + 1)
}

/// Runs a child until it has acknowledged so many rounds more; the last it told of.
fn run_and_kill(directory: &Path, rounds: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["tests::kill::child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    for line in lines.by_ref().map_while(Result::ok).filter(|line| line.contains("acknowledged ")) {
        last = line.rsplit(' ').next().and_then(|number| number.parse().ok());
        if last.is_some_and(|last: u64| last % rounds == rounds - 1) {
            break;
        }
    }
    child.kill().unwrap();
    // What it told before the kill arrived counts too.
    for line in lines.map_while(Result::ok).filter(|line| line.contains("acknowledged ")) {
        last = line.rsplit(' ').next().and_then(|number| number.parse().ok()).or(last);
    }
    child.wait().unwrap();
    last.expect("the child acknowledged something")
}

#[test]
fn killed_writers_lose_nothing() {
    let kills = std::env::var("HIVE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let home = tempfile::tempdir().unwrap();
    for kill in 0..kills {
        let acknowledged = run_and_kill(home.path(), 7 + kill % 5);
        let store = Store::open(home.path(), options()).unwrap();
        let all: Vec<_> = store.scan(Range::prefix("round ")).unwrap().map(|pair| pair.unwrap()).collect();
        assert!(all.len().is_multiple_of(PARTS as usize), "a part of a batch");
        let rounds = all.len() as u64 / PARTS;
        assert!(rounds > acknowledged, "round {acknowledged} was acknowledged, {rounds} are there");
        for (at, (key, value)) in all.iter().enumerate() {
            let (round, part) = (at as u64 / PARTS, at as u64 % PARTS);
            assert_eq!(
                (&key[..], &value[..]),
                (format!("round {round:08} {part}").as_bytes(), &round.to_be_bytes()[..])
            );
        }
        let last = u64::from_be_bytes(store.get(b"last").unwrap().unwrap()[..].try_into().unwrap());
        assert!(last >= acknowledged, "{last} {acknowledged}");
        store.close().unwrap();
    }
}
