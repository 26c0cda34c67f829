//! What a set of runs came to, as the page `docs/proof/ledger.md`.
//!
//! Always: numbers are sums over the runs named on the page; a fault kind that never fired in a large
//! run is a failure of the simulator itself.
//! Held by: `a_large_run_in_which_nothing_fired_has_failed`.

use crate::excuses::Excuse;
use crate::marks::{Marks, Walked};
use crate::plan::{FaultKind, Layer};
use crate::run::Report;
use crate::swarm;
use base_types::WriteConsistency;
use proof_check::ledger::Ledger;
use std::collections::BTreeMap;
use std::fmt::Write;

/// From so many seeds on, every fault kind must have fired.
pub const SEEDS_FOR_PROBES: u64 = 500;
/// Work that every large run of the whole core must have seen: lost disks replaced, members moved off nodes that are gone or go.
const MUST_BE_BUSY: &[&str] =
    &["replacements under way, a core", "members to move, a core", "snapshots going out, a lane", "plans, a core"];

/// Sums over runs.
#[derive(Clone, Default, Debug)]
pub struct Totals {
    pub seeds: u64,
    pub failed: Vec<u64>,
    pub simulated_us: u64,
    pub events: u64,
    pub operations: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub probes: BTreeMap<&'static str, u64>,
    /// What checks let pass, how often, and in how many runs.
    pub excuses: BTreeMap<Excuse, (u64, u64)>,
    pub ledger: Ledger,
    pub gave_up: u64,
    pub keys_searched: u64,
    pub terms: u64,
    pub state_points: u64,
    pub marks: Marks,
    pub walked: Walked,
    /// Seeds run twice in separate processes, and a line for each that differed.
    pub doubled: u64,
    pub differing: Vec<String>,
}

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        if !report.violations.is_empty() {
            self.failed.push(report.seed);
        }
        self.simulated_us += report.simulated_us;
        self.events += report.events;
        self.operations += report.operations;
        self.acknowledged += report.acknowledged;
        self.unknown += report.unknown;
        self.gave_up += report.gave_up;
        self.keys_searched += report.keys_searched;
        self.terms += report.terms;
        self.state_points += report.state_points;
        self.ledger.add(&report.ledger);
        self.marks.add(&report.marks);
        self.walked.add(&report.walked);
        for (name, count) in &report.probes {
            *self.probes.entry(name).or_default() += count;
        }
        for (excuse, count) in &report.excuses {
            let (uses, runs) = self.excuses.entry(*excuse).or_default();
            (*uses, *runs) = (*uses + count, *runs + 1);
        }
    }

    /// Adds what `twice` found.
    pub fn add_doubles(&mut self, doubled: u64, differing: Vec<String>) {
        self.doubled += doubled;
        self.differing.extend(differing);
    }

    /// Everything for which the run has failed, one line each.
    pub fn findings(&self, layer: Layer) -> Vec<String> {
        let mut findings = self.differing.clone();
        let dead = self.dead_probes(layer);
        if !dead.is_empty() {
            findings.push(format!("DEAD PROBES: never fired in {} seeds: {}", self.seeds, dead.join(", ")));
        }
        if !self.failed.is_empty() {
            findings.push(format!("failed seeds: {:?}", self.failed));
        }
        findings
    }

    /// Fault kinds that never fired, paths never walked and work never under way, although the run was large enough.
    pub fn dead_probes(&self, layer: Layer) -> Vec<&'static str> {
        if self.seeds < SEEDS_FOR_PROBES {
            return Vec::new();
        }
        let drawn = FaultKind::ALL.iter().filter(|kind| swarm::draws(**kind, layer)).map(|kind| kind.name());
        let dead = drawn.filter(|name| self.probes.get(name).copied().unwrap_or(0) == 0);
        let busy = |name: &str| self.marks.iter().any(|(of, mark)| of == name && mark.high > 0);
        let idle = MUST_BE_BUSY.iter().copied().filter(|name| layer == Layer::Core && !busy(name));
        dead.chain(self.walked.dead(layer == Layer::Core)).chain(idle).collect()
    }

    /// The page.
    pub fn page(&self, commit: &str, seeds: &str, layer: Layer, wall_seconds: f64, jobs: u64) -> String {
        let hours = self.simulated_us as f64 / 3.6e9;
        let mut page = String::new();
        let out = &mut page;
        let _ = writeln!(
            out,
            "# Seed ledger\n\nWritten by `proof-sim run --seeds {seeds} --layer {} --ledger docs/proof/ledger.md`.\n",
            layer.name()
        );
        let _ = writeln!(out, "| | |\n|---|---|\n| commit | `{commit}` |\n| seeds | {} ({seeds}) |\n| failed seeds | {} {:?} |\n| simulated hours | {hours:.2} |\n| wall seconds | {wall_seconds:.0} on {jobs} jobs |\n| times real time, per job | {:.0} |\n| events | {} |", self.seeds, self.failed.len(), self.failed, self.simulated_us as f64 / 1e6 / wall_seconds.max(0.001) / jobs as f64, self.events);
        let _ = writeln!(out, "| operations | {} ({} acknowledged, {} of unknown outcome) |\n| keys searched by the black box | {} ({} given up) |\n| terms with a leader | {} |\n| states compared | {} |\n| run twice in separate processes | {} ({} differ) |\n", self.operations, self.acknowledged, self.unknown, self.keys_searched, self.gave_up, self.terms, self.state_points, self.doubled, self.differing.len());
        let _ = writeln!(out, "## Durability\n\nWrites to keys that are written once, read back at the end.\n\n| level | acknowledged | lost |\n|---|---|---|");
        for level in WriteConsistency::ALL {
            let account = self.ledger.levels[level as usize];
            let _ = writeln!(out, "| {level} | {} | {} |", account.acknowledged, account.lost);
        }
        let _ = writeln!(out, "\n## Faults fired\n\n| kind | times | what it does |\n|---|---|---|");
        for kind in FaultKind::ALL {
            let count = self.probes.get(kind.name()).copied().unwrap_or(0);
            let _ = writeln!(out, "| {} | {count} | {} |", kind.name(), kind.describe());
        }
        let _ = writeln!(out, "\n## Excuses used\n\nWhat a check let pass for what was done to the world: once for each replica, life or operation.\n\n| excuse | times | in seeds | what it lets pass |\n|---|---|---|---|");
        for excuse in Excuse::ALL {
            let (uses, runs) = self.excuses.get(excuse).copied().unwrap_or_default();
            let _ = writeln!(out, "| {} | {uses} | {runs} | {} |", excuse.name(), excuse.describe());
        }
        let _ = writeln!(out, "\n## Other probes\n\n| probe | times |\n|---|---|");
        let is_fault = |name: &str| FaultKind::ALL.iter().any(|kind| kind.name() == name);
        for (name, count) in self.probes.iter().filter(|(name, _)| !is_fault(name)) {
            let _ = writeln!(out, "| {name} | {count} |");
        }
        self.write_paths(out);
        page
    }

    fn write_paths(&self, out: &mut String) {
        let _ = writeln!(out, "\n## Paths walked\n\n| path | times |\n|---|---|");
        for (name, count) in self.walked.iter() {
            let _ = writeln!(out, "| {name} | {count} |");
        }
        let _ = writeln!(out, "\n## Queues and tables\n\nThe longest each became, beside its bound then; those of work under way were seen empty at every run's end.\n\n| what | longest | bound | work under way |\n|---|---|---|---|");
        for (name, mark) in self.marks.iter() {
            let passing = if mark.passing { "yes" } else { "" };
            let _ = writeln!(out, "| {name} | {} | {} | {passing} |", mark.high, mark.bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_run_in_which_nothing_fired_has_failed() {
        let of = |seeds| Totals { seeds, ..Totals::default() };
        let told = of(SEEDS_FOR_PROBES).findings(Layer::Core).concat();
        for name in ["crash_at_vote", "wall_jump", "snapshots installed", "members to move, a core"] {
            assert!(told.contains("DEAD PROBES") && told.contains(name), "{name} is missed by nobody: {told}");
        }
        let lanes = of(SEEDS_FOR_PROBES).findings(Layer::Lane).concat();
        assert!(lanes.contains("crash_at_vote") && !lanes.contains("wall_jump") && !lanes.contains("members to move"));
        assert_eq!(of(SEEDS_FOR_PROBES - 1).findings(Layer::Core), Vec::<String>::new());
    }
}
