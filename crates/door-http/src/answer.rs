//! A [`Response`] to the status and the JSON body of the HTTP answer.
//!
//! Written by hand: the answers of `KvPut` and `KvGet` are on the hot path, and bytes become text or
//! base64 by what they hold. Always: one line of valid JSON, fields in a fixed order.
//! Held by: `golden_answers`.

use crate::error::{status_of, write_failure};
use crate::json::{boolean, field, list, optional, write_base64, write_bytes_field, write_number, write_text};
use crate::position::write_at;
use base_types::action::{
    Action, ActionResult, Answer, ClusterInfo, DecommissionInfo, DrainInfo, KeyspaceInfo, Level, MemberInfo, NodeInfo,
    Partitioning, RecoveryInfo, RedisReply, Response, StatusInfo, UpgradeInfo, VerificationInfo,
};
use base_types::{NodeId, Survivor};
use bytes::Bytes;

/// What an answer needs beside its value: the envelope, `at` and the level.
const ENVELOPE_BYTES: usize = 192;

/// What [`answer_name`] calls a scan without values: its entries have none to show.
const KEYS_ONLY: &str = "KvScan keys_only";

/// What [`write_response`] must know of the action that is answered.
pub fn answer_name(action: &Action) -> &'static str {
    match action {
        Action::KvScan { keys_only: true, .. } => KEYS_ONLY,
        Action::Versioned { call, .. } => crate::versioned::answer_name(call),
        other => other.name(),
    }
}

/// The status and body of an answer to the action that [`answer_name`] named.
pub fn write_response(action: &str, response: &Response) -> (u16, Vec<u8>) {
    let mut body = Vec::with_capacity(ENVELOPE_BYTES + payload_bytes(response));
    let status = write_response_into(action, response, &mut body);
    (status, body)
}

/// As [`write_response`], behind what `body` already holds; answers the status.
pub fn write_response_into(action: &str, response: &Response, body: &mut Vec<u8>) -> u16 {
    match response {
        Ok(answer) => {
            write_answer(action, answer, body);
            200
        }
        Err(failure) => {
            write_failure(failure, body);
            status_of(&failure.refusal)
        }
    }
}

fn payload_bytes(response: &Response) -> usize {
    match response {
        Ok(Answer { result: ActionResult::Value { value: Some(value) }, .. }) => value.len() + value.len() / 8,
        Ok(Answer { result: ActionResult::Page { entries, .. }, .. }) => {
            entries.iter().map(|(key, value)| key.len() + value.len() + 32).sum()
        }
        _ => 64,
    }
}

fn write_answer(action: &str, answer: &Answer, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"ok\":true");
    write_result(action, &answer.result, out);
    if let Some(at) = &answer.at {
        write_at(at, answer.cluster.as_deref(), out);
    }
    if let Some(level) = answer.level {
        let name = match level {
            Level::Write(level) => level.name(),
            Level::Read(level) => level.name(),
        };
        out.extend_from_slice(b",\"level\":\"");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
}

fn write_result(action: &str, result: &ActionResult, out: &mut Vec<u8>) {
    match result {
        ActionResult::Done => {}
        ActionResult::Value { value: Some(value) } => {
            out.extend_from_slice(b",\"found\":true,");
            write_bytes_field("value", value, out);
        }
        ActionResult::Value { value: None } => out.extend_from_slice(b",\"found\":false,\"value\":null"),
        ActionResult::Deleted { existed } => field(out, "existed", |out| boolean(*existed, out)),
        ActionResult::Page { entries, next } => write_page(entries, next.as_ref(), action == KEYS_ONLY, out),
        ActionResult::Redis { reply } => field(out, "reply", |out| write_redis(reply, out)),
        // Asked by the Redis door alone, which speaks no JSON.
        ActionResult::RedisCall(_) => {}
        ActionResult::Versioned(reply) => crate::versioned::write_reply(action, reply, out),
        ActionResult::S3(answer) => crate::s3::write_answer(answer, out),
        ActionResult::Access(answer) => crate::access::write_answer(answer, out),
        ActionResult::Keyspace(info) => field(out, "keyspace", |out| write_keyspace(info, out)),
        ActionResult::Keyspaces { keyspaces } => field(out, "keyspaces", |out| list(keyspaces, out, write_keyspace)),
        ActionResult::Cluster(info) => field(out, "cluster", |out| write_cluster(info, out)),
        ActionResult::Clusters { clusters, next } => {
            field(out, "clusters", |out| list(clusters, out, write_cluster));
            field(out, "next", |out| optional(next.as_ref(), out, |text, out| write_text(text, out)));
        }
        ActionResult::Verification(info) => write_verification(info, out),
        ActionResult::Recovery(info) => field(out, "recovery", |out| write_recovery(info, out)),
        ActionResult::Recoveries { recoveries } => {
            field(out, "recoveries", |out| list(recoveries, out, write_recovery))
        }
        ActionResult::Nodes { nodes } => field(out, "nodes", |out| list(nodes, out, write_node)),
        ActionResult::Drain(info) => write_drain(info, out),
        ActionResult::Decommission(info) => write_decommission(info, out),
        ActionResult::Upgrade(info) => write_upgrade(info, out),
        ActionResult::Status(info) => write_status(info, out),
    }
    // An answer names its action where it carries no result of its own, so that logs can be read alone.
    let silent = matches!(
        result,
        ActionResult::Done
            | ActionResult::S3(base_types::s3::S3Answer::Done)
            | ActionResult::Access(base_types::access::AccessAnswer::Done)
    );
    if silent && !action.is_empty() {
        field(out, "action", |out| write_text(action, out));
    }
}

