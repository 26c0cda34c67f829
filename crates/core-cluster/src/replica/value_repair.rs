//! ValueRepair pairs: what an engine says is damaged is asked of the other members and put again.
//!
//! ```text
//!   read, apply, snapshot, scrub ──damaged key──▶ mending ──PairsRequest──▶ a member, then the next …
//!                                                    ◀──PairsReply (value, from index to index)──┘
//!   own indexes and the answer's meet ─▶ put through the overlay ─▶ the next flush writes it
//!   damaged on every member ─▶ refused as before        answers can never meet ─▶ rebuilt (`Replica::damage`)
//! ```
//!
//! Which index a value is of: a key of which the overlay has no word has had the engine's value from the
//! engine's durable index to what is applied. So each side knows from where to where its value holds, and two
//! such spans that meet tell the same value. A key that the overlay has is overwritten by the next flush: it
//! is repaired already. If spans do not meet, it retries: both sides apply and flush, and do meet, unless the
//! entry that is to be applied next needs the pair; then the replica is rebuilt as soon as every other member
//! has said so. Members are those of now: a change of them that is committed behind the entry that waits counts,
//! or it would wait for the word of one that is gone.
//! A leader that waits for a pair gives leadership away meanwhile (`leader_handoff.rs`). An engine that says of a range that keys in it are
//! lost (its fences do not add up) names none of them: the replica is rebuilt where there are other members.
//!
//! Always: no value of another index is put (mutant `MendFromAnyIndex`). If members answer, a key is given up after
//! `IN_VAIN_MAX` answers. If none answers, the requests continue, ever more seldom: giving up would cost a vote when votes
//! are few.
//! Not here: finding damage (engines, `scrub.rs`), holes in the log (`log_repair.rs`).

use crate::api::{Member, Notice};
use crate::context::LaneContext;
use crate::meta::{LABEL_KEY, META_KEY};
use crate::replica::admin::ChangeContext;
use crate::replica::Replica;
use crate::storage::overlay::Overlay;
use crate::wire::{PairAnswer, Pairs, Payload, PAIRS_MAX};
use base_engine::EngineError;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{LogIndex, NodeId, ReplicaId, Tick};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Pairs of one replica that are mended at a time; the others are found again by the next round of the scrub.
const MENDED_MAX: usize = 16_384;
/// Pairs given up that are remembered, so that reads of them are refused at once.
const LOST_MAX: usize = 4_096;
/// Bytes of keys in one request.
const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Bytes of values in one reply, unless one alone has more.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// The first pause between two requests; it doubles while nothing is mended.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_DOUBLINGS: u32 = 6;
/// So many answers in a row that mended nothing, and the replica is rebuilt.
const IN_VAIN_MAX: u32 = 24;
/// Entries that may wait for a pair they need.
const LATE_MAX: usize = 16_384;

/// What the other members have answered for a key.
#[derive(Default)]
struct Answered {
    /// They have it damaged, too.
    damaged_on: BTreeSet<ReplicaId>,
    /// Their engines are behind the index at which this replica waits: what they have will never be of that index.
    passed_by: BTreeSet<ReplicaId>,
}

impl Answered {
    /// Nobody can tell the value that the next entry needs, though somebody has a newer one.
    fn is_hopeless(&self, others: &BTreeSet<ReplicaId>) -> bool {
        !self.passed_by.is_empty()
            && !others.is_empty()
            && others.iter().all(|other| self.passed_by.contains(other) || self.damaged_on.contains(other))
    }
}

/// What is being mended.
#[derive(Default)]
pub struct ValueRepair {
    keys: BTreeMap<Bytes, Answered>,
    /// Those of the keys that the next entry needs, while nothing is applied.
    needed: BTreeSet<Bytes>,
    /// Right in the overlay; the engine's is damaged until the flush, and ranges that meet it fail.
    written: BTreeSet<Bytes>,
    /// Since then nothing is applied: the next entry needs a damaged pair.
    stuck_since: Option<Tick>,
    asked: Tick,
    /// Requests since something was mended.
    fruitless: u32,
    /// Answers since then.
    in_vain: u32,
    whom: usize,
    /// Where the next request begins.
    cursor: Bytes,
    mended: u64,
}

