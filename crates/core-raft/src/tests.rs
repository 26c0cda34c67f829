//! Messages from and to peers; hibernation.

mod golden;

use crate::membership::MEMBERS_MAX;
use crate::message::MESSAGE_ENTRIES_MAX;
use crate::*;
use base_types::codec::Encode;
use base_types::{ClusterId, LogIndex, ReplicaId, Term, Tick};
use bytes::Bytes;
use core_log::testing::TestDisk;
use core_log::{Log, LogConfig};
use raft::eraftpb::{Entry, Message as LibraryMessage, MessageType};
use std::cell::RefCell;
use std::rc::Rc;

const CLUSTER: ClusterId = ClusterId(7);

fn group(voters: &[u64]) -> (Group, Rc<RefCell<Log>>, TestDisk) {
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let mut disk = TestDisk::new(config.segment_bytes);
    let (mut log, _) = Log::recover(&mut disk, config, 1).unwrap();
    log.compact(CLUSTER, LogIndex(1), Term(1));
    let log = Rc::new(RefCell::new(log));
    let membership =
        Rc::new(Membership { voters: voters.iter().copied().map(ReplicaId).collect(), ..Membership::default() });
    let config = GroupConfig {
        cluster: CLUSTER,
        replica: ReplicaId(1),
        election_ticks: 10,
        heartbeat_ticks: 3,
        seed: 1,
        applied: LogIndex(1),
        membership: membership.clone(),
        snapshot_point: SnapshotPoint { index: LogIndex(1), term: Term(1), membership },
    };
    (Group::new(config, log.clone()).unwrap(), log, disk)
}

fn message(kind: MessageType, from: u64, term: u64) -> LibraryMessage {
    let mut message = LibraryMessage { from, to: 1, term, ..LibraryMessage::default() };
    message.set_msg_type(kind);
    message
}

fn step(group: &mut Group, inner: LibraryMessage) {
    let sent = Message::from_bytes(Message { inner }.to_bytes()).unwrap();
    group.step(sent);
}

fn entry(index: u64, term: u64, bytes: usize) -> Entry {
    Entry { index, term, data: Bytes::from(vec![1; bytes]), ..Entry::default() }
}

/// Takes readies until there is none; nothing is made durable.
fn drain(group: &mut Group) -> Vec<GroupReady> {
    std::iter::from_fn(|| group.make_ready(|_| {})).collect()
}

#[test]
fn answer_of_a_later_term_keeps_a_followers_promise() {
    let (mut group, _log, _disk) = group(&[1, 2, 3]);
    step(&mut group, message(MessageType::MsgHeartbeat, 2, 5));
    assert_eq!((group.leader(), group.term()), (Some(ReplicaId(2)), Term(5)));
    let mut refusal = message(MessageType::MsgRequestPreVoteResponse, 3, 6);
    refusal.reject = true;
    step(&mut group, refusal);
    assert_eq!((group.leader(), group.term()), (Some(ReplicaId(2)), Term(5)));
    // And so the vote that a leader's lease rules out is not given.
    let mut vote = message(MessageType::MsgRequestVote, 3, 6);
    (vote.index, vote.log_term) = (1, 1);
    step(&mut group, vote);
    assert!(drain(&mut group)
        .iter()
        .flat_map(|ready| &ready.persisted_messages)
        .all(|m| m.is_reject() || m.to() != ReplicaId(3)));
    assert_eq!(group.term(), Term(5));
}

#[test]
fn lone_voter_campaigns_only_with_a_durable_log() {
    let (mut group, log, mut disk) = group(&[1]);
    let mut append = message(MessageType::MsgAppend, 2, 3);
    (append.index, append.log_term) = (1, 1);
    append.set_entries(vec![entry(2, 3, 10)].into());
    step(&mut group, append);
    let numbers: Vec<u64> = drain(&mut group).iter().map(|ready| ready.number).collect();
    (0..100).for_each(|_| group.tick());
    assert_eq!(group.role(), Role::Follower);
    disk.drive(&mut log.borrow_mut(), Tick(1));
    numbers.into_iter().for_each(|number| group.on_persisted(number));
    (0..100).for_each(|_| group.tick());
    assert_eq!(group.role(), Role::Leader);
}

