//! Telling of keyspaces: one, or all of them.
//!
//! By design: strong reads; what was read also refreshes the core's cache, so `DescribeKeyspace` is the
//! way to refresh a map that a cluster has refused.
//! Not here: keys (`map.rs`, `scan.rs`).

use crate::document::Document;
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::unknown_keyspace;
use crate::store;
use base_types::action::{ActionResult, KeyspaceInfo};
use base_types::Refusal;
use core_flow::rounds::{answer, one, only, refuse, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// The most keyspaces in one listing.
const KEYSPACES_LISTED_MAX: usize = 10_000;

/// Describes a keyspace; also reads its document for the cache.
pub struct DescribeKeyspace(InRounds<Describe>);
planner_in_rounds!(DescribeKeyspace, InRounds<Describe>);

impl DescribeKeyspace {
    /// By name.
    pub fn new(keyspace: String) -> DescribeKeyspace {
        DescribeKeyspace(InRounds::new(Describe(keyspace)))
    }
}

struct Describe(String);

impl Rounds<KeyspaceNews> for Describe {
    fn name(&self) -> &'static str {
        "describe keyspace"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            return one(store::read_document(&self.0));
        }
        match store::document_read(context, &self.0, only(answers)) {
            Ok(Some((_, document))) => match document.info() {
                Ok(info) => answer(ActionResult::Keyspace(info), None),
                Err(refusal) => refuse(refusal),
            },
            Ok(None) => refuse(unknown_keyspace(&self.0)),
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

/// Lists keyspaces by name.
pub struct ListKeyspaces(InRounds<List>);
planner_in_rounds!(ListKeyspaces, InRounds<List>);

impl ListKeyspaces {
    /// All of them.
    pub fn new() -> ListKeyspaces {
        ListKeyspaces(InRounds::new(List { found: Vec::new() }))
    }
}

impl Default for ListKeyspaces {
    fn default() -> Self {
        ListKeyspaces::new()
    }
}

struct List {
    found: Vec<KeyspaceInfo>,
}

impl Rounds<KeyspaceNews> for List {
    fn name(&self) -> &'static str {
        "list keyspaces"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            return one(store::list_documents(None));
        }
        let (documents, next) = match store::documents_listed(context, only(answers)) {
            Ok(page) => page,
            Err(failure) => return Step::Done(Err(failure)),
        };
        let infos: Result<Vec<KeyspaceInfo>, Refusal> = documents.iter().map(Document::info).collect();
        match infos {
            Ok(infos) => self.found.extend(infos),
            Err(refusal) => return refuse(refusal),
        }
        match next {
            Some(next) if self.found.len() < KEYSPACES_LISTED_MAX => one(store::list_documents(Some(next))),
            _ => answer(ActionResult::Keyspaces { keyspaces: core::mem::take(&mut self.found) }, None),
        }
    }
}
