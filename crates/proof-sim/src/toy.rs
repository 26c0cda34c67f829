//! A toy core for the harness's own tests: every core of every node answers from one shared store, at
//! once. Correct by construction, or wrong in a chosen way.
//!
//! Not here: anything of Hive.

use crate::disk::SimDisk;
use crate::machine::{Machine, Opener};
use base_engine::Engine;
use base_types::action::{
    Action, ActionResult, Answer, BatchStep, Failure, KvTarget, Level, RedisReply, Request, Response, StatusInfo,
};
use base_types::{
    ClusterId, ErrorCode, Generation, LogIndex, NodeId, OrderedAt, ReadConsistency, Refusal, Term, Tick,
    WriteConsistency,
};
use bytes::Bytes;
use core_cluster::api::{LaneStatistics, ReplicaView};
use core_node::api::{Effect, Effects, Event, NodeConfig};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// How the toy is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    Never,
    /// Every 20th put is acknowledged and not done.
    LosesPuts,
    /// A repeated request id applies again.
    AppliesTwice,
}

#[derive(Default)]
struct Store {
    pairs: BTreeMap<String, BTreeMap<Bytes, Bytes>>,
    replies: BTreeMap<u128, Response>,
    index: u64,
    puts: u64,
}

/// Opens toys over one store.
pub struct ToyOpener {
    store: Rc<RefCell<Store>>,
    wrong: Wrong,
}

impl ToyOpener {
    pub fn boxed(wrong: Wrong) -> Box<dyn Opener> {
        Box::new(ToyOpener { store: Rc::default(), wrong })
    }
}

impl Opener for ToyOpener {
    fn open(
        &self,
        config: NodeConfig,
        _engines: Vec<Arc<dyn Engine>>,
        _disk: &mut SimDisk,
        _now: Tick,
    ) -> Result<(Box<dyn Machine>, Effects), String> {
        let mut effects = Effects::default();
        for (node, address) in config.world_members.clone() {
            effects.list.push(Effect::Address { node, address });
        }
        Ok((Box::new(Toy { node: config.node, store: self.store.clone(), wrong: self.wrong }), effects))
    }
}

struct Toy {
    node: NodeId,
    store: Rc<RefCell<Store>>,
    wrong: Wrong,
}

impl Machine for Toy {
    fn step(&mut self, _now: Tick, event: Event, effects: &mut Effects) {
        if let Event::Request { ticket, request, .. } = event {
            let response = self.answer(request);
            effects.list.push(Effect::Reply { ticket, response });
        }
    }
    fn finish_turn(&mut self, _now: Tick, _effects: &mut Effects) {}
    fn next_wake(&self) -> Tick {
        Tick::NEVER
    }
    fn views(&self) -> Vec<ReplicaView> {
        Vec::new()
    }
    fn statistics(&self) -> LaneStatistics {
        LaneStatistics::default()
    }
    fn sizes(&self) -> base_types::sizes::Sizes {
        base_types::sizes::Sizes::default()
    }
    fn state_hash(&self, _cluster: ClusterId) -> Option<(LogIndex, u64)> {
        None
    }
}

impl Toy {
    fn answer(&mut self, request: Request) -> Response {
        let store = &mut *self.store.borrow_mut();
        let id = request.request_id.map_or(0, |id| id.0);
        if let Some(response) = store.replies.get(&id).filter(|_| self.wrong != Wrong::AppliesTwice) {
            return response.clone();
        }
        let read = request.read_consistency.unwrap_or(ReadConsistency::Strong);
        let response = perform(store, self.node, &request.action, self.wrong, request.consistency, read);
        let read_only = matches!(request.action, Action::KvGet { .. } | Action::KvScan { .. } | Action::Status);
        if !read_only {
            store.replies.insert(id, response.clone());
        }
        response
    }
}

fn space<'a>(store: &'a mut Store, target: &KvTarget) -> &'a mut BTreeMap<Bytes, Bytes> {
    store.pairs.entry(format!("{target:?}")).or_default()
}

