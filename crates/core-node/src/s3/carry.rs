//! Remembered requests go along when shards are split or merged: what the sources remember, the targets do.
//!
//! ```text
//!   before a freeze        pages of every source ─▶ Remember at its targets, until no source has more
//!   from then on           what came since, beside every further step of rows: no round of its own
//!   before the activation  the rest, most often nothing: no more can be applied at sources that are retired
//! ```
//!
//! Always: a source's place is moved on only when all its targets have answered that they remember; bringing an id
//! twice is harmless, so nothing is kept but in the runner, and another runner begins at the beginning.
//! Not here: which requests are remembered and for how long (core-cluster, request_ids.rs), what shards check
//! (core-backends). Why: docs/decisions/0005-exactly-once-and-cluster-time.md.

use super::request::reply;
use super::reshard::{odd, shard_ask, shard_tell};
use crate::planner::{Call, CallResult, CALLS_OUT_MAX};
use base_types::action::Failure;
use base_types::mutant::{planted, Mutant};
use core_backends::memory::{in_commands, MemoryPage};
use core_backends::shard::{self, ShardState};
use core_backends::shard_reference::flow::{Seen, Step};
use core_backends::shard_reference::Flow;

/// How far the targets of a flow remember what its sources do.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    /// Up to which index of each source's log; and where that will be once what is on its way is there.
    reached: Vec<u64>,
    coming: Vec<u64>,
    /// Some source has another page.
    more: bool,
    /// All was carried to its end: since the last freeze; since the sources have retired.
    early: bool,
    whole: bool,
    /// Ids brought that nobody has counted yet.
    ids: u64,
}

impl Carry {
    /// Whether the sources' memory must be carried before these steps are done.
    pub(crate) fn is_due(&self, steps: &[Step]) -> bool {
        let freezes = |step: &Step| matches!(step, Step::Source { command: shard::Command::Freeze { .. }, .. });
        let due = steps.iter().any(freezes) && !self.early || steps.iter().any(activates) && !self.whole;
        due && !planted(Mutant::SplitForgetsRequests)
    }

    /// Whether a page may go along with these steps: rows are on their way anyhow.
    pub(crate) fn goes_beside(&self, steps: &[Step]) -> bool {
        let copies = steps.iter().any(|step| matches!(step, Step::Copy { .. }));
        copies && !planted(Mutant::SplitForgetsRequests)
    }

    /// Whether all was carried since the last freeze.
    pub(crate) fn is_early(&self) -> bool {
        self.early
    }

    /// The sources stand still, or will soon: before the next freeze what came until then is carried.
    pub(crate) fn on_freeze(&mut self) {
        self.early = false;
    }

    /// A page of each source.
    pub(crate) fn ask(&mut self, id: u128, flow: &Flow) -> Result<Vec<Call>, Failure> {
        self.reached.resize(flow.sources.len(), 0);
        let ask = |(peer, after): (&shard::Peer, &u64)| {
            shard_ask(id, peer.shard, &shard::Query::Remembered { after: *after }).map_err(Failure::from)
        };
        flow.sources.iter().zip(&self.reached).map(ask).collect()
    }

    /// What the targets are told of the pages; none where there is nothing to tell. A page for which there is no room
    /// any more is asked for again.
    pub(crate) fn bring(
        &mut self,
        id: u128,
        flow: &Flow,
        targets: &[Seen],
        answers: Vec<CallResult>,
    ) -> Result<Vec<Call>, Failure> {
        (self.coming, self.more) = (self.reached.clone(), false);
        let mut calls = Vec::new();
        for (source, answer) in answers.into_iter().enumerate().take(flow.sources.len()) {
            let (shard::Reply::Remembered { page }, _) = reply(answer)? else { return Err(odd("a shard")) };
            let MemoryPage { ids, reached, more } = page;
            let (count, commands) = (ids.len() as u64, in_commands(ids));
            let of_source = takers(flow, source, targets);
            if !calls.is_empty() && calls.len() + commands.len() * of_source.len() > CALLS_OUT_MAX {
                self.more = true;
                continue;
            }
            for ids in commands {
                for target in &of_source {
                    let peer = &flow.targets[*target];
                    let command = shard::Command::Remember { epoch: peer.epoch, ids: ids.clone() };
                    calls.push(shard_tell(id, peer.shard, &command)?);
                }
            }
            self.ids += count;
            self.coming[source] = reached;
            self.more |= more;
        }
        Ok(calls)
    }

    /// How many requests were brought since this was asked last.
    pub(crate) fn ids(&mut self) -> u64 {
        core::mem::take(&mut self.ids)
    }

    /// The targets remember. True: there is nothing more for now. `retired`: the sources were before they were asked.
    pub(crate) fn brought(&mut self, answers: Vec<CallResult>, retired: bool) -> Result<bool, Failure> {
        for answer in answers {
            let (shard::Reply::Shard { .. }, _) = reply(answer)? else { return Err(odd("a shard")) };
        }
        self.reached = core::mem::take(&mut self.coming);
        if self.more {
            return Ok(false);
        }
        (self.early, self.whole) = (true, retired);
        Ok(true)
    }
}

fn activates(step: &Step) -> bool {
    matches!(step, Step::Target { command: shard::Command::Activate { .. }, .. })
}

/// The targets that share keys with a source and do not serve yet: who serves was told all before.
fn takers(flow: &Flow, source: usize, targets: &[Seen]) -> Vec<usize> {
    let range = &flow.sources[source].range;
    let takes = |target: &usize| {
        let importing = matches!(targets.get(*target), Some(Seen::Shard(info)) if info.state == ShardState::Importing);
        importing && flow.targets[*target].range.meet(range).is_some()
    };
    (0..flow.targets.len()).filter(takes).collect()
}
