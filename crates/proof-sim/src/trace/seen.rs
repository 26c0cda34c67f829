//! What a recorder saw last of nodes, links and replicas: the next look finds what has changed.
//!
//! Not here: when it looks (`world/watch.rs`).

use super::line::{About, Kind, Line};
use super::recorder::{NodeState, Recorder, Reign};
use base_types::ClusterId;
use core_cluster::api::Glance;
use std::collections::{BTreeMap, BTreeSet};

/// A node at the last look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSeen {
    pub state: NodeState,
    pub since_us: u64,
    /// Peers it cannot hear or cannot reach.
    pub cut_from: Vec<usize>,
}

/// A replica at the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReplicaSeen {
    term: u64,
    leads_since_us: Option<u64>,
    quiesced: bool,
    damaged: bool,
}

/// Everything that was seen last.
#[derive(Default)]
pub struct Seen {
    nodes: BTreeMap<usize, NodeSeen>,
    replicas: BTreeMap<(usize, usize, ClusterId), ReplicaSeen>,
    /// When a cluster last lost a leader, and which.
    leaderless: BTreeMap<ClusterId, (u64, usize)>,
}

impl Recorder {
    /// How a cluster is called; its id where nobody knows.
    pub fn about(&self, cluster: ClusterId) -> About {
        let unknown = || About { name: format!("{cluster:?}").into(), id: Some(cluster.0) };
        self.names.get(&cluster.0).cloned().unwrap_or_else(unknown)
    }

    /// Looks at a node. A line is made of what has changed.
    pub fn look_at_node(&mut self, now: u64, node: usize, state: NodeState, cut_from: Vec<usize>) {
        let seen = NodeSeen { state, since_us: now, cut_from };
        let before = match self.seen.nodes.get(&node) {
            Some(before) if (before.state, &before.cut_from) == (state, &seen.cut_from) => return,
            before => before.cloned(),
        };
        let (before_state, since_us) =
            before.as_ref().map_or((NodeState::Down, 0), |before| (before.state, before.since_us));
        let names: Vec<String> = seen.cut_from.iter().map(|peer| format!("n{}", peer + 1)).collect();
        let was_cut = before.as_ref().is_some_and(|before| !before.cut_from.is_empty());
        let told = match state {
            NodeState::Paused if before_state != state => Some("stops, and does not know it".to_string()),
            NodeState::CutOff | NodeState::Partly => Some(format!("is cut off from {}", names.join(" "))),
            NodeState::Up if before_state == NodeState::Paused => Some("continues".to_string()),
            NodeState::Up if was_cut => Some("is cut off from nobody any more".to_string()),
            // Starts and deaths have lines of their own where they happen.
            _ => None,
        };
        if let Some(text) = told.filter(|_| self.wants(now)) {
            let ends = before_state != NodeState::Up && state != before_state;
            let line = Line::new(if state == NodeState::Paused { Kind::Life } else { Kind::Link }, text).node(node);
            self.push(now, if ends { line.lasted(now - since_us) } else { line });
        }
        if before.is_none() || before_state != state {
            self.mark_state(now, node, state);
        }
        if state == NodeState::Down {
            self.forget_replicas(now, node);
        }
        let since_us = if before_state == state { since_us } else { now };
        self.seen.nodes.insert(node, NodeSeen { since_us, ..seen });
    }

    /// Since when the node has been as it is.
    pub fn node_since(&self, node: usize) -> Option<u64> {
        self.seen.nodes.get(&node).map(|seen| seen.since_us)
    }

