//! What a leader proposes for its backends without a client: the end of leases, the removal of old history.
//!
//! ```text
//!   applied ──▶ looked at ──▶ wanted at a time ──time comes──▶ staged ──▶ an entry ──▶ applied ─▶ …
//! ```
//!
//! A new leader first proposes what its backends want of a change of leaders: leases that are about to end are renewed once
//! (decision 0090). Until that is done, nothing else is proposed here.
//!
//! What is wanted next is remembered, and looked at again only after its space has changed. A quiet cluster is woken for it by an
//! alarm of its lane (mutant `UpkeepSleeps`).
//!
//! Always: one such entry is under way at a time, at most one a tick and one for each end that a read waits for. Whether its time has
//! come the entry decides where it is applied, by the cluster's time: a leader can propose too early or twice, and nothing happens
//! twice. The cluster's time never runs ahead of the clocks of leaders, also where leaders change (decision 0082).
//! Held by: `lease_ends_by_itself_and_not_before_its_time`, `new_leader_ends_a_lease_once_and_not_early`.
//! Not here: what is wanted (core-backends), what is done when it is applied (there, too).

use crate::context::LaneContext;
use crate::entry::EntryCommand;
use crate::replica::Replica;
use crate::storage::overlay::BackendView;
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, LogIndex, NodeId, RequestId, Tick};
use bytes::Bytes;
use core_backends::Upkeep as Wanted;
use core_raft::Group;
use std::time::Duration;

/// A bit of a request id that no other entry of a cluster's own sets.
const ID_BIT: u128 = 1 << 63;
/// How long such a request id is remembered: nobody repeats it.
const KEEP_MS: u64 = 1_000;

/// What one leader remembers. A new leader begins with nothing.
#[derive(Default)]
pub struct Upkeep {
    /// Spaces that have changed since they were looked at, a bit for each backend.
    unseen: u16,
    next: Option<Box<(BackendKind, Wanted)>>,
    /// Of a new leader, until it has done what comes first.
    takeover: Option<Box<Takeover>>,
    /// It is among the writes of this turn.
    staged: bool,
    /// It is an entry of the log.
    under_way: Option<LogIndex>,
    /// Nothing is proposed before.
    not_before: Tick,
    /// A read waits until an entry has the time of now: what is wanted next is proposed sooner than it is due.
    hurried: bool,
}

/// How far a new leader has come.
#[derive(Default)]
struct Takeover {
    /// The cluster's time at which it took over.
    began_ms: u64,
    /// The space that is looked at, and from where on.
    backend: usize,
    after: Bytes,
    /// This pass has found something, so another follows.
    found: bool,
}

impl Upkeep {
    /// Of a new leader, from the cluster's time at which it took over: all is to be looked at.
    pub fn of_new_leader(began_ms: u64) -> Upkeep {
        let takeover = Some(Box::new(Takeover { began_ms, ..Takeover::default() }));
        Upkeep { unseen: u16::MAX, takeover, ..Upkeep::default() }
    }

    /// A read waits for an entry.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Spaces have changed.
    pub fn note(&mut self, changed: u16) {
        self.unseen |= changed;
    }
}

/// Looks at what has changed, and stages what is due. With the turn's writes it becomes an entry.
pub fn advance(replica: &mut Replica, lane: &LaneContext, now: Tick) {
    let Some(term) = replica.leading else { return };
    let applied = replica.meta.applied;
    replica.upkeep.under_way.take_if(|index| *index <= applied);
    let settled = replica.meta.applied_term == term && !replica.group.as_ref().is_some_and(Group::is_transferring);
    match replica.upkeep.takeover {
        // What leaders before it have committed is looked at when it is applied.
        Some(_) if !settled => return,
        Some(_) => take_over(replica, now),
        None => {}
    }
    if replica.upkeep.takeover.is_none() {
        look(replica);
    }
    if !settled || !has_room(lane) || !is_due(replica, now) {
        return;
    }
    let Some((backend, wanted)) = replica.upkeep.next.as_deref().cloned() else { return };
    if replica.upkeep.takeover.is_some() {
        replica.upkeep.next = None;
    }
    (replica.upkeep.staged, replica.upkeep.hurried) = (true, false);
    replica.upkeep.not_before = now + Duration::from_millis(lane.config.tick_ms);
    replica.stage_own(EntryCommand {
        backend: backend as u8,
        request_id: id(now, lane.config.node),
        keep_ms: KEEP_MS,
        command: wanted.command,
    });
}

/// Whether the lane has room for entries of a cluster's own.
pub fn has_room(lane: &LaneContext) -> bool {
    !lane.disk_full && !lane.is_pressed(4)
}

