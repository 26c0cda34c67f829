//! The checks of a door's listeners, each with the namespace or database of clients that pick none.
//!
//! By design: the first listener is the one for all; no two doors of the node have an address in common.
//! Not here: whether a namespace or database exists (its clients hear).

use super::check::{check_listen, Checker};
use super::{ConfigError, NamedListenSection};
use std::net::SocketAddr;

/// The most addresses beside the first one.
const NAMED_MAX: usize = 256;

/// The words of a door.
pub(super) struct Named {
    /// Its section.
    pub door: &'static str,
    /// What a listener has.
    pub one: &'static str,
    /// The key of the list.
    pub many: &'static str,
}

/// `first`: address and name of the listener for all. `taken` are the other doors' addresses.
pub(super) fn check(
    checker: &Checker<'_>,
    words: &Named,
    first: (&str, &str),
    others: &[NamedListenSection],
    taken: &mut Vec<SocketAddr>,
) -> Result<Vec<(SocketAddr, String)>, ConfigError> {
    let Named { door, one, many } = words;
    if others.len() > NAMED_MAX {
        let what = format!("{door}.{many} has {} entries", others.len());
        let remedy = format!("list at most {NAMED_MAX}; clients pick others by their user, written user@{one}");
        return checker.refuse(what, &remedy);
    }
    let all = std::iter::once(first).chain(others.iter().map(|own| (own.listen.as_str(), own.name.as_str())));
    let mut listeners = Vec::new();
    for (listen, name) in all {
        if let Err(refusal) = core_keyspace::validate_name(name) {
            let line = checker.line(&format!("\"{name}\""), 0);
            return checker.refuse(format!("{line}{door} has the {one} {name:?}"), &refusal.message);
        }
        let address = check_listen(checker, door, listen)?;
        if address.port() != 0 && taken.contains(&address) {
            let what = format!("{door} and another door both listen on {address}");
            return checker.refuse(what, &format!("give each door, and each {one}, a port of its own"));
        }
        taken.push(address);
        listeners.push((address, name.to_owned()));
    }
    Ok(listeners)
}
