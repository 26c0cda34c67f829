//! Who gets in at the peer port, and what is carried once in.

use super::wire::{encode, take, Hello, Message, HELLO_BYTES_MAX};
use crate::ca::{Issued, Revoke};
use crate::node::NodeHandle;
use crate::testing::{config, expect, golden, start, Stub};
use base_types::{BootId, FormatLevel, LaneId, NodeId};
use bytes::{Bytes, BytesMut};
use core_node::api::Effect;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Duration;

/// What a stranger shows.
struct Card {
    certificate: String,
    key: String,
}

/// A certificate of the authority in `directory`, made as told.
fn card(directory: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Card {
    let key = KeyPair::from_pem(&std::fs::read_to_string(directory.join("ca.key")).unwrap()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&std::fs::read_to_string(directory.join("ca.pem")).unwrap(), key).unwrap();
    let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let own = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap().pem();
    Card { certificate, key: own.serialize_pem() }
}

fn hello(world: &str, node: u64, to: u64) -> Vec<u8> {
    hello_serving(1, world, node, to)
}

/// Of a build that serves formats up to this level.
fn hello_serving(level_max: u16, world: &str, node: u64, to: u64) -> Vec<u8> {
    let hello = Hello {
        incarnation: 0,
        world: world.into(),
        node: NodeId(node),
        boot: BootId(7),
        lane: LaneId(0),
        lane_count: 1,
        to: NodeId(to),
        level: FormatLevel(1),
        level_max: FormatLevel(level_max),
    };
    encode(&Message::Hello(hello))
}

type Tls = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// Connects as a node would, showing `card`; trusts the node's own authority.
fn connect(node: &NodeHandle, authority: &Path, card: Option<&Card>) -> Tls {
    connect_over(TcpStream::connect(node.peer_address()).unwrap(), tls(authority, card))
}

fn tls(authority: &Path, card: Option<&Card>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.join("ca.pem")).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    match card {
        None => builder.with_no_client_auth(),
        Some(card) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(card.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(card.key.as_bytes()).unwrap(),
            )
            .unwrap(),
    }
}

