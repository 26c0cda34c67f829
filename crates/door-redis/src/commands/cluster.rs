//! CLUSTER, READONLY: for clients that look for the node that leads.
//!
//! By design: any node answers for any key, so nobody is redirected. All slots are those of the node that leads the keyspace's cluster.

use super::{text, upper};
use crate::connection::Connection;
use crate::database::Server;
use crate::error::{error, of_refusal, unknown_subcommand};
use crate::request::Words;
use base_types::redis::RedisReply;
use base_types::ReadConsistency;

/// How many slots Redis has.
const SLOTS: u16 = 16_384;

/// A key's slot: CRC16 (XMODEM) of the key, or of its tag in braces.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tagged = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    let mut crc: u16 = 0;
    for byte in tagged.unwrap_or(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
        }
    }
    crc % SLOTS
}

/// A node's name, as Redis has them: forty digits.
fn name(server: &Server) -> String {
    format!("{:040x}", server.node)
}

/// READONLY: reads of this connection may be a little old, and any member answers them.
pub(super) fn on_routing(of: &mut Connection, name: &str) -> RedisReply {
    match name {
        "readonly" => of.client.levels.read = ReadConsistency::Eventual,
        "readwrite" => of.client.levels.read = ReadConsistency::Strong,
        _ => {}
    }
    RedisReply::Ok
}

pub(super) async fn on_cluster(of: &Connection, words: &Words) -> RedisReply {
    match (upper(words, 1).as_str(), words.get(2)) {
        ("KEYSLOT", Some(key)) => return RedisReply::Integer(i64::from(slot(key))),
        ("COUNTKEYSINSLOT" | "GETKEYSINSLOT", Some(_)) => {
            return error("ERR keys are not counted by slots: one cluster has them all");
        }
        ("INFO" | "MYID" | "NODES" | "SLOTS" | "SHARDS", None) => {}
        _ => return unknown_subcommand("CLUSTER", words.get(1).map_or(&[], |word| &word[..])),
    }
    let Some(session) = of.session() else { return error(crate::error::NO_AUTH) };
    let servers = match of.door.database.servers(&session).await {
        Ok(servers) => servers,
        Err(refusal) => return of_refusal(&refusal, false),
    };
    // Where nobody leads just now, this node takes what comes.
    let leads = |server: &&Server| server.leads && server.address.is_some();
    let leader = servers.iter().find(leads).or_else(|| servers.iter().find(|server| server.own));
    match upper(words, 1).as_str() {
        "MYID" => text(servers.iter().find(|server| server.own).map(name).unwrap_or_default()),
        "INFO" => text(info(servers.len())),
        "NODES" => text(servers.iter().map(|server| line(server, leader)).collect::<String>()),
        "SLOTS" => RedisReply::Array(leader.map(slots).into_iter().collect()),
        _ => RedisReply::Array(leader.map(shard).into_iter().collect()),
    }
}

fn info(nodes: usize) -> String {
    format!(
        "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\ncluster_size:1\r\n"
    )
}

fn address(server: &Server) -> (String, u16) {
    server.address.clone().unwrap_or_else(|| (String::new(), 0))
}

fn line(server: &Server, leader: Option<&Server>) -> String {
    let (host, port) = address(server);
    let flags = if server.own { "myself,master" } else { "master" };
    let slots = if leader.is_some_and(|leader| leader.node == server.node) { " 0-16383" } else { "" };
    format!("{} {host}:{port}@{port} {flags} - 0 0 1 connected{slots}\n", name(server))
}

fn slots(server: &Server) -> RedisReply {
    let (host, port) = address(server);
    let node =
        vec![text(host), RedisReply::Integer(i64::from(port)), text(name(server)), RedisReply::Array(Vec::new())];
    RedisReply::Array(vec![RedisReply::Integer(0), RedisReply::Integer(i64::from(SLOTS) - 1), RedisReply::Array(node)])
}

fn shard(server: &Server) -> RedisReply {
    let (host, port) = address(server);
    let node = RedisReply::Map(vec![
        (text("id"), text(name(server))),
        (text("port"), RedisReply::Integer(i64::from(port))),
        (text("ip"), text(host.clone())),
        (text("endpoint"), text(host)),
        (text("role"), text("master")),
        (text("replication-offset"), RedisReply::Integer(0)),
        (text("health"), text("online")),
    ]);
    let range = [0, i64::from(SLOTS) - 1].map(RedisReply::Integer);
    RedisReply::Map(vec![
        (text("slots"), RedisReply::Array(range.to_vec())),
        (text("nodes"), RedisReply::Array(vec![node])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // CRC16 of "123456789" is 0x31c3 (the specification of Redis Cluster).
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
