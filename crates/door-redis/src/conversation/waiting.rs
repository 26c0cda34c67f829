//! Commands that wait for a key: BLPOP and its like, XREAD and XREADGROUP with BLOCK.
//!
//! ```text
//!   try ─ nothing ─▶ versions of the keys ─▶ try ─ nothing ─▶ AwaitKeys ─ changed ─▶ versions, try, …     until the time is over
//! ```
//! Always: what comes between a try and the wait is not missed, for the versions are those from before the try; a client that goes away
//! waits no more; the time that it gives is kept.
//! Held by: `a_blocked_client_gets_what_comes`, `a_blocked_client_that_leaves_takes_nothing`, `time_runs_out`.
//! Not here: who is first (`blocked.rs`).

use super::{Conversation, Ended};
use crate::blocked::Ticket;
use crate::clients::Unblock;
use crate::error::{error, of_refusal};
use crate::limits::COMMAND_BYTES_MAX;
use crate::request::Words;
use base_types::redis::{CommandSpec, KeyVersion, RedisAnswer, RedisAsk, RedisReply};
use bytes::Bytes;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

/// The pause after a question that was refused, before the next.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest that a client may name; longer is without an end.
const TIMEOUT_S_MAX: f64 = 1e9;

/// What ended a wait.
enum Woken {
    /// A key may have changed, or it is this client's turn.
    Changed,
    TimeOver,
    Unblocked(Unblock),
    Gone,
}

/// Whether XREAD or XREADGROUP are to wait.
pub(super) fn has_block(words: &Words) -> bool {
    words
        .iter()
        .take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"))
        .any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
}

/// How long, and the answer when it is over. `Err`: the command is wrong, which the database will say.
fn patience(spec: &CommandSpec, words: &Words) -> Result<(Option<Duration>, RedisReply), ()> {
    let at = match spec.name {
        "blmpop" | "bzmpop" => 1,
        "xread" | "xreadgroup" => {
            let block = words.iter().position(|word| word.eq_ignore_ascii_case(b"BLOCK")).ok_or(())?;
            let ms = words.get(block + 1).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
            let ms = ms.ok_or(())?;
            return Ok(((ms > 0).then(|| Duration::from_millis(ms)), RedisReply::NilArray));
        }
        _ => words.len().checked_sub(1).ok_or(())?,
    };
    let seconds = words.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0).ok_or(())?;
    let nothing = if matches!(spec.name, "blmove" | "brpoplpush") { RedisReply::Nil } else { RedisReply::NilArray };
    let limited = seconds > 0.0 && seconds < TIMEOUT_S_MAX;
    Ok((limited.then(|| Duration::from_secs_f64(seconds)), nothing))
}

/// Where a command takes from.
fn sources(spec: &CommandSpec, words: &Words) -> Vec<Bytes> {
    let keys: Vec<Bytes> = spec.keys_of(words).into_iter().cloned().collect();
    if matches!(spec.name, "blmove" | "brpoplpush") {
        keys.into_iter().take(1).collect()
    } else {
        keys
    }
}

/// Whether a command takes away what it gives.
fn takes(spec: &CommandSpec) -> bool {
    spec.name != "xread"
}

/// The same command, of these keys only.
fn with_keys(spec: &CommandSpec, words: &Words, keys: &[Bytes]) -> Words {
    let mut out = Words::new();
    match spec.name {
        "blpop" | "brpop" | "bzpopmin" | "bzpopmax" => {
            out.extend(words.first().cloned());
            out.extend(keys.iter().cloned());
            out.extend(words.last().cloned());
        }
        "blmpop" | "bzmpop" => {
            out.extend(words.iter().take(2).cloned());
            out.push(Bytes::from(keys.len().to_string()));
            out.extend(keys.iter().cloned());
            out.extend(words.iter().skip(3 + sources(spec, words).len()).cloned());
        }
        _ => out.clone_from(words),
    }
    out
}

