//! What one read gives: rows within a limit and a number of bytes, and a count.
//!
//! Always: a page that does not hold all says where the next begins; a count that did not come to the end says how far it came.
//! Not here: the walk itself (`read.rs`), which stamp is read (`history.rs`).

use super::read::{walk_at, walk_newest, Over};
use super::rows::{Bounds, RowRef};
use super::{Filter, Page, Pair, Read, PAGE_ROWS_MAX};
use crate::contract::SpaceRead;
use base_engine::EngineError;
use bytes::Bytes;
use core::ops::ControlFlow;

/// What a row takes in a page beside its key and value, about.
const ROW_BYTES: usize = 32;

/// Which rows are read.
pub(super) enum When {
    /// The newest, with what a commit has staged.
    Newest(Over),
    At(u64),
}

/// What reads may still use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub visits: u32,
    pub bytes: usize,
}

fn takes(filter: &Filter, row: &RowRef<'_>) -> bool {
    let within = |number: u64, least: u64, most: u64| number >= least && (most == 0 || number <= most);
    within(row.modified, filter.modified_min, filter.modified_max)
        && within(row.created, filter.created_min, filter.created_max)
}

/// Reads a page.
pub(super) fn read(space: &dyn SpaceRead, read: &Read, when: When, room: &mut Room) -> Result<Page, EngineError> {
    let limit = if read.limit == 0 { PAGE_ROWS_MAX } else { read.limit.min(PAGE_ROWS_MAX) } as usize;
    let (mut page, mut bytes) = (Page::default(), room.bytes);
    let mut visit = |key: &[u8], row: RowRef<'_>| {
        if !read.count_only && page.next.is_none() && takes(&read.filter, &row) {
            let value = if read.keys_only { 0 } else { row.value.len() };
            let size = key.len() + value + ROW_BYTES;
            if page.rows.len() < limit && size <= bytes {
                bytes -= size;
                page.rows.push(Pair { key: Bytes::copy_from_slice(key), row: row.to_row(!read.keys_only) });
            } else {
                page.next = Some(Bytes::copy_from_slice(key));
            }
        }
        if page.next.is_some() && !read.count {
            return ControlFlow::Break(());
        }
        page.count += 1;
        ControlFlow::Continue(())
    };
    let bounds = Bounds::of(&read.span);
    let stopped = match when {
        When::Newest(over) => walk_newest(space, &bounds, over, &mut room.visits, &mut visit)?,
        When::At(stamp) => walk_at(space, &bounds, stamp, &mut room.visits, &mut visit)?,
    };
    room.bytes = bytes;
    page.counted_to.clone_from(&stopped);
    if page.next.is_none() && !read.count_only {
        page.next = stopped;
    }
    Ok(page)
}