fn connect_over(stream: TcpStream, config: rustls::ClientConfig) -> Tls {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let name = ServerName::try_from("node-1.dev.hive").unwrap();
    rustls::StreamOwned::new(rustls::ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// The node's answer to a hello; `None`: it hung up.
fn answer(stream: &mut Tls, hello: &[u8]) -> Option<Message> {
    let _ = stream.write_all(hello);
    let _ = stream.flush();
    let (mut buffer, mut chunk) = (BytesMut::new(), [0; 512]);
    loop {
        if let Some(message) = take(&mut buffer, HELLO_BYTES_MAX).unwrap() {
            return Some(message);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

fn refusal(stream: &mut Tls, hello: &[u8]) -> String {
    match answer(stream, hello) {
        None => "hung up".into(),
        Some(Message::Refused { reason, .. }) => reason,
        Some(other) => panic!("let in: {other:?}"),
    }
}

/// Nothing of what came before may have reached the core.
fn nothing_came(events: &Receiver<String>) {
    assert!(events.try_iter().all(|event| !event.starts_with("frame") && !event.starts_with("up")));
}

#[test]
fn earlier_incarnation_is_refused_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path(), 1);
    let data = crate::data::DataDirectory::open(&config.data, &config.world, config.node, config.lanes).unwrap();
    data.set_incarnation(5, 0).unwrap();
    drop(data);
    let (node, _, _events) = start(config);
    let ca = home.path().join("ca");
    let peer = card(&ca, "node-2.dev.hive", |_| {});
    match answer(&mut connect(&node, &ca, Some(&peer)), &hello("dev", 2, 1)) {
        Some(Message::Refused { reason, incarnation: 5, .. }) => {
            assert!(reason.contains("incarnation 0") && reason.contains("which is 5 now"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    node.stop().unwrap();
}

#[test]
fn build_below_the_worlds_level_is_refused_with_what_to_install() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, _events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    let peer = card(&ca, "node-2.dev.hive", |_| {});
    match answer(&mut connect(&node, &ca, Some(&peer)), &hello_serving(0, "dev", 2, 1)) {
        Some(Message::Refused { reason, level: FormatLevel(1), .. }) => {
            assert!(
                reason.contains("format level 1, and the build of node 2 serves up to 0")
                    && reason.contains("install hive"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    node.stop().unwrap();
}

#[test]
fn only_a_node_of_this_world_gets_in() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    // Plain TCP, and TLS without a certificate.
    let mut plain = TcpStream::connect(node.peer_address()).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    plain.write_all(&hello("dev", 2, 1)).unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    assert!(rest.len() < 16, "plain TCP was answered: {rest:?}");
    assert_eq!(refusal(&mut connect(&node, &ca, None), &hello("dev", 2, 1)), "hung up");
    // Another authority, although of the same world's name.
    let foreign = home.path().join("foreign");
    crate::ca::init(&foreign, "dev").unwrap();
    let other = card(&foreign, "node-2.dev.hive", |_| {});
    assert_eq!(refusal(&mut connect(&node, &ca, Some(&other)), &hello("dev", 2, 1)), "hung up");
    // Expired, and not yet valid.
    let expired = card(&ca, "node-2.dev.hive", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    assert_eq!(refusal(&mut connect(&node, &ca, Some(&expired)), &hello("dev", 2, 1)), "hung up");
    let early = card(&ca, "node-2.dev.hive", |params| params.not_before = rcgen::date_time_ymd(2090, 1, 1));
    assert_eq!(refusal(&mut connect(&node, &ca, Some(&early)), &hello("dev", 2, 1)), "hung up");
    // For clients only, for servers only, another node's, another world's.
    let client =
        card(&ca, "node-2.dev.hive", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    let reason = refusal(&mut connect(&node, &ca, Some(&client)), &hello("dev", 2, 1));
    assert!(reason.starts_with("certificate of node 2:"), "{reason}");
    let server =
        card(&ca, "node-2.dev.hive", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert_eq!(refusal(&mut connect(&node, &ca, Some(&server)), &hello("dev", 2, 1)), "hung up");
    for name in ["node-3.dev.hive", "node-2.prod.hive", "node-22.dev.hive", "localhost"] {
        let wrong = card(&ca, name, |_| {});
        let reason = refusal(&mut connect(&node, &ca, Some(&wrong)), &hello("dev", 2, 1));
        assert!(reason.starts_with("certificate of node 2:"), "{name}: {reason}");
    }
    nothing_came(&events);
    node.stop().unwrap();
}

#[test]
fn the_hello_must_fit_and_frames_come_through() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    let good = card(&ca, "node-2.dev.hive", |_| {});
    let own = card(&ca, "node-1.dev.hive", |_| {});
    let dial = |card: &Card, hello: &[u8]| refusal(&mut connect(&node, &ca, Some(card)), hello);
    assert_eq!(dial(&good, &hello("prod", 2, 1)), "world \"prod\" is not \"dev\"");
    assert_eq!(dial(&good, &hello("dev", 2, 9)), "this is node 1, not 9");
    assert_eq!(dial(&own, &hello("dev", 1, 1)), "node 1 is this node; is its id used twice?");
    assert_eq!(dial(&good, b"GET / HTTP/1.1\r\n\r\n"), "hung up");
    assert_eq!(dial(&good, &encode(&Message::Ping)), "hung up");
    nothing_came(&events);

    let mut stream = connect(&node, &ca, Some(&good));
    assert!(matches!(
        answer(&mut stream, &hello("dev", 2, 1)),
        Some(Message::Welcome { node: NodeId(1), lane_count: 1, .. })
    ));
    expect(&events, "up 2");
    let frame = encode(&Message::Frame { lane: LaneId(0), frame: Bytes::from(vec![1; 300_000]) });
    stream.write_all(&frame).unwrap();
    assert_eq!(expect(&events, "frame"), "frame 2 300000");
    assert_eq!(answer(&mut stream, &encode(&Message::Ping)), Some(Message::Pong));
    // A frame to a lane that is not here is dropped; what cannot be a message ends the connection.
    stream.write_all(&encode(&Message::Frame { lane: LaneId(9), frame: Bytes::from_static(b"x") })).unwrap();
    stream.write_all(&[255; 8]).unwrap();
    stream.flush().unwrap();
    assert_eq!(answer(&mut stream, &[]), None);
    expect(&events, "down 2");
    node.stop().unwrap();
}

fn push(node: &NodeHandle, stub: &Stub, effects: Vec<Effect>) {
    stub.effects.lock().unwrap().extend(effects);
    // Any request makes a turn.
    let mut stream = TcpStream::connect(node.http_address()).unwrap();
    stream.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn two_nodes_find_each_other_lose_each_other_and_find_again() {
    let home = tempfile::tempdir().unwrap();
    let (one, one_stub, one_events) = start(config(home.path(), 1));
    let mut second = config(home.path(), 2);
    let (two, two_stub, two_events) = start(second.clone());
    let to_two = Effect::Address { node: NodeId(2), address: two.peer_address().to_string() };
    let to_one = || Effect::Address { node: NodeId(1), address: one.peer_address().to_string() };
    push(&one, &one_stub, vec![to_two]);
    expect(&one_events, "up 2");
    expect(&two_events, "up 1");
    let frame = |bytes: usize| Effect::Send { to: NodeId(2), lane: LaneId(0), frame: Bytes::from(vec![5; bytes]) };
    push(&one, &one_stub, vec![frame(10), frame(4 << 20), frame(20)]);
    for bytes in [10, 4 << 20, 20] {
        assert_eq!(expect(&two_events, "frame"), format!("frame 1 {bytes}"));
    }
    push(
        &two,
        &two_stub,
        vec![to_one(), Effect::Send { to: NodeId(1), lane: LaneId(0), frame: Bytes::from_static(b"abc") }],
    );
    assert_eq!(expect(&one_events, "frame"), "frame 2 3");
    // Told when it was dialled, and again now that what it says leaves at once.
    expect(&two_events, "up 1");
    // The same port again, as a restarted node would have it.
    second.peer_listen = two.peer_address();
    two.stop().unwrap();
    expect(&one_events, "down 2");
    let (two, _, two_events) = start(second);
    expect(&one_events, "up 2");
    push(&one, &one_stub, vec![Effect::Send { to: NodeId(2), lane: LaneId(0), frame: Bytes::from_static(b"back") }]);
    assert_eq!(expect(&two_events, "frame"), "frame 1 4");
    push(&one, &one_stub, vec![Effect::Forget { node: NodeId(2) }]);
    expect(&one_events, "down 2");
    two.stop().unwrap();
    one.stop().unwrap();
}

#[test]
fn a_peer_that_hears_and_says_nothing_is_dead() {
    let home = tempfile::tempdir().unwrap();
    let (node, stub, events) = start(config(home.path(), 1));
    // A black hole: connections are taken and never answered.
    let hole = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hole.local_addr().unwrap().to_string();
    push(&node, &stub, vec![Effect::Address { node: NodeId(2), address }]);
    let (first, _) = hole.accept().unwrap();
    let began = std::time::Instant::now();
    let _again = hole.accept().unwrap();
    assert!(began.elapsed() < Duration::from_secs(6), "redialled after {:?}", began.elapsed());
    drop(first);
    // One that said hello, and then nothing: let go after SILENCE_MAX.
    let good = card(&home.path().join("ca"), "node-3.dev.hive", |_| {});
    let mut stream = connect(&node, &home.path().join("ca"), Some(&good));
    assert!(matches!(answer(&mut stream, &hello("dev", 3, 1)), Some(Message::Welcome { .. })));
    expect(&events, "up 3");
    expect(&events, "down 3");
    node.stop().unwrap();
}

/// A connection to the peer port from an address of our choice.
fn from(address: [u8; 4], node: &NodeHandle) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&std::net::SocketAddr::from((address, 0)).into())?;
    socket.connect(&node.peer_address().into())?;
    Ok(socket.into())
}

#[test]
fn half_open_handshakes_keep_no_other_address_out() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    let good = card(&ca, "node-2.dev.hive", |_| {});
    let config = tls(&ca, Some(&good));
    // Begins of TLS records, renewed all the time, as fast as the node takes them.
    let (ended, held) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = std::collections::VecDeque::new();
            while !ended.load(Relaxed) {
                if let Ok(mut stream) = from([127, 0, 0, 1], &node) {
                    let _ = stream.write_all(b"\x16\x03\x01\x02\x00");
                    open.push_back(stream);
                }
                if open.len() > 1_000 {
                    open.pop_front();
                }
                held.store(open.len(), Relaxed);
            }
        });
        while held.load(Relaxed) < 500 {
            std::thread::yield_now();
        }
        let welcome = |_: &i32| {
            let mut stream = connect_over(from([127, 0, 0, 2], &node).unwrap(), config.clone());
            matches!(answer(&mut stream, &hello("dev", 2, 1)), Some(Message::Welcome { .. }))
        };
        let let_in = (0..30).filter(welcome).count();
        ended.store(true, Relaxed);
        assert_eq!(let_in, 30);
    });
    expect(&events, "up 2");
    node.stop().unwrap();
}

#[test]
fn certificate_of_several_nodes_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    let names = |more: &'static [&'static str]| {
        card(&ca, "node-2.dev.hive", |params| {
            let more = more.iter().map(|name| rcgen::SanType::DnsName((*name).try_into().unwrap()));
            params.subject_alt_names.extend(more);
        })
    };
    for more in [&["node-3.dev.hive"][..], &["node-2.prod.hive"], &["*.dev.hive"], &["x.example", "NODE-3.dev.hive"]] {
        let reason = refusal(&mut connect(&node, &ca, Some(&names(more))), &hello("dev", 2, 1));
        assert!(reason.contains("names exactly one node"), "{more:?}: {reason}");
    }
    let wildcard = card(&ca, "*.dev.hive", |_| {});
    let reason = refusal(&mut connect(&node, &ca, Some(&wildcard)), &hello("dev", 2, 1));
    assert!(reason.contains("names exactly one node"), "{reason}");
    nothing_came(&events);
    let usual = names(&["node2.example", "localhost"]);
    let welcome = answer(&mut connect(&node, &ca, Some(&usual)), &hello("dev", 2, 1));
    assert!(matches!(welcome, Some(Message::Welcome { .. })), "{welcome:?}");
    node.stop().unwrap();
}

#[test]
fn own_certificate_of_several_nodes_refuses_the_start() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path(), 1);
    let both = card(&home.path().join("ca"), "node-1.dev.hive", |params| {
        params.subject_alt_names.push(rcgen::SanType::DnsName("node-2.dev.hive".try_into().unwrap()));
    });
    std::fs::write(&config.certificates.certificate, both.certificate).unwrap();
    std::fs::write(&config.certificates.key, both.key).unwrap();
    let (stub, _) = Stub::new();
    let refused = NodeHandle::start(config, Box::new(stub)).err().expect("refused").to_string();
    assert!(refused.contains("names exactly one node") && refused.contains("hive ca issue"), "{refused}");
}

#[test]
fn connection_ends_with_its_certificate() {
    let home = tempfile::tempdir().unwrap();
    let (node, _, events) = start(config(home.path(), 1));
    let ca = home.path().join("ca");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let short = card(&ca, "node-2.dev.hive", |params| {
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_secs() + 3);
    });
    let mut stream = connect(&node, &ca, Some(&short));
    assert!(matches!(answer(&mut stream, &hello("dev", 2, 1)), Some(Message::Welcome { .. })));
    expect(&events, "up 2");
    let began = std::time::Instant::now();
    while answer(&mut stream, &encode(&Message::Ping)) == Some(Message::Pong) {
        assert!(began.elapsed() < Duration::from_secs(8), "it outlives its certificate");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_secs(1));
    expect(&events, "down 2");
    node.stop().unwrap();
}

