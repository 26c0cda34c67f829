//! Carrying out a reshard: one partition after the other, while clients read and write.
//!
//! The next step of each move follows from what the two clusters say (`decide`). So a runner that crashed, or a second
//! one beside it, continues where the clusters are:
//!
//!   new owner: PrepareImport ─▶ old owner: BeginMove ─▶ pages copied ─▶ changed keys copied, again and
//!   again until few ─▶ old owner: Freeze ─▶ last changed keys ─▶ old owner: Handover (only if nothing
//!   changed since) ─▶ new owner: Activate ─▶ document: owner and epoch ─▶ old owner: Release
//!
//! What the old owner remembers of requests on the partition is copied too: once before the freeze, and the rest
//! between Handover and Activate, when nothing more can be applied there. Each runner does so itself, from the
//! beginning (bringing an id twice is harmless), so nothing is kept of how far it came.
//!
//! Always: the old owner has given the partition up before the new one takes it, so at no moment do two
//! serve it; `Handover` is refused if one change was not copied; a client's retry finds what its request came to
//! wherever the partition is; clients see at most `PartitionMoving`
//! between Freeze and Handover, and `WrongPartition` until the document is switched.
//! Held by: `a_reshard_survives_lost_answers_and_late_commands`, `a_freeze_holds_until_its_lease_and_a_write_then_bars_the_handover`, `a_quiet_reshard_hardly_shows`.
//! Not here: the plan (`reshard.rs`), what each command does to a cluster (core-backends, metadata).

