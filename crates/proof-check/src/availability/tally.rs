//! What a run's records come to: shares of failed operations by level and by fault, the longest gaps, the way back to
//! full redundancy.
//!
//! Always: an operation belongs to the fault whose window it touches, the earliest where there are two; an operation
//! counts as failed if it was refused, unknown, late or wrong, and a report says how many were of which.
//! Held by: `operations_belong_to_the_fault_they_touch`.

use super::schedule::{day_count, Kind, CUT, KINDS};
use serde_json::{json, Value};
use std::fmt::Write;

/// A window lasts this long after the fault was healed, or until redundancy is back.
pub const SETTLE_MS: u32 = 5_000;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// In time.
    Answered,
    /// Answered, but after its deadline.
    Late,
    /// Certainly not done.
    Refused,
    /// A write that may have been done.
    Unknown,
    /// A read that did not find what had been written.
    Wrong,
}

/// An operation, in milliseconds since the load began.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When its first try left.
    pub begun: u32,
    /// When it was answered or given up.
    pub ended: u32,
    /// How.
    pub outcome: Outcome,
}

/// A fault that happened, in milliseconds since the load began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// What.
    pub kind: Kind,
    /// Whom it met, from 1; 0: several.
    pub member: u64,
    /// When it began.
    pub from: u32,
    /// When what was broken was given back: a process started, a link carried again.
    pub mended: u32,
    /// When it was no longer waited for full redundancy.
    pub to: u32,
    /// When every member held everything again; `None`: not within the time that is waited for it.
    pub whole: Option<u32>,
}

impl Window {
    fn to(&self) -> u32 {
        self.to.max(self.mended + SETTLE_MS)
    }

    fn touches(&self, from: u32, to: u32) -> bool {
        from <= self.to() && to >= self.from
    }
}

/// What became of some operations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// All of them.
    pub operations: u64,
    /// See [`Outcome`].
    pub late: u64,
    /// See [`Outcome`].
    pub refused: u64,
    /// See [`Outcome`].
    pub unknown: u64,
    /// See [`Outcome`].
    pub wrong: u64,
    /// The longest time without an answer.
    pub gap_ms: u32,
}

impl Counts {
    fn merge(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.late += other.late;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.wrong += other.wrong;
        self.gap_ms = self.gap_ms.max(other.gap_ms);
    }

    fn add(&mut self, outcome: Outcome) {
        self.operations += 1;
        match outcome {
            Outcome::Answered => {}
            Outcome::Late => self.late += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Unknown => self.unknown += 1,
            Outcome::Wrong => self.wrong += 1,
        }
    }

    /// All that were not answered well in time.
    pub fn failed(&self) -> u64 {
        self.late + self.refused + self.unknown + self.wrong
    }

    fn json(&self) -> Value {
        json!({
            "operations": self.operations, "failed": self.failed(), "late": self.late, "refused": self.refused,
            "unknown": self.unknown, "wrong": self.wrong, "longest_gap_ms": self.gap_ms,
        })
    }
}

/// One level's figures.
#[derive(Clone, Debug)]
pub struct Level {
    /// The operation and its level.
    pub name: String,
    /// With no fault under way, then by [`KINDS`].
    pub causes: [Counts; KINDS.len() + 1],
}

impl Level {
    /// From what its clients saw.
    pub fn new(name: &str, records: &[Record], windows: &[Window]) -> Level {
        let mut causes = [Counts::default(); KINDS.len() + 1];
        for record in records {
            causes[cause(windows, record.begun, record.ended)].add(record.outcome);
        }
        let mut answers: Vec<u32> =
            records.iter().filter(|record| record.outcome == Outcome::Answered).map(|record| record.ended).collect();
        // Silence from the beginning, or to the end, is a gap as well.
        answers.extend([0, records.iter().map(|record| record.ended).max().unwrap_or(0)]);
        answers.sort_unstable();
        for pair in answers.windows(2) {
            let counts = &mut causes[cause(windows, pair[0], pair[1])];
            counts.gap_ms = counts.gap_ms.max(pair[1] - pair[0]);
        }
        Level { name: name.into(), causes }
    }

