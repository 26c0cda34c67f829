//! Stories of a cluster's life as text: `testdata/*.txt` makes nodes die, write and wait, and shows what
//! clients and operators see, and on request what members say to each other.
//!
//! Always: nodes go by letters given by part, not by number (A leads when `cast` is said), and no moment
//! is shown, so that a story changes only when the behaviour does.
//! Not here: Raft's messages one by one (core-raft's stories). After a wanted change:
//! `REWRITE=1 cargo test -p core-cluster golden`, then read the difference.

use super::harness::*;
use crate::api::*;
use crate::wire::Payload;
use base_types::codec::Encode;
use base_types::{DiskId, NodeId, ReadConsistency, ReplicaId, Ticket, WriteConsistency};
use datadriven::TestCase;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Longer waits are mistakes in a script.
const WAIT_MS_MAX: u64 = 20_000;
const DEADLINE_MS: u64 = 10_000;

struct Story {
    world: World,
    /// Letter to node.
    cast: BTreeMap<String, u64>,
    /// Kinds of messages that are shown.
    shown: Vec<String>,
    seen: BTreeMap<u64, String>,
    admin: Option<Ticket>,
    out: String,
}

impl Story {
    fn new() -> Story {
        let world = World::empty(0, 0);
        Story {
            world,
            cast: BTreeMap::new(),
            shown: Vec::new(),
            seen: BTreeMap::new(),
            admin: None,
            out: String::new(),
        }
    }

