//! The program as a person meets it: bad input is one clear line and exit code 2; a failure prints one
//! replay command, its plan as a list, and a shrunk plan that is a scenario file as it stands.

use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_proof-sim")).args(words).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it writes text")
}

/// A scenario file under the build's own directory.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("it can be written");
    path
}

/// All disks are lost: more than anybody promised to survive.
const BEYOND_THE_PROMISE: &str = r#"
version = 1
seed = 1
title = "every disk is lost"
layer = "lane"

[shape]
nodes = 3
lanes = 1
regions = 1
world_members = 3
clusters = 1
cluster_size = 3
keyspaces = 0

[load]
run_ms = 400
mixed = 1
ledger = 1
counters = 0
deadline_ms = 500

[[hazard]]
at_ms = 100
kind = "transfer"
node = 2

[[hazard]]
at_ms = 300
kind = "disk_lost"
node = 1
for_ms = 1

[[hazard]]
at_ms = 300
kind = "disk_lost"
node = 2
for_ms = 1

[[hazard]]
at_ms = 300
kind = "disk_lost"
node = 3
for_ms = 1
"#;

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    let good = BEYOND_THE_PROMISE;
    let write = |name: &str, content: String| file(name, &content).to_string_lossy().into_owned();
    let unknown_fault = write("fault.toml", good.replace("disk_lost", "meteor"));
    let other_version = write("version.toml", good.replace("version = 1", "version = 2"));
    let unknown_field = write("field.toml", good.replace("run_ms", "run_hours"));
    let no_such_node = write("node.toml", good.replace("node = 3", "node = 9"));
    let beyond = write("good.toml", good.to_string());
    let no_plan = write("plan.toml", "not a plan".to_string());
    let cases: &[(&[&str], &str)] = &[
        (&[], "usage"),
        (&["fly"], "unknown command 'fly'"),
        (&["replay"], "a seed is missing"),
        (&["replay", "seven"], "seed 'seven' is no number"),
        (&["replay", "-1"], "seed '-1' is no number"),
        (&["replay", "1", "--layer", "moon"], "unknown layer 'moon'"),
        (&["replay", "1", "--loud"], "unknown option '--loud'"),
        (&["replay", "1", "--node", "2"], "--node needs --trace"),
        (&["replay", "1", "--trace", "--node", "0"], "--node 0 is no node"),
        (&["replay", "1", "--trace", "--from", "9", "--to", "3"], "--from is not before --to"),
        (&["replay", "1", "--trace", "--trace-format", "xml"], "unknown format 'xml'"),
        (&["scenario", &beyond, "--trace", "--node", "9"], "node 9 is not in this world; its nodes are 1 to 3"),
        (&["scenario", &beyond, "--trace", "--cluster", "moon"], "cluster 'moon' is not in this world; it has "),
        (&["run"], "--seeds A..B is missing"),
        (&["run", "--seeds", "5"], "seeds '5' are no range"),
        (&["run", "--seeds", "5..5"], "seeds '5..5' are an empty range"),
        (&["run", "--seeds", "1..x"], "seed 'x' is no number"),
        (&["run", "--seeds", "1..2", "--jobs", "many"], "--jobs 'many' is no number"),
        (&["scenario"], "a scenario file is missing"),
        (&["scenario", "/no/such/file.toml"], "cannot read /no/such/file.toml"),
        (&["scenario", &unknown_fault], "unknown variant `meteor`"),
        (&["scenario", &other_version], "version is 2; it must be 1"),
        (&["scenario", &unknown_field], "unknown field `run_hours`"),
        (&["scenario", &no_such_node], "node is 9; it must be 0"),
        (&["scenario", &no_plan], "plan.toml"),
        (&["shrink", "/no/such/file.toml"], "cannot read /no/such/file.toml"),
    ];
    for (words, says) in cases {
        let output = sim(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?} says {err}");
        assert_eq!(err.lines().count(), 1, "{words:?} says more than a line: {err}");
        assert!(out.is_empty(), "{words:?} ran something: {out}");
    }
}

#[test]
fn a_failure_prints_one_replay_command_and_its_plan_as_a_list() {
    let path = file("beyond.toml", BEYOND_THE_PROMISE);
    let path = path.to_string_lossy();
    let output = sim(&["scenario", &path]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("FAILED"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("replay: make sim SCENARIO=")).count(), 1, "{out}");
    assert_eq!(out.matches("disk_lost").count(), 3, "the plan is printed: {out}");
    assert!(out.contains("300 ms  disk_lost"), "{out}");
}

#[test]
fn a_shrunk_plan_is_a_scenario_file_that_fails_in_the_same_way() {
    let path = file("large.toml", BEYOND_THE_PROMISE);
    let output = sim(&["shrink", &path.to_string_lossy()]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("FAILED"), "the failure is printed besides the file: {err}");
    assert!(out.starts_with("# "), "the file says what it is: {out}");
    assert!(!out.contains("transfer"), "what the failure does not need is gone: {out}");
    let small = file("small.toml", &out);
    let again = sim(&["scenario", &small.to_string_lossy()]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stdout));
}

