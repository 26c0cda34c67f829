//! ACL: who one is. Users, roles and what they may are Hive's (`hive user`, `hive role`), not Redis'.

use super::{bulk, text, upper};
use crate::connection::Connection;
use crate::error::{error, unknown_subcommand};
use crate::request::Words;
use base_types::redis::{CommandSpec, Group, RedisReply, Use, COMMANDS};

/// The categories of commands, by Redis' names.
const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "fast",
    "slow",
    "blocking",
    "connection",
    "transaction",
    "scripting",
];

pub(super) fn on_acl(of: &Connection, words: &Words) -> RedisReply {
    match (upper(words, 1).as_str(), words.get(2)) {
        ("WHOAMI", None) => text(of.client.entry.shown.user.borrow().clone()),
        ("CAT", None) => RedisReply::Array(CATEGORIES.iter().map(|name| bulk(*name)).collect()),
        ("CAT", Some(name)) => {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            if !CATEGORIES.contains(&name.as_str()) {
                return error(format!("ERR Unknown category '{name}'"));
            }
            let within = COMMANDS.iter().filter(|spec| is_in(spec, &name));
            RedisReply::Array(within.map(|spec| bulk(spec.name)).collect())
        }
        ("SETUSER" | "DELUSER" | "LOAD" | "SAVE" | "LIST" | "USERS" | "GETUSER" | "GENPASS" | "LOG" | "DRYRUN", _) => {
            error("ERR users and what they may do are Hive's, for all doors: see `hive user` and `hive role`")
        }
        _ => unknown_subcommand("ACL", words.get(1).map_or(&[], |word| &word[..])),
    }
}

/// Whether a command is in a category.
pub(super) fn is_in(spec: &CommandSpec, name: &str) -> bool {
    match name {
        "read" => spec.how == Use::Read,
        "write" => spec.how == Use::Write,
        "fast" => spec.fast,
        "slow" => !spec.fast,
        "blocking" => spec.blocking,
        other => category(spec.group) == other,
    }
}

/// The categories of a command, by name.
pub(super) fn categories(spec: &CommandSpec) -> Vec<&'static str> {
    CATEGORIES.iter().copied().filter(|name| is_in(spec, name)).collect()
}

/// The category of a group.
pub(super) fn category(group: Group) -> &'static str {
    match group {
        Group::String => "string",
        Group::Bitmap => "bitmap",
        Group::Generic | Group::Server | Group::Cluster | Group::Hive => "keyspace",
        Group::Hash => "hash",
        Group::List => "list",
        Group::Set => "set",
        Group::SortedSet => "sortedset",
        Group::Stream => "stream",
        Group::HyperLogLog => "hyperloglog",
        Group::Geo => "geo",
        Group::PubSub => "pubsub",
        Group::Transactions => "transaction",
        Group::Scripting => "scripting",
        Group::Connection => "connection",
    }
}
