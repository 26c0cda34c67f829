//! The checks of `[etcd]`.
//!
//! Always: as `check.rs`: the first finding, with its line and a remedy. The first listener is the one for all namespaces.
//! Not here: whether a namespace exists (its clients hear).

use super::check::{check_listen, Checker};
use super::{ConfigError, EtcdConfig, NodeFile};
use std::net::SocketAddr;

/// The most threads of the door.
const THREADS_MAX: usize = 64;
/// The most namespaces with an address of their own.
const NAMESPACES_MAX: usize = 256;
/// The namespace of clients that name none.
const NAMESPACE_DEFAULT: &str = "etcd";

/// The door's configuration, where there is one. `taken` are the other doors' addresses.
pub(super) fn check(
    checker: &Checker<'_>,
    file: &NodeFile,
    taken: &mut Vec<SocketAddr>,
) -> Result<Option<EtcdConfig>, ConfigError> {
    let Some(section) = &file.etcd else { return Ok(None) };
    if section.namespaces.len() > NAMESPACES_MAX {
        let what = format!("etcd.namespaces has {} entries", section.namespaces.len());
        return checker.refuse(what, "list at most 256; clients pick others by their user, written user@namespace");
    }
    let first = section.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let all = std::iter::once((section.listen.as_str(), first));
    let all = all.chain(section.namespaces.iter().map(|own| (own.listen.as_str(), own.name.as_str())));
    let mut listeners = Vec::new();
    for (listen, namespace) in all {
        if let Err(refusal) = core_keyspace::validate_name(namespace) {
            let line = checker.line(&format!("\"{namespace}\""), 0);
            let what = format!("{line}etcd has the namespace {namespace:?}");
            return checker.refuse(what, &refusal.message);
        }
        let address = check_listen(checker, "etcd", listen)?;
        if address.port() != 0 && taken.contains(&address) {
            let what = format!("etcd and another door both listen on {address}");
            return checker.refuse(what, "give each door, and each namespace, a port of its own");
        }
        taken.push(address);
        listeners.push((address, namespace.to_owned()));
    }
    let cores = file.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let threads = section.threads.unwrap_or_else(|| (cores / 2).clamp(1, THREADS_MAX));
    if threads == 0 || threads > THREADS_MAX {
        let line = checker.line("threads =", 0);
        return checker.refuse(format!("{line}etcd.threads is {threads}"), "use 1 to 64, or leave it out");
    }
    let proxies = super::s3::check_proxies(checker, "etcd", &section.proxies)?;
    Ok(Some(EtcdConfig { listeners, threads, proxies }))
}
