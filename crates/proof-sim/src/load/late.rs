//! Clients that come again late: a request that was done is sent once more, through another node, within the window in
//! which its id is remembered. Some ids are issued: made after a position that an answer told. They may come later still.
//!
//! Always: such a repetition applies nothing and returns where the first was applied, or (issued) that it has expired.
//! Every check of values and counters also sees a double apply.
//! Not here: repetitions while the first is under way (`load`).

use super::draw::STRONG_WRITE;
use super::{Kind, Load};
use crate::random::Random;
use crate::world::World;
use base_types::action::{Action, Level};
use base_types::{ErrorCode, OrderedAt, Refusal, RequestId, RequestIdKind};
use proof_check::{Ending, Observed, Place, Violation};
use std::collections::BTreeMap;

/// So many ids in a thousand are issued, where clients come late.
const ISSUED: u64 = 300;
/// How late an issued id comes again at most.
const ISSUED_LATE_US_MAX: u64 = 40_000_000;

/// A request that was done and will come again.
#[derive(Clone)]
pub(super) struct Repeat {
    pub action: Action,
    pub request_id: RequestId,
    /// Where the first was applied.
    at: OrderedAt,
    due: u64,
    until: u64,
}

/// What one client keeps for it. A stream of its own: other draws stay as they were.
pub(super) struct Late {
    random: Random,
    repeat: Option<Repeat>,
    seen: BTreeMap<Place, OrderedAt>,
}

impl Late {
    pub fn new(seed: u64, client: usize) -> Late {
        let random = Random::stream(seed, &format!("late client {client}"));
        Late { random, repeat: None, seen: BTreeMap::new() }
    }

    /// The repetition whose time has come.
    pub fn due(&mut self, now: u64) -> Option<Repeat> {
        let due = self.repeat.take_if(|repeat| repeat.due <= now)?;
        Some(due).filter(|repeat| now < repeat.until)
    }

    /// An id for a request to this place that a client made after it had seen the place, where it has.
    pub fn issued(&mut self, place: Place, per_mille: u64) -> Option<RequestId> {
        let seen = self.seen.get(&place).copied().filter(|_| per_mille > 0)?;
        let text = u128::from(self.random.draw());
        self.random.per_mille(ISSUED).then(|| RequestId::issued(seen.cluster, seen.generation, seen.index, text))?
    }
}

impl Repeat {
    /// How long the client tries.
    pub fn gives_up_at(&self) -> u64 {
        self.until
    }

    fn is_issued(&self) -> bool {
        matches!(self.request_id.kind(), RequestIdKind::Issued(_))
    }

    fn wrong(&self, what: String) -> Violation {
        let message = format!("{:?}, done at {:?}, was sent once more: {what}", self.action, self.at);
        Violation::new("repeats", message, vec![])
    }
}

impl Load {
    /// An operation was done: perhaps it comes again.
    pub(super) fn after_done(&mut self, world: &World, client: usize, record: usize, action: &Action, id: RequestId) {
        let Some(record) = self.history.records.get(record).filter(|_| self.plan.late > 0) else { return };
        let (Some(at), Ending::Ok) = (record.at, record.ending) else { return };
        // A swap that was answered, but not done.
        if record.observed == Some(Observed::ConditionFailed) {
            return;
        }
        let this = &mut self.clients[client];
        if !matches!(this.kind, Kind::Mixed | Kind::Counter | Kind::Writer | Kind::Ledger | Kind::Swapper) {
            return;
        }
        this.late.seen.insert(record.place, at);
        // What was acknowledged early has no place that is sure.
        let sure =
            matches!((record.level, STRONG_WRITE), (Level::Write(level), Level::Write(strong)) if level >= strong);
        let random = &mut this.late.random;
        if !sure || this.late.repeat.is_some() || !random.per_mille(self.plan.late) {
            return;
        }
        let issued = matches!(id.kind(), RequestIdKind::Issued(_));
        let window = if issued { ISSUED_LATE_US_MAX } else { self.window_us };
        let due = record.invoked + random.below(window.max(1));
        let until = if issued { u64::MAX } else { record.invoked + window };
        if due > world.now {
            this.late.repeat = Some(Repeat { action: action.clone(), request_id: id, at, due, until });
        }
    }

    /// A repetition was answered.
    pub(super) fn on_repeated(&mut self, world: &mut World, repeat: &Repeat, at: Option<OrderedAt>) {
        world.probe("repeated_late");
        let place = |at: OrderedAt| (at.cluster, at.generation);
        // A part that has moved is remembered where it is now, under a place there.
        if let Some(at) = at.filter(|at| place(*at) == place(repeat.at) && *at != repeat.at) {
            world.violate(repeat.wrong(format!("it was applied at {at:?}")));
        }
    }

    /// A repetition was refused for good.
    pub(super) fn on_repeat_refused(&mut self, world: &mut World, repeat: &Repeat, refusal: &Refusal) {
        match refusal.code {
            ErrorCode::RequestIdExpired if repeat.is_issued() => world.probe("issued_id_expired"),
            ErrorCode::RequestIdExpired | ErrorCode::ConditionFailed => {
                world.violate(repeat.wrong(refusal.to_string()))
            }
            _ => {}
        }
    }
}