fn write_page(entries: &[(Bytes, Bytes)], next: Option<&Bytes>, keys_only: bool, out: &mut Vec<u8>) {
    field(out, "entries", |out| {
        list(entries, out, |(key, value), out| {
            out.push(b'{');
            write_bytes_field("key", key, out);
            if !keys_only {
                out.push(b',');
                write_bytes_field("value", value, out);
            }
            out.push(b'}');
        })
    });
    out.push(b',');
    match next {
        Some(next) => write_bytes_field("next", next, out),
        None => out.extend_from_slice(b"\"next\":null"),
    }
}

/// Text as a string, other bytes as `{"base64":…}`: for lists, where there is no field to rename.
fn write_item(bytes: &[u8], out: &mut Vec<u8>) {
    match core::str::from_utf8(bytes) {
        Ok(text) => write_text(text, out),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":");
            write_base64(bytes, out);
            out.push(b'}');
        }
    }
}

fn write_redis(reply: &RedisReply, out: &mut Vec<u8>) {
    match reply {
        RedisReply::Ok => out.extend_from_slice(b"\"OK\""),
        RedisReply::Nil | RedisReply::NilArray => out.extend_from_slice(b"null"),
        RedisReply::Status(text) => write_text(text, out),
        RedisReply::Integer(value) => write_number(*value, out),
        RedisReply::Bulk(bytes) | RedisReply::Double(bytes) => write_item(bytes, out),
        RedisReply::Array(items) | RedisReply::Set(items) => list(items, out, write_redis),
        // As RESP2 has them: one list of both in turn.
        RedisReply::Map(pairs) | RedisReply::Pairs(pairs) | RedisReply::Streams(pairs) => {
            let both: Vec<&RedisReply> = pairs.iter().flat_map(|(left, right)| [left, right]).collect();
            list(&both, out, |item, out| write_redis(item, out));
        }
        RedisReply::Error(message) => {
            out.extend_from_slice(b"{\"error\":");
            write_text(message, out);
            out.push(b'}');
        }
    }
}

fn write_keyspace(info: &KeyspaceInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    write_text(&info.name, out);
    field(out, "kind", |out| write_text(info.kind.as_str(), out));
    let partition = match info.partitioning {
        Partitioning::Range => "range",
        Partitioning::Hash => "hash",
    };
    field(out, "partition", |out| write_text(partition, out));
    field(out, "partitions", |out| write_number(info.partitions, out));
    field(out, "epoch", |out| write_number(info.epoch, out));
    field(out, "rule", |out| write_text(&info.rule, out));
    // A keyspace that names no engine has each node's default.
    let engine = (!info.engine.is_empty()).then_some(&info.engine);
    field(out, "engine", |out| optional(engine, out, |engine, out| write_text(engine, out)));
    field(out, "owners", |out| list(&info.owners, out, |name, out| write_text(name.as_str(), out)));
    field(out, "split_keys", |out| list(&info.split_keys, out, |key, out| write_item(key, out)));
    field(out, "reshard", |out| {
        optional(info.reshard.as_ref(), out, |reshard, out| {
            out.extend_from_slice(b"{\"target_clusters\":");
            write_number(reshard.target_clusters, out);
            field(out, "moves_done", |out| write_number(reshard.moves_done, out));
            field(out, "moves_total", |out| write_number(reshard.moves_total, out));
            field(out, "moving", |out| optional(reshard.moving, out, |partition, out| write_number(partition.0, out)));
            out.push(b'}');
        })
    });
    field(out, "moved_partitions", |out| write_number(info.moved_partitions, out));
    field(out, "moved_keys", |out| write_number(info.moved_keys, out));
    out.push(b'}');
}

