//! A JSON body to a [`Request`]: `{"action": "KvPut", …}`.
//!
//! The one table of actions and their fields is [`ACTIONS`]; a test holds the code to it.
//! Not here: what the values mean to the store (core-node): a rule stays text.

use crate::error::HttpError;
use crate::fields::{near, Fields};
use crate::json::{self, clip, Value};
use crate::keys::{check_key, check_value, named_target, target};
use crate::{versioned, Limits};
use base_types::access::{AccessAction, Caller};
use base_types::action::{Action, BatchStep, KeyspaceKind, KvTarget, Partitioning, ReadAfter, Request};
use base_types::s3::S3Action;
use base_types::versioned::{Filter, Read};
use base_types::{
    ClusterId, ErrorCode, Generation, LogIndex, Refusal, RequestId, BATCH_OPERATIONS_MAX, DEADLINE_DEFAULT,
    DEADLINE_MAX, SCAN_LIMIT_DEFAULT, SCAN_LIMIT_MAX,
};
use bytes::Bytes;
use std::time::Duration;

/// The longest request id.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// The partitions of a keyspace whose creation names no number.
pub const PARTITIONS_DEFAULT: u64 = 16;

/// The fields every action takes.
pub const COMMON: &[&str] = &["action", "consistency", "read_consistency", "deadline_ms", "request_id"];

/// Every action with its own fields.
pub const ACTIONS: &[(&str, &[&str])] = &[
    ("KvPut", &["keyspace", "cluster", "key", "key_base64", "value", "value_base64"]),
    ("KvGet", &["keyspace", "cluster", "key", "key_base64", "at", "after"]),
    ("KvDelete", &["keyspace", "cluster", "key", "key_base64"]),
    (
        "KvScan",
        &[
            "keyspace",
            "cluster",
            "prefix",
            "prefix_base64",
            "start_after",
            "start_after_base64",
            "end",
            "end_base64",
            "limit",
            "reverse",
            "keys_only",
            "at",
            "pin",
            "modified_min",
            "after",
        ],
    ),
    ("KvBatch", &["keyspace", "cluster", "steps"]),
    (
        "KvCompareAndSet",
        &["keyspace", "cluster", "key", "key_base64", "expected", "expected_base64", "value", "value_base64"],
    ),
    ("KvTransaction", &["keyspace", "cluster", "conditions", "then", "else"]),
    (
        "KvHistory",
        &[
            "keyspace",
            "cluster",
            "key",
            "key_base64",
            "prefix",
            "prefix_base64",
            "start",
            "start_base64",
            "end",
            "end_base64",
            "since",
            "limit",
            "before",
            "pin",
            "after",
        ],
    ),
    (
        "KvWatch",
        &[
            "keyspace",
            "cluster",
            "key",
            "key_base64",
            "prefix",
            "prefix_base64",
            "start",
            "start_base64",
            "end",
            "end_base64",
            "since",
            "before",
        ],
    ),
    ("KvDescribe", &["keyspace", "cluster", "after"]),
    ("KvStampAt", &["keyspace", "cluster", "time_ms", "after"]),
    ("KvCompact", &["keyspace", "cluster", "stamp"]),
    ("KvCollect", &["keyspace", "cluster", "limit"]),
    ("KvPin", &["keyspace", "cluster", "pin", "stamp", "keep_ms"]),
    ("KvUnpin", &["keyspace", "cluster", "pin"]),
    ("KvLeaseGrant", &["keyspace", "cluster", "lease", "ttl_ms"]),
    ("KvLeaseKeepAlive", &["keyspace", "cluster", "leases"]),
    ("KvLeaseRevoke", &["keyspace", "cluster", "lease"]),
    ("KvLease", &["keyspace", "cluster", "lease", "start_after", "start_after_base64", "limit", "after"]),
    ("KvLeases", &["keyspace", "cluster", "start_after", "limit", "after"]),
    ("CreateKeyspace", &["keyspace", "kind", "partition", "partitions", "clusters", "split_keys", "rule", "engine"]),
    ("DeleteKeyspace", &["keyspace"]),
    ("DescribeKeyspace", &["keyspace"]),
    ("ListKeyspaces", &[]),
    ("Reshard", &["keyspace", "clusters"]),
    ("CreateCluster", &["name", "rule"]),
    ("DeleteCluster", &["name"]),
    ("ResolveCluster", &["name"]),
    ("DescribeCluster", &["name"]),
    ("VerifyCluster", &["name", "run"]),
    ("ListClusters", &["prefix", "start_after", "limit"]),
    ("TransferLeader", &["name", "node"]),
    ("AddMember", &["name", "node"]),
    ("SkipEntry", &["name", "index"]),
    ("RecoverCluster", &["name", "confirm", "survivor"]),
    ("ListRecoveries", &["name"]),
    ("DiscardEnded", &["name", "node"]),
    ("RemoveMember", &["name", "node"]),
    ("MoveMember", &["name", "from", "to"]),
    ("SetEngine", &["name", "keyspace", "engine"]),
    ("SetDefaultConsistency", &["name"]),
    ("Redis", &["keyspace", "cluster", "command", "after"]),
    ("ListNodes", &[]),
    ("DrainNode", &["node", "drained"]),
    ("DecommissionNode", &["node"]),
    ("RecommissionNode", &["node"]),
    ("ForgetNode", &["node"]),
    ("UpgradeStatus", &[]),
    ("FinalizeUpgrade", &[]),
    ("Status", &[]),
];

