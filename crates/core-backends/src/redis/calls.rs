//! Calls of the Redis door: several commands at a time, transactions, versions of keys, and reads that wait for a change.
//!
//! ```text
//!   Commands, Transaction, Script, Sweep ──▶ apply      the rest, and commands that only read ──▶ query
//! ```
//!
//! Always: a transaction whose watched keys have changed does nothing; nor does a script one of whose commands would reply otherwise than
//! it saw; what is tried changes nothing; commands of a call see what those before them did; a call whose replies or work grow beyond a bound ends after the command that was carried out last, and says so by the
//! number of its replies.
//! Held by: `a_transaction_is_all_or_nothing`, `a_script_does_what_it_saw_or_nothing`, `what_is_tried_changes_nothing`, `commands_of_a_call_see_each_other`,
//! `a_call_ends_where_its_replies_are_too_large`, `a_call_ends_where_it_has_worked_long`.
//! Not here: what a command does.

use super::channels;
use super::overlay::Overlay;
use super::store::{next_sweep, Moment, Store, View};
use super::table::{run_of, Run};
use super::work::{Counted, CountedWrite, Work, COMMAND_WORK_MAX};
use super::{error_of_unknown, reply_of, wrong_count, Done, Fail, Reply};
use crate::contract::{ApplyContext, SpaceRead, SpaceWrite, Upkeep};
use crate::reply::decode_reply;
use base_engine::EngineError;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::redis::{KeyVersion, RedisAnswer, RedisAsk, RedisCall, RedisCommand};
use base_types::{ErrorCode, Refusal, VALUE_BYTES_MAX};
use bytes::Bytes;

/// The most rows that a script changes; beyond it what it tries is refused.
const TRY_ROWS_MAX: usize = 100_000;
/// A call carries out no further command once its replies have so many bytes. With the reply of one command more it fits into a frame
/// between nodes (16 MiB).
pub const CALL_REPLY_BYTES_MAX: usize = 4 << 20;
/// Nor once it has looked at so many rows: other clusters of the core have their turn.
pub(super) const CALL_WORK_MAX: u64 = 100_000;
/// What the replies of a transaction have at most, which cannot end halfway: later replies are replaced by an error.
const TRANSACTION_REPLY_BYTES_MAX: usize = 8 << 20;
/// Where a call's kind of question is among its bytes: after mark, form, time and seed.
const ASK_AT: usize = 18;
/// `RedisAsk::AwaitKeys` and `RedisAsk::Messages`, as bytes.
const WAITING: [u8; 2] = [4, 6];

/// What a call came to: an answer, a refusal of the whole call, or damage.
type Answered = Result<Result<RedisAnswer, Refusal>, EngineError>;

/// Refuses a call that could not be applied.
pub(super) fn validate(call: &RedisCall) -> Result<(), Refusal> {
    call.check()?;
    match call.ask {
        RedisAsk::Commands { .. } | RedisAsk::Transaction { .. } | RedisAsk::Script { .. } | RedisAsk::Sweep => Ok(()),
        _ => Err(Refusal::new(ErrorCode::InvalidRequest, "ERR a call that only reads was sent as a write; query it")),
    }
}

pub(super) fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, call: &RedisCall) -> Answered {
    if let Err(refusal) = validate(call) {
        return Ok(Err(refusal));
    }
    if let RedisAsk::Script { watched, seen, commands } = &call.ask {
        // The same picks as when it was tried.
        let moment = Moment::new(at.cluster_time_ms, call.unix_ms, call.seed);
        return commit(space, &moment, watched, seen, commands);
    }
    // The place in the log: alike on every member, and no other entry's.
    let seed = at.index.0 ^ (u64::from(at.position) << 48) ^ u64::from(at.life.0);
    let moment = Moment::new(at.cluster_time_ms, call.unix_ms, seed);
    let mut counted = CountedWrite::new(space, moment.work.clone());
    let mut store = Store::open(&mut counted, moment)?;
    let answer = match &call.ask {
        RedisAsk::Sweep => return Ok(Ok(RedisAnswer::Swept { keys: store.sweep()? })),
        RedisAsk::Transaction { watched, .. } if changed(&store.view(), watched)? => RedisAnswer::Aborted,
        RedisAsk::Transaction { commands, .. } => {
            RedisAnswer::Replies { replies: run_all(&mut store, commands, Room::whole())? }
        }
        _ => RedisAnswer::Replies { replies: run_all(&mut store, call.commands(), Room::parts())? },
    };
    store.finish()?;
    Ok(Ok(answer))
}

