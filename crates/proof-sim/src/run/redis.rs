//! Clusters with Redis databases, around the load: they are made before it. After it reads that wait are answered by what comes, keys
//! expire although nobody asks for them, subscribers are given the rest, and all that is there is read, the journal last.
//!
//! Not here: the clients (`redis`), what is right (proof-check, `redis`).

use super::histories::members_catch_up;
use super::{Answered, Run, LOOK_US, MAKE_US, SERVE_US};
use crate::plan::Layer;
use crate::redis::{command, first_call, reading, reply_of, request, target_of, unix_ms, whole, writing};
use base_types::action::{Action, KeyspaceKind, KvTarget, Partitioning};
use base_types::redis::{KeyVersion, RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{ClusterName, Refusal, RequestId, Ticket};
use bytes::Bytes;
use proof_check::redis::{Call, JOURNAL};
use proof_check::Ending;
use std::collections::BTreeSet;

/// A read that waits is answered by a change within this time: far less than it is kept.
const TOLD_US: u64 = 4_000_000;
/// How long the audit's key lives: long enough for the cluster to fall asleep.
const QUIET_MS: u64 = 15_000;
/// It is removed within this time, whatever leaders come and go.
const ENDS_US: u64 = 60_000_000;
/// The audit's database: its keys are counted.
const AUDIT: u8 = 2;
/// Elements of the journal that are read at a time.
const PAGE: usize = 1_000;
/// Questions of one subscriber at the end.
const PAGES_MAX: usize = 10_000;
/// The journal is read again where a late call has come to it.
const JOURNALS_MAX: usize = 5;

pub(super) fn make_databases(run: &mut Run) {
    for (place, name) in run.load.targets.databases.clone().into_iter().enumerate() {
        let rule = format!("size={} location=world failure_domain=chassis", run.world.plan.shape.cluster_size);
        let until = run.world.now + MAKE_US;
        let look = RedisAsk::Commands { commands: reading(Vec::new()) };
        loop {
            if run.world.plan.layer == Layer::Core {
                let make = match target_of(&name) {
                    KvTarget::Keyspace(keyspace) => make_keyspace(keyspace, rule.clone()),
                    KvTarget::Cluster(name) => Action::CreateCluster { name, rule: rule.clone() },
                };
                run.call(0, make, None, 5_000_000);
            }
            match tell(run, &name, &look, true, 2_000_000) {
                Ok(_) => break,
                Err(last) if run.world.now >= until || !run.world.violations.is_empty() => {
                    return run.violate("set-up", format!("cluster {name:?} is not made in time: {last}"));
                }
                Err(_) => {}
            }
        }
        let id = run.databases.books[place].calls.len();
        noted(run, place, &name, first_call(id));
    }
}

fn make_keyspace(keyspace: String, rule: String) -> Action {
    Action::CreateKeyspace {
        kind: KeyspaceKind::Redis,
        keyspace,
        partitioning: Partitioning::Hash,
        partitions: 1,
        clusters: 1,
        split_keys: Vec::new(),
        rule,
        engine: None,
    }
}

/// A call until it is answered, with one request id.
fn tell(run: &mut Run, name: &ClusterName, ask: &RedisAsk, strong: bool, limit_us: u64) -> Result<RedisAnswer, String> {
    let until = run.world.now + limit_us;
    let mut last = "no node answered".to_string();
    run.request_ids += 1;
    let id = RequestId(u128::from(run.request_ids) | 1 << 100);
    let call = RedisCall { unix_ms: unix_ms(run.world.now), seed: 0, ask: ask.clone() };
    for attempt in 0.. {
        if run.world.now >= until || !run.world.violations.is_empty() {
            break;
        }
        let node = attempt % run.world.nodes.len();
        if let Some(ticket) = run.world.ask(node, request(name, &call, strong, 5_000, id)) {
            match answer_to(run, ticket, 6_000_000) {
                Some(Ok(answer)) => return Ok(answer),
                other => last = format!("node {} says {other:?}", node + 1),
            }
        }
        let pause = run.world.now + LOOK_US;
        run.pump(pause, |_| false);
    }
    Err(last)
}

fn answer_to(run: &mut Run, ticket: Ticket, wait_us: u64) -> Option<Result<RedisAnswer, Refusal>> {
    run.control.insert(ticket, None);
    let until = run.world.now + wait_us;
    run.pump(until, |run| run.control.get(&ticket).is_some_and(|slot| slot.is_some()));
    match run.control.remove(&ticket)?? {
        Answered::Response(response) => Some(reply_of(*response)),
        Answered::Lost => None,
    }
}

/// A call of the leader, which goes into the book.
fn noted(run: &mut Run, place: usize, name: &ClusterName, asked: RedisAsk) -> Option<RedisAnswer> {
    let (invoked, unix_ms) = (run.world.now, unix_ms(run.world.now));
    match tell(run, name, &asked, true, SERVE_US) {
        Ok(answer) => {
            let (returned, told) = (Some(run.world.now), Some(answer.clone()));
            let call =
                Call { asked, unix_ms, strong: true, invoked, returned, ending: Ending::Ok, told, watched: None };
            run.databases.books[place].calls.push(call);
            Some(answer)
        }
        Err(last) => {
            run.violate("liveness", format!("{name} does not serve after healing: {last}"));
            None
        }
    }
}

fn write(run: &mut Run, place: usize, name: &ClusterName, commands: Vec<RedisCommand>) {
    let id = run.databases.books[place].calls.len();
    noted(run, place, name, RedisAsk::Commands { commands: writing(id, commands) });
}

pub(super) fn databases_end(run: &mut Run) {
    for (place, name) in run.load.targets.databases.clone().into_iter().enumerate() {
        members_catch_up(run, &name);
        let audits: [fn(&mut Run, usize, &ClusterName); 4] =
            [waiting_reads_are_told, keys_expire_by_themselves, all_is_read, subscribers_are_given_the_rest];
        for audit in audits {
            // What follows a finding only repeats it in other words.
            if !run.world.violations.is_empty() {
                return;
            }
            audit(run, place, &name);
        }
    }
}

/// Every member is asked for a key and for messages, then both come.
fn waiting_reads_are_told(run: &mut Run, place: usize, name: &ClusterName) {
    let keys = vec![KeyVersion { database: AUDIT, key: Bytes::from_static(b"blocked"), version: 0 }];
    let Ok(RedisAnswer::Messages { reached, .. }) =
        tell(run, name, &RedisAsk::Messages { after: u64::MAX }, true, SERVE_US)
    else {
        return run.violate("liveness", format!("{name} does not say where its messages end"));
    };
    let asks = [RedisAsk::AwaitKeys { keys }, RedisAsk::Messages { after: reached }];
    // In a lane alone only members answer.
    let holders: BTreeSet<_> = run
        .world
        .views()
        .into_iter()
        .filter(|view| view.name == *name)
        .flat_map(|view| view.members.to_vec())
        .map(|member| member.node)
        .collect();
    let nodes: Vec<usize> =
        (0..run.world.nodes.len()).filter(|node| holders.contains(&run.world.nodes[*node].id)).collect();
    let mut tickets = Vec::new();
    for (node, ask) in nodes.iter().flat_map(|node| asks.iter().map(move |ask| (*node, ask))) {
        let call = RedisCall { unix_ms: unix_ms(run.world.now), seed: 0, ask: ask.clone() };
        tickets.extend(run.world.ask(node, request(name, &call, false, 20_000, RequestId(1 << 99))));
    }
    tickets.iter().for_each(|ticket| drop(run.control.insert(*ticket, None)));
    let pause = run.world.now + 10 * LOOK_US;
    run.pump(pause, |_| false);
    let news = format!("{place}.audit");
    write(
        run,
        place,
        name,
        vec![command(AUDIT, &["RPUSH", "blocked", "served"]), command(0, &["PUBLISH", "news0", &news])],
    );
    let until = run.world.now + TOLD_US;
    let told = |run: &Run| tickets.iter().all(|ticket| run.control.get(ticket).is_some_and(Option::is_some));
    run.pump(until, told);
    if run.world.violations.is_empty() && !told(run) {
        let seconds = TOLD_US / 1_000_000;
        let text = format!("a read of {name} that waited for a key or a message is not answered {seconds} s after it");
        run.violate("redis", text);
    }
    for ticket in tickets {
        run.control.remove(&ticket);
    }
    if run.world.violations.is_empty() {
        write(run, place, name, vec![command(AUDIT, &["LPOP", "blocked"])]);
    }
}

/// A key expires in a cluster that has fallen asleep, although nobody asks anything.
fn keys_expire_by_themselves(run: &mut Run, place: usize, name: &ClusterName) {
    write(run, place, name, vec![command(AUDIT, &["SET", "audit", "kept", "PX", &QUIET_MS.to_string()])]);
    let pause = run.world.now + QUIET_MS * 1_000;
    run.pump(pause, |_| false);
    // The count holds keys that have expired and are not removed. Members are asked for what they have applied, which wakes none.
    let count = RedisAsk::Commands { commands: vec![command(AUDIT, &["DBSIZE"])] };
    let until = run.world.now + ENDS_US;
    while run.world.violations.is_empty() {
        match tell(run, name, &count, false, SERVE_US) {
            Ok(RedisAnswer::Replies { replies }) if replies == [RedisReply::Integer(0)] => return,
            Ok(_) if run.world.now < until => {}
            other => {
                let seconds = ENDS_US / 1_000_000;
                let text = format!("{name}: {seconds} s after its end a key is still counted: {other:?}");
                return run.violate("liveness", text);
            }
        }
        let pause = run.world.now + 5 * LOOK_US;
        run.pump(pause, |_| false);
    }
}

fn all_is_read(run: &mut Run, place: usize, name: &ClusterName) {
    let keys = run.world.plan.load.keys;
    noted(run, place, name, RedisAsk::Commands { commands: reading(whole(keys)) });
}

/// The journal and the messages, until they belong together.
fn subscribers_are_given_the_rest(run: &mut Run, place: usize, name: &ClusterName) {
    for _ in 0..JOURNALS_MAX {
        let Some(journal) = read_journal(run, name) else {
            return run.violate("liveness", format!("{name} does not give its journal after healing"));
        };
        for reader in 0..run.databases.books[place].readers.len() {
            drain_reader(run, place, name, reader);
        }
        let settled = read_journal(run, name).is_some_and(|again| again == journal);
        run.databases.books[place].journal = Some(journal);
        if settled || !run.world.violations.is_empty() {
            return;
        }
    }
    run.violate("liveness", format!("{name}: calls are still carried out after all clients have gone"));
}

fn drain_reader(run: &mut Run, place: usize, name: &ClusterName, reader: usize) {
    for _ in 0..PAGES_MAX {
        let own = &run.databases.books[place].readers[reader];
        let after = own.seen.last().map_or(own.from, |message| message.number);
        let end = match tell(run, name, &RedisAsk::Messages { after: u64::MAX }, true, SERVE_US) {
            Ok(RedisAnswer::Messages { reached, .. }) => reached,
            other => return run.violate("liveness", format!("{name} does not say where its messages end: {other:?}")),
        };
        if end <= after {
            return;
        }
        match tell(run, name, &RedisAsk::Messages { after }, true, SERVE_US) {
            Ok(RedisAnswer::Messages { messages, lost, .. }) if !messages.is_empty() => {
                let own = &mut run.databases.books[place].readers[reader];
                own.seen.extend(messages);
                own.lost |= lost;
            }
            other => {
                let text = format!("{name} has messages up to {end}, and gives none after {after}: {other:?}");
                return run.violate("redis", text);
            }
        }
    }
}

fn read_journal(run: &mut Run, name: &ClusterName) -> Option<Vec<u64>> {
    let (journal, mut ids) = (std::str::from_utf8(JOURNAL).ok()?, Vec::new());
    loop {
        let (from, to) = (ids.len().to_string(), (ids.len() + PAGE - 1).to_string());
        let ask = RedisAsk::Commands { commands: vec![command(0, &["LRANGE", journal, &from, &to])] };
        let RedisAnswer::Replies { replies } = tell(run, name, &ask, true, SERVE_US).ok()? else { return None };
        let Some(RedisReply::Array(page)) = replies.into_iter().next() else { return None };
        let count = page.len();
        for element in page {
            let RedisReply::Bulk(id) = element else { return None };
            ids.push(std::str::from_utf8(&id).ok()?.parse().ok()?);
        }
        if count < PAGE {
            return Some(ids);
        }
    }
}