#[test]
fn split_messages_keep_their_bounds_and_entries() {
    for (count, bytes) in [(10_000, 1), (40, 100_000), (3, 2_000_000), (1, 0), (0, 0)] {
        let mut inner = message(MessageType::MsgAppend, 2, 9);
        (inner.index, inner.log_term) = (5, 4);
        inner.set_entries((0..count).map(|at| entry(6 + at, 9, bytes)).collect::<Vec<_>>().into());
        let mut out = Vec::new();
        Message::split_into(inner, 1 << 20, &mut out);
        let mut index = 5;
        for part in &out {
            assert_eq!(part.inner.index, index);
            assert!(part.inner.entries.len() <= MESSAGE_ENTRIES_MAX);
            let sum: usize = part.inner.entries.iter().map(|entry| entry.data.len()).sum();
            assert!(sum <= 1 << 20 || part.inner.entries.len() == 1);
            assert!(Message::from_bytes(part.to_bytes()).is_ok());
            index += part.inner.entries.len() as u64;
        }
        assert_eq!(index, 5 + count);
    }
}

#[test]
fn hostile_numbers_never_reach_the_library() {
    let (mut group, _log, _disk) = group(&[1, 2, 3]);
    let kinds = [
        MessageType::MsgAppend,
        MessageType::MsgAppendResponse,
        MessageType::MsgHeartbeat,
        MessageType::MsgHeartbeatResponse,
        MessageType::MsgSnapshot,
        MessageType::MsgRequestVote,
        MessageType::MsgRequestVoteResponse,
        MessageType::MsgTimeoutNow,
    ];
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        [0, 1, 2, 3, 4, u64::MAX - 1, u64::MAX][(state >> 33) as usize % 7]
    };
    for round in 0..20_000 {
        let mut hostile = message(kinds[round % kinds.len()], 2 + draw() % 3, draw() % 8);
        (hostile.index, hostile.log_term, hostile.commit) = (draw(), draw(), draw());
        (hostile.commit_term, hostile.reject_hint, hostile.request_snapshot) = (draw(), draw(), draw() % 2);
        hostile.reject = round % 3 == 0;
        if round % kinds.len() == 4 {
            let metadata = hostile.mut_snapshot().mut_metadata();
            (metadata.index, metadata.term) = (draw(), draw());
            metadata.mut_conf_state().voters = vec![1, draw(), draw()];
            metadata.mut_conf_state().learners = vec![draw()];
            metadata.mut_conf_state().voters_outgoing = vec![draw()];
        }
        group.step(Message { inner: hostile });
        group.tick();
        let ready = group.make_ready(|_| {});
        if let Some(ready) = ready {
            group.on_persisted(ready.number);
            if let Some(last) = ready.committed.last() {
                group.on_applied(last.index);
            }
        }
    }
}

/// A follower of member 2 in term 5 that holds and has applied entry 2.
fn quiet_follower() -> (Group, Rc<RefCell<Log>>) {
    let (mut group, log, mut disk) = group(&[1, 2, 3]);
    let mut append = message(MessageType::MsgAppend, 2, 5);
    (append.index, append.log_term, append.commit) = (1, 1, 2);
    append.set_entries(vec![entry(2, 5, 10)].into());
    step(&mut group, append);
    for _ in 0..3 {
        let readies = drain(&mut group);
        disk.drive(&mut log.borrow_mut(), Tick(1));
        for ready in readies {
            group.on_persisted(ready.number);
            ready.committed.last().into_iter().for_each(|last| group.on_applied(last.index));
        }
    }
    assert_eq!(group.commit(), LogIndex(2));
    (0..4).for_each(|_| group.tick());
    (group, log)
}

