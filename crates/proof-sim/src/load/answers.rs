//! What answers mean to clients, and what an operation that has ended leaves behind: its record, and what its client knows.
//!
//! Always: an operation is `Failed` only if no attempt of it can have happened; a level is never silently lowered.
//! Not here: asking (`load`), what is asked next (`draw`), what is right (proof-check).

use super::draw::STRONG_WRITE;
use super::{Kind, Load};
use crate::s3_groups::{self, Grouped};
use crate::s3_load;
use crate::s3_owner::Told;
use crate::s3_upload::{self, Fate};
use crate::trace::line::{self, Line};
use crate::world::{Due, World};
use base_types::action::{Action, ActionResult, Answer, Failure, Level, RedisReply};
use base_types::s3::{S3Action, S3Answer, S3ErrorCode, NULL_VERSION};
use base_types::{ErrorCode, ErrorKind, OrderedAt, Outcome, WriteConsistency};
use proof_check::{Ending, Observed, Operation, Record, Violation};

impl Load {
    pub(super) fn on_done(&mut self, world: &mut World, client: usize, answer: Answer) {
        let gives_up = world.now + self.tries_us(client);
        if let ActionResult::S3(told) = &answer.result {
            self.on_bucket_told(world, client, told);
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        if let Some(repeat) = open.repeat.take() {
            self.on_repeated(world, &repeat, answer.at);
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        if open.record == usize::MAX {
            let told = match &answer.result {
                ActionResult::S3(answer) => Some(answer),
                _ => None,
            };
            return self.finish_as(world, client, Ending::Ok, Told::Answer(told));
        }
        if s3_upload::goes_on(&mut open.action, &mut open.walked, &answer.result) {
            world.probe("snapshot_of_several_pages");
            open.give_up_at = gives_up;
            return self.back_off(world, client);
        }
        if matches!(&answer.result, ActionResult::S3(answer) if s3_load::is_partly_done(answer)) {
            world.probe("deletes_of_many_asked_again");
            open.unknown = true;
            return self.back_off(world, client);
        }
        let asked = self.history.records[open.record].level;
        let mut observed = observe(&answer.result, answer.level.unwrap_or(asked));
        if let Some(Observed::Page { entries, .. }) = &mut observed {
            entries.splice(0..0, open.walked.drain(..));
        }
        self.finish(world, client, Ending::Ok, observed, answer.at, answer.level);
    }

    /// What a client of buckets keeps of an answer beside the history.
    fn on_bucket_told(&mut self, world: &mut World, client: usize, answer: &S3Answer) {
        let this = &mut self.clients[client];
        let Some(open) = this.open.as_ref().filter(|_| this.owner.is_none()) else { return };
        match answer {
            S3Answer::PutObjectAnswer(put) => {
                let Some(record) = self.history.records.get(open.record) else { return };
                // The next put replaces the null version, whatever client it is from: no single one of them can be
                // removed.
                let version = put.version_id.as_ref().filter(|version| version.as_str() != NULL_VERSION);
                this.remover.put(record.place, &record.operation, version);
            }
            S3Answer::ObjectPage(page) if open.record == usize::MAX => {
                let Action::S3(S3Action::ListObjectsV2(call)) = &open.action else { return };
                let Some(bucket) = self.targets.buckets.iter().position(|bucket| *bucket == call.bucket) else {
                    return;
                };
                let window = (open.asked_at, world.now);
                let found = s3_groups::grouped(&open.action, s3_load::place_of(bucket), page, window);
                if found.as_ref().is_some_and(Grouped::has_prefixes) {
                    world.probe("listing_with_common_prefixes");
                }
                self.grouped.extend(found);
            }
            S3Answer::ObjectCount(count) => {
                let instant = matches!(&open.action, Action::S3(S3Action::CountObjects(call)) if call.snapshot);
                self.quota.counted.push((count.keys, instant));
            }
            S3Answer::DeleteObjectAnswer(_) if open.record == usize::MAX => world.probe("version_removed"),
            S3Answer::DeleteObjectsAnswer(_) => world.probe("deleted_among_many"),
            _ => {}
        }
    }

    pub(super) fn on_refused(&mut self, world: &mut World, client: usize, failure: Failure) {
        let refusal = &failure.refusal;
        world.trace.say(world.now, || {
            let open = self.clients[client].open.as_ref();
            let (node, asked_at) = open.map_or((None, world.now), |open| (Some(open.node), open.asked_at));
            let about = open.and_then(|open| self.history.records.get(open.record)).and_then(|of| self.about(of.place));
            let text = format!("client {client} is refused: {} ({})", refusal.code, refusal.message);
            Line { node, ..Line::new(line::Kind::Client, text).about(about).lasted(world.now - asked_at) }
        });
        let lifecycle = self.clients[client].kind == Kind::Lifecycle;
        let of_bucket = matches!(self.clients[client].kind, Kind::S3 | Kind::S3Growing | Kind::Uploader | Kind::Owner);
        if of_bucket {
            let this = &self.clients[client];
            let Some(open) = this.open.as_ref() else { return };
            if refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchBucket) && this.owner.is_some() {
                self.miss_bucket(world, client);
            } else if s3_load::is_broken(refusal.code) {
                let message = format!("client {client}, {:?}: {refusal}", open.action);
                world.violate(Violation::new("bucket", message, vec![]));
            }
            let Some(open) = self.clients[client].open.as_mut() else { return };
            let operation = self.history.records.get(open.record).map(|record| &record.operation);
            let observed = operation.and_then(|operation| s3_load::observe_refusal(operation, refusal.code));
            if observed.is_some() {
                return self.finish(world, client, Ending::Ok, observed, failure.at, None);
            }
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        if let Some(repeat) = open.repeat.clone().filter(|_| !refusal.kind().retryable()) {
            self.on_repeat_refused(world, &repeat, refusal);
            return self.finish_as(world, client, Ending::Failed, Told::Refused(refusal.code));
        }
        let Some(open) = self.clients[client].open.as_mut() else { return };
        let is_swap = matches!(open.action, Action::KvCompareAndSet { .. });
        let is_delete_cluster = matches!(open.action, Action::DeleteCluster { .. });
        match refusal.code {
            ErrorCode::ConditionFailed if is_swap => {
                return self.finish(world, client, Ending::Ok, Some(Observed::ConditionFailed), failure.at, None);
            }
            code if code.is_committed() && !is_swap => {
                // Said aloud, so no silent downgrade: it counts as the strong write it is.
                if let Some(record) = self.history.records.get_mut(open.record) {
                    record.level = STRONG_WRITE;
                }
                return self.finish(world, client, Ending::Ok, Some(Observed::Done), failure.at, None);
            }
            ErrorCode::UnknownCluster if is_delete_cluster && open.unknown => {
                return self.finish(world, client, Ending::Ok, Some(Observed::Done), None, None);
            }
            ErrorCode::ClusterExists if lifecycle && open.record == usize::MAX => {
                return self.finish(world, client, Ending::Ok, None, None, None);
            }
            _ => {}
        }
        if refusal.code == ErrorCode::S3(S3ErrorCode::QuotaExceeded) {
            return self.on_quota(world, client);
        }
        // Of a first try an expired id is definite: it was made long before.
        let first = refusal.code == ErrorCode::RequestIdExpired && !open.unknown;
        self.expired.extend(first.then_some(open.record));
        let unknown = refusal.outcome() == Outcome::Unknown && !first;
        let may_have_happened = unknown || refusal.code.is_committed();
        open.unknown |= may_have_happened;
        if refusal.kind().retryable() || refusal.kind() == ErrorKind::Full {
            return self.back_off(world, client);
        }
        world.probe("refused_for_good");
        let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
        self.finish_as(world, client, ending, Told::Refused(refusal.code));
    }

    /// A put was refused for want of room. It is remembered, so that there is no use in asking again.
    fn on_quota(&mut self, world: &mut World, client: usize) {
        world.probe("quota_refused_a_put");
        let Some(open) = self.clients[client].open.as_ref() else { return };
        if open.record == usize::MAX {
            let message = format!("{:?} makes no key, and a quota of keys refused it", open.action);
            world.violate(Violation::new("quota", message, vec![]));
        }
        self.quota.refused.insert(open.record, world.now);
        let ending = if open.unknown { Ending::Unknown } else { Ending::Failed };
        self.finish_as(world, client, ending, Told::Refused(ErrorCode::S3(S3ErrorCode::QuotaExceeded)));
    }

    /// A write at level `s3` failed, and no member of its cluster has a bucket: nothing is wrong. A client with a short
    /// deadline may have learned of its deadline only, for a router first checks whether the leader is only fresh (seed 2708
    /// at 4f87679).
    fn excuse_tailless(&mut self, world: &World, client: usize) {
        let Some(open) = self.clients[client].open.as_ref().filter(|open| open.record != usize::MAX) else { return };
        if let Action::KvPut { target, .. } = &open.action {
            let kept = self.history.records[open.record].level == Level::Write(WriteConsistency::S3);
            self.tailless.extend((kept && world.lacks_tail(target)).then_some(open.record));
        }
    }

    /// Of a bucket that an owner has: it is not there.
    fn miss_bucket(&mut self, world: &mut World, client: usize) {
        let this = &mut self.clients[client];
        let (Some(owner), Some(open)) = (this.owner.as_mut(), this.open.as_ref()) else { return };
        if open.record != usize::MAX {
            world.violations.extend(owner.missed(&mut self.register, client));
        }
    }

    /// An operation ends without a result that the history shows. An operation of several steps gets what it returned.
    pub(super) fn finish_as(&mut self, world: &mut World, client: usize, ending: Ending, told: Told<'_>) {
        if ending != Ending::Ok {
            self.excuse_tailless(world, client);
        }
        let Some(open) = self.clients[client].open.as_ref() else { return };
        let (record, again, asked_at) = (open.record, open.unknown, open.asked_at);
        let this = &mut self.clients[client];
        match (&mut this.owner, &mut this.upload) {
            (Some(owner), _) if record == usize::MAX => {
                let violation =
                    owner.called(&mut self.register, &mut this.random, client, (ending, again, asked_at), told);
                world.violations.extend(violation);
            }
            (_, Some(_)) if record == usize::MAX || !matches!(told, Told::Answer(_)) => {
                self.after_upload_step(world, client, ending, told);
            }
            _ => {}
        }
        self.finish(world, client, ending, None, None, None);
    }

    /// An uploader's call has ended.
    fn after_upload_step(&mut self, world: &mut World, client: usize, ending: Ending, told: Told<'_>) {
        let this = &mut self.clients[client];
        let Some(mut upload) = this.upload.take() else { return };
        if matches!((ending, &told), (Ending::Failed, Told::Refused(ErrorCode::S3(S3ErrorCode::NoSuchUpload)))) {
            let message = format!("upload {:?} of client {client} is gone, and nobody has ended it", upload.id);
            world.violate(Violation::new("uploads", message, vec![]));
        }
        let id = upload.id.clone().map(|id| (upload.bucket, id));
        let is_ending = upload.is_ending();
        let answer = match told {
            Told::Answer(answer) => answer,
            _ => None,
        };
        if let (Ending::Ok, Some((key, place))) = (ending, upload.place()) {
            self.places.entry((upload.bucket, key)).or_default().push(place);
        }
        world.violations.extend(answer.and_then(|answer| upload.check_page(answer)));
        let goes_on = ending == Ending::Ok && upload.went_well(answer);
        match (id, is_ending, ending) {
            (Some(id), true, Ending::Ok) => _ = self.uploads.insert(id, Fate::Ended),
            (Some(id), true, _) => _ = self.uploads.insert(id, Fate::Doubtful),
            (None, _, _) => {
                let id = upload.id.clone().map(|id| (upload.bucket, id));
                self.uploads.extend(id.map(|id| (id, Fate::Open)));
            }
            _ => {}
        }
        self.clients[client].upload = Some(upload).filter(|_| goes_on);
    }

    fn finish(
        &mut self,
        world: &mut World,
        client: usize,
        ending: Ending,
        observed: Option<Observed>,
        at: Option<OrderedAt>,
        level: Option<Level>,
    ) {
        let Some(open) = self.clients[client].open.take() else { return };
        if let Some(record) = self.history.records.get_mut(open.record) {
            record.ending = ending;
            record.returned = (ending != Ending::Unknown).then_some(world.now);
            record.observed = observed;
            record.at = at;
            if let Some(level) = level {
                check_level(world, record, level);
                record.level = level;
            }
            world.trace.note(world.now, "finished", &[record.id, ending as u64]);
            let record = &*record;
            world.trace.say(world.now, || {
                let kind = if ending == Ending::Ok { line::Kind::Client } else { line::Kind::Failed };
                let told =
                    Line::new(kind, told(client, record)).node(open.node).about(self.targets.about(record.place));
                told.record(record.id).lasted(world.now - record.invoked)
            });
            if ending != Ending::Ok {
                world.trace.with(world.now, |recorder| recorder.mark_failure(world.now));
            }
        }
        let places = self.targets.clusters.len();
        let record = self.history.records.get(open.record).filter(|record| (record.place.0 as usize) < places);
        if let (Some(record), Some(at), Ending::Ok) = (record, at, ending) {
            self.clients[client].session.saw(world, record, open.after, at);
        }
        self.after_done(world, client, open.record, &open.action, open.request_id);
        self.clients[client].remover.ended(&open.action, ending, &mut self.removals);
        self.after_life_step(client, open.record, ending);
        self.after_swap(client, open.record);
        self.after_put_of_parts(world, client, &open.action, ending);
        if let (Some(owner), Some(record)) = (&mut self.clients[client].owner, self.history.records.get(open.record)) {
            owner.used(&record.operation, ending, record.observed.as_ref(), open.asked_at);
        }
        let think = self.plan.think_ms * 1_000 * self.clients[client].slowness;
        let wait = self.clients[client].random.between(1, think * 2 + 1);
        world.schedule(world.now + wait, Due::Client(client));
    }

    /// A lifecycle client goes from a cluster's making through some steps to its end.
    fn after_life_step(&mut self, client: usize, record: usize, ending: Ending) {
        if self.clients[client].kind != Kind::Lifecycle {
            return;
        }
        let deleted = self.history.records.get(record).is_some_and(|record| record.operation == Operation::Clear);
        let this = &mut self.clients[client];
        this.life_left = match (record, this.life_left) {
            (usize::MAX, _) if ending == Ending::Ok => Some(this.random.between(1, 12)),
            (usize::MAX, _) => None,
            (_, _) if deleted => None,
            (_, left) => left.map(|left| left.saturating_sub(1)),
        };
    }

    /// What a swapper's key holds now, if its answer leaves no doubt.
    fn after_swap(&mut self, client: usize, record: usize) {
        let this = &mut self.clients[client];
        let Some(record) = self.history.records.get(record).filter(|_| this.kind == Kind::Swapper) else { return };
        match (&record.operation, &record.observed) {
            (Operation::CompareAndSet { key, value, .. }, Some(Observed::Done)) => {
                this.held.insert(key.clone(), value.clone());
            }
            (Operation::Get { key }, Some(Observed::Value(value))) => {
                this.held.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }

    /// The put that completes an upload is in the history, and ends the upload too.
    fn after_put_of_parts(&mut self, world: &mut World, client: usize, action: &Action, ending: Ending) {
        let completes = matches!(action, Action::S3(S3Action::CompleteMultipartUpload(_)));
        if completes && ending == Ending::Ok {
            world.probe("upload_completed");
            self.after_upload_step(world, client, ending, Told::Answer(None));
        }
    }
}

/// What a client observes by an answer.
pub fn observe(result: &ActionResult, level: Level) -> Option<Observed> {
    let applied = !matches!(level, Level::Write(WriteConsistency::Hopeful | WriteConsistency::Eventual));
    Some(match result {
        ActionResult::Done => Observed::Done,
        ActionResult::Value { value } => Observed::Value(value.clone()),
        ActionResult::Deleted { existed } => Observed::Deleted(applied.then_some(*existed)),
        ActionResult::Page { entries, next } => Observed::Page { entries: entries.clone(), next: next.clone() },
        ActionResult::S3(answer) => return s3_load::observe(answer),
        ActionResult::Redis { reply: RedisReply::Integer(value) } => Observed::Integer(*value),
        ActionResult::Redis { reply: RedisReply::Nil } => Observed::Integer(0),
        ActionResult::Redis { reply: RedisReply::Bulk(text) } => {
            Observed::Integer(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok())?)
        }
        _ => return None,
    })
}

/// A record for the reader of a trace.
fn told(client: usize, record: &Record) -> String {
    format!(
        "client {client}: {:?} {:?} {:?} {:?} at {:?}",
        record.operation, record.level, record.ending, record.observed, record.at
    )
}

/// A level is never silently lowered.
fn check_level(world: &mut World, record: &Record, reached: Level) {
    let lowered = match (record.level, reached) {
        (Level::Write(asked), Level::Write(reached)) => reached < asked,
        (Level::Read(asked), Level::Read(reached)) => reached < asked,
        _ => true,
    };
    if let (Level::Write(WriteConsistency::Absolute), Some(at)) = (reached, record.at) {
        if let Some(node) = world.member_away_since(at.cluster, record.invoked) {
            let message =
                format!("an absolute write was acknowledged at {at:?} although member {node:?} was down all the while");
            world.violate(Violation::new("levels", message, vec![record.id]));
        }
    }
    if let (Level::Write(WriteConsistency::S3), Some(at)) = (reached, record.at) {
        world.check_kept(&at, record.id);
    }
    if lowered {
        let message = format!("{:?} was asked at {:?} and answered at {reached:?}", record.operation, record.level);
        world.violate(Violation::new("levels", message, vec![record.id]));
    }
}
