//! Plants one bug after another and looks for the first seed that notices: the test of the simulator.
//!
//! Always: one mutant at a time, for the whole process; the table says by which seed, by which check,
//! how fast. A mutant that survives is a hole in the faults or the checkers.

use crate::campaign::run_seeds;
use crate::plan::Layer;
use base_types::mutant::{plant, Mutant, ALL};
use proof_check::Violation;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Instant;

/// What became of a mutant.
pub struct Kill {
    pub name: &'static str,
    pub text: &'static str,
    /// The seed and the violation that gave it away.
    pub killed: Option<(u64, String)>,
    pub seconds: f64,
}

/// Hunts every mutant (or one) over the first `seeds` seeds.
pub fn hunt(seeds: u64, layer: Layer, jobs: u64, only: Option<&str>) -> Vec<Kill> {
    let mut kills = Vec::new();
    // A seed that fails without any mutant tells nothing about one.
    let mut unfit = BTreeSet::new();
    let mut known = BTreeSet::new();
    run_seeds(0, seeds, layer, jobs, |report| {
        if let Some(violation) = report.violations.first() {
            unfit.insert(report.seed);
            known.insert(signature(violation));
        }
        true
    });
    println!("{} of {seeds} seeds fail without a mutant and are left out: {unfit:?}", unfit.len());
    for (mutant, name, text) in ALL.iter().filter(|(_, name, _)| only.is_none_or(|only| only == *name)) {
        plant(*mutant);
        let started = Instant::now();
        let mut killed = None;
        run_seeds(0, seeds, layer, jobs, |report| {
            if unfit.contains(&report.seed) {
                return true;
            }
            // Nor does a fault that is there without it, met by another way.
            killed =
                report.violations.first().filter(|violation| !known.contains(&signature(violation))).map(|violation| {
                    let message = crate::trace::without_padding(&violation.message).replace('\n', " ");
                    let message: String = message.chars().take(90).collect();
                    (report.seed, format!("{}: {message}", violation.check))
                });
            killed.is_none()
        });
        plant(Mutant::None);
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{name}: {}",
            killed.as_ref().map_or("SURVIVES".to_string(), |(seed, by)| format!("seed {seed} in {seconds:.1} s, {by}"))
        );
        kills.push(Kill { name, text, killed, seconds });
    }
    kills
}

/// What kind of failure it is, whatever the numbers in it.
fn signature(violation: &Violation) -> String {
    let words = violation.message.chars().filter(|letter| !letter.is_ascii_digit()).take(40).collect::<String>();
    format!("{}: {words}", violation.check)
}

/// The table, `docs/proof/mutants.md`.
pub fn page(kills: &[Kill], seeds: u64, layer: &str, commit: &str) -> String {
    let dead = kills.iter().filter(|kill| kill.killed.is_some()).count();
    let mut page = format!("# Mutants\n\nPlanted bugs, one at a time, and the first seed that notices. Written by `proof-sim mutants --layer {layer} --seeds {seeds} --table docs/proof/mutants.md` (built with `--features mutants`) at commit `{commit}`: {dead} of {} killed.\n\n| mutant | what is wrong | seed | seconds | noticed by |\n|---|---|---|---|---|\n", kills.len());
    for kill in kills {
        let (seed, by) = kill
            .killed
            .as_ref()
            .map_or(("survives".to_string(), String::new()), |(seed, by)| (seed.to_string(), by.replace('|', "/")));
        let _ = writeln!(page, "| {} | {} | {seed} | {:.1} | {by} |", kill.name, kill.text, kill.seconds);
    }
    page
}
