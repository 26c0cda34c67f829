use super::*;
use crate::testing::{config, expect, start};
use std::io::{Read, Write};
use std::net::TcpStream;

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_node_serves_stops_and_starts_again() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, _) = start(config(home.path(), 1));
    assert!(get(node.http_address(), "/health").starts_with("HTTP/1.1 200"));
    let again = NodeHandle::start(config(home.path(), 1), Box::new(crate::testing::Stub::new().0));
    assert!(matches!(again, Err(StartError::Data(DataError::InUse { .. }))));
    node.stop().unwrap();
    let (node, _, _) = start(config(home.path(), 1));
    node.stop().unwrap();
}

#[test]
fn many_lanes_on_few_threads_and_few_on_many() {
    let home = tempfile::tempdir().unwrap();
    let mut two = config(home.path(), 1);
    (two.cores, two.lanes) = (2, 3);
    let (node, _, events) = start(two.clone());
    for _ in 0..8 {
        assert!(get(node.http_address(), "/ready").starts_with("HTTP/1.1 200"));
    }
    expect(&events, "request Status");
    assert!(get(node.http_address(), "/metrics").contains("hive_turns_total{lane=\"2\"}"));
    node.stop().unwrap();
    (two.cores, two.lanes) = (1, 1);
    let (node, _, _) = start(two);
    assert!(get(node.http_address(), "/metrics").contains("hive_turns_total{lane=\"2\"}"));
    node.stop().unwrap();
}

#[test]
fn a_port_in_use_refuses_the_start() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    for cores in [1, 2] {
        let mut config = config(home.path(), cores);
        (config.cores, config.lanes) = (cores as usize, cores as u16);
        config.http_listen = taken.local_addr().unwrap();
        let refused = NodeHandle::start(config, Box::new(crate::testing::Stub::new().0));
        let Err(error @ StartError::Listen { .. }) = refused else { panic!("must be refused") };
        assert!(error.to_string().ends_with("another process listens there; stop it, or choose another port"), "{error}");
    }
}

#[test]
fn a_panic_and_a_halt_end_the_node() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, _) = start(config(home.path(), 1));
    let mut ended = node.ended();
    let mut stream = TcpStream::connect(node.http_address()).unwrap();
    let body = r#"{"action":"ListKeyspaces"}"#;
    stream.write_all(format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { ended.wait_for(|ended| *ended).await.map(|_| ()) }).unwrap();
    let error = node.stop().unwrap_err().to_string();
    assert!(error.contains("lane 0 panicked: asked to"), "{error}");

    let (node, stub, _) = start(config(home.path(), 2));
    stub.effects.lock().unwrap().push(core_node::api::Effect::Halt { reason: "the log failed".into() });
    let mut ended = node.ended();
    // Any request makes a turn (if the monitor's look has not made one already).
    if let Ok(mut stream) = TcpStream::connect(node.http_address()) {
        let _ = stream.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n");
    }
    runtime.block_on(async { ended.wait_for(|ended| *ended).await.map(|_| ()) }).unwrap();
    assert!(node.stop().unwrap_err().to_string().contains("the log failed"));
}

#[test]
fn requests_in_hand_end_before_the_node_does() {
    let home = tempfile::tempdir().unwrap();
    let (sender, receiver) = watch::channel(false);
    let config = config(home.path(), 1);
    let (stub, events) = crate::testing::Stub::new();
    let runner = std::thread::spawn(move || run::run_with(config, Box::new(stub), receiver));
    std::thread::sleep(Duration::from_millis(300));
    sender.send_replace(true);
    runner.join().unwrap().unwrap();
    drop(events);
}
