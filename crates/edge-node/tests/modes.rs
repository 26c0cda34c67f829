//! What a node leaves on its disk, others than its user cannot read.
//!
//! A test program of its own: what new files' modes are is the whole process's.

mod common;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn ask(address: SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn files_of_a_node_are_its_owners() {
    edge_node::private::new_files();
    let home = tempfile::tempdir().unwrap();
    // As an earlier build, or an operator, made them.
    for name in ["data", "s3-data", "s3-data/data"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
        std::fs::set_permissions(home.path().join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let node = common::start(home.path(), "[tuning]\nflush_after_ms = 10\n");
    let until = Instant::now() + Duration::from_secs(30);
    for engine in ["lmdb", "redb", "fjall"] {
        let make = format!(
            r#"{{"action":"CreateKeyspace","keyspace":"{engine}","partition":"hash","partitions":1,"rule":"size=1 engine={engine}"}}"#
        );
        while !ask(node.http_address(), &make).starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < until, "{}", ask(node.http_address(), &make));
            std::thread::sleep(Duration::from_millis(100));
        }
        let put = format!(r#"{{"action":"KvPut","keyspace":"{engine}","key":"k","value":"v"}}"#);
        assert!(ask(node.http_address(), &put).starts_with("HTTP/1.1 200"));
    }
    // Engines' files come with the first flush.
    std::thread::sleep(Duration::from_millis(300));
    node.stop().unwrap();
    let found = files_below(&home.path().join("data"));
    assert!(found.len() > 15, "{found:?}");
    // The S3 directory itself, and what a group may do there, is its owner's choice.
    let shared = home.path().join("s3-data");
    for path in found.into_iter().chain(files_below(&shared)).filter(|path| *path != shared) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let open = if path == shared.join("data") { mode & 0o007 } else { mode & 0o077 };
        assert_eq!(open, 0, "{} has mode {mode:04o}", path.display());
    }
}
