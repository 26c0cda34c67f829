//! Which watchers want a key: single keys in a hash map, ranges in an interval tree.
//!
//! The tree is a treap: sorted by start, a heap by random priority, and each node knows the greatest end below it. Watchers of
//! one range share a node.
//!
//! Always: a look-up costs about the logarithm of the number of ranges and the number of hits, never a comparison for each
//! watcher. Priorities come from a seed that clients do not know, so none can choose ranges that make the tree deep.
//! Not here: what watchers are sent (`board.rs`).

use base_types::versioned::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// A watcher of a hub.
pub(crate) type WatcherId = u64;

/// Where a range ends: before a key, or never.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    Before(Bytes),
    Open,
}

impl End {
    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < &end[..],
            End::Open => true,
        }
    }
}

/// Watchers by what they want.
pub(super) struct Spans {
    keys: HashMap<Bytes, BTreeSet<WatcherId>>,
    root: Tree,
    /// What the next priority is drawn from.
    seed: u64,
}

type Tree = Option<Box<Node>>;

struct Node {
    start: Bytes,
    end: End,
    /// The greatest end in this node's tree.
    greatest: End,
    priority: u64,
    watchers: BTreeSet<WatcherId>,
    left: Tree,
    right: Tree,
}

impl Spans {
    pub fn new(seed: u64) -> Spans {
        Spans { keys: HashMap::new(), root: None, seed }
    }

    pub fn insert(&mut self, span: &Span, watcher: WatcherId) {
        match range_of(span) {
            Err(key) => {
                self.keys.entry(key.clone()).or_default().insert(watcher);
            }
            Ok((start, end)) => {
                self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let priority = mixed(self.seed);
                self.root = Some(insert(self.root.take(), start, end, priority, watcher));
            }
        }
    }

    pub fn remove(&mut self, span: &Span, watcher: WatcherId) {
        match range_of(span) {
            Err(key) => {
                if let Some(watchers) = self.keys.get_mut(key) {
                    watchers.remove(&watcher);
                    if watchers.is_empty() {
                        self.keys.remove(key);
                    }
                }
            }
            Ok((start, end)) => self.root = remove(self.root.take(), &start, &end, watcher),
        }
    }

    /// Calls for each watcher that wants a key. `true`: it watches this key alone.
    pub fn of(&self, key: &[u8], mut found: impl FnMut(WatcherId, bool)) {
        if let Some(watchers) = self.keys.get(key) {
            watchers.iter().for_each(|watcher| found(*watcher, true));
        }
        stab(&self.root, key, &mut found);
    }
}

/// Whether a span has a key.
pub(super) fn holds(span: &Span, key: &[u8]) -> bool {
    match span {
        Span::One { key: one } => one == key,
        Span::Range { start, end } => &start[..] <= key && key < &end[..],
        Span::From { start } => &start[..] <= key,
    }
}

fn range_of(span: &Span) -> Result<(Bytes, End), &Bytes> {
    match span {
        Span::One { key } => Err(key),
        Span::Range { start, end } => Ok((start.clone(), End::Before(end.clone()))),
        Span::From { start } => Ok((start.clone(), End::Open)),
    }
}

/// A number with all bits mixed (the finalizer of SplitMix64).
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Node {
    fn order(&self, start: &Bytes, end: &End) -> Ordering {
        (start, end).cmp(&(&self.start, &self.end))
    }

    /// Works out the greatest end again after a child has changed.
    fn refresh(&mut self) {
        let children = [&self.left, &self.right].into_iter().flatten().map(|child| &child.greatest);
        let greatest = children.chain([&self.end]).max().cloned();
        self.greatest = greatest.unwrap_or(End::Open);
    }
}

fn insert(tree: Tree, start: Bytes, end: End, priority: u64, watcher: WatcherId) -> Box<Node> {
    let Some(mut node) = tree else {
        let watchers = BTreeSet::from([watcher]);
        return Box::new(Node { start, greatest: end.clone(), end, priority, watchers, left: None, right: None });
    };
    match node.order(&start, &end) {
        Ordering::Equal => {
            node.watchers.insert(watcher);
        }
        Ordering::Less => {
            let child = insert(node.left.take(), start, end, priority, watcher);
            if child.priority > node.priority {
                return turned_right(node, child);
            }
            node.left = Some(child);
        }
        Ordering::Greater => {
            let child = insert(node.right.take(), start, end, priority, watcher);
            if child.priority > node.priority {
                return turned_left(node, child);
            }
            node.right = Some(child);
        }
    }
    node.refresh();
    node
}

