//! Ways in to core-raft: messages, membership, hard states.

use super::codec::round_trip;
use bytes::Bytes;
use core_raft::{HardState, Membership, MembershipChange, Message};

/// Everything core-raft reads from a peer or from the log.
pub fn raft_message(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(message) = round_trip::<Message>(&bytes) {
        let _ = (message.kind(), message.is_forced_campaign(), message.snapshot_index());
    }
    round_trip::<Membership>(&bytes);
    round_trip::<MembershipChange>(&bytes);
    round_trip::<HardState>(&bytes);
}