    /// Looks at the replicas of a core, after its turn.
    pub fn look_at_replicas(&mut self, now: u64, (node, lane): (usize, usize), glances: &[Glance]) {
        for glance in glances {
            self.look_at_replica(now, (node, lane), glance);
        }
        let here: BTreeSet<ClusterId> = glances.iter().map(|glance| glance.cluster).collect();
        let first = (node, lane, ClusterId(0));
        let of_core = self.seen.replicas.range(first..).take_while(|((of, on, _), _)| (*of, *on) == (node, lane));
        let gone: Vec<_> = of_core.filter(|((.., cluster), _)| !here.contains(cluster)).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.forget_replica(now, key, "is gone"));
    }

    fn look_at_replica(&mut self, now: u64, (node, lane): (usize, usize), glance: &Glance) {
        let key = (node, lane, glance.cluster);
        let before = self.seen.replicas.get(&key).copied();
        let term = glance.term.0;
        let was_leader = before.and_then(|before| before.leads_since_us);
        let same_reign = glance.is_leader && was_leader.is_some() && before.is_some_and(|before| before.term == term);
        let leads_since_us = if same_reign { was_leader } else { glance.is_leader.then_some(now) };
        let after = ReplicaSeen { term, leads_since_us, quiesced: glance.quiesced, damaged: glance.damaged };
        if before == Some(after) {
            return;
        }
        self.seen.replicas.insert(key, after);
        if let (Some(since), false) = (was_leader, same_reign) {
            self.end_reign(now, key, since, format!("leads no more, term {term}"));
        }
        if glance.is_leader && !same_reign {
            self.begin_reign(now, key, term);
        } else if before.is_some_and(|before| before.term < term) {
            self.tell_replica(now, key, (None, false), format!("term {term}"));
        }
        if glance.quiesced != before.is_some_and(|before| before.quiesced) {
            let text = if glance.quiesced { "falls quiet" } else { "is quiet no more" };
            self.tell_replica(now, key, (None, true), text.to_string());
        }
        if glance.damaged && !before.is_some_and(|before| before.damaged) {
            self.tell_replica(now, key, (None, false), "calls itself damaged".to_string());
        }
    }

    /// A line about a replica: how long what it ends lasted, and whether it is routine.
    fn tell_replica(
        &mut self,
        now: u64,
        (node, lane, cluster): (usize, usize, ClusterId),
        (lasted_us, routine): (Option<u64>, bool),
        text: String,
    ) {
        if !self.wants(now) {
            return;
        }
        let line = Line::new(Kind::Leader, text).node(node).lane(lane).about(Some(self.about(cluster)));
        self.push(now, Line { lasted_us, routine, ..line });
    }

    fn begin_reign(&mut self, now: u64, key: (usize, usize, ClusterId), term: u64) {
        let (node, _, cluster) = key;
        let gap = self.seen.leaderless.remove(&cluster);
        let after = gap.map_or_else(String::new, |(_, other)| format!(", without a leader since n{}", other + 1));
        self.tell_replica(now, key, (gap.map(|(since, _)| now - since), false), format!("LEADS in term {term}{after}"));
        self.mark_reign(Reign { about: self.about(cluster), node, term, from_us: now, to_us: None });
    }

    fn end_reign(&mut self, now: u64, key: (usize, usize, ClusterId), since: u64, text: String) {
        let (node, _, cluster) = key;
        self.seen.leaderless.insert(cluster, (now, node));
        self.tell_replica(now, key, (Some(now - since), false), text);
        let open = self
            .reigns
            .iter_mut()
            .rev()
            .find(|reign| reign.node == node && reign.about.id == Some(cluster.0) && reign.to_us.is_none());
        open.into_iter().for_each(|reign| reign.to_us = Some(now));
    }

    /// A node's process is gone, and all that its replicas were.
    fn forget_replicas(&mut self, now: u64, node: usize) {
        let first = (node, 0, ClusterId(0));
        let of_node = self.seen.replicas.range(first..).take_while(|((of, ..), _)| *of == node);
        let gone: Vec<_> = of_node.map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.forget_replica(now, key, "died"));
    }

    fn forget_replica(&mut self, now: u64, key: (usize, usize, ClusterId), why: &str) {
        let since = self.seen.replicas.remove(&key).and_then(|seen| seen.leads_since_us);
        since.into_iter().for_each(|since| self.end_reign(now, key, since, format!("leads no more, it {why}")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Filter;
    use super::*;
    use base_types::{Generation, LogIndex, Term, Tick};

    fn glance(cluster: u64, term: u64, is_leader: bool) -> Glance {
        Glance {
            cluster: ClusterId(cluster),
            generation: Generation(1),
            term: Term(term),
            is_leader,
            quiesced: false,
            lease_until: Tick(0),
            applied: LogIndex(0),
            cluster_time_ms: 0,
            damaged: false,
            quarantined: false,
            panicked: false,
            blank: false,
        }
    }

    fn texts(recorder: &mut Recorder) -> Vec<(u64, String, Option<u64>)> {
        recorder.lines().into_iter().map(|line| (line.at_us, line.text, line.lasted_us)).collect()
    }

    #[test]
    fn a_leader_its_death_and_the_next_one_are_told_with_the_gap() {
        let mut recorder = Recorder::new(Filter::default(), 100, 0);
        (0..2).for_each(|node| recorder.look_at_node(0, node, NodeState::Up, Vec::new()));
        recorder.look_at_replicas(10, (0, 0), &[glance(7, 1, true)]);
        recorder.look_at_replicas(11, (1, 0), &[glance(7, 1, false)]);
        recorder.look_at_replicas(20, (0, 0), &[glance(7, 1, true)]);
        recorder.look_at_node(50, 0, NodeState::Down, Vec::new());
        recorder.look_at_replicas(90, (1, 0), &[glance(7, 2, true)]);
        let told = texts(&mut recorder);
        let expected = [
            (10, "LEADS in term 1".to_string(), None),
            (50, "leads no more, it died".to_string(), Some(40)),
            (90, "LEADS in term 2, without a leader since n1".to_string(), Some(40)),
        ];
        assert_eq!(told, expected);
        let reigns: Vec<_> = recorder.reigns.iter().map(|reign| (reign.node, reign.from_us, reign.to_us)).collect();
        assert_eq!(reigns, [(0, 10, Some(50)), (1, 90, None)]);
    }

    #[test]
    fn cuts_and_pauses_are_told_once_and_with_what_they_lasted() {
        let mut recorder = Recorder::new(Filter::default(), 100, 0);
        recorder.look_at_node(0, 0, NodeState::Up, Vec::new());
        recorder.look_at_node(5, 0, NodeState::Up, Vec::new());
        recorder.look_at_node(10, 0, NodeState::CutOff, vec![1, 2]);
        recorder.look_at_node(15, 0, NodeState::CutOff, vec![1, 2]);
        recorder.look_at_node(30, 0, NodeState::Up, Vec::new());
        recorder.look_at_node(40, 0, NodeState::Paused, Vec::new());
        recorder.look_at_node(70, 0, NodeState::Up, Vec::new());
        let expected = [
            (10, "is cut off from n2 n3".to_string(), None),
            (30, "is cut off from nobody any more".to_string(), Some(20)),
            (40, "stops, and does not know it".to_string(), None),
            (70, "continues".to_string(), Some(30)),
        ];
        assert_eq!(texts(&mut recorder), expected);
        assert_eq!(recorder.states.len(), 5);
    }
}