/// The turn's writes have been proposed.
pub fn on_proposed(replica: &mut Replica) {
    if std::mem::take(&mut replica.upkeep.staged) {
        replica.upkeep.under_way = replica.proposed.back().map(|proposed| proposed.index);
    }
}

/// Finds what comes first of a new leader, a space a step, until there is something to propose.
fn take_over(replica: &mut Replica, now: Tick) {
    for _ in 0..=BackendKind::ALL.len() {
        if replica.upkeep.staged || replica.upkeep.under_way.is_some() || replica.upkeep.next.is_some() {
            return;
        }
        take_over_step(replica, now);
    }
}

fn take_over_step(replica: &mut Replica, now: Tick) {
    let now_ms = replica.cluster_time(now);
    let Some(mut state) = replica.upkeep.takeover.take() else { return };
    let Some(backend) = BackendKind::ALL.get(state.backend).copied() else { return };
    let space = BackendView { view: replica.view(), backend: backend as u8 };
    let part = match replica.spec.name.has(backend) {
        true => core_backends::takeover(backend, &space, state.began_ms, now_ms, &state.after),
        false => Ok(None),
    };
    match part {
        Ok(Some(part)) => {
            state.after = part.next;
            state.found |= part.command.is_some();
            replica.upkeep.next =
                part.command.map(|command| Box::new((backend, Wanted { at_ms: state.began_ms.max(1), command })));
        }
        // What was renewed meanwhile has another place: once more, until nothing is found.
        Ok(None) if state.found => (state.after, state.found) = (Bytes::new(), false),
        // Damage is mended, or the replica replaced; leases then have no more time than they had.
        Ok(None) | Err(_) => {
            *state = Takeover { backend: state.backend + 1, began_ms: state.began_ms, ..Takeover::default() }
        }
    }
    replica.upkeep.takeover = Some(state);
}

fn id(now: Tick, node: NodeId) -> RequestId {
    RequestId::own(u128::from(now.0) << 64 | ID_BIT | u128::from(node.0))
}

/// Finds what is wanted next, where something has changed.
fn look(replica: &mut Replica) {
    let unseen = std::mem::take(&mut replica.upkeep.unseen);
    if unseen == 0 {
        return;
    }
    let mut next: Option<(BackendKind, Wanted)> = None;
    for backend in BackendKind::ALL.into_iter().filter(|backend| replica.spec.name.has(*backend)) {
        let space = BackendView { view: replica.view(), backend: backend as u8 };
        match core_backends::upkeep(backend, &space) {
            Ok(Some(wanted)) if next.as_ref().is_none_or(|(_, first)| wanted.at_ms < first.at_ms) => {
                next = Some((backend, wanted));
            }
            Ok(_) => {}
            // It is mended, or the replica replaced; until then each turn looks once more.
            Err(_) => replica.upkeep.unseen = unseen,
        }
    }
    replica.upkeep.next = next.map(Box::new);
}

/// Whether a leader has something to propose now, and nothing of it is under way.
pub fn is_due(replica: &Replica, now: Tick) -> bool {
    if replica.leading.is_some() && replica.upkeep.takeover.is_some() && replica.upkeep.next.is_none() {
        // It looks on with each turn, and does not fall asleep before it is done.
        return replica.upkeep.under_way.is_none();
    }
    let Upkeep { next: Some(next), staged: false, under_way: None, .. } = &replica.upkeep else { return false };
    let wanted = &next.1;
    let hidden =
        planted(Mutant::LeaderNeverExpires) && wanted.at_ms > 0 || planted(Mutant::GarbageStays) && wanted.at_ms == 0;
    replica.leading.is_some()
        && (now >= replica.upkeep.not_before || replica.upkeep.hurried)
        && (wanted.at_ms <= replica.cluster_time(now) || replica.upkeep.hurried)
        && !hidden
}

/// When a leader has something to propose that is not due yet.
pub fn next_due(replica: &Replica, now: Tick) -> Tick {
    let next = replica.upkeep.next.as_ref().filter(|_| replica.leading.is_some() && !planted(Mutant::UpkeepSleeps));
    let left_ms = next.map(|next| next.1.at_ms.saturating_sub(replica.time_base.0));
    let at = left_ms
        .map_or(Tick::NEVER, |left_ms| Tick(replica.time_base.1 .0.saturating_add(left_ms.saturating_mul(1_000))));
    // Due before its pause has ended it is not proposed yet (lane seed 2976: a lease whose end came within 5 ms of another's).
    let at = if planted(Mutant::UpkeepPauseOverslept) { at } else { at.max(replica.upkeep.not_before) };
    if at > now {
        at
    } else {
        Tick::NEVER
    }
}
