//! Commands and queries of a bucket's map (docs/formats/s3-rows.md).

use crate::shard::{Peer, Range};
use crate::wire::{wire_enum, wire_struct};
use bytes::Bytes;

/// The most flows of one bucket at a time.
pub const FLOWS_MAX: u32 = 64;
/// The most shards merged by one flow.
pub const SOURCES_MAX: usize = crate::shard::PEERS_MAX;
/// The most shards one flow makes.
pub const TARGETS_MAX: usize = crate::shard::PEERS_MAX;
/// The most entries one page of the map has.
pub const MAP_PAGE_MAX: u32 = 1000;

wire_enum! {
    /// Where a flow is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Phase {
        /// The targets' clusters are being made.
        1 => Planned,
        /// Writes are doubled, rows copied.
        2 => Copying,
        /// Sources are being cut over. The flow can no longer be given up, unless no source was cut over and one cannot
        /// be.
        3 => Cutting,
        /// The map names the targets.
        4 => Switched,
        /// Given up.
        5 => Aborting,
    }
}

impl Phase {
    /// Whether `Advance` may go from here to there.
    pub fn leads_to(self, to: Phase) -> bool {
        matches!(
            (self, to),
            (Phase::Planned, Phase::Copying)
                | (Phase::Copying, Phase::Cutting)
                | (Phase::Planned | Phase::Copying | Phase::Cutting, Phase::Aborting)
        )
    }
}

wire_struct! {
    /// A shard in the map.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Entry {
        /// Its number: cluster `shard@<bucket id>-<number>`.
        pub shard: u64,
        pub epoch: u64,
        pub range: Range,
        /// The flow it is a source of; or, where that has switched and is not finished, a target.
        pub flow: Option<u64>,
    }
}

wire_struct! {
    /// The head of the map.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Head {
        /// Grows with each switch.
        pub version: u64,
        pub last_shard: u64,
        pub last_epoch: u64,
        pub last_flow: u64,
        /// Flows under way.
        pub flows: u32,
        /// The bucket is being deleted: no flow is begun.
        pub closed: bool,
    }
}

wire_struct! {
    /// A split (one source), a merge (one target), or any change of neighbours.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Flow {
        pub flow: u64,
        pub phase: Phase,
        pub sources: Vec<Peer>,
        pub targets: Vec<Peer>,
        /// Cluster time it was planned at.
        pub since_ms: u64,
    }
}

impl Flow {
    /// Whether its source stays, and gives the keys behind all it has to a new shard. Then the targets are the source
    /// in its next epoch and the new shard, both with the whole range: where the cut lies the source decides.
    pub fn narrows(&self) -> bool {
        matches!((&self.sources[..], &self.targets[..]), ([source], [same, _]) if source.shard == same.shard)
    }
}

wire_struct! {
    /// A shard whose cluster is to be dropped, once no snapshot reads it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Retired {
        pub peer: Peer,
        pub since_ms: u64,
    }
}

wire_enum! {
    /// A change.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Command {
        /// One shard for all keys; told again it changes nothing.
        1 => Initialize,
        /// Neighbouring shards (number, epoch) become new ones, cut at these keys.
        2 => Plan { sources: Vec<(u64, u64)>, cuts: Vec<Bytes> },
        3 => Advance { flow: u64, from: Phase, to: Phase },
        4 => Switch { flow: u64 },
        5 => Finish { flow: u64 },
        /// The cluster of a retired shard is gone.
        6 => Forget { shard: u64 },
        /// The bucket is about to go: no flow is begun from now on. Refused while one is under way.
        7 => Close,
        /// The bucket stays.
        8 => Reopen,
        /// A shard (number, epoch) gives the keys behind all it has to a new one.
        9 => PlanNarrow { source: (u64, u64) },
        /// It has: the new one begins at `cut`. None: there was nothing to give.
        10 => SwitchNarrow { flow: u64, cut: Option<Bytes> },
    }
}

wire_enum! {
    /// A question.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Query {
        1 => Head,
        2 => Locate { key: Bytes },
        /// Entries from the one that holds `start` on.
        3 => Map { start: Bytes, limit: u32 },
        4 => Flow { flow: u64 },
        5 => Flows,
        6 => Retired { after: u64, limit: u32 },
    }
}

wire_enum! {
    /// What a command or query comes to.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Reply {
        1 => Done,
        2 => Head { head: Head },
        3 => Entries { version: u64, entries: Vec<Entry>, more: bool },
        4 => Flow { flow: Flow },
        5 => Flows { flows: Vec<Flow> },
        6 => Retired { shards: Vec<Retired>, more: bool },
    }
}