/// The left child becomes the top.
fn turned_right(mut node: Box<Node>, mut child: Box<Node>) -> Box<Node> {
    node.left = child.right.take();
    node.refresh();
    child.right = Some(node);
    child.refresh();
    child
}

/// The right child becomes the top.
fn turned_left(mut node: Box<Node>, mut child: Box<Node>) -> Box<Node> {
    node.right = child.left.take();
    node.refresh();
    child.left = Some(node);
    child.refresh();
    child
}

fn remove(tree: Tree, start: &Bytes, end: &End, watcher: WatcherId) -> Tree {
    let mut node = tree?;
    match node.order(start, end) {
        Ordering::Less => node.left = remove(node.left.take(), start, end, watcher),
        Ordering::Greater => node.right = remove(node.right.take(), start, end, watcher),
        Ordering::Equal => {
            node.watchers.remove(&watcher);
            if node.watchers.is_empty() {
                return joined(node.left, node.right);
            }
        }
    }
    node.refresh();
    Some(node)
}

/// Two trees as one; all of the first is below all of the second.
fn joined(left: Tree, right: Tree) -> Tree {
    let (mut left, mut right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (one, other) => return one.or(other),
    };
    if left.priority > right.priority {
        left.right = joined(left.right.take(), Some(right));
        left.refresh();
        Some(left)
    } else {
        right.left = joined(Some(left), right.left.take());
        right.refresh();
        Some(right)
    }
}

fn stab(tree: &Tree, key: &[u8], found: &mut impl FnMut(WatcherId, bool)) {
    let Some(node) = tree else { return };
    if !node.greatest.is_after(key) {
        return;
    }
    stab(&node.left, key, found);
    if &node.start[..] <= key {
        if node.end.is_after(key) {
            node.watchers.iter().for_each(|watcher| found(*watcher, false));
        }
        stab(&node.right, key, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn short_key() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(0u8..4, 0..4).prop_map(Bytes::from)
    }

    fn any_span() -> impl Strategy<Value = Span> {
        prop_oneof![
            short_key().prop_map(|key| Span::One { key }),
            (short_key(), short_key()).prop_map(|(start, end)| Span::Range { start, end }),
            short_key().prop_map(|start| Span::From { start }),
        ]
    }

    /// Compares the order of keys, the heap and the greatest ends; gives the depth.
    fn check(tree: &Tree) -> usize {
        let Some(node) = tree else { return 0 };
        for child in [&node.left, &node.right].into_iter().flatten() {
            assert!(child.priority <= node.priority && child.greatest <= node.greatest);
        }
        assert!(node.left.iter().all(|left| (&left.start, &left.end) < (&node.start, &node.end)));
        assert!(node.right.iter().all(|right| (&right.start, &right.end) > (&node.start, &node.end)));
        assert!(node.end <= node.greatest && !node.watchers.is_empty());
        1 + check(&node.left).max(check(&node.right))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn spans_find_what_a_list_finds(steps in proptest::collection::vec((any_span(), any::<bool>()), 1..60)) {
            let (mut spans, mut list) = (Spans::new(7), Vec::<(Span, WatcherId)>::new());
            for (at, (span, drop_one)) in steps.into_iter().enumerate() {
                if drop_one && !list.is_empty() {
                    let (span, watcher) = list.swap_remove(at % list.len());
                    spans.remove(&span, watcher);
                }
                spans.insert(&span, at as u64);
                list.push((span, at as u64));
                check(&spans.root);
            }
            for key in [&[][..], &[0], &[1, 2], &[3, 3, 3], &[2, 0, 1], &[9]] {
                let mut found = BTreeSet::new();
                spans.of(key, |watcher, _| assert!(found.insert(watcher), "called twice"));
                let wanted = list.iter().filter(|(span, _)| holds(span, key)).map(|(_, watcher)| *watcher).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn ranges_in_order_make_no_deep_tree() {
        let mut spans = Spans::new(1);
        let span = |at: u32| Span::Range {
            start: Bytes::copy_from_slice(&at.to_be_bytes()),
            end: Bytes::copy_from_slice(&(at + 1).to_be_bytes()),
        };
        (0..10_000).for_each(|at| spans.insert(&span(at), u64::from(at)));
        assert!(check(&spans.root) < 60, "a treap of 10,000 nodes is about 30 deep");
        let mut found = Vec::new();
        spans.of(&500u32.to_be_bytes(), |watcher, alone| found.push((watcher, alone)));
        assert_eq!(found, [(500, false)]);
        (0..10_000).for_each(|at| spans.remove(&span(at), u64::from(at)));
        assert!(spans.root.is_none() && spans.keys.is_empty());
    }
}
