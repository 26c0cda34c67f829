//! Plain keyspaces as databases of strings: what a command asks of its keyspace (core-backends, redis/plain.rs), as actions of the client's own.
//!
//! ```text
//!   RedisCall of commands ─▶ each a PlainCommand ─▶ KvGet, KvPut, KvCompareAndSet, … as the caller ─▶ replies
//! ```
//! Always: commands of a call that share a key are carried out one after the other, in their order.
//! What a call holds at a time is bounded: values of `AT_A_TIME` keys, and of one command at most `REPLY_BYTES_MAX`; a call whose replies are
//! larger ends after the commands that were carried out, and says so by the number of its replies.
//! Held by: `commands_that_share_a_key_wait_for_each_other`, `few_keys_are_read_at_a_time`.
//! By design: commands of one call on different keys run side by side, as on the nodes of a Redis Cluster. What a change reads is read strongly,
//! and its compare-and-set is strong at least: what it replies was so. JSON clients' rights (`kv/KEYSPACE`) are asked for, key by key.
//! Not here: what a command does; which keyspaces are plain (database.rs).

use super::database::NodeDatabase;
use base_types::action::{Action, ActionResult, BatchStep, KvTarget, Request};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{ErrorCode, ReadConsistency, Refusal, WriteConsistency, SCAN_LIMIT_MAX};
use bytes::Bytes;
use core_backends::redis::{reply_bytes, PlainAnswer, PlainAsk, PlainCommand, CALL_REPLY_BYTES_MAX, REPLY_BYTES_MAX};
use door_redis::{of_refusal, Levels, Session};
use futures::stream::{self, StreamExt};
use std::collections::BTreeSet;

/// Actions of one command, and commands of one call, that are under way at a time.
const AT_A_TIME: usize = 64;

impl NodeDatabase {
    /// Carries a call out on a plain keyspace.
    pub(super) async fn on_plain(
        &self,
        session: &Session,
        call: RedisCall,
        levels: Levels,
    ) -> Result<RedisAnswer, Refusal> {
        let RedisCall { unix_ms, seed, ask } = call;
        let RedisAsk::Commands { commands } = ask else { return Err(not_plain(&session.keyspace)) };
        let (mut replies, mut bytes) = (Vec::with_capacity(commands.len()), 0);
        let mut rest = commands.into_iter().peekable();
        while rest.peek().is_some() && bytes <= CALL_REPLY_BYTES_MAX {
            let apart = next_apart(&mut rest);
            let carried = apart.into_iter().map(|command| self.carry_out(session, command, (unix_ms, seed), levels));
            let more = stream::iter(carried).buffered(AT_A_TIME).collect::<Vec<_>>().await;
            bytes += more.iter().map(reply_bytes).sum::<usize>();
            replies.extend(more);
        }
        Ok(RedisAnswer::Replies { replies })
    }

    async fn carry_out(
        &self,
        session: &Session,
        command: RedisCommand,
        (unix_ms, seed): (u64, u64),
        levels: Levels,
    ) -> RedisReply {
        let writes = command.writes();
        let (mut command, mut ask) = PlainCommand::begin(command, unix_ms, seed);
        loop {
            let answer = match ask {
                PlainAsk::Done(reply) => return reply,
                ask => self.answer(session, ask, levels, writes).await,
            };
            match answer {
                Ok(answer) => ask = command.next(answer),
                Err(refusal) => {
                    if refusal.code == ErrorCode::InvalidKeyspace {
                        self.kinds.forget(&session.keyspace);
                    }
                    return of_refusal(&refusal, writes);
                }
            }
        }
    }

    async fn answer(
        &self,
        session: &Session,
        ask: PlainAsk,
        levels: Levels,
        writes: bool,
    ) -> Result<PlainAnswer, Refusal> {
        let target = KvTarget::Keyspace(session.keyspace.clone());
        let at_least_strong = levels.write.max(WriteConsistency::Strong);
        Ok(match ask {
            PlainAsk::Get(keys) => {
                let level = if writes { ReadConsistency::Strong } else { levels.read };
                let gets = keys.into_iter().map(|key| self.get(session, key, level));
                let (mut gets, mut values, mut bytes) = (stream::iter(gets).buffered(AT_A_TIME), Vec::new(), 0);
                while let Some(value) = gets.next().await {
                    let value: Option<Bytes> = value?;
                    bytes += value.as_ref().map_or(0, Bytes::len);
                    if bytes > REPLY_BYTES_MAX {
                        return Err(too_large());
                    }
                    values.push(value);
                }
                PlainAnswer::Values(values)
            }
            PlainAsk::Put { key, value } => {
                self.write(session, Action::KvPut { target, key, value }, levels.write).await?;
                PlainAnswer::Done
            }
            PlainAsk::PutAll(pairs) => {
                let steps = pairs.into_iter().map(|(key, value)| BatchStep::Put { key, value }).collect();
                match self.write(session, Action::KvBatch { target, steps }, levels.write).await {
                    Err(refusal) if refusal.code == ErrorCode::BatchCrossesClusters => PlainAnswer::Crosses,
                    done => done.map(|_| PlainAnswer::Done)?,
                }
            }
            PlainAsk::Delete(key) => {
                match self.write(session, Action::KvDelete { target, key }, at_least_strong).await? {
                    ActionResult::Deleted { existed } => PlainAnswer::Deleted(existed),
                    _ => return Err(unexpected()),
                }
            }
            PlainAsk::Swap { key, expected, value } => {
                let action = Action::KvCompareAndSet { target, key, expected, value };
                match self.write(session, action, at_least_strong).await {
                    Err(refusal) if refusal.code == ErrorCode::ConditionFailed => PlainAnswer::Swapped(false),
                    done => done.map(|_| PlainAnswer::Swapped(true))?,
                }
            }
            PlainAsk::Keys { after } => self.keys(session, after, levels.read).await?,
            PlainAsk::Done(_) => return Err(unexpected()),
        })
    }

