//! Clusters that keep versions, around the load: they are made before it. After it leases end and garbage goes without a client, reads
//! that wait are answered by the next commit, and watchers are given the rest.
//!
//! Not here: the clients (`histories`), what is right (proof-check, `versions`).

use super::{Answered, Run, EQUAL_US, LOOK_US, MAKE_US, SERVE_US};
use crate::histories::{self, all, put_of, reply_of, whole};
use crate::plan::Layer;
use base_types::action::{Action, KeyspaceKind, KvTarget, Partitioning};
use base_types::versioned::{Command, Info, Position, Query, Reply, Transaction, VersionedCall};
use base_types::{ClusterName, RequestId, Term};
use bytes::Bytes;
use proof_check::versions::Call;
use proof_check::Ending;
use std::collections::BTreeSet;

/// After the load every lease ends, and all garbage goes, within this time.
const ENDS_US: u64 = 60_000_000;
/// A read that waits is answered by a commit within this time: far less than it is kept.
const TOLD_US: u64 = 4_000_000;
/// The lease of a cluster that nobody uses: long enough for it to fall asleep.
const AUDIT_LEASE: u64 = 1 << 40;
const QUIET_TTL_US: u64 = 15_000_000;
/// So often may it change its leader while it is waited for.
const LEADERS_OF_A_QUIET_CLUSTER_MAX: usize = 6;
/// The lease that lives through a change of leaders, and when that is.
const MOVED_TTL_US: u64 = 8_000_000;
const MOVED_AFTER_US: u64 = 6_500_000;
/// Pages of changes that one watcher is given at the end.
const PAGES_MAX: usize = 10_000;

pub(super) fn make_histories(run: &mut Run) {
    for name in run.load.targets.histories.clone() {
        let rule = format!("size={} location=world failure_domain=chassis", run.world.plan.shape.cluster_size);
        let until = run.world.now + MAKE_US;
        loop {
            if run.world.plan.layer == Layer::Core {
                let make = match histories::target_of(&name) {
                    KvTarget::Keyspace(keyspace) => make_keyspace(keyspace, rule.clone()),
                    KvTarget::Cluster(name) => Action::CreateCluster { name, rule: rule.clone() },
                };
                run.call(0, make, None, 5_000_000);
            }
            match describe(run, &name, 2_000_000) {
                Ok(_) => break,
                Err(last) if run.world.now >= until || !run.world.violations.is_empty() => {
                    return run.violate("set-up", format!("cluster {name:?} is not made in time: {last}"));
                }
                Err(_) => {}
            }
        }
    }
}

fn make_keyspace(keyspace: String, rule: String) -> Action {
    Action::CreateKeyspace {
        kind: KeyspaceKind::Versioned,
        keyspace,
        partitioning: Partitioning::Hash,
        partitions: 1,
        clusters: 1,
        split_keys: Vec::new(),
        rule,
        engine: None,
    }
}

/// A call of the leader until it is answered.
fn tell(run: &mut Run, name: &ClusterName, call: &VersionedCall, limit_us: u64) -> Result<Reply, String> {
    tell_at(run, name, call, true, limit_us)
}

fn tell_at(
    run: &mut Run,
    name: &ClusterName,
    call: &VersionedCall,
    strong: bool,
    limit_us: u64,
) -> Result<Reply, String> {
    let until = run.world.now + limit_us;
    let mut last = "no node answered".to_string();
    run.request_ids += 1;
    let id = RequestId(u128::from(run.request_ids) | 1 << 100);
    for attempt in 0.. {
        if run.world.now >= until || !run.world.violations.is_empty() {
            break;
        }
        let node = attempt % run.world.nodes.len();
        let request = histories::request(name, call, strong, 5_000, id);
        if let Some(ticket) = run.world.ask(node, request) {
            match answer_to(run, ticket, 6_000_000) {
                Some(Ok(reply)) => return Ok(reply),
                other => last = format!("node {} says {other:?}", node + 1),
            }
        }
        let pause = run.world.now + LOOK_US;
        run.pump(pause, |_| false);
    }
    Err(last)
}

fn answer_to(run: &mut Run, ticket: base_types::Ticket, wait_us: u64) -> Option<Result<Reply, base_types::Refusal>> {
    run.control.insert(ticket, None);
    let until = run.world.now + wait_us;
    run.pump(until, |run| run.control.get(&ticket).is_some_and(|slot| slot.is_some()));
    match run.control.remove(&ticket)?? {
        Answered::Response(response) => Some(reply_of(*response)),
        Answered::Lost => None,
    }
}