    fn say(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.out, "{}", text.as_ref());
    }

    fn letter(&self, node: u64) -> String {
        let found = self.cast.iter().find(|(_, of)| **of == node).map(|(letter, _)| letter.clone());
        found.unwrap_or_else(|| format!("node {node}"))
    }

    /// A leads; the others in order; nodes without a replica last.
    fn cast(&mut self) {
        let leader = self.world.leader();
        let mut order = vec![leader];
        let ids: Vec<u64> = self.world.nodes.keys().map(|id| id.0).collect();
        order.extend(ids.into_iter().filter(|id| *id != leader));
        let letters = ["A", "B", "C", "D", "E"].map(str::to_string);
        self.cast = letters.into_iter().zip(order).collect();
        self.seen = self.cast.values().map(|node| (*node, self.describe(*node))).collect();
    }

    fn describe(&self, node: u64) -> String {
        let Some(lane) = self.world.nodes.get(&NodeId(node)).and_then(|node| node.lane.as_ref()) else {
            return "is down".to_string();
        };
        let Some(view) = lane.view(CLUSTER) else { return "has no replica".to_string() };
        let role = match view.leader {
            _ if view.damaged => "is damaged".to_string(),
            _ if view.blank => "is blank".to_string(),
            _ if view.is_leader => "leads".to_string(),
            Some(leader) => format!("follows {}", self.letter(leader.0)),
            None => "follows nobody".to_string(),
        };
        let learner = if view.is_learner { ", a learner" } else { "" };
        let quiet = if view.quiesced { ", quiet" } else { "" };
        format!("{role} as replica {}{learner}{quiet}", view.replica)
    }

    /// Time passes; visible changes are noted.
    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.world.run(1);
            self.look();
        }
    }

    fn look(&mut self) {
        let heard = std::mem::take(&mut self.world.delivered);
        for (from, message) in heard {
            let Ok(payload) = Payload::from_bytes(message.payload) else { continue };
            if let Some((kind, text)) = describe_payload(&payload) {
                if self.shown.iter().any(|shown| shown == kind) {
                    self.say(format!("{} -> {} {text}", self.letter(from.0), self.letter(message.to.0)));
                }
            }
        }
        for node in self.cast.values().copied().collect::<Vec<_>>() {
            let now = self.describe(node);
            if self.seen.get(&node) != Some(&now) {
                self.say(format!("{} {now}", self.letter(node)));
                self.seen.insert(node, now);
            }
        }
        for (node, notice) in std::mem::take(&mut self.world.notices) {
            match notice {
                Notice::Gone { .. } => self.say(format!("{} destroys its replica", self.letter(node.0))),
                Notice::Damaged { .. } => self.say(format!("{} reports damage", self.letter(node.0))),
                Notice::EngineFailed { .. } => self.say(format!("{} must end: its engine failed", self.letter(node.0))),
                Notice::LogFailed { .. } => self.say(format!("{} must end: its log failed", self.letter(node.0))),
                Notice::Mending { message, .. } => self.say(format!("{}: {message}", self.letter(node.0))),
                Notice::ScrubFailed { message, .. } => self.say(format!("{}: {message}", self.letter(node.0))),
                Notice::Quarantined { .. } | Notice::Released { .. } => {}
                Notice::Ended { .. } | Notice::Recovered { .. } => {}
                Notice::UnknownCluster { .. } | Notice::Changed { .. } | Notice::Leadership { .. } => {}
            }
        }
        if let Some(outcome) = self.admin.and_then(|ticket| self.world.completions.remove(&ticket)) {
            self.admin = None;
            self.say(format!("the operator hears: {}", self.outcome(&outcome)));
        }
    }

    fn outcome(&self, outcome: &LocalOutcome) -> String {
        let letters = |nodes: &[NodeId]| nodes.iter().map(|node| self.letter(node.0)).collect::<Vec<_>>().join(" ");
        match outcome {
            LocalOutcome::Written { at, level, reply, .. } => {
                let refused = core_backends::decode_reply::<core_backends::metadata::Reply>(reply.clone());
                let refused = refused.err().filter(|_| !reply.is_empty());
                let refused =
                    refused.map_or(String::new(), |refusal| format!(", which said {}", refusal.code.as_str()));
                format!("written, {level}, at {}:t{}{refused}", at.index.0, at.term.0)
            }
            LocalOutcome::Read { reply, level, .. } => match value_of(reply.clone()) {
                Some(value) => format!("{value} ({level} read)"),
                None => format!("nothing ({level} read)"),
            },
            LocalOutcome::AdminDone { .. } => "done".to_string(),
            LocalOutcome::CommittedNotAbsolute { missing, .. } => {
                format!("committed, not absolute: {} lacks it", letters(missing))
            }
            LocalOutcome::CommittedNotKept { kept, .. } => format!("committed, not kept: a bucket holds {}", kept.0),
            LocalOutcome::NotLeader { leader, .. } => match leader {
                Some(leader) => format!("not the leader; that is {}", self.letter(leader.0)),
                None => "not the leader".to_string(),
            },
            LocalOutcome::NoSuchCluster => "no such cluster here".to_string(),
            LocalOutcome::StaleRoute { .. } => "stale route".to_string(),
            LocalOutcome::Refused(refusal) => {
                format!("refused, {} ({})", refusal.code.as_str(), refusal.outcome().name())
            }
            LocalOutcome::Unknown { .. } => "outcome unknown".to_string(),
            LocalOutcome::Described(_) => "described".to_string(),
            LocalOutcome::Verified(_) => "verified".to_string(),
        }
    }

    fn status(&mut self) {
        for (letter, node) in self.cast.clone() {
            let state = self.describe(node);
            let applied = self.world.view(node).map_or(String::new(), |view| format!(", applied {}", view.applied.0));
            self.say(format!("{letter} {state}{applied}"));
        }
        let hashes: Vec<_> = self.world.hashes().into_iter().flatten().collect();
        let equal = hashes.windows(2).all(|pair| pair[0] == pair[1]);
        self.say(format!("{} states, {}", hashes.len(), if equal { "all equal" } else { "not equal" }));
    }

    fn counters(&mut self, node: u64) {
        let counted = self.world.lane(node).statistics();
        self.say(format!(
            "reads by lease {}, by a round {}; snapshots sent {}, installed {}; retries answered from memory {}",
            counted.reads_lease,
            counted.reads_index,
            counted.snapshots_sent,
            counted.snapshots_installed,
            counted.duplicates_suppressed
        ));
    }

    fn submit_admin(&mut self, node: u64, command: AdminCommand) {
        self.admin = Some(self.world.submit(node, DEADLINE_MS, LocalKind::Admin(command)));
        self.run(50);
    }

    /// Waits until all that is under way shows, at most so long.
    fn settle(&mut self, case: &mut TestCase) {
        let ms: u64 = case.try_take_arg("ms").unwrap().unwrap_or(1_000);
        assert!(ms <= WAIT_MS_MAX, "a story waits {WAIT_MS_MAX} ms at most");
        self.run(ms);
    }

    fn write(&mut self, case: &mut TestCase, node: u64) {
        let key: String = case.take_arg("key").unwrap();
        let value: String = case.take_arg("value").unwrap();
        let request: u64 = case.take_arg("request").unwrap();
        let level: String = case.try_take_arg("level").unwrap().unwrap_or_else(|| "strong".to_string());
        let level = WriteConsistency::ALL.into_iter().find(|known| known.name() == level).expect("a level");
        let command = if case.take_flag("create").unwrap() { create(&key, &value) } else { put(&key, &value) };
        let outcome = self.world.write(node, u128::from(request), command, level);
        let text = self.outcome(&outcome);
        self.say(text);
        self.look();
    }

    fn read(&mut self, case: &mut TestCase, node: u64) {
        let key: String = case.take_arg("key").unwrap();
        let eventual = case.take_flag("eventual").unwrap();
        let level = if eventual { ReadConsistency::Eventual } else { ReadConsistency::Strong };
        let outcome = self.world.call(node, read(&key, level));
        let text = self.outcome(&outcome);
        self.say(text);
        self.look();
    }

    fn fill(&mut self, case: &mut TestCase) {
        let count: u64 = case.take_arg("count").unwrap();
        (0..count).for_each(|number| self.world.put(&format!("fill-{number}"), &"v".repeat(900)));
        self.run(500);
    }

    fn silence(&mut self, millis: u64) {
        let sent = |world: &World| -> u64 {
            world.nodes.values().filter_map(|node| node.lane.as_ref()).map(|lane| lane.statistics().messages_sent).sum()
        };
        let before = sent(&self.world);
        self.run(millis);
        let said = sent(&self.world) - before;
        self.say(if said == 0 { "nobody says anything".to_string() } else { "they talk".to_string() });
    }

    fn node(&self, case: &mut TestCase, name: &str) -> u64 {
        let letter: Option<String> = case.try_take_arg(name).unwrap();
        letter.map_or(0, |letter| *self.cast.get(&letter).expect("a letter of the cast"))
    }

    fn command(&mut self, case: &mut TestCase) {
        let (on, to) = (self.node(case, "on"), self.node(case, "node"));
        match case.directive.as_str() {
            "cluster" => {
                let members: u64 = case.take_arg("members").unwrap();
                let spare: u64 = case.try_take_arg("spare").unwrap().unwrap_or(0);
                let keep = if case.take_flag("log-is-cut").unwrap() { 0 } else { 1 << 20 };
                self.world = World::new(members + spare, members, keep);
                self.world.listening = true;
                self.cast();
            }
            "show" => self.shown = case.take_args("kinds").unwrap(),
            "run" => self.settle(case),
            "write" => self.write(case, on),
            "read" => self.read(case, on),
            "fill" => self.fill(case),
            "silence" => self.silence(2_000),
            "kill" => {
                self.world.kill(on);
                self.look();
            }
            "start" => {
                self.world.start(NodeId(on));
                self.look();
            }
            "start-blank" => {
                self.world.start_blank(NodeId(on), DiskId(70 + on));
                self.look();
            }
            "cut" => drop(self.world.cut.insert(NodeId(on))),
            "heal" => self.world.cut.clear(),
            "hold-disk" => self.world.node(on).disk_stalled = true,
            "free-disk" => self.world.node(on).disk_stalled = false,
            "fail-next-log-write" => self.world.node(on).disk.fail_next = true,
            "transfer" => self.submit_admin(on, AdminCommand::TransferLeader { node: NodeId(to) }),
            "add" => self.submit_admin(on, AdminCommand::AddMember { node: NodeId(to), disk: DiskId(to) }),
            "remove" => self.submit_admin(on, AdminCommand::RemoveMember { node: NodeId(to) }),
            "replace" => self.submit_admin(on, AdminCommand::ReplaceDisk { node: NodeId(to), disk: DiskId(70 + to) }),
            "join" => {
                let replica: u64 = case.take_arg("replica").unwrap();
                let (now, spec) = (self.world.now, ReplicaSpec { replica: ReplicaId(replica), ..spec(on, 0) });
                match self.world.lane(on).create_replica(now, spec) {
                    Ok(_) => self.look(),
                    Err(refusal) => self.say(format!("refused, {}", refusal.code.as_str())),
                }
            }
            "status" => self.status(),
            "counters" => self.counters(on),
            other => panic!("'{other}' is no command"),
        }
        case.expect_empty().unwrap();
    }
}

