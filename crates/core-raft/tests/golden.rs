//! Raft messages, memberships and hard states are the bytes of docs/formats/golden.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_types::codec::Encode;
use core_raft::{HardState, Membership, MembershipChange, Message};

fn again<T: Encode>(bytes: &[u8]) -> bool {
    T::from_bytes(bytes.to_vec().into()).is_ok_and(|value| value.to_bytes() == bytes)
}

#[test]
fn messages_are_those_of_the_first_release() {
    for (name, bytes) in golden::lines("raft-messages") {
        let forms = [again::<Message>, again::<Membership>, again::<MembershipChange>, again::<HardState>];
        assert!(forms.iter().any(|form| form(&bytes)), "{name} is written otherwise now");
    }
}
