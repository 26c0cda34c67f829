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
    let no_plan = write("plan.toml", "not a plan".to_string());
    let cases: &[(&[&str], &str)] = &[
        (&[], "usage"),
        (&["fly"], "unknown command 'fly'"),
        (&["replay"], "a seed is missing"),
        (&["replay", "seven"], "seed 'seven' is no number"),
        (&["replay", "-1"], "seed '-1' is no number"),
        (&["replay", "1", "--layer", "moon"], "unknown layer 'moon'"),
        (&["replay", "1", "--loud"], "unknown option '--loud'"),
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
    assert_eq!(out.lines().filter(|line| line.starts_with("replay: proof-sim ")).count(), 1, "{out}");
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