fn describe(run: &mut Run, name: &ClusterName, limit_us: u64) -> Result<Info, String> {
    match tell(run, name, &VersionedCall::Ask(Query::Describe), limit_us)? {
        Reply::Info { info } => Ok(info),
        other => Err(format!("{other:?}")),
    }
}

/// All that clients left ends by itself.
pub(super) fn histories_end(run: &mut Run) {
    for (place, name) in run.load.targets.histories.clone().into_iter().enumerate() {
        leases_end(run, &name);
        members_catch_up(run, &name);
        let audits: [fn(&mut Run, usize, &ClusterName); 4] =
            [reads_are_told, a_quiet_cluster_ends_leases, a_new_leader_gives_time, watchers_are_given_the_rest];
        for audit in audits {
            // What follows a finding only repeats it in other words.
            if !run.world.violations.is_empty() {
                return;
            }
            audit(run, place, &name);
        }
        garbage_goes(run, &name);
        if !run.world.violations.is_empty() {
            return;
        }
    }
}

/// Nobody renews a lease any more, and nobody else ends one.
fn leases_end(run: &mut Run, name: &ClusterName) {
    wait_for(run, name, |info| info.leases == 0);
}

/// All of the past is compacted, and nobody commits.
fn garbage_goes(run: &mut Run, name: &ClusterName) {
    match describe(run, name, SERVE_US) {
        Ok(info) if info.stamp > info.compacted => {
            let compact = VersionedCall::Change(Command::Compact { stamp: info.stamp });
            if let Err(last) = tell(run, name, &compact, SERVE_US) {
                return run.violate("liveness", format!("{name} is not compacted after healing: {last}"));
            }
            wait_for(run, name, |info| info.stamp == info.compacted && !info.garbage);
        }
        _ => {}
    }
}

/// A lease ends in a cluster that has fallen asleep, in time, although nobody asks anything.
fn a_quiet_cluster_ends_leases(run: &mut Run, place: usize, name: &ClusterName) {
    if run.histories.books[place].leaps {
        return;
    }
    let grant = VersionedCall::Change(Command::LeaseGrant { lease: AUDIT_LEASE, ttl_ms: QUIET_TTL_US / 1_000 });
    noted(run, place, name, grant);
    let until = run.world.now + QUIET_TTL_US * 105 / 100 + TOLD_US;
    pump_under_one_leader(run, name, until, QUIET_TTL_US);
    let ask = VersionedCall::Ask(Query::Describe);
    // Members are asked for what they have applied, which wakes none of them. One may lag.
    for _ in 0..run.world.nodes.len() {
        match tell_at(run, name, &ask, false, SERVE_US) {
            Ok(Reply::Info { info }) if info.leases == 0 => return,
            _ => run.request_ids += 1,
        }
    }
    if run.world.violations.is_empty() {
        let seconds = TOLD_US / 1_000_000;
        run.violate(
            "liveness",
            format!("{name} was asked nothing, and {seconds} s after its end a lease is still there"),
        );
    }
}

/// Waits until a lease must have ended. After a change of leaders it may live for its whole time again (decision 0090), and messages
/// that come late wake members of a quiet cluster, which then campaign.
fn pump_under_one_leader(run: &mut Run, name: &ClusterName, mut until: u64, ttl_us: u64) {
    for _ in 0..LEADERS_OF_A_QUIET_CLUSTER_MAX {
        let term = term_of(run, name);
        run.pump(until, |_| false);
        if term_of(run, name) == term {
            return;
        }
        until = run.world.now + ttl_us * 105 / 100 + TOLD_US;
    }
}

fn term_of(run: &Run, name: &ClusterName) -> Option<Term> {
    run.world.views().into_iter().filter(|view| view.name == *name).map(|view| view.term).max()
}

