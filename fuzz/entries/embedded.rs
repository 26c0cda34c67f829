//! Ways in to edge-embedded: an entry of a core's log, which core-log's checksums have let through.
//!
//! Not here: the log itself (log.rs), the store's marker (JSON).

/// The records of an entry.
pub fn embedded_entry(data: &[u8]) {
    edge_embedded::fuzz_entry(data);
}
