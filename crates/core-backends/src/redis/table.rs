//! Which function carries a command out. Each file has the commands of its own; what is known of them beside (words, keys, whether they
//! write) is in `base_types::redis`.
//!
//! Always: a command runs as what `base_types::redis` says it is, a read or a write.
//! Held by: `every_command_runs_as_what_it_is`.

use super::store::{Store, View};
use super::{
    bits, channels, dump, expiry, geo, hashes, hyperloglog, keys, lists, sets, sort, sorted, streams, strings, Done,
};
use base_types::redis::{CommandSpec, Group};
use bytes::Bytes;

pub(super) type ReadRun = fn(&View<'_>, &[Bytes]) -> Done;
pub(super) type WriteRun = fn(&mut Store<'_>, &[Bytes]) -> Done;

#[derive(Clone, Copy)]
pub(super) enum Run {
    Read(ReadRun),
    Write(WriteRun),
}

/// A command, by its name in lower case, and what carries it out.
pub(super) type Entry = (&'static str, Run);

pub(super) const fn read(name: &'static str, run: ReadRun) -> Entry {
    (name, Run::Read(run))
}

pub(super) const fn write(name: &'static str, run: WriteRun) -> Entry {
    (name, Run::Write(run))
}

const fn of_group(group: Group) -> &'static [&'static [Entry]] {
    match group {
        Group::String => &[strings::COMMANDS],
        Group::Bitmap => &[bits::COMMANDS, bits::field::COMMANDS],
        Group::HyperLogLog => &[hyperloglog::COMMANDS],
        Group::Geo => &[geo::COMMANDS],
        Group::Generic => &[keys::COMMANDS, expiry::COMMANDS, sort::COMMANDS, dump::COMMANDS],
        Group::Server => &[keys::COMMANDS],
        Group::Hash => &[hashes::COMMANDS],
        Group::List => &[lists::COMMANDS],
        Group::Set => &[sets::COMMANDS],
        Group::SortedSet => &[sorted::COMMANDS],
        Group::Stream => &[streams::COMMANDS],
        Group::PubSub => &[channels::COMMANDS],
        _ => &[],
    }
}

/// `None`: the backend does not have this command.
pub(super) fn run_of(spec: &CommandSpec) -> Option<Run> {
    let mut entries = of_group(spec.group).iter().copied().flatten();
    entries.find(|entry| entry.0 == spec.name).map(|entry| entry.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::redis::{Use, COMMANDS};

    #[test]
    fn every_command_runs_as_what_it_is() {
        for spec in COMMANDS {
            match run_of(spec) {
                Some(Run::Read(_)) => assert_eq!(spec.how, Use::Read, "{}", spec.name),
                Some(Run::Write(_)) => assert_eq!(spec.how, Use::Write, "{}", spec.name),
                None => {}
            }
        }
        let known = |entry: &Entry| base_types::redis::find(entry.0.as_bytes()).is_some();
        let tables = [strings::COMMANDS, keys::COMMANDS, expiry::COMMANDS, sort::COMMANDS, dump::COMMANDS];
        let more = [hashes::COMMANDS, lists::COMMANDS, sets::COMMANDS, sorted::COMMANDS, streams::COMMANDS];
        let rest = [channels::COMMANDS, bits::COMMANDS, bits::field::COMMANDS, hyperloglog::COMMANDS, geo::COMMANDS];
        for table in tables.into_iter().chain(more).chain(rest) {
            assert!(table.iter().all(known));
        }
    }
}
