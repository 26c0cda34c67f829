//! Remembered requests go along when shards are split or merged: what the sources remember, the targets do.
//!
//! ```text
//!   before a freeze        pages of every source ─▶ Remember at the target that has the key, until no source has more
//!   from then on           what came since, beside every further step of rows and the cut-over: no round of its own
//!   before the activation  the rest, if the sources did not stand still all the time since they were asked last:
//!                          no more can be applied at sources that are retired
//! ```
//!
//! Always: if a source is cut over at the place of its feed that it reported when it was frozen, it was frozen all the time: the
//! end of a freeze counts as a change (core-backends, shard/state.rs). A source's place moves on only when all its targets have
//! answered that they remember. Bringing an id twice is harmless, so only the runner keeps this state, and another runner starts
//! from the beginning.
//! Held by: `what_was_remembered_while_all_stood_still_is_all_if_they_were_cut_over_at_that_place`, `a_target_is_told_what_may_be_asked_of_it_again`.
//! Not here: which requests are remembered and for how long (core-cluster, request_ids.rs), what shards check
//! (core-backends). Why: docs/decisions/0061-request-ids-move-with-keys.md.

use crate::request::{odd, reply, shard_ask, shard_tell};
use base_types::action::Failure;
use base_types::mutant::{planted, Mutant};
use core_backends::memory::{in_commands, Carried, MemoryPage};
use core_backends::shard::{self, ShardState};
use core_backends::shard_reference::flow::{freezes, Seen, Step};
use core_backends::shard_reference::Flow;
use core_flow::{Call, CallResult, CALLS_OUT_MAX};

/// How far the targets of a flow remember what its sources do.
#[derive(Debug, Default)]
pub(crate) struct DedupTransfer {
    /// Up to which index of each source's log; and where that will be once what is on its way is there.
    reached: Vec<u64>,
    coming: Vec<u64>,
    /// Some source has another page.
    more: bool,
    /// All was carried to its end: since the last freeze.
    early: bool,
    /// All was carried to its end, from sources that had retired, or that were frozen at these places of their feeds.
    whole: Option<Still>,
    asked: Option<Still>,
    /// Ids brought that nobody has counted yet.
    ids: u64,
}

/// That nothing is applied at the sources any more.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Still {
    Retired,
    /// At these places of their feeds.
    Frozen(Vec<u64>),
}

impl Still {
    /// What the sources last told of themselves.
    fn of(sources: &[Seen]) -> Option<Still> {
        let info = |seen: &Seen| match seen {
            Seen::Shard(info) => Some((info.state == ShardState::Retired, info.frozen, info.feed)),
            _ => None,
        };
        let infos: Vec<_> = sources.iter().map(info).collect::<Option<_>>()?;
        if infos.iter().all(|(retired, ..)| *retired) {
            return Some(Still::Retired);
        }
        let frozen = infos.iter().all(|(_, frozen, _)| *frozen);
        frozen.then(|| Still::Frozen(infos.into_iter().map(|(.., feed)| feed).collect()))
    }
}

impl DedupTransfer {
    /// Whether the sources' memory must be carried before these steps are done.
    pub(crate) fn is_due(&self, steps: &[Step], sources: &[Seen]) -> bool {
        let due = steps.iter().any(freezes) && !self.early || steps.iter().any(activates) && !self.is_whole(sources);
        due && !planted(Mutant::SplitForgetsRequests)
    }

    /// All that the sources, which have retired, ever applied is where it belongs.
    fn is_whole(&self, sources: &[Seen]) -> bool {
        let feed = |seen: &Seen| match seen {
            Seen::Shard(info) => Some(info.feed),
            _ => None,
        };
        match &self.whole {
            Some(Still::Retired) => true,
            Some(Still::Frozen(feeds)) => sources.iter().map(feed).eq(feeds.iter().map(|feed| Some(*feed))),
            None => false,
        }
    }

