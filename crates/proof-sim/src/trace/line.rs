//! One line of a trace, and which lines a reader wants.
//!
//! Always: a filter keeps or drops a line by the line alone.
//! Not here: how many lines are kept (`recorder`), how they look (`replay`).

use std::sync::Arc;

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A core took an event.
    Turn,
    /// A core wrote a log line.
    Note,
    /// What a node can reach changed.
    Link,
    /// Leadership or a term changed.
    Leader,
    /// A fault of the plan.
    Fault,
    /// A node starts, dies, pauses or refuses.
    Life,
    /// A client's operation.
    Client,
    /// A client's operation that failed, or whose outcome is unknown.
    Failed,
    /// A phase of the run begins.
    Phase,
    /// A promise was broken.
    Violation,
}

impl Kind {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Turn => "turn",
            Kind::Note => "note",
            Kind::Link => "link",
            Kind::Leader => "leader",
            Kind::Fault => "fault",
            Kind::Life => "life",
            Kind::Client => "client",
            Kind::Failed => "failed",
            Kind::Phase => "phase",
            Kind::Violation => "violation",
        }
    }

    /// What makes it stand out in a page.
    pub fn mark(self) -> &'static str {
        match self {
            Kind::Turn | Kind::Note | Kind::Client => "  ",
            Kind::Link => "//",
            Kind::Leader => "=>",
            Kind::Fault => "##",
            Kind::Life => "--",
            Kind::Failed => "xx",
            Kind::Phase => "==",
            Kind::Violation => "!!",
        }
    }

    /// It concerns every node where it names none.
    fn concerns_all_nodes(self) -> bool {
        matches!(self, Kind::Fault | Kind::Phase | Kind::Violation)
    }

    /// It concerns every cluster where it names none.
    fn concerns_all_clusters(self) -> bool {
        matches!(self, Kind::Fault | Kind::Phase | Kind::Violation | Kind::Life | Kind::Link)
    }
}

/// A cluster, keyspace or bucket as lines name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct About {
    /// Its full name.
    pub name: Arc<str>,
    /// Its id, if it is a cluster's.
    pub id: Option<u64>,
}

impl About {
    /// A keyspace, a bucket, or a cluster whose id is not at hand.
    pub fn named(name: &str) -> About {
        About { name: name.into(), id: None }
    }

    /// The name without its backends: `t0` of `metadata/redis@t0`.
    pub fn short(&self) -> &str {
        self.name.split_once('@').map_or(&*self.name, |(_, tail)| tail)
    }

    /// Whether a reader's word means it: its id (`7` or `c7`), its name, the name's end, or the keyspace it belongs to.
    pub fn answers_to(&self, word: &str) -> bool {
        let id = |id: u64| word == id.to_string() || word.strip_prefix('c') == Some(&id.to_string());
        let of_keyspace = |tail: &str| tail.strip_prefix("ks-")?.strip_prefix(word)?.starts_with('-').then_some(());
        word == &*self.name || word == self.short() || self.id.is_some_and(id) || of_keyspace(self.short()).is_some()
    }
}

/// Something that happened, for a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Virtual time since the run began; set when it is recorded.
    pub at_us: u64,
    pub kind: Kind,
    /// Seldom looked for: timers, disk writes that end, heartbeats.
    pub routine: bool,
    /// Nodes count from 0, as in the world; pages name them from 1.
    pub node: Option<usize>,
    pub peer: Option<usize>,
    pub lane: Option<usize>,
    pub about: Option<About>,
    /// How long it took, or what it ends lasted.
    pub lasted_us: Option<u64>,
    /// The record of the history that it is about.
    pub record: Option<u64>,
    pub text: String,
}

impl Line {
    /// A line that names nobody yet.
    pub fn new(kind: Kind, text: impl Into<String>) -> Line {
        Line {
            at_us: 0,
            kind,
            routine: false,
            node: None,
            peer: None,
            lane: None,
            about: None,
            lasted_us: None,
            record: None,
            text: text.into(),
        }
    }

    pub fn node(self, node: usize) -> Line {
        Line { node: Some(node), ..self }
    }

    pub fn peer(self, peer: usize) -> Line {
        Line { peer: Some(peer), ..self }
    }

    pub fn lane(self, lane: usize) -> Line {
        Line { lane: Some(lane), ..self }
    }

    pub fn about(self, about: Option<About>) -> Line {
        Line { about, ..self }
    }

    pub fn lasted(self, us: u64) -> Line {
        Line { lasted_us: Some(us), ..self }
    }

    pub fn record(self, id: u64) -> Line {
        Line { record: Some(id), ..self }
    }

    pub fn routine(self, routine: bool) -> Line {
        Line { routine, ..self }
    }
}