#[test]
fn hibernated_follower_keeps_its_promise() {
    let (mut rested, _log) = quiet_follower();
    let (mut waking, _other) = quiet_follower();
    rested.hibernate();
    let told = |group: &Group| {
        (group.role(), group.term(), group.leader(), group.commit(), group.last_index(), group.membership())
    };
    assert_eq!(told(&rested), told(&waking));
    assert!(rested.is_hibernating() && !waking.is_hibernating() && !rested.has_ready());
    let vote = || {
        let mut vote = message(MessageType::MsgRequestVote, 3, 9);
        (vote.index, vote.log_term) = (2, 5);
        vote
    };
    let pre_vote = || {
        let mut pre_vote = vote();
        pre_vote.set_msg_type(MessageType::MsgRequestPreVote);
        pre_vote
    };
    // Four of the ten ticks that it promised its leader have passed; then all of them.
    for rounds in [1, 5, 1] {
        (0..rounds).for_each(|_| rested.tick());
        (0..rounds).for_each(|_| waking.tick());
        for inner in [pre_vote(), vote()] {
            step(&mut rested, inner.clone());
            step(&mut waking, inner);
        }
        let said = |group: &mut Group| {
            let told = |ready: GroupReady| (ready.staged, ready.messages, ready.persisted_messages, ready.role_changed);
            format!("{:?}", drain(group).into_iter().map(told).collect::<Vec<_>>())
        };
        assert_eq!(said(&mut rested), said(&mut waking));
        assert_eq!(told(&rested), told(&waking));
        rested.hibernate(); // Not while a vote waits for the log.
    }
    assert_eq!(rested.term(), Term(9), "the vote was given once the promise had ended");
}

/// What a member has staged, applied and said, made durable at once.
fn live(group: &mut Group, log: &Rc<RefCell<Log>>, disk: &mut TestDisk) -> String {
    let mut said = String::new();
    for _ in 0..4 {
        let readies = drain(group);
        disk.drive(&mut log.borrow_mut(), Tick(1));
        for ready in readies {
            group.on_persisted(ready.number);
            ready.committed.last().into_iter().for_each(|last| group.on_applied(last.index));
            let GroupReady { staged, messages, persisted_messages, committed, reads, role_changed, .. } = ready;
            said += &format!("{staged} {messages:?} {persisted_messages:?} {committed:?} {reads:?} {role_changed}\n");
        }
    }
    said
}

/// A leader of three in term 2 whose members have acknowledged all entries.
fn quiet_leader() -> (Group, Rc<RefCell<Log>>, TestDisk) {
    quiet_leader_of(3)
}

/// A leader of members 1 to `members`, all of which have all it has.
fn quiet_leader_of(members: u64) -> (Group, Rc<RefCell<Log>>, TestDisk) {
    let (mut group, log, mut disk) = group(&(1..=members).collect::<Vec<_>>());
    // Each member waits for its turn (election_timeout.rs).
    for _ in 0..100 + 2 * members {
        group.tick();
        let term = group.term().0;
        let (kind, term) = match group.role() {
            Role::Follower => continue,
            Role::PreCandidate => (MessageType::MsgRequestPreVoteResponse, term + 1),
            _ => (MessageType::MsgRequestVoteResponse, term),
        };
        live(&mut group, &log, &mut disk);
        for from in 2..=members / 2 + 1 {
            step(&mut group, message(kind, from, term));
        }
        live(&mut group, &log, &mut disk);
        if group.role() == Role::Leader {
            break;
        }
    }
    assert_eq!(group.role(), Role::Leader);
    for from in 2..=members {
        acknowledge(&mut group, from);
    }
    live(&mut group, &log, &mut disk);
    assert!(group.committed_in_own_term());
    (group, log, disk)
}

