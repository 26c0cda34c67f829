//! A turn of a core: its inbox, its step, when it wakes next, and what it wants done.
//!
//! Always: an event waits in an inbox until the turn; a dead node's effects are dropped, those behind an
//! armed death as well.
//! Not here: how the effects end (`disks`, `links`, `clients`).

use super::describe::{event_lines, event_name, event_number};
use super::{Due, World};
use crate::excuses::Excuse;
use crate::host::{Armed, INBOX_EVENTS_MAX};
use crate::plan::FaultKind;
use crate::trace::line::{Kind, Line};
use base_types::{ClusterId, ClusterName, LaneId, Ticket};
use core_backends::metadata::PartitionInfo;
use core_cluster::api::Won;
use core_node::api::{Effect, Effects, Event};
use proof_check::Violation;
use std::collections::BTreeMap;

/// A stall of a disk that a core may take for its failure: five seconds, by a clock that runs up to a tenth fast.
const STALL_TOLD_US: u64 = 4_500_000;

impl World {
    /// Puts an event into a core's inbox.
    pub fn post(&mut self, node: usize, lane: usize, event: Event) {
        let now = self.now;
        let delay = self.random.host.between(5, 40);
        let host = &mut self.nodes[node];
        let life = host.life;
        let inbox = &mut host.lanes[lane].inbox;
        inbox.push(event);
        if inbox.len() > INBOX_EVENTS_MAX {
            let message = format!("the inbox of node {} lane {lane} passed {INBOX_EVENTS_MAX} events", host.id);
            self.violate(Violation::new("bounds", message, vec![]));
            return;
        }
        if !host.lanes[lane].turn_due {
            host.lanes[lane].turn_due = true;
            let at = (now + delay).max(host.paused_until).max(host.lanes[lane].busy_until);
            self.schedule(at, Due::Turn { node, lane, life });
        }
    }

    pub(super) fn turn(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        if self.is_paused(node) {
            let at = self.nodes[node].paused_until;
            return self.schedule(at, Due::Turn { node, lane, life });
        }
        if self.nodes[node].cores.len() < self.nodes[node].lanes.len() {
            let turn_us = self.random.host.between(10, 300);
            if let Err(at) = self.nodes[node].take_core(lane, self.now, turn_us) {
                return self.schedule(at, Due::Turn { node, lane, life });
            }
        }
        let local = self.nodes[node].clock.local_at(self.now);
        let watch_terms = matches!(self.nodes[node].armed, Some(Armed::AtVote { .. }));
        let events_max = self.plan.tuning.turn_events_max;
        let host = &mut self.nodes[node].lanes[lane];
        host.turn_due = false;
        let Some(mut machine) = host.machine.take() else { return };
        let terms_before = if watch_terms { term_sum(machine.as_ref()) } else { 0 };
        let led = self.see_saw.as_ref().and_then(|_| self.lead_of(machine.as_ref()));
        let host = &mut self.nodes[node].lanes[lane];
        let mut effects = Effects { list: std::mem::take(&mut self.effects) };
        let (mut expired, mut taken) = (Vec::new(), 0);
        for _ in 0..events_max {
            let Some(event) = host.inbox.pop() else { break };
            self.trace.note(self.now, event_name(&event), &[node as u64, lane as u64, event_number(&event)]);
            self.trace.with_lines(self.now, |recorder| {
                let lines = event_lines(&event, |cluster| recorder.about(cluster));
                lines.into_iter().for_each(|line| recorder.push(self.now, line.node(node).lane(lane)));
            });
            if let Event::Request { ticket, asked, request } = &event {
                if local >= *asked + request.deadline {
                    expired.push(*ticket);
                }
            }
            machine.step(local, event, &mut effects);
            taken += 1;
        }
        machine.finish_turn(local, &mut effects);
        self.note_shards(machine.take_witnessed());
        self.note_won(node, machine.take_won());
        super::lost_majority::note_begun(self, machine.take_begun());
        self.weigh(node, led, machine.as_ref());
        self.watch_lease(node, machine.as_ref());
        self.note_sleep(node, lane, machine.as_ref());
        super::watch::watch_replicas(self, node, lane, machine.as_ref());
        let voted = watch_terms && term_sum(machine.as_ref()) != terms_before;
        let wake = machine.next_wake();
        if self.random.sample.per_mille(self.sample_per_mille) {
            self.sample(node, machine.as_ref());
        }
        self.look_at_sizes(node, lane, machine.as_ref());
        let host = &mut self.nodes[node].lanes[lane];
        host.machine = Some(machine);
        // To refuse what has expired costs next to nothing.
        host.busy_until = self.now + self.plan.tuning.event_us * (taken - expired.len()) as u64;
        if !host.inbox.is_empty() {
            host.turn_due = true;
            let at = (self.now + self.random.host.between(5, 40)).max(host.busy_until);
            self.schedule(at, Due::Turn { node, lane, life });
        }
        self.note_expired(node, &expired, &effects);
        self.carry_out(node, lane, effects, voted);
        if self.is_alive(node, life) {
            self.schedule_wake(node, lane, wake);
        }
    }