/// Leadership moves shortly before a lease would end. It lives on, so that its client can find the new leader, and ends within its time
/// from then (decision 0090).
fn a_new_leader_gives_time(run: &mut Run, place: usize, name: &ClusterName) {
    if run.world.plan.layer == Layer::Lane || run.histories.books[place].leaps {
        return;
    }
    let grant = VersionedCall::Change(Command::LeaseGrant { lease: AUDIT_LEASE + 1, ttl_ms: MOVED_TTL_US / 1_000 });
    noted(run, place, name, grant);
    let granted = run.world.now;
    run.pump(granted + MOVED_AFTER_US, |_| false);
    // An entry carries the cluster's time on.
    let then = vec![put_of(&Bytes::from_static(b"audit"), format!("audit.{place}.moved"), 0, false)];
    noted(
        run,
        place,
        name,
        VersionedCall::Change(Command::Commit { transaction: Transaction { then, ..Transaction::default() } }),
    );
    let leader = |run: &Run| {
        run.world.views().into_iter().filter(|view| view.name == *name && view.is_leader).max_by_key(|view| view.term)
    };
    let Some(before) = leader(run) else { return };
    let Some(other) = before.members.iter().find(|member| !member.learner && member.replica != before.replica) else {
        return;
    };
    let transfer = Action::TransferLeader { name: name.clone(), node: other.node };
    run.call(0, transfer, None, 1_000_000);
    if leader(run).is_none_or(|after| after.term == before.term) || run.world.now > granted + MOVED_TTL_US * 90 / 100 {
        return;
    }
    run.world.probe("lease_lived_on_through_a_transfer");
    let moved = run.world.now;
    run.pump(granted + MOVED_TTL_US * 105 / 100 + 1_000_000, |_| false);
    let ask = VersionedCall::Ask(Query::Describe);
    for (until, leases) in [(run.world.now, 1), (moved + MOVED_TTL_US * 105 / 100 + TOLD_US, 0)] {
        pump_under_one_leader(run, name, until, MOVED_TTL_US);
        match tell(run, name, &ask, SERVE_US) {
            Ok(Reply::Info { info }) if info.leases == leases => {}
            other if run.world.violations.is_empty() => {
                let (at, text) = ((run.world.now - moved) / 1_000, format!("{other:?}"));
                run.violate(
                    "versions",
                    format!("{name}: {at} ms after a new leader {leases} leases are to be there: {text}"),
                );
            }
            _ => {}
        }
    }
}

/// A call of the leader, which goes into the book.
fn noted(run: &mut Run, place: usize, name: &ClusterName, call: VersionedCall) {
    let invoked = run.world.now;
    match tell(run, name, &call, SERVE_US) {
        Ok(reply) => audited_version(run, place, call, invoked, reply),
        Err(last) => run.violate("liveness", format!("{name} does not serve after healing: {last}")),
    }
}

/// Waits until a member has what is wanted. Members are asked for what they have applied, which wakes none of them.
fn wait_for(run: &mut Run, name: &ClusterName, wanted: fn(&Info) -> bool) {
    let until = run.world.now + ENDS_US;
    let ask = VersionedCall::Ask(Query::Describe);
    loop {
        match tell_at(run, name, &ask, false, SERVE_US) {
            Ok(Reply::Info { info }) if wanted(&info) => return,
            Ok(info) if run.world.now >= until => {
                let seconds = ENDS_US / 1_000_000;
                return run.violate("liveness", format!("{name}: after {seconds} s there is still {info:?}"));
            }
            Ok(_) => {}
            Err(last) => return run.violate("liveness", format!("{name} does not serve after healing: {last}")),
        }
        if !run.world.violations.is_empty() {
            return;
        }
        let pause = run.world.now + 5 * LOOK_US;
        run.pump(pause, |_| false);
    }
}

/// A member that still takes in a snapshot answers nothing that is new: where chunks hold one pair each, thousands of versions take it
/// tens of seconds (seed 378). It has to end, within the time in which replicas become equal.
pub(super) fn members_catch_up(run: &mut Run, name: &ClusterName) {
    let until = run.world.now + EQUAL_US;
    let leads = |run: &Run| {
        run.world.views().into_iter().filter(|view| view.name == *name && view.is_leader).max_by_key(|view| view.term)
    };
    let Some(wanted) = leads(run).map(|leader| leader.applied) else { return };
    loop {
        let Some(leader) = leads(run) else { return };
        let views = run.world.views();
        let is_behind = |view: &&core_cluster::api::ReplicaView| {
            let member = leader.members.iter().any(|member| member.replica == view.replica);
            view.cluster == leader.cluster && member && !view.damaged && view.applied < wanted
        };
        let Some(behind) = views.iter().find(is_behind) else { return };
        if run.world.now >= until {
            let (applied, seconds) = (behind.applied, EQUAL_US / 1_000_000);
            let message =
                format!("{name}: after {seconds} s a member is at {applied:?}, and its leader was at {wanted:?}");
            return run.violate("liveness", message);
        }
        let pause = run.world.now + 5 * LOOK_US;
        run.pump(pause, |_| false);
    }
}

