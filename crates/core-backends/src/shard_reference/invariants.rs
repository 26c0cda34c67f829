//! What always holds of the rows of a bucket's map.
//!
//! Always (asserted here): the entries cover all keys without gap or overlap; no shard is in two of them; what they name was
//! given; the flows under way are counted (mutant `FlowsCounted`).
//! Not here: what a flow's phase allows (`flow.rs`).

use super::{entries, load, Entry, Head, ENTRY, FLOW, HEAD};
use crate::contract::SpaceRead;
use crate::invariants::{count_tag, Checked};
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;
use std::collections::BTreeSet;

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let head: Option<Head> = load(space, &[HEAD], "the head of a bucket's map")?;
    let Some(head) = head else { return Ok(Ok(())) };
    if count_tag(space, ENTRY)?.is_none() {
        return Ok(Ok(()));
    }
    Ok(check_map(&head, &entries(space)?, count_tag(space, FLOW)?))
}

fn check_map(head: &Head, entries: &[Entry], flows: Option<u64>) -> Result<(), Broken> {
    let counted = u64::from(head.flows);
    holds!(flows.is_none_or(|flows| flows == counted), "{flows:?} flows are under way, and {counted} are counted");
    let mut next = Some(Bytes::new());
    let mut shards = BTreeSet::new();
    for Entry { shard, epoch, range, .. } in entries {
        let start = &range.start;
        holds!(next.as_ref() == Some(start), "shard {shard} begins at {start:?}, and the one before ends at {next:?}");
        holds!(shards.insert(*shard), "shard {shard} is in the map twice");
        holds!(
            *shard <= head.last_shard && *epoch <= head.last_epoch,
            "shard {shard} of epoch {epoch} was never given ({} and {} were)",
            head.last_shard,
            head.last_epoch
        );
        next.clone_from(&range.end);
    }
    holds!(next.is_none(), "no shard has the keys from {next:?} on");
    Ok(())
}
