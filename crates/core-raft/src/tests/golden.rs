//! Protocol stories as text: `testdata/*.txt` drives groups step by step and shows every message, so
//! that a person can read what the protocol does and review a change of it as a change of text.
//!
//! Always: nothing moves unless the script says so; time, delivery and syncs are commands.
//! Held by: `golden_stories`.
//! Not here: data of snapshots, clients, leases (core-cluster's stories). After a wanted change:
//! `REWRITE=1 cargo test -p core-raft golden`, then read the difference.

use crate::*;
use base_types::codec::Encode;
use base_types::{ClusterId, LogIndex, ReplicaId, Term, Tick};
use bytes::Bytes;
use core_log::testing::{tell, TestDisk};
use core_log::{BatchNumber, Log, LogConfig};
use datadriven::TestCase;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::rc::Rc;

const CLUSTER: ClusterId = ClusterId(7);
const ELECTION_TICKS: usize = 10;
/// A command that would continue longer is a mistake in the script.
const STEPS_MAX: usize = 1_000;
/// Longer data is shown by its length.
const SHOWN_BYTES_MAX: usize = 40;

/// One member: a group, its log, its disk, and what it has applied.
struct Member {
    group: Option<Group>,
    log: Rc<RefCell<Log>>,
    disk: TestDisk,
    /// Readies that wait for the log: number, batch, what may leave then.
    unsynced: VecDeque<(u64, BatchNumber, Vec<Message>)>,
    /// Its log's writes are not finished until told.
    held: bool,
    applied: Vec<(LogIndex, String)>,
    membership: Membership,
    shown: String,
}

#[derive(Default)]
struct World {
    members: BTreeMap<u64, Member>,
    wires: VecDeque<Message>,
    cut: BTreeSet<u64>,
    now: u64,
    out: String,
}

fn log_config() -> LogConfig {
    LogConfig { segment_bytes: 4 << 20, ..LogConfig::default() }
}

fn ids(list: &[u64]) -> Vec<ReplicaId> {
    list.iter().copied().map(ReplicaId).collect()
}

fn names(list: &[ReplicaId]) -> String {
    list.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(" ")
}

fn describe_membership(membership: &Membership) -> String {
    let mut text = format!("voters {}", names(&membership.voters));
    for (word, list) in [("leaving", &membership.voters_outgoing), ("learners", &membership.learners)] {
        if !list.is_empty() {
            text += &format!(", {word} {}", names(list));
        }
    }
    text
}

fn describe_entry(term: u64, index: u64, kind: u8, data: &[u8]) -> String {
    match (kind, data.is_empty()) {
        (0, true) => format!("{index}:t{term} (empty)"),
        (0, false) if data.len() > SHOWN_BYTES_MAX => {
            format!("{index}:t{term} {}... of {} bytes", data[0] as char, data.len())
        }
        (0, false) => format!("{index}:t{term} {}", String::from_utf8_lossy(data)),
        _ => format!("{index}:t{term} (members)"),
    }
}

fn describe_message(message: &Message) -> String {
    let m = &message.inner;
    let mut text = format!("{} -> {} {:?} t{}", m.from, m.to, message.kind(), m.term);
    match message.kind() {
        MessageKind::Append => {
            let _ = write!(text, " behind {}:t{} commit {}", m.index, m.log_term, m.commit);
            for entry in m.entries.iter() {
                let kind = entry.get_entry_type() as u8;
                let _ = write!(text, " [{}]", describe_entry(entry.term, entry.index, kind, &entry.data));
            }
        }
        MessageKind::AppendResponse if m.reject => {
            let _ = write!(text, " REJECT {} hint {}:t{}", m.index, m.reject_hint, m.log_term);
        }
        MessageKind::AppendResponse => {
            let _ = write!(text, " up to {}", m.index);
        }
        MessageKind::RequestVote | MessageKind::RequestPreVote => {
            let forced = if message.is_forced_campaign() { " (transfer)" } else { "" };
            let _ = write!(text, " log ends at {}:t{}{forced}", m.index, m.log_term);
        }
        MessageKind::RequestVoteResponse | MessageKind::RequestPreVoteResponse => {
            text += if m.reject { " no" } else { " yes" };
        }
        MessageKind::Heartbeat | MessageKind::HeartbeatResponse => {
            let _ = write!(text, " commit {}", m.commit);
            if !m.context.is_empty() {
                text += " with a read's context";
            }
        }
        MessageKind::Snapshot => {
            let _ = write!(text, " up to {}", message.snapshot_index().0);
        }
        MessageKind::TimeoutNow => {}
    }
    text
}

