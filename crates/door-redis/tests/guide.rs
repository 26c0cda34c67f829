//! The page of all commands of Redis 7, held to what the door does.
//!
//! Not here: what each command does (tests of core-backends, `make doors`).

use base_types::redis::{Group, COMMANDS};
use door_redis::testing::Memory;
use door_redis::{serve, Door, Metrics, Settles};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;

const PAGE: &str = include_str!("../../../docs/guides/redis-commands.md");
/// Words behind a command: from none to so many.
const WORDS_MAX: usize = 8;

struct Uncounted;

impl Settles for Uncounted {
    fn settled(&self) {}
}

/// The command's words to what the page says of it.
fn rows() -> BTreeMap<String, String> {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = PAGE.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.filter(|cells| ["yes", "differs", "no"].contains(&cells[2].as_str()))
        .map(|cells| (cells[1].clone(), cells[2].clone()))
        .collect()
}

/// First lines of the replies to a command with no more words, with one, and so on: each on a connection of its own.
async fn replies_to(door: &Rc<Door>, command: &str) -> Vec<String> {
    let mut replies = Vec::new();
    for words in 0..=WORDS_MAX {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (_stop, stopped) = watch::channel(false);
        tokio::task::spawn_local(serve(door.clone(), theirs, "127.0.0.1:5".into(), None, &Uncounted, stopped));
        let mut ours = BufReader::new(ours);
        ours.write_all(format!("{command}{}\r\n", " 1".repeat(words)).as_bytes()).await.unwrap();
        let mut line = String::new();
        // What says nothing (CLIENT REPLY OFF) or waits counts as carried out.
        let _silent = tokio::time::timeout(Duration::from_secs(30), ours.read_line(&mut line)).await;
        replies.push(line.trim().to_owned());
    }
    replies
}

#[tokio::test(start_paused = true)]
async fn the_guide_says_what_runs() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let door = Door::start(Arc::new(Memory::default()), Arc::new(Metrics::default()));
            // A wrong number of words is found before anything else.
            let is_unknown = |reply: &String| {
                reply.starts_with("-ERR unknown")
                    || reply.starts_with("-ERR wrong number of arguments")
                    || reply.contains("not offered")
            };
            let mut wrong = Vec::new();
            for (command, what) in rows() {
                let replies = replies_to(&door, &command).await;
                let as_said = match what.as_str() {
                    "no" => replies.iter().all(|reply| reply.starts_with('-')),
                    _ => !replies.iter().all(is_unknown),
                };
                if !as_said {
                    wrong.push(format!("{command} is said to run: {what}: {replies:?}"));
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        })
        .await;
}

#[test]
fn the_guide_names_every_command() {
    let rows = rows();
    for spec in COMMANDS.iter().filter(|spec| spec.group != Group::Hive && spec.name != "delex") {
        let name = spec.name.to_ascii_uppercase();
        let named = rows.keys().any(|row| *row == name || row.starts_with(&format!("{name} ")));
        assert!(named, "docs/guides/redis-commands.md says nothing of {name}");
    }
    let said = |what: &str| rows.values().filter(|said| *said == what).count();
    let sum = format!("{} as in Redis, {} in another way, {} not at", said("yes"), said("differs"), said("no"));
    assert!(PAGE.contains(&sum), "the page's first lines should say: {sum}");
}