use crate::clusters::{
    create_clusters, delete_clusters, first_failure, lives_seen, look_at_lives, Lives, CLUSTERS_AT_A_TIME, TRIES_MAX,
};
use crate::document::{cluster_name, Document, KeyspaceState, Move, MovePhase};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::unknown_keyspace;
use crate::store;
use base_types::action::{ActionResult, Failure};
use base_types::invariant::Broken;
use base_types::mutant::{planted, Mutant};
use base_types::{holds, ErrorCode, ReadConsistency, Refusal};
use bytes::Bytes;
use core_backends::memory::{in_commands, MemoryPage};
use core_backends::metadata::{
    Command, ImportCursor, PartitionInfo, PartitionState, Query, Reply, Scope, FREEZE_LEASE_MS_MAX,
    MOVE_PAGE_BYTES_MAX, MOVE_PAIRS_MAX,
};
use core_flow::rounds::{answer, is_passing, one, only, pause, refuse, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// How many changed keys may be left when the partition is frozen: what copying them takes is what
/// a writer waits.
const DIRTY_SMALL: usize = if cfg!(test) { 2 } else { 64 };
/// Rounds of changed keys after which it is frozen however many are left.
const DIRTY_ROUNDS_MAX: u32 = 50;
/// How long the first freeze may last; each further try doubles it up to `FREEZE_LEASE_MS_MAX`.
const FREEZE_LEASE_MS: u32 = 1_000;
/// Pairs removed at a time after a move.
const RELEASE_PAIRS: u32 = if cfg!(test) { 7 } else { 1_000 };
/// Bytes copied at a time. (Tests cut everything small, so that each page has a next one.)
const PAGE_BYTES: u32 = if cfg!(test) { 64 } else { MOVE_PAGE_BYTES_MAX as u32 };
/// Changed keys copied at a time.
const CHANGES: u32 = if cfg!(test) { 3 } else { MOVE_PAIRS_MAX as u32 };

/// Carries out the reshard that a keyspace's document describes; done when there is none. Answers with the keyspace. It
/// runs in the background, without a deadline.
pub struct ReshardRun(InRounds<Run>);
planner_in_rounds!(ReshardRun, InRounds<Run>);

impl ReshardRun {
    /// By name.
    pub fn new(keyspace: String) -> ReshardRun {
        ReshardRun(InRounds::new(Run {
            keyspace,
            version: 0,
            document: None,
            asked: Asked::Document,
            old: None,
            new: None,
            dirty_rounds: 0,
            freeze_now: false,
            freezes: 0,
            memory: 0,
            memory_early: false,
            memory_whole: false,
            tries: 0,
        }))
    }
}

/// What the round that is out has asked for.
enum Asked {
    Document,
    /// Clusters from this number on.
    Create(u16),
    Remove(u16),
    /// Which lives the clusters from this number on have that are to be removed.
    Lives(u16),
    /// Whether the document has stayed the same since.
    Same(u16, Lives),
    /// Writing this document.
    Write(Box<Document>),
    /// As `Write`, and then end with the failure.
    GiveUp(Box<Document>, Failure),
    /// Where the partition stands at the old and the new owner.
    States,
    /// A command to the old owner.
    Old,
    /// A command to the new owner.
    New,
    /// A page of pairs for the new owner.
    Page(ImportCursor),
    /// A page of changed keys.
    Changes(ImportCursor),
    /// What the old owner remembers of requests.
    Memory,
    /// The new owner remembering it, up to this index of the old owner's log; `more`: there is another page.
    Bring {
        reached: u64,
        more: bool,
    },
    /// The removal of what was moved.
    Release,
    /// The removal of what an earlier, broken move left at the new owner.
    Sweep,
}

struct Run {
    keyspace: String,
    version: u64,
    document: Option<Document>,
    asked: Asked,
    /// Where the partition on the move stands at the old owner, and at the new one; forgotten after
    /// every failure, and then asked for.
    old: Option<Option<PartitionInfo>>,
    new: Option<Option<PartitionInfo>>,
    dirty_rounds: u32,
    /// Few changed keys are left (or it has been tried often enough).
    freeze_now: bool,
    freezes: u32,
    /// Up to which index of the old owner's log the new one remembers requests.
    memory: u64,
    /// The memory was copied to its end since the freeze was due, and since the old owner gave the partition up.
    memory_early: bool,
    memory_whole: bool,
    tries: u32,
}

/// The next step of a move.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    ToOld(Command),
    ToNew(Command),
    Sweep(Scope),
    Export(ImportCursor),
    Changes(ImportCursor),
    Switch {
        keys: u64,
    },
    Impossible(&'static str),
    /// To be retried.
    Unclear(&'static str),
}

/// What a move needs next, by what its two clusters say and nothing else.
fn decide(
    step: &Move,
    old: Option<&PartitionInfo>,
    new: Option<&PartitionInfo>,
    lease_ms: u32,
    freeze_now: bool,
) -> Next {
    use PartitionState::*;
    let old_scope = Scope { partition: step.partition, epoch: step.epoch };
    let new_scope = Scope { epoch: step.epoch + 1, ..old_scope };
    let new = match new {
        Some(info) if info.scope.epoch == new_scope.epoch && info.state.serves() => {
            return Next::Switch { keys: info.keys }
        }
        Some(info) if info.state == Dropping => return Next::Sweep(info.scope),
        Some(info) if info.state == Importing && info.scope != new_scope => {
            return Next::ToNew(Command::AbortImport { scope: info.scope })
        }
        Some(info) if info.state == Importing => info,
        Some(info) if info.state != Released => return Next::Impossible("the new owner serves another epoch of it"),
        _ => return Next::ToNew(Command::PrepareImport { scope: new_scope }),
    };
    let Some(old) = old.filter(|info| info.scope == old_scope) else {
        return Next::Impossible("the old owner does not know its epoch");
    };
    match old.state {
        Importing => Next::Impossible("the old owner has not got it yet"),
        Dropping | Released if !new.cursor.copied => {
            // Another runner came between the two answers, or it is lost: never taken for served from nothing.
            Next::Unclear("the old owner has given it up, and the new one does not have it whole")
        }
        Dropping | Released => Next::ToNew(Command::Activate { scope: new_scope }),
        Owned => Next::ToOld(Command::BeginMove { scope: old_scope }),
        Moving | Frozen if !new.cursor.copied => Next::Export(new.cursor.clone()),
        Frozen if planted(Mutant::MoveLosesDirty) => {
            Next::ToOld(Command::Handover { scope: old_scope, dirty: old.dirty })
        }
        Frozen if old.dirty == new.cursor.dirty => {
            Next::ToOld(Command::Handover { scope: old_scope, dirty: new.cursor.dirty })
        }
        Moving if freeze_now && planted(Mutant::MoveWithoutFreeze) => {
            Next::ToOld(Command::Handover { scope: old_scope, dirty: new.cursor.dirty })
        }
        Moving if freeze_now => Next::ToOld(Command::Freeze { scope: old_scope, lease_ms }),
        Moving | Frozen => Next::Changes(new.cursor.clone()),
    }
}

impl Rounds<KeyspaceNews> for Run {
    fn name(&self) -> &'static str {
        "reshard"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("keyspace {}", self.keyspace))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        let asked = core::mem::replace(&mut self.asked, Asked::Document);
        if answers.is_empty() {
            return one(store::read_document(&self.keyspace));
        }
        match self.heard(context, asked, answers) {
            Ok(step) => step,
            Err(failure) => self.again(context, failure),
        }
    }

    fn check_invariants(&self) -> Result<(), Broken> {
        let known = self.old.is_some() || self.new.is_some();
        holds!(!known || self.document.is_some(), "a reshard knows where a partition stands, and not which");
        holds!(self.tries <= TRIES_MAX, "a reshard has tried {} times", self.tries);
        Ok(())
    }
}

