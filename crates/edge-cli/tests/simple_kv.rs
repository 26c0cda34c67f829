//! The second paper's Figure 1 in the real: four processes started with the paper's own flags, its three routes, a reshard
//! and `/clean`, and a start from what is there.
//!
//! Always: loopback only; processes are ended by their ids, also where the test fails.
//! Held by: `figure_one_serves_by_the_papers_flags`.
//! Not here: the flags one by one (`simple_kv.rs`).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A debug build on a busy machine.
const READY_WAIT_MAX: Duration = Duration::from_secs(150);
/// The longest answer of a route that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Ends its process.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(home: &Path, name: &str, address: &str, shard: &str, replica: bool) -> Node {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hive"));
    command.arg("-db-location").arg(home.join(name)).args(["-http-address", address, "-shard", shard]);
    command.arg("-config-file").arg(home.join("config.yaml"));
    command.args(replica.then_some("-replica"));
    let log = std::fs::File::options().create(true).append(true).open(home.join(format!("{name}.log"))).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    Node(command.spawn().unwrap())
}

/// Status and body, or why there is none.
fn ask(address: &str, path: &str, posted: Option<&str>) -> Result<(u16, String), String> {
    let run = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let (method, body) = posted.map_or(("GET", ""), |body| ("POST", body));
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")?;
        let mut out = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut out)?;
        Ok(out)
    };
    let text = run().map_err(|error| format!("{address}: {error}"))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{address}: {text:?}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| head.to_owned())?;
    Ok((status, body.to_owned()))
}

fn wait_ready(home: &Path, addresses: &[String]) {
    let begun = Instant::now();
    for address in addresses {
        loop {
            let answer = ask(address, "/ready", None);
            if matches!(answer, Ok((200, _))) {
                break;
            }
            let log = std::fs::read_to_string(home.join("shard0.log")).unwrap_or_default();
            assert!(begun.elapsed() < READY_WAIT_MAX, "{address}: {answer:?}; {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A port that is free, and the peers' beside it, on all of these.
fn free_port(hosts: &[&str]) -> u16 {
    let first = 20_000 + (std::process::id() % 8_000) as u16;
    let is_free = |port: &u16| {
        let mut both = hosts.iter().flat_map(|host| [(*host, *port), (*host, port + 10_000)]);
        both.all(|address| TcpListener::bind(address).is_ok())
    };
    (first..first + 1_000).find(is_free).expect("a port is free")
}

#[test]
fn figure_one_serves_by_the_papers_flags() {
    let home = tempfile::tempdir().unwrap();
    let hosts = ["127.0.0.2", "127.0.0.22", "127.0.0.3", "127.0.0.33"];
    let port = free_port(&hosts);
    let at: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
    let shard = |name: &str, index: u32, master: &str, replica: &str| {
        format!("Shard:\n  Name: {name}\n  Index: {index}\n  Address: {master}\n  Replicas: [{replica}]\n")
    };
    let text = [shard("shard0", 0, &at[0], &at[1]), shard("shard1", 1, &at[2], &at[3])].join("---\n");
    std::fs::write(home.path().join("config.yaml"), text).unwrap();
    let start_all = || {
        [
            start(home.path(), "shard0", &at[0], "shard0", false),
            start(home.path(), "replica0", &at[1], "shard0", true),
            start(home.path(), "shard1", &at[2], "shard1", false),
            start(home.path(), "replica1", &at[3], "shard1", true),
        ]
    };
    let nodes = start_all();
    wait_ready(home.path(), &at);
    for number in 0..40 {
        let path = format!("/put?key=k{number}&value=v{number}");
        assert_eq!(ask(&at[number % 4], &path, None), Ok((200, "OK\n".into())));
    }
    let all_are_there = || {
        for number in 0..40 {
            let got = ask(&at[(number + 1) % 4], &format!("/get?key=k{number}"), None);
            assert_eq!(got, Ok((200, format!("v{number}"))));
        }
        assert_eq!(ask(&at[0], "/get?key=absent", None), Ok((200, String::new())));
    };
    all_are_there();
    let at_rest = ask(&at[1], "/clean", None).unwrap();
    assert!(at_rest.0 == 200 && at_rest.1.contains("\"moved_partitions\":0"), "{at_rest:?}");
    // Two shards become one, online; `/clean` of any node sees it through.
    let reshard = r#"{"action":"Reshard","keyspace":"default","clusters":1}"#;
    assert_eq!(ask(&at[0], "/", Some(reshard)).unwrap().0, 200);
    let cleaned = ask(&at[3], "/clean?deadline_ms=25000", None).unwrap();
    assert!(cleaned.0 == 200 && cleaned.1.contains("\"resharding\":false"), "{cleaned:?}");
    assert!(!cleaned.1.contains("\"moved_partitions\":0,"), "{cleaned:?}");
    all_are_there();
    drop(nodes);
    // The same lines start what is there.
    let [_master0, replica0, _master1, _replica1] = start_all();
    wait_ready(home.path(), &at);
    all_are_there();
    // A shard has one replica in the file, and bears its death all the same: another node is its third member.
    drop(replica0);
    let begun = Instant::now();
    for number in 0..40 {
        let node = &at[[0, 2, 3][number % 3]];
        let put = format!("/put?key=k{number}&value=w{number}");
        while ask(node, &put, None) != Ok((200, "OK\n".into())) {
            assert!(begun.elapsed() < READY_WAIT_MAX, "k{number} is not written without a replica");
        }
        assert_eq!(ask(node, &format!("/get?key=k{number}"), None), Ok((200, format!("w{number}"))));
    }
}