impl ValueRepair {
    pub fn pairs(&self) -> usize {
        self.keys.len()
    }

    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("pairs being mended, a replica", self.keys.len(), MENDED_MAX);
    }

    /// What the overlay has by now needs no mending any more.
    fn drop_overtaken(&mut self, overlay: &Overlay) -> u64 {
        let before = self.written.len();
        self.written.extend(self.keys.extract_if(.., |key, _| overlay.holds(key)).map(|(key, _)| key));
        let overtaken = (self.written.len() - before) as u64;
        self.mended += overtaken;
        overtaken
    }

    /// Nothing is to be asked for, and what waits for it can read the engine.
    fn is_over(&self) -> bool {
        self.keys.is_empty() && (self.written.is_empty() || self.stuck_since.is_none())
    }

    /// Whether what the next entry needs is there, and the engine can be read.
    fn frees_applying(&self) -> bool {
        let waits = |key| self.keys.contains_key(key) || self.written.contains(key);
        self.stuck_since.is_some() && !self.needed.iter().any(waits)
    }

    /// The next keys to be asked for: those behind the last ones, and from the beginning again.
    fn next_keys(&mut self) -> Vec<Bytes> {
        let behind = self.keys.range::<Bytes, _>((Bound::Excluded(&self.cursor), Bound::Unbounded));
        let before = self.keys.range::<Bytes, _>((Bound::Unbounded, Bound::Included(&self.cursor)));
        let mut bytes = 0;
        let within = behind.chain(before).map(|(key, _)| key).take(PAIRS_MAX).take_while(|key| {
            bytes += key.len();
            bytes <= REQUEST_BYTES_MAX
        });
        let keys: Vec<Bytes> = within.cloned().collect();
        self.cursor = keys.last().cloned().unwrap_or_default();
        keys
    }
}

impl Replica {
    /// The other members by the newest configuration known to be committed. A replica that waits for a pair applies no later change of
    /// members: by its own it would wait for members that are gone, and never ask the new ones.
    fn others_now(&self) -> Vec<Member> {
        let mut members = ChangeContext::members_behind(&self.meta, &self.late);
        members.retain(|member| member.replica != self.spec.replica);
        members
    }

    /// Who is asked: those, and who was a member where it stands; one that was removed may still be there and know.
    fn others(&self) -> Vec<Member> {
        let mut others = self.others_now();
        let now: BTreeSet<ReplicaId> = others.iter().map(|member| member.replica).collect();
        let is_gone = |member: &&Member| member.replica != self.spec.replica && !now.contains(&member.replica);
        others.extend(self.meta.members.iter().filter(is_gone));
        others
    }

    /// These keys are damaged in its engine.
    pub fn mend(&mut self, lane: &mut LaneContext, now: Tick, keys: impl IntoIterator<Item = Bytes>) {
        if self.blank || self.damaged.is_some() || self.repair.is_some() {
            return;
        }
        let alone = self.others().is_empty();
        let (mut found, mut lost, mut news) = (0, Vec::new(), false);
        let mut any = false;
        for key in keys {
            any = true;
            if [META_KEY, LABEL_KEY].contains(&&key[..]) {
                if key == LABEL_KEY && !lane.config.label_spaces {
                    // Of a time when spaces here had labels: no flush would write it anew.
                    self.overlay.delete_raw(key);
                }
                self.write_anew(lane, now);
                continue;
            }
            if self.overlay.holds(&key) || self.lost_pairs.contains(&key) {
                continue;
            }
            if alone {
                lost.push(key);
                continue;
            }
            news |= self.mending.is_none();
            let mending = self.mending.get_or_insert_default();
            if mending.keys.len() >= MENDED_MAX || mending.keys.contains_key(&key) {
                continue;
            }
            mending.keys.insert(key, Answered::default());
            found += 1;
        }
        lane.statistics.pairs_found_damaged += found;
        // Further findings are reported at the end.
        if news {
            self.tell_mending(lane, false, "pairs read as damaged; the other members are asked for them".into());
        }
        self.give_up(lane, lost);
        if any {
            self.on_bucket_damaged(lane, now);
        }
    }

    /// Its own record in the engine is damaged; it is made of what is in memory, with the next flush.
    pub fn write_anew(&mut self, lane: &mut LaneContext, now: Tick) {
        if !self.blank && self.damaged.is_none() && self.flushes.dirty_since().is_none() {
            self.flushes.mark_dirty(now);
            lane.flush_soon = true;
            lane.statistics.pairs_found_damaged += 1;
            lane.statistics.pairs_repaired += 1;
        }
        self.on_bucket_damaged(lane, now);
    }

    /// What reads and snapshots of this turn have met.
    pub fn mend_what_was_seen(&mut self, lane: &mut LaneContext, now: Tick) {
        let seen = self.overlay.take_damage_seen();
        let lost = self.overlay.take_loss_seen() && !self.blank && self.damaged.is_none() && !self.others().is_empty();
        if lost {
            return self.rebuild(lane, "keys of its engine are lost, and which ones it cannot tell".into());
        }
        if !seen.is_empty() {
            self.mend(lane, now, seen);
        }
    }

