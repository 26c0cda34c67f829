//! A plan is run twice for its trace: the first run finds what broke and when, the second keeps the lines around it.
//!
//! Always: both runs must leave the same trace hash; if not, that is a violation of its own.
//! Not here: the form of what is printed (`page`, `json`).

use crate::trace::line::Filter;
use crate::trace::recorder::Recorder;
mod json;
mod page;

use crate::campaign::opener;
use crate::plan::Plan;
use crate::run::{run_recorded, Report};
use proof_check::Violation;

/// The form of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// A page for a person.
    #[default]
    Page,
    /// JSON lines.
    Json,
}

/// What a reader asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    pub filter: Filter,
    pub format: Format,
}

/// Runs a plan for a reader; `again` is the command that does so. The error is one line: the filter names what is not there.
pub fn traced(plan: &Plan, wanted: &Wanted, again: &str) -> Result<(Report, String), String> {
    if let Some(node) = wanted.filter.node.filter(|node| *node as u64 >= plan.shape.nodes) {
        return Err(format!("node {} is not in this world; its nodes are 1 to {}", node as u64 + 1, plan.shape.nodes));
    }
    let first = Recorder::new(Filter::default(), 0, 0).shared();
    let found = run_recorded(plan, opener(plan), Some(first.clone()));
    known_cluster(plan, wanted, &first.borrow())?;
    let lines_max = match wanted.format {
        Format::Page => page::LINES_MAX,
        Format::Json => json::LINES_MAX,
    };
    let focus_us = focus(&wanted.filter, &first.borrow());
    let second = Recorder::new(wanted.filter.clone(), lines_max, focus_us).shared();
    let mut report = run_recorded(plan, opener(plan), Some(second.clone()));
    if (found.trace_hash, found.violations.len()) != (report.trace_hash, report.violations.len()) {
        let message = "two runs of this plan differ; proof-sim twice says where".to_string();
        report.violations.push(Violation::new("determinism", message, vec![]));
    }
    let recorder = &mut *second.borrow_mut();
    let text = match wanted.format {
        Format::Page => page::page(recorder, plan, &report, again),
        Format::Json => json::lines(recorder, plan, &report),
    };
    Ok((report, text))
}

/// Lines around this moment are kept where there are too many: what broke, where the window begins, the first fault, or the end.
fn focus(filter: &Filter, recorder: &Recorder) -> u64 {
    let broken = recorder.violations.iter().map(|found| found.to_us).find(|at| filter.covers(*at));
    let first_fault = recorder.faults.first().map(|fault| fault.at_us);
    broken.or(filter.from_us).or(first_fault).unwrap_or(u64::MAX)
}

fn known_cluster(plan: &Plan, wanted: &Wanted, recorder: &Recorder) -> Result<(), String> {
    let Some(word) = wanted.filter.cluster.as_deref() else { return Ok(()) };
    let is_bucket = (0..plan.shape.buckets).any(|number| word == format!("bucket{number}"));
    if is_bucket || recorder.names.values().any(|about| about.answers_to(word)) {
        return Ok(());
    }
    let names: Vec<&str> = recorder.names.values().map(|about| about.short()).collect();
    Err(format!("cluster '{word}' is not in this world; it has {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Layer, Load};
    use crate::run::run;

    #[test]
    fn a_recorded_run_leaves_the_trace_of_one_that_is_not() {
        let drawn = crate::swarm::draw(3, Layer::Lane);
        let load = Load { run_ms: 1_000, mixed: 1, ledger: 0, counters: 0, ..Load::default() };
        let mut plan = Plan { load, hazards: Vec::new(), ..drawn };
        (plan.shape.clusters, plan.shape.keyspaces) = (1, 0);
        let plain = run(&plan, opener(&plan));
        let (report, page) = traced(&plan, &Wanted::default(), "again").expect("it runs");
        assert_eq!((report.trace_hash, report.events), (plain.trace_hash, plain.events));
        assert!(page.contains("time line") && page.contains("LEADS in term"), "{page}");
    }
}
