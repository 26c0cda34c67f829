//! The count index: sums over ranges of rows, in levels, kept in the batch of the rows themselves.
//!
//! ```text
//! level 1    [ ''      Σ 6 nodes ] [ 'm'  Σ 5 nodes ]                 a node sums up the nodes below it
//! level 0    [ '' Σ ] [ 'c' Σ ] …  [ 'm' Σ ] [ 'p' Σ ] …              a node sums up its rows
//! rows       a b b b c d …                                            by position: key, then version
//! ```
//!
//! A node is a row: its level and the position where it begins; it ends where the next begins. Nodes
//! split when they are full and join their left neighbour when nearly empty, each by a rule that looks at
//! rows only, so members agree. A level is added when the uppermost has too many nodes to add up.
//!
//! Cost of a put: one seek and one row (two above about 40,000 rows, three above about 2.6 million).
//! Cost of a count: at most `TOP_NODES_MAX` + levels × `NODE_CHILDREN_MAX` nodes and `LEAF_ROWS_MAX` rows
//! for each end, whatever the shard holds.
//!
//! Always: the first node of each level begins at the beginning; where a node begins one of the level
//! below does (model in `tests/`); the sums are exact (`invariants.rs`, mutant `CountIgnoresOverwrite`). Not here: what is counted (`work.rs`).

use super::command::Totals;
use super::keys::{self, CURRENT, INDEX, VERSION};
use super::work::{weight, Work};
use crate::contract::corrupt_row;
use crate::contract::SpaceRead;
use crate::rows::{prefix_end, successor};
use crate::wire::wire_struct;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use core::ops::ControlFlow;

/// A leaf with more rows is split.
const LEAF_ROWS_MAX: u64 = if cfg!(test) { 8 } else { 256 };
/// A node above with more children is split.
const NODE_CHILDREN_MAX: u64 = if cfg!(test) { 6 } else { 128 };
/// A level with more nodes gets one above it.
const TOP_NODES_MAX: u32 = if cfg!(test) { 8 } else { 320 };
/// A node with this part of what it may hold looks for a neighbour to join.
const JOIN_BELOW: u64 = if cfg!(test) { 3 } else { 8 };
/// The most levels: more than any shard comes to.
const HEIGHT_MAX: u8 = 16;

wire_struct! {
    /// A node's sums.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Node {
        pub totals: Totals,
        /// Nodes of the level below (none at level 0).
        pub children: u64,
    }
}

impl Node {
    fn size(&self, level: u8) -> u64 {
        if level == 0 {
            self.totals.rows()
        } else {
            self.children
        }
    }

    fn plus(&self, other: &Node) -> Node {
        Node { totals: self.totals.plus(&other.totals), children: self.children.wrapping_add(other.children) }
    }
}

fn size_max(level: u8) -> u64 {
    if level == 0 {
        LEAF_ROWS_MAX
    } else {
        NODE_CHILDREN_MAX
    }
}

/// Levels stand for themselves from '0' on, so that no row ends in `\x01`.
fn node_key(level: u8, position: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(2 + position.len());
    out.extend_from_slice(&[INDEX, b'0' + level]);
    out.extend_from_slice(position);
    out.into()
}

fn decode(row: &[u8]) -> Result<Node, EngineError> {
    Node::from_bytes(Bytes::copy_from_slice(row)).map_err(|error| corrupt_row("a node of a shard's count index", error))
}

/// Visits nodes of a level from `start` (inclusive) until `visit` breaks.
fn each_node(
    space: &dyn SpaceRead,
    level: u8,
    (start, end): (&[u8], Option<&[u8]>),
    direction: Direction,
    mut visit: impl FnMut(&[u8], Node) -> ControlFlow<()>,
) -> Result<(), EngineError> {
    let first = node_key(level, start);
    let last = end.map_or_else(|| Bytes::copy_from_slice(&[INDEX, b'0' + level + 1]), |end| node_key(level, end));
    let mut damage = None;
    space.range(KeyRange { start: &first, end: Some(&last) }, direction, &mut |key, row| match decode(row) {
        Ok(node) => visit(&key[2..], node),
        Err(error) => {
            damage = Some(error);
            ControlFlow::Break(())
        }
    })?;
    damage.map_or(Ok(()), Err)
}

