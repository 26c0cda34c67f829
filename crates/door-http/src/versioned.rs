//! The calls on keys with versions in JSON: `KvTransaction`, `KvHistory`, leases, pins, and `KvGet` and `KvScan` with `at`.
//!
//! Always: a field that is not known is refused by name, in conditions and operations too (`tests::wrong_fields_are_named`); every list
//! and depth has the backend's own bound.
//! Not here: what a call means (core-backends, versioned/), `KvWatch`, which is a stream (edge-node).

use crate::fields::Fields;
use crate::json::{boolean, clip, field, list, optional, write_bytes_field, write_number, Value};
use crate::keys::{check_key, check_value, target};
use base_types::action::{Action, KvTarget};
use base_types::versioned::{
    Change, Check, Command, Committed, Condition, Info, LeaseInfo, Operation, Outcome, Page, Pair, Position, Put,
    Query, Read, Relation, Reply, Row, Span, Transaction, VersionedCall, COLLECT_ROWS_MAX, COMMIT_OPERATIONS_MAX,
    LEASES_A_COMMAND_MAX, LEASE_KEYS_A_STEP_MAX, LEASE_TTL_MS_MAX, NESTING_MAX, PIN_KEEP_MS_MAX,
};
use base_types::{ErrorCode, Refusal, SCAN_LIMIT_DEFAULT, SCAN_LIMIT_MAX};
use bytes::Bytes;

/// What [`crate::answer_name`] calls a read of one key.
pub(crate) const ONE_KEY: &str = "KvGet at";
/// The same of a read of several.
pub(crate) const MANY_KEYS: &str = "KvScan at";

/// Where a `KvWatch` begins that says nothing: with what is changed from now on. No commit has this stamp.
pub const WATCH_FROM_NOW: Position = Position { stamp: u64::MAX, sub: u32::MAX };

/// The fields that say which keys are meant.
const SPAN: [&str; 8] = ["key", "key_base64", "prefix", "prefix_base64", "start", "start_base64", "end", "end_base64"];

/// Reads the call of this name.
pub(crate) fn action(name: &str, body: &Bytes, fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let target = target(fields)?;
    let call = Box::new(call(name, body, fields)?);
    Ok(Action::Versioned { target, call })
}

fn call(name: &str, body: &Bytes, fields: &mut Fields<'_>) -> Result<VersionedCall, Refusal> {
    Ok(match name {
        "KvHistory" => VersionedCall::Ask(Query::Changes {
            span: span(fields)?.unwrap_or(Span::From { start: Bytes::new() }),
            after: fields.text("since")?.map(|text| position(&text)).transpose()?.unwrap_or_default(),
            limit: limit(fields)?,
            before: fields.flag("before")?,
            pin: fields.number("pin", 0, u64::MAX)?.unwrap_or(0),
        }),
        "KvWatch" => VersionedCall::Ask(Query::Await {
            span: span(fields)?.unwrap_or(Span::From { start: Bytes::new() }),
            after: fields.text("since")?.map(|text| position(&text)).transpose()?.unwrap_or(WATCH_FROM_NOW),
            limit: SCAN_LIMIT_DEFAULT,
            before: fields.flag("before")?,
            pin: 0,
        }),
        "KvDescribe" => VersionedCall::Ask(Query::Describe),
        "KvStampAt" => VersionedCall::Ask(Query::StampAt { time_ms: fields.number_needed("time_ms", 0, u64::MAX)? }),
        "KvLease" => VersionedCall::Ask(Query::Lease {
            lease: lease(fields)?,
            keys_after: fields.bytes("start_after", "start_after_base64")?,
            limit: limit(fields)?,
        }),
        "KvLeases" => VersionedCall::Ask(Query::Leases {
            after: fields.number("start_after", 0, u64::MAX)?.unwrap_or(0),
            limit: limit(fields)?,
        }),
        _ => VersionedCall::Change(command(name, body, fields)?),
    })
}

