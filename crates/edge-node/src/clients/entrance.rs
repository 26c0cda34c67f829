//! From an accepted connection to a client's stream: the proxy's header, TLS, the first byte.
//!
//! ```text
//! accepted ─▶ first byte ─▶ PROXY header (listed proxies) ─▶ a place among the handshakes ─▶ TLS ─▶ first byte of a request
//! ```
//!
//! Always: all of it has the time of a request's head, a handshake less; an address has its share of the handshakes, and one that
//! fails keeps its place a while, so that failing costs an outsider more than the node; who speaks HTTP to a port with TLS
//! hears so. What outsiders cause is logged at a bounded rate.
//! Held by: `half_open_handshakes_of_one_address_keep_no_other_out`, `slow_handshake_is_ended`.
//! Not here: room for connections (`connections`), which certificates are believed (`tls::doors`).

use super::handshakes::Handshakes;
use super::proxy::{self, Proxied};
use super::shares::Bounds;
use crate::config::Proxies;
use crate::quiet::Quiet;
use crate::tls::{Doors, Shown};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

/// Handshakes under way on one thread, in all and of one address; the others wait.
const HANDSHAKES: Bounds = Bounds { all: 256, one: 32 };
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a handshake that failed keeps its place: an address may fail `HANDSHAKES.one` times in it.
const FAILED_KEPT: Duration = Duration::from_millis(250);
/// What is read of a request that came without TLS.
const REQUEST_BYTES_READ: usize = 4096;

/// What becomes of connections to one door, on one thread.
pub struct Entrance {
    door: &'static str,
    tls: Option<Arc<Doors>>,
    proxies: Proxies,
    /// Whether TLS offers HTTP/2.
    http2: bool,
    handshakes: Rc<Handshakes>,
    /// A whole answer for who speaks HTTP to a port with TLS.
    no_tls: fn() -> String,
    quiet: Quiet,
}

/// A client that may send a request.
pub struct Guest {
    pub stream: DoorStream,
    pub address: IpAddr,
    /// Whether the client itself speaks TLS, with this node or with the proxy.
    pub secure: bool,
    pub shown: Shown,
}

/// A connection, with TLS or without.
pub enum DoorStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Of a program of this machine that may reach the node's data directory.
    Unix(UnixStream),
}

impl Entrance {
    /// Of a door; without `tls` it speaks plain text.
    pub fn new(door: &'static str, tls: Option<Arc<Doors>>, proxies: Proxies, no_tls: fn() -> String) -> Entrance {
        let (http2, handshakes) = (false, Handshakes::new(HANDSHAKES));
        Entrance { door, tls, proxies, http2, handshakes, no_tls, quiet: Quiet::default() }
    }

    /// The same of a door that speaks HTTP/2, too.
    pub fn with_http2(self) -> Entrance {
        Entrance { http2: true, ..self }
    }

    /// What this door shows, where it speaks TLS.
    pub fn doors(&self) -> Option<&Doors> {
        self.tls.as_deref()
    }

    /// Whether a few bytes of HTTP would be understood by who connects.
    pub fn speaks_plain_text(&self) -> bool {
        self.tls.is_none()
    }

    /// Lets a client in; `None` where it is refused, too slow, or gone.
    pub async fn enter(&self, mut stream: TcpStream, peer: SocketAddr, patience: Duration) -> Option<Guest> {
        let _ = stream.set_nodelay(true);
        // hyper's own timer begins with the first byte of a head: silence before it is timed here.
        timeout(patience, stream.readable()).await.ok()?.ok()?;
        let client = self.client(&mut stream, peer, patience).await?;
        let Some(doors) = &self.tls else {
            let (address, secure) = (client.address, client.secure);
            return Some(Guest { stream: DoorStream::Plain(stream), address, secure, shown: Shown::Nothing });
        };
        let stream = timeout(patience, self.turn_plain_text_away(stream)).await.ok()??;
        let (mut stream, shown) = self.shake_hands(doors, stream, client.address, patience).await?;
        let first = timeout(patience, stream.fill_buf()).await.ok()?.ok()?;
        if first.is_empty() {
            return None;
        }
        Some(Guest { stream: DoorStream::Tls(Box::new(stream)), address: client.address, secure: true, shown })
    }

    /// The client of a connection, also where a listed proxy made it.
    async fn client(&self, stream: &mut TcpStream, peer: SocketAddr, patience: Duration) -> Option<Proxied> {
        if !self.proxies.lists(peer.ip()) {
            // As policies write it, also where a listener on `[::]` sees it mapped into version 6.
            return Some(Proxied { address: peer.ip().to_canonical(), secure: false });
        }
        match timeout(patience, proxy::client(stream, peer)).await {
            Ok(Ok(client)) => return Some(client),
            Ok(Err(error)) => {
                if let Some(suppressed) = self.quiet.allow() {
                    tracing::warn!(door = self.door, proxy = %peer.ip(), %error, suppressed, "a connection of a proxy was refused");
                }
            }
            Err(_) => {}
        }
        None
    }

    /// A TLS connection begins with record type 22, a request with a letter (Redis': or with a star).
    async fn turn_plain_text_away(&self, mut stream: TcpStream) -> Option<TcpStream> {
        let mut first = [0; 1];
        let seen = stream.peek(&mut first).await.ok()?;
        if seen == 0 || !(first[0].is_ascii_alphabetic() || first[0] == b'*') {
            return Some(stream);
        }
        let _ = stream.write_all((self.no_tls)().as_bytes()).await;
        // The request is read before the end, or the answer would be lost to a reset; a bounded part of it is enough.
        let mut rest = [0; REQUEST_BYTES_READ];
        let _ = stream.read(&mut rest).await;
        let _ = stream.shutdown().await;
        None
    }

    async fn shake_hands(
        &self,
        doors: &Doors,
        stream: TcpStream,
        from: IpAddr,
        patience: Duration,
    ) -> Option<(TlsStream<TcpStream>, Shown)> {
        let place = timeout(patience, self.handshakes.wait(from)).await.ok()??;
        let identity = doors.current();
        let accepting =
            TlsAcceptor::from(if self.http2 { identity.server_http2.clone() } else { identity.server.clone() })
                .accept(stream);
        let reason = match timeout(HANDSHAKE_TIMEOUT.min(patience), accepting).await {
            Ok(Ok(stream)) => {
                let shown = identity.shown(stream.get_ref().1);
                return Some((stream, shown));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".into(),
        };
        if let Some(suppressed) = self.quiet.allow() {
            tracing::warn!(door = self.door, %from, reason, suppressed, "a client's TLS handshake failed");
        }
        tokio::time::sleep(FAILED_KEPT).await;
        drop(place);
        None
    }
}

impl AsyncRead for DoorStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            DoorStream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, into),
            DoorStream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            DoorStream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            DoorStream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            DoorStream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            DoorStream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            DoorStream::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, pieces),
            DoorStream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            DoorStream::Plain(stream) => stream.is_write_vectored(),
            DoorStream::Tls(stream) => stream.is_write_vectored(),
            DoorStream::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Plain(stream) => Pin::new(stream).poll_flush(context),
            DoorStream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            DoorStream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            DoorStream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            DoorStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