fn is_nothing(reply: &RedisReply) -> bool {
    matches!(reply, RedisReply::Nil | RedisReply::NilArray)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    /// Carries out a command that may wait; gives its reply.
    pub(super) async fn wait(&mut self, spec: &'static CommandSpec, words: Words) -> Result<RedisReply, Ended> {
        let Some(session) = self.connection.session() else { return Err(Ended) };
        let words = self.resolve_ends(spec, words).await;
        let keys = sources(spec, &words);
        let Some(ticket) =
            self.connection.door.blocked.enter(&session.keyspace, self.connection.client.database, &keys)
        else {
            return Ok(error("ERR too many clients wait for keys here"));
        };
        // Who comes later does not overtake those that wait.
        let first = !takes(spec) || keys.iter().all(|key| ticket.is_first(key));
        if first || patience(spec, &words).is_err() {
            let reply = self.connection.submit_one(words.clone()).await;
            if !is_nothing(&reply) {
                return Ok(reply);
            }
        }
        let Ok((patience, nothing)) = patience(spec, &words) else { return Ok(RedisReply::NilArray) };
        let shown = self.connection.client.entry.shown.clone();
        shown.blocked.set(true);
        let until = patience.map(|patience| Instant::now() + patience);
        let waited = self.wait_for(spec, &words, &keys, &ticket, until).await;
        shown.blocked.set(false);
        shown.unblock.set(None);
        Ok(match waited? {
            Ok(reply) => reply,
            Err(Unblock::Timeout) => nothing,
            Err(Unblock::Error) => error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        })
    }

    async fn wait_for(
        &mut self,
        spec: &'static CommandSpec,
        words: &Words,
        keys: &[Bytes],
        ticket: &Ticket,
        until: Option<Instant>,
    ) -> Result<Result<RedisReply, Unblock>, Ended> {
        loop {
            let own: Vec<Bytes> = keys.iter().filter(|key| !takes(spec) || ticket.is_first(key)).cloned().collect();
            let mut seen = self.versions(&own);
            if !own.is_empty() {
                match self.connection.call(RedisAsk::Versions { keys: seen.clone() }).await {
                    Ok(RedisAnswer::Versions { versions }) => {
                        seen.iter_mut().zip(versions).for_each(|(key, version)| key.version = version);
                        let reply = self.connection.submit_one(with_keys(spec, words, &own)).await;
                        if !is_nothing(&reply) {
                            return Ok(Ok(reply));
                        }
                    }
                    Ok(_) => return Ok(Ok(error("ERR versions were answered by something else; report it"))),
                    // The next question may be answered.
                    Err(refusal) if refusal.code.kind().retryable() => tokio::time::sleep(PAUSE).await,
                    Err(refusal) => return Ok(Ok(of_refusal(&refusal, false))),
                }
            }
            match self.until_changed(seen, ticket, until).await {
                Woken::Changed => {}
                Woken::TimeOver => return Ok(Err(Unblock::Timeout)),
                Woken::Unblocked(how) => return Ok(Err(how)),
                Woken::Gone => return Err(Ended),
            }
        }
    }

    fn versions(&self, keys: &[Bytes]) -> Vec<KeyVersion> {
        let database = self.connection.client.database;
        keys.iter().map(|key| KeyVersion { database, key: key.clone(), version: 0 }).collect()
    }

    /// Until one of the keys has another version, or it is this client's turn, or the wait is over.
    async fn until_changed(&mut self, seen: Vec<KeyVersion>, ticket: &Ticket, until: Option<Instant>) -> Woken {
        let (door, session, levels) =
            (self.connection.door.clone(), self.connection.session(), self.connection.client.levels);
        let shown = self.connection.client.entry.shown.clone();
        let change = async move {
            let Some(session) = session.filter(|_| !seen.is_empty()) else { return std::future::pending().await };
            loop {
                let ask = RedisAsk::AwaitKeys { keys: seen.clone() };
                let call = base_types::redis::RedisCall { unix_ms: door.database.unix_ms(), seed: 0, ask };
                match door.database.call(&session, call, levels).await {
                    Ok(RedisAnswer::Versions { versions })
                        if seen.iter().map(|key| key.version).eq(versions.iter().copied()) => {}
                    Ok(_) => return,
                    Err(_) => return tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let end = async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(change, end);
        loop {
            let room = self.parser.held() < COMMAND_BYTES_MAX;
            self.parser.make_room();
            tokio::select! {
                biased;
                () = shown.wake.notified() => match shown.unblock.take() {
                    Some(how) => return Woken::Unblocked(how),
                    None if shown.killed.get() => return Woken::Gone,
                    None => {}
                },
                read = self.stream.read_buf(self.parser.buffer()), if room => match read {
                    Ok(0) | Err(_) => return Woken::Gone,
                    Ok(_) => {}
                },
                () = &mut change => return Woken::Changed,
                () = ticket.turn.notified() => return Woken::Changed,
                () = &mut end => return Woken::TimeOver,
            }
        }
    }

    /// `$` of XREAD is the end of the stream when the client asked, not when the next try is made.
    async fn resolve_ends(&self, spec: &CommandSpec, mut words: Words) -> Words {
        let streams = words.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"));
        let (Some(streams), "xread") = (streams, spec.name) else { return words };
        let count = (words.len() - streams - 1) / 2;
        for at in streams + 1..streams + 1 + count {
            let is_end = words.get(at + count).is_some_and(|id| &id[..] == b"$");
            let (Some(key), true) = (words.get(at).cloned(), is_end) else { continue };
            let info = self
                .connection
                .submit_one(vec![Bytes::from_static(b"XINFO"), Bytes::from_static(b"STREAM"), key])
                .await;
            if let Some(id) = words.get_mut(at + count) {
                *id = last_id(&info).unwrap_or(Bytes::from_static(b"0-0"));
            }
        }
        words
    }
}

/// The last id of a stream, out of what XINFO says.
fn last_id(info: &RedisReply) -> Option<Bytes> {
    let RedisReply::Map(pairs) = info else { return None };
    let is_last = |name: &RedisReply| matches!(name, RedisReply::Bulk(name) if &name[..] == b"last-generated-id");
    pairs.iter().find(|(name, _)| is_last(name)).and_then(|(_, id)| match id {
        RedisReply::Bulk(id) => Some(id.clone()),
        _ => None,
    })
}
