//! `proof-sim`: runs seeds, replays one, runs scenarios, shrinks failures, hunts mutants.
//!
//! Always: exit code 0 all well, 1 something was violated, 2 bad input (one clear line).
//! Not here: the simulator (lib).

mod progress;
mod traced;
mod words;

use progress::Progress;
use proof_check::Violation;
use proof_sim::campaign::{describe_failure, opener, run_seeds, shrink_failure};
use proof_sim::ledger::Totals;
use proof_sim::plan::{Load, Plan, Shape, SimTuning, PLAN_VERSION};
use proof_sim::run::{run, Report};
use proof_sim::trace::without_padding;
use proof_sim::{availability, campaign, excuses, overload, panics, swarm, twice};
#[cfg(feature = "mutants")]
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use traced::{of_scenario, of_seed};
use words::{flag, jobs, known, layer, option, seed_range, seed_word, Ran, Refused, USAGE};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    panics::remember();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ran = match words.first().map(String::as_str) {
        Some("run") => command_run(&words[1..]),
        Some("replay") => command_replay(&words[1..]),
        Some("plan") => command_plan(&words[1..]),
        Some("scenario") => command_scenario(&words[1..]),
        Some("shrink") => command_shrink(&words[1..]),
        Some("mutants") => command_mutants(&words[1..]),
        Some("twice") => command_twice(&words[1..]),
        Some("availability") => command_availability(&words[1..]),
        Some("overload") => command_overload(&words[1..]),
        Some("speed") => command_speed(&words[1..]),
        Some("hash") => command_hash(&words[1..]),
        Some(other) => Err(Refused(format!("unknown command '{other}'; {USAGE}"))),
        None => Err(Refused(USAGE.to_string())),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Refused(line)) => {
            eprintln!("proof-sim: {line}");
            ExitCode::from(2)
        }
    }
}

fn command_plan(words: &[String]) -> Ran {
    known(words, &["--layer"])?;
    print!("{}", swarm::draw(seed_word(words)?, layer(words)?).to_toml());
    Ok(true)
}

fn command_run(words: &[String]) -> Ran {
    known(words, &["--seeds", "--jobs", "--ledger", "--keep-going", "--no-shrink", "--layer"])?;
    let ((from, to), jobs, layer) = (seed_range(words)?, jobs(words)?, layer(words)?);
    let ledger = option(words, "--ledger")?;
    let keep_going = flag(words, "--keep-going");
    let mut progress = Progress::new(to - from);
    let mut totals = Totals::default();
    let mut first: Option<Report> = None;
    let mut sampled = Vec::new();
    run_seeds(from, to, layer, jobs, |report| {
        totals.add(&report);
        if twice::is_sampled(report.seed, from) {
            sampled.push((report.seed, twice::trace_text(&report)));
        }
        let failed = !report.violations.is_empty();
        if failed {
            let plan = swarm::draw(report.seed, layer);
            println!("{}", describe_failure(&report, &plan, &of_seed(report.seed, layer, None)));
            first.get_or_insert(report);
        }
        progress.tell(totals.seeds, totals.failed.len());
        keep_going || !failed
    });
    let wall = progress.seconds();
    totals.add_doubles(sampled.len() as u64, twice::compare(&sampled, layer, jobs));
    let page = totals.page(&commit(), &format!("{from}..{to}"), layer, wall, jobs);
    println!("{page}");
    if let Some(file) = ledger {
        std::fs::write(file, page).map_err(|error| Refused(format!("cannot write {file}: {error}")))?;
    }
    if let Some(report) = first.filter(|_| !flag(words, "--no-shrink")) {
        println!(
            "shrunk plan; keep it as a scenario file:\n{}",
            shrunk_scenario(&swarm::draw(report.seed, layer), &report)
        );
    }
    let findings = totals.findings(layer);
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(findings.is_empty())
}

/// The smallest plan found, as a scenario file that says what it shows.
fn shrunk_scenario(plan: &Plan, report: &Report) -> String {
    let small = shrink_failure(plan, report);
    let what = report.violations.first().map(told_shortly).unwrap_or_default();
    let (left, all) = (small.hazards.len(), plan.hazards.len());
    format!(
        "# Seed {}, shrunk to {left} of {all} hazards, at commit {}.\n# {what}\n{}",
        plan.seed,
        commit(),
        small.to_toml()
    )
}