    /// Adds what another run saw.
    pub fn merge(&mut self, other: &Level) {
        for (mine, theirs) in self.causes.iter_mut().zip(&other.causes) {
            mine.merge(theirs);
        }
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.causes.iter().for_each(|counts| total.merge(counts));
        total
    }
}

/// The place in [`Level::causes`].
fn cause(windows: &[Window], from: u32, to: u32) -> usize {
    let met = windows.iter().find(|window| window.touches(from, to));
    met.and_then(|window| KINDS.iter().position(|kind| *kind == window.kind)).map_or(0, |at| at + 1)
}

/// A run of one system.
#[derive(Clone, Debug)]
pub struct Availability {
    /// Hive, etcd, or Hive in virtual time.
    pub system: String,
    /// How long it was.
    pub seconds: u64,
    /// What the plan was drawn from.
    pub seed: u64,
    /// Operations a second of each level.
    pub rate: u32,
    /// How long the zone was cut off.
    pub cut_seconds: u64,
    /// What clients saw.
    pub levels: Vec<Level>,
    /// What happened.
    pub windows: Vec<Window>,
    /// The latest that an operation was begun after it was due.
    pub late_ms: u64,
    /// Failed operations of all levels, second by second.
    pub failed_each_second: Vec<u32>,
}

/// Failed operations in each second of a run, by when they began.
pub fn failed_each_second<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<u32> {
    let mut seconds = Vec::new();
    for record in records {
        let at = record.begun as usize / 1_000;
        if seconds.len() <= at {
            seconds.resize(at + 1, 0);
        }
        seconds[at] += u32::from(record.outcome != Outcome::Answered);
    }
    seconds
}

impl Availability {
    fn times(&self, kind: Kind) -> usize {
        self.windows.iter().filter(|window| window.kind == kind).count()
    }

    /// What fails of a day that holds the standard schedule: the failures of one fault of a kind, times its number in a
    /// day, of a day's operations. A cut that was shorter than the schedule's is taken to fail as much for all its time;
    /// what failed in calm counts as often as it did; what the schedule does not have is left out.
    fn share_of_a_day(&self, level: &Level) -> f64 {
        let of_kind = |(at, kind): (usize, &Kind)| match (self.times(*kind), day_count(*kind)) {
            (0, _) | (_, 0) => 0.0,
            (times, in_a_day) => {
                let longer = if *kind == Kind::Cut { CUT.as_secs_f64() / self.cut_seconds.max(1) as f64 } else { 1.0 };
                level.causes[at + 1].failed() as f64 / times as f64 * in_a_day as f64 * longer
            }
        };
        let faults: f64 = KINDS.iter().enumerate().map(of_kind).sum();
        let in_calm = level.causes[0].failed() as f64 / (self.seconds as f64).max(1.0) * 86_400.0;
        (faults + in_calm) / (f64::from(self.rate) * 86_400.0)
    }

    /// Milliseconds from the fault's beginning, and from its mending, to full redundancy, each the median and the longest;
    /// then how often it did not come.
    fn redundancy(&self, kind: Kind) -> Option<([u32; 2], [u32; 2], usize)> {
        let of_kind = || self.windows.iter().filter(|window| window.kind == kind);
        let middle_and_last = |mut all: Vec<u32>| {
            all.sort_unstable();
            Some([*all.get(all.len() / 2)?, *all.last()?])
        };
        let since =
            |from: fn(&Window) -> u32| of_kind().filter_map(|w| Some(w.whole?.saturating_sub(from(w)))).collect();
        let missed = of_kind().filter(|window| window.whole.is_none()).count();
        Some((middle_and_last(since(|w| w.from))?, middle_and_last(since(|w| w.mended))?, missed))
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let level = |level: &Level| {
            let total = level.total();
            let mut causes = json!({ "calm": level.causes[0].json() });
            for (at, kind) in KINDS.iter().enumerate().filter(|(_, kind)| self.times(**kind) > 0) {
                causes[kind.name()] = level.causes[at + 1].json();
            }
            json!({
                "operation": level.name, "total": total.json(), "share_failed": share(&total),
                "share_failed_of_a_day": self.share_of_a_day(level), "by_fault": causes,
            })
        };
        let window = |window: &Window| {
            json!({
                "fault": window.kind.name(), "member": window.member, "from_ms": window.from, "mended_ms": window.mended,
                "whole_ms": window.whole,
            })
        };
        json!({
            "system": self.system, "seconds": self.seconds, "seed": self.seed, "rate": self.rate, "zone_cut_seconds": self.cut_seconds,
            "begun_late_ms_max": self.late_ms, "levels": self.levels.iter().map(level).collect::<Vec<_>>(),
            "faults": self.windows.iter().map(window).collect::<Vec<_>>(), "failed_each_second": self.failed_each_second,
        })
    }