    async fn get(&self, session: &Session, key: Bytes, level: ReadConsistency) -> Result<Option<Bytes>, Refusal> {
        let target = KvTarget::Keyspace(session.keyspace.clone());
        match self.read(session, Action::KvGet { target, key }, level).await? {
            ActionResult::Value { value } => Ok(value),
            _ => Err(unexpected()),
        }
    }

    async fn keys(
        &self,
        session: &Session,
        after: Option<Bytes>,
        level: ReadConsistency,
    ) -> Result<PlainAnswer, Refusal> {
        let target = KvTarget::Keyspace(session.keyspace.clone());
        let (prefix, limit) = (Bytes::new(), SCAN_LIMIT_MAX);
        let scan =
            Action::KvScan { target, prefix, start_after: after, end: None, limit, reverse: false, keys_only: true };
        match self.read(session, scan, level).await? {
            ActionResult::Page { entries, next } => {
                let keys = entries.into_iter().map(|(key, _)| key).collect();
                Ok(PlainAnswer::Keys { keys, more: next.is_some() })
            }
            _ => Err(unexpected()),
        }
    }

    async fn read(&self, session: &Session, action: Action, level: ReadConsistency) -> Result<ActionResult, Refusal> {
        let request =
            Request { read_consistency: Some(level), ..super::database::request(action, session.caller.clone()) };
        self.ask(request, false).await.map(|answer| answer.result)
    }

    async fn write(&self, session: &Session, action: Action, level: WriteConsistency) -> Result<ActionResult, Refusal> {
        let request = Request { consistency: Some(level), ..super::database::request(action, session.caller.clone()) };
        self.ask(request, true).await.map(|answer| answer.result)
    }
}

/// The next commands that share no key; one without keys (KEYS) stands alone.
fn next_apart(rest: &mut std::iter::Peekable<std::vec::IntoIter<RedisCommand>>) -> Vec<RedisCommand> {
    let (mut apart, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(command) = rest.peek().filter(|_| seen.len() < AT_A_TIME) {
        let keys: Vec<Bytes> = command.keys().into_iter().cloned().collect();
        if !apart.is_empty() && (keys.is_empty() || keys.iter().any(|key| seen.contains(key))) {
            break;
        }
        let alone = keys.is_empty();
        seen.extend(keys);
        apart.extend(rest.next());
        if alone {
            break;
        }
    }
    apart
}

fn not_plain(keyspace: &str) -> Refusal {
    let message = format!(
        "ERR keyspace '{keyspace}' is plain: MULTI, WATCH, scripts, clients that wait and channels need one with kind=redis; see docs/guides/redis.md"
    );
    Refusal::new(ErrorCode::InvalidKeyspace, message)
}

fn too_large() -> Refusal {
    let message = format!("ERR the values have more than {REPLY_BYTES_MAX} bytes together; name fewer keys");
    Refusal::new(ErrorCode::InvalidRequest, message)
}

fn unexpected() -> Refusal {
    Refusal::new(ErrorCode::Internal, "an action of a plain keyspace was answered by something else; report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_are_read_at_a_time() {
        let command = |number: usize| RedisCommand {
            database: 0,
            words: vec![Bytes::from_static(b"GET"), Bytes::from(format!("k{number}"))],
        };
        let mut rest = (0..1_000).map(command).collect::<Vec<_>>().into_iter().peekable();
        assert_eq!(next_apart(&mut rest).len(), AT_A_TIME);
    }

    #[test]
    fn commands_that_share_a_key_wait_for_each_other() {
        let command = |line: &str| RedisCommand {
            database: 0,
            words: line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect(),
        };
        let lines = ["SET a 1", "SET b 1", "MGET b c", "INCR a", "KEYS *", "GET z"];
        let mut rest = lines.map(command).to_vec().into_iter().peekable();
        let mut groups = Vec::new();
        while rest.peek().is_some() {
            groups.push(next_apart(&mut rest).len());
        }
        assert_eq!(groups, [2, 2, 1, 1]);
    }
}