fn perform(
    store: &mut Store,
    node: NodeId,
    action: &Action,
    wrong: Wrong,
    write: Option<WriteConsistency>,
    read: ReadConsistency,
) -> Response {
    let counter_read = matches!(action, Action::Redis { command, .. } if command[0] == "GET");
    let is_read = counter_read || matches!(action, Action::KvGet { .. } | Action::KvScan { .. });
    store.index += u64::from(!is_read);
    let at = OrderedAt {
        cluster: ClusterId(1),
        generation: Generation(1),
        term: Term(1),
        index: LogIndex(store.index),
        position: if is_read { u32::MAX } else { 0 },
    };
    let result = match action {
        Action::KvPut { target, key, value } => {
            store.puts += 1;
            if wrong != Wrong::LosesPuts || !store.puts.is_multiple_of(20) {
                space(store, target).insert(key.clone(), value.clone());
            }
            ActionResult::Done
        }
        Action::KvGet { target, key } => ActionResult::Value { value: space(store, target).get(key).cloned() },
        Action::KvDelete { target, key } => {
            ActionResult::Deleted { existed: space(store, target).remove(key).is_some() }
        }
        Action::KvCompareAndSet { target, key, expected, value } => {
            if space(store, target).get(key) != expected.as_ref() {
                return Err(Failure::from(Refusal::new(ErrorCode::ConditionFailed, "no")));
            }
            match value {
                Some(value) => drop(space(store, target).insert(key.clone(), value.clone())),
                None => drop(space(store, target).remove(key)),
            }
            ActionResult::Done
        }
        Action::KvBatch { target, steps } => {
            for step in steps {
                match step {
                    BatchStep::Put { key, value } => drop(space(store, target).insert(key.clone(), value.clone())),
                    BatchStep::Delete { key } => drop(space(store, target).remove(key)),
                }
            }
            ActionResult::Done
        }
        Action::KvScan { target, start_after, limit, reverse, .. } => {
            page(space(store, target), start_after.as_ref(), *limit as usize, *reverse)
        }
        Action::Redis { target, command } => {
            let counters = space(store, &KvTarget::Keyspace(format!("redis {target:?}")));
            let value: i64 =
                counters.get(&command[1]).map_or(0, |value| String::from_utf8_lossy(value).parse().unwrap_or(0));
            if command[0] == "INCR" {
                counters.insert(command[1].clone(), Bytes::from((value + 1).to_string()));
                ActionResult::Redis { reply: RedisReply::Integer(value + 1) }
            } else {
                ActionResult::Redis { reply: RedisReply::Bulk(Bytes::from(value.to_string())) }
            }
        }
        Action::DeleteCluster { name } => {
            store.pairs.remove(&format!("{:?}", KvTarget::Cluster(name.clone())));
            ActionResult::Done
        }
        Action::Status => ActionResult::Status(StatusInfo {
            world: String::new(),
            node,
            ready: true,
            not_ready: Vec::new(),
            degraded: Vec::new(),
            quorum: Vec::new(),
            nodes_up: 1,
            nodes_total: 1,
            clusters: 0,
            leaders: 0,
            quiesced: 0,
            config_cluster: None,
            warnings: Vec::new(),
            log_write_ms: 0,
            certificate_expires_ms: 0,
        }),
        _ => ActionResult::Done,
    };
    let level = if is_read { Level::Read(read) } else { Level::Write(write.unwrap_or(WriteConsistency::Strong)) };
    Ok(Answer { result, at: Some(at), level: Some(level), cluster: None })
}

fn page(space: &BTreeMap<Bytes, Bytes>, start_after: Option<&Bytes>, limit: usize, reverse: bool) -> ActionResult {
    let mut pairs: Vec<(Bytes, Bytes)> = space.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if reverse {
        pairs.reverse();
    }
    pairs.retain(|(key, _)| start_after.is_none_or(|start| if reverse { key < start } else { key > start }));
    let more = pairs.len() > limit;
    pairs.truncate(limit);
    let next = more.then(|| pairs.last().map(|(key, _)| key.clone())).flatten();
    ActionResult::Page { entries: pairs, next }
}

mod tests {
    use super::*;
    use crate::run::run;
    use crate::swarm;

    /// A toy writes nothing out, so it is no tail, and is asked for no level that needs one.
    fn drawn(seed: u64) -> crate::plan::Plan {
        let mut plan = swarm::draw(seed, crate::plan::Layer::Core);
        (plan.shape.tails, plan.load.kept) = (0, 0);
        (plan.shape.histories, plan.shape.databases) = (0, 0);
        plan
    }

    #[test]
    fn a_correct_toy_passes_and_the_same_seed_gives_the_same_trace() {
        for seed in 0..4 {
            let plan = drawn(seed);
            let one = run(&plan, ToyOpener::boxed(Wrong::Never));
            assert_eq!(one.violations, vec![], "seed {seed}");
            let two = run(&plan, ToyOpener::boxed(Wrong::Never));
            assert_eq!((one.trace_hash, one.events), (two.trace_hash, two.events), "seed {seed}");
        }
    }

    #[test]
    fn a_wrong_toy_is_caught() {
        for wrong in [Wrong::LosesPuts, Wrong::AppliesTwice] {
            let caught = (0..8).any(|seed| !run(&drawn(seed), ToyOpener::boxed(wrong)).violations.is_empty());
            assert!(caught, "{wrong:?}");
        }
    }
}