impl Member {
    fn open(id: u64, mut disk: TestDisk, membership: Membership, applied: Vec<(LogIndex, String)>) -> Member {
        let (mut log, _) = Log::recover(&mut disk, log_config(), 1).unwrap();
        let first = applied.is_empty() && log.last_index(CLUSTER) == LogIndex(0) && !membership.voters.is_empty();
        if first {
            log.compact(CLUSTER, LogIndex(1), Term(1));
            disk.drive(&mut log, Tick(0));
        }
        let log = Rc::new(RefCell::new(log));
        let at = applied.last().map_or(LogIndex(1), |(index, _)| *index);
        let term = log.borrow().term(CLUSTER, at).unwrap_or(Term(1));
        let config = GroupConfig {
            cluster: CLUSTER,
            replica: ReplicaId(id),
            election_ticks: ELECTION_TICKS,
            heartbeat_ticks: 3,
            seed: 1,
            applied: at,
            membership: membership.clone().into(),
            snapshot_point: SnapshotPoint { index: at, term, membership: membership.clone().into() },
        };
        let group = Some(Group::new(config, log.clone()).unwrap());
        let unsynced = VecDeque::new();
        Member { group, log, disk, unsynced, held: false, applied, membership, shown: String::new() }
    }

    fn state(&self) -> String {
        let Some(group) = self.group.as_ref() else { return "down".to_string() };
        let role = match group.role() {
            Role::Follower => match group.leader() {
                Some(leader) => format!("follows {leader}"),
                None => "follows nobody".to_string(),
            },
            role => format!("{role:?}"),
        };
        format!("{role} t{} commit {}", group.term().0, group.commit().0)
    }

    fn entries(&self) -> String {
        let log = self.log.borrow();
        let (first, last) = (log.first_index(CLUSTER), log.last_index(CLUSTER));
        let entries = (first.0..=last.0).filter_map(|index| log.entry(CLUSTER, LogIndex(index)));
        entries.map(|e| describe_entry(e.term.0, e.index.0, e.kind, &e.data)).collect::<Vec<_>>().join(", ")
    }
}

impl World {
    fn say(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }

    fn group(&mut self, id: u64) -> &mut Group {
        self.members.get_mut(&id).and_then(|member| member.group.as_mut()).expect("the script names a living member")
    }

    /// Lets a member do everything it can: stage, sync (unless held), apply, send.
    fn work(&mut self, id: u64) {
        for _ in 0..STEPS_MAX {
            let Some(member) = self.members.get_mut(&id) else { return };
            let Some(group) = member.group.as_mut() else { return };
            let ready = group.make_ready(|_| {});
            let nothing = ready.is_none();
            if let Some(ready) = ready {
                self.take_ready(id, ready);
            }
            let synced = self.sync(id);
            if nothing && !synced {
                break;
            }
        }
        self.show(id);
    }

    fn take_ready(&mut self, id: u64, ready: GroupReady) {
        self.send(ready.messages);
        for (context, index) in ready.reads {
            self.say(&format!("{id}: read {context} may be answered at {}", index.0));
        }
        let Some(member) = self.members.get_mut(&id) else { return };
        let batch = member.log.borrow().staged();
        if ready.staged || !member.unsynced.is_empty() {
            member.unsynced.push_back((ready.number, batch, ready.persisted_messages));
        } else {
            member.group.as_mut().expect("it is ready").on_persisted(ready.number);
            self.send(ready.persisted_messages);
        }
        ready.committed.into_iter().for_each(|entry| self.apply(id, &entry));
    }