fn write_cluster(info: &ClusterInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    write_text(info.name.as_str(), out);
    field(out, "id", |out| write_number(info.cluster.0, out));
    field(out, "generation", |out| write_number(info.generation.0, out));
    field(out, "rule", |out| write_text(&info.rule, out));
    field(out, "leader", |out| optional(info.leader, out, |node, out| write_number(node.0, out)));
    field(out, "term", |out| write_number(info.term.0, out));
    field(out, "commit", |out| write_number(info.commit.0, out));
    field(out, "applied", |out| write_number(info.applied.0, out));
    field(out, "consistency", |out| write_text(info.consistency.name(), out));
    field(out, "read_consistency", |out| write_text(info.read_consistency.name(), out));
    field(out, "members", |out| list(&info.members, out, write_member));
    if let Some(engine) = &info.engine {
        field(out, "engine", |out| write_text(engine, out));
    }
    field(out, "warnings", |out| list(&info.warnings, out, |text, out| write_text(text, out)));
    out.push(b'}');
}

fn write_member(member: &MemberInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"node\":");
    write_number(member.node.0, out);
    field(out, "replica", |out| write_number(member.replica.0, out));
    field(out, "learner", |out| boolean(member.learner, out));
    field(out, "matched", |out| write_number(member.matched.0, out));
    if let Some(kept) = member.kept {
        field(out, "kept", |out| write_number(kept.0, out));
    }
    if member.moves {
        field(out, "moves", |out| boolean(true, out));
    }
    field(out, "up", |out| boolean(member.up, out));
    out.push(b'}');
}

fn write_verification(info: &VerificationInfo, out: &mut Vec<u8>) {
    field(out, "name", |out| write_text(info.name.as_str(), out));
    field(out, "id", |out| write_number(info.cluster.0, out));
    field(out, "generation", |out| write_number(info.generation.0, out));
    // 64 bits as text: JavaScript's numbers end at 53.
    field(out, "run", |out| write_text(&format!("{:016x}", info.run), out));
    field(out, "done", |out| boolean(info.done, out));
    field(out, "index", |out| write_number(info.index.0, out));
    field(out, "whole", |out| optional(info.whole, out, boolean));
    field(out, "members", |out| {
        list(&info.members, out, |member, out| {
            out.extend_from_slice(b"{\"node\":");
            write_number(member.node.0, out);
            field(out, "replica", |out| write_number(member.replica.0, out));
            field(out, "learner", |out| boolean(member.learner, out));
            field(out, "state", |out| write_text(member.state, out));
            field(out, "pairs", |out| write_number(member.pairs, out));
            field(out, "bytes", |out| write_number(member.bytes, out));
            field(out, "damaged", |out| write_number(member.damaged, out));
            field(out, "digest", |out| {
                optional(member.digest, out, |digest, out| write_text(&format!("{digest:016x}"), out))
            });
            out.push(b'}');
        })
    });
    field(out, "advice", |out| list(&info.advice, out, |text, out| write_text(text, out)));
}

fn write_node(info: &NodeInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    write_number(info.node.0, out);
    field(out, "up", |out| boolean(info.up, out));
    field(out, "draining", |out| boolean(info.draining, out));
    let texts = [
        ("region", &info.region),
        ("az", &info.az),
        ("rack", &info.rack),
        ("chassis", &info.chassis),
        ("peer", &info.peer_address),
        ("http", &info.http_address),
        ("version", &info.version),
    ];
    for (name, text) in texts {
        field(out, name, |out| write_text(text, out));
    }
    field(out, "score", |out| write_number(info.score, out));
    field(out, "clusters", |out| write_number(info.clusters, out));
    field(out, "leaders", |out| write_number(info.leaders, out));
    // Drawn from 64 bits: as text, since JavaScript's numbers end at 53.
    field(out, "disk", |out| write_text(&format!("{:016x}", info.disk.0), out));
    field(out, "cores", |out| write_number(info.cores, out));
    field(out, "seen_ms_ago", |out| write_number(info.seen_ms_ago, out));
    out.push(b'}');
}