impl Run {
    /// Whatever went wrong: forget what was known, pause, begin with the document.
    fn again(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> Step {
        self.tries += 1;
        (self.old, self.new, self.document) = (None, None, None);
        let may_pass = is_passing(&failure) || store::is_conflict(&failure);
        if !may_pass || self.tries > TRIES_MAX {
            return Step::Done(Err(failure));
        }
        pause(context, self.tries)
    }

    fn heard(
        &mut self,
        context: &mut PlanContext<'_>,
        asked: Asked,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        match asked {
            Asked::Document => match store::document_read(context, &self.keyspace, only(answers))? {
                None => Ok(refuse(unknown_keyspace(&self.keyspace))),
                Some((version, document)) => self.begin(version, document),
            },
            Asked::Create(first) => match first_failure(answers, ErrorCode::ClusterExists) {
                None => self.prepare(first.saturating_add(CLUSTERS_AT_A_TIME)),
                Some(failure) if is_passing(&failure) => Err(failure),
                Some(failure) => self.give_up(failure),
            },
            Asked::Remove(first) => match first_failure(answers, ErrorCode::UnknownCluster) {
                None => self.finish(first.saturating_add(CLUSTERS_AT_A_TIME)),
                Some(failure) => Err(failure),
            },
            Asked::Lives(first) => {
                self.asked = Asked::Same(first, lives_seen(answers)?);
                Ok(one(store::read_document(&self.keyspace)))
            }
            Asked::Same(first, lives) => match store::document_read(context, &self.keyspace, only(answers))? {
                None => Ok(refuse(unknown_keyspace(&self.keyspace))),
                Some((version, _)) if version == self.version => match delete_clusters(lives) {
                    None => self.finish(first.saturating_add(CLUSTERS_AT_A_TIME)),
                    Some(step) => {
                        self.asked = Asked::Remove(first);
                        Ok(step)
                    }
                },
                Some((version, document)) => self.begin(version, document),
            },
            Asked::Write(document) => {
                let version = store::document_written(context, &document, only(answers))?;
                self.tries = 0;
                self.begin(version, *document)
            }
            Asked::GiveUp(document, reason) => {
                store::document_written(context, &document, only(answers))?;
                Ok(Step::Done(Err(reason)))
            }
            Asked::States => {
                let mut answers = answers.into_iter();
                let mut state = || match store::backend_reply(answers.next().unwrap_or_else(|| only(Vec::new())))? {
                    Reply::Partitions(mut list) => Ok(list.pop()),
                    other => Err(odd(&other)),
                };
                (self.old, self.new) = (Some(state()?), Some(state()?));
                self.go_on()
            }
            Asked::Old => {
                self.old = Some(Some(partition_reply(only(answers))?));
                self.go_on()
            }
            Asked::New => {
                self.new = Some(Some(partition_reply(only(answers))?));
                self.go_on()
            }
            Asked::Page(cursor) => match store::backend_reply(only(answers))? {
                Reply::Export { pairs, more } => self.import_page(cursor, pairs, more),
                other => Err(odd(&other)),
            },
            Asked::Changes(cursor) => match store::backend_reply(only(answers))? {
                Reply::Dirty { pairs, reached, more } => self.import_changes(cursor, pairs, reached, more),
                other => Err(odd(&other)),
            },
            Asked::Memory => match store::backend_reply(only(answers))? {
                Reply::Remembered(page) => self.bring(page),
                other => Err(odd(&other)),
            },
            Asked::Bring { reached, more } => {
                for result in answers {
                    partition_reply(result)?;
                }
                self.brought(reached, more)
            }
            Asked::Release => self.released(only(answers)),
            Asked::Sweep => {
                let _: Reply = store::backend_reply(only(answers))?;
                self.new = None;
                self.go_on()
            }
        }
    }

    /// With a fresh document: what is left to do?
    fn begin(&mut self, version: u64, document: Document) -> Result<Step, Failure> {
        self.version = version;
        (self.old, self.new) = (None, None);
        (self.dirty_rounds, self.freeze_now, self.freezes) = (0, false, 0);
        (self.memory, self.memory_early, self.memory_whole) = (0, false, false);
        let Some(reshard) = document.reshard.clone().filter(|_| document.state == KeyspaceState::Ready) else {
            return Ok(document.info().map_or_else(refuse, |info| answer(ActionResult::Keyspace(info), None)));
        };
        let clusters = document.clusters;
        self.document = Some(document);
        if !reshard.prepared {
            return self.prepare(clusters);
        }
        match reshard.moves.first() {
            None => self.finish(reshard.target),
            Some(first) if first.phase == MovePhase::Waiting => self.write(start_next),
            Some(first) if first.phase == MovePhase::Releasing && first.from >= reshard.target => {
                // The whole cluster goes in the end, and its pairs with it.
                self.write(end_first)
            }
            Some(first) if first.phase == MovePhase::Releasing => self.release(*first),
            Some(_) => self.go_on(),
        }
    }

    fn known(&self) -> Result<&Document, Failure> {
        self.document.as_ref().ok_or_else(|| {
            Failure::from(Refusal::new(ErrorCode::NotReady, "the keyspace's document is to be read again"))
        })
    }

    /// Changes the document by compare-and-set.
    fn write(&mut self, change: impl FnOnce(&mut Document)) -> Result<Step, Failure> {
        let mut document = self.known()?.clone();
        change(&mut document);
        let call = store::write_document(&document, Some(self.version));
        self.asked = Asked::Write(Box::new(document));
        Ok(one(call))
    }

    /// Makes the clusters that are missing, from number `first` on.
    fn prepare(&mut self, first: u16) -> Result<Step, Failure> {
        let document = self.known()?;
        let target = document.reshard.as_ref().map_or(0, |reshard| reshard.target);
        if first < target {
            let step = create_clusters(document, first, target);
            self.asked = Asked::Create(first);
            return Ok(step);
        }
        self.write(|document| {
            document.clusters = document.clusters_most();
            if let Some(reshard) = &mut document.reshard {
                reshard.prepared = true;
            }
        })
    }

    /// The clusters cannot be made: nothing has moved yet, so the reshard is called off. What was made
    /// of them stays empty and unused, and is taken up by the next try.
    fn give_up(&mut self, reason: Failure) -> Result<Step, Failure> {
        let mut document = self.known()?.clone();
        document.reshard = None;
        let call = store::write_document(&document, Some(self.version));
        self.asked = Asked::GiveUp(Box::new(document), reason);
        Ok(one(call))
    }

    /// All is moved: removes the clusters that are left over, then the reshard from the document. Only lives seen
    /// while the document still says so: another runner may be through, and a later reshard have made them anew.
    fn finish(&mut self, first: u16) -> Result<Step, Failure> {
        let document = self.known()?;
        let target = document.reshard.as_ref().map_or(document.clusters, |reshard| reshard.target);
        if first < document.clusters {
            let step = look_at_lives(document, first, document.clusters);
            self.asked = Asked::Lives(first);
            return Ok(step);
        }
        self.write(|document| {
            document.clusters = target;
            document.reshard = None;
        })
    }

    fn first_move(&self) -> Result<Move, Failure> {
        let first = self.known()?.reshard.as_ref().and_then(|reshard| reshard.moves.first().copied());
        first.ok_or_else(|| Failure::from(Refusal::new(ErrorCode::NotReady, "no partition is moving any more")))
    }

    /// The next step of the move under way.
    fn go_on(&mut self) -> Result<Step, Failure> {
        let step = self.first_move()?;
        let (from, to) = (cluster_name(&self.keyspace, step.from)?, cluster_name(&self.keyspace, step.to)?);
        let (Some(old), Some(new)) = (&self.old, &self.new) else {
            self.asked = Asked::States;
            let query = Query::Partition { partition: step.partition };
            let strong = Some(ReadConsistency::Strong);
            return Ok(Step::Calls(vec![
                store::metadata_read(from, &query, strong),
                store::metadata_read(to, &query, strong),
            ]));
        };
        let lease_ms = FREEZE_LEASE_MS.saturating_mul(1 << self.freezes.min(8)).min(FREEZE_LEASE_MS_MAX);
        let scope = Scope { partition: step.partition, epoch: step.epoch };
        let strong = Some(ReadConsistency::Strong);
        Ok(match decide(&step, old.as_ref(), new.as_ref(), lease_ms, self.freeze_now) {
            Next::ToOld(Command::Freeze { .. }) if !self.memory_early => return self.ask_memory(step),
            Next::ToNew(Command::Activate { .. }) if !self.memory_whole => return self.ask_memory(step),
            Next::ToOld(command) => {
                if matches!(command, Command::Freeze { .. }) {
                    self.freezes += 1;
                    (self.dirty_rounds, self.freeze_now) = (0, false);
                }
                self.asked = Asked::Old;
                one(store::metadata_write(from, &command))
            }
            Next::ToNew(command) => {
                self.asked = Asked::New;
                one(store::metadata_write(to, &command))
            }
            Next::Sweep(scope) => {
                self.asked = Asked::Sweep;
                one(store::metadata_write(to, &Command::Release { scope, limit: RELEASE_PAIRS }))
            }
            Next::Export(cursor) => {
                let query = Query::ExportPage { scope, after: cursor.after.clone(), bytes_max: PAGE_BYTES };
                self.asked = Asked::Page(cursor);
                one(store::metadata_read(from, &query, strong))
            }
            Next::Changes(cursor) => {
                let query = Query::Dirty { scope, after: cursor.dirty, limit: CHANGES };
                self.asked = Asked::Changes(cursor);
                one(store::metadata_read(from, &query, strong))
            }
            Next::Unclear(why) => {
                let message = format!("partition {} of keyspace '{}': {why}", step.partition, self.keyspace);
                return Err(Failure::from(Refusal::new(ErrorCode::NotReady, message)));
            }
            Next::Switch { keys } => return self.write(|document| switch_first(document, keys)),
            Next::Impossible(why) => {
                let message = format!(
                    "partition {} of keyspace '{}' cannot move from {from} to {to} at epoch {}: {why}; call the operator",
                    step.partition, self.keyspace, step.epoch
                );
                return Err(Failure::from(Refusal::new(ErrorCode::CorruptDocument, message)));
            }
        })
    }

    fn import(
        &mut self,
        expected: ImportCursor,
        cursor: ImportCursor,
        pairs: Vec<(Bytes, Option<Bytes>)>,
    ) -> Result<Step, Failure> {
        let step = self.first_move()?;
        let scope = Scope { partition: step.partition, epoch: step.epoch + 1 };
        self.asked = Asked::New;
        self.tries = 0;
        let to = cluster_name(&self.keyspace, step.to)?;
        Ok(one(store::metadata_write(to, &Command::Import { scope, expected, cursor, pairs })))
    }

    fn import_page(&mut self, expected: ImportCursor, pairs: Vec<(Bytes, Bytes)>, more: bool) -> Result<Step, Failure> {
        let after = pairs.last().map(|(key, _)| key.clone()).or_else(|| expected.after.clone());
        let cursor = ImportCursor { after, copied: !more, dirty: expected.dirty };
        self.import(expected, cursor, pairs.into_iter().map(|(key, value)| (key, Some(value))).collect())
    }

    fn import_changes(
        &mut self,
        expected: ImportCursor,
        pairs: Vec<(Bytes, Option<Bytes>)>,
        reached: u64,
        more: bool,
    ) -> Result<Step, Failure> {
        self.dirty_rounds = self.dirty_rounds.saturating_add(1);
        let few = !more && pairs.len() <= DIRTY_SMALL;
        // The next step freezes, unless it is frozen already.
        self.freeze_now = few || self.dirty_rounds >= DIRTY_ROUNDS_MAX;
        if pairs.is_empty() {
            let frozen = matches!(&self.old, Some(Some(old)) if old.state == PartitionState::Frozen);
            if frozen {
                // Frozen, nothing left, and yet the sequences differ: ask both again.
                (self.old, self.new) = (None, None);
            }
            return self.go_on();
        }
        let cursor = ImportCursor { dirty: reached, ..expected.clone() };
        self.import(expected, cursor, pairs)
    }

    fn ask_memory(&mut self, step: Move) -> Result<Step, Failure> {
        if planted(Mutant::MoveForgetsRequests) {
            return self.brought(0, false);
        }
        self.asked = Asked::Memory;
        let query = Query::Remembered { partition: step.partition, after: self.memory };
        let from = cluster_name(&self.keyspace, step.from)?;
        Ok(one(store::metadata_read(from, &query, Some(ReadConsistency::Strong))))
    }

    fn bring(&mut self, page: MemoryPage) -> Result<Step, Failure> {
        let step = self.first_move()?;
        let (reached, more) = (page.reached, page.more);
        if page.ids.is_empty() {
            return self.brought(reached, more);
        }
        let scope = Scope { partition: step.partition, epoch: step.epoch + 1 };
        let to = cluster_name(&self.keyspace, step.to)?;
        let remember = |ids| store::metadata_write(to.clone(), &Command::Remember { scope, ids });
        self.asked = Asked::Bring { reached, more };
        self.tries = 0;
        Ok(Step::Calls(in_commands(page.ids).into_iter().map(remember).collect()))
    }

    /// The new owner remembers what the old one does up to this index. The place at which the old owner answered shows
    /// whether that is all.
    fn brought(&mut self, reached: u64, more: bool) -> Result<Step, Failure> {
        self.memory = reached;
        if more {
            let step = self.first_move()?;
            return self.ask_memory(step);
        }
        let given_up = matches!(&self.old, Some(Some(old)) if !old.state.serves());
        (self.memory_early, self.memory_whole) = (true, given_up);
        self.go_on()
    }

    fn release(&mut self, step: Move) -> Result<Step, Failure> {
        self.asked = Asked::Release;
        let scope = Scope { partition: step.partition, epoch: step.epoch };
        let from = cluster_name(&self.keyspace, step.from)?;
        Ok(one(store::metadata_write(from, &Command::Release { scope, limit: RELEASE_PAIRS })))
    }

    fn released(&mut self, result: CallResult) -> Result<Step, Failure> {
        match store::backend_reply(result)? {
            Reply::Released { more: true, .. } => {
                let step = self.first_move()?;
                self.release(step)
            }
            Reply::Released { .. } => self.write(end_first),
            other => Err(odd(&other)),
        }
    }
}

fn odd(reply: &Reply) -> Failure {
    Failure::from(Refusal::new(ErrorCode::Internal, format!("a mover was answered {reply:?}")))
}

fn partition_reply(result: CallResult) -> Result<PartitionInfo, Failure> {
    match store::backend_reply(result)? {
        Reply::Partition(info) => Ok(info),
        other => Err(odd(&other)),
    }
}

fn start_next(document: &mut Document) {
    if let Some(first) = document.reshard.as_mut().and_then(|reshard| reshard.moves.first_mut()) {
        first.phase = MovePhase::Copying;
    }
}

/// The new owner has it: from now on clients are sent there.
fn switch_first(document: &mut Document, keys: u64) {
    let Some(first) = document.reshard.as_mut().and_then(|reshard| reshard.moves.first_mut()) else { return };
    first.phase = MovePhase::Releasing;
    let at = usize::from(first.partition.0);
    document.owners[at] = first.to;
    document.epochs[at] = first.epoch + 1;
    document.epoch += 1;
    document.moved_partitions += 1;
    document.moved_keys += keys;
}

/// The old owner has nothing of it any more: the next move begins in the same change.
fn end_first(document: &mut Document) {
    if let Some(reshard) = &mut document.reshard {
        reshard.moves.remove(0);
        reshard.done += 1;
    }
    start_next(document);
}
