//! Deletes of many keys by one command, of which each is done once, whatever company it comes in.
//!
//! ```text
//!   DeleteEach {a, b, c}   a is remembered ─▶ its old outcome
//!                          b, c are not    ─▶ deleted, and remembered like deletes of their own
//! ```
//!
//! Always: a retry groups its keys otherwise when they have moved to other shards. So each key's own id is remembered,
//! and splits and merges carry it along (mutant `DeletesOfManyForgotten`; `memory/tests.rs`). Where one key of the rest is refused, the whole rest is.
//! Not here: how long ids are remembered (core-cluster, request_ids.rs), who makes them (core-s3, objects/delete_many.rs).

use super::command::DELETE_EACH;
use super::{Command, Deleted, Reply};
use crate::contract::{decode, ApplyContext, SpaceWrite};
use crate::memory::{About, Carried};
use crate::reply::{decode_reply, encode_reply, is_redirect};
use base_engine::EngineError;
use base_types::codec::Encode as _;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, Refusal, RequestId};
use bytes::Bytes;

/// What became of one key.
type Outcome = Result<Deleted, Refusal>;

/// As [`super::apply`], but keys that were deleted before under the id they have are not deleted once more.
pub(crate) fn apply(
    at: ApplyContext,
    space: &mut dyn SpaceWrite,
    command: &Bytes,
    known: &dyn Fn(RequestId) -> Option<Bytes>,
) -> Result<Bytes, EngineError> {
    let Some((command_of_all, ids)) = read(command) else { return super::apply(at, space, command) };
    let mut outcomes: Vec<Option<Outcome>> = ids.iter().map(|id| known(*id).map(outcome_of)).collect();
    if outcomes.iter().all(Option::is_none) || planted(Mutant::DeletesOfManyForgotten) {
        return super::apply(at, space, command);
    }
    let left = |place: &usize| outcomes[*place].is_none();
    let places: Vec<usize> = (0..ids.len()).filter(left).collect();
    if !places.is_empty() {
        let reply = super::apply(at, space, &only(command_of_all, &places).to_bytes())?;
        match decode_reply::<Reply>(reply.clone()) {
            Ok(Reply::DeletedMany { outcomes: now }) if now.len() == places.len() => {
                places.into_iter().zip(now).for_each(|(place, outcome)| outcomes[place] = Some(outcome));
            }
            _ => return Ok(reply),
        }
    }
    let outcomes = outcomes.into_iter().flatten().collect();
    Ok(encode_reply(&Ok(Reply::DeletedMany { outcomes })))
}

/// What is remembered of a command that was carried out: each key as if it had been deleted alone.
pub(crate) fn remembered(command: &Bytes, reply: &Bytes, keep_ms: u64) -> Vec<Carried> {
    let Some((Command::DeleteEach { steps, .. }, ids)) = read(command) else { return Vec::new() };
    let Ok(Reply::DeletedMany { outcomes }) = decode_reply(reply.clone()) else { return Vec::new() };
    let replies = outcomes.into_iter().map(|outcome| encode_reply(&outcome.map(|deleted| Reply::Deleted { deleted })));
    let each = ids.into_iter().zip(steps).zip(replies).filter(|(_, reply)| !is_redirect(reply));
    each.map(|((id, step), reply)| Carried { id, keep_ms, about: About::object(&step.key), reply }).collect()
}

/// The command and the ids of its keys, if it is one of these; told from the first byte for all others.
fn read(command: &Bytes) -> Option<(Command, Vec<RequestId>)> {
    command.first().filter(|first| **first == DELETE_EACH)?;
    let command: Command = decode("shard command", command).ok()?;
    let Command::DeleteEach { steps, ids, .. } = &command else { return None };
    let ids: Vec<RequestId> = ids.iter().copied().map(RequestId).collect();
    (ids.len() == steps.len()).then_some((command, ids))
}

/// The command of these keys alone.
fn only(command: Command, places: &[usize]) -> Command {
    match command {
        Command::DeleteEach { terms, steps, ids } => Command::DeleteEach {
            terms,
            steps: places.iter().map(|place| steps[*place].clone()).collect(),
            ids: places.iter().map(|place| ids[*place]).collect(),
        },
        other => other,
    }
}

fn outcome_of(reply: Bytes) -> Outcome {
    match decode_reply(reply)? {
        Reply::Deleted { deleted } => Ok(deleted),
        _ => Err(Refusal::new(ErrorCode::Internal, "what is remembered of a delete is no delete's answer")),
    }
}
