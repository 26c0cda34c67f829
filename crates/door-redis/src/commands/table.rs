//! COMMAND: what is known of the commands, out of the one table.

use super::{bulk, docs, upper};
use crate::error::{error, unknown_subcommand, wrong_count};
use crate::request::Words;
use base_types::redis::{find, matches, CommandSpec, Group, Keys, RedisReply, Use, COMMANDS};

pub(super) fn on_command(words: &Words) -> RedisReply {
    let named = || words.iter().skip(2).map(|name| find(name));
    match (upper(words, 1).as_str(), words.len()) {
        (_, 1) => RedisReply::Array(COMMANDS.iter().map(info).collect()),
        ("COUNT", 2) => RedisReply::Integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
        ("LIST", 2) => RedisReply::Array(COMMANDS.iter().map(|spec| bulk(spec.name)).collect()),
        ("LIST", 5) if upper(words, 2) == "FILTERBY" => filtered(&upper(words, 3), &words[4]),
        ("LIST", _) => error("ERR syntax error"),
        ("INFO", 2) => RedisReply::Array(COMMANDS.iter().map(info).collect()),
        ("INFO", _) => RedisReply::Array(named().map(|spec| spec.map_or(RedisReply::NilArray, info)).collect()),
        ("DOCS", 2) => RedisReply::Map(COMMANDS.iter().map(described).collect()),
        ("DOCS", _) => RedisReply::Map(named().flatten().map(described).collect()),
        ("GETKEYS", 3..) => keys_of(words, false),
        ("GETKEYSANDFLAGS", 3..) => keys_of(words, true),
        ("HELP", 2) => help(),
        ("GETKEYS" | "GETKEYSANDFLAGS" | "COUNT" | "HELP", _) => {
            wrong_count(&format!("command|{}", upper(words, 1).to_ascii_lowercase()))
        }
        _ => unknown_subcommand("COMMAND", words.get(1).map_or(&[], |word| &word[..])),
    }
}

fn filtered(by: &str, what: &[u8]) -> RedisReply {
    let what = what.to_ascii_lowercase();
    let of = |chosen: &dyn Fn(&CommandSpec) -> bool| {
        RedisReply::Array(COMMANDS.iter().filter(|spec| chosen(spec)).map(|spec| bulk(spec.name)).collect())
    };
    match by {
        // There are no modules.
        "MODULE" => RedisReply::Array(Vec::new()),
        "PATTERN" => of(&|spec| matches(&what, spec.name.as_bytes())),
        "ACLCAT" => of(&|spec| super::acl::is_in(spec, &String::from_utf8_lossy(&what))),
        _ => error("ERR syntax error"),
    }
}

fn keys_of(words: &Words, flags: bool) -> RedisReply {
    let command = &words[2..];
    let Some(spec) = command.first().and_then(|name| find(name)) else {
        return error("ERR Invalid command specified");
    };
    if !spec.takes(command.len()) {
        return error("ERR Invalid number of arguments specified for command");
    }
    if spec.keys == Keys::None {
        return error("ERR The command has no key arguments");
    }
    let keys = spec.keys_of(command).into_iter().cloned().map(RedisReply::Bulk);
    let keys: Vec<RedisReply> = match flags {
        true => keys.map(|key| RedisReply::Array(vec![key, key_flags(spec)])).collect(),
        false => keys.collect(),
    };
    // A script needs no keys.
    if keys.is_empty() && spec.group != Group::Scripting {
        return error("ERR Invalid arguments specified for command");
    }
    RedisReply::Array(keys)
}

fn statuses(names: &[&str]) -> Vec<RedisReply> {
    names.iter().map(|name| RedisReply::Status((*name).into())).collect()
}

/// What a command does to its keys, all alike: it reads them, or it may do both.
fn key_flags(spec: &CommandSpec) -> RedisReply {
    RedisReply::Set(statuses(match spec.how {
        Use::Read => &["RO", "ACCESS"],
        Use::Write | Use::Door => &["RW", "ACCESS", "UPDATE"],
    }))
}