pub(super) fn query(cluster_time_ms: u64, space: &dyn SpaceRead, call: &RedisCall) -> Answered {
    if let Err(refusal) = call.check() {
        return Ok(Err(refusal));
    }
    let moment = Moment::new(cluster_time_ms, call.unix_ms, call.seed);
    let counted = Counted::new(space, moment.work.clone());
    let mut view = View::open(&counted, moment)?;
    Ok(Ok(match &call.ask {
        RedisAsk::Transaction { watched, .. } if changed(&view, watched)? => RedisAnswer::Aborted,
        RedisAsk::Commands { commands } | RedisAsk::Transaction { commands, .. } => {
            let whole = matches!(call.ask, RedisAsk::Transaction { .. });
            let room = if whole { Room::whole() } else { Room::parts() };
            match read_all(&counted, &mut view, commands, room)? {
                Some(replies) => RedisAnswer::Replies { replies },
                None => return Ok(Err(not_a_read())),
            }
        }
        RedisAsk::Versions { keys } | RedisAsk::AwaitKeys { keys } => {
            RedisAnswer::Versions { versions: versions(&mut view, keys)? }
        }
        RedisAsk::Try { watched, seen, commands } => return try_all(space, &mut view, watched, seen, commands),
        RedisAsk::Messages { after } => channels::messages(space, *after)?,
        RedisAsk::Sweep | RedisAsk::Script { .. } => return Ok(Err(not_a_read())),
    }))
}

fn not_a_read() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "ERR a call that writes was sent as a query; propose it")
}

/// A key's version, where the key can be one at all.
fn version(view: &mut View<'_>, key: &KeyVersion) -> Result<u64, EngineError> {
    match view.version_of(key) {
        Ok(version) => Ok(version),
        // A name that is too long: no such key can be there.
        Err(Fail::Redis(_)) => Ok(0),
        Err(Fail::Engine(error)) => Err(error),
    }
}

fn versions(view: &mut View<'_>, keys: &[KeyVersion]) -> Result<Vec<u64>, EngineError> {
    keys.iter().map(|key| version(view, key)).collect()
}