/// A violation in one short line.
fn told_shortly(violation: &Violation) -> String {
    let message = without_padding(&violation.message).replace('\n', " ");
    format!("{}: {}", violation.check, message.chars().take(200).collect::<String>())
}

/// What this program was built from (build.rs), not what is checked out now.
fn commit() -> String {
    env!("HIVE_BUILD_COMMIT").to_string()
}

fn tell(report: &Report, plan: &Plan, replay: &str) -> bool {
    match report.violations.is_empty() {
        true => {
            println!(
                "seed {}: well; {} operations ({} acknowledged, {} unknown), {} events, {:.1} simulated s, trace {:016x}, {} keys searched, {} given up, excuses: {}",
                report.seed, report.operations, report.acknowledged, report.unknown, report.events, report.simulated_us as f64 / 1e6, report.trace_hash, report.keys_searched, report.gave_up, excuses::line(&report.excuses)
            );
            true
        }
        false => {
            println!("{}", describe_failure(report, plan, replay));
            false
        }
    }
}

fn command_replay(words: &[String]) -> Ran {
    known(words, &[traced::OPTIONS, &["--layer", "--mutant"]].concat())?;
    plant_named(words)?;
    let (seed, layer, wanted) = (seed_word(words)?, layer(words)?, traced::wanted(words)?);
    let plan = swarm::draw(seed, layer);
    let again = of_seed(seed, layer, option(words, "--mutant")?);
    match wanted {
        Some(wanted) => traced::show(&plan, &wanted, &again),
        None => Ok(tell(&run(&plan, opener(&plan)), &plan, &again)),
    }
}

fn read_plan(file: &str) -> Result<Plan, Refused> {
    let text = std::fs::read_to_string(file).map_err(|error| Refused(format!("cannot read {file}: {error}")))?;
    Plan::parse(&text).map_err(|error| Refused(format!("{file}: {error}")))
}

fn command_scenario(words: &[String]) -> Ran {
    known(words, &[traced::OPTIONS, &["--mutant"]].concat())?;
    plant_named(words)?;
    let (mutant, wanted) = (option(words, "--mutant")?, traced::wanted(words)?);
    let files = words::plain(words);
    if files.is_empty() {
        return Err(Refused(format!("a scenario file is missing; {USAGE}")));
    }
    let plans: Vec<(&String, Plan)> =
        files.into_iter().map(|file| read_plan(file).map(|plan| (file, plan))).collect::<Result<_, _>>()?;
    let mut well = true;
    for (file, plan) in plans {
        let again = of_scenario(file, mutant);
        if let Some(wanted) = &wanted {
            well &= traced::show(&plan, wanted, &again)?;
            continue;
        }
        print!("{file}: ");
        well &= tell(&run(&plan, opener(&plan)), &plan, &again);
    }
    Ok(well)
}

fn command_shrink(words: &[String]) -> Ran {
    known(words, &["--layer"])?;
    let layer = layer(words)?;
    let word = words.first().ok_or_else(|| Refused(format!("a seed or a file is missing; {USAGE}")))?;
    let (plan, replay) = match word.parse() {
        Ok(seed) => (swarm::draw(seed, layer), of_seed(seed, layer, None)),
        Err(_) => (read_plan(word)?, of_scenario(word, None)),
    };
    let report = run(&plan, opener(&plan));
    if report.violations.is_empty() {
        println!("{word}: well; there is nothing to shrink");
        return Ok(true);
    }
    // The failure beside the file: what is written to standard output is a scenario as it stands.
    eprintln!("{}", describe_failure(&report, &plan, &replay));
    print!("{}", shrunk_scenario(&plan, &report));
    Ok(false)
}

/// Runs seeds twice, each in a process of its own, and compares the traces.
fn command_twice(words: &[String]) -> Ran {
    known(words, &["--seeds", "--layer", "--jobs"])?;
    let ((from, to), layer, jobs) = (seed_range(words)?, layer(words)?, jobs(words)?);
    let mut first = Vec::new();
    for seed in from..to {
        first.push((seed, twice::trace_elsewhere(seed, layer).map_err(Refused)?));
    }
    let different = twice::compare(&first, layer, jobs);
    different.iter().for_each(|line| println!("{line}"));
    println!("{} seeds run twice in separate processes: {} differ", to - from, different.len());
    Ok(different.is_empty())
}

