//! The checks of `[redis]`.
//!
//! By design: as `check.rs`: the first finding, with its line and a remedy.
//! Not here: whether a database exists (its clients hear).

use super::check::Checker;
use super::listeners::{self, Named};
use super::{ConfigError, NodeFile, RedisConfig};
use std::net::SocketAddr;

/// The most threads of the door.
const THREADS_MAX: usize = 64;
/// One thread gathers the commands of all its connections: the more of them, the fewer entries of the log.
const THREADS_DEFAULT: usize = 1;
/// The database of clients that pick none.
const DATABASE_DEFAULT: &str = "redis";
/// What its listeners are for.
const NAMED: Named = Named { door: "redis", one: "database", many: "databases" };

/// The door's configuration, where there is one. `taken` are the other doors' addresses.
pub(super) fn check(
    checker: &Checker<'_>,
    file: &NodeFile,
    taken: &mut Vec<SocketAddr>,
) -> Result<Option<RedisConfig>, ConfigError> {
    let Some(section) = &file.redis else { return Ok(None) };
    let first = (section.listen.as_str(), section.database.as_deref().unwrap_or(DATABASE_DEFAULT));
    let listeners = listeners::check(checker, &NAMED, first, &section.databases, taken)?;
    let threads = section.threads.unwrap_or(THREADS_DEFAULT);
    if threads == 0 || threads > THREADS_MAX {
        let line = checker.line("threads =", 0);
        return checker.refuse(format!("{line}redis.threads is {threads}"), "use 1 to 64, or leave it out");
    }
    let proxies = super::s3::check_proxies(checker, "redis", &section.proxies)?;
    Ok(Some(RedisConfig { listeners, threads, proxies }))
}
