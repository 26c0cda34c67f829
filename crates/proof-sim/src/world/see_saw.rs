//! A cut that follows leadership: each new leader is cut off, and the one that was cut off before is let back. So logs
//! diverge again and again, each time with other members in reach (Raft paper, figure 8).
//!
//! Always: one node is cut off at a time; it acts at a turn's end, before anything of that turn leaves.
//! Not here: when it begins and ends (`faults`).

use super::World;
use crate::machine::Machine;
use crate::plan::FaultKind;
use crate::trace::line::{Kind, Line};
use base_types::{ClusterId, LogIndex, Term};

/// The see-saw.
pub struct SeeSaw {
    cluster: ClusterId,
    /// Who is cut off, and the last term it led in.
    down: Option<usize>,
    term: Term,
    /// The next leader is cut off when it commits, not when it wins.
    lets_commit: bool,
}

/// What is looked at before a turn and after it.
#[derive(Clone, Copy)]
pub(super) struct Lead {
    term: Term,
    applied: LogIndex,
}

impl SeeSaw {
    fn lead(&self, machine: &dyn Machine) -> Option<Lead> {
        let seen = machine.glances().into_iter().find(|seen| seen.cluster == self.cluster)?;
        seen.is_leader.then_some(Lead { term: seen.term, applied: seen.applied })
    }
}

impl World {
    /// Begins with some cluster that has a leader, and cuts that one off first. False: there is none, or the fault is
    /// under way already.
    pub fn begin_see_saw(&mut self) -> bool {
        if self.see_saw.is_some() {
            return false;
        }
        let mut led = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let machines = node.lanes.iter().filter_map(|lane| lane.machine.as_ref());
            let seen = machines.flat_map(|machine| machine.glances()).filter(|seen| seen.is_leader);
            led.extend(seen.map(|seen| (number, seen.cluster, seen.term)));
        }
        if led.is_empty() {
            return false;
        }
        let (node, cluster, term) = *self.random.fault.pick(&led);
        self.see_saw = Some(SeeSaw { cluster, down: None, term, lets_commit: false });
        self.tip(node, term);
        true
    }

    /// Ends: nobody is cut off by it any more.
    pub fn end_see_saw(&mut self) {
        if let Some(node) = self.see_saw.take().and_then(|see_saw| see_saw.down) {
            self.hide(node, false);
        }
    }

    pub(super) fn lead_of(&self, machine: &dyn Machine) -> Option<Lead> {
        self.see_saw.as_ref()?.lead(machine)
    }

    /// A turn of a node is over and nothing of it has left.
    pub(super) fn weigh(&mut self, node: usize, before: Option<Lead>, machine: &dyn Machine) {
        let Some(see_saw) = self.see_saw.as_ref() else { return };
        let Some(lead) = see_saw.lead(machine).filter(|lead| lead.term > see_saw.term) else { return };
        let committed = before.is_some_and(|before| before.term == lead.term && lead.applied > before.applied);
        if committed || !see_saw.lets_commit {
            self.tip(node, lead.term);
        }
    }

    fn tip(&mut self, node: usize, term: Term) {
        let lets_commit = self.random.fault.per_mille(500);
        let Some(see_saw) = self.see_saw.as_mut() else { return };
        (see_saw.term, see_saw.lets_commit) = (term, lets_commit);
        let back = see_saw.down.replace(node);
        if let Some(back) = back {
            self.hide(back, false);
        }
        self.hide(node, true);
        self.probe(FaultKind::SeeSaw.name());
        self.trace.say(self.now, || {
            let back = back.map_or(String::new(), |back| format!("; n{} is back", back + 1));
            let next = if lets_commit { "when it commits" } else { "at once" };
            let text = format!("see_saw: leads in {term:?} and is cut off{back}; the next leader is cut off {next}");
            Line::new(Kind::Fault, text).node(node)
        });
    }

    /// As a black hole, and back.
    pub(super) fn hide(&mut self, node: usize, hidden: bool) {
        for peer in (0..self.nodes.len()).filter(|peer| *peer != node) {
            for (from, to) in [(node, peer), (peer, node)] {
                match hidden {
                    true => self.network.cut(from, to),
                    false => self.network.mend(from, to),
                }
            }
        }
    }
}
