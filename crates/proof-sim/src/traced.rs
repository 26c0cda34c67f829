//! The words of a command line that ask for a trace, and the command that shows a failure again.
//!
//! Not here: the trace itself (lib, `replay`).

use crate::words::{flag, number, option, Ran, Refused};
use proof_sim::plan::{Layer, Plan};
use proof_sim::replay::{traced, Format, Wanted};
use proof_sim::run::Report;
use proof_sim::trace::line::Filter;

/// Options that narrow a trace.
const NARROWING: &[&str] = &["--node", "--cluster", "--from", "--to", "--trace-format"];
/// All options of a trace.
pub const OPTIONS: &[&str] = &["--trace", "--node", "--cluster", "--from", "--to", "--trace-format"];

/// What was asked for. `None`: no trace.
pub fn wanted(words: &[String]) -> Result<Option<Wanted>, Refused> {
    if !flag(words, "--trace") {
        return match NARROWING.iter().find(|name| flag(words, name)) {
            Some(name) => Err(Refused(format!("{name} needs --trace (make sim: TRACE=1)"))),
            None => Ok(None),
        };
    }
    let ms = |name: &str| -> Result<Option<u64>, Refused> {
        let found = option(words, name)?.map(|text| number(text, name)).transpose()?;
        Ok(found.map(|ms| ms.saturating_mul(1_000)))
    };
    let (from_us, to_us) = (ms("--from")?, ms("--to")?);
    if from_us.zip(to_us).is_some_and(|(from, to)| from >= to) {
        return Err(Refused("--from is not before --to; both are milliseconds of virtual time".to_string()));
    }
    let node = option(words, "--node")?.map(|text| number(text.trim_start_matches('n'), "--node")).transpose()?;
    let node = match node {
        Some(0) => return Err(Refused("--node 0 is no node; nodes count from 1".to_string())),
        node => node.map(|node| node as usize - 1),
    };
    let format = match option(words, "--trace-format")? {
        None | Some("text") => Format::Page,
        Some("json") => Format::Json,
        Some(other) => return Err(Refused(format!("unknown format '{other}'; text and json are known"))),
    };
    let cluster = option(words, "--cluster")?.map(str::to_string);
    Ok(Some(Wanted { filter: Filter { from_us, to_us, node, cluster }, format }))
}

/// Runs a plan and prints its trace.
pub fn show(plan: &Plan, wanted: &Wanted, again: &str) -> Ran {
    let (report, text): (Report, String) = traced(plan, wanted, again).map_err(Refused)?;
    print!("{text}");
    Ok(report.violations.is_empty())
}

/// The command that shows a seed again, with its trace.
pub fn of_seed(seed: u64, layer: Layer, mutant: Option<&str>) -> String {
    let layer = if layer == Layer::Lane { " LAYER=lane" } else { "" };
    format!("make sim SEED={seed}{layer} TRACE=1{}", planted(mutant))
}

/// The same of a scenario file.
pub fn of_scenario(file: &str, mutant: Option<&str>) -> String {
    format!("make sim SCENARIO={file} TRACE=1{}", planted(mutant))
}

fn planted(mutant: Option<&str>) -> String {
    mutant.map_or(String::new(), |name| format!(" MUTANT={name}"))
}