/// For `twice`: the trace of a seed, one hash a line.
fn command_hash(words: &[String]) -> Ran {
    known(words, &["--layer"])?;
    let plan = swarm::draw(seed_word(words)?, layer(words)?);
    print!("{}", twice::trace_text(&run(&plan, opener(&plan))));
    Ok(true)
}

/// Five nodes, sixteen clusters, no faults: how much faster than real time.
fn command_speed(words: &[String]) -> Ran {
    known(words, &["--layer"])?;
    let layer = layer(words)?;
    let shape = Shape {
        nodes: 5,
        lanes: 1,
        regions: 3,
        world_members: 5,
        clusters: 16,
        cluster_size: 5,
        keyspaces: 0,
        buckets: 0,
        versioned: 0,
        suspended: 0,
        quota_keys: 0,
        regional: false,
        wall_clock: false,
        tails: 0,
        shared_chassis: 0,
        access: false,
        histories: 0,
        both_doors: false,
        databases: 0,
        database_keyspaces: false,
    };
    let load = Load { run_ms: 60_000, mixed: 16, ledger: 0, counters: 0, ..Load::default() };
    let plan = Plan {
        version: PLAN_VERSION,
        seed: 1,
        title: "speed".to_string(),
        layer,
        shape,
        tuning: SimTuning::default(),
        load,
        hazards: Vec::new(),
    };
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let report = run(&plan, opener(&plan));
    let wall = started.elapsed().as_secs_f64();
    let simulated = report.simulated_us as f64 / 1e6;
    println!(
        "5 nodes x 16 clusters, 16 clients: {simulated:.1} simulated s, {} operations, {} events",
        report.operations, report.events
    );
    println!("{wall:.2} s on the clock: {:.0} x real time", simulated / wall);
    if let (Some(before), Some(after)) = (cpu_before, cpu_seconds()) {
        let cpu = after - before;
        println!("{cpu:.2} s of CPU: {:.0} x real time on one core", simulated / cpu);
    }
    Ok(tell(&report, &plan, "proof-sim speed"))
}

/// Days of the standard schedule of faults, each a world of its own, and one table of all.
fn command_availability(words: &[String]) -> Ran {
    known(words, &["--days", "--hours", "--from", "--rate", "--jobs", "--json"])?;
    let number = |name: &str, default: u64, most: u64| -> Result<u64, Refused> {
        let text = option(words, name)?;
        let value = text.map_or(Ok(default), |text| words::number(text, name))?;
        match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(Refused(format!("{name} {value} is not from 1 to {most}"))),
        }
    };
    let (days, from) = (number("--days", 1, 100_000)?, number("--from", 1, u64::MAX / 2)?);
    let order = availability::Order {
        length: Duration::from_secs(number("--hours", 24, 24)? * 3_600),
        rate: number("--rate", 5, 1_000)? as u32,
    };
    let started = Instant::now();
    let (mut all, mut well): (Option<proof_check::availability::tally::Availability>, bool) = (None, true);
    let (mut done, mut events) = (0, 0);
    campaign::in_order(
        from,
        from + days,
        jobs(words)?,
        |seed| availability::run(seed, order),
        |seed, day| {
            match day {
                Ok((figures, counted)) => {
                    (done, events) = (done + 1, events + counted);
                    match all.as_mut() {
                        None => all = Some(figures),
                        Some(all) => availability::add(all, figures),
                    }
                }
                Err(violations) => {
                    well = false;
                    violations
                        .iter()
                        .for_each(|found| println!("day {seed}: {}: {}", found.check, without_padding(&found.message)));
                }
            }
            eprintln!("day {seed}: {done} done after {:.0} s", started.elapsed().as_secs_f64());
            well
        },
    );
    let Some(all) = all else { return Ok(well) };
    if let Some(file) = option(words, "--json")? {
        let text = format!("{:#}\n", all.json());
        std::fs::write(file, text).map_err(|error| Refused(format!("cannot write {file}: {error}")))?;
    }
    print!("{}", all.text());
    let (wall, simulated) = (started.elapsed().as_secs_f64(), all.seconds as f64);
    println!(
        "{done} worlds of {} h from seed {from}, commit {}: {events} events, {wall:.0} s, {:.0} x real time",
        order.length.as_secs() / 3_600,
        commit(),
        simulated / wall
    );
    Ok(well)
}

