//! The position of an operation, as answers and refusals show it: `at`.
//!
//! Held by the golden answers (`golden_answers`). Not here: what is around it (`answer.rs`, `error.rs`).

use crate::json::{write_number, write_text};
use base_types::{ClusterName, OrderedAt};

/// Writes `,"at":{…}`: the cluster by name and by the id it has in this life.
pub(crate) fn write_at(at: &OrderedAt, cluster: Option<&ClusterName>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"at\":{\"cluster\":");
    match cluster {
        Some(name) => write_text(name.as_str(), out),
        None => write_number(at.cluster.0, out),
    }
    out.extend_from_slice(b",\"id\":");
    write_number(at.cluster.0, out);
    out.extend_from_slice(b",\"generation\":");
    write_number(at.generation.0, out);
    out.extend_from_slice(b",\"term\":");
    write_number(at.term.0, out);
    out.extend_from_slice(b",\"index\":");
    write_number(at.index.0, out);
    // A read stands behind every write of its index: it has no place among them.
    if at.position != u32::MAX {
        out.extend_from_slice(b",\"position\":");
        write_number(at.position, out);
    }
    out.push(b'}');
}
