//! The listeners of the doors whose clients are in a namespace or a database, and what the node map says of them.
//!
//! By design: of each door first comes the listener for all; every thread of the door has a socket of its own at each listener.
//! Not here: what is served there (`etcd`, `redis`).

use super::{listen, local_address, StartError};
use crate::config::Config;
use crate::{etcd, redis};
use core_placement::Door;
use std::net::{SocketAddr, TcpListener};

/// Each with the name of what its clients are in.
pub(super) type Named = Vec<(String, Vec<TcpListener>)>;

/// Of all such doors.
pub(super) struct NamedListeners {
    pub etcd: Named,
    pub redis: Named,
}

/// Binds them.
pub(super) fn bind(config: &Config) -> Result<NamedListeners, StartError> {
    let of = |door: &'static str, listeners: &[(SocketAddr, String)], threads: usize| {
        let bind = |(address, name): &(SocketAddr, String)| {
            listen(door, *address, threads).map(|listeners| (name.clone(), listeners))
        };
        listeners.iter().map(bind).collect::<Result<Named, StartError>>()
    };
    Ok(NamedListeners {
        etcd: config.etcd.as_ref().map_or(Ok(Vec::new()), |etcd| of("etcd", &etcd.listeners, etcd.threads))?,
        redis: config.redis.as_ref().map_or(Ok(Vec::new()), |redis| of("redis", &redis.listeners, redis.threads))?,
    })
}

/// Where clients reach them, as the node map says.
pub(super) fn told(config: &Config, tls: bool, listeners: &NamedListeners) -> Vec<Door> {
    let (http, resp) = if tls { ("https", "rediss") } else { ("http", "redis") };
    let mut doors = of(config, &listeners.etcd, etcd::DOOR_PREFIX, http);
    doors.extend(of(config, &listeners.redis, redis::DOOR_PREFIX, resp));
    doors
}

/// A listener at all addresses of the host is reached by the host that the HTTP door advertises.
fn of(config: &Config, listeners: &Named, prefix: &str, scheme: &str) -> Vec<Door> {
    let advertised = config.http_advertise.rsplit_once(':').map_or(config.http_advertise.as_str(), |(host, _)| host);
    let door = |(name, listeners): &(String, Vec<TcpListener>)| {
        let address = local_address(listeners);
        let url = match address.ip().is_unspecified() {
            true => format!("{scheme}://{advertised}:{}", address.port()),
            false => format!("{scheme}://{address}"),
        };
        Door { name: format!("{prefix}{name}"), url }
    };
    listeners.iter().map(door).collect()
}
