//! COMMAND: what is known of the commands, out of the one table.

use super::{bulk, text, upper};
use crate::error::{error, unknown_subcommand};
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
        ("DOCS", 2) => RedisReply::Map(COMMANDS.iter().map(docs).collect()),
        ("DOCS", _) => RedisReply::Map(named().flatten().map(docs).collect()),
        ("GETKEYS", 3..) => keys_of(words),
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

fn keys_of(words: &Words) -> RedisReply {
    let command = &words[2..];
    let Some(spec) = command.first().and_then(|name| find(name)) else {
        return error("ERR Invalid command specified");
    };
    if !spec.takes(command.len()) {
        return error("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<RedisReply> = spec.keys_of(command).into_iter().cloned().map(RedisReply::Bulk).collect();
    if keys.is_empty() {
        return error("ERR The command has no key arguments");
    }
    RedisReply::Array(keys)
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
    let mut flags = vec![match spec.how {
        Use::Read => "readonly",
        Use::Write => "write",
        Use::Door => "noscript",
    }];
    flags.extend(spec.fast.then_some("fast"));
    flags.extend(spec.blocking.then_some("blocking"));
    flags.extend(
        matches!(spec.keys, Keys::Counted(_) | Keys::FirstAndCounted(_) | Keys::FirstAndStore | Keys::AfterStreams)
            .then_some("movablekeys"),
    );
    let flags = flags.into_iter().map(|flag| RedisReply::Status(flag.into())).collect();
    let category = RedisReply::Status(format!("@{}", super::acl::category(spec.group)));
    let (first, last, step) = places(spec);
    RedisReply::Array(vec![
        bulk(spec.name),
        RedisReply::Integer(i64::from(spec.arity)),
        RedisReply::Set(flags),
        RedisReply::Integer(first),
        RedisReply::Integer(last),
        RedisReply::Integer(step),
        RedisReply::Set(vec![category]),
        RedisReply::Array(Vec::new()),
        RedisReply::Array(Vec::new()),
        RedisReply::Array(Vec::new()),
    ])
}

fn docs(spec: &CommandSpec) -> (RedisReply, RedisReply) {
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
    let how = match spec.how {
        Use::Read => "Reads.",
        Use::Write => "Writes.",
        Use::Door => "Is carried out by the node that is asked.",
    };
    (bulk(spec.name), RedisReply::Map(vec![(bulk("summary"), text(how)), (bulk("group"), bulk(group))]))
}
