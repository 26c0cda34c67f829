//! Removing a keyspace: document (deleting), clusters gone, document gone.
//!
//! Always: may be repeated and taken up by anybody who finds the document `deleting`; the document
//! goes last, so no cluster is left that nobody knows of. Clusters are removed by life, and only lives that
//! were seen while the document still had the version that says they must go: a runner that was held up
//! does not remove what was made under the same name since.
//! Held by: `creation_and_removal_are_finished_by_others_after_a_crash_at_every_step`.
//! Not here: how a cluster is removed (the router's own flow).

use crate::clusters::{
    delete_clusters, first_failure, lives_seen, look_at_lives, Lives, CLUSTERS_AT_A_TIME, TRIES_MAX,
};
use crate::document::{Document, KeyspaceState};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::unknown_keyspace;
use crate::store;
use base_types::action::{ActionResult, Failure};
use base_types::ErrorCode;
use core_flow::rounds::{answer, is_passing, one, only, pause, refuse, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// Removes a keyspace and its clusters.
pub struct DeleteKeyspace(InRounds<Delete>);
planner_in_rounds!(DeleteKeyspace, InRounds<Delete>);

impl DeleteKeyspace {
    /// For a client, or for a document found `deleting`.
    pub fn new(keyspace: String) -> DeleteKeyspace {
        DeleteKeyspace(InRounds::new(Delete::new(keyspace)))
    }
}

enum Stage {
    Read,
    Mark(Document),
    /// Which lives the clusters from `first` on have.
    Lives {
        first: u16,
        version: u64,
    },
    /// Whether the document has stayed the same.
    Same {
        first: u16,
        version: u64,
        lives: Lives,
    },
    Clusters {
        first: u16,
        version: u64,
        document: Document,
    },
    Remove,
}

pub(crate) struct Delete {
    keyspace: String,
    stage: Stage,
    /// We have seen it: that it is gone now is what was wanted.
    seen: bool,
    tries: u32,
}

impl Delete {
    pub fn new(keyspace: String) -> Delete {
        Delete { keyspace, stage: Stage::Read, seen: false, tries: 0 }
    }

    /// Anything unexpected: pause, then begin again with what the document says.
    fn again(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> Step {
        self.tries += 1;
        self.stage = Stage::Read;
        if self.tries > TRIES_MAX || !(is_passing(&failure) || store::is_conflict(&failure)) {
            return Step::Done(Err(failure));
        }
        pause(context, self.tries)
    }

    fn read(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Step {
        match store::document_read(context, &self.keyspace, result) {
            Ok(None) if self.seen => answer(ActionResult::Done, None),
            Ok(None) => refuse(unknown_keyspace(&self.keyspace)),
            Ok(Some((version, document))) if document.state == KeyspaceState::Deleting => {
                self.seen = true;
                self.delete_clusters(0, version, document)
            }
            Ok(Some((version, mut document))) => {
                self.seen = true;
                document.state = KeyspaceState::Deleting;
                let call = store::write_document(&document, Some(version));
                self.stage = Stage::Mark(document);
                one(call)
            }
            Err(failure) => self.again(context, failure),
        }
    }

    fn delete_clusters(&mut self, first: u16, version: u64, document: Document) -> Step {
        if first >= document.clusters_most() {
            self.stage = Stage::Remove;
            return one(store::delete_document(&self.keyspace, version));
        }
        let step = look_at_lives(&document, first, document.clusters_most());
        self.stage = Stage::Lives { first, version };
        step
    }

    fn same(&mut self, found: Option<(u64, Document)>, first: u16, version: u64, lives: Lives) -> Step {
        match found {
            Some((found, document)) if found == version => match delete_clusters(lives) {
                Some(step) => {
                    self.stage = Stage::Clusters { first, version, document };
                    step
                }
                None => self.delete_clusters(first.saturating_add(CLUSTERS_AT_A_TIME), version, document),
            },
            Some(_) => {
                self.stage = Stage::Read;
                one(store::read_document(&self.keyspace))
            }
            // Another runner was faster.
            None => answer(ActionResult::Done, None),
        }
    }
}

impl Rounds<KeyspaceNews> for Delete {
    fn name(&self) -> &'static str {
        "delete keyspace"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("keyspace {}", self.keyspace))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            self.stage = Stage::Read;
            return one(store::read_document(&self.keyspace));
        }
        match core::mem::replace(&mut self.stage, Stage::Read) {
            Stage::Read => self.read(context, only(answers)),
            Stage::Mark(document) => match store::document_written(context, &document, only(answers)) {
                Ok(version) => self.delete_clusters(0, version, document),
                Err(failure) => self.again(context, failure),
            },
            Stage::Lives { first, version } => match lives_seen(answers) {
                Ok(lives) => {
                    self.stage = Stage::Same { first, version, lives };
                    one(store::read_document(&self.keyspace))
                }
                Err(failure) => self.again(context, failure),
            },
            Stage::Same { first, version, lives } => {
                match store::document_read(context, &self.keyspace, only(answers)) {
                    Ok(found) => self.same(found, first, version, lives),
                    Err(failure) => self.again(context, failure),
                }
            }
            Stage::Clusters { first, version, document } => match first_failure(answers, ErrorCode::UnknownCluster) {
                None => self.delete_clusters(first.saturating_add(CLUSTERS_AT_A_TIME), version, document),
                Some(failure) => self.again(context, failure),
            },
            Stage::Remove => match store::document_deleted(context, &self.keyspace, only(answers)) {
                Ok(()) => answer(ActionResult::Done, None),
                Err(failure) => self.again(context, failure),
            },
        }
    }
}