fn acknowledge(group: &mut Group, from: u64) {
    let mut answer = message(MessageType::MsgAppendResponse, from, group.term().0);
    (answer.index, answer.commit) = (group.last_index().0, group.commit().0);
    step(group, answer);
}

/// What happens to a group, and its name.
type Act = (&'static str, Box<dyn Fn(&mut Group)>);

#[test]
fn hibernated_leader_acts_as_before() {
    let (mut rested, log, mut disk) = quiet_leader();
    let (mut waking, other_log, mut other_disk) = quiet_leader();
    rested.hibernate();
    assert!(rested.is_hibernating() && !waking.is_hibernating() && !rested.has_ready());
    let told = |group: &Group| {
        let seen = (group.role(), group.term(), group.leader(), group.commit(), group.last_index());
        let changes = (group.committed_in_own_term(), group.change_pending(), group.is_transferring());
        (seen, changes, group.membership(), group.followers(), group.matched_on_all(&[ReplicaId(2), ReplicaId(3)]))
    };
    assert_eq!(told(&rested), told(&waking));
    let mut acts: Vec<Act> = vec![
        ("pinged", Box::new(Group::ping)),
        ("asked to write", Box::new(|group| assert!(group.propose(Bytes::from_static(b"x")).is_ok()))),
        ("answered by 2", Box::new(|group| acknowledge(group, 2))),
        ("asked to read", Box::new(|group| group.read_index(7))),
        ("answered by 3", Box::new(|group| acknowledge(group, 3))),
        ("asked for a vote", Box::new(|group| step(group, message(MessageType::MsgRequestPreVote, 3, 9)))),
        ("left to hand over", Box::new(|group| group.transfer_leader(ReplicaId(2)))),
    ];
    // Without answers it steps down at the same tick as a leader that did not hibernate.
    acts.extend((0..25).map(|_| -> Act { ("ticked", Box::new(Group::tick)) }));
    for (what, act) in acts {
        act(&mut rested);
        act(&mut waking);
        let said = live(&mut rested, &log, &mut disk);
        assert_eq!(said, live(&mut waking, &other_log, &mut other_disk), "{what}");
        assert_eq!(told(&rested), told(&waking), "{what}");
    }
    assert_ne!(rested.role(), Role::Leader);
}

/// As many members as a cluster may have: a leader that woke knows of each whether it heard it.
#[test]
fn leader_of_the_most_members_hibernates_and_keeps_its_quorum() {
    let members = MEMBERS_MAX as u64;
    let (mut rested, log, mut disk) = quiet_leader_of(members);
    let (mut waking, other_log, mut other_disk) = quiet_leader_of(members);
    rested.hibernate();
    assert!(rested.is_hibernating());
    // The answers of just a majority, all of them of the higher ids, and then of one fewer.
    for answering in [members / 2, members / 2 - 1] {
        for _ in 0..10 {
            for group in [&mut rested, &mut waking] {
                group.tick();
                (members - answering + 1..=members).for_each(|from| acknowledge(group, from));
            }
            live(&mut rested, &log, &mut disk);
            live(&mut waking, &other_log, &mut other_disk);
            rested.hibernate();
            assert_eq!(rested.role(), waking.role());
        }
        for _ in 0..10 {
            rested.tick();
            waking.tick();
        }
        assert_eq!(rested.role(), waking.role());
    }
    assert_ne!(rested.role(), Role::Leader);
}

#[test]
fn leader_with_a_lagging_member_stays_awake() {
    let (mut group, log, mut disk) = quiet_leader();
    group.propose(Bytes::from_static(b"x")).unwrap();
    live(&mut group, &log, &mut disk);
    acknowledge(&mut group, 2);
    live(&mut group, &log, &mut disk);
    group.hibernate();
    assert!(!group.is_hibernating());
    acknowledge(&mut group, 3);
    live(&mut group, &log, &mut disk);
    group.hibernate();
    assert!(group.is_hibernating());
    assert!(group.propose(Bytes::from_static(b"y")).is_ok(), "it wakes to write");
}
