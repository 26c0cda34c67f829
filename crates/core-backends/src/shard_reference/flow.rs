//! What a flow does next: a pure function of the flow and of what its shards tell of themselves.
//!
//! The runner keeps nothing. It reads the flow and the shards, asks [`decide`], does the one step, and reads
//! again. So a crash anywhere, a step done twice, or two runners at once come to the same.
//!
//! Always: a flow is not given up once a source may have been cut over. While sources are being cut over, it is given up only if
//! none was, and one of them serves again by itself. A source is cut over only with the targets' own digests; several are cut
//! over in one round, when all of them can be. Targets serve only when all sources have stopped. The map is switched at the same
//! time as targets are activated: until then they refuse, and a flow that has switched ends only when all targets serve. A flow
//! that narrows copies nothing: its source learns where its range ends, the new shard begins there, and the map follows.
//! Held by: `a_flow_that_has_switched_ends_only_when_its_targets_serve`, `a_flow_whose_sides_are_not_equal_is_given_up_before_any_source_is_cut_over`, `flows_come_to_their_end_whatever_their_runners_do`.
//! Not here: sending (core-node), what shards check for themselves (`shard/reshard.rs`).

use super::{Command, Flow, Phase};
use crate::shard::{
    self, ImportCursor, Peer, Range, RangeDigest, ShardInfo, ShardState, STEP_BYTES_MAX, STEP_ROWS_MAX,
};
use bytes::Bytes;

/// A source may be frozen when its targets lack at most so many doubled writes: the rest is one small step. Where more writes
/// than this arrive during every round (many writers, long distances), the runner accepts more, up to the other bound, and
/// writers wait for the rest.
pub const FEED_CLOSE: u64 = 64;
pub const FEED_CLOSE_MAX: u64 = 2 * FEED_WRITES as u64;
/// The most writes in one page of a feed; each changes some four rows.
pub const FEED_WRITES: u32 = STEP_ROWS_MAX / 4;
/// How long a source is frozen for its cut-over where rounds are quick; where they are not, the runner asks for a longer
/// time. If the runner dies, the freeze expires.
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
    /// Ask the source for rows with [`export_query`], tell the target with [`import_of`].
    Copy { source: usize, target: usize },
    /// Ask the source for its feed with [`feed_query`], tell each of the targets its part ([`feed_part`]) with [`import_of`].
    Feed { source: usize, targets: Vec<usize> },
    /// Nothing is left to do.
    Done,
    /// Only a person can resolve it; it should not happen.
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
    decide_all(flow, sources, targets, FEED_CLOSE).into_iter().next().unwrap_or(Step::Done)
}

/// All steps that may be done next, side by side: none waits for another. `close`: how many doubled writes a target may be behind
/// when its source is frozen.
pub fn decide_all(flow: &Flow, sources: &[Seen], targets: &[Seen], close: u64) -> Vec<Step> {
    let steps = match flow.phase {
        Phase::Planned => missing_clusters(targets),
        Phase::Copying if flow.narrows() => before_narrowing(flow, &sources[0]),
        Phase::Cutting if flow.narrows() => return narrowing(flow, &sources[0], &targets[1]),
        Phase::Copying => decide_copying(flow, sources, targets, close),
        Phase::Cutting => decide_cutting(flow, sources, targets, close),
        Phase::Switched if flow.narrows() => Vec::new(),
        Phase::Switched => activations(flow, sources, targets),
        Phase::Aborting if sources.iter().any(is_retired) => {
            vec![Step::Stuck { why: "a source was cut over, although the flow was given up" }]
        }
        Phase::Aborting => {
            let doubling = |seen: &Seen| seen.info().is_some_and(|info| info.state == ShardState::Splitting);
            let doubling = (0..sources.len()).filter(|source| doubling(&sources[*source]));
            let command = |source: usize| shard::Command::AbortSplit { epoch: flow.sources[source].epoch };
            doubling.map(|source| Step::Source { source, command: command(source) }).collect()
        }
    };
    if !steps.is_empty() {
        return steps;
    }
    vec![Step::Map(match flow.phase {
        Phase::Planned => Command::Advance { flow: flow.flow, from: Phase::Planned, to: Phase::Copying },
        Phase::Copying => Command::Advance { flow: flow.flow, from: Phase::Copying, to: Phase::Cutting },
        Phase::Cutting => Command::Switch { flow: flow.flow },
        Phase::Switched | Phase::Aborting => Command::Finish { flow: flow.flow },
    })]
}