    /// The rows of both tables: heads, then cells.
    fn tables(&self) -> [Vec<Vec<String>>; 2] {
        let kinds: Vec<(usize, Kind)> =
            KINDS.into_iter().enumerate().filter(|(_, kind)| self.times(*kind) > 0).collect();
        let heads = ["operation", "operations", "failed", "share", "of a day", "longest gap ms", "calm"];
        let mut levels = vec![heads.map(str::to_owned).to_vec()];
        levels[0].extend(kinds.iter().map(|(_, kind)| format!("{}× {}", self.times(*kind), kind.name())));
        for level in &self.levels {
            let total = level.total();
            let cell = |counts: &Counts| format!("{} ({} ms)", counts.failed(), counts.gap_ms);
            let mut row = vec![
                level.name.clone(),
                total.operations.to_string(),
                failed(&total),
                percent(share(&total)),
                percent(self.share_of_a_day(level)),
                total.gap_ms.to_string(),
                cell(&level.causes[0]),
            ];
            row.extend(kinds.iter().map(|(at, _)| cell(&level.causes[at + 1])));
            levels.push(row);
        }
        let heads =
            ["fault", "times", "whole again, from its beginning: median, longest s", "from its mending", "not in time"];
        let mut redundancy = vec![heads.map(str::to_owned).to_vec()];
        for (_, kind) in kinds {
            let seconds =
                |[middle, last]: [u32; 2]| format!("{:.1}, {:.1}", f64::from(middle) / 1e3, f64::from(last) / 1e3);
            let cells = match self.redundancy(kind) {
                Some((begun, mended, missed)) => [seconds(begun), seconds(mended), missed.to_string()],
                None => ["–".into(), "–".into(), self.times(kind).to_string()],
            };
            redundancy.push([vec![kind.name().into(), self.times(kind).to_string()], cells.to_vec()].concat());
        }
        [levels, redundancy]
    }

    fn title(&self) -> String {
        format!(
            "availability of {}: {:.1} h, {} operations a second of each level, seed {}, zone cut for {} s; begun at most {} ms late",
            self.system, self.seconds as f64 / 3_600.0, self.rate, self.seed, self.cut_seconds, self.late_ms
        )
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title());
        for table in self.tables() {
            let widths: Vec<usize> = (0..table[0].len())
                .map(|column| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
                .collect();
            for row in &table {
                let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
                let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
            }
            out.push('\n');
        }
        out
    }

    /// For the page: the title and the tables.
    pub fn html(&self) -> String {
        let mut out = format!("<h2>{}</h2>", self.title());
        for table in self.tables() {
            out.push_str("<table>");
            for (at, row) in table.iter().enumerate() {
                let tag = if at == 0 { "th" } else { "td" };
                let cells: String = row.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
                let _ = write!(out, "<tr>{cells}</tr>");
            }
            out.push_str("</table>");
        }
        out
    }
}

fn share(counts: &Counts) -> f64 {
    counts.failed() as f64 / counts.operations.max(1) as f64
}

/// With as many digits as six nines need.
fn percent(share: f64) -> String {
    format!("{:.5} %", share * 100.0)
}

