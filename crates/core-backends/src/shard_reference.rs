//! The `shard_reference` backend: the map of a bucket, which shard has which keys (Hive paper, 2.7), and the
//! flows that change it.
//!
//! ```text
//!   Plan ─▶ Planned ─▶ Copying ─▶ Cutting ─Switch─▶ Switched ─Finish─▶ (nothing)
//!              │          │          │ a way back only if no source has given its range up (flow.rs)
//!              └──Abort───┴──────────┴─▶ Aborting ────Finish─▶ (nothing)
//! ```
//!
//! A flow that narrows (`PlanNarrow`, `SwitchNarrow`) goes the same way. It copies nothing, and in `Cutting` the source
//! learns where its range ends.
//!
//! Rows: `H` the head; `m` closed start: an entry; `f` number (8) 0: a flow; `r` shard (8) 0: a shard that
//! is no longer, or never was, in the map and whose cluster is still to be dropped.
//!
//! Always: the entries cover all keys without gap or overlap, and flows under way are counted (`invariants.rs`, mutant
//! `FlowsCounted`); a shard's number and epoch are given once; a flow's phase changes only from the one named; the map changes
//! in one command (`tests.rs`).
//! Not here: the steps that a flow has shards take (`flow.rs`), when to split (core-node), rows of keys (`shard`).

mod command;
pub mod flow;
mod invariants;
#[cfg(test)]
pub(crate) mod tests;

pub use command::{
    Command, Entry, Flow, Head, Phase, Query, Reply, Retired, FLOWS_MAX, MAP_PAGE_MAX, SOURCES_MAX, TARGETS_MAX,
};