fn command(name: &str, body: &Bytes, fields: &mut Fields<'_>) -> Result<Command, Refusal> {
    Ok(match name {
        "KvTransaction" => Command::Commit { transaction: transaction(body, fields, 1)? },
        "KvCompact" => Command::Compact { stamp: fields.number_needed("stamp", 1, u64::MAX)? },
        "KvCollect" => {
            let limit = fields.number("limit", 1, u64::from(COLLECT_ROWS_MAX))?;
            Command::Collect { limit: limit.map_or(COLLECT_ROWS_MAX, |limit| limit as u32) }
        }
        "KvPin" => Command::Pin {
            pin: fields.number_needed("pin", 1, u64::MAX)?,
            stamp: fields.number("stamp", 0, u64::MAX)?.unwrap_or(0),
            keep_ms: fields.number_needed("keep_ms", 1, PIN_KEEP_MS_MAX)?,
        },
        "KvUnpin" => Command::Unpin { pin: fields.number_needed("pin", 1, u64::MAX)? },
        "KvLeaseGrant" => {
            Command::LeaseGrant { lease: lease(fields)?, ttl_ms: fields.number_needed("ttl_ms", 1, LEASE_TTL_MS_MAX)? }
        }
        "KvLeaseKeepAlive" => Command::LeaseKeepAlive { leases: leases(fields)? },
        "KvLeaseRevoke" => Command::LeaseRevoke { lease: lease(fields)?, limit: LEASE_KEYS_A_STEP_MAX },
        other => return Err(Refusal::new(ErrorCode::Internal, format!("action {other} is listed but has no parser"))),
    })
}

fn lease(fields: &mut Fields<'_>) -> Result<u64, Refusal> {
    fields.number_needed("lease", 1, u64::MAX)
}

fn leases(fields: &mut Fields<'_>) -> Result<Vec<u64>, Refusal> {
    let items = fields.list_of("leases")?.unwrap_or_default();
    if items.is_empty() || items.len() > LEASES_A_COMMAND_MAX {
        let message = format!("'leases' has {} numbers; give 1 to {LEASES_A_COMMAND_MAX}", items.len());
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    let number = |item: Value<'_>| match item {
        Value::Unsigned(number) if number > 0 => Ok(number),
        other => Err(invalid(format!("'leases' has {}; give numbers from 1", other.kind()))),
    };
    items.into_iter().map(number).collect()
}

fn limit(fields: &mut Fields<'_>) -> Result<u32, Refusal> {
    Ok(fields.number("limit", 1, u64::from(SCAN_LIMIT_MAX))?.map_or(SCAN_LIMIT_DEFAULT, |limit| limit as u32))
}

fn invalid(message: String) -> Refusal {
    Refusal::new(ErrorCode::InvalidField, message)
}

/// `STAMP` (after all of its changes) or `STAMP.NUMBER` (after that one).
fn position(text: &str) -> Result<Position, Refusal> {
    let wrong = || invalid(format!("since '{}' is not STAMP or STAMP.NUMBER; take 'reached' of an answer", clip(text)));
    let (stamp, sub) = match text.split_once('.') {
        Some((stamp, sub)) => (stamp, Some(sub)),
        None => (text, None),
    };
    let stamp = stamp.parse().map_err(|_| wrong())?;
    let sub = sub.map_or(Ok(u32::MAX), str::parse).map_err(|_| wrong())?;
    Ok(Position { stamp, sub })
}

/// `key`, `prefix`, or `start` and `end`; `None`: none of them is given.
fn span(fields: &mut Fields<'_>) -> Result<Option<Span>, Refusal> {
    let key = fields.bytes("key", "key_base64")?;
    let prefix = fields.bytes("prefix", "prefix_base64")?;
    let start = fields.bytes("start", "start_base64")?;
    let end = fields.bytes("end", "end_base64")?;
    match (key, prefix, start, end) {
        (None, None, None, None) => Ok(None),
        (Some(key), None, None, None) => Ok(Some(Span::One { key: check_key(key)? })),
        (None, Some(prefix), None, None) => Ok(Some(of_prefix(prefix))),
        (None, None, start, None) => Ok(Some(Span::From { start: start.unwrap_or_default() })),
        (None, None, start, Some(end)) => Ok(Some(Span::Range { start: start.unwrap_or_default(), end })),
        _ => Err(invalid("several of 'key', 'prefix' and 'start' with 'end' are given; give one".into())),
    }
}

fn span_needed(fields: &mut Fields<'_>, what: &str) -> Result<Span, Refusal> {
    span(fields)?.ok_or_else(|| {
        Refusal::new(
            ErrorCode::MissingField,
            format!("{what} names no keys; give 'key', 'prefix', or 'start' and 'end'"),
        )
    })
}

/// All keys that begin so.
pub(crate) fn of_prefix(prefix: Bytes) -> Span {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Span::Range { start: prefix, end: end.into() }
        }
        None => Span::From { start: prefix },
    }
}

