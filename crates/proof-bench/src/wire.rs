//! A connection of the load: raw TCP, or TLS where the world's endpoints are `https://`.
//!
//! By design: what is not `https://` costs nothing more than TCP. Not here: requests (`load`).

use hive_client::Tls;
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long TLS may take on it: all clients of a run shake hands at once.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// What this process's measurements trust and show, set once before they begin.
static TLS: OnceLock<Tls> = OnceLock::new();

/// Speaks TLS with `https://` endpoints from now on.
pub(crate) fn use_tls(tls: &Tls) {
    let _ = TLS.set(tls.clone()); // A process measures one world that it did not start.
}

/// A connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to `host:port` or `https://host:port`.
pub(crate) async fn connect(endpoint: &str) -> Option<Wire> {
    let Some(address) = endpoint.strip_prefix("https://") else {
        return connect_plain(endpoint).await.map(Wire::Plain);
    };
    let (stream, tls) = (connect_plain(address).await?, TLS.get()?);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let stream = timeout(TLS_TIMEOUT, tls.connect(host, stream)).await.ok()?.ok()?;
    Some(Wire::Tls(Box::new(stream)))
}

/// Connects to `host:port` without TLS.
pub(crate) async fn connect_plain(address: &str) -> Option<TcpStream> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.ok()?.ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Wire::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
