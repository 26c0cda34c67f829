//! INFO: in Redis' form, with what is true of a node.

use super::text;
use crate::connection::Connection;
use crate::request::Words;
use base_types::redis::{RedisCommand, RedisReply, DATABASES};
use bytes::Bytes;
use std::fmt::Write;

/// The sections, in their order.
const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cluster", "keyspace"];

pub(super) async fn on_info(of: &Connection, words: &Words) -> RedisReply {
    let asked: Vec<String> = words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let all = asked.is_empty() || asked.iter().any(|word| matches!(word.as_str(), "all" | "default" | "everything"));
    let mut out = String::new();
    for section in SECTIONS {
        if all || asked.iter().any(|word| word == section) {
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            append(of, section, &mut out).await;
        }
    }
    text(out)
}

async fn append(of: &Connection, section: &str, out: &mut String) {
    let about = of.door.database.about();
    let mut lines: Vec<(&str, String)> = Vec::new();
    let title = match section {
        "server" => {
            lines.push(("redis_version", crate::REDIS_VERSION.into()));
            lines.push(("hive_version", about.version));
            lines.push(("hive_node", about.node.to_string()));
            lines.push(("redis_mode", "standalone".into()));
            lines.push(("tcp_port", about.port.to_string()));
            lines.push(("uptime_in_seconds", about.uptime_s.to_string()));
            lines.push(("uptime_in_days", (about.uptime_s / 86_400).to_string()));
            "Server"
        }
        "clients" => {
            let (connected, blocked) = of.door.clients.counts();
            lines.push(("connected_clients", connected.to_string()));
            lines.push(("blocked_clients", blocked.to_string()));
            "Clients"
        }
        "memory" => {
            lines.push(("used_memory", about.memory.to_string()));
            lines.push(("maxmemory", "0".into()));
            lines.push(("maxmemory_policy", "noeviction".into()));
            "Memory"
        }
        "persistence" => {
            for name in ["loading", "async_loading", "rdb_bgsave_in_progress", "aof_rewrite_in_progress"] {
                lines.push((name, "0".into()));
            }
            lines.push(("aof_enabled", "1".into()));
            "Persistence"
        }
        "stats" => {
            lines.push(("total_connections_received", of.door.metrics.connections().to_string()));
            lines.push(("total_commands_processed", of.door.metrics.total().to_string()));
            "Stats"
        }
        "replication" => {
            lines.push(("role", "master".into()));
            lines.push(("connected_slaves", "0".into()));
            "Replication"
        }
        "cluster" => {
            lines.push(("cluster_enabled", "0".into()));
            "Cluster"
        }
        _ => {
            keyspace(of, out).await;
            return;
        }
    };
    let _ = write!(out, "# {title}\r\n");
    for (name, value) in lines {
        let _ = write!(out, "{name}:{value}\r\n");
    }
}

async fn keyspace(of: &Connection, out: &mut String) {
    out.push_str("# Keyspace\r\n");
    for (database, keys) in sizes(of).await {
        if keys > 0 {
            let _ = write!(out, "db{database}:keys={keys}\r\n");
        }
    }
}

/// The keys of each database.
async fn sizes(of: &Connection) -> Vec<(u8, i64)> {
    let size = |database| RedisCommand { database, words: vec![Bytes::from_static(b"DBSIZE")] };
    let replies = of.submit((0..DATABASES).map(size).collect()).await;
    let count = |reply: RedisReply| match reply {
        RedisReply::Integer(count) => count,
        _ => 0,
    };
    (0..DATABASES).zip(replies.into_iter().map(count)).collect()
}
