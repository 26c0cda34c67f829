//! The checks of `[etcd]`.
//!
//! By design: as `check.rs`: the first finding, with its line and a remedy. The first listener is the one for all namespaces.
//! Not here: whether a namespace exists (its clients hear).

use super::check::Checker;
use super::listeners::{self, Named};
use super::{AutoCompaction, ConfigError, EtcdConfig, NodeFile};
use std::net::SocketAddr;
use std::time::Duration;

/// The most threads of the door.
const THREADS_MAX: usize = 64;
/// The greatest number in a retention.
const RETENTION_MAX: u64 = 1 << 40;
/// What its listeners are for.
const NAMED: Named = Named { door: "etcd", one: "namespace", many: "namespaces" };
/// The namespace of clients that name none.
const NAMESPACE_DEFAULT: &str = "etcd";

/// The door's configuration, where there is one. `taken` are the other doors' addresses.
pub(super) fn check(
    checker: &Checker<'_>,
    file: &NodeFile,
    taken: &mut Vec<SocketAddr>,
) -> Result<Option<EtcdConfig>, ConfigError> {
    let Some(section) = &file.etcd else { return Ok(None) };
    let first = (section.listen.as_str(), section.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT));
    let listeners = listeners::check(checker, &NAMED, first, &section.namespaces, taken)?;
    let cores = file.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let threads = section.threads.unwrap_or_else(|| (cores / 2).clamp(1, THREADS_MAX));
    if threads == 0 || threads > THREADS_MAX {
        let line = checker.line("threads =", 0);
        return checker.refuse(format!("{line}etcd.threads is {threads}"), "use 1 to 64, or leave it out");
    }
    let proxies = super::s3::check_proxies(checker, "etcd", &section.proxies)?;
    let auto_compaction = section.auto_compaction.as_deref().map(|text| check_compaction(checker, text)).transpose()?;
    Ok(Some(EtcdConfig { listeners, threads, auto_compaction, proxies }))
}

/// `90s`, `30m`, `12h`, `7d`, or a number of revisions.
fn check_compaction(checker: &Checker<'_>, text: &str) -> Result<AutoCompaction, ConfigError> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" => None,
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => Some(0),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0 && *number <= RETENTION_MAX);
    match (number, seconds) {
        (Some(revisions), None) => Ok(AutoCompaction::Revisions(revisions)),
        (Some(number), Some(unit)) if unit > 0 => {
            Ok(AutoCompaction::Periodic(Duration::from_secs(number.saturating_mul(unit))))
        }
        _ => {
            let line = checker.line("auto_compaction =", 0);
            let remedy = "write how long history is kept (90s, 30m, 12h, 7d), a number of revisions, or leave it out to keep all of it";
            checker.refuse(format!("{line}etcd.auto_compaction is {text:?}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retentions_are_times_or_counts() {
        let checker = Checker { path: "node.toml".as_ref(), text: "" };
        let read = |text: &str| check_compaction(&checker, text).ok();
        assert_eq!(read("90s"), Some(AutoCompaction::Periodic(Duration::from_secs(90))));
        assert_eq!(read("2h"), Some(AutoCompaction::Periodic(Duration::from_secs(7_200))));
        assert_eq!(read("1000"), Some(AutoCompaction::Revisions(1_000)));
        for wrong in ["", "0", "0h", "h", "1.5h", "1w", "-1h", "1h30m", "99999999999999999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
