//! The next connection of a door's listener.
//!
//! By design: a listener that fails (out of descriptors) is tried again after a pause, and said at a bounded rate.
//! Not here: room for the connection (`connections`), its first bytes (`entrance`).

use super::Connections;
use crate::quiet::Quiet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The pause after the listener itself failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection; none once draining has begun.
pub async fn next(
    listener: &TcpListener,
    draining: &mut watch::Receiver<bool>,
    door: &'static str,
    quiet: &Quiet,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                if let Some(suppressed) = quiet.allow() {
                    tracing::warn!(door, %error, suppressed, "the door cannot accept connections; it retries");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Says that a client was turned away, for there is no room.
pub fn turned_away(room: &Connections, from: IpAddr, door: &'static str, quiet: &Quiet) {
    if let Some(suppressed) = quiet.allow() {
        tracing::warn!(door, limit = room.max(), %from, suppressed, "more connections than limits.connections_max, or more from one address than three quarters of it; a client was turned away");
    }
}