/// Every node is asked for what comes next, then something comes.
fn reads_are_told(run: &mut Run, place: usize, name: &ClusterName) {
    let Ok(info) = describe(run, name, SERVE_US) else { return };
    let after = Position::end_of(info.stamp);
    let wait = VersionedCall::Ask(Query::Await { span: all(), after, limit: 0, before: true, pin: 0 });
    let request = histories::request(name, &wait, false, 20_000, RequestId(1 << 99));
    // In a lane alone only members answer.
    let holders: BTreeSet<_> = run
        .world
        .views()
        .into_iter()
        .filter(|view| view.name == *name)
        .flat_map(|view| view.members.to_vec())
        .map(|member| member.node)
        .collect();
    let nodes = (0..run.world.nodes.len()).filter(|node| holders.contains(&run.world.nodes[*node].id));
    let nodes: Vec<usize> = nodes.collect();
    let tickets: Vec<_> = nodes.iter().filter_map(|node| run.world.ask(*node, request.clone())).collect();
    tickets.iter().for_each(|ticket| drop(run.control.insert(*ticket, None)));
    let pause = run.world.now + 10 * LOOK_US;
    run.pump(pause, |_| false);
    let invoked = run.world.now;
    let value = format!("audit.{place}");
    let then = vec![put_of(&Bytes::from_static(b"audit"), value, 0, false)];
    let transaction = Transaction { then, ..Transaction::default() };
    let commit = VersionedCall::Change(Command::Commit { transaction });
    match tell(run, name, &commit, SERVE_US) {
        Ok(reply) => audited_version(run, place, commit, invoked, reply),
        Err(last) => return run.violate("liveness", format!("{name} takes no commit after healing: {last}")),
    }
    let until = run.world.now + TOLD_US;
    let told = |run: &Run| tickets.iter().all(|ticket| run.control.get(ticket).is_some_and(Option::is_some));
    run.pump(until, told);
    if run.world.violations.is_empty() && !told(run) {
        let seconds = TOLD_US / 1_000_000;
        run.violate(
            "versions",
            format!("a read that waited for a commit of {name} is not answered {seconds} s after it"),
        );
    }
    for ticket in tickets {
        run.control.remove(&ticket);
    }
}

fn watchers_are_given_the_rest(run: &mut Run, place: usize, name: &ClusterName) {
    let invoked = run.world.now;
    match tell(run, name, &whole(0), SERVE_US) {
        Ok(reply) => audited_version(run, place, whole(0), invoked, reply),
        Err(last) => return run.violate("liveness", format!("{name} does not serve after healing: {last}")),
    }
    for number in 0..run.histories.books[place].watches.len() {
        for _ in 0..PAGES_MAX {
            let watch = &run.histories.books[place].watches[number];
            let (after, lost) = (watch.reached, watch.lost);
            if lost.is_some() {
                break;
            }
            let ask = VersionedCall::Ask(Query::Changes { span: all(), after, limit: 0, before: true, pin: 0 });
            let at = run.world.now;
            match tell(run, name, &ask, 3_000_000) {
                Ok(Reply::Changes { changes, reached, more }) => {
                    let watch = &mut run.histories.books[place].watches[number];
                    watch.seen.extend(changes.into_iter().map(|change| (change, at)));
                    watch.reached = reached.max(watch.reached);
                    if !more {
                        break;
                    }
                }
                // It was compacted: what the watcher has not seen, it does not claim to have.
                _ => break,
            }
        }
    }
}

fn audited_version(run: &mut Run, place: usize, asked: VersionedCall, invoked: u64, reply: Reply) {
    let returned = Some(run.world.now);
    let calls = &mut run.histories.books[place].calls;
    let (id, ending, told) = (calls.len() as u64, Ending::Ok, Some(Ok(reply)));
    calls.push(Call { id, asked, strong: true, invoked, returned, ending, told });
}