/// Which lines a reader wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// From this moment of virtual time …
    pub from_us: Option<u64>,
    /// … and before this one.
    pub to_us: Option<u64>,
    /// Of this node (from 0), or of what happens to all.
    pub node: Option<usize>,
    /// Of this cluster, keyspace or bucket, or of what happens to whole nodes.
    pub cluster: Option<String>,
}

impl Filter {
    /// Whether the moment is in it.
    pub fn covers(&self, at_us: u64) -> bool {
        self.from_us.is_none_or(|from| from <= at_us) && self.to_us.is_none_or(|to| at_us < to)
    }

    /// Whether the line is wanted.
    pub fn keeps(&self, line: &Line) -> bool {
        let of_node = |node: usize| match (line.node, line.peer) {
            (None, None) => line.kind.concerns_all_nodes(),
            (one, other) => one == Some(node) || other == Some(node),
        };
        let of_cluster = |word: &str| match &line.about {
            None => line.kind.concerns_all_clusters(),
            Some(about) => about.answers_to(word),
        };
        self.covers(line.at_us) && self.node.is_none_or(of_node) && self.cluster.as_deref().is_none_or(of_cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind) -> Line {
        Line { at_us: 5_000, ..Line::new(kind, "it") }
    }

    fn about(name: &str, id: u64) -> Option<About> {
        Some(About { name: name.into(), id: Some(id) })
    }

    #[test]
    fn a_time_filter_keeps_from_up_to_before_to() {
        let filter = |from_us, to_us| Filter { from_us, to_us, ..Filter::default() };
        for kind in [Kind::Turn, Kind::Fault, Kind::Violation] {
            assert!(filter(None, None).keeps(&line(kind)));
            assert!(filter(Some(5_000), Some(5_001)).keeps(&line(kind)));
            assert!(!filter(Some(5_001), None).keeps(&line(kind)));
            assert!(!filter(None, Some(5_000)).keeps(&line(kind)));
        }
    }

    #[test]
    fn a_node_filter_keeps_its_lines_and_what_concerns_all() {
        let filter = Filter { node: Some(2), ..Filter::default() };
        assert!(filter.keeps(&line(Kind::Turn).node(2)));
        assert!(filter.keeps(&line(Kind::Turn).node(0).peer(2)), "what another node hears from it");
        assert!(filter.keeps(&line(Kind::Fault)), "a fault of the whole network");
        assert!(filter.keeps(&line(Kind::Violation)) && filter.keeps(&line(Kind::Phase)));
        assert!(!filter.keeps(&line(Kind::Turn).node(1)));
        assert!(!filter.keeps(&line(Kind::Fault).node(1)), "another node's fault");
        assert!(!filter.keeps(&line(Kind::Client)), "a client that reached no node");
    }

    #[test]
    fn a_cluster_filter_keeps_its_lines_and_what_happens_to_nodes() {
        let of = |word: &str| Filter { cluster: Some(word.to_string()), ..Filter::default() };
        let turn = line(Kind::Turn).node(1).about(about("metadata/redis@t0", 7));
        for word in ["t0", "metadata/redis@t0", "7", "c7"] {
            assert!(of(word).keeps(&turn), "{word}");
        }
        for word in ["t", "t00", "8", "c8", "c", ""] {
            assert!(!of(word).keeps(&turn), "{word}");
        }
        let of_keyspace = line(Kind::Turn).about(about("metadata@ks-ks0-1", 9));
        assert!(of("ks0").keeps(&of_keyspace) && !of("ks").keeps(&of_keyspace) && !of("ks1").keeps(&of_keyspace));
        for kind in [Kind::Fault, Kind::Life, Kind::Link, Kind::Phase, Kind::Violation] {
            assert!(of("t0").keeps(&line(kind).node(1)), "{kind:?}");
        }
        assert!(!of("t0").keeps(&line(Kind::Turn).node(1)), "a timer belongs to no cluster");
        assert!(!of("t0").keeps(&line(Kind::Failed).about(Some(About::named("bucket0")))));
    }

    #[test]
    fn all_parts_of_a_filter_hold_together() {
        let filter = Filter { from_us: Some(0), to_us: Some(9_000), node: Some(1), cluster: Some("t0".to_string()) };
        let good = line(Kind::Turn).node(1).about(about("metadata/redis@t0", 7));
        assert!(filter.keeps(&good));
        assert!(!filter.keeps(&Line { at_us: 9_000, ..good.clone() }));
        assert!(!filter.keeps(&Line { node: Some(0), ..good.clone() }));
        assert!(!filter.keeps(&Line { about: about("metadata/redis@t1", 8), ..good }));
    }
}
