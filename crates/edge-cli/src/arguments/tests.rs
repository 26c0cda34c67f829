use super::*;
use clap::CommandFactory;

/// Of a command and those under it: what `--help` prints.
fn write_help(command: &mut clap::Command, out: &mut String) {
    // What the environment holds is the machine's, not the program's.
    let mut shown = command.clone().term_width(0).mut_args(|argument| argument.hide_env_values(true));
    let help = shown.render_help();
    out.push_str(&format!("$ {} --help\n{help}\n", shown.get_bin_name().unwrap_or("hive")));
    let others = |under: &&mut clap::Command| under.get_name() != "help" && !under.is_hide_set();
    command.get_subcommands_mut().filter(others).for_each(|under| write_help(under, out));
}

#[test]
fn golden_help() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/help.txt");
    let mut command = Arguments::command();
    // In a build without engine object these are hidden; their texts are the same.
    for hidden in ["restore", "attach"] {
        command = command.mut_subcommand(hidden, |under| under.hide(false));
    }
    command.build();
    let mut fresh = String::new();
    write_help(&mut command, &mut fresh);
    // Trailing blanks are clap's, not ours.
    // Which engines there are is the build's.
    let fresh = fresh.replace(&edge_node::engines::NAMES.join(", "), "<engines>");
    let fresh: String = fresh.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    for (old, new) in golden.lines().zip(fresh.lines()) {
        assert_eq!(old, new, "a help text is another; if that is meant: UPDATE_GOLDEN=1");
    }
    assert_eq!(golden.lines().count(), fresh.lines().count(), "if that is meant: UPDATE_GOLDEN=1");
}

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(line.split_whitespace())
}

#[test]
fn the_contracts_commands_parse() {
    for line in [
        "hive dev --nodes 5 --data d --base-port 7000 --engine lmdb --ready-file f --fresh --no-restart",
        "hive node --config node.toml",
        "hive ca init --dir ca --world w",
        "hive ca issue --dir ca --node 3 --address 10.0.0.1,node3 --days 30",
        "hive ca show --dir ca --json",
        "hive ca rotate --dir ca",
        "hive ctl status --json",
        "hive ctl topology --endpoint http://a:1 --endpoint http://b:2",
        "hive ctl nodes",
        "hive ctl clusters --prefix redis@",
        "hive ctl cluster create redis@x --rule size=3",
        "hive ctl cluster delete redis@x",
        "hive ctl cluster show redis@x",
        "hive ctl cluster members list redis@x",
        "hive ctl cluster members add redis@x 3",
        "hive ctl cluster members remove redis@x 3",
        "hive ctl cluster transfer redis@x 3",
        "hive ctl cluster set-engine redis@x redb",
        "hive ctl keyspace set-engine k redb --no-wait",
        "hive ctl cluster set-consistency redis@x --consistency eventual --read-consistency eventual",
        "hive ctl keyspace create k --rule size=3 --partition range --partitions 8 --clusters 2 --split-key g,p --engine lmdb",
        "hive ctl keyspace reshard k 4 --wait",
        "hive ctl keyspace list",
        "hive backup create d --keyspace k --base b --rate 50 --keep 90 --sign-key s --json",
        "hive backup list d",
        "hive backup verify d --base b --trust t --trust u",
        "hive backup restore d --as k --rule size=3 --resume --prefix p --leased --rate 5",
        "hive backup restore --in-place d --yes",
        "hive backup restore d --in-place=k",
        "hive backup key",
        "hive ctl s3 account create ann --display-name Ann",
        "hive ctl s3 account delete ann",
        "hive ctl s3 key create ann --access-key a --secret-key-file -",
        "hive ctl s3 key seal",
        "hive ctl s3 key seal ann --json",
        "hive ctl s3 key list ann --json",
        "hive ctl s3 key delete AK",
        "hive ctl bucket list ann",
        "hive ctl bucket describe b",
        "hive ctl bucket count b --prefix p/",
        "hive ctl bucket quota b --bytes 1000 --keys 10",
        "hive ctl bucket quota b --none",
        "hive kv put k v --keyspace default --consistency strong",
        "hive kv put k -v",
        "hive kv get k --read-consistency eventual",
        "hive kv del k",
        "hive kv scan --prefix p --limit 5 --reverse",
        "hive kv exec - --json",
        "hive kv exec f --store dir --weak",
        "hive load --keyspace k data.tsv",
        "hive bench kv-put --endpoint http://a:1 --clients 8 --seconds 2 --json",
        "hive bench all --out target/bench",
        "hive bench listing --shards 1,100,1000",
        "hive bench bucket --keys 10000000 --value-bytes 100 --nodes 3 --clients 256",
        "hive bench s3-object-put --spread --split-keys 5000",
        "hive bench availability --minutes 5 --seed 7 --beside etcd --rate 50",
        "hive bench overload --seconds 120 --clients 256",
        "hive bench larger-than-memory --memory-mib 512 --minutes 10 --engine lmdb",
        "hive bench embedded --cores 1,2 --value-bytes 100",
        "hive completions bash",
        "hive man --out man1",
        "hive config init --out node.toml --set id=2 --set world.name=w",
        "hive config check node.toml --json",
    ] {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn wrong_lines_are_usage_errors() {
    for line in [
        "hive",
        "hive kv put k",
        "hive kv put k v --consistency stronk",
        "hive dev --nodes 0",
        "hive ctl s3 key create ann --access-key a",
        "hive ctl s3 key create ann --secret-key-file f",
        "hive ctl bucket quota b --none --keys 1",
        "hive bench none",
        "hive kv exec f --weak",
        "hive load f",
        "hive config init --set id",
    ] {
        assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
    }
}

#[test]
fn secrets_in_arguments_are_refused_and_not_repeated() {
    for (line, advice) in [
        ("hive ctl s3 key create ann --secret-key canary", "--secret-key-file"),
        ("hive ctl s3 key create ann --access-key a --secret-key canary", "--secret-key-file"),
        ("hive attach --from s3://b/p --option aws_session_token=canary", "environment"),
        ("hive restore --list --from s3://b/p --option secret_access_key=canary", "environment"),
    ] {
        let refused = crate::run(parse(line).unwrap()).expect_err(line);
        assert_eq!(refused.code, 2);
        let text = refused.message;
        assert!(text.contains("every user of the machine") && text.contains(advice), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn endpoints_are_five_by_default() {
    let Command::Ctl(CtlCommand::Nodes { world }) = parse("hive ctl nodes").unwrap().command.unwrap() else { panic!() };
    assert!(std::env::var_os("HIVE_ENDPOINT").is_some() || world.endpoints.len() == 5);
}