/// The command that a failure prints, run as a person would: by a shell, in the repository. It builds nothing.
fn run_printed(out: &str, also: &str) -> Output {
    let command = out.lines().find_map(|line| line.strip_prefix("replay: ")).expect("a failure prints its command");
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut shell = Command::new("bash");
    // What `make test` itself was called with is not for this one.
    ["MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"].iter().for_each(|name| _ = shell.env_remove(name));
    shell.args(["-c", &format!("{command} {also}")]).current_dir(repository);
    shell.env("PROOF_SIM", env!("CARGO_BIN_EXE_proof-sim")).output().expect("bash runs")
}

/// Where each row of a time line begins.
fn row<'a>(out: &'a str, label: &str) -> &'a str {
    out.lines()
        .find(|line| line.split_whitespace().next() == Some(label))
        .unwrap_or_else(|| panic!("no row {label} in {out}"))
}

#[test]
fn the_printed_command_shows_a_trace_with_the_violation() {
    let path = file("traced.toml", BEYOND_THE_PROMISE);
    let failed = text(&sim(&["scenario", &path.to_string_lossy()]).stdout);
    let traced = run_printed(&failed, "");
    let out = text(&traced.stdout);
    assert_ne!(traced.status.code(), Some(0), "make reports the failure: {out}");
    let violation = failed.lines().nth(1).expect("the failure says what broke").trim();
    let check = violation.split(':').next().expect("a check has a name");
    assert!(
        out.lines().any(|line| line.starts_with("  !! ") && line.contains(check)),
        "no '{check}' in the head: {out}"
    );
    assert!(out.lines().any(|line| line.starts_with("!! ")), "the violation is a line of its own: {out}");
    assert!(out.matches("disk_lost").count() >= 3 && out.contains("leaders (node, term"), "{out}");
    assert!(row(&out, "n1").contains('x') && row(&out, "violation").contains('V'), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 120), "a line is too wide: {out}");
    assert!(out.lines().count() < 600, "a trace is a page: {}", out.lines().count());
}

#[test]
fn filters_of_the_command_keep_only_what_they_name() {
    let path = file("filtered.toml", BEYOND_THE_PROMISE);
    let failed = text(&sim(&["scenario", &path.to_string_lossy()]).stdout);
    let json = |also: &str| -> Vec<serde_json::Value> {
        let command = format!("{also} TRACE=json");
        let out = text(&run_printed(&failed, &command).stdout);
        out.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let whole = json("");
    let (head, all) = whole.split_first().expect("the run comes first");
    assert_eq!((&head["kind"], &head["failed"]), (&"run".into(), &true.into()));
    assert_eq!(head["cut"], serde_json::json!({ "events": 0, "messages": 0, "routine": 0 }), "the whole trace is here");
    assert!(all.windows(2).all(|pair| pair[0]["at_us"].as_u64() <= pair[1]["at_us"].as_u64()), "in order of time");
    let concerns_all = |line: &serde_json::Value, kinds: &[&str]| kinds.contains(&line["kind"].as_str().unwrap_or(""));
    let expect = |also: &str, keep: &dyn Fn(&serde_json::Value) -> bool| {
        let kept = json(also);
        let expected: Vec<&serde_json::Value> = all.iter().filter(|line| keep(line)).collect();
        assert!(!expected.is_empty() && expected.len() < all.len(), "{also} parts nothing");
        assert_eq!(kept.iter().skip(1).collect::<Vec<_>>(), expected, "{also}");
    };
    let (from, to) = (2_000_000, 4_000_000);
    expect("FROM=2000 TO=4000", &|line| (from..to).contains(&line["at_us"].as_u64().unwrap_or(0)));
    expect("NODE=2", &|line| {
        let nobody = line["node"].is_null() && line["peer"].is_null();
        line["node"] == 2 || line["peer"] == 2 || (nobody && concerns_all(line, &["fault", "phase", "violation"]))
    });
    expect("CLUSTER=t0", &|line| match line["cluster"].as_str() {
        Some(name) => name == "metadata/redis@t0",
        None => concerns_all(line, &["fault", "phase", "violation", "life", "link"]),
    });
}

/// The hunt for mutants finds this bug in its first seed or two.
#[cfg(feature = "mutants")]
const SEEDS_TO_NOTICE: u32 = 40;

/// `make mutants` runs it: it needs the bugs compiled in.
#[cfg(feature = "mutants")]
#[test]
fn a_planted_bugs_failing_seed_prints_a_command_that_shows_it() {
    // The first seed that notices this bug changes with the simulator's draws.
    let mutant = "EventualReadAsStrong";
    let replay = |seed: u32| text(&sim(&["replay", &seed.to_string(), "--layer", "lane", "--mutant", mutant]).stdout);
    let noticed = |seed: u32| Some((seed, replay(seed))).filter(|(_, out)| !out.contains(": well;"));
    let (seed, failed) = (1..=SEEDS_TO_NOTICE).find_map(noticed).expect("a seed notices the bug");
    assert!(failed.contains(&format!("replay: make sim SEED={seed} LAYER=lane TRACE=1 MUTANT={mutant}")), "{failed}");
    let out = text(&run_printed(&failed, "").stdout);
    assert!(out.lines().any(|line| line.starts_with("  !! ")), "the violation is in the head: {out}");
    assert!(out.lines().any(|line| line.starts_with("!! ")), "the violating operation stands out: {out}");
    assert!(row(&out, "violation").contains('V') && row(&out, "faults").len() > 8, "{out}");
}
