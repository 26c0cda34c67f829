//! What a traced run leaves for its reader: lines within bounds, and what a time line is drawn from.
//!
//! ```text
//!   world, load, faults ──▶ recorder ──▶ page (a person), json (a program)
//! ```
//!
//! Always: a recorder only looks; the same seed gives the same trace hash with it and without it. Of too many lines those
//! that are routine go first, then messages, then events, those farthest from the focus; how many is known.
//! Not here: which lines are wanted (`line`), how they look (`timeline`, `replay`).

use super::line::{About, Filter, Kind, Line};
use crate::plan::Hazard;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Marks of one kind (states of nodes, leaders, faults, failures) that are kept for the time line.
const MARKS_MAX: usize = 100_000;

/// A run and its reader share it; both are of one thread.
pub type SharedRecorder = Rc<RefCell<Recorder>>;

/// How a node is, as a time line shows it. The worst comes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NodeState {
    Up,
    /// Cut off from some peers.
    Partly,
    /// Cut off from all.
    CutOff,
    Paused,
    Down,
}

/// A cluster had this leader for this long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reign {
    pub about: About,
    pub node: usize,
    pub term: u64,
    pub from_us: u64,
    /// `None`: until the end.
    pub to_us: Option<u64>,
}

/// A fault that began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultMark {
    pub at_us: u64,
    pub hazard: Hazard,
}

/// A promise that was broken, and when: the span of the operations that show it, or the moment at which it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    pub check: &'static str,
    pub message: String,
    pub from_us: u64,
    pub to_us: u64,
    pub records: Vec<u64>,
    /// What those operations were about.
    pub about: Option<About>,
}

/// The recorder of one run.
#[derive(Default)]
pub struct Recorder {
    filter: Filter,
    lines_max: usize,
    /// Lines around this moment are kept where there are too many.
    focus_us: u64,
    events: Shelf,
    messages: Shelf,
    routine: Shelf,
    pub cut: Cut,
    /// The latest moment anything was recorded at.
    pub now_us: u64,
    pub phases: Vec<(u64, &'static str)>,
    pub states: Vec<(u64, usize, NodeState)>,
    pub reigns: Vec<Reign>,
    pub faults: Vec<FaultMark>,
    /// When operations of clients ended without success.
    pub failures: Vec<u64>,
    pub violations: Vec<Judged>,
    /// Every cluster that was seen.
    pub names: BTreeMap<u64, About>,
    pub(crate) seen: super::seen::Seen,
}

/// Lines that were wanted and are not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// Leaders, faults, deaths, failed operations, log lines.
    pub events: u64,
    /// What nodes and clients say.
    pub messages: u64,
    /// Timers, disks, heartbeats.
    pub routine: u64,
}

/// Lines of one rank, those around the focus.
#[derive(Default)]
struct Shelf {
    early: VecDeque<Line>,
    late: Vec<Line>,
    /// All that were ever put here.
    count: u64,
}

impl Shelf {
    fn push(&mut self, line: Line, focus_us: u64, max: usize) {
        self.count += 1;
        if line.at_us > focus_us {
            if self.late.len() < max {
                self.late.push(line);
            }
            return;
        }
        self.early.push_back(line);
        if self.early.len() > max {
            self.early.pop_front();
        }
    }

    /// At most so many: three of four from before the focus, if there are so many, the rest from after it. And how many are left.
    fn take(&mut self, max: usize) -> (Vec<Line>, u64) {
        let late = self.late.len().min(max.saturating_sub(self.early.len()).max(max / 4));
        let early = self.early.len().min(max - late);
        let mut lines: Vec<Line> = self.early.drain(self.early.len() - early..).collect();
        lines.extend(self.late.drain(..late));
        let left = self.count - lines.len() as u64;
        (lines, left)
    }
}

impl Recorder {
    /// Keeps at most so many wanted lines, those around a moment.
    pub fn new(filter: Filter, lines_max: usize, focus_us: u64) -> Recorder {
        Recorder { filter, lines_max, focus_us, ..Recorder::default() }
    }

    /// To be shared with a run.
    pub fn shared(self) -> SharedRecorder {
        Rc::new(RefCell::new(self))
    }

