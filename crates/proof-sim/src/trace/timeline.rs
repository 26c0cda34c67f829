//! A run as a picture: a row for each node, one for faults, one for clients, one for what was violated.
//!
//! Always: no row is wider than `COLUMNS`; a cell shows the worst that happened in it.
//! Not here: lines of text (`page`).

use super::line::About;
use super::recorder::{NodeState, Recorder};

/// The widest a page of a trace is.
pub const COLUMNS: usize = 120;
/// Columns before the first cell.
const LABEL_COLUMNS: usize = 11;
/// Cells of a row.
const CELLS: usize = COLUMNS - LABEL_COLUMNS;
/// Cells between two times of the ruler.
const RULER_CELLS: usize = 18;
/// Names of faults, in the order of the list; later ones share the last.
const FAULT_LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*";

/// The letter of a fault in the list and in the row.
pub fn fault_letter(number: usize) -> char {
    FAULT_LETTERS[number.min(FAULT_LETTERS.len() - 1)] as char
}

/// A time line of `from..to`.
pub struct Timeline<'a> {
    pub recorder: &'a Recorder,
    pub nodes: usize,
    pub from_us: u64,
    pub to_us: u64,
    /// Whose leaders are marked.
    pub about: Option<&'a About>,
    /// The first and the last line that is shown.
    pub shown: Option<(u64, u64)>,
}

impl Timeline<'_> {
    fn cell_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us).div_ceil(CELLS as u64).max(1)
    }

    /// The cells that a span touches.
    fn cells(&self, from_us: u64, to_us: u64) -> std::ops::Range<usize> {
        if to_us < self.from_us || to_us < from_us || from_us >= self.to_us {
            return 0..0;
        }
        let cell = |at: u64| (at.saturating_sub(self.from_us) / self.cell_us()) as usize;
        cell(from_us).min(CELLS - 1)..(cell(to_us.min(self.to_us - 1).max(from_us)) + 1).min(CELLS)
    }

    /// The whole picture.
    pub fn draw(&self) -> String {
        let leads =
            self.about.map_or(String::new(), |about| format!("  L leads {}  l leads it and is cut off", about.short()));
        let mut text = format!(
            "time line: a column is {} ms\n  - up  : cut off from some  / cut off from all  ~ paused  x down{leads}\n",
            ms(self.cell_us())
        );
        text += &row("ms", self.ruler());
        for node in 0..self.nodes {
            text += &row(&format!("n{}", node + 1), self.node(node));
        }
        text += &row("faults", self.faults());
        text += &row("clients", self.marked(' ', self.recorder.failures.iter().map(|at| (*at, *at, 'x'))));
        let found = self.recorder.violations.iter();
        let spans = found.clone().map(|found| (found.from_us, found.to_us, '.'));
        text += &row("violation", self.marked(' ', spans.chain(found.map(|found| (found.to_us, found.to_us, 'V')))));
        text += &row("lines", self.marked(' ', self.shown.iter().map(|(from, to)| (*from, *to, '='))));
        text
    }

    fn ruler(&self) -> String {
        let mut cells = String::new();
        for cell in (0..CELLS).step_by(RULER_CELLS) {
            let at = ms(self.from_us + cell as u64 * self.cell_us());
            let room = RULER_CELLS.min(CELLS - cell);
            cells += &format!("{:<room$.room$}", format!("|{at}"));
        }
        cells
    }

    fn marked(&self, blank: char, spans: impl Iterator<Item = (u64, u64, char)>) -> String {
        let mut cells = [blank; CELLS];
        for (from, to, mark) in spans {
            cells[self.cells(from, to)].fill(mark);
        }
        cells.iter().collect()
    }

    fn node(&self, node: usize) -> String {
        let changes: Vec<(u64, NodeState)> =
            self.recorder.states.iter().filter(|(_, of, _)| *of == node).map(|(at, _, state)| (*at, *state)).collect();
        let mut worst = [None; CELLS];
        for (number, (from, state)) in changes.iter().enumerate() {
            // It ends just before the next begins.
            let to = changes.get(number + 1).map_or(u64::MAX, |(next, _)| next.saturating_sub(1).max(*from));
            for cell in &mut worst[self.cells(*from, to)] {
                *cell = (*cell).max(Some(*state));
            }
        }
        let mut leads = [false; CELLS];
        let of_cluster = |about: &&About| self.about.is_some_and(|wanted| wanted.id == about.id);
        for reign in self.recorder.reigns.iter().filter(|reign| reign.node == node && of_cluster(&&reign.about)) {
            leads[self.cells(reign.from_us, reign.to_us.unwrap_or(u64::MAX))].fill(true);
        }
        let mark = |(state, leads): (Option<NodeState>, bool)| match (state.unwrap_or(NodeState::Down), leads) {
            // Beyond the end.
            _ if state.is_none() => ' ',
            (NodeState::Down, _) => 'x',
            (NodeState::Paused, _) => '~',
            (NodeState::CutOff | NodeState::Partly, true) => 'l',
            (NodeState::CutOff, false) => '/',
            (NodeState::Partly, false) => ':',
            (NodeState::Up, true) => 'L',
            (NodeState::Up, false) => '-',
        };
        worst.into_iter().zip(leads).map(mark).collect()
    }

    fn faults(&self) -> String {
        let faults = self.recorder.faults.iter().enumerate();
        let lasting = faults.clone().filter(|(_, fault)| fault.hazard.for_ms > 0);
        let lasting = lasting.map(|(_, fault)| (fault.at_us, fault.at_us + fault.hazard.for_ms * 1_000, '.'));
        self.marked(' ', lasting.chain(faults.map(|(number, fault)| (fault.at_us, fault.at_us, fault_letter(number)))))
    }
}