fn describe_payload(payload: &Payload) -> Option<(&'static str, String)> {
    Some(match payload {
        Payload::Raft(message) | Payload::Sampled { message, .. } => {
            ("raft", format!("{:?} t{}", message.kind(), message.term().0))
        }
        Payload::Quiesce { .. } => ("quiesce", "let us be quiet".to_string()),
        Payload::SnapshotChunk { sequence, last: None, .. } => ("snapshot", format!("piece {sequence}")),
        Payload::SnapshotChunk { sequence, last: Some(message), .. } => {
            ("snapshot", format!("piece {sequence}, the last: a snapshot up to {}", message.snapshot_index().0))
        }
        Payload::SnapshotAck { done: true, .. } => ("snapshot", "has all pieces".to_string()),
        Payload::SnapshotAck { next, .. } => ("snapshot", format!("wants piece {next}")),
        Payload::Lost { .. } => ("lost", "cannot be mended, replace me".to_string()),
        Payload::LifeOver { by } => ("over", format!("your life is over, it is life {by} now")),
        Payload::Removed { .. } => ("removed", "you were removed".to_string()),
        Payload::PairsRequest { keys, .. } => ("pairs", format!("{} of mine are damaged", keys.len())),
        Payload::PairsReply { pairs, .. } => ("pairs", format!("here are {}", pairs.answers.len())),
        Payload::VerifyAsk { .. } | Payload::VerifyTold { .. } => return None,
        Payload::Stuck { .. } | Payload::Passed { .. } | Payload::Contradicts { .. } | Payload::Verdict { .. } => {
            return None
        }
        Payload::RepairRequest { .. } | Payload::RepairReply { .. } | Payload::Kept { .. } => return None,
        Payload::FloorAsk { .. } | Payload::FloorTold { .. } => return None,
    })
}

#[test]
fn golden_stories() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    datadriven::walk(folder, |file| {
        let mut story = Story::new();
        file.run(|case| {
            story.command(case);
            std::mem::take(&mut story.out)
        });
    });
}