    /// Whether a line of this moment may be kept: otherwise nobody need make one.
    pub fn wants(&self, at_us: u64) -> bool {
        self.lines_max > 0 && self.filter.covers(at_us)
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Records a line.
    pub fn push(&mut self, at_us: u64, line: Line) {
        let line = Line { at_us, text: super::without_padding(&line.text), ..line };
        if self.lines_max == 0 || !self.filter.keeps(&line) {
            return;
        }
        let shelf = match line.kind {
            _ if line.routine => &mut self.routine,
            Kind::Turn | Kind::Client => &mut self.messages,
            _ => &mut self.events,
        };
        shelf.push(line, self.focus_us, self.lines_max);
    }

    /// The lines to show, in order of time. Where there are too many, events come first, then what was said around the focus.
    pub fn lines(&mut self) -> Vec<Line> {
        let all = [&self.events, &self.messages, &self.routine].iter().map(|shelf| shelf.count).sum::<u64>();
        let fits = all <= self.lines_max as u64;
        let messages_min = self.messages.count.min(self.lines_max as u64 * 3 / 8) as usize;
        let (mut lines, events) = self.events.take(self.lines_max - if fits { 0 } else { messages_min });
        let (said, messages) = self.messages.take(self.lines_max - lines.len());
        let (often, routine) = self.routine.take(if fits { self.lines_max - lines.len() - said.len() } else { 0 });
        self.cut = Cut { events, messages, routine };
        lines.extend(said);
        lines.extend(often);
        let shows =
            |id: Option<u64>| id.is_some_and(|id| self.violations.iter().any(|found| found.records.contains(&id)));
        lines.iter_mut().filter(|line| shows(line.record)).for_each(|line| line.kind = Kind::Violation);
        let found = self.violations.iter().map(|found| {
            let text = super::without_padding(&format!("VIOLATION {}: {}", found.check, found.message));
            Line { at_us: found.to_us, ..Line::new(Kind::Violation, text.replace('\n', " ")) }
        });
        lines.extend(found.filter(|line| self.lines_max > 0 && self.filter.keeps(line)));
        lines.sort_by_key(|line| line.at_us);
        lines
    }

    pub(crate) fn mark_state(&mut self, at_us: u64, node: usize, state: NodeState) {
        bounded(&mut self.states, (at_us, node, state));
    }

    pub(crate) fn mark_reign(&mut self, reign: Reign) {
        bounded(&mut self.reigns, reign);
    }

    /// A fault begins.
    pub fn mark_fault(&mut self, at_us: u64, hazard: &Hazard) {
        bounded(&mut self.faults, FaultMark { at_us, hazard: hazard.clone() });
    }

    /// An operation ended without success.
    pub fn mark_failure(&mut self, at_us: u64) {
        bounded(&mut self.failures, at_us);
    }

    /// A phase begins.
    pub fn phase(&mut self, at_us: u64, name: &'static str) {
        bounded(&mut self.phases, (at_us, name));
        self.push(at_us, Line::new(Kind::Phase, name));
    }

    /// A promise was broken in this moment.
    pub fn judge_now(&mut self, check: &'static str, message: &str) {
        let (at, message) = (self.now_us, message.to_string());
        self.judge(Judged { check, message, from_us: at, to_us: at, records: Vec::new(), about: None });
    }

    /// A promise was broken.
    pub fn judge(&mut self, judged: Judged) {
        if !self.violations.iter().any(|known| known.message == judged.message) {
            bounded(&mut self.violations, judged);
        }
    }
}

fn bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MARKS_MAX {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(lines_max: usize, focus_us: u64, count: u64, line: impl Fn(u64) -> Line) -> Recorder {
        let mut recorder = Recorder::new(Filter::default(), lines_max, focus_us);
        (0..count).for_each(|at| recorder.push(at, line(at)));
        recorder
    }

    fn times(recorder: &mut Recorder) -> Vec<u64> {
        recorder.lines().iter().map(|line| line.at_us).collect()
    }

    #[test]
    fn lines_within_the_bound_are_all_kept() {
        let mut recorder = filled(10, 5, 10, |at| Line::new(Kind::Turn, "it").routine(at % 2 == 0));
        assert_eq!(times(&mut recorder), (0..10).collect::<Vec<_>>());
        assert_eq!(recorder.cut, Cut::default());
    }

    #[test]
    fn routine_lines_go_first_and_are_counted() {
        let mut recorder = filled(10, 100, 16, |at| Line::new(Kind::Turn, "it").routine(at % 2 == 0));
        assert_eq!(times(&mut recorder), [1, 3, 5, 7, 9, 11, 13, 15]);
        assert_eq!(recorder.cut, Cut { routine: 8, ..Cut::default() });
    }

    #[test]
    fn lines_around_the_focus_are_kept_and_the_rest_counted() {
        let mut recorder = filled(8, 50, 100, |_| Line::new(Kind::Leader, "it"));
        assert_eq!(times(&mut recorder), [45, 46, 47, 48, 49, 50, 51, 52]);
        assert_eq!(recorder.cut, Cut { events: 92, ..Cut::default() });
    }

    #[test]
    fn events_from_far_stay_where_messages_go() {
        let kind = |at: u64| if at.is_multiple_of(10) { Kind::Leader } else { Kind::Turn };
        let mut recorder = filled(16, 99, 100, |at| Line::new(kind(at), "it"));
        let expected = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 94, 95, 96, 97, 98, 99];
        assert_eq!(times(&mut recorder), expected);
        assert_eq!(recorder.cut, Cut { messages: 84, ..Cut::default() });
    }

    #[test]
    fn a_recorder_without_room_keeps_no_line() {
        let mut recorder = filled(0, 50, 100, |_| Line::new(Kind::Fault, "it"));
        assert!(!recorder.wants(1) && recorder.lines().is_empty());
    }
}
