//! Connections other nodes dial to this one.
//!
//! Always: nothing of a connection is believed before its certificate and hello agree; at most `HANDSHAKES` are in doubt at a
//! time, of one source an eighth of them, and no byte is read of any beyond that; what an outsider can cause is logged at a
//! bounded rate.
//! Held by: `half_open_handshakes_keep_no_other_address_out`, `only_a_node_of_this_world_gets_in`.

use super::wire::{encode, take, Hello, Message, HELLO_BYTES_MAX, MESSAGE_BYTES_MAX};
use super::{Own, PeerSet, CONNECT_TIMEOUT, SILENCE_MAX};
use crate::clients::handshakes::{Handshake, Handshakes};
use crate::clients::shares::Bounds;
use crate::lane::door::LaneDoor;
use crate::mailbox::Sender;
use crate::quiet::Quiet;
use crate::tls::{Identities, Lasting};
use base_types::{ErrorCode, FormatLevel, LaneId, NodeId, Refusal};
use bytes::{Bytes, BytesMut};
use core_node::api::Event;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

/// Handshakes under way on one thread, in all and of one source. A node that is turned away dials again after 20 ms.
const HANDSHAKES: Bounds = Bounds { all: 256, one: 32 };
/// Peers' connections on one thread.
const CONNECTIONS_MAX: usize = 65_536;
/// What a read asks for.
const READ_BYTES: usize = 64 << 10;
/// A buffer that has grown beyond this is given back when it is empty.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// What is read of an HTTP request that came to the peer port.
const REQUEST_BYTES_READ: usize = 4096;
/// The pause after the listener itself failed (out of descriptors).
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Where a lane of this node is, seen from one thread.
pub enum LaneRoute {
    Here(Rc<LaneDoor>),
    There(Sender<Event>),
}

/// What the accepting side of one thread needs.
pub struct Acceptor {
    pub own: Own,
    pub identities: Arc<Identities>,
    /// All lanes of the node.
    pub routes: Vec<LaneRoute>,
    /// The connections of the lanes of this thread: told of peers that come and go.
    pub sets: Vec<Rc<PeerSet>>,
    pub state: AcceptState,
}

/// Counts of one thread.
pub struct AcceptState {
    handshakes: Rc<Handshakes>,
    connections: Cell<usize>,
    quiet: Quiet,
}

impl Default for AcceptState {
    fn default() -> AcceptState {
        AcceptState { handshakes: Handshakes::new(HANDSHAKES), connections: Cell::default(), quiet: Quiet::default() }
    }
}

/// Counts one up while it lives.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(cell: &'a Cell<usize>) -> Counted<'a> {
        cell.set(cell.get() + 1);
        Counted(cell)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Somebody took the peer port for the HTTP door: gets an answer in words it understands, instead of a broken connection.
async fn turn_http_away(mut stream: TcpStream) -> Result<TcpStream, String> {
    let mut first = [0; 1];
    let seen = stream.peek(&mut first).await.map_err(|error| error.to_string())?;
    // A TLS connection begins with record type 22, a request with a letter.
    if seen == 0 || !first[0].is_ascii_uppercase() {
        return Ok(stream);
    }
    let message = "this is the peer port, for other nodes only; ask the HTTP port ([http] in node.toml)";
    let (_, body) = door_http::write_error(&Refusal::new(ErrorCode::InvalidRequest, message).into());
    let body = String::from_utf8_lossy(&body) + "\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.map_err(|error| error.to_string())?;
    // The request is read before the end, or the answer would be lost to a reset; a bounded part of it is enough.
    let mut rest = [0; REQUEST_BYTES_READ];
    let _ = stream.read(&mut rest).await;
    let _ = stream.shutdown().await;
    Err("it speaks HTTP; this is the peer port".into())
}

impl Acceptor {
    /// Accepts until dropped.
    pub async fn run(self: Rc<Self>, listener: TcpListener) {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.complain("-", &format!("accepting failed: {error}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if self.state.connections.get() >= CONNECTIONS_MAX {
                self.complain(&address.to_string(), "too many connections at a time");
                continue;
            }
            let Some(handshake) = self.state.handshakes.begin(address.ip()) else {
                self.complain(&address.to_string(), "too many handshakes at a time, in all or from this address");
                continue;
            };
            let own = self.clone();
            tokio::task::spawn_local(async move {
                if let Err(reason) = own.serve(stream, handshake).await {
                    own.complain(&address.to_string(), &reason);
                }
            });
        }
    }

    fn complain(&self, from: &str, reason: &str) {
        if let Some(suppressed) = self.state.quiet.allow() {
            tracing::warn!(from, reason, suppressed, "a connection to the peer port was refused");
        }
    }

    /// `Err`: it was refused. A connection that was good and ended is nothing to tell.
    async fn serve(&self, stream: TcpStream, handshake: Handshake) -> Result<(), String> {
        let shaken = timeout(CONNECT_TIMEOUT, self.shake_hands(stream)).await;
        let (stream, buffer, hello, lasting) = shaken.map_err(|_| "the handshake took too long".to_string())??;
        drop(handshake);
        let _connection = Counted::new(&self.state.connections);
        self.sets.iter().for_each(|set| set.incoming(hello.node, true));
        let reason = tokio::select! {
            reason = self.receive(stream, buffer, hello.node) => reason,
            reason = self.identities.over(lasting) => reason.into(),
        };
        self.sets.iter().for_each(|set| set.incoming(hello.node, false));
        tracing::debug!(node = %hello.node, lane = hello.lane.0, %reason, "connection from a peer ended");
        Ok(())
    }