fn is_retired(seen: &Seen) -> bool {
    seen.info().is_some_and(|info| info.state == ShardState::Retired)
}

/// A shard can be told to narrow when it serves.
fn before_narrowing(flow: &Flow, source: &Seen) -> Vec<Step> {
    let epoch = flow.sources[0].epoch;
    match source.info().map(|info| info.state) {
        Some(ShardState::Serving) => Vec::new(),
        // Left over from a flow that was given up, by a command that came late.
        Some(ShardState::Splitting) => vec![Step::Source { source: 0, command: shard::Command::AbortSplit { epoch } }],
        // The bucket is being deleted.
        Some(ShardState::Closed) => vec![abort(flow)],
        _ => vec![Step::Stuck { why: "a source's shard is gone" }],
    }
}

/// Narrow the source, begin the new shard where it ends, then the map. Each step is repeated until it is done.
fn narrowing(flow: &Flow, source: &Seen, tail: &Seen) -> Vec<Step> {
    let (old, next) = (&flow.sources[0], flow.targets[0].epoch);
    let Some(info) = source.info() else { return vec![Step::Stuck { why: "a source's shard is gone" }] };
    let source = |command| vec![Step::Source { source: 0, command }];
    match (info.epoch, info.state) {
        (epoch, ShardState::Splitting) if epoch == old.epoch => return source(shard::Command::AbortSplit { epoch }),
        (epoch, _) if epoch == old.epoch => return source(shard::Command::Narrow { epoch, next }),
        (epoch, _) if epoch == next => {}
        _ => return vec![Step::Stuck { why: "the source was narrowed once more: this flow has ended" }],
    }
    let cut = info.range.end.clone().filter(|_| info.range.end != old.range.end);
    if let (Some(cut), Seen::Empty) = (&cut, tail) {
        let range = Range { start: cut.clone(), end: old.range.end.clone() };
        let command = shard::Command::Create { epoch: flow.targets[1].epoch, range };
        return vec![Step::Target { target: 1, command }];
    }
    if cut.is_some() && *tail == Seen::NoCluster {
        return vec![Step::Stuck { why: "the new shard's cluster is gone" }];
    }
    vec![Step::Map(Command::SwitchNarrow { flow: flow.flow, cut })]
}

fn missing_clusters(targets: &[Seen]) -> Vec<Step> {
    let missing = targets.iter().enumerate().filter(|(_, seen)| **seen == Seen::NoCluster);
    missing.map(|(target, _)| Step::MakeCluster { target }).collect()
}

fn abort(flow: &Flow) -> Step {
    Step::Map(Command::Advance { flow: flow.flow, from: flow.phase, to: Phase::Aborting })
}

