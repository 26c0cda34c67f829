//! A random walk: clients, lost and repeated and late messages, slow disks, crashes with torn writes,
//! cuts, hand-overs, lost disks; then everything is healed.
//!
//! Checked: a strong write that was acknowledged is there, also for a strong read that began later;
//! a request id applies once; what was acknowledged as in the bucket of node 2 was there; each ticket is answered once; equal states at the end; then quiet.

use super::harness::*;
use crate::api::*;
use base_types::{DiskId, NodeId, ReadConsistency, ReplicaId, Ticket, WriteConsistency};
use core_backends::metadata::Reply;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 50;
const STEPS: u64 = 600;
const HEAL_STEPS: u64 = 12_000;

struct Walk {
    world: World,
    nodes: u64,
    writes: BTreeMap<Ticket, (u128, WriteConsistency)>,
    reads: BTreeMap<Ticket, u128>,
    unsure: Vec<u128>,
    acknowledged: BTreeSet<u128>,
    refused: BTreeSet<u128>,
    next_request: u128,
    next_disk: u64,
    route_time: u64,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let keep = if seed.is_multiple_of(2) { 0 } else { 8 << 10 };
        let mut world = World::with_tail(4, 3, keep, Some(2));
        world.random = Random(seed);
        world.faults = Faults {
            loss: world.random.below(3) * 5,
            duplicate: world.random.below(3) * 5,
            delay_ms: 1 + world.random.below(3) * 10,
            disk_waits: world.random.below(3) * 30,
        };
        let (writes, reads) = (BTreeMap::new(), BTreeMap::new());
        Walk {
            world,
            nodes: 4,
            writes,
            reads,
            unsure: Vec::new(),
            acknowledged: BTreeSet::new(),
            refused: BTreeSet::new(),
            next_request: 1,
            next_disk: 100,
            route_time: 0,
        }
    }

    fn up(&self) -> Vec<u64> {
        self.world.nodes.iter().filter(|(_, node)| node.lane.is_some()).map(|(id, _)| id.0).collect()
    }

    /// A leader if one is known, now and then somebody else.
    fn target(&mut self) -> Option<u64> {
        let up = self.up();
        let any = *up.get(self.world.random.below(up.len() as u64) as usize)?;
        let leaders: Vec<u64> =
            up.iter().copied().filter(|id| self.world.view(*id).is_some_and(|v| v.is_leader)).collect();
        let which = self.world.random.below(leaders.len() as u64) as usize;
        Some(leaders.get(which).copied().filter(|_| self.world.random.chance(90)).unwrap_or(any))
    }

    fn write(&mut self) {
        let Some(target) = self.target() else { return };
        let request = match self.unsure.pop() {
            Some(request) if self.world.random.chance(70) => request,
            Some(request) => {
                self.unsure.push(request);
                self.fresh()
            }
            None => self.fresh(),
        };
        let level = WriteConsistency::ALL[self.world.random.below(5) as usize];
        let value = "v".repeat(self.world.random.below(300) as usize);
        let command = create(&format!("key-{request}"), &value);
        let deadline = 100 + self.world.random.below(1_000);
        let ticket = self.world.submit(target, deadline, write(request, &command, level, self.route_time));
        self.writes.insert(ticket, (request, level));
    }

    fn fresh(&mut self) -> u128 {
        self.next_request += 1;
        self.next_request
    }

    fn read(&mut self) {
        let Some(target) = self.target() else { return };
        let count = self.acknowledged.len() as u64;
        let which = self.world.random.below(count) as usize;
        // The latest ones are the ones at risk.
        let Some(request) = self.acknowledged.iter().rev().nth(which.min(5)).copied() else { return };
        let ticket = self.world.submit(target, 500, read(&format!("key-{request}"), ReadConsistency::Strong));
        self.reads.insert(ticket, request);
    }

    fn settle(&mut self) {
        for (ticket, outcome) in std::mem::take(&mut self.world.completions) {
            if let Some(request) = self.reads.remove(&ticket) {
                if let LocalOutcome::Read { reply, .. } = outcome {
                    assert!(value_of(reply).is_some(), "a strong read missed key-{request}");
                }
                continue;
            }
            let Some((request, asked)) = self.writes.remove(&ticket) else { continue };
            self.settle_write(request, asked, outcome);
        }
        let lost: Vec<Ticket> = self.writes.keys().filter(|t| !self.world.waiting.contains_key(t)).copied().collect();
        for ticket in lost {
            let (request, _) = self.writes.remove(&ticket).unwrap();
            self.unsure.push(request);
        }
    }

    fn settle_write(&mut self, request: u128, asked: WriteConsistency, outcome: LocalOutcome) {
        match outcome {
            LocalOutcome::Written { reply, level, at, .. } => {
                let kept = self.world.kept;
                assert!(level != WriteConsistency::S3 || at.index <= kept, "{at:?}, and the bucket holds {kept}");
                assert!(level >= asked || level >= WriteConsistency::Strong);
                if level >= WriteConsistency::Strong {
                    let reply = core_backends::decode_reply::<Reply>(reply);
                    assert!(reply.is_ok(), "request {request} was applied twice: {reply:?}");
                    self.acknowledged.insert(request);
                } else {
                    self.unsure.push(request);
                }
            }
            LocalOutcome::CommittedNotAbsolute { reply, .. } | LocalOutcome::CommittedNotKept { reply, .. } => {
                assert!(core_backends::decode_reply::<Reply>(reply).is_ok(), "request {request} was applied twice");
                self.acknowledged.insert(request);
            }
            LocalOutcome::StaleRoute { cluster_time_ms } => {
                self.route_time = cluster_time_ms;
                self.unsure.push(request);
            }
            LocalOutcome::Unknown { .. } => self.unsure.push(request),
            LocalOutcome::NotLeader { .. } | LocalOutcome::NoSuchCluster => self.unsure.push(request),
            LocalOutcome::Refused(_) => drop(self.refused.insert(request)),
            other => panic!("{other:?}"),
        }
    }

    fn trouble(&mut self) {
        let node = 1 + self.world.random.below(self.nodes);
        let up = self.world.nodes[&NodeId(node)].lane.is_some();
        let down = (1..=self.nodes).filter(|id| self.world.nodes[&NodeId(*id)].lane.is_none()).count();
        match self.world.random.below(10) {
            0 | 1 if up && down < 3 => self.world.kill(node),
            0..=3 if !up => drop(self.world.start(NodeId(node))),
            4 => drop(self.world.cut.insert(NodeId(node))),
            5 | 6 => self.world.cut.clear(),
            7 => self.hand_over(node),
            8 => self.change_members(node),
            9 if up => {
                let stalled = self.world.random.chance(30);
                self.world.node(node).engine_stalled = stalled;
            }
            _ => {}
        }
    }

    fn admin(&mut self, command: AdminCommand) {
        if let Some(target) = self.target() {
            let _answered_or_not = self.world.submit(target, 1_000, LocalKind::Admin(command));
        }
    }

    fn hand_over(&mut self, node: u64) {
        self.admin(AdminCommand::TransferLeader { node: NodeId(node) });
    }

    fn change_members(&mut self, node: u64) {
        let disk = self.world.nodes[&NodeId(node)].disk_id;
        match self.world.random.below(5) {
            0 => self.admin(AdminCommand::RemoveMember { node: NodeId(node) }),
            4 => {
                let from = NodeId(1 + self.world.random.below(self.nodes));
                self.admin(AdminCommand::ReplaceMember { from, node: NodeId(node), disk });
            }
            1 | 2 => self.admin(AdminCommand::AddMember { node: NodeId(node), disk }),
            _ => self.lose_disk(node),
        }
    }

    /// Only while all others are up: the promise is to survive a minority.
    fn lose_disk(&mut self, node: u64) {
        let others_up = self.up().into_iter().filter(|id| *id != node).count() == 3 && self.world.cut.is_empty();
        let voters = self.world.leaders().first().and_then(|id| self.world.view(*id)).map_or(0, |v| v.members.len());
        let fresh = self.up().iter().filter_map(|id| self.world.view(*id)).all(|view| !view.blank && !view.is_learner);
        if !others_up || voters < 3 || !fresh || self.world.leaders().is_empty() || self.next_disk > 100 {
            return;
        }
        if self.world.nodes[&NodeId(node)].lane.is_some() {
            self.world.kill(node);
        }
        self.next_disk += 1;
        self.world.start_blank(NodeId(node), DiskId(self.next_disk));
        let disk = DiskId(self.next_disk);
        self.admin(AdminCommand::ReplaceDisk { node: NodeId(node), disk });
    }

    /// What core-node does: makes the replicas that the configuration names.
    fn make_replicas(&mut self) {
        let now = self.world.now;
        let asked = std::mem::take(&mut self.world.notices);
        for (node, notice) in &asked {
            assert!(!matches!(notice, Notice::LogFailed { .. } | Notice::Damaged { .. }), "{node}: {notice:?}");
        }
        let wanted: BTreeSet<NodeId> = asked
            .into_iter()
            .filter_map(|(node, notice)| matches!(notice, Notice::UnknownCluster { .. }).then_some(node))
            .collect();
        for node in wanted {
            let views = self.up().into_iter().filter_map(|id| self.world.view(id)).filter(|view| view.is_leader);
            let Some(latest) = views.max_by_key(|view| view.term) else { continue };
            let disk = self.world.nodes[&node].disk_id;
            let Some(member) = latest.members.iter().find(|m| m.node == node && m.disk == disk) else { continue };
            let mut joining = spec(node.0, 0);
            joining.replica = member.replica;
            if self.world.nodes[&node].lane.is_some() && member.replica > ReplicaId(3) {
                let _may_be_there = self.world.lane(node.0).create_replica(now, joining);
            }
        }
    }

    /// What core-node does: a node whose disk is another than the configuration says asks to be replaced.
    fn replace_lost_disks(&mut self) {
        let Some(leader) = self.world.leaders().first().copied() else { return };
        let members = self.world.view(leader).map(|view| view.members).unwrap_or_default();
        for member in members.iter() {
            let disk = self.world.nodes[&member.node].disk_id;
            if member.disk != disk {
                let command = AdminCommand::ReplaceDisk { node: member.node, disk };
                let _answered_or_not = self.world.submit(leader, 1_000, LocalKind::Admin(command));
            }
        }
    }

    fn walk(&mut self) {
        for _ in 0..STEPS {
            self.world.run(1);
            if self.world.random.chance(20) {
                self.write();
            }
            if self.world.random.chance(10) {
                self.read();
            }
            if self.world.random.chance(2) {
                self.trouble();
            }
            self.make_replicas();
            self.settle();
        }
    }

    fn heal(&mut self) {
        self.world.faults = Faults::default();
        self.world.cut.clear();
        for id in 1..=self.nodes {
            let node = self.world.node(id);
            node.engine_stalled = false;
            if node.lane.is_none() {
                self.world.start(NodeId(id));
            }
        }
        // The host would have told who answers again.
        let now = self.world.now;
        for id in 1..=self.nodes {
            (1..=self.nodes).for_each(|other| self.world.lane(id).on_peer_up(now, NodeId(other)));
        }
        for step in 0..HEAL_STEPS {
            self.world.run(1);
            self.make_replicas();
            self.settle();
            if step % 300 == 0 {
                self.replace_lost_disks();
            }
            if step > 500 && step % 100 == 0 && self.is_quiet() {
                return;
            }
        }
        let views: Vec<_> = (1..=self.nodes).map(|id| self.world.view(id)).collect();
        panic!("never quiet: {views:#?}");
    }

    fn is_quiet(&self) -> bool {
        let views: Vec<ReplicaView> = (1..=self.nodes).filter_map(|id| self.world.view(id)).collect();
        // A blank replica that was never spoken to is for core-node to clear away.
        !views.is_empty() && views.iter().all(|view| view.quiesced || view.blank)
    }

    fn check(&mut self) {
        assert_eq!(self.world.waiting.len(), 0, "never answered: {:?}", self.world.waiting);
        let leader = self.world.leader();
        let members = self.world.view(leader).unwrap().members;
        let hashes: Vec<_> = members.iter().filter_map(|m| self.world.lane(m.node.0).state_hash(CLUSTER)).collect();
        assert_eq!(hashes.len(), members.len());
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
        for request in self.acknowledged.clone() {
            let there = self.world.nodes[&NodeId(leader)].lane.as_ref().unwrap();
            assert!(there.view(CLUSTER).is_some());
            let value = self.world.get(leader, &format!("key-{request}"), ReadConsistency::Strong);
            assert!(value.is_some(), "acknowledged key-{request} is lost");
        }
    }
}

fn walk_seeds(from: u64) {
    for seed in from..from + SEEDS {
        assert!(std::panic::catch_unwind(|| walk_once(seed)).is_ok(), "seed {seed}");
    }
}

/// One world from its beginning to its quiet end.
pub fn walk_once(seed: u64) {
    let mut walk = Walk::new(seed);
    walk.walk();
    walk.heal();
    walk.check();
}

#[test]
fn random_walk_1() {
    walk_seeds(0);
}

#[test]
fn random_walk_2() {
    walk_seeds(1_000);
}

#[test]
fn random_walk_3() {
    walk_seeds(2_000);
}

#[test]
fn random_walk_4() {
    walk_seeds(3_000);
}