    fn apply(&mut self, id: u64, entry: &core_log::LogEntry) {
        let member = self.members.get_mut(&id).expect("it is ready");
        let group = member.group.as_mut().expect("it is ready");
        let text = if entry.kind == 0 {
            String::from_utf8_lossy(&entry.data).into_owned()
        } else {
            let change = match entry.context.is_empty() {
                true => MembershipChange::default(),
                false => MembershipChange::from_bytes(entry.context.clone()).expect("the script wrote it"),
            };
            member.membership = group.apply_change(&change).expect("a change that was committed");
            describe_membership(&member.membership)
        };
        group.on_applied(entry.index);
        member.applied.push((entry.index, text.clone()));
        if !text.is_empty() {
            let text: String = text.chars().take(SHOWN_BYTES_MAX).collect();
            self.say(&format!("{id} applies {}: {text}", entry.index.0));
        }
    }

    /// Finishes the log's writes unless they are held. Whether anything became durable.
    fn sync(&mut self, id: u64) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        let actions = member.log.borrow_mut().poll(Tick(self.now));
        actions.into_iter().for_each(|action| member.disk.start(action));
        if member.held {
            return false;
        }
        while let Some(event) = member.disk.finish() {
            tell(&mut member.log.borrow_mut(), event);
        }
        let synced = member.log.borrow().synced();
        let mut released = Vec::new();
        while let Some((number, _, messages)) = member.unsynced.pop_front_if(|(_, batch, _)| *batch <= synced) {
            member.group.as_mut().expect("it is alive").on_persisted(number);
            released.push(messages);
        }
        let any = !released.is_empty();
        released.into_iter().for_each(|messages| self.send(messages));
        any
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            let bytes = message.to_bytes();
            let message = Message::from_bytes(bytes).expect("what was written can be read");
            let (from, to) = (message.from().0, message.to().0);
            if self.cut.contains(&from) || self.cut.contains(&to) {
                continue;
            }
            self.wires.push_back(message);
        }
    }

    /// Says what changed for the eye: role, term, commit.
    fn show(&mut self, id: u64) {
        let member = self.members.get_mut(&id).expect("it was named");
        let state = member.state();
        if member.shown != state {
            member.shown = state.clone();
            self.say(&format!("{id} {state}"));
        }
    }

    /// Delivers what is on the wires now (not what that leads to).
    fn deliver(&mut self, chosen: impl Fn(&Message) -> bool) -> usize {
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.wires).into_iter().partition(chosen);
        self.wires = later.into();
        let count = now.len();
        for message in now {
            self.say(&describe_message(&message));
            let to = message.to().0;
            if let Some(group) = self.members.get_mut(&to).and_then(|member| member.group.as_mut()) {
                group.step(message);
                self.work(to);
            }
        }
        count
    }

    fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.deliver(|_| true) == 0 {
                return;
            }
        }
        self.say("never quiet");
    }

    fn campaign(&mut self, id: u64) {
        for _ in 0..STEPS_MAX {
            if self.group(id).role() != Role::Follower {
                break;
            }
            self.group(id).tick();
            self.work(id);
        }
    }

    /// Time passes for every living member.
    fn tick(&mut self, only: Option<u64>, count: usize) {
        for _ in 0..count {
            self.now += 1_000;
            let ids: Vec<u64> = self.members.keys().copied().filter(|id| only.is_none_or(|only| only == *id)).collect();
            for id in ids {
                if self.members[&id].group.is_some() {
                    self.group(id).tick();
                    self.work(id);
                }
            }
        }
    }

    fn crash(&mut self, id: u64) {
        let member = self.members.get_mut(&id).expect("it was named");
        member.group = None;
        member.unsynced.clear();
        member.held = false;
        // What was not synced is lost: the worst a crash may do.
        member.disk.crash(&mut |_| 0);
        self.show(id);
    }

    fn restart(&mut self, id: u64) {
        let old = self.members.remove(&id).expect("it was named");
        self.members.insert(id, Member::open(id, old.disk, old.membership, old.applied));
        self.work(id);
    }

    fn status(&mut self) {
        let lines: Vec<String> = self
            .members
            .iter()
            .map(|(id, member)| format!("{id} {}; log {}", member.state(), member.entries()))
            .collect();
        lines.iter().for_each(|line| self.say(line));
    }

    fn change(&mut self, id: u64, case: &mut TestCase) {
        let mut changes = Vec::new();
        for (word, kind) in
            [("voter", ChangeKind::AddVoter), ("learner", ChangeKind::AddLearner), ("remove", ChangeKind::Remove)]
        {
            let found: Vec<u64> = case.try_take_args(word).unwrap().unwrap_or_default();
            changes.extend(found.into_iter().map(|replica| (kind, ReplicaId(replica))));
        }
        let change = MembershipChange { changes };
        match self.group(id).propose_change(&change, change.to_bytes()) {
            Ok(index) => self.say(&format!("{id} proposes {}", index.0)),
            Err(error) => self.say(&format!("{id} refuses: {error}")),
        }
        self.work(id);
    }

    fn make(&mut self, case: &mut TestCase) {
        let voters: Vec<u64> = case.take_args("voters").unwrap();
        let learners: Vec<u64> = case.try_take_args("learners").unwrap().unwrap_or_default();
        let membership = Membership { voters: ids(&voters), learners: ids(&learners), ..Membership::default() };
        for id in voters.into_iter().chain(learners) {
            let disk = TestDisk::new(log_config().segment_bytes);
            self.members.insert(id, Member::open(id, disk, membership.clone(), Vec::new()));
            let state = self.members[&id].state();
            self.members.get_mut(&id).expect("just made").shown = state;
        }
    }

    fn command(&mut self, case: &mut TestCase) -> Option<()> {
        let mut number = |name: &str| case.try_take_arg::<u64>(name).unwrap();
        let (on, from, to, bytes) = (number("on"), number("from"), number("to"), number("bytes"));
        let count = number("count").unwrap_or(1) as usize;
        let id = on.unwrap_or(0);
        let matches = move |message: &Message| {
            from.is_none_or(|from| from == message.from().0) && to.is_none_or(|to| to == message.to().0)
        };
        match case.directive.as_str() {
            "group" => self.make(case),
            "tick" => self.tick(on, count),
            "campaign" => self.campaign(id),
            "deliver" => drop(self.deliver(matches)),
            "lose" => self.wires.retain(|message| !matches(message)),
            "wires" => {
                let lines: Vec<String> = self.wires.iter().map(describe_message).collect();
                lines.iter().for_each(|line| self.say(line));
            }
            "settle" => self.settle(),
            "settle-silently" => {
                let length = self.out.len();
                self.settle();
                self.out.truncate(length);
            }
            "cut" => drop(self.cut.insert(id)),
            "heal" => self.cut.clear(),
            "hold" => self.members.get_mut(&id)?.held = true,
            "sync" => {
                self.members.get_mut(&id)?.held = false;
                self.work(id);
            }
            "crash" => self.crash(id),
            "restart" => self.restart(id),
            "transfer" => {
                self.group(id).transfer_leader(ReplicaId(to?));
                self.work(id);
            }
            "change" => self.change(id, case),
            "read" => {
                self.group(id).read_index(count as u64);
                self.work(id);
            }
            "propose" => {
                // One entry a line; `bytes` pads it, so that an append message holds no other.
                for line in case.input.clone().lines() {
                    let padding = (bytes.unwrap_or(0) as usize).saturating_sub(line.len());
                    let data = line.to_string() + &"x".repeat(padding);
                    match self.group(id).propose(Bytes::from(data)) {
                        Ok(index) => self.say(&format!("{id} proposes {}", index.0)),
                        Err(error) => self.say(&format!("{id} refuses: {error}")),
                    }
                }
                self.work(id);
            }
            "status" => self.status(),
            _ => return None,
        }
        Some(())
    }

    fn run(&mut self, case: &mut TestCase) -> String {
        let known = self.command(case);
        assert!(known.is_some(), "'{}' is no command, or lacks an argument", case.directive);
        case.expect_empty().unwrap();
        std::mem::take(&mut self.out)
    }
}

#[test]
fn golden_stories() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    datadriven::walk(folder, |file| {
        let mut world = World::default();
        file.run(|case| world.run(case));
    });
}
