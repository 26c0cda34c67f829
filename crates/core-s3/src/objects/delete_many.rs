//! Many versions deleted by one call: all keys of one shard by one command, all shards at once.
//!
//! Always: the results stand in the order of the request, one for each key. A key that one shard has answered is not
//! sent again when another shard proves to be split. Keys of one shard are deleted in the order of the request. Each
//! key has a request id of its own, made of the call's id and the step. So a retry finds it done even if shards were
//! split or merged since, or another node sends it.
//! Held by: `many_are_deleted_in_the_order_asked_over_shards_and_splits`, `deletes_of_many_asked_again_in_other_company_are_found_done`.
//! Not here: what a delete does (core-backends, shard/objects.rs), how one is found done (shard/each.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::objects::conditions::of_write;
use crate::objects::document::read_version_id;
use crate::objects::single_shard::{other_reply, shard_of, shard_trouble};
use crate::objects::{delete_terms, deleted, key_bytes};
use crate::request::{done, reply, shard_write, RequestIds, Terms};
use crate::state::PlanContext;
use crate::Offered;
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::s3::{
    DeleteObjects, DeleteObjectsAnswer, DeleteResult, ObjectToDelete, S3Action, S3ErrorCode, DELETE_OBJECTS_MAX,
};
use base_types::{ClusterName, ErrorKind, OrderedAt, Refusal};
use core_backends::shard::{Command, DeleteStep, Deleted, Reply};
use core_flow::{CallResult, Step};
use std::collections::BTreeMap;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    let S3Action::DeleteObjects(call) = call else { return Err(call) };
    let results = vec![None; call.objects.len()];
    let (ids, numbers) = (RequestIds::new(terms), numbers(&call.objects));
    Ok(with_bucket(DeleteMany { call, terms: *terms, ids, numbers, results, asked: Vec::new(), at: None }))
}

/// How many before each ask for the same version of the same key: a key may be named twice, and two markers are laid then.
fn numbers(objects: &[ObjectToDelete]) -> Vec<u32> {
    let mut asked: BTreeMap<(&str, Option<&str>), u32> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(objects.len());
    for object in objects {
        let before = asked.entry((&object.key, object.version_id.as_deref())).or_default();
        numbers.push(*before);
        *before += 1;
    }
    numbers
}

struct DeleteMany {
    call: Box<DeleteObjects>,
    terms: Terms,
    ids: RequestIds,
    numbers: Vec<u32>,
    results: Vec<Option<DeleteResult>>,
    /// The clusters asked now, and for which of the objects each.
    asked: Vec<(ClusterName, Vec<usize>)>,
    at: Option<OrderedAt>,
}

/// What one shard has of them.
#[derive(Default)]
struct Share {
    places: Vec<usize>,
    steps: Vec<DeleteStep>,
    ids: Vec<u128>,
}

impl BucketWork for DeleteMany {
    fn name(&self) -> &'static str {
        "DeleteObjects"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(&mut self, context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        if self.call.objects.len() > DELETE_OBJECTS_MAX {
            let message =
                format!("{} objects to delete; at most {DELETE_OBJECTS_MAX} are taken", self.call.objects.len());
            return Err(S3ErrorCode::MalformedXML.because(message).into());
        }
        self.take(answers)?;
        let step = self.ask(context, at)?;
        match step {
            Some(step) => Ok(step),
            None => {
                let results = self.results.drain(..).flatten().collect();
                Ok(done(DeleteObjectsAnswer { results }, self.at))
            }
        }
    }
}

impl DeleteMany {
    /// Asks every shard that has keys left; `None` where none has.
    fn ask(&mut self, context: &mut PlanContext<'_>, at: &Place) -> Result<Option<Step>, Refusal> {
        let mut shards: BTreeMap<(u64, u64), Share> = BTreeMap::new();
        for (place, object) in self.call.objects.iter().enumerate() {
            if self.results[place].is_some() {
                continue;
            }
            match step_of(object) {
                Ok(step) => {
                    let entry = shard_of(at, &object.key)?;
                    let share = shards.entry((entry.shard, entry.epoch)).or_default();
                    let mut bytes = self.numbers[place].to_le_bytes().to_vec();
                    bytes.extend_from_slice(&step.to_bytes());
                    share.places.push(place);
                    share.ids.push(self.ids.id_of(context, &bytes).0);
                    share.steps.push(step);
                }
                Err(refusal) => self.results[place] = Some(refused(object, &refusal)),
            }
        }
        let mut calls = Vec::with_capacity(shards.len());
        for ((number, epoch), Share { places, steps, ids }) in shards {
            let terms = delete_terms(context, &at.bucket, epoch, self.call.bypass_governance_retention);
            let cluster = clusters::shard(at.bucket.id, number)?;
            // The same keys have the same id at every node, others have another.
            let request_id = self.ids.id_of(context, &ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
            let command = Command::DeleteEach { terms, steps, ids };
            calls.push(shard_write(at.bucket.id, number, &command, &self.terms, request_id)?);
            self.asked.push((cluster, places));
        }
        Ok((!calls.is_empty()).then_some(Step::Calls(calls)))
    }

    fn take(&mut self, answers: Vec<CallResult>) -> Result<(), Trouble> {
        let mut trouble = None;
        for ((cluster, places), result) in core::mem::take(&mut self.asked).into_iter().zip(answers) {
            match reply::<Reply>(result) {
                Ok((Reply::DeletedMany { outcomes }, at)) if outcomes.len() == places.len() => {
                    self.at = Some(at);
                    for (place, outcome) in places.into_iter().zip(outcomes) {
                        let object = &self.call.objects[place];
                        self.results[place] = Some(result_of(object, outcome));
                    }
                }
                Ok(_) => return Err(other_reply().into()),
                Err(failure) => match shard_trouble(Some(&cluster), failure) {
                    Trouble::Failed(failure) => self.fail(&places, &failure),
                    passing => trouble = Some(passing),
                },
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// One shard's failure is that of its keys alone.
    fn fail(&mut self, places: &[usize], failure: &Failure) {
        for place in places {
            self.results[*place] = Some(refused(&self.call.objects[*place], &failure.refusal));
        }
    }
}

fn step_of(object: &ObjectToDelete) -> Result<DeleteStep, Refusal> {
    base_types::s3::check_key(object.key.as_bytes())?;
    Ok(DeleteStep {
        key: key_bytes(&object.key),
        version: read_version_id(object.version_id.as_deref())?,
        condition: of_write(&object.conditions),
    })
}

fn result_of(object: &ObjectToDelete, outcome: Result<Deleted, Refusal>) -> DeleteResult {
    let done = match outcome {
        Ok(done) => done,
        Err(refusal) => return refused(object, &refusal),
    };
    let (key, version_id) = (object.key.clone(), object.version_id.clone());
    let deleted = Some(deleted(version_id.as_deref(), &done));
    DeleteResult { key, version_id, deleted, ..DeleteResult::default() }
}

/// Clients of S3 know its codes only.
fn refused(object: &ObjectToDelete, refusal: &Refusal) -> DeleteResult {
    let code = match (refusal.code.s3(), refusal.kind()) {
        (Some(code), _) => code,
        (None, ErrorKind::Unavailable | ErrorKind::Overloaded) => S3ErrorCode::ServiceUnavailable,
        (None, ErrorKind::Invalid) => S3ErrorCode::InvalidArgument,
        (None, _) => S3ErrorCode::InternalError,
    };
    DeleteResult {
        key: object.key.clone(),
        version_id: object.version_id.clone(),
        deleted: None,
        code: Some(code.name().to_owned()),
        message: Some(refusal.message.clone()),
    }
}
