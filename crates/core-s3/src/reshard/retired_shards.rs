//! Retired shards of a bucket, removed one after the other: their rows, their clusters, then their names in the map.
//!
//! ```text
//!   Retired ─▶ Describe ─▶ freed data handed on ─▶ Drop … Drop ─▶ cluster deleted ─▶ Forget ─▶ the next
//!                               └─ too young, or a snapshot reads it: the next; a later run comes back to it
//! ```
//!
//! Always: rows go in small steps, since the deletion of a cluster removes its whole space at once; a run may be cut short
//! or come twice. On its own, so that looks, which find the flows, do not wait for it: behind a burst of splits there may be hundreds.
//! Held by: `shards_split_and_merge_whatever_becomes_of_answers_and_runners`.
//! Not here: who begins it and when (core-node, s3_scheduler.rs), which shards are retired (core-backends, shard_reference.rs).

use crate::buckets::garbage::{HandOn, Queue};
use crate::clusters;
use crate::request::{ended, map_read, map_write, odd, reply, shard_ask, shard_tell};
use crate::reshard::runner::seen;
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::ErrorCode;
use core_backends::shard;
use core_backends::shard_reference::flow::Seen;
use core_backends::shard_reference::{Command, Query, Reply, Retired};
use core_flow::rounds::{one, only, InRounds, Rounds};
use core_flow::{Call, CallResult, Step};

/// Retired shards asked for at a time.
const PAGE: u32 = 16;
/// Rows removed by one command.
const STEP_ROWS: u32 = 1_024;
/// Rounds of one run; what is left the next one finds.
const ROUNDS_MAX: u32 = 10_000;

/// One run over a bucket's retired shards.
pub fn remove_retired(id: u128) -> Box<S3Planner> {
    Box::new(InRounds::new(Tidy { id, retired: Vec::new(), reached: 0, more: true, state: State::List, rounds: 0 }))
}

enum State {
    List,
    Describe(Retired),
    /// Freed data of it.
    Drain(Retired, HandOn),
    Drop(Retired),
    Delete(Retired),
    Forget,
}

struct Tidy {
    id: u128,
    /// Those that are left of the page, the next last.
    retired: Vec<Retired>,
    /// Behind which shard the next page begins, and whether there may be one.
    reached: u64,
    more: bool,
    state: State,
    rounds: u32,
}

impl Rounds<S3State> for Tidy {
    fn name(&self) -> &'static str {
        "removal of a bucket's retired shards"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return ended();
        }
        self.step(context, answers).unwrap_or_else(|failure| Step::Done(Err(failure)))
    }
}

impl Tidy {
    fn step(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            return self.next_retired();
        }
        match core::mem::replace(&mut self.state, State::List) {
            State::List => {
                let (Reply::Retired { shards, more }, _) = reply(only(answers))? else {
                    return Err(odd("a bucket's map"));
                };
                self.reached = shards.iter().map(|retired| retired.peer.shard).max().unwrap_or(self.reached);
                (self.retired, self.more) = (shards, more);
                self.retired.reverse();
                self.next_retired()
            }
            State::Describe(retired) => self.described(context, retired, only(answers)),
            State::Drain(retired, hand_on) => self.drain(context, retired, hand_on, answers),
            State::Drop(retired) => self.dropped(retired, only(answers)),
            State::Delete(retired) => match only(answers) {
                Err(failure) if failure.refusal.code != ErrorCode::UnknownCluster => Err(failure),
                _ => {
                    self.state = State::Forget;
                    Ok(one(map_write(self.id, &Command::Forget { shard: retired.peer.shard })?))
                }
            },
            State::Forget => {
                let _: (Reply, _) = reply(only(answers))?;
                self.next_retired()
            }
        }
    }

    fn next_retired(&mut self) -> Result<Step, Failure> {
        if let Some(retired) = self.retired.pop() {
            let call = shard_ask(self.id, retired.peer.shard, &shard::Query::Describe)?;
            self.state = State::Describe(retired);
            return Ok(one(call));
        }
        if !core::mem::take(&mut self.more) {
            return Ok(ended());
        }
        self.state = State::List;
        Ok(one(map_read(self.id, &Query::Retired { after: self.reached, limit: PAGE })?))
    }

    fn described(
        &mut self,
        context: &mut PlanContext<'_>,
        retired: Retired,
        answer: CallResult,
    ) -> Result<Step, Failure> {
        match seen(answer)? {
            Seen::Shard(info) if info.freed_rows > 0 => {
                let hand_on = HandOn::new(self.id, Queue::Shard(retired.peer.shard), context.state.config.freed_age_ms);
                self.drain(context, retired, hand_on, Vec::new())
            }
            Seen::Shard(_) => self.drop_rows(retired),
            Seen::Empty | Seen::NoCluster => self.delete(retired),
        }
    }

    fn drain(
        &mut self,
        context: &mut PlanContext<'_>,
        retired: Retired,
        mut hand_on: HandOn,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        match hand_on.next(context, answers)? {
            Some(calls) => {
                self.state = State::Drain(retired, hand_on);
                Ok(Step::Calls(calls))
            }
            None => self.drop_rows(retired),
        }
    }

    fn drop_rows(&mut self, retired: Retired) -> Result<Step, Failure> {
        let command = shard::Command::Drop { epoch: retired.peer.epoch, limit: STEP_ROWS, force: false };
        let call: Call = shard_tell(self.id, retired.peer.shard, &command)?;
        self.state = State::Drop(retired);
        Ok(one(call))
    }

    fn dropped(&mut self, retired: Retired, answer: CallResult) -> Result<Step, Failure> {
        match reply(answer) {
            Ok((shard::Reply::Dropped { more: true }, _)) => self.drop_rows(retired),
            Ok(_) => self.delete(retired),
            // Snapshots still read it, or freed data in it is too young.
            Err(failure) if matches!(failure.refusal.code, ErrorCode::NotReady | ErrorCode::NotInState) => {
                self.next_retired()
            }
            Err(failure) => Err(failure),
        }
    }

    fn delete(&mut self, retired: Retired) -> Result<Step, Failure> {
        let cluster = clusters::shard(self.id, retired.peer.shard)?;
        self.state = State::Delete(retired);
        // A shard's number is given once, so there is no later life to spare.
        Ok(one(Call::DeleteCluster { cluster, life: None }))
    }
}