/// Twice of what a world can do, then half: whether and when answers come again.
fn command_overload(words: &[String]) -> Ran {
    known(words, &["--seeds", "--seconds", "--jobs"])?;
    let ((from, to), jobs) = (seed_range(words)?, jobs(words)?);
    let seconds = option(words, "--seconds")?.map_or(Ok(60), |text| words::number(text, "--seconds"))?;
    if !(1..=3_600).contains(&seconds) {
        return Err(Refused(format!("--seconds {seconds} is not from 1 to 3600")));
    }
    let mut well = true;
    campaign::in_order(
        from,
        to,
        jobs,
        |seed| overload::run(seed, seconds),
        |seed, found| {
            match found {
                Ok(found) => println!("{}", found.text()),
                Err(violations) => {
                    well = false;
                    violations.iter().for_each(|found| {
                        println!("seed {seed}: {}: {}", found.check, without_padding(&found.message))
                    });
                }
            }
            true
        },
    );
    Ok(well)
}

/// CPU seconds of this thread so far, where the kernel reports them (Linux): other users of the machine do not count in
/// them.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split(' ').next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

#[cfg(feature = "mutants")]
fn leaning(text: &str) -> Result<proof_sim::emphasis::Emphasis, Refused> {
    let known = proof_sim::emphasis::ALL.iter().find(|(_, name)| *name == text).map(|(of, _)| *of);
    known.ok_or_else(|| Refused(format!("unknown leaning '{text}'")))
}

/// Plants the bug that a replay names.
#[cfg(feature = "mutants")]
fn plant_named(words: &[String]) -> Result<(), Refused> {
    let Some(name) = option(words, "--mutant")? else { return Ok(()) };
    let mutant = proof_sim::mutants::named(name).ok_or_else(|| Refused(format!("unknown mutant '{name}'")))?;
    base_types::mutant::plant(mutant);
    Ok(())
}

#[cfg(not(feature = "mutants"))]
fn plant_named(words: &[String]) -> Result<(), Refused> {
    match option(words, "--mutant")? {
        None => Ok(()),
        Some(_) => Err(Refused("this build has no mutants; build with --features mutants".to_string())),
    }
}

#[cfg(not(feature = "mutants"))]
fn command_mutants(_words: &[String]) -> Ran {
    Err(Refused("this build has no mutants; build with --features mutants".to_string()))
}

#[cfg(feature = "mutants")]
fn command_mutants(words: &[String]) -> Ran {
    known(words, &["--seeds", "--only", "--table", "--layer", "--leaning", "--rows", "--from"])?;
    let seeds = option(words, "--seeds")?
        .map(|text| words::number(text, "--seeds"))
        .transpose()?
        .unwrap_or(proof_sim::mutants::SEEDS_A_MUTANT);
    let only = option(words, "--only")?;
    let is_known = |name: &&str| !base_types::mutant::ALL.iter().any(|(_, known, _)| known == name);
    if let Some(name) = only.and_then(|only| only.split(',').find(is_known)) {
        return Err(Refused(format!("unknown mutant '{name}'")));
    }
    let leaning = option(words, "--leaning")?.map(leaning).transpose()?;
    let elsewhere = leaning.map(|leaning| layer(words).map(|layer| (layer, leaning))).transpose()?;
    let rows = option(words, "--rows")?;
    let write = |kill: &proof_sim::mutants::Kill| {
        let opened = rows.map(|file| std::fs::OpenOptions::new().append(true).create(true).open(file));
        if let Some(Err(error)) = opened.map(|file| file?.write_all(proof_sim::mutants::row_of(kill).as_bytes())) {
            eprintln!("proof-sim: a row was not written: {error}");
        }
    };
    let kills = match option(words, "--from")? {
        None => proof_sim::mutants::hunt(seeds, elsewhere, only, write),
        Some(file) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| Refused(format!("cannot read {file}: {error}")))?;
            proof_sim::mutants::read_rows(&text).map_err(Refused)?
        }
    };
    println!("{}", proof_sim::mutants::modules());
    let page = proof_sim::mutants::page(&kills, seeds, &commit());
    if let Some(file) = option(words, "--table")? {
        std::fs::write(file, &page).map_err(|error| Refused(format!("cannot write {file}: {error}")))?;
    }
    Ok(kills.iter().all(|kill| kill.killed.is_some()))
}