    /// An entry could not be applied. True: a pair it needs is being mended, and it is tried again behind that.
    pub fn waits_for_mending(&mut self, lane: &mut LaneContext, now: Tick, error: &EngineError) -> bool {
        let seen = self.overlay.take_damage_seen();
        if !matches!(error, EngineError::Corrupt(_)) || seen.is_empty() {
            return false;
        }
        self.mend(lane, now, seen.iter().cloned());
        let held: Vec<Bytes> = seen.iter().filter(|key| self.overlay.holds(key)).cloned().collect();
        if !held.is_empty() {
            self.mending.get_or_insert_default().written.extend(held);
        }
        let waits = |mending: &ValueRepair| {
            seen.iter().any(|key| mending.keys.contains_key(key) || mending.written.contains(key))
        };
        match self.mending.as_mut() {
            Some(mending) if waits(mending) => {
                mending.stuck_since.get_or_insert(now);
                mending.needed = seen;
                true
            }
            _ => false,
        }
    }

    /// Whether pairs of its engine are known to be damaged.
    pub fn has_damage(&self) -> bool {
        self.mending.is_some() || !self.lost_pairs.is_empty()
    }

    /// What is given up and has been written since is lost no more.
    pub fn forget_overwritten(&mut self) {
        self.lost_pairs.retain(|key| !self.overlay.holds(key));
    }

    /// Whether applying waits for a pair.
    pub fn is_stuck(&self) -> bool {
        self.mending.as_ref().is_some_and(|mending| mending.stuck_since.is_some())
    }

