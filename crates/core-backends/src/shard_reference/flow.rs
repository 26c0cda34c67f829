//! What a flow does next: a pure function of the flow and of what its shards tell of themselves.
//!
//! The runner keeps nothing. It reads the flow and the shards, asks [`decide`], does the one step, and reads
//! again. So a crash anywhere, a step done twice, or two runners at once come to the same.
//!
//! Always: nothing is given up once a source may have been cut over; a source is cut over only with the
//! targets' own digests; targets serve only when all sources have stopped.
//! Not here: sending (core-node), what shards check for themselves (`shard/reshard.rs`).

use super::{Command, Flow, Phase};
use crate::shard::{
    self, ImportCursor, Peer, Range, RangeDigest, ShardInfo, ShardState, STEP_BYTES_MAX, STEP_ROWS_MAX,
};
use bytes::Bytes;

/// So many doubled writes behind, a source may be frozen: the rest is one step.
pub const FEED_CLOSE: u64 = 256;
/// How long a source stands still for its cut-over at most; a runner that dies frees it so.
pub const CUT_FREEZE_MS: u32 = 1_000;

/// The next thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Tell the map.
    Map(Command),
    /// Make the cluster of this target.
    MakeCluster { target: usize },
    /// Tell a source.
    Source { source: usize, command: shard::Command },
    /// Tell a target.
    Target { target: usize, command: shard::Command },
    /// Ask the source with [`copy_query`], tell the target with [`import_of`].
    Copy { source: usize, target: usize },
    /// Nothing is left to do.
    Done,
    /// Only a person can go on: it should not happen.
    Stuck { why: &'static str },
}

/// What is known of a shard of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Its cluster does not exist.
    NoCluster,
    /// The cluster is there, without a shard.
    Empty,
    Shard(Box<ShardInfo>),
}

impl Seen {
    fn info(&self) -> Option<&ShardInfo> {
        match self {
            Seen::Shard(info) => Some(info.as_ref()),
            _ => None,
        }
    }
}

/// The peers that share keys with a range, in order.
fn meeting(peers: &[Peer], range: &Range) -> Vec<Peer> {
    peers.iter().filter(|peer| peer.range.meet(range).is_some()).cloned().collect()
}

/// The place of a source among those a target takes rows from.
fn place_of(flow: &Flow, source: usize, target: usize) -> Option<usize> {
    let range = &flow.targets[target].range;
    flow.sources[source].range.meet(range)?;
    Some(flow.sources[..source].iter().filter(|peer| peer.range.meet(range).is_some()).count())
}

/// Pairs of source and target that share keys, with the target's cursor for the source.
fn pairs<'a>(flow: &Flow, targets: &'a [ShardInfo]) -> Vec<(usize, usize, &'a ImportCursor)> {
    let mut found = Vec::new();
    for source in 0..flow.sources.len() {
        for (target, info) in targets.iter().enumerate() {
            let place = place_of(flow, source, target);
            found.extend(place.and_then(|place| info.cursors.get(place)).map(|cursor| (source, target, cursor)));
        }
    }
    found
}