    /// The stream, what came after the hello, the hello, and how long the certificates allow.
    async fn shake_hands(&self, stream: TcpStream) -> Result<(TlsStream<TcpStream>, BytesMut, Hello, Lasting), String> {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream = turn_http_away(stream).await?;
        let identity = self.identities.current();
        let accepted = TlsAcceptor::from(identity.server.clone()).accept(stream).await;
        let mut stream = accepted.map_err(|error| format!("TLS: {error}"))?;
        let mut buffer = BytesMut::with_capacity(HELLO_BYTES_MAX);
        let hello = loop {
            match take(&mut buffer, HELLO_BYTES_MAX).map_err(|error| format!("hello: {error}"))? {
                Some(Message::Hello(hello)) => break hello,
                Some(_) => return Err("it did not say hello".into()),
                None => {}
            }
            if stream.read_buf(&mut buffer).await.map_err(|error| error.to_string())? == 0 {
                return Err("it closed the connection before its hello".into());
            }
        };
        let verdict = self.judge(&hello).and_then(|()| {
            let chain = stream.get_ref().1.peer_certificates().unwrap_or(&[]);
            identity.check(chain, hello.node).map_err(|reason| format!("certificate of node {}: {reason}", hello.node))
        });
        let answer = match &verdict {
            Ok(_) => Message::Welcome { node: self.own.node, boot: self.own.boot, lane_count: self.own.lane_count },
            Err(reason) => {
                let level = FormatLevel(self.own.level.load(Ordering::Relaxed));
                let incarnation = self.own.incarnation.load(Ordering::Relaxed);
                Message::Refused { reason: reason.clone(), incarnation, level }
            }
        };
        stream.write_all(&encode(&answer)).await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        verdict.map(|lasting| (stream, buffer, hello, lasting))
    }

    fn judge(&self, hello: &Hello) -> Result<(), String> {
        let own = &self.own;
        if hello.world != own.world {
            let world: String = hello.world.chars().take(64).collect();
            return Err(format!("world {world:?} is not {:?}", own.world));
        }
        let incarnation = own.incarnation.load(Ordering::Relaxed);
        if hello.incarnation < incarnation {
            return Err(format!(
                "the data of node {} is of incarnation {} of world {:?}, which is {incarnation} now (restored or recovered since); stop it, move its data directory away and start it",
                hello.node, hello.incarnation, own.world
            ));
        }
        let level = FormatLevel(own.level.load(Ordering::Relaxed));
        if hello.level_max < level {
            return Err(format!(
                "world {:?} is at format level {level}, and the build of node {} serves up to {}: {}",
                own.world,
                hello.node,
                hello.level_max,
                base_types::format_level::remedy(level, None)
            ));
        }
        if hello.to != own.node {
            return Err(format!("this is node {}, not {}", own.node, hello.to));
        }
        if hello.node == own.node {
            return Err(format!("node {} is this node; is its id used twice?", hello.node));
        }
        Ok(())
    }

    /// Takes frames until the connection is lost; why it was.
    async fn receive(&self, mut stream: TlsStream<TcpStream>, mut buffer: BytesMut, from: NodeId) -> String {
        loop {
            loop {
                match take(&mut buffer, MESSAGE_BYTES_MAX) {
                    Ok(Some(Message::Frame { lane, frame })) => {
                        if let Err(reason) = self.deliver(from, lane, frame).await {
                            return reason;
                        }
                    }
                    Ok(Some(Message::Ping)) => {
                        let pong = encode(&Message::Pong);
                        let written = async { stream.write_all(&pong).await.and(stream.flush().await) };
                        match timeout(SILENCE_MAX, written).await {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => return error.to_string(),
                            Err(_) => return "it does not read its pongs".into(),
                        }
                    }
                    Ok(Some(_)) => return "a message that does not belong here".into(),
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                }
            }
            if buffer.is_empty() && buffer.capacity() > BUFFER_KEPT_BYTES {
                buffer = BytesMut::new();
            }
            buffer.reserve(READ_BYTES);
            match timeout(SILENCE_MAX, stream.read_buf(&mut buffer)).await {
                Ok(Ok(0)) => return "closed by the peer".into(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return format!("nothing heard for {} ms", SILENCE_MAX.as_millis()),
            }
        }
    }

    async fn deliver(&self, from: NodeId, lane: LaneId, frame: Bytes) -> Result<(), String> {
        match self.routes.get(usize::from(lane.0)) {
            Some(LaneRoute::Here(door)) => {
                door.room().await;
                door.push(Event::Frame { from, frame });
                Ok(())
            }
            Some(LaneRoute::There(mailbox)) => {
                mailbox.send(Event::Frame { from, frame }).await.map_err(|_| "this node is stopping".to_string())
            }
            // A node that came back with fewer lanes: the sender learns it from the node map.
            None => Ok(()),
        }
    }
}
