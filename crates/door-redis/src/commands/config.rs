//! CONFIG: what of Redis' settings means something here, truthfully.
//!
//! By design: reading a setting says what holds; setting one is refused unless it asks for what holds already.

use super::{text, upper};
use crate::error::{error, unknown_subcommand, wrong_count};
use crate::request::Words;
use base_types::redis::{matches, RedisReply};

/// Names, and what holds.
const SETTINGS: &[(&str, &str)] = &[
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("cluster-enabled", "no"),
    ("databases", "16"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("notify-keyspace-events", ""),
    ("proto-max-bulk-len", "1048576"),
    ("save", ""),
    ("timeout", "0"),
];

pub(super) fn on_config(words: &Words) -> RedisReply {
    match (upper(words, 1).as_str(), words.len()) {
        ("GET", 3..) => {
            let wanted: Vec<Vec<u8>> = words[2..].iter().map(|word| word.to_ascii_lowercase()).collect();
            let chosen =
                SETTINGS.iter().filter(|(name, _)| wanted.iter().any(|pattern| matches(pattern, name.as_bytes())));
            RedisReply::Map(chosen.map(|(name, value)| (text(*name), text(*value))).collect())
        }
        ("SET", 4..) if words.len().is_multiple_of(2) => set(words),
        ("RESETSTAT", 2) => error("ERR counters are never reset; /metrics has them"),
        ("REWRITE", 2) => error("ERR The server is running without a config file"),
        ("GET" | "SET" | "RESETSTAT" | "REWRITE", _) => {
            wrong_count(&format!("config|{}", upper(words, 1).to_ascii_lowercase()))
        }
        _ => unknown_subcommand("CONFIG", words.get(1).map_or(&[], |word| &word[..])),
    }
}

fn set(words: &Words) -> RedisReply {
    for pair in words[2..].chunks(2) {
        let [name, value] = pair else { return error("ERR syntax error") };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match SETTINGS.iter().find(|(known, _)| *known == name) {
            Some((_, holds)) if value.eq_ignore_ascii_case(holds.as_bytes()) => {}
            Some((_, holds)) => {
                return error(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - it is '{holds}' here and cannot be changed"))
            }
            None => {
                return error(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
            }
        }
    }
    RedisReply::Ok
}
