//! Many runs: seeds over threads, each run on one thread of its own; failures told and shrunk.
//!
//! Always: reports come out in the order of seeds, whatever the number of threads.
//! Not here: one run (`run`).

use crate::lane_machine::LaneOpener;
use crate::machine::Opener;
use crate::plan::{Layer, Plan};
use crate::real::CoreOpener;
use crate::run::{run, Report};
use crate::{shrink, swarm};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// What a plan runs.
pub fn opener(plan: &Plan) -> Box<dyn Opener> {
    match plan.layer {
        Layer::Core => Box::new(CoreOpener),
        Layer::Lane => LaneOpener::boxed(&plan.shape),
    }
}

/// Runs plans `from..to` of the swarm on `jobs` threads; `on_report` gets each, in order. False from it stops.
pub fn run_seeds(from: u64, to: u64, layer: Layer, jobs: u64, mut on_report: impl FnMut(Report) -> bool) {
    let one = |seed| {
        let plan = swarm::draw(seed, layer);
        run(&plan, opener(&plan))
    };
    in_order(from, to, jobs, one, |_, report| on_report(report));
}

/// Runs something for each seed of `from..to` on `jobs` threads; `on_result` gets what it came to, in order. False stops.
pub fn in_order<T: Send>(
    from: u64,
    to: u64,
    jobs: u64,
    run_one: impl Fn(u64) -> T + Sync,
    mut on_result: impl FnMut(u64, T) -> bool,
) {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel::<(u64, T)>();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, next, stop, run_one) = (sender.clone(), &next, &stop, &run_one);
            scope.spawn(move || loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= to || stop.load(Ordering::Relaxed) {
                    return;
                }
                let result = run_one(seed);
                if sender.send((seed, result)).is_err() {
                    return;
                }
            });
        }
        drop(sender);
        let mut early: BTreeMap<u64, T> = BTreeMap::new();
        let mut expected = from;
        for (seed, result) in receiver {
            early.insert(seed, result);
            while let Some(result) = early.remove(&expected) {
                let seed = expected;
                expected += 1;
                if !stop.load(Ordering::Relaxed) && !on_result(seed, result) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    });
}

/// Describes a failure: what broke, how to replay it, and which faults were under way.
pub fn describe_failure(report: &Report, plan: &Plan, replay: &str) -> String {
    let mut text = format!("seed {} FAILED\n", report.seed);
    for violation in report.violations.iter().take(5) {
        text += &format!("  {}: {}\n", violation.check, crate::trace::without_padding(&violation.message));
    }
    text += &format!("replay: {replay}\n");
    text += &format!("plan: {:?}, {} clients, {} hazards\n", plan.shape, plan.load.clients(), plan.hazards.len());
    for hazard in &plan.hazards {
        text += &format!("  {hazard}\n");
    }
    text
}

/// The smallest plan found that fails as this one does.
pub fn shrink_failure(plan: &Plan, report: &Report) -> Plan {
    let Some(check) = report.violations.first().map(|violation| violation.check) else { return plan.clone() };
    shrink::shrink(plan, check, |plan| {
        run(plan, opener(plan)).violations.first().map(|violation| violation.check.to_string())
    })
}
