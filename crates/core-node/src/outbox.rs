//! What leaves with this turn: one frame for each (node, lane), more where one would grow too large.
//!
//! By design: items for one lane keep their order; what a lane says to itself never leaves the core; frames leave in (node, lane) order.
//! Not here: whether there is a connection (edge-node).

use crate::api::{Effect, Effects, Mail};
use crate::frame::{FrameBuilder, Item, Sender};
use base_types::{FormatLevel, LaneId, NodeId};
use bytes::Bytes;
use std::collections::VecDeque;

/// The frames being filled.
#[derive(Debug)]
pub struct Outbox {
    sender: Sender,
    /// By destination. Few in a turn, and its memory is used again: a sorted list.
    open: Vec<((NodeId, LaneId), FrameBuilder)>,
    closed: Vec<(NodeId, LaneId, Bytes)>,
    own: VecDeque<Item>,
}

impl Outbox {
    /// An empty outbox of this sender.
    pub fn new(sender: Sender) -> Outbox {
        Outbox { sender, open: Vec::new(), closed: Vec::new(), own: VecDeque::new() }
    }

    /// Adds an item for a lane of a node; this node's own other lanes included.
    pub fn push(&mut self, node: NodeId, lane: LaneId, item: &Item) {
        let sender = self.sender;
        if (node, lane) == (sender.node, sender.lane) {
            return self.own.push_back(item.clone());
        }
        let place = self.open_frame(node, lane);
        let builder = &mut self.open[place].1;
        if builder.is_full() {
            let full = core::mem::replace(builder, FrameBuilder::new(lane, sender));
            self.closed.push((node, lane, full.finish()));
        }
        builder.push(item);
    }

    /// Lets a lane of another node hear from this one in this turn: a frame names who sends it, with or without items.
    pub fn greet(&mut self, node: NodeId, lane: LaneId) {
        self.open_frame(node, lane);
    }

    /// The place of a destination's frame.
    fn open_frame(&mut self, node: NodeId, lane: LaneId) -> usize {
        self.open.binary_search_by_key(&(node, lane), |(to, _)| *to).unwrap_or_else(|place| {
            self.open.insert(place, ((node, lane), FrameBuilder::new(lane, self.sender)));
            place
        })
    }

    /// Which life of the world this node belongs to: frames begun from now on tell it.
    pub fn note_incarnation(&mut self, incarnation: u64) {
        self.sender.incarnation = incarnation;
    }

    /// The world's format level: frames from now on tell it. What is open was begun with the level before, and is closed.
    pub fn note_level(&mut self, level: FormatLevel) {
        self.sender.level = level;
        let open = self.open.drain(..).map(|((node, lane), builder)| (node, lane, builder.finish()));
        self.closed.extend(open);
    }

    /// A batch of the lane's log is durable: frames begun from now on tell it.
    pub fn note_durable(&mut self, batch: u64) {
        self.sender.batch = batch;
    }

    /// Who sends.
    pub fn sender(&self) -> Sender {
        self.sender
    }

    /// The next item this lane has said to itself.
    pub fn next_own(&mut self) -> Option<Item> {
        self.own.pop_front()
    }

    /// Whether this lane has said anything to itself that was not taken yet.
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Hands everything out.
    pub fn flush(&mut self, effects: &mut Effects) {
        let open = self.open.drain(..).map(|((node, lane), builder)| (node, lane, builder.finish()));
        for (node, lane, frame) in self.closed.drain(..).chain(open) {
            effects.list.push(if node == self.sender.node {
                Effect::Mail { to: lane, mail: Mail { frame } }
            } else {
                Effect::Send { to: node, lane, frame }
            });
        }
    }
}
