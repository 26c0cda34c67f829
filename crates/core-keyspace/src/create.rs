//! Making a keyspace: document (creating), clusters, partitions adopted, document (ready).
//!
//!   Put ──▶ Clusters ──▶ Adopt ──▶ Finish ──▶ done
//!    │ exists: Look        └─ refused for good ─▶ Undo (document deleting, then `delete.rs`)
//!
//! Always: any node that finds a document `creating` may carry it on from the start: a step done before counts like one
//! done now. A client that goes away leaves a document that a sweep finishes.
//! Held by: `creation_and_removal_are_finished_by_others_after_a_crash_at_every_step`.
//! Not here: moving partitions (`reshard/run.rs`).

use crate::clusters::{create_clusters, first_failure, CLUSTERS_AT_A_TIME, TRIES_MAX};
use crate::delete::Delete;
use crate::document::{Document, KeyspaceSpec, KeyspaceState, FIRST_EPOCH, FIRST_EPOCHS};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::store;
use base_types::action::{ActionResult, Failure, KeyspaceKind};
use base_types::{ErrorCode, PartitionId, Refusal};
use core_backends::metadata::{Command, Scope};
use core_flow::rounds::{answer, is_passing, one, only, pause, refuse, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// Makes a keyspace; answers with its [`ActionResult::Keyspace`].
pub struct CreateKeyspace(InRounds<Create>);
planner_in_rounds!(CreateKeyspace, InRounds<Create>);

impl CreateKeyspace {
    /// For a client.
    pub fn new(spec: KeyspaceSpec) -> CreateKeyspace {
        CreateKeyspace(InRounds::new(Create {
            spec: Some(spec),
            document: None,
            version: None,
            stage: Stage::Begin,
            tries: 0,
        }))
    }

    /// For a document found `creating`.
    pub fn resume(document: Document, version: u64) -> CreateKeyspace {
        let stage = Stage::Resume;
        CreateKeyspace(InRounds::new(Create {
            spec: None,
            document: Some(document),
            version: Some(version),
            stage,
            tries: 0,
        }))
    }
}

enum Stage {
    Begin,
    Resume,
    Put,
    Look,
    /// The number of the first cluster of the round.
    Clusters(u16),
    Adopt,
    Finish,
    /// The document is to say `deleting`; then the clusters go.
    Undo(Failure),
    Deleting(Box<Delete>, Failure),
}

struct Create {
    spec: Option<KeyspaceSpec>,
    document: Option<Document>,
    version: Option<u64>,
    stage: Stage,
    tries: u32,
}

impl Rounds<KeyspaceNews> for Create {
    fn name(&self) -> &'static str {
        "create keyspace"
    }

    fn subject(&self) -> Option<String> {
        self.spec.as_ref().map(|spec| format!("keyspace {}", spec.name))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        let Some(mut document) =
            self.document.take().map(Ok).or_else(|| self.spec.as_ref().map(|spec| first_document(spec, context)))
        else {
            return refuse(Refusal::new(ErrorCode::Internal, "a keyspace is to be made from nothing"));
        };
        let step = match &mut document {
            Err(refusal) => return refuse(refusal.clone()),
            Ok(document) => self.turn(context, document, answers),
        };
        self.document = document.ok();
        step
    }
}

/// Epochs begin where no earlier keyspace of the name had them: a document of that one, wherever it was kept, is refused.
fn first_document(spec: &KeyspaceSpec, context: &mut PlanContext<'_>) -> Result<Document, Refusal> {
    let mut document = spec.document()?;
    let first = FIRST_EPOCH + context.random.below(FIRST_EPOCHS);
    document.epochs.fill(first);
    Ok(document)
}