/// The next step of a flow. `sources` and `targets` as they are now, in the flow's order.
pub fn decide(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Step {
    match flow.phase {
        Phase::Planned => match targets.iter().position(|seen| *seen == Seen::NoCluster) {
            Some(target) => Step::MakeCluster { target },
            None => Step::Map(Command::Advance { flow: flow.flow, from: Phase::Planned, to: Phase::Copying }),
        },
        Phase::Copying => decide_copying(flow, sources, targets),
        Phase::Cutting => decide_cutting(flow, sources, targets),
        Phase::Switched => Step::Map(Command::Finish { flow: flow.flow }),
        Phase::Aborting => {
            let doubling = |seen: &Seen| seen.info().is_some_and(|info| info.state == ShardState::Splitting);
            match sources.iter().position(doubling) {
                Some(source) => {
                    let command = shard::Command::AbortSplit { epoch: flow.sources[source].epoch };
                    Step::Source { source, command }
                }
                None => Step::Map(Command::Finish { flow: flow.flow }),
            }
        }
    }
}

fn abort(flow: &Flow) -> Step {
    Step::Map(Command::Advance { flow: flow.flow, from: flow.phase, to: Phase::Aborting })
}

/// All as shards; else the step that makes the missing one.
fn all_made(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Result<(Vec<ShardInfo>, Vec<ShardInfo>), Box<Step>> {
    let known: Option<Vec<ShardInfo>> = sources.iter().map(|seen| seen.info().cloned()).collect();
    let sources = known.ok_or(Box::new(Step::Stuck { why: "a source's shard is gone" }))?;
    for (target, seen) in targets.iter().enumerate() {
        let peer = &flow.targets[target];
        match seen {
            Seen::NoCluster => return Err(Box::new(Step::MakeCluster { target })),
            Seen::Empty => {
                let (epoch, range) = (peer.epoch, peer.range.clone());
                let sources = meeting(&flow.sources, &range);
                let command = shard::Command::PrepareImport { epoch, range, sources };
                return Err(Box::new(Step::Target { target, command }));
            }
            Seen::Shard(_) => {}
        }
    }
    Ok((sources, targets.iter().filter_map(|seen| seen.info().cloned()).collect()))
}

fn decide_copying(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Step {
    let (sources, targets) = match all_made(flow, sources, targets) {
        Ok(made) => made,
        Err(step) => return *step,
    };
    let pairs = pairs(flow, &targets);
    for (source, info) in sources.iter().enumerate() {
        let begun = pairs.iter().any(|(from, _, cursor)| *from == source && **cursor != ImportCursor::default());
        let epoch = flow.sources[source].epoch;
        let own = meeting(&flow.targets, &flow.sources[source].range);
        match info.state {
            ShardState::Splitting if info.peers == own => {}
            // The split was ended (its feed grew too long), or is another's; what was copied is of no use.
            ShardState::Serving | ShardState::Splitting if begun => return abort(flow),
            // Left over from a flow that was given up, by a command that came late.
            ShardState::Splitting => return Step::Source { source, command: shard::Command::AbortSplit { epoch } },
            ShardState::Serving if info.feed > 0 => {
                return Step::Source { source, command: shard::Command::Sweep { limit: STEP_ROWS_MAX } };
            }
            ShardState::Serving => {
                return Step::Source { source, command: shard::Command::BeginSplit { epoch, targets: own } };
            }
            // The bucket is being deleted.
            ShardState::Closed => return abort(flow),
            _ => return Step::Stuck { why: "a source stopped before it was to be cut over" },
        }
    }
    for (source, target, cursor) in &pairs {
        if !cursor.copied || sources[*source].feed.saturating_sub(cursor.feed) > FEED_CLOSE {
            return Step::Copy { source: *source, target: *target };
        }
    }
    if let Some(step) = digest_next(flow, &sources, &targets) {
        return step;
    }
    Step::Map(Command::Advance { flow: flow.flow, from: Phase::Copying, to: Phase::Cutting })
}

fn digest_next(flow: &Flow, sources: &[ShardInfo], targets: &[ShardInfo]) -> Option<Step> {
    let unfinished = |info: &ShardInfo| {
        info.digests.is_none() && matches!(info.state, ShardState::Splitting | ShardState::Importing)
    };
    let limit = STEP_ROWS_MAX;
    if let Some(source) = sources.iter().position(unfinished) {
        let command = shard::Command::Digest { epoch: flow.sources[source].epoch, limit };
        return Some(Step::Source { source, command });
    }
    let target = targets.iter().position(unfinished)?;
    let command = shard::Command::Digest { epoch: flow.targets[target].epoch, limit };
    Some(Step::Target { target, command })
}

fn decide_cutting(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Step {
    let (sources, targets) = match all_made(flow, sources, targets) {
        Ok(made) => made,
        Err(_) => return Step::Stuck { why: "a target is gone while the sources are cut over" },
    };
    if let Some(source) = sources.iter().position(|info| info.state != ShardState::Retired) {
        return cut(flow, source, &sources, &targets);
    }
    let floor = sources.iter().map(|info| info.last_stamp).max().unwrap_or(0);
    match targets.iter().position(|info| info.state == ShardState::Importing) {
        Some(target) => {
            let epoch = flow.targets[target].epoch;
            Step::Target { target, command: shard::Command::Activate { epoch, stamp_floor: floor } }
        }
        None => Step::Map(Command::Switch { flow: flow.flow }),
    }
}

/// Brings one source to its end.
fn cut(flow: &Flow, source: usize, sources: &[ShardInfo], targets: &[ShardInfo]) -> Step {
    let info = &sources[source];
    let epoch = flow.sources[source].epoch;
    if info.state != ShardState::Splitting {
        return Step::Stuck { why: "a source no longer doubles its writes while it is to be cut over" };
    }
    let of_source: Vec<_> = pairs(flow, targets).into_iter().filter(|(from, ..)| *from == source).collect();
    let behind = of_source.iter().find(|(_, _, cursor)| cursor.feed < info.feed);
    if let Some((_, target, cursor)) = behind {
        if info.frozen || info.feed - cursor.feed > FEED_CLOSE {
            return Step::Copy { source, target: *target };
        }
    }
    if !info.frozen {
        return Step::Source { source, command: shard::Command::Freeze { epoch, lease_ms: CUT_FREEZE_MS } };
    }
    let digests: Option<Vec<RangeDigest>> = of_source
        .iter()
        .map(|(_, target, _)| targets[*target].digests.as_ref()?.get(place_of(flow, source, *target)?).cloned())
        .collect();
    match digests {
        Some(digests) => {
            let command = shard::Command::CutOver { epoch, feed: info.feed, digests };
            Step::Source { source, command }
        }
        None => digest_next(flow, sources, targets).unwrap_or(Step::Stuck { why: "a target has no digests" }),
    }
}

/// What the source is asked for a step of copying.
pub fn copy_query(flow: &Flow, source: usize, target: usize, info: &ShardInfo) -> Option<shard::Query> {
    let cursor = info.cursors.get(place_of(flow, source, target)?)?;
    let range = flow.sources[source].range.meet(&flow.targets[target].range)?;
    let epoch = flow.sources[source].epoch;
    Some(match cursor.copied {
        false => shard::Query::Export { epoch, range, after: cursor.after.clone(), bytes_max: STEP_BYTES_MAX as u32 },
        true => shard::Query::Feed { epoch, range, after: cursor.feed, limit: STEP_ROWS_MAX },
    })
}

/// What the target is told of the source's answer. `info`: the target's, as it was when the source was asked.
pub fn import_of(
    flow: &Flow,
    source: usize,
    target: usize,
    info: &ShardInfo,
    answer: shard::Reply,
) -> Option<shard::Command> {
    let place = place_of(flow, source, target)?;
    let expected = info.cursors.get(place)?.clone();
    let mut cursor = expected.clone();
    let rows: Vec<(Bytes, Option<Bytes>)> = match answer {
        shard::Reply::Rows { rows, more } => {
            cursor.copied = !more;
            cursor.after = rows.last().map_or(cursor.after, |(key, _)| key.clone());
            rows.into_iter().map(|(key, row)| (key, Some(row))).collect()
        }
        shard::Reply::Feed { rows, reached, .. } => {
            cursor.feed = reached;
            rows
        }
        _ => return None,
    };
    let epoch = flow.targets[target].epoch;
    Some(shard::Command::Import { epoch, source: place as u16, expected, cursor, rows })
}