    /// For how long it has waited for one.
    pub fn stuck_for(&self, now: Tick) -> Duration {
        let since = self.mending.as_ref().and_then(|mending| mending.stuck_since);
        since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether the damage that a read has just met is one that another member will mend: the client is sent to
    /// another member, or comes again.
    pub fn will_be_mended(&self, error: &EngineError) -> bool {
        matches!(error, EngineError::Corrupt(_))
            && !self.others().is_empty()
            && (self.overlay.has_seen_loss() || self.overlay.has_seen_damage(|key| !self.lost_pairs.contains(key)))
    }

    /// Asks the next member.
    pub fn tick_mending(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(mending) = self.mending.as_mut() else { return };
        if self.late.len() > LATE_MAX {
            return self.rebuild(lane, "too many entries wait for a damaged pair".into());
        }
        mending.written.retain(|key| self.overlay.holds(key));
        lane.flush_soon |= !mending.written.is_empty();
        if mending.is_over() {
            return self.finish_mending(lane, now);
        }
        if mending.frees_applying() {
            return self.apply_again(lane, now);
        }
        let pause = PAUSE * (1 << mending.fruitless.min(PAUSE_DOUBLINGS));
        if mending.asked != Tick(0) && now.since(mending.asked) < pause {
            return;
        }
        lane.statistics.pairs_repaired += mending.drop_overtaken(&self.overlay);
        if mending.keys.is_empty() {
            return;
        }
        mending.asked = now;
        mending.whom += usize::from(mending.fruitless > 0);
        mending.fruitless = mending.fruitless.saturating_add(1);
        let (keys, whom) = (mending.next_keys(), mending.whom);
        let others = self.others();
        if let Some(member) = others.get(whom.checked_rem(others.len()).unwrap_or(0)) {
            self.send(lane, member.node, &Payload::PairsRequest { from: self.spec.replica, keys });
        }
    }

    /// Another member has damaged pairs.
    pub fn on_pairs_request(&mut self, lane: &mut LaneContext, from: NodeId, replica: ReplicaId, keys: Vec<Bytes>) {
        if self.is_stranger(replica) {
            return self.send(lane, from, &Payload::Removed { replica });
        }
        if self.group.is_none() || self.blank {
            // The member that asks tries the next one.
            return;
        }
        let (since, until) = (self.flushes.index(), self.meta.applied);
        let mut answers = Vec::new();
        let mut bytes = 0;
        for key in keys {
            let answer = match self.view().get_raw(&key) {
                Ok(value) => PairAnswer::Whole { value, overlaid: self.overlay.holds(&key) },
                Err(_) => PairAnswer::Damaged,
            };
            if let PairAnswer::Whole { value: Some(value), .. } = &answer {
                bytes += value.len();
                if bytes > REPLY_BYTES_MAX && !answers.is_empty() {
                    break;
                }
            }
            answers.push((key, answer));
        }
        let pairs = Pairs { since, until, answers };
        self.send(lane, from, &Payload::PairsReply { from: self.spec.replica, pairs });
    }

    pub fn on_pairs_reply(&mut self, lane: &mut LaneContext, now: Tick, from: ReplicaId, pairs: Pairs) {
        let is_asked = self.others().iter().any(|member| member.replica == from);
        // Whose word is waited for.
        let others: BTreeSet<ReplicaId> = self.others_now().iter().map(|member| member.replica).collect();
        let Some(mending) = self.mending.as_mut().filter(|_| is_asked) else { return };
        let (own_since, own_until) = (self.flushes.index(), self.meta.applied);
        let meets =
            |since: LogIndex| (since <= own_until && own_since <= pairs.until) || planted(Mutant::MendFromAnyIndex);
        let overtaken = mending.drop_overtaken(&self.overlay);
        let (mut mended, mut lost, mut turned, mut hopeless) = (0, Vec::new(), false, false);
        for (key, answer) in pairs.answers {
            let Some(answered) = mending.keys.get_mut(&key) else { continue };
            match answer {
                PairAnswer::Damaged => {
                    answered.damaged_on.insert(from);
                    if others.is_subset(&answered.damaged_on) {
                        lost.push(key);
                    } else {
                        hopeless |= mending.needed.contains(&key) && answered.is_hopeless(&others);
                    }
                    continue;
                }
                PairAnswer::Whole { overlaid, .. } if !meets(if overlaid { pairs.until } else { pairs.since }) => {
                    // It has left this index, and this replica cannot: a member's durable index never goes back.
                    if mending.needed.contains(&key) && pairs.since > own_until {
                        answered.passed_by.insert(from);
                        hopeless |= answered.is_hopeless(&others);
                    }
                    continue;
                }
                PairAnswer::Whole { value: Some(value), .. } => self.overlay.put_raw(key.clone(), value),
                PairAnswer::Whole { value: None, .. } => {
                    turned |= !self.engine.tells_lost_keys();
                    self.overlay.delete_raw(key.clone());
                }
            }
            mending.keys.remove(&key);
            mending.written.insert(key);
            mended += 1;
        }
        mending.mended += mended;
        lane.statistics.pairs_repaired += mended + overtaken;
        if mended + overtaken + lost.len() as u64 > 0 {
            // The next are asked for with the next tick.
            (mending.asked, mending.fruitless, mending.in_vain) = (Tick(0), 0, 0);
        } else {
            mending.in_vain += 1;
        }
        let in_vain = hopeless || mending.in_vain >= IN_VAIN_MAX;
        if mended > 0 {
            self.flushes.mark_dirty(now);
            // Until it is written out, ranges that meet it fail.
            lane.flush_soon = true;
        }
        if turned {
            return self.rebuild(lane, "a damaged key is one that no other member has: some key turned into it".into());
        }
        if in_vain {
            return self.rebuild(lane, "the others have passed the index at which it needs a damaged pair".into());
        }
        self.give_up(lane, lost);
        let Some(mending) = self.mending.as_ref() else { return };
        if mending.is_over() {
            self.finish_mending(lane, now);
        } else if mending.frees_applying() {
            self.apply_again(lane, now);
        }
    }

    /// Damaged on every member: refused, as it was, until somebody writes it.
    fn give_up(&mut self, lane: &mut LaneContext, lost: Vec<Bytes>) {
        if lost.is_empty() {
            return;
        }
        let count = lost.len();
        lane.statistics.pairs_lost += count as u64;
        for key in lost {
            if let Some(mending) = self.mending.as_mut() {
                mending.keys.remove(&key);
            }
            if self.lost_pairs.len() < LOST_MAX {
                self.lost_pairs.insert(key);
            }
        }
        let text = format!("{count} pairs are damaged on every member; write them anew, or restore a backup");
        self.tell_mending(lane, true, text);
    }

    fn finish_mending(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(done) = self.mending.take() else { return };
        self.tell_mending(lane, false, format!("{} pairs are mended", done.mended));
        // Its bucket counts again behind a flush that begins now.
        self.on_bucket_damaged(lane, now);
        if done.stuck_since.is_some() {
            self.apply_again(lane, now);
        }
    }

    /// The pairs that the next entry needs are there; others may still be asked for.
    fn apply_again(&mut self, lane: &mut LaneContext, now: Tick) {
        if let Some(mending) = self.mending.as_mut() {
            mending.stuck_since = None;
            mending.needed.clear();
        }
        // The entry that could not be applied may have made ids expire.
        if let Err(error) = self.load_request_ids() {
            if !self.waits_for_mending(lane, now, &error) {
                self.rebuild(lane, format!("its request ids cannot be read: {error}"));
            }
        }
    }

    /// Given up, to be replaced by a new replica.
    pub fn rebuild(&mut self, lane: &mut LaneContext, message: String) {
        lane.statistics.replicas_rebuilt += 1;
        self.damage(lane, message);
    }

    fn tell_mending(&self, lane: &mut LaneContext, lost: bool, message: String) {
        let (cluster, name) = (self.spec.cluster, self.spec.name.clone());
        lane.output.notices.push(Notice::Mending { cluster, name, message, lost });
    }
}
