//! Ways in to core-raft: messages, membership, hard states.

use super::codec::round_trip;
use base_types::codec::Encode;
use bytes::Bytes;
use core_raft::{HardState, Membership, MembershipChange, Message};

/// Everything core-raft reads from a peer or from the log.
pub fn raft_message(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(message) = Message::from_bytes(bytes.clone()) {
        let _ = (message.kind(), message.is_forced_campaign(), message.snapshot_index());
        // Members are sorted when a snapshot's are written, so the first writing may differ from what
        // was read; it never differs from the second.
        let written = message.to_bytes();
        let again = Message::from_bytes(written.clone()).expect("what was written is read");
        assert_eq!(again.to_bytes(), written);
    }
    round_trip::<Membership>(&bytes);
    round_trip::<MembershipChange>(&bytes);
    round_trip::<HardState>(&bytes);
}