/// What a node with this certificate makes of a node's that dials it: whether the handshake comes to an end.
fn is_dialled(listener: &std::net::TcpListener, home: &Path, own: &Issued) -> bool {
    let files = crate::config::CertificatesSection {
        authority: home.join("ca/ca.pem"),
        certificate: own.certificate.clone(),
        key: own.key.clone(),
        revocations: None,
    };
    let server = crate::tls::Identity::load(&files, "dev", NodeId(2)).unwrap().server.clone();
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut stream = rustls::StreamOwned::new(rustls::ServerConnection::new(server).unwrap(), stream);
    stream.read(&mut [0; 512]).is_ok_and(|count| count > 0)
}

#[test]
fn revoked_node_is_let_in_by_nobody() {
    let home = tempfile::tempdir().unwrap();
    let ca = home.path().join("ca");
    let mut config = config(home.path(), 1);
    let issue = |node: u64| crate::ca::issue(&ca, NodeId(node), &[], 30).unwrap();
    let revoke = |issued: &Issued| crate::ca::revoke(&ca, &Revoke::File(issued.certificate.clone())).unwrap().list;
    let shown = |issued: &Issued| Card {
        certificate: std::fs::read_to_string(&issued.certificate).unwrap(),
        key: std::fs::read_to_string(&issued.key).unwrap(),
    };
    let list = revoke(&issue(4));
    config.certificates.revocations = Some(list.clone());
    let config_of_one = config.clone();
    let (node, stub, events) = start(config);
    let two = issue(2);
    let gone = shown(&two);
    let mut of_two = connect(&node, &ca, Some(&gone));
    assert!(matches!(answer(&mut of_two, &hello("dev", 2, 1)), Some(Message::Welcome { .. })));
    let mut of_three = connect(&node, &ca, Some(&shown(&issue(3))));
    assert!(matches!(answer(&mut of_three, &hello("dev", 3, 1)), Some(Message::Welcome { .. })));
    // The other direction: the node dials what says that it is node 2.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    push(&node, &stub, vec![Effect::Address { node: NodeId(2), address }]);
    assert!(is_dialled(&listener, home.path(), &two));
    expect(&events, "up 2");
    // A list of another authority is left aside, and the one before counts.
    let whole = std::fs::read(&list).unwrap();
    let foreign = home.path().join("foreign");
    crate::ca::init(&foreign, "dev").unwrap();
    let other = crate::ca::issue(&foreign, NodeId(2), &[], 30).unwrap();
    std::fs::copy(crate::ca::revoke(&foreign, &Revoke::File(other.certificate)).unwrap().list, &list).unwrap();
    node.reload_certificates();
    assert_eq!(answer(&mut of_two, &encode(&Message::Ping)), Some(Message::Pong));
    std::fs::write(&list, whole).unwrap();
    revoke(&two);
    node.reload_certificates();
    let began = std::time::Instant::now();
    while answer(&mut of_two, &encode(&Message::Ping)).is_some() {
        assert!(began.elapsed() < Duration::from_secs(8), "its connection outlives the revocation");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(answer(&mut of_three, &encode(&Message::Ping)), Some(Message::Pong), "others continue");
    assert_eq!(refusal(&mut connect(&node, &ca, Some(&gone)), &hello("dev", 2, 1)), "hung up");
    // What was dialled before the list came may still be shaking hands.
    assert!((0..50).any(|_| !is_dialled(&listener, home.path(), &two)), "it is still dialled");
    assert!(!is_dialled(&listener, home.path(), &two), "it is dialled again");
    // The node comes back with a certificate of its own that is new.
    let again = shown(&issue(2));
    let mut again = connect(&node, &ca, Some(&again));
    assert!(matches!(answer(&mut again, &hello("dev", 2, 1)), Some(Message::Welcome { .. })));
    node.stop().unwrap();
    // With a certificate that the list has, a node does not start.
    revoke(&crate::ca::Issued { certificate: home.path().join("ca/node-1.pem"), ..two });
    let mut own = config_of_one;
    own.data = home.path().join("data-again");
    let (stub, _) = Stub::new();
    let refused = NodeHandle::start(own, Box::new(stub)).err().expect("refused").to_string();
    assert!(refused.contains("Revoked") && refused.contains("hive ca issue"), "{refused}");
}

#[test]
fn handshakes_are_those_of_the_first_release() {
    let (node, boot, lane, lane_count, to) = (NodeId(1), BootId(9), LaneId(2), 4, NodeId(3));
    let (level, level_max) = (FormatLevel(1), FormatLevel(2));
    let hello = Hello { world: "dev".into(), incarnation: 7, node, boot, lane, lane_count, to, level, level_max };
    let messages = [
        ("hello", Message::Hello(hello)),
        ("welcome", Message::Welcome { node, boot, lane_count }),
        ("refused", Message::Refused { reason: "no".into(), incarnation: 8, level }),
    ];
    for (name, message) in messages {
        golden::check("handshakes", name, &encode(&message));
        let mut known = BytesMut::from(&golden::line("handshakes", name)[..]);
        assert_eq!(take(&mut known, HELLO_BYTES_MAX), Ok(Some(message)));
    }
}

#[test]
fn handshake_of_another_version_is_refused_with_both_versions_and_what_to_do() {
    // Length and kind stand in front, and the magic of a hello.
    for (name, place) in [("hello", 13), ("welcome", 5)] {
        let mut bytes = golden::line("handshakes", name);
        bytes[place] += 1;
        let refused = take(&mut BytesMut::from(&bytes[..]), HELLO_BYTES_MAX).unwrap_err().to_string();
        assert!(refused.starts_with("handshake of peers has version 4, and this build"), "{refused}");
        assert!(refused.contains("reads up to 3: install here the release of hive that wrote it"), "{refused}");
    }
}