/// Milliseconds of virtual time, as FROM and TO take them, with the microseconds behind the point.
pub fn ms(us: u64) -> String {
    match us % 1_000 {
        0 => format!("{}", us / 1_000),
        rest => format!("{}.{rest:03}", us / 1_000),
    }
}

fn row(label: &str, cells: String) -> String {
    let text = format!("{label:<LABEL_COLUMNS$.LABEL_COLUMNS$}{cells}");
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::line::Filter;
    use super::super::recorder::{Judged, Reign};
    use super::*;
    use crate::plan::{FaultKind, Hazard};

    #[test]
    fn every_node_fault_failure_and_violation_has_its_place_in_bounded_rows() {
        let about = About { name: "metadata@t0".into(), id: Some(7) };
        let mut recorder = Recorder::new(Filter::default(), 0, 0);
        let second = CELLS as u64 * 1_000;
        for (at, node, state) in [
            (0, 0, NodeState::Up),
            (0, 1, NodeState::Up),
            (10_000, 0, NodeState::Down),
            (20_000, 0, NodeState::Up),
            (30_000, 1, NodeState::CutOff),
            (35_000, 1, NodeState::Up),
        ] {
            recorder.mark_state(at, node, state);
        }
        let reign = |node, from_us, to_us| Reign { about: about.clone(), node, term: 1, from_us, to_us };
        [reign(0, 5_000, Some(10_000)), reign(1, 15_000, None)].into_iter().for_each(|one| recorder.mark_reign(one));
        let hazard = Hazard { at_ms: 0, kind: FaultKind::Crash, node: 1, peer: 0, for_ms: 3, amount: 0 };
        recorder.mark_fault(10_000, &hazard);
        recorder.mark_failure(12_000);
        let (check, message) = ("reads", "an old value".to_string());
        recorder.judge(Judged { check, message, from_us: 38_000, to_us: 40_000, records: vec![1], about: None });
        let line =
            Timeline { recorder: &recorder, nodes: 2, from_us: 0, to_us: second, about: Some(&about), shown: None };
        let drawn = line.draw();
        let rows: Vec<&str> = drawn.lines().collect();
        assert!(rows.iter().all(|row| row.chars().count() <= COLUMNS), "{drawn}");
        let cells = |label: &str| -> String {
            let row = rows.iter().find(|row| row.starts_with(label)).expect("the row is there");
            row.chars().skip(LABEL_COLUMNS).take(42).collect()
        };
        assert_eq!(cells("n1"), "-----LLLLLxxxxxxxxxx----------------------");
        assert_eq!(cells("n2"), "---------------LLLLLLLLLLLLLLLlllllLLLLLLL");
        assert_eq!(cells("faults"), "          a...");
        assert_eq!(cells("clients"), "            x");
        assert_eq!(cells("violation"), "                                      ..V");
    }

    #[test]
    fn a_window_shows_only_what_touches_it() {
        let mut recorder = Recorder::new(Filter::default(), 0, 0);
        recorder.mark_state(0, 0, NodeState::Up);
        [1_000, 5_000, 9_000].into_iter().for_each(|at| recorder.mark_failure(at));
        let line = Timeline { recorder: &recorder, nodes: 1, from_us: 4_000, to_us: 6_000, about: None, shown: None };
        assert_eq!(line.draw().matches('x').count(), 1 + 1, "one failure, and the legend");
    }
}