/// How many failed, and of which kinds.
fn failed(counts: &Counts) -> String {
    let kinds =
        [("late", counts.late), ("refused", counts.refused), ("unknown", counts.unknown), ("WRONG", counts.wrong)];
    let kinds: Vec<String> =
        kinds.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    if kinds.is_empty() {
        return "0".into();
    }
    format!("{}: {}", counts.failed(), kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begun: u32, ended: u32, outcome: Outcome) -> Record {
        Record { begun, ended, outcome }
    }

    fn window(kind: Kind, from: u32, mended: u32, whole: Option<u32>) -> Window {
        Window { kind, member: 1, from, mended, to: whole.unwrap_or(mended), whole }
    }

    #[test]
    fn operations_belong_to_the_fault_they_touch() {
        let windows =
            [window(Kind::Kill, 1_000, 2_000, Some(2_500)), window(Kind::Pause, 20_000, 30_000, Some(40_000))];
        let records = [
            record(0, 10, Outcome::Answered),
            record(990, 1_005, Outcome::Unknown),
            record(6_999, 7_000, Outcome::Refused),
            record(7_001, 7_002, Outcome::Answered),
            record(39_000, 39_001, Outcome::Late),
            record(40_001, 40_002, Outcome::Wrong),
        ];
        let level = Level::new("put", &records, &windows);
        let at = |kind: Kind| level.causes[KINDS.iter().position(|one| *one == kind).unwrap() + 1];
        assert_eq!((at(Kind::Kill).operations, at(Kind::Kill).failed(), at(Kind::Kill).unknown), (2, 2, 1));
        assert_eq!((at(Kind::Pause).late, level.causes[0].wrong, level.causes[0].operations), (1, 1, 3));
        assert_eq!(level.total().operations, 6);
        assert_eq!(level.total().failed(), 4);
    }

    #[test]
    fn the_longest_gap_is_between_answers_and_belongs_to_its_fault() {
        let windows = [window(Kind::Kill, 1_000, 2_000, Some(2_500))];
        let records = [
            record(0, 100, Outcome::Answered),
            record(900, 990, Outcome::Answered),
            record(1_100, 1_300, Outcome::Refused),
            record(1_500, 1_690, Outcome::Answered),
            record(7_500, 7_900, Outcome::Answered),
            record(9_000, 9_500, Outcome::Unknown),
        ];
        let level = Level::new("put", &records, &windows);
        let kill = level.causes[1];
        assert_eq!(kill.gap_ms, 6_210, "from 1,690 on: it begins inside the window");
        assert_eq!(level.causes[0].gap_ms, 1_600, "silence to the end of the records");
    }

    #[test]
    fn a_day_holds_as_many_faults_as_the_schedule_says() {
        let windows = vec![window(Kind::Kill, 0, 1_000, Some(1_500)), window(Kind::Kill, 60_000, 61_000, None)];
        let mut records = vec![record(500, 600, Outcome::Refused); 6];
        records.push(record(60_500, 60_600, Outcome::Answered));
        let levels = vec![Level::new("put", &records, &windows)];
        let run = Availability {
            system: "hive".into(),
            seconds: 300,
            seed: 1,
            rate: 100,
            cut_seconds: 25,
            levels,
            windows,
            late_ms: 3,
            failed_each_second: failed_each_second(records.iter()),
        };
        // Three a kill, 24 kills a day, 8,640,000 operations a day.
        assert!((run.share_of_a_day(&run.levels[0]) - 72.0 / 8_640_000.0).abs() < 1e-12);
        assert_eq!(run.redundancy(Kind::Kill), Some(([1_500, 1_500], [500, 500], 1)));
        assert_eq!(run.failed_each_second[0], 6);
        assert_eq!(run.failed_each_second.len(), 61);
        let text = run.text();
        assert!(text.contains("2× kill") && text.contains("6: 6 refused") && text.contains("0.00083 %"), "{text}");
        assert_eq!(run.json()["levels"][0]["by_fault"]["kill"]["failed"], 6);
        assert!(run.html().contains("<td>put</td>"));
    }
}