use crate::contract::{corrupt_row, decode, ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::invariants::Checked;
use crate::reply::encode_reply;
use crate::rows::page;
use crate::s3_key::close;
use crate::shard::{Peer, Range};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::s3::check_key;
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use core::ops::ControlFlow;

const HEAD: u8 = b'H';
const ENTRY: u8 = b'm';
const FLOW: u8 = b'f';
const RETIRED: u8 = b'r';

type Outcome<T> = Result<Result<T, Refusal>, EngineError>;

/// Gives a refusal back as the reply.
macro_rules! admit {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

/// The backend, as the table has it.
pub(crate) struct Shards;

impl Backend for Shards {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        validate(command)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        apply(at, space, command)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, bytes: &Bytes) -> Result<Bytes, EngineError> {
        query(cluster_time_ms, space, bytes)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    check(&decode("shard_reference command", command)?)
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let command: Result<Command, Refusal> = decode("shard_reference command", command).and_then(|command| {
        check(&command)?;
        Ok(command)
    });
    let reply = match command {
        Ok(command) => run(at.cluster_time_ms, space, command)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(_cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match decode("shard_reference query", query) {
        Ok(query) => answer(space, query)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

fn check(command: &Command) -> Result<(), Refusal> {
    let Command::Plan { sources, cuts } = command else { return Ok(()) };
    if sources.is_empty() || sources.len() > SOURCES_MAX || cuts.len() >= TARGETS_MAX {
        let message = format!("a flow has 1 to {SOURCES_MAX} sources and 1 to {TARGETS_MAX} targets");
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    if cuts.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(Refusal::new(ErrorCode::Malformed, "the cuts are not in ascending order"));
    }
    cuts.iter().try_for_each(|cut| check_key(cut))
}

fn entry_key(start: &[u8]) -> Bytes {
    [&[ENTRY], &close(start)[..]].concat().into()
}

fn numbered(tag: u8, number: u64) -> Bytes {
    [&[tag], &number.to_be_bytes()[..], &[0]].concat().into()
}

fn load<T: Encode>(space: &dyn SpaceRead, key: &[u8], what: &'static str) -> Result<Option<T>, EngineError> {
    let row = space.get(key)?;
    row.map(|row| T::from_bytes(row).map_err(|error| corrupt_row(what, error))).transpose()
}

fn head(space: &dyn SpaceRead) -> Outcome<Head> {
    Ok(load(space, &[HEAD], "the head of a bucket's map")?
        .ok_or_else(|| Refusal::new(ErrorCode::NoShardMap, "the bucket's map has not been made; initialize it")))
}

fn flow_of(space: &dyn SpaceRead, flow: u64) -> Outcome<Flow> {
    let found: Option<Flow> = load(space, &numbered(FLOW, flow), "a flow of a bucket's map")?;
    let message = || format!("flow {flow} is not there; it has ended");
    Ok(found.ok_or_else(|| Refusal::new(ErrorCode::NotFound, message())))
}

fn run(now_ms: u64, space: &mut dyn SpaceWrite, command: Command) -> Outcome<Reply> {
    match command {
        Command::Initialize => initialize(space),
        Command::Plan { sources, cuts } => plan(now_ms, space, &sources, &cuts),
        Command::PlanNarrow { source } => plan_narrow(now_ms, space, source),
        Command::SwitchNarrow { flow, cut } => switch_narrow(now_ms, space, flow, cut),
        Command::Advance { flow, from, to } => {
            let mut flow = admit!(flow_of(space, flow)?);
            if flow.phase == to {
                return Ok(Ok(Reply::Flow { flow }));
            }
            let narrowed = flow.narrows() && (from, to) == (Phase::Cutting, Phase::Aborting);
            if flow.phase != from || !from.leads_to(to) || narrowed {
                return Ok(Err(wrong_phase(&flow, "continue")));
            }
            flow.phase = to;
            space.put(numbered(FLOW, flow.flow), flow.to_bytes());
            Ok(Ok(Reply::Flow { flow }))
        }
        Command::Switch { flow } => switch(space, flow),
        Command::Finish { flow } => finish(now_ms, space, flow),
        Command::Forget { shard } => {
            space.delete(numbered(RETIRED, shard));
            Ok(Ok(Reply::Done))
        }
        Command::Close => set_closed(space, true),
        Command::Reopen => set_closed(space, false),
    }
}

/// Bars flows, or lets them begin again. None may be under way when they are barred: their targets are in no map, or
/// do not serve yet.
fn set_closed(space: &mut dyn SpaceWrite, closed: bool) -> Outcome<Reply> {
    let mut head = admit!(head(space)?);
    if closed && head.flows > 0 {
        let message = format!("{} flows of the bucket's map are under way; retry when they have ended", head.flows);
        return Ok(Err(Refusal::new(ErrorCode::NotReady, message)));
    }
    head.closed = closed;
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    Ok(Ok(Reply::Head { head }))
}

fn wrong_phase(flow: &Flow, wanted: &str) -> Refusal {
    let message = format!("flow {} cannot {wanted}: it is {:?}; read it again", flow.flow, flow.phase);
    Refusal::new(ErrorCode::Conflict, message)
}

/// A new bucket has one shard for all keys.
fn initialize(space: &mut dyn SpaceWrite) -> Outcome<Reply> {
    if let Some(head) = load(space, &[HEAD], "the head of a bucket's map")? {
        return Ok(Ok(Reply::Head { head }));
    }
    let head = Head { version: 1, last_shard: 1, last_epoch: 1, last_flow: 0, flows: 0, closed: false };
    let entry = Entry { shard: 1, epoch: 1, range: Range::default(), flow: None };
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    space.put(entry_key(&[]), entry.to_bytes());
    Ok(Ok(Reply::Head { head }))
}

/// The entries of these shards, which must be neighbours in this order, at rest, and at these epochs.
fn sources_of(space: &dyn SpaceRead, sources: &[(u64, u64)]) -> Outcome<Vec<Entry>> {
    let wanted: Vec<u64> = sources.iter().map(|(shard, _)| *shard).collect();
    let entries = entries(space)?;
    let first = entries.iter().position(|entry| entry.shard == wanted[0]);
    let found = first.and_then(|first| entries.get(first..first + wanted.len())).unwrap_or_default();
    let same = found.iter().map(|entry| (entry.shard, entry.epoch)).eq(sources.iter().copied());
    if !same || wanted.is_empty() {
        let message = format!("shards {wanted:?} are not neighbours at the epochs named; read the map again");
        return Ok(Err(Refusal::new(ErrorCode::Conflict, message)));
    }
    if let Some(busy) = found.iter().find(|entry| entry.flow.is_some()) {
        let message = format!("shard {} is in flow {:?} already; wait for its end", busy.shard, busy.flow);
        return Ok(Err(Refusal::new(ErrorCode::ReshardRunning, message)));
    }
    Ok(Ok(found.to_vec()))
}

fn entries(space: &dyn SpaceRead) -> Result<Vec<Entry>, EngineError> {
    let (mut found, mut damage) = (Vec::new(), None);
    space.range(KeyRange { start: &[ENTRY], end: Some(&[ENTRY + 1]) }, Direction::Forward, &mut |_, row| {
        match Entry::from_bytes(Bytes::copy_from_slice(row)) {
            Ok(entry) => found.push(entry),
            Err(error) => damage = Some(corrupt_row("an entry of a bucket's map", error)),
        }
        if damage.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(found), Err)
}

/// The head and the sources, if a flow of them may begin.
fn may_begin(space: &dyn SpaceRead, sources: &[(u64, u64)]) -> Outcome<(Head, Vec<Entry>)> {
    let head = admit!(head(space)?);
    if head.closed {
        let message = "the bucket is being deleted; its shards stay as they are";
        return Ok(Err(Refusal::new(ErrorCode::BucketClosing, message)));
    }
    let sources = admit!(sources_of(space, sources)?);
    if head.flows >= FLOWS_MAX {
        let message = format!("the bucket has {FLOWS_MAX} flows already; wait for one to end");
        return Ok(Err(Refusal::new(ErrorCode::Overloaded, message)));
    }
    Ok(Ok((head, sources)))
}

/// Notes a flow, and marks its sources.
fn begin_flow(now_ms: u64, space: &mut dyn SpaceWrite, head: &Head, sources: &[Entry], targets: Vec<Peer>) -> Reply {
    for source in sources {
        let marked = Entry { flow: Some(head.last_flow), ..source.clone() };
        space.put(entry_key(&source.range.start), marked.to_bytes());
    }
    let peer = |entry: &Entry| Peer { shard: entry.shard, epoch: entry.epoch, range: entry.range.clone() };
    let sources = sources.iter().map(peer).collect();
    let flow = Flow { flow: head.last_flow, phase: Phase::Planned, sources, targets, since_ms: now_ms };
    space.put(numbered(FLOW, flow.flow), flow.to_bytes());
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    Reply::Flow { flow }
}

/// The source stays where it is; a new shard is to take the keys behind all it has.
fn plan_narrow(now_ms: u64, space: &mut dyn SpaceWrite, source: (u64, u64)) -> Outcome<Reply> {
    let (mut head, sources) = admit!(may_begin(space, &[source])?);
    head.last_flow += 1;
    head.flows += 1;
    head.last_epoch += 1;
    head.last_shard += 1;
    let range = sources.first().map_or_else(Range::default, |entry| entry.range.clone());
    let target = |shard| Peer { shard, epoch: head.last_epoch, range: range.clone() };
    let targets = vec![target(source.0), target(head.last_shard)];
    Ok(Ok(begin_flow(now_ms, space, &head, &sources, targets)))
}

fn plan(now_ms: u64, space: &mut dyn SpaceWrite, sources: &[(u64, u64)], cuts: &[Bytes]) -> Outcome<Reply> {
    let (mut head, sources) = admit!(may_begin(space, sources)?);
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
        return Ok(Err(Refusal::new(ErrorCode::Malformed, "a flow needs a source")));
    };
    let whole = Range { start: first.range.start.clone(), end: last.range.end.clone() };
    if cuts.iter().any(|cut| !whole.holds(cut) || *cut == whole.start) {
        return Ok(Err(Refusal::new(ErrorCode::Malformed, "a cut is not inside of the sources' range")));
    }
    head.last_flow += 1;
    head.flows += 1;
    head.last_epoch += 1;
    let mut targets = Vec::new();
    for at in 0..=cuts.len() {
        let start = if at == 0 { whole.start.clone() } else { cuts[at - 1].clone() };
        let end = cuts.get(at).cloned().or_else(|| whole.end.clone());
        head.last_shard += 1;
        targets.push(Peer { shard: head.last_shard, epoch: head.last_epoch, range: Range { start, end } });
    }
    Ok(Ok(begin_flow(now_ms, space, &head, &sources, targets)))
}

/// The targets take the sources' place in the map. They stay in the flow, and the sources whole, until it is finished:
/// the targets may not serve yet.
fn switch(space: &mut dyn SpaceWrite, flow: u64) -> Outcome<Reply> {
    let mut head = admit!(head(space)?);
    let mut flow = admit!(flow_of(space, flow)?);
    if flow.phase == Phase::Switched {
        return Ok(Ok(Reply::Flow { flow }));
    }
    if flow.phase != Phase::Cutting || flow.narrows() {
        return Ok(Err(wrong_phase(&flow, "switch")));
    }
    for source in &flow.sources {
        space.delete(entry_key(&source.range.start));
    }
    for target in &flow.targets {
        let of = Some(flow.flow);
        let entry = Entry { shard: target.shard, epoch: target.epoch, range: target.range.clone(), flow: of };
        space.put(entry_key(&target.range.start), entry.to_bytes());
    }
    head.version += 1;
    flow.phase = Phase::Switched;
    space.put(numbered(FLOW, flow.flow), flow.to_bytes());
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    Ok(Ok(Reply::Flow { flow }))
}

/// The source's next epoch takes its place in the map, and the new shard the place after the source.
fn switch_narrow(now_ms: u64, space: &mut dyn SpaceWrite, flow: u64, cut: Option<Bytes>) -> Outcome<Reply> {
    let mut head = admit!(head(space)?);
    let mut flow = admit!(flow_of(space, flow)?);
    if flow.phase == Phase::Switched {
        return Ok(Ok(Reply::Flow { flow }));
    }
    let ([same, tail], true, Phase::Cutting) = (&flow.targets[..], flow.narrows(), flow.phase) else {
        return Ok(Err(wrong_phase(&flow, "switch")));
    };
    let whole = same.range.clone();
    if cut.as_ref().is_some_and(|cut| !whole.holds(cut) || *cut == whole.start) {
        return Ok(Err(Refusal::new(ErrorCode::Malformed, "the cut is not inside of the source's range")));
    }
    let entry = |peer: &Peer, range| Entry { shard: peer.shard, epoch: peer.epoch, range, flow: None };
    match cut {
        Some(cut) => {
            let narrow = Range { start: whole.start.clone(), end: Some(cut.clone()) };
            space.put(entry_key(&whole.start), entry(same, narrow).to_bytes());
            space.put(entry_key(&cut), entry(tail, Range { start: cut, end: whole.end }).to_bytes());
        }
        None => {
            retire(space, tail, now_ms);
            space.put(entry_key(&whole.start), entry(same, whole).to_bytes());
        }
    }
    head.version += 1;
    flow.phase = Phase::Switched;
    space.put(numbered(FLOW, flow.flow), flow.to_bytes());
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    Ok(Ok(Reply::Flow { flow }))
}

fn retire(space: &mut dyn SpaceWrite, peer: &Peer, now_ms: u64) {
    let retired = Retired { peer: peer.clone(), since_ms: now_ms };
    space.put(numbered(RETIRED, peer.shard), retired.to_bytes());
}

/// Forgets a flow that has switched, or was given up: then its targets are to be dropped.
fn finish(now_ms: u64, space: &mut dyn SpaceWrite, number: u64) -> Outcome<Reply> {
    let mut head = admit!(head(space)?);
    let Ok(flow) = flow_of(space, number)? else { return Ok(Ok(Reply::Done)) };
    match flow.phase {
        // A narrowed shard stays as it is.
        Phase::Switched if flow.narrows() => {}
        Phase::Switched => {
            release(space, number, &flow.targets)?;
            flow.sources.iter().for_each(|source| retire(space, source, now_ms));
        }
        Phase::Aborting => {
            release(space, number, &flow.sources)?;
            let made = |target: &&Peer| flow.sources.iter().all(|source| source.shard != target.shard);
            flow.targets.iter().filter(made).for_each(|target| retire(space, target, now_ms));
        }
        _ => return Ok(Err(wrong_phase(&flow, "end"))),
    }
    head.flows = head.flows.saturating_sub(u32::from(!planted(Mutant::FlowsCounted)));
    space.put(Bytes::from_static(&[HEAD]), head.to_bytes());
    space.delete(numbered(FLOW, number));
    Ok(Ok(Reply::Done))
}

/// Other flows may have these shards.
fn release(space: &mut dyn SpaceWrite, flow: u64, peers: &[Peer]) -> Result<(), EngineError> {
    for peer in peers {
        let key = entry_key(&peer.range.start);
        let entry: Option<Entry> = load(space, &key, "an entry of a bucket's map")?;
        if let Some(entry) = entry.filter(|entry| entry.flow == Some(flow)) {
            space.put(key, Entry { flow: None, ..entry }.to_bytes());
        }
    }
    Ok(())
}

fn answer(space: &dyn SpaceRead, query: Query) -> Outcome<Reply> {
    match query {
        Query::Head => Ok(head(space)?.map(|head| Reply::Head { head })),
        Query::Locate { key } => {
            let head = admit!(head(space)?);
            let entry = locate(space, &key)?;
            Ok(Ok(Reply::Entries { version: head.version, entries: entry.into_iter().collect(), more: false }))
        }
        Query::Map { start, limit } => {
            let head = admit!(head(space)?);
            // The entry that holds `start` begins at or before it.
            let first = locate(space, &start)?.map_or_else(Bytes::new, |entry| entry.range.start);
            let limit = limit.clamp(1, MAP_PAGE_MAX) as usize;
            let (rows, more) = page(space, &entry_key(&first), Some(&[ENTRY + 1]), Direction::Forward, limit)?;
            let entries = decode_all(rows, "an entry of a bucket's map")?;
            Ok(Ok(Reply::Entries { version: head.version, entries, more }))
        }
        Query::Flow { flow } => Ok(flow_of(space, flow)?.map(|flow| Reply::Flow { flow })),
        Query::Flows => {
            let (rows, _) = page(space, &[FLOW], Some(&[FLOW + 1]), Direction::Forward, FLOWS_MAX as usize)?;
            Ok(Ok(Reply::Flows { flows: decode_all(rows, "a flow of a bucket's map")? }))
        }
        Query::Retired { after, limit } => {
            let start = numbered(RETIRED, after.saturating_add(1));
            let limit = limit.clamp(1, MAP_PAGE_MAX) as usize;
            let (rows, more) = page(space, &start, Some(&[RETIRED + 1]), Direction::Forward, limit)?;
            Ok(Ok(Reply::Retired { shards: decode_all(rows, "a retired shard")?, more }))
        }
    }
}

fn decode_all<T: Encode>(rows: Vec<(Bytes, Bytes)>, what: &'static str) -> Result<Vec<T>, EngineError> {
    rows.into_iter().map(|(_, row)| T::from_bytes(row).map_err(|error| corrupt_row(what, error))).collect()
}

/// The entry that holds a key.
fn locate(space: &dyn SpaceRead, key: &[u8]) -> Result<Option<Entry>, EngineError> {
    let end = crate::rows::successor(&entry_key(key));
    let (rows, _) = page(space, &[ENTRY], Some(&end), Direction::Backward, 1)?;
    Ok(decode_all(rows, "an entry of a bucket's map")?.into_iter().next())
}