/// Where a command's keys begin, and how far they go: Redis' key specifications.
fn key_places(spec: &CommandSpec) -> Vec<RedisReply> {
    let number = |value: i64| RedisReply::Integer(value);
    let size = |value: usize| number(i64::try_from(value).unwrap_or(i64::MAX));
    let typed = |kind: &'static str, pairs: Vec<(&'static str, RedisReply)>| {
        let pairs = pairs.into_iter().map(|(name, value)| (bulk(name), value)).collect();
        RedisReply::Map(vec![(bulk("type"), bulk(kind)), (bulk("spec"), RedisReply::Map(pairs))])
    };
    let from = |index: usize| typed("index", vec![("index", size(index))]);
    let after =
        |word: &'static str, start: i64| typed("keyword", vec![("keyword", bulk(word)), ("startfrom", number(start))]);
    let range = |last: i64, step: usize, limit: i64| {
        typed("range", vec![("lastkey", number(last)), ("keystep", size(step)), ("limit", number(limit))])
    };
    let counted = || typed("keynum", vec![("keynumidx", number(0)), ("firstkey", number(1)), ("keystep", number(1))]);
    let place = |begin: RedisReply, find: RedisReply| {
        RedisReply::Map(vec![
            (bulk("flags"), key_flags(spec)),
            (bulk("begin_search"), begin),
            (bulk("find_keys"), find),
        ])
    };
    match spec.keys {
        Keys::None => Vec::new(),
        Keys::Words { first, last, step } => {
            // Redis counts the last one from the first.
            let last = if last < 0 { last as i64 } else { last as i64 - first as i64 };
            vec![place(from(first), range(last, step, 0))]
        }
        Keys::Counted(at) => vec![place(from(at), counted())],
        Keys::FirstAndCounted(at) => vec![place(from(1), range(0, 1, 0)), place(from(at), counted())],
        Keys::FirstAndStore => {
            let store = |word| place(after(word, 2), range(0, 1, 0));
            vec![place(from(1), range(0, 1, 0)), store("STORE"), store("STOREDIST")]
        }
        Keys::AfterStreams => vec![place(after("STREAMS", 1), range(-1, 1, 2))],
    }
}

/// Commands of the door that scripts may call (`script/attempt.rs`).
const IN_SCRIPTS: &[&str] = &["echo", "lastsave", "ping", "select", "time"];

fn help() -> RedisReply {
    let lines = [
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    What is known of all commands.",
        "COUNT",
        "    How many commands there are.",
        "DOCS [<command> ...]",
        "    What commands do, since when, and what they cost.",
        "GETKEYS <command> [<arg> ...]",
        "    The keys among a command's words.",
        "GETKEYSANDFLAGS <command> [<arg> ...]",
        "    The same, and what is done to them.",
        "INFO [<command> ...]",
        "    What is known of these commands.",
        "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
        "    The names of the commands.",
    ];
    RedisReply::Array(statuses(&lines))
}

/// First key, last key, step: as Redis says it for clients that route by it. Zeros: ask `COMMAND GETKEYS`.
fn places(spec: &CommandSpec) -> (i64, i64, i64) {
    match spec.keys {
        Keys::Words { first, last, step } => (first as i64, last as i64, step as i64),
        Keys::FirstAndCounted(_) | Keys::FirstAndStore => (1, 1, 1),
        Keys::None | Keys::Counted(_) | Keys::AfterStreams => (0, 0, 0),
    }
}

fn info(spec: &CommandSpec) -> RedisReply {
    let mut flags = Vec::new();
    flags.extend(match spec.how {
        Use::Read => Some("readonly"),
        Use::Write => Some("write"),
        Use::Door => (!IN_SCRIPTS.contains(&spec.name)).then_some("noscript"),
    });
    flags.extend(spec.fast.then_some("fast"));
    flags.extend(spec.blocking.then_some("blocking"));
    flags.extend(
        matches!(spec.keys, Keys::Counted(_) | Keys::FirstAndCounted(_) | Keys::FirstAndStore | Keys::AfterStreams)
            .then_some("movablekeys"),
    );
    let categories = super::acl::categories(spec).into_iter().map(|name| RedisReply::Status(format!("@{name}")));
    let (first, last, step) = places(spec);
    RedisReply::Array(vec![
        bulk(spec.name),
        RedisReply::Integer(i64::from(spec.arity)),
        RedisReply::Set(statuses(&flags)),
        RedisReply::Integer(first),
        RedisReply::Integer(last),
        RedisReply::Integer(step),
        RedisReply::Set(categories.collect()),
        // Hints for proxies: none. Then where its keys are, and its subcommands, which are not listed.
        RedisReply::Array(Vec::new()),
        RedisReply::Array(key_places(spec)),
        RedisReply::Array(Vec::new()),
    ])
}

fn described(spec: &CommandSpec) -> (RedisReply, RedisReply) {
    let group = match spec.group {
        Group::String => "string",
        Group::Bitmap => "bitmap",
        Group::Generic => "generic",
        Group::Hash => "hash",
        Group::List => "list",
        Group::Set => "set",
        Group::SortedSet => "sorted-set",
        Group::Stream => "stream",
        Group::HyperLogLog => "hyperloglog",
        Group::Geo => "geo",
        Group::Server | Group::Hive => "server",
        Group::PubSub => "pubsub",
        Group::Transactions => "transactions",
        Group::Scripting => "scripting",
        Group::Connection => "connection",
        Group::Cluster => "cluster",
    };
    let mut pairs = Vec::with_capacity(4);
    if let Some(doc) = docs::find(spec.name) {
        pairs.extend([(bulk("summary"), bulk(doc.summary)), (bulk("since"), bulk(doc.since))]);
        pairs.push((bulk("group"), bulk(group)));
        pairs.push((bulk("complexity"), bulk(doc.complexity)));
    }
    (bulk(spec.name), RedisReply::Map(pairs))
}