/// All as shards; else the steps that make the missing ones.
fn all_made(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Result<(Vec<ShardInfo>, Vec<ShardInfo>), Vec<Step>> {
    let known: Option<Vec<ShardInfo>> = sources.iter().map(|seen| seen.info().cloned()).collect();
    let sources = known.ok_or_else(|| vec![Step::Stuck { why: "a source's shard is gone" }])?;
    let mut missing = missing_clusters(targets);
    for (target, _) in targets.iter().enumerate().filter(|(_, seen)| **seen == Seen::Empty) {
        let (epoch, range) = (flow.targets[target].epoch, flow.targets[target].range.clone());
        let sources = meeting(&flow.sources, &range);
        let command = shard::Command::PrepareImport { epoch, range, sources };
        missing.push(Step::Target { target, command });
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    Ok((sources, targets.iter().filter_map(|seen| seen.info().cloned()).collect()))
}

fn decide_copying(flow: &Flow, sources: &[Seen], targets: &[Seen], close: u64) -> Vec<Step> {
    let (sources, targets) = match all_made(flow, sources, targets) {
        Ok(made) => made,
        Err(steps) => return steps,
    };
    let pairs = pairs(flow, &targets);
    let mut begin = Vec::new();
    for (source, info) in sources.iter().enumerate() {
        let begun = pairs.iter().any(|(from, _, cursor)| *from == source && **cursor != ImportCursor::default());
        let epoch = flow.sources[source].epoch;
        let own = meeting(&flow.targets, &flow.sources[source].range);
        match info.state {
            ShardState::Splitting if info.peers == own => {}
            // The split was ended (its feed grew too long), or is another's; what was copied is of no use.
            ShardState::Serving | ShardState::Splitting if begun => return vec![abort(flow)],
            // Left over from a flow that was given up, by a command that came late.
            ShardState::Splitting => begin.push(Step::Source { source, command: shard::Command::AbortSplit { epoch } }),
            ShardState::Serving if info.feed > 0 => {
                begin.push(Step::Source { source, command: shard::Command::Sweep { limit: STEP_ROWS_MAX } });
            }
            ShardState::Serving => {
                begin.push(Step::Source { source, command: shard::Command::BeginSplit { epoch, targets: own } });
            }
            // The bucket is being deleted.
            ShardState::Closed => return vec![abort(flow)],
            _ => return vec![Step::Stuck { why: "a source stopped before it was to be cut over" }],
        }
    }
    if !begin.is_empty() {
        return begin;
    }
    let behind = |source: usize, cursor: &ImportCursor| {
        !cursor.copied || sources[source].feed.saturating_sub(cursor.feed) > close
    };
    let copies = copy_steps(pairs.iter().filter(|(source, _, cursor)| behind(*source, cursor)));
    if copies.is_empty() {
        return digests_left(flow, &sources, &targets);
    }
    copies
}

/// What brings these pairs on: rows for each, the feed of a source for all that have its rows.
fn copy_steps<'p>(pairs: impl Iterator<Item = &'p (usize, usize, &'p ImportCursor)>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (from, target, cursor) in pairs {
        let (source, target) = (*from, *target);
        let feed = steps.iter_mut().find_map(|step| match step {
            Step::Feed { source: of, targets } if *of == source => Some(targets),
            _ => None,
        });
        match (cursor.copied, feed) {
            (false, _) => steps.push(Step::Copy { source, target }),
            (true, Some(targets)) => targets.push(target),
            (true, None) => steps.push(Step::Feed { source, targets: vec![target] }),
        }
    }
    steps
}

/// One more round of each feed of which a target lacks something, as far as is known.
pub fn feeds_left(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Vec<Step> {
    let Ok((sources, targets)) = all_made(flow, sources, targets) else { return Vec::new() };
    let pairs = pairs(flow, &targets);
    copy_steps(pairs.iter().filter(|(source, _, cursor)| cursor.copied && cursor.feed < sources[*source].feed))
}

/// How many doubled writes the target lacks that is the furthest behind of those that have all rows, as far as is known.
pub fn most_behind(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> u64 {
    let Ok((sources, targets)) = all_made(flow, sources, targets) else { return 0 };
    let pairs = pairs(flow, &targets);
    let copied = pairs.iter().filter(|(_, _, cursor)| cursor.copied);
    copied.map(|(source, _, cursor)| sources[*source].feed.saturating_sub(cursor.feed)).max().unwrap_or(0)
}

/// Whether a shard has rows to sum up.
fn is_unsummed(info: &ShardInfo) -> bool {
    info.digests.is_none() && matches!(info.state, ShardState::Splitting | ShardState::Importing)
}

fn sum_up(peer: &Peer) -> shard::Command {
    shard::Command::Digest { epoch: peer.epoch, limit: STEP_ROWS_MAX }
}

/// Digests of what is not summed up yet.
fn digests_left(flow: &Flow, sources: &[ShardInfo], targets: &[ShardInfo]) -> Vec<Step> {
    let of = |infos: &[ShardInfo]| (0..infos.len()).filter(|at| is_unsummed(&infos[*at])).collect::<Vec<_>>();
    let mut steps: Vec<Step> = Vec::new();
    for source in of(sources) {
        steps.push(Step::Source { source, command: sum_up(&flow.sources[source]) });
    }
    for target in of(targets) {
        steps.push(Step::Target { target, command: sum_up(&flow.targets[target]) });
    }
    steps
}

/// What a source sums up while its feed is being handed over: no round of its own. Not before all targets have its rows: from
/// then on each write reads, at every replica, what it writes over.
pub fn sum_beside(flow: &Flow, source: usize, sources: &[Seen], targets: &[Seen]) -> Option<shard::Command> {
    let info = sources.get(source)?.info()?;
    let has_rows = |target: usize, seen: &Seen| {
        let place = place_of(flow, source, target);
        place.is_none_or(|place| {
            seen.info().and_then(|info| info.cursors.get(place)).is_some_and(|cursor| cursor.copied)
        })
    };
    let all_have = targets.iter().enumerate().all(|(target, seen)| has_rows(target, seen));
    (flow.phase == Phase::Copying && all_have && is_unsummed(info)).then(|| sum_up(&flow.sources[source]))
}

fn decide_cutting(flow: &Flow, sources: &[Seen], targets: &[Seen], close: u64) -> Vec<Step> {
    let (from, to) = match all_made(flow, sources, targets) {
        Ok(made) => made,
        Err(_) => return vec![Step::Stuck { why: "a target is gone while the sources are cut over" }],
    };
    let is_in = |state: ShardState| from.iter().any(|info| info.state == state);
    // Its feed grew too long, or what the targets hold was not the same. A shard that serves cannot be cut over.
    if !is_in(ShardState::Retired) && (is_in(ShardState::Serving) || is_in(ShardState::Closed)) {
        return vec![abort(flow)];
    }
    let left = (0..from.len()).filter(|source| from[*source].state != ShardState::Retired);
    let mut steps: Vec<Step> = Vec::new();
    for step in left.flat_map(|source| cut(flow, source, &from, &to, close)) {
        // Two sources may wait for the same digest.
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    if is_in(ShardState::Retired) || steps.iter().all(cuts_over) {
        // A flow that cannot finish was found before any source was cut over; otherwise a person must resolve it.
    } else if steps.iter().any(gives_up) {
        steps.retain(gives_up);
    } else {
        steps.retain(|step| !cuts_over(step));
    }
    if !from.iter().any(|info| info.frozen) && steps.iter().any(copies) && steps.iter().any(freezes) {
        // Writers of one source would wait for rows of another. So all feeds continue until all sources are near their
        // ends.
        steps.retain(|step| !freezes(step) && !matches!(step, Step::Feed { .. }));
        steps.extend(feeds_left(flow, sources, targets));
    }
    if !steps.is_empty() {
        return steps;
    }
    let mut steps = activations(flow, sources, targets);
    steps.push(Step::Map(Command::Switch { flow: flow.flow }));
    steps
}

fn cuts_over(step: &Step) -> bool {
    matches!(step, Step::Source { command: shard::Command::CutOver { .. }, .. })
}

/// Whether it brings rows to targets.
pub fn copies(step: &Step) -> bool {
    matches!(step, Step::Copy { .. } | Step::Feed { .. })
}

/// Whether it lets writers wait.
pub fn freezes(step: &Step) -> bool {
    matches!(step, Step::Source { command: shard::Command::Freeze { .. }, .. })
}

/// Whether the step makes a source serve again.
pub fn gives_up(step: &Step) -> bool {
    matches!(step, Step::Source { command: shard::Command::AbortSplit { .. }, .. })
}

/// Lets those targets serve that do not: all sources have stopped.
fn activations(flow: &Flow, sources: &[Seen], targets: &[Seen]) -> Vec<Step> {
    let imports = |target: &usize| targets[*target].info().is_some_and(|info| info.state == ShardState::Importing);
    let waiting: Vec<usize> = (0..targets.len()).filter(imports).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let stopped =
        |seen: &Seen| seen.info().filter(|info| info.state == ShardState::Retired).map(|info| info.last_stamp);
    let Some(stamps) = sources.iter().map(stopped).collect::<Option<Vec<u64>>>() else {
        return vec![Step::Stuck { why: "a source is gone before all targets serve" }];
    };
    let stamp_floor = stamps.into_iter().max().unwrap_or(0);
    let command = |target: usize| shard::Command::Activate { epoch: flow.targets[target].epoch, stamp_floor };
    waiting.into_iter().map(|target| Step::Target { target, command: command(target) }).collect()
}

/// Brings one source to its end.
fn cut(flow: &Flow, source: usize, sources: &[ShardInfo], targets: &[ShardInfo], close: u64) -> Vec<Step> {
    let info = &sources[source];
    let epoch = flow.sources[source].epoch;
    if info.state != ShardState::Splitting {
        return vec![Step::Stuck { why: "a source no longer doubles its writes while it is to be cut over" }];
    }
    let of_source: Vec<_> = pairs(flow, targets).into_iter().filter(|(from, ..)| *from == source).collect();
    let far = |cursor: &ImportCursor| {
        let behind = info.feed.saturating_sub(cursor.feed);
        behind > close || (info.frozen && behind > 0)
    };
    let copies = copy_steps(of_source.iter().filter(|(_, _, cursor)| far(cursor)));
    if !copies.is_empty() {
        return copies;
    }
    if !info.frozen {
        return vec![Step::Source { source, command: shard::Command::Freeze { epoch, lease_ms: CUT_FREEZE_MS } }];
    }
    let digests: Option<Vec<RangeDigest>> = of_source
        .iter()
        .map(|(_, target, _)| targets[*target].digests.as_ref()?.get(place_of(flow, source, *target)?).cloned())
        .collect();
    // Seen at different moments, targets may be further than the source (another runner brought them there), or some of them serve.
    let all_import = of_source.len() == info.peers.len();
    let comparable = all_import && of_source.iter().all(|(_, _, cursor)| cursor.feed == info.feed);
    match digests {
        // Never seen. The shard would refuse the cut-over, again and again, and its writers would wait each time.
        Some(digests) if comparable && info.digests.as_ref().is_some_and(|own| *own != digests) => {
            vec![Step::Source { source, command: shard::Command::AbortSplit { epoch } }]
        }
        Some(digests) => {
            let command = shard::Command::CutOver { epoch, feed: info.feed, digests };
            vec![Step::Source { source, command }]
        }
        None => match digests_left(flow, sources, targets) {
            steps if steps.is_empty() => vec![Step::Stuck { why: "a target has no digests" }],
            steps => steps,
        },
    }
}

/// How far a target says it is with a source.
pub fn cursor_of<'a>(flow: &Flow, source: usize, target: usize, info: &'a ShardInfo) -> Option<&'a ImportCursor> {
    info.cursors.get(place_of(flow, source, target)?)
}

/// What the source is asked for rows, for a target that is so far. All that a round copies shares [`STEP_BYTES_MAX`]
/// between `share` such questions: a source's leader answers them in one turn, in which it answers nobody else.
pub fn export_query(
    flow: &Flow,
    source: usize,
    target: usize,
    cursor: &ImportCursor,
    share: usize,
) -> Option<shard::Query> {
    let range = flow.sources[source].range.meet(&flow.targets[target].range)?;
    let (epoch, bytes_max) = (flow.sources[source].epoch, (STEP_BYTES_MAX / share.max(1)) as u32);
    Some(shard::Query::Export { epoch, range, after: cursor.after.clone(), bytes_max })
}

/// What the source is asked for its feed, once for all targets: from where the one begins that is least far.
pub fn feed_query(flow: &Flow, source: usize, cursors: &[&ImportCursor]) -> Option<shard::Query> {
    let Peer { epoch, range, .. } = flow.sources[source].clone();
    let after = cursors.iter().map(|cursor| cursor.feed).min()?;
    Some(shard::Query::Feed { epoch, range, after, limit: FEED_WRITES })
}

/// What of a source's feed is for a target; `None` where the target is that far already.
pub fn feed_part(flow: &Flow, target: usize, cursor: &ImportCursor, answer: &shard::Reply) -> Option<shard::Reply> {
    let shard::Reply::Feed { rows, reached, more } = answer else { return Some(answer.clone()) };
    if cursor.feed >= *reached {
        return None;
    }
    let range = &flow.targets[target].range;
    let rows = rows.iter().filter(|(key, _)| shard::row_lies_in(key, range)).cloned().collect();
    Some(shard::Reply::Feed { rows, reached: *reached, more: *more })
}

/// The part of the source's answer that the target imports, and how far the target is then. `info`: the target's state
/// when the source was asked.
pub fn import_of(
    flow: &Flow,
    source: usize,
    target: usize,
    info: &ShardInfo,
    answer: shard::Reply,
) -> Option<(shard::Command, ImportCursor)> {
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
    let import = shard::Command::Import { epoch, source: place as u16, expected, cursor: cursor.clone(), rows };
    Some((import, cursor))
}