/// Keys that begin with `prefix`, after one and before another.
pub(crate) fn span_of(prefix: Bytes, after: Option<Bytes>, end: Option<Bytes>) -> Span {
    let (start, bound) = match of_prefix(prefix) {
        Span::Range { start, end } => (start, Some(end)),
        Span::From { start } | Span::One { key: start } => (start, None),
    };
    let start = after.map_or(start.clone(), |after| start.max(Bytes::from([after.as_ref(), &[0]].concat())));
    match (bound, end) {
        (None, None) => Span::From { start },
        (Some(end), None) | (None, Some(end)) => Span::Range { start, end },
        (Some(one), Some(other)) => Span::Range { start, end: one.min(other) },
    }
}

/// A `KvGet` with `at`.
pub(crate) fn get_at(target: KvTarget, key: Bytes, at: u64) -> Action {
    read_at(target, Read { span: Span::One { key }, at, ..Read::all() }, 0)
}

/// A read at a stamp, which a pin lets lie below what was compacted: a `KvScan` with `at`.
pub(crate) fn read_at(target: KvTarget, read: Read, pin: u64) -> Action {
    Action::Versioned { target, call: Box::new(VersionedCall::Ask(Query::Read { read, pin })) }
}

/// What a call is named where its answer is written.
pub(crate) fn answer_name(call: &VersionedCall) -> &'static str {
    match call {
        VersionedCall::Ask(Query::Read { read: Read { span: Span::One { .. }, .. }, .. }) => ONE_KEY,
        VersionedCall::Ask(Query::Read { .. }) => MANY_KEYS,
        other => other.name(),
    }
}

fn transaction(body: &Bytes, fields: &mut Fields<'_>, depth: usize) -> Result<Transaction, Refusal> {
    if depth > NESTING_MAX {
        return Err(invalid(format!("transactions lie deeper than {NESTING_MAX} in each other; send a flatter one")));
    }
    let mut items = |name: &str| -> Result<Vec<Value<'_>>, Refusal> {
        let items = fields.list_of(name)?.unwrap_or_default();
        if items.len() > COMMIT_OPERATIONS_MAX {
            let message = format!("'{name}' has {} items; give at most {COMMIT_OPERATIONS_MAX}", items.len());
            return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
        }
        Ok(items)
    };
    let (conditions, then, otherwise) = (items("conditions")?, items("then")?, items("else")?);
    let steps = |name: &str, items: Vec<Value<'_>>| -> Result<Vec<Operation>, Refusal> {
        items.into_iter().enumerate().map(|(at, item)| operation(body, format!("{name} {at}"), item, depth)).collect()
    };
    let conditions = conditions.into_iter().enumerate().map(|(at, item)| condition(body, at, item));
    Ok(Transaction {
        conditions: conditions.collect::<Result<_, _>>()?,
        then: steps("then", then)?,
        otherwise: steps("else", otherwise)?,
    })
}

/// What a condition may compare, beside the keys.
const COMPARED: [&str; 9] =
    ["is", "version", "created", "modified", "lease", "value", "value_base64", "exists", "unchanged_since"];

fn condition(body: &Bytes, at: usize, item: Value<'_>) -> Result<Condition, Refusal> {
    let what = format!("condition {at}");
    let mut fields = Fields::new(body, what.clone(), item)?;
    fields.only(&SPAN, &COMPARED)?;
    let span = span_needed(&mut fields, &what)?;
    let is = fields.text("is")?.map(|text| relation(&what, &text)).transpose()?;
    let relation = is.unwrap_or(Relation::Equal);
    let mut checks = Vec::new();
    let mut number = |name: &str| fields.number(name, 0, u64::MAX);
    if let Some(number) = number("version")? {
        checks.push(Check::Version { relation, number });
    }
    if let Some(stamp) = number("created")? {
        checks.push(Check::Created { relation, stamp });
    }
    if let Some(stamp) = number("modified")? {
        checks.push(Check::Modified { relation, stamp });
    }
    if let Some(lease) = number("lease")? {
        checks.push(Check::Lease { relation, lease });
    }
    if let Some(stamp) = number("unchanged_since")? {
        checks.push(Check::UnchangedSince { stamp });
    }
    if let Some(value) = fields.bytes("value", "value_base64")? {
        checks.push(Check::Value { relation, value: check_value(value)? });
    }
    match fields.boolean("exists")? {
        Some(true) => checks.push(Check::Version { relation: Relation::Greater, number: 0 }),
        Some(false) => checks.push(Check::Version { relation: Relation::Equal, number: 0 }),
        None => {}
    }
    let (Some(check), true) = (checks.pop(), checks.is_empty()) else {
        let names = "version, created, modified, lease, value, exists, unchanged_since";
        return Err(invalid(format!("{what} compares nothing, or several things; give one of {names}")));
    };
    Ok(Condition { span, check })
}