/// Reads a body.
pub fn parse_request(body: Bytes, limits: &Limits) -> Result<Request, HttpError> {
    if body.len() > limits.body_bytes_max {
        let message = format!("the body has {} bytes; send at most {}", body.len(), limits.body_bytes_max);
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message).into());
    }
    Ok(parse(&body)?)
}

fn parse(body: &Bytes) -> Result<Request, Refusal> {
    let value = json::parse(body)?;
    if !matches!(value, Value::Object(_)) {
        let message = format!(r#"the body is {}; send an object such as {{"action":"KvGet","key":"k"}}"#, value.kind());
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    let mut fields = Fields::new(body, "the request", value)?;
    let asked = fields.text_needed("action")?;
    let by_fields = crate::s3::is_call(&asked) || crate::access::is_call(&asked);
    let own = if by_fields { None } else { Some(action_named(&asked)?) };
    match own {
        None => fields.rename(format!("action {asked}")),
        Some((name, known)) => {
            fields.rename(format_action(name));
            fields.only(known, COMMON)?;
        }
    }
    let consistency = fields.word("consistency", ErrorCode::UnknownLevel)?;
    let read_consistency = fields.word("read_consistency", ErrorCode::UnknownLevel)?;
    let deadline = fields.number("deadline_ms", 1, DEADLINE_MAX.as_millis() as u64)?;
    let request_id = fields.text("request_id")?.map(|text| request_id(&text)).transpose()?;
    let after = if own.is_some() { fields.text("after")?.map(|text| read_after(&text)).transpose()? } else { None };
    let of_owner = crate::s3::is_call(&asked) && crate::s3::names_owner_beside(&asked);
    let expected_bucket_owner = if of_owner { fields.text("expected_bucket_owner")?.map(Into::into) } else { None };
    let mut action = match own {
        None if crate::s3::is_call(&asked) => Action::S3(crate::s3::parse(&asked, fields.rest())?),
        None => Action::Access(crate::access::parse(&asked, fields.rest())?),
        Some((name, _)) => action(name, body, &mut fields)?,
    };
    if let Action::SetDefaultConsistency { consistency: write, read_consistency: read, .. } = &mut action {
        (*write, *read) = (consistency, read_consistency);
    }
    let deadline = deadline.map_or(DEADLINE_DEFAULT, Duration::from_millis);
    let caller = Caller::Anyone;
    Ok(Request { action, consistency, read_consistency, deadline, request_id, after, expected_bucket_owner, caller })
}

fn action_named(name: &str) -> Result<(&'static str, &'static [&'static str]), Refusal> {
    ACTIONS.iter().find(|(known, _)| *known == name).copied().ok_or_else(|| {
        let all = ACTIONS.iter().map(|(name, _)| *name);
        let all = all.chain(S3Action::NAMES.iter().copied()).chain(AccessAction::NAMES.iter().copied());
        let hint = near(name, all).map_or_else(
            || {
                format!(
                    "; known are S3's calls and {}",
                    ACTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
                )
            },
            |near| format!("; did you mean '{near}'?"),
        );
        Refusal::new(ErrorCode::UnknownAction, format!("there is no action '{}'{hint}", clip(name)))
    })
}

/// The action as messages call it, without allocating for the two that are asked for most.
fn format_action(name: &'static str) -> std::borrow::Cow<'static, str> {
    match name {
        "KvPut" => "action KvPut".into(),
        "KvGet" => "action KvGet".into(),
        other => format!("action {other}").into(),
    }
}

/// How an id begins that a client made after it had seen a position of a cluster.
const ISSUED: &str = "after:";

/// A request id as the store knows it: 32 hex digits are it (but for two bits), any other text is hashed.
/// `after:ID.GENERATION.INDEX:TEXT` was made after that position, which some answer told.
pub fn request_id(text: &str) -> Result<RequestId, Refusal> {
    if text.is_empty() || text.len() > REQUEST_ID_BYTES_MAX {
        let message = format!("request_id has {} bytes; give 1 to {REQUEST_ID_BYTES_MAX}", text.len());
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    let hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = if hex { u128::from_str_radix(text, 16).ok() } else { None };
    let hash = |text: &str| xxhash_rust::xxh3::xxh3_128(text.as_bytes());
    match text.strip_prefix(ISSUED) {
        None => Ok(RequestId::opaque(parsed.unwrap_or_else(|| hash(text)))),
        Some(rest) => issued(rest, hash(text)).ok_or_else(|| {
            let message = format!(
                "request_id '{}' is not after:ID.GENERATION.INDEX:TEXT; take the three numbers from 'at' of an answer",
                clip(text)
            );
            Refusal::new(ErrorCode::InvalidField, message)
        }),
    }
}

fn issued(rest: &str, hash: u128) -> Option<RequestId> {
    let (place, text) = rest.split_once(':')?;
    let ReadAfter { cluster, generation, index } = position(place).filter(|_| !text.is_empty())?;
    RequestId::issued(cluster, generation, index, hash)
}

/// `ID.GENERATION.INDEX`.
fn position(text: &str) -> Option<ReadAfter> {
    let mut numbers = text.split('.');
    let cluster = ClusterId(numbers.next()?.parse().ok()?);
    let generation = Generation(numbers.next()?.parse().ok()?);
    let index = LogIndex(numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some(ReadAfter { cluster, generation, index })
}

fn read_after(text: &str) -> Result<ReadAfter, Refusal> {
    position(text).ok_or_else(|| {
        let message =
            format!("after '{}' is not ID.GENERATION.INDEX; take the three numbers from 'at' of an answer", clip(text));
        Refusal::new(ErrorCode::InvalidField, message)
    })
}

fn action(name: &'static str, body: &Bytes, fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    match name {
        "KvPut" => Ok(Action::KvPut { target: target(fields)?, key: key(fields)?, value: value_needed(fields)? }),
        "KvGet" => {
            let (target, key) = (target(fields)?, key(fields)?);
            Ok(match fields.number("at", 0, u64::MAX)? {
                Some(at) => versioned::get_at(target, key, at),
                None => Action::KvGet { target, key },
            })
        }
        "KvDelete" => Ok(Action::KvDelete { target: target(fields)?, key: key(fields)? }),
        "KvScan" => scan(fields),
        "KvTransaction" | "KvHistory" | "KvWatch" | "KvDescribe" | "KvStampAt" | "KvCompact" | "KvCollect"
        | "KvPin" | "KvUnpin" | "KvLeaseGrant" | "KvLeaseKeepAlive" | "KvLeaseRevoke" | "KvLease" | "KvLeases" => {
            versioned::action(name, body, fields)
        }
        "KvBatch" => Ok(Action::KvBatch { target: target(fields)?, steps: steps(body, fields)? }),
        "KvCompareAndSet" => Ok(Action::KvCompareAndSet {
            target: target(fields)?,
            key: key(fields)?,
            expected: fields.bytes("expected", "expected_base64")?,
            value: fields.bytes("value", "value_base64")?.map(check_value).transpose()?,
        }),
        "Redis" => Ok(Action::Redis { target: database(fields)?, command: command(fields)? }),
        "ListNodes" => Ok(Action::ListNodes),
        "DrainNode" => Ok(Action::DrainNode {
            node: fields.node_needed("node")?,
            drained: fields.boolean("drained")?.unwrap_or(true),
        }),
        "DecommissionNode" => Ok(Action::DecommissionNode { node: fields.node_needed("node")? }),
        "RecommissionNode" => Ok(Action::RecommissionNode { node: fields.node_needed("node")? }),
        "ForgetNode" => Ok(Action::ForgetNode { node: fields.node_needed("node")? }),
        "UpgradeStatus" => Ok(Action::UpgradeStatus),
        "FinalizeUpgrade" => Ok(Action::FinalizeUpgrade),
        "Status" => Ok(Action::Status),
        "SetEngine" => set_engine(fields),
        "CreateKeyspace" | "DeleteKeyspace" | "DescribeKeyspace" | "ListKeyspaces" | "Reshard" => {
            keyspace_action(name, fields)
        }
        _ => cluster_action(name, fields),
    }
}

fn keyspace_action(name: &'static str, fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    if name == "ListKeyspaces" {
        return Ok(Action::ListKeyspaces);
    }
    let keyspace = fields.text_needed("keyspace")?.into_owned();
    Ok(match name {
        "DeleteKeyspace" => Action::DeleteKeyspace { keyspace },
        "DescribeKeyspace" => Action::DescribeKeyspace { keyspace },
        "Reshard" => {
            Action::Reshard { keyspace, clusters: fields.number_needed("clusters", 1, u64::from(u16::MAX))? as u16 }
        }
        _ => create_keyspace(keyspace, fields)?,
    })
}

fn create_keyspace(keyspace: String, fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let kind = fields.word::<KindWord>("kind", ErrorCode::InvalidKeyspace)?.map_or(KeyspaceKind::Plain, |word| word.0);
    // A versioned one has one, whatever the default of the others.
    let partitions = match kind {
        KeyspaceKind::Plain => PARTITIONS_DEFAULT,
        KeyspaceKind::Versioned | KeyspaceKind::Redis => 1,
    };
    Ok(Action::CreateKeyspace {
        keyspace,
        kind,
        partitioning: fields
            .word::<PartitioningWord>("partition", ErrorCode::InvalidKeyspace)?
            .map_or(Partitioning::Hash, |word| word.0),
        partitions: fields.number("partitions", 1, u64::from(u16::MAX))?.unwrap_or(partitions) as u16,
        clusters: fields.number("clusters", 1, u64::from(u16::MAX))?.unwrap_or(1) as u16,
        split_keys: fields.bytes_list("split_keys")?.unwrap_or_default(),
        rule: fields.text_needed("rule")?.into_owned(),
        engine: fields.text("engine")?.map(|text| text.into_owned()),
    })
}

/// Of a cluster by `name`, or of a `keyspace`.
fn set_engine(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let keyspace = fields.text("keyspace")?.map(|text| text.into_owned());
    let target = match keyspace {
        Some(_) if fields.text("name")?.is_some() => {
            let message = "SetEngine was given both name and keyspace; give one of them";
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        Some(keyspace) => KvTarget::Keyspace(keyspace),
        None => KvTarget::Cluster(fields.cluster_needed("name")?),
    };
    Ok(Action::SetEngine { target, engine: fields.text_needed("engine")?.into_owned() })
}

fn cluster_action(name: &'static str, fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    if name == "ListClusters" {
        return Ok(Action::ListClusters {
            prefix: fields.text("prefix")?.unwrap_or_default().into_owned(),
            start_after: fields.text("start_after")?.map(|text| text.into_owned()),
            limit: limit(fields)?,
        });
    }
    if name == "ListRecoveries" {
        return Ok(Action::ListRecoveries { name: fields.cluster("name")? });
    }
    let cluster = fields.cluster_needed("name")?;
    Ok(match name {
        "CreateCluster" => Action::CreateCluster { name: cluster, rule: fields.text_needed("rule")?.into_owned() },
        "DeleteCluster" => Action::DeleteCluster { name: cluster },
        "ResolveCluster" => Action::ResolveCluster { name: cluster },
        "DescribeCluster" => Action::DescribeCluster { name: cluster },
        "VerifyCluster" => Action::VerifyCluster { name: cluster, run: run(fields)? },
        "TransferLeader" => Action::TransferLeader { name: cluster, node: fields.node_needed("node")? },
        "AddMember" => Action::AddMember { name: cluster, node: fields.node_needed("node")? },
        "SkipEntry" => {
            Action::SkipEntry { name: cluster, index: LogIndex(fields.number_needed("index", 1, u64::MAX)?) }
        }
        "RecoverCluster" => {
            let confirm = fields.text("confirm")?.map(|text| text.into_owned());
            Action::RecoverCluster { name: cluster, confirm, survivor: fields.node("survivor")? }
        }
        "DiscardEnded" => Action::DiscardEnded { name: cluster, node: fields.node_needed("node")? },
        "RemoveMember" => Action::RemoveMember { name: cluster, node: fields.node_needed("node")? },
        "MoveMember" => Action::MoveMember { name: cluster, from: fields.node_needed("from")?, to: fields.node("to")? },
        "SetDefaultConsistency" => {
            // The levels are the fields common to all actions; `parse` fills them in.
            Action::SetDefaultConsistency { name: cluster, consistency: None, read_consistency: None }
        }
        other => return Err(Refusal::new(ErrorCode::Internal, format!("action {other} is listed but has no parser"))),
    })
}

/// A verification as its answers name it: 16 hex digits.
fn run(fields: &mut Fields<'_>) -> Result<Option<u64>, Refusal> {
    let Some(text) = fields.text("run")? else { return Ok(None) };
    let parsed = Some(&text).filter(|text| text.len() == 16).and_then(|text| u64::from_str_radix(text, 16).ok());
    let invalid = || {
        let message = format!("run is '{}'; name one as an answer of VerifyCluster did, or leave it out", clip(&text));
        Refusal::new(ErrorCode::InvalidField, message)
    };
    parsed.map(Some).ok_or_else(invalid)
}

fn scan(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    if let Some(at) = fields.number("at", 0, u64::MAX)? {
        return scan_at(fields, at);
    }
    for name in ["pin", "modified_min"] {
        if fields.number(name, 0, u64::MAX)?.is_some() {
            let message = format!("'{name}' is of keys as they were at a stamp; give 'at' too, or leave it out");
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
    }
    Ok(Action::KvScan {
        target: target(fields)?,
        prefix: fields.bytes("prefix", "prefix_base64")?.unwrap_or_default(),
        start_after: fields.bytes("start_after", "start_after_base64")?,
        end: fields.bytes("end", "end_base64")?,
        limit: limit(fields)?,
        reverse: fields.flag("reverse")?,
        keys_only: fields.flag("keys_only")?,
    })
}

/// Of keys as they were at a stamp.
fn scan_at(fields: &mut Fields<'_>, at: u64) -> Result<Action, Refusal> {
    let target = target(fields)?;
    if fields.flag("reverse")? {
        let message = "a versioned keyspace is not read backwards; leave 'reverse' out";
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    let prefix = fields.bytes("prefix", "prefix_base64")?.unwrap_or_default();
    let after = fields.bytes("start_after", "start_after_base64")?;
    let end = fields.bytes("end", "end_base64")?;
    let span = versioned::span_of(prefix, after, end);
    let pin = fields.number("pin", 0, u64::MAX)?.unwrap_or(0);
    let modified_min = fields.number("modified_min", 0, u64::MAX)?.unwrap_or(0);
    let filter = Filter { modified_min, ..Filter::default() };
    let keys_only = fields.flag("keys_only")?;
    Ok(versioned::read_at(target, Read { span, at, limit: limit(fields)?, keys_only, filter, ..Read::all() }, pin))
}

fn limit(fields: &mut Fields<'_>) -> Result<u32, Refusal> {
    Ok(fields.number("limit", 1, u64::from(SCAN_LIMIT_MAX))?.map_or(SCAN_LIMIT_DEFAULT, |limit| limit as u32))
}

fn key(fields: &mut Fields<'_>) -> Result<Bytes, Refusal> {
    check_key(fields.bytes_needed("key", "key_base64")?)
}

fn value_needed(fields: &mut Fields<'_>) -> Result<Bytes, Refusal> {
    check_value(fields.bytes_needed("value", "value_base64")?)
}

/// The fields of one step of a batch.
const STEP: &[&str] = &["op", "key", "key_base64", "value", "value_base64"];

fn steps(body: &Bytes, fields: &mut Fields<'_>) -> Result<Vec<BatchStep>, Refusal> {
    let items = fields.list_of("steps")?.unwrap_or_default();
    if items.is_empty() || items.len() > BATCH_OPERATIONS_MAX {
        let message = format!("a batch has {} steps; give 1 to {BATCH_OPERATIONS_MAX}", items.len());
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    items.into_iter().enumerate().map(|(at, item)| step(body, at, item)).collect()
}

fn step(body: &Bytes, at: usize, item: Value<'_>) -> Result<BatchStep, Refusal> {
    let mut fields = Fields::new(body, format!("step {at}"), item)?;
    fields.only(STEP, &[])?;
    let op = fields.text_needed("op")?;
    match &*op {
        "put" => Ok(BatchStep::Put { key: key(&mut fields)?, value: value_needed(&mut fields)? }),
        "delete" => Ok(BatchStep::Delete { key: key(&mut fields)? }),
        other => {
            let message = format!("step {at} has the op '{}'; known are put, delete", clip(other));
            Err(Refusal::new(ErrorCode::InvalidField, message))
        }
    }
}

/// Where a Redis command goes: a `keyspace` of the kind redis, or a `cluster`. None is taken for granted.
fn database(fields: &mut Fields<'_>) -> Result<KvTarget, Refusal> {
    match named_target(fields)? {
        Some(target) => Ok(target),
        None => fields.cluster_needed("cluster").map(KvTarget::Cluster),
    }
}

fn command(fields: &mut Fields<'_>) -> Result<Vec<Bytes>, Refusal> {
    let words = fields.bytes_list("command")?.unwrap_or_default();
    if words.is_empty() || words.len() > BATCH_OPERATIONS_MAX {
        let message = format!(
            r#"field 'command' has {} words; give 1 to {BATCH_OPERATIONS_MAX}, for example ["SET","k","v"]"#,
            words.len()
        );
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    Ok(words)
}

/// `range` or `hash`.
struct PartitioningWord(Partitioning);

impl std::str::FromStr for PartitioningWord {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "range" => Ok(PartitioningWord(Partitioning::Range)),
            "hash" => Ok(PartitioningWord(Partitioning::Hash)),
            _ => Err("known are range, hash"),
        }
    }
}

/// `plain`, `versioned` or `redis`.
struct KindWord(KeyspaceKind);

impl std::str::FromStr for KindWord {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "plain" => Ok(KindWord(KeyspaceKind::Plain)),
            "versioned" => Ok(KindWord(KeyspaceKind::Versioned)),
            "redis" => Ok(KindWord(KeyspaceKind::Redis)),
            _ => Err("known are plain, versioned, redis"),
        }
    }
}

#[cfg(test)]
mod tests;