impl Create {
    fn turn(&mut self, context: &mut PlanContext<'_>, document: &mut Document, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() && !matches!(self.stage, Stage::Deleting(..)) {
            return self.ask(document);
        }
        match core::mem::replace(&mut self.stage, Stage::Look) {
            Stage::Begin | Stage::Resume => self.ask(document),
            Stage::Put => match store::document_written(context, document, only(answers)) {
                Ok(version) => {
                    self.version = Some(version);
                    self.go(Stage::Clusters(0), document)
                }
                Err(failure) => self.retry_or(context, failure, Stage::Put, |this, failure| {
                    if store::is_conflict(&failure) {
                        this.go(Stage::Look, document)
                    } else {
                        Step::Done(Err(failure))
                    }
                }),
            },
            Stage::Look => self.looked(context, document, only(answers)),
            Stage::Clusters(first) => self.clusters_made(context, document, first, answers),
            Stage::Adopt => match answers
                .into_iter()
                .find_map(|a| store::backend_reply::<core_backends::metadata::Reply>(a).err())
            {
                None => self.go(Stage::Finish, document),
                Some(failure) => self.retry_or(context, failure, Stage::Adopt, |_, failure| Step::Done(Err(failure))),
            },
            Stage::Finish => {
                let ready = Document { state: KeyspaceState::Ready, ..document.clone() };
                match store::document_written(context, &ready, only(answers)) {
                    Ok(_) => done(&ready),
                    Err(failure) if store::is_conflict(&failure) => self.go(Stage::Look, document),
                    Err(failure) => {
                        self.retry_or(context, failure, Stage::Finish, |_, failure| Step::Done(Err(failure)))
                    }
                }
            }
            Stage::Undo(reason) => {
                let deleting = Document { state: KeyspaceState::Deleting, ..document.clone() };
                if let Err(failure) = store::document_written(context, &deleting, only(answers)) {
                    return match is_passing(&failure) {
                        true => {
                            self.retry_or(context, failure, Stage::Undo(reason), |_, failure| Step::Done(Err(failure)))
                        }
                        false => Step::Done(Err(reason)),
                    };
                }
                let mut delete = Delete::new(document.name.clone());
                let step = delete.next(context, Vec::new());
                self.stage = Stage::Deleting(Box::new(delete), reason);
                step
            }
            Stage::Deleting(mut delete, reason) => match delete.next(context, answers) {
                Step::Done(_) => Step::Done(Err(reason)),
                step => {
                    self.stage = Stage::Deleting(delete, reason);
                    step
                }
            },
        }
    }

    fn go(&mut self, stage: Stage, document: &Document) -> Step {
        self.stage = stage;
        self.tries = 0;
        self.ask(document)
    }

    /// The calls of the present stage.
    fn ask(&mut self, document: &Document) -> Step {
        match &mut self.stage {
            Stage::Begin => {
                self.stage = Stage::Put;
                one(store::write_document(document, None))
            }
            Stage::Put => one(store::write_document(document, None)),
            Stage::Resume => {
                self.stage = Stage::Look;
                one(store::read_document(&document.name))
            }
            Stage::Look => one(store::read_document(&document.name)),
            Stage::Clusters(first) => create_clusters(document, *first, document.clusters),
            Stage::Adopt => adopt(document),
            Stage::Finish => {
                one(store::write_document(&Document { state: KeyspaceState::Ready, ..document.clone() }, self.version))
            }
            Stage::Undo(_) => one(store::write_document(
                &Document { state: KeyspaceState::Deleting, ..document.clone() },
                self.version,
            )),
            Stage::Deleting(..) => one(store::read_document(&document.name)),
        }
    }

    /// A document is there (or was): carry it on if it is ours, else say so.
    fn looked(&mut self, context: &mut PlanContext<'_>, document: &mut Document, result: CallResult) -> Step {
        match store::document_read(context, &document.name, result) {
            Ok(Some((version, found))) if found.state == KeyspaceState::Creating && found.is_of(document) => {
                self.version = Some(version);
                document.epochs = found.epochs;
                self.go(Stage::Clusters(0), document)
            }
            // Finished by another runner of this same plan: ours lost only the race to say so.
            Ok(Some((_, found))) if self.version.is_some() && found.state == KeyspaceState::Ready => done(&found),
            // Neither there nor free: its name is given anew once the last cluster is gone.
            Ok(Some((_, found))) if found.state == KeyspaceState::Deleting => {
                let message = format!("keyspace '{}' is being deleted; retry in a moment", found.name);
                let refusal = Refusal::new(ErrorCode::NotReady, message);
                self.retry_or(context, refusal.into(), Stage::Look, |_, failure| Step::Done(Err(failure)))
            }
            Ok(Some((_, found))) => {
                let name = &found.name;
                let message = format!("keyspace '{name}' exists already; delete it first or choose another name");
                refuse(Refusal::new(ErrorCode::KeyspaceExists, message))
            }
            Ok(None) if self.spec.is_none() || self.version.is_some() => refuse(Refusal::new(
                ErrorCode::Conflict,
                format!("keyspace '{}' was deleted while it was made", document.name),
            )),
            Ok(None) => {
                self.stage = Stage::Begin;
                self.tries += 1;
                if self.tries > TRIES_MAX {
                    return Step::Done(Err(Failure::from(crate::map::unknown_keyspace(&document.name))));
                }
                pause(context, self.tries)
            }
            Err(failure) => self.retry_or(context, failure, Stage::Look, |_, failure| Step::Done(Err(failure))),
        }
    }

    fn clusters_made(
        &mut self,
        context: &mut PlanContext<'_>,
        document: &mut Document,
        first: u16,
        answers: Vec<CallResult>,
    ) -> Step {
        match first_failure(answers, ErrorCode::ClusterExists) {
            None => {
                let next = first.saturating_add(CLUSTERS_AT_A_TIME);
                let stage = match document.kind {
                    _ if next < document.clusters => Stage::Clusters(next),
                    KeyspaceKind::Plain => Stage::Adopt,
                    // Its one partition is the whole cluster's: nothing is moved, so nothing is adopted.
                    KeyspaceKind::Versioned | KeyspaceKind::Redis => Stage::Finish,
                };
                self.go(stage, document)
            }
            Some(failure) => self.retry_or(context, failure, Stage::Clusters(first), |this, failure| {
                this.go(Stage::Undo(failure), document)
            }),
        }
    }

    /// Waits and retries where that may help; otherwise returns `otherwise`.
    fn retry_or(
        &mut self,
        context: &mut PlanContext<'_>,
        failure: Failure,
        stage: Stage,
        otherwise: impl FnOnce(&mut Self, Failure) -> Step,
    ) -> Step {
        self.tries += 1;
        if is_passing(&failure) && self.tries <= TRIES_MAX {
            self.stage = stage;
            return pause(context, self.tries);
        }
        if is_passing(&failure) {
            return Step::Done(Err(failure));
        }
        otherwise(self, failure)
    }
}

/// Every cluster takes its partitions.
fn adopt(document: &Document) -> Step {
    let mut calls = Vec::new();
    for number in 0..document.clusters {
        let owned =
            document.owners.iter().zip(&document.epochs).enumerate().filter(|(_, (owner, _))| **owner == number);
        let scopes = owned.map(|(p, (_, epoch))| Scope { partition: PartitionId(p as u16), epoch: *epoch }).collect();
        match document.cluster(number) {
            Ok(cluster) => calls.push(store::metadata_write(cluster, &Command::Adopt { scopes })),
            Err(refusal) => return refuse(refusal),
        }
    }
    Step::Calls(calls)
}

fn done(document: &Document) -> Step {
    match document.info() {
        Ok(info) => answer(ActionResult::Keyspace(info), None),
        Err(refusal) => refuse(refusal),
    }
}