    /// A request whose deadline had passed when the core came to it is refused in that turn, and nothing is done for it:
    /// a core with more to do than it can would otherwise work for clients that have given up.
    fn note_expired(&mut self, node: usize, expired: &[Ticket], effects: &Effects) {
        for ticket in expired {
            self.probe("expired_before_its_turn");
            let is_refused = |effect: &Effect| matches!(effect, Effect::Reply { ticket: of, response } if of == ticket && response.is_err());
            if !effects.list.iter().any(is_refused) {
                let message = format!("node {} works for {ticket:?}, whose deadline had passed", self.nodes[node].id);
                self.violate(Violation::new("expired", message, vec![]));
            }
        }
    }

    pub(super) fn schedule_wake(&mut self, node: usize, lane: usize, wake: base_types::Tick) {
        let at = self.nodes[node].clock.true_at(wake, self.now);
        let host = &mut self.nodes[node];
        // Never at once: a core that always wants to be woken must not stop time.
        let at = at.max(self.now + 20);
        if at < host.lanes[lane].wake_at && at != u64::MAX {
            host.lanes[lane].wake_at = at;
            let life = host.life;
            self.schedule(at, Due::Wake { node, lane, life });
        }
    }

    /// Its clock changed: what it waits for comes at another time.
    pub fn clock_changed(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].disturbed_at = now;
        for lane in 0..self.nodes[node].lanes.len() {
            self.nodes[node].lanes[lane].wake_at = u64::MAX;
            if let Some(wake) = self.nodes[node].lanes[lane].machine.as_ref().map(|machine| machine.next_wake()) {
                self.schedule_wake(node, lane, wake);
            }
        }
    }

    pub(super) fn sample(&mut self, node: usize, machine: &dyn crate::machine::Machine) {
        let id = self.nodes[node].id;
        // A state is hashed by walking it: one now and then, all at the end of the run.
        let glances = machine.glances();
        let hashed = self.random.sample.per_mille(100).then(|| self.random.sample.below(glances.len() as u64));
        for (number, seen) in glances.into_iter().enumerate() {
            if seen.damaged {
                self.note_damaged(node, seen.cluster);
            }
            // A panic of a state machine is contained: it must not pass for a fault of a disk.
            if seen.panicked || (seen.quarantined && !self.nodes[node].disk_suspect) {
                let message = format!("the replica of {:?} on {id:?} is quarantined", seen.cluster);
                self.violate(Violation::new("quarantine", message, vec![]));
            }
            if !seen.blank {
                let found = self.times.note(seen.cluster, seen.generation, seen.applied, seen.cluster_time_ms);
                found.into_iter().for_each(|violation| self.violate(violation));
            }
            if seen.is_leader {
                let found = self.leaders.note(seen.cluster, seen.generation, seen.term, id);
                found.into_iter().for_each(|violation| self.violate(violation));
            }
            let compared = hashed == Some(number as u64) && !self.may_have_diverged(node, seen.cluster);
            let hash = compared.then(|| machine.state_hash(seen.cluster)).flatten();
            if let Some((applied, hash)) = hash {
                let found = self.states.note(seen.cluster, seen.generation, applied, id, hash);
                found.into_iter().for_each(|violation| self.violate(violation));
                self.note_owners(machine.served_partitions(seen.cluster));
            }
        }
    }

    /// A replica calls itself damaged: where its own disk lost nothing since it was empty, that is a bug.
    fn note_damaged(&mut self, node: usize, cluster: ClusterId) {
        if self.nodes[node].disk_suspect {
            return self.excuses.used(Excuse::DamagedReplica, (node as u64, cluster.0));
        }
        let id = self.nodes[node].id;
        let message =
            format!("the replica of {cluster:?} on {id:?} calls itself damaged, although its disk was not harmed");
        self.violate(Violation::new("damage", message, vec![]));
    }

    /// Who came to lead in this turn.
    fn note_won(&mut self, node: usize, won: Vec<Won>) {
        let id = self.nodes[node].id;
        for Won { cluster, generation, term } in won {
            let found = self.leaders.note(cluster, generation, term, id);
            found.into_iter().for_each(|violation| self.violate(violation));
        }
    }

    /// Notes which partitions of a keyspace a replica serves, at which epochs.
    fn note_owners(&mut self, served: Option<(ClusterName, Vec<PartitionInfo>)>) {
        let Some((name, served)) = served else { return };
        for PartitionInfo { scope, .. } in served {
            let found = self.owners.note(name.as_str(), scope.partition.0, scope.epoch);
            found.into_iter().for_each(|violation| self.violate(violation));
        }
    }

    /// How many pairs the partitions of a keyspace count, each as it is served at its last epoch. `None`: not all
    /// of so many are served.
    pub fn counted_keys(&self, keyspace: &str, partitions: u16) -> Option<u64> {
        let prefix = format!("metadata@ks-{keyspace}-");
        let machines = self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let served = machines.flat_map(|machine| {
            let glances = machine.glances().into_iter();
            glances.filter_map(|seen| machine.served_partitions(seen.cluster)).collect::<Vec<_>>()
        });
        let mut counts: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for info in served.filter(|(name, _)| name.as_str().starts_with(&prefix)).flat_map(|(_, served)| served) {
            let known = counts.entry(info.scope.partition.0).or_default();
            *known = (*known).max((info.scope.epoch, info.keys));
        }
        (counts.len() == usize::from(partitions)).then(|| counts.values().map(|(_, keys)| keys).sum())
    }

    /// The same for all replicas there are.
    pub fn note_all_owners(&mut self) {
        let machines = self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let all = machines.flat_map(|machine| {
            let glances = machine.glances().into_iter();
            glances.map(|seen| machine.served_partitions(seen.cluster)).collect::<Vec<_>>()
        });
        let all: Vec<_> = all.collect();
        all.into_iter().for_each(|served| self.note_owners(served));
    }

    pub(super) fn carry_out(&mut self, node: usize, lane: usize, effects: Effects, voted: bool) {
        let mut left = usize::MAX;
        match self.nodes[node].armed {
            Some(Armed::InTurn { effects: count, down_us }) if !effects.list.is_empty() => {
                self.nodes[node].armed = None;
                self.probe(FaultKind::CrashInTurn.name());
                left = count;
                let life = self.nodes[node].life;
                self.schedule(self.now, Due::Die { node, life, down_us });
            }
            Some(Armed::AtVote { after_us, down_us }) if voted => {
                self.nodes[node].armed = None;
                self.probe(FaultKind::CrashAtVote.name());
                let (life, at) = (self.nodes[node].life, self.now + self.random.fault.below(after_us + 1));
                self.schedule(at, Due::Die { node, life, down_us });
            }
            _ => {}
        }
        let life = self.nodes[node].life;
        let mut list = effects.list;
        for effect in list.drain(..) {
            if left == 0 || !self.is_alive(node, life) {
                break;
            }
            left -= 1;
            self.carry_out_one(node, lane, effect);
        }
        self.effects = list;
    }

    pub(super) fn carry_out_one(&mut self, node: usize, lane: usize, effect: Effect) {
        match effect {
            Effect::Send { to, lane: to_lane, frame } => {
                super::levels::check_sent_level(self, node, &frame);
                self.send(node, to, to_lane, frame)
            }
            Effect::Mail { to, mail } => {
                let (life, early) = (self.nodes[node].life, self.now + self.random.host.between(1, 20));
                let at = early.max(self.nodes[node].lanes[lane].mailed_until + 1);
                self.nodes[node].lanes[lane].mailed_until = at;
                let due = Due::Mail { node, lane: usize::from(to.0), life, from: LaneId(lane as u16), mail };
                if usize::from(to.0) < self.nodes[node].lanes.len() {
                    self.schedule(at, due);
                }
            }
            Effect::Reply { ticket, response } => self.reply(node, ticket, response),
            Effect::Log(action) => {
                self.nodes[node].lanes[lane].disk.queue.push_back(action);
                self.kick_disk(node, lane);
            }
            Effect::Engine(job) => {
                self.nodes[node].lanes[lane].jobs.push_back(job);
                self.kick_engine(node, lane);
            }
            Effect::Address { node: peer, .. } => {
                if let Some(peer) = self.index_of(peer).filter(|peer| *peer != node) {
                    self.network.known.insert((node, peer));
                }
            }
            // No simulated world is restored yet: all nodes are of its first life.
            Effect::Incarnation { .. } => {}
            Effect::FormatLevel { level } => super::levels::keep(self, node, level),
            Effect::Directory { directory } => super::access::keep(self, node, directory),
            Effect::Forget { node: peer } => {
                if let Some(peer) = self.index_of(peer) {
                    self.network.known.remove(&(node, peer));
                }
            }
            Effect::Remember { announcements } => self.nodes[node].remembered = announcements,
            Effect::Drained { drained } => crate::faults::drain(self, node, drained),
            Effect::Spent { .. } => {}
            Effect::Change(change) => {
                self.trace.say(self.now, || Line::new(Kind::Note, format!("{change:?}")).node(node).lane(lane))
            }
            Effect::Note { level, text } => {
                self.trace.say(self.now, || Line::new(Kind::Note, format!("{level:?}: {text}")).node(node).lane(lane))
            }
            Effect::Halt { reason } => self.halt(node, &reason),
        }
    }

    pub(super) fn halt(&mut self, node: usize, reason: &str) {
        self.probe("halted");
        self.trace.say(self.now, || Line::new(Kind::Life, format!("halts: {reason}")).node(node));
        if super::levels::is_too_old(self, node) {
            return;
        }
        self.nodes[node].disk_failed |= self.has_stalled_for_long(node);
        let host = &self.nodes[node];
        let about = (node as u64, host.life);
        // A core takes the time of its own writes, by its own clock, from when it asked for them.
        let stalled = host.stalled_until > self.now && self.now - host.stalled_since >= STALL_TOLD_US;
        match (host.disk_suspect, host.disk_failed || stalled) {
            (_, true) => self.excuses.used(Excuse::HaltedOnError, about),
            (true, _) => self.excuses.used(Excuse::HaltedOnLostBytes, about),
            (false, false) => {
                let message = format!("node {} halted although its disk was well: {reason}", host.id);
                self.violate(Violation::new("halt", message, vec![]));
            }
        }
        let down = self.random.fault.between(100_000, 1_000_000);
        self.kill(node, Some(down), false);
        // Its operator does not let it come back with a disk that lied.
        if self.nodes[node].disk_lied {
            self.probe("lying_disk_replaced");
            self.wipe(node);
        }
    }
}

fn term_sum(machine: &dyn crate::machine::Machine) -> u64 {
    machine.glances().iter().map(|seen| seen.term.0).sum()
}