fn write_upgrade(info: &UpgradeInfo, out: &mut Vec<u8>) {
    field(out, "format_level", |out| write_number(info.level.0, out));
    field(out, "target", |out| write_number(info.target.0, out));
    field(out, "nodes", |out| {
        list(&info.nodes, out, |node, out| {
            out.extend_from_slice(b"{\"id\":");
            write_number(node.node.0, out);
            field(out, "up", |out| boolean(node.up, out));
            field(out, "version", |out| write_text(&node.version, out));
            field(out, "format_level_max", |out| write_number(node.level_max.0, out));
            out.push(b'}');
        })
    });
    field(out, "blockers", |out| list(&info.blockers, out, |text, out| write_text(text, out)));
}

fn write_recovery(info: &RecoveryInfo, out: &mut Vec<u8>) {
    let nodes = |nodes: &[NodeId], out: &mut Vec<u8>| list(nodes, out, |node, out| write_number(node.0, out));
    out.extend_from_slice(b"{\"name\":");
    write_text(info.name.as_str(), out);
    field(out, "state", |out| write_text(info.state.as_str(), out));
    field(out, "ended", |out| write_number(info.ended.0, out));
    field(out, "survivor", |out| optional(info.survivor, out, |node, out| write_number(node.0, out)));
    field(out, "unix_ms", |out| write_number(info.unix_ms, out));
    field(out, "by", |out| write_number(info.by.0, out));
    field(out, "survivors", |out| list(&info.survivors, out, write_survivor));
    field(out, "silent", |out| nodes(&info.silent, out));
    field(out, "held", |out| nodes(&info.held, out));
    field(out, "findings", |out| list(&info.findings, out, |text, out| write_text(text, out)));
    out.push(b'}');
}

fn write_survivor(one: &Survivor, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"node\":");
    write_number(one.node.0, out);
    field(out, "replica", |out| write_number(one.replica.0, out));
    field(out, "generation", |out| write_number(one.generation.0, out));
    field(out, "state", |out| write_text(one.state.as_str(), out));
    field(out, "term", |out| write_number(one.term.0, out));
    field(out, "last_term", |out| write_number(one.last_term.0, out));
    field(out, "last", |out| write_number(one.last.0, out));
    field(out, "commit", |out| write_number(one.commit.0, out));
    field(out, "applied", |out| write_number(one.applied.0, out));
    field(out, "durable", |out| write_number(one.durable.0, out));
    field(out, "follows", |out| optional(one.follows, out, |node, out| write_number(node.0, out)));
    field(out, "members", |out| list(&one.members, out, |member, out| write_number(member.node.0, out)));
    out.push(b'}');
}

fn write_drain(info: &DrainInfo, out: &mut Vec<u8>) {
    field(out, "node", |out| write_number(info.node.0, out));
    field(out, "drained", |out| boolean(info.drained, out));
    field(out, "hand_overs_due", |out| optional(info.hand_overs_due, out, write_number));
}

fn write_decommission(info: &DecommissionInfo, out: &mut Vec<u8>) {
    field(out, "node", |out| write_number(info.node.0, out));
    field(out, "draining", |out| boolean(info.draining, out));
    field(out, "replicas", |out| write_number(info.replicas, out));
    field(out, "obstacles", |out| list(&info.obstacles, out, |text, out| write_text(text, out)));
}

fn write_status(info: &StatusInfo, out: &mut Vec<u8>) {
    field(out, "world", |out| write_text(&info.world, out));
    field(out, "node", |out| write_number(info.node.0, out));
    field(out, "ready", |out| boolean(info.ready, out));
    field(out, "not_ready", |out| list(&info.not_ready, out, |text, out| write_text(text, out)));
    field(out, "degraded", |out| list(&info.degraded, out, |text, out| write_text(text, out)));
    field(out, "quorum", |out| {
        list(&info.quorum, out, |quorum, out| {
            out.extend_from_slice(b"{\"cluster\":");
            write_text(quorum.cluster.as_str(), out);
            field(out, "answers", |out| boolean(quorum.answers, out));
            out.push(b'}');
        })
    });
    field(out, "nodes_up", |out| write_number(info.nodes_up, out));
    field(out, "nodes_total", |out| write_number(info.nodes_total, out));
    field(out, "clusters", |out| write_number(info.clusters, out));
    field(out, "leaders", |out| write_number(info.leaders, out));
    field(out, "quiesced", |out| write_number(info.quiesced, out));
    field(out, "config_cluster", |out| {
        optional(info.config_cluster.as_ref(), out, |name, out| write_text(name.as_str(), out))
    });
    field(out, "warnings", |out| list(&info.warnings, out, |text, out| write_text(text, out)));
    field(out, "log_write_ms", |out| write_number(info.log_write_ms, out));
    field(out, "certificate_expires_ms", |out| write_number(info.certificate_expires_ms, out));
}

#[cfg(test)]
mod tests;