fn relation(what: &str, text: &str) -> Result<Relation, Refusal> {
    Ok(match text {
        "=" => Relation::Equal,
        "!=" => Relation::NotEqual,
        "<" => Relation::Less,
        ">" => Relation::Greater,
        _ => return Err(invalid(format!("{what}: 'is' is '{}'; known are =, !=, <, >", clip(text)))),
    })
}

/// The fields of each operation, beside `op`.
const PUT: [&str; 9] =
    ["op", "key", "key_base64", "value", "value_base64", "lease", "previous", "keep_value", "keep_lease"];
const READ: [&str; 6] = ["op", "at", "limit", "keys_only", "count", "count_only"];

fn operation(body: &Bytes, what: String, item: Value<'_>, depth: usize) -> Result<Operation, Refusal> {
    let mut fields = Fields::new(body, what.clone(), item)?;
    let op = fields.text_needed("op")?.into_owned();
    match op.as_str() {
        "put" => {
            fields.only(&PUT, &[])?;
            put(&mut fields)
        }
        "delete" => {
            fields.only(&SPAN, &["op", "previous"])?;
            let span = span_needed(&mut fields, &what)?;
            Ok(Operation::Delete { span, previous: fields.flag("previous")? })
        }
        "read" => {
            fields.only(&SPAN, &READ)?;
            let span = span_needed(&mut fields, &what)?;
            Ok(Operation::Read(Read {
                span,
                at: fields.number("at", 0, u64::MAX)?.unwrap_or(0),
                limit: limit(&mut fields)?,
                keys_only: fields.flag("keys_only")?,
                count: fields.flag("count")?,
                count_only: fields.flag("count_only")?,
                filter: Default::default(),
            }))
        }
        "transaction" => {
            fields.only(&["op", "conditions", "then", "else"], &[])?;
            transaction(body, &mut fields, depth + 1).map(Operation::Nested)
        }
        other => Err(invalid(format!("{what} has the op '{}'; known are put, delete, read, transaction", clip(other)))),
    }
}

fn put(fields: &mut Fields<'_>) -> Result<Operation, Refusal> {
    let key = check_key(fields.bytes_needed("key", "key_base64")?)?;
    let keep_value = fields.flag("keep_value")?;
    let value = match keep_value {
        true => fields.bytes("value", "value_base64")?.unwrap_or_default(),
        false => fields.bytes_needed("value", "value_base64")?,
    };
    Ok(Operation::Put(Put {
        key,
        value: check_value(value)?,
        lease: fields.number("lease", 0, u64::MAX)?.unwrap_or(0),
        previous: fields.flag("previous")?,
        keep_value,
        keep_lease: fields.flag("keep_lease")?,
    }))
}

/// Writes a reply's fields, each with a comma before it. `action`: what [`answer_name`] said.
pub(crate) fn write_reply(action: &str, reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Committed { stamp, changes, committed } => {
            number(out, "stamp", *stamp);
            number(out, "changes", *changes);
            write_committed(committed, out);
        }
        Reply::Done { stamp } => number(out, "stamp", *stamp),
        Reply::Collected { rows, more } => {
            number(out, "rows", *rows);
            flag(out, "more", *more);
        }
        Reply::Pinned { stamp, until_ms } => {
            number(out, "stamp", *stamp);
            number(out, "until_ms", *until_ms);
        }
        Reply::Granted { lease, ttl_ms } => {
            number(out, "lease", *lease);
            number(out, "ttl_ms", *ttl_ms);
        }
        Reply::Kept { ttls_ms } => field(out, "ttls_ms", |out| list(ttls_ms, out, |ttl, out| write_number(*ttl, out))),
        Reply::Ended { stamp, leases, keys, more } => {
            number(out, "stamp", *stamp);
            field(out, "leases", |out| list(leases, out, |lease, out| write_number(*lease, out)));
            number(out, "keys", *keys);
            flag(out, "more", *more);
        }
        Reply::Page { stamp, page } => {
            number(out, "stamp", *stamp);
            match action {
                ONE_KEY => write_one(page.rows.first(), out),
                _ => write_page(page, out),
            }
        }
        Reply::Changes { changes, reached, more } => {
            field(out, "changes", |out| list(changes, out, write_change));
            field(out, "reached", |out| write_position(*reached, out));
            flag(out, "more", *more);
        }
        Reply::Info { info } => write_info(info, out),
        Reply::Lease { lease, keys, more } => {
            field(out, "lease", |out| optional(lease.as_ref(), out, write_lease));
            field(out, "keys", |out| list(keys, out, |key, out| object(out, |out| write_bytes_field("key", key, out))));
            flag(out, "more", *more);
        }
        Reply::Leases { leases, more } => {
            field(out, "leases", |out| list(leases, out, write_lease));
            flag(out, "more", *more);
        }
    }
}