    /// Whether a page may go along with these steps: rows are on their way anyhow, or it is the last moment.
    pub(crate) fn goes_beside(&self, steps: &[Step], sources: &[Seen]) -> bool {
        let last = |step: &Step| match step {
            Step::Copy { .. } | Step::Feed { .. } => true,
            Step::Source { command: shard::Command::CutOver { .. }, .. } => self.whole != Still::of(sources),
            _ => false,
        };
        steps.iter().any(last) && !planted(Mutant::SplitForgetsRequests)
    }

    /// Whether all was carried since the last freeze.
    pub(crate) fn is_early(&self) -> bool {
        self.early
    }

    /// The sources stand still, or will soon: before the next freeze what came until then is carried.
    pub(crate) fn on_freeze(&mut self) {
        (self.early, self.whole, self.asked) = (false, None, None);
    }

    /// A page of each source.
    pub(crate) fn ask(&mut self, id: u128, flow: &Flow, sources: &[Seen]) -> Result<Vec<Call>, Failure> {
        self.asked = Still::of(sources);
        self.reached.resize(flow.sources.len(), 0);
        let ask = |(peer, after): (&shard::Peer, &u64)| {
            shard_ask(id, peer.shard, &shard::Query::Remembered { after: *after }).map_err(Failure::from)
        };
        flow.sources.iter().zip(&self.reached).map(ask).collect()
    }

    /// The ids of the pages that the targets must remember; empty where there are none. A page that has no room is
    /// asked for later.
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
            let told: Vec<_> = takers(flow, source, targets).into_iter().flat_map(|peer| told(peer, &ids)).collect();
            if !calls.is_empty() && calls.len() + told.len() > CALLS_OUT_MAX {
                self.more = true;
                continue;
            }
            for (peer, ids) in told {
                self.ids += ids.len() as u64;
                calls.push(shard_tell(id, peer.shard, &shard::Command::Remember { epoch: peer.epoch, ids })?);
            }
            self.coming[source] = reached;
            self.more |= more;
        }
        Ok(calls)
    }

    /// How many requests were brought since this was asked last.
    pub(crate) fn ids(&mut self) -> u64 {
        core::mem::take(&mut self.ids)
    }

    /// The targets remember. True: there is nothing more for now.
    pub(crate) fn brought(&mut self, answers: Vec<CallResult>) -> Result<bool, Failure> {
        for answer in answers {
            let (shard::Reply::Shard { .. }, _) = reply(answer)? else { return Err(odd("a shard")) };
        }
        self.reached = core::mem::take(&mut self.coming);
        if self.more {
            return Ok(false);
        }
        (self.early, self.whole) = (true, self.asked.take());
        Ok(true)
    }
}

fn activates(step: &Step) -> bool {
    matches!(step, Step::Target { command: shard::Command::Activate { .. }, .. })
}

/// The ids of a page that a target must remember: those whose requests it may receive again.
fn told<'p>(peer: &'p shard::Peer, ids: &[Carried]) -> impl Iterator<Item = (&'p shard::Peer, Vec<Carried>)> {
    let range = &peer.range;
    let own = |carried: &&Carried| carried.about.may_lie_in(&range.start, range.end.as_deref());
    in_commands(ids.iter().filter(own).cloned().collect()).into_iter().map(move |ids| (peer, ids))
}