fn changed(view: &View<'_>, watched: &[KeyVersion]) -> Result<bool, EngineError> {
    let mut view = view.again();
    for key in watched {
        if version(&mut view, key)? != key.version && !planted(Mutant::RedisWatchIgnored) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What stops a call from growing without a bound.
struct Room {
    bytes: usize,
    /// The call may end halfway.
    parts: bool,
}

impl Room {
    fn parts() -> Room {
        Room { bytes: 0, parts: true }
    }

    fn whole() -> Room {
        Room { bytes: 0, parts: false }
    }

    /// Whether no further command is carried out.
    fn is_full(&self, work: &Work) -> bool {
        self.parts && (self.bytes > CALL_REPLY_BYTES_MAX || work.done() > CALL_WORK_MAX)
    }

    /// Counts a reply.
    fn admit(&mut self, reply: Reply) -> Reply {
        if !self.parts && self.bytes > TRANSACTION_REPLY_BYTES_MAX {
            return Reply::Error(format!(
                "ERR the command was carried out, but the replies of this transaction have more than {TRANSACTION_REPLY_BYTES_MAX} bytes"
            ));
        }
        self.bytes += size(&reply);
        reply
    }
}

/// About what a reply takes, in bytes.
pub fn size(reply: &Reply) -> usize {
    let all = |items: &[Reply]| items.iter().map(size).sum::<usize>();
    let both = |pairs: &[(Reply, Reply)]| pairs.iter().map(|(left, right)| size(left) + size(right)).sum::<usize>();
    8 + match reply {
        Reply::Bulk(bytes) | Reply::Double(bytes) => bytes.len(),
        Reply::Array(items) | Reply::Set(items) => all(items),
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Streams(pairs) => both(pairs),
        Reply::Error(text) | Reply::Status(text) => text.len(),
        Reply::Ok | Reply::Nil | Reply::NilArray | Reply::Integer(_) => 0,
    }
}

/// What carries a command out, or the error that it is answered with.
fn find(command: &RedisCommand) -> Result<Run, Reply> {
    let spec = command.spec().ok_or_else(|| Reply::Error(error_of_unknown(&command.words)))?;
    let run = run_of(spec).ok_or_else(|| Reply::Error(error_of_unknown(&command.words)))?;
    if !spec.takes(command.words.len()) {
        return Err(Reply::Error(wrong_count(spec.name)));
    }
    // Of this command alone: the others of the call may be other clients'.
    if let Some(word) = command.words.iter().find(|word| word.len() > VALUE_BYTES_MAX) {
        let length = word.len();
        return Err(Reply::Error(format!("ERR a word is {length} bytes long; at most {VALUE_BYTES_MAX} are taken")));
    }
    Ok(run)
}

fn run_all(store: &mut Store<'_>, commands: &[RedisCommand], mut room: Room) -> Result<Vec<Reply>, EngineError> {
    let mut replies = Vec::with_capacity(commands.len());
    for command in commands {
        if room.is_full(&store.moment.work) {
            break;
        }
        store.select(command.database);
        let reply = run_one(store, command)?;
        replies.push(room.admit(reply));
    }
    Ok(replies)
}

/// Runs a command in the database that is selected.
pub(super) fn run_one(store: &mut Store<'_>, command: &RedisCommand) -> Result<Reply, EngineError> {
    Ok(match find(command) {
        Err(reply) => reply,
        Ok(Run::Read(run)) => {
            let view = store.view();
            let counted = Counted::over_counted(view.space, view.moment.work.clone());
            let view = view.through(&counted);
            read_one(&counted, || run(&view, &command.words))?
        }
        Ok(Run::Write(run)) => reply_of(run(store, &command.words))?,
    })
}

/// `None`: one of them writes.
fn read_all(
    space: &Counted<'_>,
    view: &mut View<'_>,
    commands: &[RedisCommand],
    mut room: Room,
) -> Result<Option<Vec<Reply>>, EngineError> {
    let mut replies = Vec::with_capacity(commands.len());
    for command in commands {
        if room.is_full(&view.moment.work) {
            break;
        }
        view.select(command.database);
        let reply = match find(command) {
            Err(reply) => reply,
            Ok(Run::Read(run)) => read_one(space, || run(view, &command.words))?,
            Ok(Run::Write(_)) => return Ok(None),
        };
        replies.push(room.admit(reply));
    }
    Ok(Some(replies))
}

/// Runs a command that reads, within what one may look at.
pub(super) fn read_one(space: &Counted<'_>, run: impl FnOnce() -> Done) -> Result<Reply, EngineError> {
    space.begin();
    let reply = reply_of(run())?;
    Ok(match space.was_cut() {
        true => Reply::Error(format!(
            "ERR the command looks at more than {COMMAND_WORK_MAX} rows; ask for a part (SCAN, COUNT, LIMIT)"
        )),
        false => reply,
    })
}

/// Whether commands reply what a script saw of them.
fn as_seen(replies: &[Reply], seen: &[u64]) -> bool {
    replies.len() >= seen.len() && replies.iter().zip(seen).all(|(reply, seen)| reply.digest() == *seen)
}

/// What a script has done, on an overlay. `None`: it would see something else.
fn replay<'s>(
    space: &'s dyn SpaceRead,
    moment: &Moment,
    watched: &[KeyVersion],
    seen: &[u64],
    commands: &[RedisCommand],
) -> Result<Option<(Overlay<'s>, Vec<Reply>)>, EngineError> {
    if changed(&View::open(space, moment.clone())?, watched)? {
        return Ok(None);
    }
    let mut overlay = Overlay::new(space);
    let mut counted = CountedWrite::new(&mut overlay, moment.work.clone());
    let mut store = Store::open(&mut counted, moment.clone())?;
    let replies = run_all(&mut store, commands, Room::whole())?;
    store.finish()?;
    Ok(as_seen(&replies, seen).then_some((overlay, replies)))
}

fn commit(
    space: &mut dyn SpaceWrite,
    moment: &Moment,
    watched: &[KeyVersion],
    seen: &[u64],
    commands: &[RedisCommand],
) -> Answered {
    let Some((overlay, replies)) = replay(space, moment, watched, seen, commands)? else {
        return Ok(Ok(RedisAnswer::Aborted));
    };
    for (key, row) in overlay.into_changes() {
        match row {
            Some(row) => space.put(key, row),
            None => space.delete(key),
        }
    }
    Ok(Ok(RedisAnswer::Replies { replies }))
}

fn try_all(
    space: &dyn SpaceRead,
    view: &mut View<'_>,
    watched: &[KeyVersion],
    seen: &[u64],
    commands: &[RedisCommand],
) -> Answered {
    let mut keys: Vec<KeyVersion> = Vec::new();
    for command in commands.iter().skip(seen.len()) {
        for key in command.keys() {
            if !keys.iter().any(|known| known.database == command.database && known.key == *key) {
                keys.push(KeyVersion { database: command.database, key: key.clone(), version: 0 });
            }
        }
    }
    for key in &mut keys {
        key.version = version(view, key)?;
    }
    let Some((overlay, mut replies)) = replay(space, &view.moment, watched, seen, commands)? else {
        return Ok(Ok(RedisAnswer::Aborted));
    };
    if overlay.rows() > TRY_ROWS_MAX {
        let message = format!("ERR the script changes more than {TRY_ROWS_MAX} rows");
        return Ok(Err(Refusal::new(ErrorCode::InvalidRequest, message)));
    }
    Ok(Ok(RedisAnswer::Tried { replies: replies.split_off(seen.len()), keys }))
}

/// Whether a query may wait. Plain words begin with their number, which is not zero.
pub(super) fn waits(query: &Bytes) -> bool {
    RedisCall::is_call(query) && query.get(ASK_AT).is_some_and(|ask| WAITING.contains(ask))
}

/// The same question once more, where nothing has changed yet.
pub(super) fn next_query(query: &Bytes, reply: &Bytes) -> Option<Bytes> {
    let call = RedisCall::from_bytes(query.clone()).ok()?;
    let answer = decode_reply::<RedisAnswer>(reply.clone()).ok()?;
    if let (true, RedisAnswer::Messages { reached: after, .. }) = (planted(Mutant::RedisMessageSkipped), &answer) {
        return Some(RedisCall { ask: RedisAsk::Messages { after: *after }, ..call }.to_bytes());
    }
    let nothing_yet = match (&call.ask, &answer) {
        (RedisAsk::AwaitKeys { keys }, RedisAnswer::Versions { versions }) => {
            keys.iter().map(|key| key.version).eq(versions.iter().copied()) || planted(Mutant::RedisBlockedForgotten)
        }
        // Who asks where the end is does not wait.
        (RedisAsk::Messages { after }, RedisAnswer::Messages { messages, lost, .. }) => {
            messages.is_empty() && !lost && *after != u64::MAX
        }
        _ => false,
    };
    nothing_yet.then(|| query.clone())
}

/// What a leader proposes: a sweep of what has expired, and of what is left of keys that are gone.
pub(super) fn upkeep(space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
    let command = || RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Sweep }.to_bytes();
    Ok(next_sweep(space)?.map(|at_ms| Upkeep { at_ms, command: command() }))
}

#[cfg(test)]
mod tests;