fn number(out: &mut Vec<u8>, name: &str, value: impl itoa::Integer) {
    field(out, name, |out| write_number(value, out));
}

fn flag(out: &mut Vec<u8>, name: &str, value: bool) {
    field(out, name, |out| boolean(value, out));
}

fn object(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'{');
    fields(out);
    out.push(b'}');
}

fn write_one(pair: Option<&Pair>, out: &mut Vec<u8>) {
    match pair {
        Some(pair) => {
            out.extend_from_slice(b",\"found\":true,");
            write_row(&pair.row, out);
        }
        None => out.extend_from_slice(b",\"found\":false,\"value\":null"),
    }
}

fn write_row(row: &Row, out: &mut Vec<u8>) {
    write_bytes_field("value", &row.value, out);
    number(out, "created", row.created);
    number(out, "modified", row.modified);
    number(out, "version", row.version);
    number(out, "lease", row.lease);
}

fn write_pair(pair: &Pair, out: &mut Vec<u8>) {
    object(out, |out| {
        write_bytes_field("key", &pair.key, out);
        out.push(b',');
        write_row(&pair.row, out);
    });
}

fn write_page(page: &Page, out: &mut Vec<u8>) {
    field(out, "entries", |out| list(&page.rows, out, write_pair));
    number(out, "count", page.count);
    out.push(b',');
    match &page.next {
        Some(_) => match page.rows.last() {
            // As of a scan: the next page starts after the last key of this one.
            Some(last) => write_bytes_field("next", &last.key, out),
            None => out.extend_from_slice(b"\"next\":null"),
        },
        None => out.extend_from_slice(b"\"next\":null"),
    }
}

fn write_committed(committed: &Committed, out: &mut Vec<u8>) {
    flag(out, "succeeded", committed.succeeded);
    field(out, "results", |out| list(&committed.results, out, write_outcome));
}

fn write_outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    let named = |op: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"op\":\"");
        out.extend_from_slice(op);
        out.push(b'"');
    };
    match outcome {
        Outcome::Put { previous } => {
            named(b"put", out);
            field(out, "previous", |out| {
                optional(previous.as_ref(), out, |row, out| object(out, |out| write_row(row, out)))
            });
        }
        Outcome::Deleted { count, previous } => {
            named(b"delete", out);
            number(out, "count", *count);
            field(out, "previous", |out| list(previous, out, write_pair));
        }
        Outcome::Page(page) => {
            named(b"read", out);
            write_page(page, out);
        }
        Outcome::Nested(committed) => {
            named(b"transaction", out);
            write_committed(committed, out);
        }
    }
    out.push(b'}');
}

/// `"STAMP.NUMBER"`: text, for it is one thing to hand back. After all of a stamp's changes: `"STAMP"`.
fn write_position(at: Position, out: &mut Vec<u8>) {
    out.push(b'"');
    write_number(at.stamp, out);
    if at.sub != u32::MAX {
        out.push(b'.');
        write_number(at.sub, out);
    }
    out.push(b'"');
}

/// Writes where a `KvWatch` stands, as an object.
pub fn write_reached(reached: Position, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"reached\":");
    write_position(reached, out);
    out.push(b'}');
}

/// Writes a change as an object: in `KvHistory`, and a line of `KvWatch`.
pub fn write_change(change: &Change, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"at\":");
    write_position(change.at, out);
    number(out, "time_ms", change.time_ms);
    out.push(b',');
    write_bytes_field("key", &change.key, out);
    match &change.after {
        Some(row) => {
            out.push(b',');
            write_row(row, out);
        }
        None => out.extend_from_slice(b",\"deleted\":true"),
    }
    if let Some(row) = &change.before {
        field(out, "before", |out| object(out, |out| write_row(row, out)));
    }
    out.push(b'}');
}

fn write_info(info: &Info, out: &mut Vec<u8>) {
    number(out, "stamp", info.stamp);
    number(out, "closed", info.closed);
    number(out, "compacted", info.compacted);
    number(out, "horizon", info.horizon);
    number(out, "keys", info.keys);
    number(out, "leases", info.leases);
    number(out, "pins", info.pins);
    flag(out, "garbage", info.garbage);
    flag(out, "due", info.due);
    number(out, "due_ms", info.due_ms);
}

fn write_lease(info: &LeaseInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"lease\":");
    write_number(info.lease, out);
    number(out, "ttl_ms", info.ttl_ms);
    number(out, "left_ms", info.left_ms);
    out.push(b'}');
}

#[cfg(test)]
mod tests;
