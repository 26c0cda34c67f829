use super::*;
use crate::testing::{config, expect, start};
use std::io::{Read, Write};
use std::net::TcpStream;

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap();
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
        assert!(
            error.to_string().ends_with("another process listens there; stop it, or choose another port"),
            "{error}"
        );
    }
}

#[test]
fn a_check_refuses_what_a_start_refuses_and_touches_nothing() {
    let home = tempfile::tempdir().unwrap();
    let good = config(home.path(), 1);
    assert_eq!(check(&good).unwrap(), Vec::<String>::new());
    assert!(!good.data.exists(), "nothing is made");
    let both = |config: &Config| {
        let checked = check(config).unwrap_err().to_string();
        let started = NodeHandle::start(config.clone(), Box::new(crate::testing::Stub::new().0));
        let Err(started) = started else { panic!("a start does not refuse: {checked}") };
        assert_eq!(checked, started.to_string());
        checked
    };
    let mut missing = good.clone();
    missing.certificates.certificate = home.path().join("nowhere.pem");
    assert!(both(&missing).contains("nowhere.pem"));
    let mut foreign = good.clone();
    foreign.certificates = config(home.path(), 2).certificates;
    assert!(both(&foreign).contains("does not name"));
    let mut used = good.clone();
    used.data = home.path().join("letters");
    std::fs::create_dir(&used.data).unwrap();
    std::fs::write(used.data.join("dear.txt"), "dear").unwrap();
    assert!(both(&used).contains("is not empty"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut port = good.clone();
    port.http_listen = taken.local_addr().unwrap();
    assert!(both(&port).contains("another process listens there"));
    let mut two = good.clone();
    two.world_members = (1..=2).map(|id| (base_types::NodeId(id), format!("127.0.0.1:{}", 7600 + id))).collect();
    assert!(check(&two).unwrap()[0].contains("[world] lists two members"));
    // The node itself runs: that is no fault of its configuration.
    let (node, _, _) = start(good.clone());
    assert!(check(&good).unwrap()[0].contains("is in use: the node runs"));
    node.stop().unwrap();
}

#[test]
fn who_asks_the_peer_port_over_http_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, _) = start(config(home.path(), 1));
    let answer = get(node.peer_address(), "/ready");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("this is the peer port"), "{answer}");
    assert!(answer.contains("not_applied"), "{answer}");
    node.stop().unwrap();
}

#[test]
fn a_panic_and_a_halt_end_the_node() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, _) = start(config(home.path(), 1));
    let mut ended = node.ended();
    let mut stream = TcpStream::connect(node.http_address()).unwrap();
    let body = r#"{"action":"ListKeyspaces"}"#;
    stream
        .write_all(
            format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes(),
        )
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { ended.wait_for(|ended| *ended).await.map(|_| ()) }).unwrap();
    let error = node.stop().unwrap_err().to_string();
    assert!(error.contains("lane 0 panicked: asked to"), "{error}");

    let (node, stub, _) = start(config(home.path(), 2));
    stub.effects.lock().unwrap().push(core_node::api::Effect::Halt { reason: "the log failed".into() });
    let mut ended = node.ended();
    // Any request makes a turn (if the monitor's look has not made one already).
    if let Ok(mut stream) = TcpStream::connect(node.http_address()) {
        let _ = stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n");
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

fn post(address: SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// Repeats until the answer is 200.
fn until_ok(what: &str, mut ask: impl FnMut() -> String) -> String {
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = ask();
        if answer.starts_with("HTTP/1.1 200") {
            return answer;
        }
        assert!(std::time::Instant::now() < patience, "{what}: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Three real nodes, with the real core, on loopback.
/// Addresses where nobody listens. Below the ports that the system gives out by itself: one of those could be taken by any
/// connection between this look and the node's own bind.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let first = 20_000 + std::process::id() % 1_000 * 12;
    let ports = (first..32_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port as u16)));
    ports.filter(|address| TcpListener::bind(address).is_ok()).take(count).collect()
}

#[test]
fn three_nodes_form_a_world_and_keep_what_they_were_told() {
    let home = tempfile::tempdir().unwrap();
    let peers = free_addresses(3);
    let configs: Vec<Config> = (1..=3u64)
        .map(|id| {
            let mut config = config(home.path(), id);
            config.peer_listen = peers[id as usize - 1];
            config.peer_advertise = config.peer_listen.to_string();
            config.world_members =
                (1..=3).map(|id| (base_types::NodeId(id), peers[id as usize - 1].to_string())).collect();
            config.labels.chassis = format!("c{id}");
            config.tuning.log_segment_bytes = 8 << 20;
            config
        })
        .collect();
    let start =
        |config: &Config| NodeHandle::start(config.clone(), Box::new(crate::core_machine::CoreFactory)).unwrap();
    let mut nodes: Vec<NodeHandle> = configs.iter().map(start).collect();
    for node in &nodes {
        until_ok("ready", || get(node.http_address(), "/ready"));
    }
    let create = r#"{"action":"CreateKeyspace","keyspace":"default","partition":"hash","partitions":4,"clusters":1,"rule":"size=3 location=world failure_domain=chassis"}"#;
    until_ok("create", || post(nodes[0].http_address(), create));
    until_ok("put", || {
        post(nodes[1].http_address(), r#"{"action":"KvPut","keyspace":"default","key":"k","value":"kept"}"#)
    });
    let read = r#"{"action":"KvGet","keyspace":"default","key":"k"}"#;
    for node in &nodes {
        assert!(until_ok("get", || post(node.http_address(), read)).contains("kept"));
    }
    // All stop, all start: what was acknowledged is there.
    nodes.drain(..).for_each(|node| node.stop().unwrap());
    nodes = configs.iter().map(start).collect();
    assert!(until_ok("get after restart", || post(nodes[2].http_address(), read)).contains("kept"));
    assert!(get(nodes[0].http_address(), "/metrics").contains("hive_log_batches_total"));
    nodes.drain(..).for_each(|node| node.stop().unwrap());
}

#[test]
fn doors_are_named_by_an_address_that_others_reach() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    config.http_advertise = "node-1.example:7101".into();
    let bound = |address: &str| vec![TcpListener::bind(address).unwrap()];
    let listeners = [("etcd".to_string(), bound("127.0.0.1:0")), ("team".to_string(), bound("0.0.0.0:0"))];
    let ports: Vec<u16> = listeners.iter().map(|(_, listeners)| local_address(listeners).port()).collect();
    let redis = vec![("redis".to_string(), bound("[::1]:0"))];
    let redis_port = local_address(&redis[0].1).port();
    let listeners = NamedListeners { etcd: listeners.into(), redis };
    let told: Vec<_> = doors::told(&config, true, &listeners).into_iter().map(|door| (door.name, door.url)).collect();
    let door = |name: &str, url: String| (name.to_string(), url);
    let own = door("etcd/etcd", format!("https://127.0.0.1:{}", ports[0]));
    let team = door("etcd/team", format!("https://node-1.example:{}", ports[1]));
    assert_eq!(told, [own, team, door("redis/redis", format!("rediss://[::1]:{redis_port}"))]);
    let plain = doors::told(&config, false, &listeners);
    assert!(plain[0].url.starts_with("http://") && plain[2].url.starts_with("redis://"));
}
