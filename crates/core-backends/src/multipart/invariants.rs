//! What always holds of the rows of uploads.
//!
//! Always (asserted here): open uploads are counted, and the bytes of their parts; what waits to be
//! collected is counted.
//! Not here: which command closes one (`multipart.rs`).

use super::{decode_upload, keys, UploadState};
use crate::contract::SpaceRead;
use crate::invariants::{count_tag, walk, Checked};
use crate::rows::number;
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;

/// Found and counted; `None`: more than is read.
struct Found {
    open: (Option<u64>, u64),
    held: (Option<u64>, u64),
    freed: (Option<u64>, u64),
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let mut rows = Vec::new();
    let whole = walk(space, &[keys::UPLOAD], &[keys::UPLOAD + 1], &mut |_, row| {
        rows.push(Bytes::copy_from_slice(row));
    })?;
    let mut held = 0;
    for row in rows {
        let upload = decode_upload(row)?;
        let open = matches!(upload.state, UploadState::Open | UploadState::Completing);
        held += if open { upload.bytes } else { 0 };
    }
    Ok(check_found(&Found {
        open: (count_tag(space, keys::AGE)?, number(space, &[keys::OPEN])?),
        held: (whole.map(|_| held), number(space, &[keys::HELD])?),
        freed: (count_tag(space, keys::FREED)?, number(space, &[keys::FREED_COUNT])?),
    }))
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let same = |(rows, counted): (Option<u64>, u64)| rows.is_none_or(|rows| rows == counted);
    holds!(same(found.open), "uploads that are open, and counted: {:?}", found.open);
    holds!(same(found.held), "bytes that their parts have, and counted: {:?}", found.held);
    holds!(same(found.freed), "rows that wait to be collected, and counted: {:?}", found.freed);
    Ok(())
}
