//! What a call's reply says, and calls to the world cluster's `reference` backend.
//!
//! Not here: carrying calls out (core-node), replies of other backends (each family's own files).

use crate::failures;
use crate::{Call, CallReply, CallResult};
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, OrderedAt, ReadConsistency, Refusal};
use core_backends::reference::{ClusterRecord, Command, Query};
use core_cluster::api::Member;

/// What a call's reply says, decoded; a backend's refusal is the failure.
pub fn decode_call<T: Encode>(result: CallResult) -> Result<(T, OrderedAt), Failure> {
    let (reply, at) = match result? {
        CallReply::Backend { reply, at, .. } => (reply, at),
        _ => return Err(failures::internal("a call for a backend was answered without a reply")),
    };
    let value = core_backends::decode_reply(reply).map_err(|refusal: Refusal| Failure {
        refusal,
        at: Some(at),
        cluster: None,
    })?;
    Ok((value, at))
}

/// The members of a record as the lane knows members.
pub fn members_of(record: &ClusterRecord) -> Vec<Member> {
    let member = |member: &core_backends::reference::ClusterMember| Member {
        replica: member.replica,
        node: member.node,
        disk: member.disk,
        learner: member.learner,
    };
    record.members.iter().map(member).collect()
}

/// A command for the world cluster's `reference` backend.
pub fn reference_write(command: &Command) -> Call {
    Call::Write {
        cluster: ClusterName::world(),
        backend: BackendKind::Reference,
        command: command.to_bytes(),
        consistency: None,
        request_id: None,
    }
}

/// A query of the world cluster's `reference` backend.
pub fn reference_query(query: &Query) -> Call {
    Call::Read {
        cluster: ClusterName::world(),
        backend: BackendKind::Reference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }
}
