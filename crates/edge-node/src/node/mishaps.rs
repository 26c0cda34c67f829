//! What each missing, foreign, older or damaged file of a data directory leads to (docs/formats/data-directory.md): a
//! refusal that names file and remedy and leaves everything as it was, or a start that lost nothing.

use super::*;
use crate::core_machine::CoreFactory;
use crate::testing::config;
use base_types::NodeId;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MARKER: &str = "hive-node.json";
const PUT: &str = r#"{"action":"KvPut","keyspace":"default","key":"k","value":"kept"}"#;
const GET: &str = r#"{"action":"KvGet","keyspace":"default","key":"k"}"#;

/// What is done to a copy of node 1's directory (first argument); beside it lie `other` (node 2's) and `older` (node 1's
/// of an earlier time). And what the refusal says; `None`: it starts, and the value is there.
type Mishap = (&'static str, fn(&Path), Option<&'static str>);

const MISHAPS: &[Mishap] = &[
    ("nothing", |_| {}, None),
    ("a lane's log gone", |data| remove(&data.join("lane-0/log")), Some("lane-0/log is not there")),
    ("a lane's log not mounted", |data| empty(&data.join("lane-1/log")), Some("lane-1/log holds no segment")),
    ("a lane gone", |data| remove(&data.join("lane-1")), Some("lane-1/log is not there")),
    ("all but the identity gone", only_marker, Some("lane-0/log is not there")),
    ("identity gone", |data| fs::remove_file(data.join(MARKER)).unwrap(), Some("lanes and no hive-node.json")),
    ("log zeroed", |data| each_segment(data, zero), Some("the log has no batch")),
    ("log cut to nothing", |data| each_segment(data, |file, _| file.set_len(0).unwrap()), Some("the log has no batch")),
    ("logs swapped", |data| swap(data, "lane-0/log", "lane-1/log"), Some("belongs to another log")),
    ("another lane's log", |data| copy_in(data, "lane-0/log", "lane-1/log"), Some("belongs to another log")),
    ("another node's logs", |data| put_in(data, "../other", "lane-0/log"), Some("belongs to another log")),
    ("an older copy of a log", |data| put_in(data, "../older", "lane-0/log"), Some("the log ends at batch")),
    (
        "older copies of all logs",
        |data| (0..2).for_each(|lane| put_in(data, "../older", &format!("lane-{lane}/log"))),
        Some("the log ends at batch"),
    ),
    ("a lane of an earlier time", |data| put_in(data, "../older", "lane-0"), Some("the log ends at batch")),
    ("another node's lane", |data| put_in(data, "../other", "lane-0"), Some("belongs to")),
    ("lanes swapped", |data| swap(data, "lane-0", "lane-1"), Some("belongs to")),
    ("another node's whole directory", another_nodes, Some("belongs to node 2, not 1")),
    ("the whole directory of an earlier time", |data| (remove(data), copy_tree(&data.join("../older"), data)).1, None),
    ("a half-written segment", |data| write(data, "lane-0/log/00000000000000ff.new", "mine"), None),
    ("the reserve cut", |data| write(data, "lane-0/log/reserve", "mine"), None),
    ("an identity of an earlier time", |data| put_in(data, "../older", MARKER), None),
    ("a half-written identity beside a whole one", |data| write(data, "hive-node.json.new", "{\"for"), None),
    (
        "identity of another world",
        |data| change(data, "\"world\":\"dev\"", "\"world\":\"prod\""),
        Some("world \"prod\""),
    ),
    ("identity of nothing but zeros", |data| write(data, MARKER, "\0\0\0\0"), Some("damaged hive-node.json")),
    ("identity of no bytes", |data| write(data, MARKER, ""), Some("damaged hive-node.json")),
    ("identity of another node", |data| put_in(data, "../other", MARKER), Some("belongs to node 2, not 1")),
    (
        "identity of another life",
        |data| marker(data, |marker| drop(marker.insert("disk".into(), 7.into()))),
        Some("not to \"dev disk 7 lane 0\""),
    ),
    ("identity half written", |data| cut(&data.join(MARKER)), Some("damaged hive-node.json")),
    ("identity with fewer lanes", fewer_lanes, Some("holds lane-1")),
    ("identity with more lanes", more_lanes, Some("lane-2/log is not there")),
    ("a newer format", |data| change(data, "\"format\":3", "\"format\":4"), Some("start a newer build")),
    (
        "a newer format level",
        |data| change(data, "\"level\":1", "\"level\":9"),
        Some("is of a world at format level 9"),
    ),
    ("an older format", |data| change(data, "\"format\":3", "\"format\":2"), Some("start the build that wrote it")),
    ("made before logs were marked", unmark, None),
    ("made before, and a log gone", |data| (unmark(data), remove(&data.join("lane-0/log"))).0, Some("lane-0/log")),
    ("made only to the half, beside an engine", half_made, Some("has not begun")),
    ("engines swapped", |data| swap(data, "lane-0/lmdb", "lane-1/lmdb"), Some("lmdb")),
    ("another node's engine", |data| put_in(data, "../other", "lane-0/lmdb"), Some("lmdb")),
    ("engines gone while the log has everything", |data| both(data, "lmdb"), None),
    ("an older copy of an engine", |data| put_in(data, "../older", "lane-0/lmdb"), None),
    (
        "older copies of all engines",
        |data| (0..2).for_each(|lane| put_in(data, "../older", &format!("lane-{lane}/lmdb"))),
        None,
    ),
    ("an engine's file half written", |data| cut(&data.join("lane-0/lmdb/data.mdb")), None),
    ("an engine's file zeroed", |data| overwrite(&data.join("lane-0/lmdb/data.mdb"), 0, &[0; 8192]), None),
    ("an engine of a newer format", newer_engine, Some("start it with the newer release")),
    ("an engine's marker of something else", |data| write(data, "lane-0/lmdb/ENGINE", "fish"), Some("fish")),
    ("an engine's marker gone", |data| fs::remove_file(data.join("lane-0/lmdb/ENGINE")).unwrap(), None),
    ("an engine's marker half written", |data| write(data, "lane-0/lmdb/ENGINE", "hive engine lm"), Some("lmdb")),
    ("an engine's file gone", |data| fs::remove_file(data.join("lane-0/lmdb/data.mdb")).unwrap(), None),
    ("an engine noted as damaged", |data| write(data, "lane-0/lmdb.damaged", "a flipped bit"), None),
    (
        "an engine set aside before",
        |data| copy_tree(&data.join("lane-0/lmdb"), &data.join("lane-0/lmdb.damaged-7")),
        None,
    ),
    ("an engine that no rule names, of something else", foreign_engine, Some("thesis.tex")),
    ("a foreign file among the segments", |data| write(data, "lane-0/log/notes.txt", "mine"), None),
    (
        "a foreign file as a segment",
        |data| write(data, "lane-0/log/00000000000000ff.seg", "mine"),
        Some("segment 255 has 4 bytes"),
    ),
    ("who the members are, damaged", |data| write(data, "hive-members.json", "{"), None),
    ("who the members are, gone", |data| drop(fs::remove_file(data.join("hive-members.json"))), None),
    ("who the members are, of a newer format", |data| write(data, "hive-members.json", r#"{"format":9}"#), None),
    ("who the members are, of another node", |data| put_in(data, "../other", "hive-members.json"), None),
    ("the copy of the users, damaged", |data| write(data, "hive-access.json", "{"), None),
    ("the copy of the users, of a newer format", |data| write(data, "hive-access.json", "{\"format\":9}\n{}\n"), None),
    ("the keys of issuers, damaged", |data| write(data, "hive-oidc-keys.json", "{"), None),
    ("the lock's file gone", |data| fs::remove_file(data.join("hive-node.lock")).unwrap(), None),
    ("the lock's file full of something", |data| write(data, "hive-node.lock", "pid 7"), None),
];

#[test]
fn no_mishap_of_a_directory_is_forgotten_silently() {
    let home = tempfile::tempdir().unwrap();
    let first = lonely(home.path(), 1, "first");
    run_once(&first);
    copy_tree(&first.data, &home.path().join("older"));
    // Once is enough: what the logs have reached is written down when a node stops, too (decision 0141).
    run_once(&first);
    run_once(&lonely(home.path(), 2, "other"));
    let mut wrong = Vec::new();
    for (number, (name, befall, refusal)) in MISHAPS.iter().enumerate() {
        let mut config = first.clone();
        config.data = home.path().join(format!("case-{number}"));
        copy_tree(&first.data, &config.data);
        befall(&config.data);
        if let Err(why) = check(&config, *refusal) {
            wrong.push(format!("{name}: {why}"));
        }
        fs::remove_dir_all(&config.data).unwrap();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check(config: &Config, refusal: Option<&str>) -> Result<(), String> {
    let before = tree(&config.data);
    match (refusal, NodeHandle::start(config.clone(), Box::new(CoreFactory))) {
        (None, Ok(node)) => {
            let answer = until_ok(&node, GET);
            node.stop().unwrap();
            let text = fs::read_to_string(config.data.join(MARKER)).unwrap();
            expect(answer.contains("kept"), &answer)?;
            expect(text.contains("\"logs\":["), &text)
        }
        (Some(expected), Err(error)) => {
            let text = error.to_string();
            expect(text.contains(expected), &text)?;
            expect(text.contains(&config.data.display().to_string()), &format!("names no file: {text}"))?;
            let touched: Vec<_> =
                tree(&config.data).into_iter().filter(|(path, hash)| before.get(path) != Some(hash)).collect();
            expect(touched.is_empty(), &format!("touches {touched:?}"))
        }
        (_, Ok(node)) => {
            node.stop().unwrap();
            Err("it starts".into())
        }
        (None, Err(error)) => Err(error.to_string()),
    }
}

fn expect(holds: bool, else_said: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| else_said.to_string())
}

/// A world of one node with two lanes.
fn lonely(home: &Path, id: u64, data: &str) -> Config {
    let mut config = config(home, id);
    config.data = home.join(data);
    config.lanes = 2;
    config.world_members = [(NodeId(id), "127.0.0.1:1".to_string())].into();
    config.tuning.log_segment_bytes = 8 << 20;
    config
}

fn run_once(config: &Config) {
    let node = NodeHandle::start(config.clone(), Box::new(CoreFactory)).unwrap();
    let create = r#"{"action":"CreateKeyspace","keyspace":"default","partition":"hash","partitions":4,"clusters":2,"rule":"size=1"}"#;
    until(
        || post(&node, create),
        |answer| answer.starts_with("HTTP/1.1 200") || answer.contains(base_types::ErrorCode::KeyspaceExists.as_str()),
    );
    until_ok(&node, PUT);
    node.stop().unwrap();
}

fn until_ok(node: &NodeHandle, body: &str) -> String {
    until(|| post(node, body), |answer| answer.starts_with("HTTP/1.1 200"))
}

fn until(mut ask: impl FnMut() -> String, done: impl Fn(&str) -> bool) -> String {
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = ask();
        if done(&answer) {
            return answer;
        }
        assert!(std::time::Instant::now() < patience, "{answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn post(node: &NodeHandle, body: &str) -> String {
    let mut stream = TcpStream::connect(node.http_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// Every file by its path, with a hash of what it holds. Not what a look alone may change: locks.
fn tree(root: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            match path.is_dir() {
                true => left.push(path),
                false if ["hive-node.lock", "lock.mdb"].contains(&name) => {}
                false => drop(found.insert(path.clone(), digest(&path))),
            }
        }
    }
    found
}

fn digest(path: &Path) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    fs::read(path).unwrap().hash(&mut hasher);
    hasher.finish()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &target),
            // A socket, while the node runs.
            false if !entry.path().is_file() => {}
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn remove(path: &Path) {
    fs::remove_dir_all(path).unwrap();
}

fn empty(path: &Path) {
    remove(path);
    fs::create_dir(path).unwrap();
}

fn only_marker(data: &Path) {
    (0..2).for_each(|lane| remove(&data.join(format!("lane-{lane}"))));
}

fn both(data: &Path, engine: &str) {
    (0..2).for_each(|lane| remove(&data.join(format!("lane-{lane}/{engine}"))));
}

fn each_segment(data: &Path, change: fn(&fs::File, u64)) {
    for entry in fs::read_dir(data.join("lane-0/log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            let file = fs::File::options().write(true).open(&path).unwrap();
            change(&file, file.metadata().unwrap().len());
        }
    }
}

fn zero(file: &fs::File, bytes: u64) {
    file.write_all_at(&vec![0; bytes as usize], 0).unwrap();
}

fn swap(data: &Path, one: &str, other: &str) {
    let aside = data.join("../aside");
    fs::rename(data.join(one), &aside).unwrap();
    fs::rename(data.join(other), data.join(one)).unwrap();
    fs::rename(aside, data.join(other)).unwrap();
}

fn copy_in(data: &Path, from: &str, to: &str) {
    remove(&data.join(to));
    copy_tree(&data.join(from), &data.join(to));
}

fn put_in(data: &Path, from: &str, what: &str) {
    let (source, target) = (data.join(from).join(what), data.join(what));
    if source.is_dir() {
        remove(&target);
        copy_tree(&source, &target);
    } else {
        fs::copy(source, target).unwrap();
    }
}

fn change(data: &Path, from: &str, to: &str) {
    let path = data.join(MARKER);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn marker(data: &Path, with: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = data.join(MARKER);
    let mut value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    with(value.as_object_mut().unwrap());
    fs::write(path, value.to_string()).unwrap();
}

fn unmark(data: &Path) {
    marker(data, |marker| drop(marker.remove("logs")));
}

fn half_made(data: &Path) {
    marker(data, |marker| drop(marker.insert("logs".into(), serde_json::json!([]))));
}

fn fewer_lanes(data: &Path) {
    marker(data, |marker| {
        marker.insert("lanes".into(), 1.into());
        marker.insert("logs".into(), serde_json::json!([1]));
    });
}

fn more_lanes(data: &Path) {
    marker(data, |marker| {
        marker.insert("lanes".into(), 3.into());
        marker.insert("logs".into(), serde_json::json!([1, 1, 1]));
    });
}

fn another_nodes(data: &Path) {
    remove(data);
    copy_tree(&data.join("../other"), data);
}

fn foreign_engine(data: &Path) {
    fs::create_dir(data.join("lane-0/fjall")).unwrap();
    write(data, "lane-0/fjall/thesis.tex", "mine");
}

fn newer_engine(data: &Path) {
    write(data, "lane-0/lmdb/ENGINE", "hive engine lmdb format 9\n");
}

fn write(data: &Path, name: &str, text: &str) {
    fs::write(data.join(name), text).unwrap();
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    put_at(&fs::File::options().write(true).open(path).unwrap(), at, bytes);
}

fn put_at(file: &fs::File, at: u64, bytes: &[u8]) {
    file.write_all_at(bytes, at).unwrap();
}

fn cut(path: &Path) {
    let text = fs::read(path).unwrap();
    fs::write(path, &text[..text.len() / 2]).unwrap();
}
