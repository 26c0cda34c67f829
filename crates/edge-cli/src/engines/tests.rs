use super::*;
use crate::arguments::Arguments;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use edge_node::engines::OPTIONAL;

fn line(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn help_of_all(command: &mut clap::Command, out: &mut String) {
    out.push_str(&command.render_long_help().to_string());
    command.get_subcommands_mut().filter(|under| !under.is_hide_set()).for_each(|under| help_of_all(under, out));
}

#[test]
fn no_help_or_completion_offers_an_engine_that_is_not_here() {
    let mut texts = vec![String::new()];
    let mut command = Arguments::command();
    command.build();
    help_of_all(&mut command, &mut texts[0]);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut shown(&Arguments::command()), "hive", &mut script);
        texts.push(String::from_utf8(script).unwrap());
    }
    for text in &texts {
        // Beside the engine, the word is that of objects in buckets: only its own offers are looked for.
        let names = |name: &str| match name {
            "object" => text.contains("engine object") || text.contains("engine.object"),
            other => text.contains(other),
        };
        assert!(NAMES.iter().filter(|name| **name != "object").all(|name| names(name)), "each is offered: {text}");
        assert_eq!(elsewhere().into_iter().filter(|name| names(name)).collect::<Vec<_>>(), [""; 0], "{text}");
        assert_eq!(text.contains("attach"), cfg!(feature = "engine-object"), "its command stands and falls with it");
    }
}

#[test]
fn an_engine_that_is_not_here_is_refused_by_name() {
    let lines = ["hive dev --engine", "hive bench simple-kv --engine"];
    for name in OPTIONAL.into_iter().chain(["btrieve"]) {
        for start in lines {
            let parsed = Arguments::try_parse_from(line(&format!("{start} {name}")));
            let Err(error) = parsed else {
                assert!(NAMES.contains(&name), "{start} {name}");
                continue;
            };
            assert!(!NAMES.contains(&name));
            let text = error.to_string();
            assert_eq!(error.exit_code(), 2);
            assert!(
                text.contains(&format!("engine '{name}' is not in this binary; use one of lmdb, memory")),
                "{text}"
            );
            assert_eq!(text.contains(&format!("make build ENGINES={name}")), name != "btrieve", "{text}");
        }
        // The nodes' build may be another: they answer.
        assert!(Arguments::try_parse_from(line(&format!("hive ctl keyspace set-engine k {name}"))).is_ok());
        assert!(
            Arguments::try_parse_from(line(&format!("hive ctl keyspace create k --rule r --engine {name}"))).is_ok()
        );
    }
}

#[test]
fn the_version_beside_engines_says_which_there_are() {
    for (asked, json) in
        [("hive --version --engines", false), ("hive --engines -V --json", true), ("hive --engines", false)]
    {
        let arguments = Arguments::try_parse_from(without_version(line(asked))).unwrap();
        assert_eq!((arguments.engines, arguments.json, arguments.command.is_none()), (true, json, true), "{asked}");
    }
    for other in ["hive --version", "hive ctl --version --engines", "hive -V kv"] {
        assert_eq!(without_version(line(other)), line(other));
    }
    for wrong in ["hive --json", "hive --engines kv get k", "hive --engines --jsno"] {
        assert_eq!(Arguments::try_parse_from(without_version(line(wrong))).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn the_report_names_every_engine_once() {
    let value: serde_json::Value = serde_json::from_str(&report(true)).unwrap();
    let of = |field: &str| -> Vec<String> { serde_json::from_value(value[field].clone()).unwrap() };
    assert_eq!(of("engines"), NAMES);
    let mut all = [of("engines"), of("not_in_this_binary")].concat();
    all.sort();
    assert_eq!(all, ["fjall", "lmdb", "memory", "object", "redb", "rocksdb", "sqlite"]);
    assert_eq!((&value["default"], &value["version"]), (&json!("lmdb"), &json!(env!("CARGO_PKG_VERSION"))));
    let text = report(false);
    assert!(text.contains(&format!("engines: {} (default: lmdb)\n", NAMES.join(", "))), "{text}");
    assert_eq!(
        text.contains("sqlite (make build ENGINES=") || text.contains("sqlite, "),
        !elsewhere().is_empty(),
        "{text}"
    );
}