/// The node a position belongs to, and where it begins.
fn node_of(space: &dyn SpaceRead, level: u8, position: &[u8]) -> Result<(Bytes, Node), EngineError> {
    let mut found = (Bytes::new(), Node::default());
    each_node(space, level, (&[], Some(&successor(position))), Direction::Backward, |start, node| {
        found = (Bytes::copy_from_slice(start), node);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Where the node behind this one begins.
fn next_start(space: &dyn SpaceRead, level: u8, start: &[u8]) -> Result<Option<Bytes>, EngineError> {
    let mut found = None;
    each_node(space, level, (&successor(start), None), Direction::Forward, |next, _| {
        found = Some(Bytes::copy_from_slice(next));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Takes changes into the index, by position.
pub(super) fn add(work: &mut Work<'_>, changes: Vec<(Bytes, Totals)>) -> Result<(), EngineError> {
    let mut changes: Vec<(Bytes, Node)> =
        changes.into_iter().map(|(at, totals)| (at, Node { totals, children: 0 })).collect();
    changes.sort_by(|left, right| left.0.cmp(&right.0));
    let mut level = 0;
    while level < work.shard.height {
        let mut above = Vec::new();
        while let Some((last, _)) = changes.last() {
            let (start, node) = node_of(work.space, level, last)?;
            let first = changes.partition_point(|(at, _)| at < &start);
            let change = changes.drain(first..).fold(Node::default(), |sum, (_, change)| sum.plus(&change));
            let added = change_node(work, level, &start, node, &change)?;
            // Children are counted in the level they lie in; for the level above a change is the sum
            // and how many nodes came or went.
            above.push((start, Node { totals: change.totals, children: added as u64 }));
        }
        above.reverse();
        changes = above;
        level += 1;
    }
    let added = changes.iter().fold(0u64, |sum, (_, change)| sum.wrapping_add(change.children));
    work.shard.top_nodes = work.shard.top_nodes.wrapping_add(added as u32);
    grow(work)
}

/// Changes one node, and splits or joins it. Returns how many nodes came (or, below zero, went).
fn change_node(work: &mut Work<'_>, level: u8, start: &Bytes, before: Node, change: &Node) -> Result<i64, EngineError> {
    let node = before.plus(change);
    let size = node.size(level);
    if size > size_max(level) {
        return split(work, level, start, before, node);
    }
    let shrank = size < before.size(level);
    if shrank && is_few(level, size) && join(work, level, start, before, node)? {
        return Ok(-1);
    }
    set(work, level, start, Some(before), node)?;
    if shrank && is_few(level, size) {
        // The left neighbour is full or another node's; the right one may be as empty as this.
        if let Some(right) = next_start(work.space, level, start)? {
            let (_, neighbour) = node_of(work.space, level, &right)?;
            return Ok(-i64::from(join(work, level, &right, neighbour, neighbour)?));
        }
    }
    Ok(0)
}

fn set(work: &mut Work<'_>, level: u8, start: &[u8], before: Option<Node>, node: Node) -> Result<(), EngineError> {
    let key = node_key(level, start);
    work.remember(&key, before.map(|before| before.to_bytes()).as_ref())?;
    work.space.put(key, node.to_bytes());
    Ok(())
}

/// Whether a node should look for a neighbour to join: not at every size, for neighbours may be full.
fn is_few(level: u8, size: u64) -> bool {
    size <= size_max(level) / JOIN_BELOW && (size.is_multiple_of(8) || size <= 2)
}

/// Adds a nearly empty node to its left neighbour, unless the level above begins a node here too.
fn join(work: &mut Work<'_>, level: u8, start: &Bytes, before: Node, node: Node) -> Result<bool, EngineError> {
    let below_top = level + 1 < work.shard.height;
    if start.is_empty() {
        return Ok(false);
    }
    if below_top && work.space.get(&node_key(level + 1, start))?.is_some() {
        return Ok(false);
    }
    let mut left = None;
    each_node(work.space, level, (&[], Some(start)), Direction::Backward, |at, node| {
        left = Some((Bytes::copy_from_slice(at), node));
        ControlFlow::Break(())
    })?;
    let Some((at, neighbour)) = left else { return Ok(false) };
    let mut together = neighbour.plus(&node);
    if node.size(level) > 0 && together.size(level) > size_max(level) / 4 * 3 {
        return Ok(false);
    }
    let key = node_key(level, start);
    work.remember(&key, Some(&before.to_bytes()))?;
    work.space.delete(key);
    // The first node below had to stay while this one began here; nothing may ever touch it again.
    if level > 0 {
        let (child_start, child) = node_of(work.space, level - 1, start)?;
        let few = child_start == start && is_few(level - 1, child.size(level - 1));
        if few && join(work, level - 1, start, child, child)? {
            together.children = together.children.saturating_sub(1);
        }
    }
    set(work, level, &at, Some(neighbour), together)?;
    Ok(true)
}

/// Cuts a node into pieces of half a node each. Returns how many nodes came.
fn split(work: &mut Work<'_>, level: u8, start: &Bytes, before: Node, node: Node) -> Result<i64, EngineError> {
    let end = next_start(work.space, level, start)?;
    let pieces = match level {
        0 => cut_leaf(work.space, start, end.as_deref())?,
        _ => cut_node(work.space, level, start, end.as_deref())?,
    };
    // What the walk found is what the sums say: a difference would be passed on for ever.
    let whole = pieces.iter().fold(Node::default(), |sum, (_, piece)| sum.plus(piece));
    if whole != node && !mutants_count() {
        return Err(EngineError::Corrupt(format!(
            "a node of a shard's count index holds {node:?}, its rows {whole:?}"
        )));
    }
    let came = pieces.len() as i64 - 1;
    for (at, (piece_start, piece)) in pieces.into_iter().enumerate() {
        set(work, level, &piece_start, (at == 0).then_some(before), piece)?;
    }
    Ok(came)
}

/// Whether a planted bug makes the sums wrong on purpose; the tests then must find it elsewhere.
fn mutants_count() -> bool {
    planted(Mutant::CountIgnoresOverwrite)
}

/// The rows of one table in a span of positions.
fn each_row(
    space: &dyn SpaceRead,
    table: u8,
    start: &[u8],
    end: Option<&[u8]>,
    mut visit: impl FnMut(&[u8], Totals),
) -> Result<(), EngineError> {
    let first = keys::of_key(table, start);
    let last = end.map_or_else(|| Bytes::copy_from_slice(&[table + 1]), |end| keys::of_key(table, end));
    if last <= first {
        return Ok(());
    }
    let mut damage = None;
    space.range(KeyRange { start: &first, end: Some(&last) }, Direction::Forward, &mut |key, row| {
        match weight(table, row) {
            Ok(totals) => visit(&key[1..], totals),
            Err(error) => damage = Some(error),
        }
        if damage.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(()), Err)
}

fn cut_leaf(space: &dyn SpaceRead, start: &Bytes, end: Option<&[u8]>) -> Result<Vec<(Bytes, Node)>, EngineError> {
    let mut rows: Vec<(Bytes, Totals)> = Vec::new();
    each_row(space, VERSION, start, end, |at, totals| rows.push((Bytes::copy_from_slice(at), totals)))?;
    let half = (LEAF_ROWS_MAX / 2) as usize;
    let mut pieces = vec![(start.clone(), Node::default())];
    for (at, (row, totals)) in rows.iter().enumerate() {
        // The last piece may be up to a whole one, so that two halves do not become two and a rest.
        if at > 0 && at % half == 0 && rows.len() - at >= half {
            pieces.push((leaf_start(&rows[at - 1].0, row), Node::default()));
        }
        add_to_last(&mut pieces, totals);
    }
    each_row(space, CURRENT, start, end, |at, totals| {
        let place = pieces.partition_point(|(start, _)| start[..] <= *at).max(1);
        pieces[place - 1].1.totals = pieces[place - 1].1.totals.plus(&totals);
    })?;
    Ok(pieces)
}

fn add_to_last(pieces: &mut [(Bytes, Node)], totals: &Totals) {
    if let Some((_, node)) = pieces.last_mut() {
        node.totals = node.totals.plus(totals);
    }
}

/// Where a leaf with this first row begins: with its key, if the row before has another.
fn leaf_start(before: &[u8], row: &Bytes) -> Bytes {
    let closed = crate::s3_key::closed_bytes(row).unwrap_or(row.len());
    if before.starts_with(&row[..closed]) {
        return row.clone();
    }
    row.slice(..closed)
}

fn cut_node(
    space: &dyn SpaceRead,
    level: u8,
    start: &Bytes,
    end: Option<&[u8]>,
) -> Result<Vec<(Bytes, Node)>, EngineError> {
    let mut children: Vec<(Bytes, Totals)> = Vec::new();
    each_node(space, level - 1, (start, end), Direction::Forward, |at, node| {
        children.push((Bytes::copy_from_slice(at), node.totals));
        ControlFlow::Continue(())
    })?;
    Ok(gather(start, &children, (NODE_CHILDREN_MAX / 2) as usize))
}

fn gather(start: &Bytes, children: &[(Bytes, Totals)], each: usize) -> Vec<(Bytes, Node)> {
    let mut pieces = vec![(start.clone(), Node::default())];
    for (at, (child, totals)) in children.iter().enumerate() {
        if at > 0 && at % each == 0 && children.len() - at >= each {
            pieces.push((child.clone(), Node::default()));
        }
        add_to_last(&mut pieces, totals);
        if let Some((_, node)) = pieces.last_mut() {
            node.children += 1;
        }
    }
    pieces
}

/// Adds a level above one with too many nodes, or takes away one with a single node.
fn grow(work: &mut Work<'_>) -> Result<(), EngineError> {
    let level = work.shard.height;
    if work.shard.top_nodes > TOP_NODES_MAX && level < HEIGHT_MAX {
        let nodes = cut_node(work.space, level, &Bytes::new(), None)?;
        if !planted(Mutant::TopNodesCounted) {
            work.shard.top_nodes = nodes.len() as u32;
        }
        for (start, node) in nodes {
            set(work, level, &start, None, node)?;
        }
        work.shard.height += 1;
    } else if work.shard.top_nodes == 1 && level > 1 {
        let (start, node) = node_of(work.space, level - 1, &[])?;
        if node.children <= u64::from(TOP_NODES_MAX / 2) {
            let key = node_key(level - 1, &start);
            work.remember(&key, Some(&node.to_bytes()))?;
            work.space.delete(key);
            work.shard.height -= 1;
            work.shard.top_nodes = node.children as u32;
        }
    }
    Ok(())
}

/// What a level's nodes sum up to, and how many there are.
pub(super) fn sum_of_level(space: &dyn SpaceRead, level: u8) -> Result<(Totals, u64), EngineError> {
    let (mut sum, mut nodes) = (Totals::default(), 0);
    each_node(space, level, (&[], None), Direction::Forward, |_, node| {
        (sum, nodes) = (sum.plus(&node.totals), nodes + 1);
        ControlFlow::Continue(())
    })?;
    Ok((sum, nodes))
}

/// What the rows sum up to.
pub(super) fn sum_of_rows(space: &dyn SpaceRead) -> Result<Totals, EngineError> {
    let mut sum = Totals::default();
    for table in [CURRENT, VERSION] {
        each_row(space, table, &[], None, |_, totals| sum = sum.plus(&totals))?;
    }
    Ok(sum)
}

/// Everything before a position.
fn before(space: &dyn SpaceRead, height: u8, position: &[u8]) -> Result<Totals, EngineError> {
    let mut sum = Totals::default();
    let mut start = Bytes::new();
    for level in (0..height.max(1)).rev() {
        let (node, _) = node_of(space, level, position)?;
        each_node(space, level, (&start, Some(&node)), Direction::Forward, |_, node| {
            sum = sum.plus(&node.totals);
            ControlFlow::Continue(())
        })?;
        start = node;
    }
    for table in [CURRENT, VERSION] {
        each_row(space, table, &start, Some(position), |_, totals| sum = sum.plus(&totals))?;
    }
    Ok(sum)
}

/// Exactly what has this prefix. `space` may be a snapshot; `height` and `totals` are then the pin's.
pub(super) fn count(space: &dyn SpaceRead, height: u8, totals: &Totals, prefix: &[u8]) -> Result<Totals, EngineError> {
    let raised = crate::s3_key::raise(prefix);
    if raised.is_empty() {
        return Ok(*totals);
    }
    let low = before(space, height, &raised)?;
    let high = match prefix_end(&raised) {
        Some(end) => before(space, height, &end)?,
        None => *totals,
    };
    Ok(high.minus(&low))
}

/// The key with so many keys (or rows, `by_rows`) before it; `None` behind the last.
pub(super) fn key_at(
    space: &dyn SpaceRead,
    height: u8,
    rank: u64,
    by_rows: bool,
) -> Result<Option<Bytes>, EngineError> {
    let measure = |totals: &Totals| if by_rows { totals.rows() } else { totals.keys };
    let mut left = rank;
    let mut start = Bytes::new();
    for level in (0..height.max(1)).rev() {
        let mut chosen = start.clone();
        each_node(space, level, (&start, None), Direction::Forward, |at, node| {
            chosen = Bytes::copy_from_slice(at);
            if measure(&node.totals) > left {
                return ControlFlow::Break(());
            }
            left -= measure(&node.totals);
            ControlFlow::Continue(())
        })?;
        start = chosen;
    }
    let table = if by_rows { VERSION } else { CURRENT };
    let mut found = None;
    let first = keys::of_key(table, &start);
    space.range(KeyRange { start: &first, end: Some(&[table + 1]) }, Direction::Forward, &mut |key, _| {
        if left == 0 {
            found = Some(Bytes::copy_from_slice(key));
            return ControlFlow::Break(());
        }
        left -= 1;
        ControlFlow::Continue(())
    })?;
    found.map(|row| Ok(keys::client_key(keys::closed_of(&row)?))).transpose()
}