/// The targets that share keys with a source and do not serve yet. A target that serves has all ids.
fn takers<'f>(flow: &'f Flow, source: usize, targets: &[Seen]) -> Vec<&'f shard::Peer> {
    let range = &flow.sources[source].range;
    let takes = |(target, peer): &(usize, &shard::Peer)| {
        let importing = matches!(targets.get(*target), Some(Seen::Shard(info)) if info.state == ShardState::Importing);
        importing && peer.range.meet(range).is_some()
    };
    flow.targets.iter().enumerate().filter(takes).map(|(_, peer)| peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::RequestId;
    use bytes::Bytes;
    use core_backends::memory::{About, Part};
    use core_backends::shard::{GrowthInfo, Range, ShardInfo, Totals};

    fn source(state: ShardState, frozen: bool, feed: u64) -> Seen {
        Seen::Shard(Box::new(ShardInfo {
            state,
            epoch: 1,
            range: Range::default(),
            totals: Totals::default(),
            peers: Vec::new(),
            cursors: Vec::new(),
            feed,
            last_stamp: 0,
            frozen,
            digests: None,
            pins: Vec::new(),
            history_rows: 0,
            freed_rows: 0,
            growth: GrowthInfo::default(),
        }))
    }

    /// What was asked of `asked` is all there is when the sources are `now`, before their targets serve.
    fn suffices(asked: &[Seen], now: &[Seen]) -> bool {
        let phase = core_backends::shard_reference::Phase::Cutting;
        let flow = Flow { flow: 1, phase, sources: Vec::new(), targets: Vec::new(), since_ms: 0 };
        let mut carry = DedupTransfer::default();
        carry.on_freeze();
        carry.ask(1, &flow, asked).unwrap();
        assert!(carry.bring(1, &flow, &[], Vec::new()).unwrap().is_empty());
        assert!(carry.brought(Vec::new()).unwrap());
        let activate = Step::Target { target: 0, command: shard::Command::Activate { epoch: 2, stamp_floor: 0 } };
        !carry.is_due(&[activate], now)
    }

    #[test]
    fn what_was_remembered_while_all_stood_still_is_all_if_they_were_cut_over_at_that_place() {
        use ShardState::{Retired, Splitting};
        let frozen = |feed| source(Splitting, true, feed);
        let retired = |feed| source(Retired, false, feed);
        assert!(suffices(&[frozen(7)], &[retired(7)]));
        // Its freeze ended between, and began again: that counts in the feed.
        assert!(!suffices(&[frozen(7)], &[retired(8)]));
        // It did not stand still, or not all did.
        assert!(!suffices(&[source(Splitting, false, 7)], &[retired(7)]));
        assert!(!suffices(&[frozen(7), source(Splitting, false, 3)], &[retired(7), retired(3)]));
        assert!(suffices(&[frozen(7), frozen(3)], &[retired(7), retired(3)]));
        assert!(!suffices(&[frozen(7), retired(3)], &[retired(7), retired(3)]));
        // It was asked when all had retired: nothing can be applied there.
        assert!(suffices(&[retired(7), retired(3)], &[retired(0), retired(3)]));
    }

    #[test]
    fn a_target_is_told_what_may_be_asked_of_it_again() {
        let peer = |shard, start: &'static str, end: Option<&'static str>| shard::Peer {
            shard,
            epoch: 2,
            range: Range { start: start.into(), end: end.map(Into::into) },
        };
        let (low, high) = (peer(2, "", Some("m")), peer(3, "m", None));
        let places = [About::object(b"a"), About::object(b"m"), About::object(b"z"), Part::OBJECTS.into()];
        let carried =
            |(id, about): (u128, About)| Carried { id: RequestId(id), keep_ms: 1, about, reply: Bytes::new() };
        let ids: Vec<Carried> = (0..).zip(places).map(carried).collect();
        let told_of = |peer: &shard::Peer| -> Vec<u128> {
            told(peer, &ids).flat_map(|(_, ids)| ids).map(|carried| carried.id.0).collect()
        };
        // Of a key that is not known both hear.
        assert_eq!((told_of(&low), told_of(&high)), (vec![0, 3], vec![1, 2, 3]));
    }

    #[test]
    fn another_freeze_asks_anew() {
        let mut carry = DedupTransfer { early: true, whole: Some(Still::Frozen(vec![7])), ..DedupTransfer::default() };
        carry.on_freeze();
        assert!(!carry.is_early() && !carry.is_whole(&[source(ShardState::Retired, false, 7)]));
    }
}
