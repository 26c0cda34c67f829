//! The keyspace documents where they are kept: the `reference` backend of the world cluster.
//!
//! Always: every read is strong and every change a compare-and-set on the version; `PlanContext::documents` passes what
//! was read or written to the core's cache.
//! Held by: `documents_compare_and_set_as_a_map_would`.
//! Not here: what the documents say (`document.rs`).

use crate::document::{document_key, Document, DOCUMENT_PREFIX};
use crate::family::{DocumentNews, PlanContext};
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, ErrorKind, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;
use core_backends::{decode_reply, metadata, reference};
use core_flow::{Call, CallReply, CallResult};

/// Documents a page of a listing has.
pub(crate) const LIST_PAGE: u32 = 100;

fn write(command: &reference::Command) -> Call {
    Call::Write {
        cluster: ClusterName::world(),
        backend: BackendKind::Reference,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    }
}

fn read(query: &reference::Query) -> Call {
    Call::Read {
        cluster: ClusterName::world(),
        backend: BackendKind::Reference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }
}

/// A command to a keyspace's cluster; strong, whatever the cluster's default is.
pub(crate) fn metadata_write(cluster: ClusterName, command: &metadata::Command) -> Call {
    Call::Write {
        cluster,
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    }
}

/// A query to a keyspace's cluster.
pub(crate) fn metadata_read(
    cluster: ClusterName,
    query: &metadata::Query,
    consistency: Option<ReadConsistency>,
) -> Call {
    Call::Read { cluster, backend: BackendKind::Metadata, query: query.to_bytes(), consistency }
}

/// The backend's own reply or refusal.
pub(crate) fn backend_reply<T: Encode>(result: CallResult) -> Result<T, Failure> {
    match result? {
        CallReply::Backend { reply, at, .. } => {
            decode_reply(reply).map_err(|refusal| Failure { refusal, at: Some(at), cluster: None })
        }
        _ => Err(Failure::from(unexpected("a call of a backend ended with another call's reply"))),
    }
}

fn unexpected(message: &str) -> Refusal {
    Refusal::new(ErrorCode::Internal, message)
}

/// Asks for a document.
pub(crate) fn read_document(keyspace: &str) -> Call {
    read(&reference::Query::GetDocument { key: document_key(keyspace).into() })
}

/// Writes a document that has `expected` (`None`: that is not there).
pub(crate) fn write_document(document: &Document, expected: Option<u64>) -> Call {
    write(&reference::Command::PutDocument {
        key: document_key(&document.name).into(),
        expected_version: expected,
        body: document.to_bytes(),
    })
}

/// Removes a document.
pub(crate) fn delete_document(keyspace: &str, expected: u64) -> Call {
    write(&reference::Command::DeleteDocument { key: document_key(keyspace).into(), expected_version: Some(expected) })
}

/// Asks for a cluster's record.
pub(crate) fn resolve_cluster(name: ClusterName) -> Call {
    read(&reference::Query::Resolve { name })
}

/// What `resolve_cluster` found.
pub(crate) fn cluster_resolved(result: CallResult) -> Result<Option<reference::ClusterRecord>, Failure> {
    match backend_reply(result)? {
        reference::Reply::Resolved { record, .. } => Ok(record),
        _ => Err(Failure::from(unexpected("the reference backend answered another question"))),
    }
}

/// Asks for a page of documents.
pub(crate) fn list_documents(start_after: Option<Bytes>) -> Call {
    let prefix = Bytes::from_static(DOCUMENT_PREFIX.as_bytes());
    read(&reference::Query::ListDocuments { prefix, start_after, limit: LIST_PAGE })
}

fn tell(context: &mut PlanContext<'_>, keyspace: &str, version: u64, body: Option<Bytes>) {
    context.state.documents.push(DocumentNews { keyspace: keyspace.to_string(), version, body });
}

/// What `read_document` found.
pub(crate) fn document_read(
    context: &mut PlanContext<'_>,
    keyspace: &str,
    result: CallResult,
) -> Result<Option<(u64, Document)>, Failure> {
    match backend_reply(result)? {
        reference::Reply::Document { document: Some(found) } => {
            let document = Document::decode_body(found.body.clone())?;
            tell(context, keyspace, found.version, Some(found.body));
            Ok(Some((found.version, document)))
        }
        reference::Reply::Document { document: None } => {
            tell(context, keyspace, 0, None);
            Ok(None)
        }
        _ => Err(Failure::from(unexpected("the reference backend answered another question"))),
    }
}

/// The version `write_document` gave.
pub(crate) fn document_written(
    context: &mut PlanContext<'_>,
    document: &Document,
    result: CallResult,
) -> Result<u64, Failure> {
    match backend_reply(result)? {
        reference::Reply::Version { version } => {
            tell(context, &document.name, version, Some(document.to_bytes()));
            Ok(version)
        }
        _ => Err(Failure::from(unexpected("the reference backend answered another question"))),
    }
}

/// What `delete_document` came to.
pub(crate) fn document_deleted(
    context: &mut PlanContext<'_>,
    keyspace: &str,
    result: CallResult,
) -> Result<(), Failure> {
    let _: reference::Reply = backend_reply(result)?;
    tell(context, keyspace, 0, None);
    Ok(())
}

/// A page of documents, and where the next begins.
pub(crate) fn documents_listed(
    context: &mut PlanContext<'_>,
    result: CallResult,
) -> Result<(Vec<Document>, Option<Bytes>), Failure> {
    let reference::Reply::Documents { documents, more } = backend_reply(result)? else {
        return Err(Failure::from(unexpected("the reference backend answered another question")));
    };
    let next = documents.last().filter(|_| more).map(|last| last.key.clone());
    let mut list = Vec::new();
    for found in documents {
        // One that does not decode (a newer hive's) must not hide the others; `DescribeKeyspace` says why.
        let Ok(document) = Document::decode_body(found.body.clone()) else { continue };
        tell(context, &document.name, found.version, Some(found.body));
        list.push(document);
    }
    Ok((list, next))
}

/// Whether a compare-and-set found another version.
pub(crate) fn is_conflict(failure: &Failure) -> bool {
    matches!(failure.refusal.kind(), ErrorKind::Conflict | ErrorKind::Precondition | ErrorKind::NotFound)
}
