//! Random commits, compactions, pins, leases and restores against a model of etcd's keys: every state that ever was, kept whole.
//!
//! Always: the same cases each time. The model shares no code with the backend but the words of commands and replies.

use super::bed::*;
use crate::versioned::*;
use base_types::ErrorCode;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const CASES: u32 = 192;
const STEPS: usize = 80;
const SHRINK_STEPS_MAX: u32 = 4_000;

type State = BTreeMap<Bytes, Row>;

#[derive(Clone, Copy, Debug)]
struct ModelLease {
    ttl_ms: u64,
    due_ms: u64,
}

/// Every state that ever was.
struct Model {
    now_ms: u64,
    /// By stamp.
    states: Vec<State>,
    times: Vec<u64>,
    changes: Vec<Change>,
    compacted: u64,
    leases: BTreeMap<u64, ModelLease>,
    pins: BTreeMap<u64, (u64, u64)>,
}

fn inside(span: &Span, key: &Bytes) -> bool {
    match span {
        Span::One { key: one } => one == key,
        Span::Range { start, end } => start <= key && key < end,
        Span::From { start } => start <= key,
    }
}

/// A commit of the model under way.
struct Draft {
    state: State,
    changed: Vec<Bytes>,
    stamp: u64,
}

type Told<T> = Result<T, ErrorCode>;

impl Model {
    fn new() -> Model {
        let (states, times) = (vec![State::new()], vec![0]);
        let (leases, pins) = (BTreeMap::new(), BTreeMap::new());
        Model { now_ms: 0, states, times, changes: Vec::new(), compacted: 0, leases, pins }
    }

    fn stamp(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    fn draft(&self) -> Draft {
        Draft { state: self.now().clone(), changed: Vec::new(), stamp: self.stamp() + 1 }
    }

    fn keep(&mut self, draft: Draft) -> u32 {
        if draft.changed.is_empty() {
            return 0;
        }
        let before = self.now().clone();
        for (sub, key) in draft.changed.iter().enumerate() {
            self.changes.push(Change {
                at: Position { stamp: draft.stamp, sub: sub as u32 },
                time_ms: self.now_ms,
                key: key.clone(),
                after: draft.state.get(key).cloned(),
                before: before.get(key).cloned(),
            });
        }
        self.states.push(draft.state);
        self.times.push(self.now_ms);
        draft.changed.len() as u32
    }

    fn check_stamp(&self, at: u64) -> Told<()> {
        match at {
            0 => Ok(()),
            _ if at > self.stamp() => Err(ErrorCode::StampInFuture),
            _ if at < self.compacted => Err(ErrorCode::StampCompacted),
            _ => Ok(()),
        }
    }

    fn holds(&self, condition: &Condition) -> Told<bool> {
        if let Check::UnchangedSince { stamp } = condition.check {
            if stamp < self.compacted {
                return Err(ErrorCode::StampCompacted);
            }
            self.check_stamp(stamp)?;
            let touched = |change: &Change| change.at.stamp > stamp && inside(&condition.span, &change.key);
            return Ok(!self.changes.iter().any(touched));
        }
        let fits = |row: Option<&Row>| {
            let number = |of: fn(&Row) -> u64| row.map_or(0, of);
            match &condition.check {
                Check::Version { relation, number: wanted } => compare(*relation, &number(|row| row.version), wanted),
                Check::Created { relation, stamp } => compare(*relation, &number(|row| row.created), stamp),
                Check::Modified { relation, stamp } => compare(*relation, &number(|row| row.modified), stamp),
                Check::Lease { relation, lease } => compare(*relation, &number(|row| row.lease), lease),
                Check::Value { relation, value } => row.is_some_and(|row| compare(*relation, &row.value, value)),
                Check::UnchangedSince { .. } => unreachable!(),
            }
        };
        let mut rows = self.now().iter().filter(|(key, _)| inside(&condition.span, key)).peekable();
        if rows.peek().is_none() {
            return Ok(fits(None));
        }
        Ok(rows.all(|(_, row)| fits(Some(row))))
    }

    fn choose(&self, transaction: &Transaction, path: &mut Vec<bool>) -> Told<()> {
        let mut all = true;
        for condition in &transaction.conditions {
            all = all && self.holds(condition)?;
        }
        path.push(all);
        for operation in if all { &transaction.then } else { &transaction.otherwise } {
            if let Operation::Nested(nested) = operation {
                self.choose(nested, path)?;
            }
        }
        Ok(())
    }

    fn run(
        &self,
        draft: &mut Draft,
        transaction: &Transaction,
        path: &mut dyn Iterator<Item = bool>,
    ) -> Told<Committed> {
        let succeeded = path.next().unwrap();
        let mut results = Vec::new();
        for operation in if succeeded { &transaction.then } else { &transaction.otherwise } {
            results.push(match operation {
                Operation::Put(put) => self.put(draft, put)?,
                Operation::Delete { span, previous } => {
                    let found = page(&draft.state, &read(span.clone(), 0));
                    for pair in &found.rows {
                        draft.change(&pair.key, None)?;
                    }
                    Outcome::Deleted { count: found.count, previous: if *previous { found.rows } else { Vec::new() } }
                }
                Operation::Read(read) => {
                    self.check_stamp(read.at)?;
                    let state = if read.at == 0 { &draft.state } else { &self.states[read.at as usize] };
                    Outcome::Page(page(state, read))
                }
                Operation::Nested(nested) => Outcome::Nested(self.run(draft, nested, path)?),
            });
        }
        Ok(Committed { succeeded, results })
    }

    fn put(&self, draft: &mut Draft, put: &Put) -> Told<Outcome> {
        let before = draft.state.get(&put.key).cloned();
        if (put.keep_value || put.keep_lease) && before.is_none() {
            return Err(ErrorCode::KeyNotFound);
        }
        let kept = before.as_ref();
        let value = kept.filter(|_| put.keep_value).map_or(put.value.clone(), |row| row.value.clone());
        let lease = kept.filter(|_| put.keep_lease).map_or(put.lease, |row| row.lease);
        let lives = self.leases.get(&lease).is_some_and(|lease| lease.due_ms > self.now_ms);
        if lease != 0 && !put.keep_lease && !lives {
            return Err(ErrorCode::NoSuchLease);
        }
        let (created, version) = kept.map_or((draft.stamp, 1), |row| (row.created, row.version + 1));
        let modified = draft.stamp;
        draft.change(&put.key, Some(Row { created, modified, version, lease, value }))?;
        Ok(Outcome::Put { previous: before.filter(|_| put.previous) })
    }

    fn commit(&mut self, transaction: &Transaction) -> Told<Reply> {
        let mut path = Vec::new();
        self.choose(transaction, &mut path)?;
        let mut draft = self.draft();
        let committed = self.run(&mut draft, transaction, &mut path.into_iter())?;
        let changes = self.keep(draft);
        Ok(Reply::Committed { stamp: self.stamp(), changes, committed })
    }

    fn drop_pins(&mut self) {
        let now_ms = self.now_ms;
        self.pins.retain(|_, (_, until_ms)| *until_ms > now_ms);
    }

    fn end(&mut self, lease: u64, limit: u32) -> (u32, bool) {
        let attached: Vec<Bytes> =
            self.now().iter().filter(|(_, row)| row.lease == lease).map(|(key, _)| key.clone()).collect();
        let gone = attached.len() <= limit as usize;
        let mut draft = self.draft();
        for key in attached.iter().take(limit as usize) {
            draft.change(key, None).unwrap();
        }
        let count = self.keep(draft);
        if gone {
            self.leases.remove(&lease);
        } else {
            self.leases.get_mut(&lease).unwrap().due_ms = 0;
        }
        (count, gone)
    }

    fn expire(&mut self, limit: u32) -> Reply {
        let mut due: Vec<(u64, u64)> = self.leases.iter().map(|(id, lease)| (lease.due_ms, *id)).collect();
        due.retain(|(due_ms, _)| *due_ms <= self.now_ms);
        due.sort();
        let (mut leases, mut keys, mut more) = (Vec::new(), 0, false);
        for (_, lease) in due {
            if keys >= limit {
                more = true;
                break;
            }
            let (count, gone) = self.end(lease, limit - keys);
            keys += count;
            if !gone {
                more = true;
                break;
            }
            leases.push(lease);
        }
        Reply::Ended { stamp: self.stamp(), leases, keys, more }
    }

    /// What a command is answered with; none: the model does not say (`Collect`).
    fn tell(&mut self, command: &Command) -> Told<Option<Reply>> {
        let stamp = |model: &Model| Reply::Done { stamp: model.stamp() };
        Ok(Some(match command {
            Command::Commit { transaction } => self.commit(transaction)?,
            Command::Compact { stamp: at } if *at > self.stamp() => return Err(ErrorCode::StampInFuture),
            Command::Compact { stamp: at } if *at <= self.compacted => return Err(ErrorCode::StampCompacted),
            Command::Compact { stamp: at } => {
                self.compacted = *at;
                stamp(self)
            }
            Command::Collect { .. } => return Ok(None),
            Command::Pin { pin, stamp: at, keep_ms } => {
                self.drop_pins();
                let until_ms = self.now_ms + keep_ms;
                let at = match self.pins.get(pin) {
                    Some((old, _)) if *at == 0 || at == old => *old,
                    Some(_) => return Err(ErrorCode::Conflict),
                    None => {
                        self.check_stamp(*at)?;
                        if *at == 0 {
                            self.stamp()
                        } else {
                            *at
                        }
                    }
                };
                self.pins.insert(*pin, (at, until_ms));
                Reply::Pinned { stamp: at, until_ms }
            }
            Command::Unpin { pin } => {
                self.pins.remove(pin);
                stamp(self)
            }
            Command::LeaseGrant { lease, .. } if self.leases.contains_key(lease) => return Err(ErrorCode::LeaseExists),
            Command::LeaseGrant { lease, ttl_ms } => {
                self.leases.insert(*lease, ModelLease { ttl_ms: *ttl_ms, due_ms: self.now_ms + ttl_ms });
                Reply::Granted { lease: *lease, ttl_ms: *ttl_ms }
            }
            Command::LeaseKeepAlive { leases } => {
                let mut keep = |lease| {
                    let now_ms = self.now_ms;
                    let lease = self.leases.get_mut(lease).filter(|lease| lease.due_ms > now_ms);
                    lease.map_or(0, |lease| {
                        lease.due_ms = now_ms + lease.ttl_ms;
                        lease.ttl_ms
                    })
                };
                Reply::Kept { ttls_ms: leases.iter().map(&mut keep).collect() }
            }
            Command::LeaseRevoke { lease, .. } if !self.leases.contains_key(lease) => {
                return Err(ErrorCode::NoSuchLease)
            }
            Command::LeaseRevoke { lease, limit } => {
                let (keys, gone) = self.end(*lease, *limit);
                let leases = if gone { vec![*lease] } else { Vec::new() };
                Reply::Ended { stamp: self.stamp(), leases, keys, more: !gone }
            }
            Command::LeaseExpire { limit } => self.expire(*limit),
            Command::Close { .. } => unreachable!("the model has no gaps between stamps"),
        }))
    }
}

impl Draft {
    fn change(&mut self, key: &Bytes, after: Option<Row>) -> Told<()> {
        if self.changed.contains(key) {
            return Err(ErrorCode::InvalidRequest);
        }
        self.changed.push(key.clone());
        match after {
            Some(row) => self.state.insert(key.clone(), row),
            None => self.state.remove(key),
        };
        Ok(())
    }
}

fn compare<T: PartialOrd>(relation: Relation, found: &T, wanted: &T) -> bool {
    match relation {
        Relation::Equal => found == wanted,
        Relation::NotEqual => found != wanted,
        Relation::Less => found < wanted,
        Relation::Greater => found > wanted,
    }
}

fn page(state: &State, read: &Read) -> Page {
    let keys: Vec<(&Bytes, &Row)> = state.iter().filter(|(key, _)| inside(&read.span, key)).collect();
    let within = |number: u64, least: u64, most: u64| number >= least && (most == 0 || number <= most);
    let filter = &read.filter;
    let taken = |row: &Row| {
        within(row.modified, filter.modified_min, filter.modified_max)
            && within(row.created, filter.created_min, filter.created_max)
    };
    let limit = if read.limit == 0 { usize::MAX } else { read.limit as usize };
    let mut fitting = keys.iter().filter(|(_, row)| taken(row) && !read.count_only);
    let bare = |row: &Row| if read.keys_only { Row { value: Bytes::new(), ..row.clone() } } else { row.clone() };
    let rows = fitting.by_ref().take(limit).map(|(key, row)| Pair { key: (*key).clone(), row: bare(row) }).collect();
    let next = fitting.next().map(|(key, _)| (*key).clone());
    let cut = next.clone().filter(|_| !read.count);
    let count = keys.iter().filter(|(key, _)| cut.as_ref().is_none_or(|cut| *key < cut)).count() as u64;
    Page { rows, next, count, counted_to: cut }
}

#[derive(Clone, Debug)]
enum Step {
    Tell(Command),
    /// The same, at a stamp counted back from the newest.
    Compact(u64),
    Pin(u64, u64, u64),
    Wait(u64),
    Restore,
}

const KEYS: [&[u8]; 7] = [b"a", b"a\0", b"a\0b", b"ab", b"b", b"b\xff", b"\0"];

fn key() -> impl Strategy<Value = Bytes> {
    (0..KEYS.len()).prop_map(|at| Bytes::from_static(KEYS[at]))
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        4 => key().prop_map(|key| Span::One { key }),
        3 => (key(), key()).prop_map(|(start, end)| Span::Range { start, end }),
        1 => key().prop_map(|start| Span::From { start }),
        1 => Just(Span::From { start: Bytes::new() }),
    ]
}

fn check() -> impl Strategy<Value = Check> {
    use Relation::{Equal, Greater, Less, NotEqual};
    let relation = || prop_oneof![Just(Equal), Just(NotEqual), Just(Less), Just(Greater)];
    prop_oneof![
        (relation(), 0..3u64).prop_map(|(relation, number)| Check::Version { relation, number }),
        (relation(), 0..9u64).prop_map(|(relation, stamp)| Check::Created { relation, stamp }),
        (relation(), 0..9u64).prop_map(|(relation, stamp)| Check::Modified { relation, stamp }),
        (relation(), 0..4u64).prop_map(|(relation, lease)| Check::Lease { relation, lease }),
        (relation(), 0..4u8)
            .prop_map(|(relation, value)| Check::Value { relation, value: Bytes::copy_from_slice(&[value]) }),
        (0..20u64).prop_map(|stamp| Check::UnchangedSince { stamp }),
    ]
}

fn reads() -> impl Strategy<Value = Read> {
    let numbers = (prop_oneof![5 => Just(0), 1 => 0..20u64], 0..4u32, 0..9u64, 0..9u64);
    (span(), numbers, any::<(bool, bool)>(), 0..6u8).prop_map(
        |(span, (at, limit, least, most), (keys_only, count), kind)| {
            let filter = match kind {
                0 => Filter { modified_min: least, created_max: most, ..Filter::default() },
                1 => Filter { modified_max: most, created_min: least, ..Filter::default() },
                _ => Filter::default(),
            };
            Read { span, at, limit, keys_only, count, count_only: kind == 2, filter }
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    let flags = (any::<bool>(), prop_oneof![14 => Just(0u8), 1 => Just(1), 1 => Just(2)]);
    let put = (key(), 0..4u8, prop_oneof![5 => Just(0u64), 1 => 1..4u64], flags);
    prop_oneof![
        5 => put.prop_map(|(key, value, lease, (previous, keep))| {
            let value = Bytes::copy_from_slice(&[value]);
            Operation::Put(Put { key, value, lease, previous, keep_value: keep == 1, keep_lease: keep == 2 })
        }),
        2 => (span(), any::<bool>()).prop_map(|(span, previous)| Operation::Delete { span, previous }),
        1 => reads().prop_map(Operation::Read),
    ]
}

fn transaction(inner: impl Strategy<Value = Operation> + Clone) -> impl Strategy<Value = Transaction> {
    let conditions = vec((span(), check()).prop_map(|(span, check)| Condition { span, check }), 0..2);
    (conditions, vec(inner.clone(), 1..4), vec(inner, 0..3)).prop_map(|(conditions, then, otherwise)| Transaction {
        conditions,
        then,
        otherwise,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = operation().boxed();
    let nested = transaction(leaf.clone()).prop_map(Operation::Nested).boxed();
    let any_operation = prop_oneof![6 => leaf, 1 => nested].boxed();
    let lease = || 1..4u64;
    let told = prop_oneof![
        16 => transaction(any_operation).prop_map(|transaction| Command::Commit { transaction }),
        2 => (1..5u32).prop_map(|limit| Command::Collect { limit }),
        1 => (1..4u64).prop_map(|pin| Command::Unpin { pin }),
        4 => (lease(), 1..90u64).prop_map(|(lease, ttl_ms)| Command::LeaseGrant { lease, ttl_ms }),
        1 => vec(lease(), 0..3).prop_map(|leases| Command::LeaseKeepAlive { leases }),
        1 => (lease(), 1..3u32).prop_map(|(lease, limit)| Command::LeaseRevoke { lease, limit }),
        2 => (1..3u32).prop_map(|limit| Command::LeaseExpire { limit }),
    ];
    prop_oneof![
        26 => told.prop_map(Step::Tell),
        3 => (0..8u64).prop_map(Step::Compact),
        2 => (1..4u64, 0..5u64, 1..60u64).prop_map(|(pin, back, keep_ms)| Step::Pin(pin, back, keep_ms)),
        3 => (1..30u64).prop_map(Step::Wait),
        2 => Just(Step::Restore),
    ]
}

/// Does a step on both, and compares.
fn do_step(bed: &mut Bed, model: &mut Model, step: &Step) {
    let command = match step {
        Step::Wait(ms) => {
            bed.now_ms += ms;
            model.now_ms += ms;
            return;
        }
        Step::Restore => {
            *bed = bed.restored();
            return;
        }
        Step::Tell(command) => command.clone(),
        Step::Compact(back) => Command::Compact { stamp: (model.stamp() + 1).saturating_sub(*back).max(1) },
        Step::Pin(pin, back, keep_ms) => {
            Command::Pin { pin: *pin, stamp: (model.stamp() + 1).saturating_sub(*back), keep_ms: *keep_ms }
        }
    };
    let told = bed.tell(&command).map_err(|refusal| refusal.code);
    match model.tell(&command) {
        Ok(None) => assert!(matches!(told, Ok(Reply::Collected { .. })), "{command:?}: {told:?}"),
        Ok(Some(expected)) => assert_eq!(told, Ok(expected), "{command:?}"),
        Err(code) => assert_eq!(told, Err(code), "{command:?}"),
    }
}

/// Everything that can be read, at every stamp.
fn compare_all(bed: &Bed, model: &Model) {
    for at in 0..=model.stamp() + 1 {
        let found = bed.page(read(all(), at), 0).map_err(|refusal| refusal.code);
        let expected = model
            .check_stamp(at)
            .map(|()| page(if at == 0 { model.now() } else { &model.states[at as usize] }, &read(all(), at)));
        assert_eq!(found, expected, "at {at} of {}, compacted {}", model.stamp(), model.compacted);
        let after = Position::end_of(at);
        let found = bed.changes(after, 1 + (at % 3) as u32).map_err(|refusal| refusal.code);
        let later = || model.changes.iter().filter(|change| change.at > after).cloned().collect();
        let gone = at + 1 < model.compacted;
        assert_eq!(found, if gone { Err(ErrorCode::StampCompacted) } else { Ok(later()) }, "changes after {at}");
    }
    for (pin, (stamp, until_ms)) in &model.pins {
        let found = bed.page(read(all(), *stamp), *pin).map_err(|refusal| refusal.code);
        let expected = page(&model.states[*stamp as usize], &read(all(), *stamp));
        let lives = *until_ms > model.now_ms;
        // An empty store's stamp is 0, which asks for the newest.
        if *stamp > 0 {
            assert_eq!(found, if lives { Ok(expected) } else { Err(ErrorCode::NoSuchPin) }, "pin {pin} at {stamp}");
        }
    }
    let leases: BTreeSet<u64> = model.leases.keys().copied().collect();
    let Ok(Reply::Leases { leases: found, more: false }) = bed.ask(&Query::Leases { after: 0, limit: 99 }) else {
        panic!()
    };
    assert_eq!(found.iter().map(|lease| lease.lease).collect::<BTreeSet<_>>(), leases);
    for found in found {
        let lease = model.leases[&found.lease];
        assert_eq!((found.ttl_ms, found.left_ms), (lease.ttl_ms, lease.due_ms.saturating_sub(model.now_ms)));
    }
    let times = model.times.iter().enumerate().skip(model.compacted as usize);
    let last = times.filter(|(_, time_ms)| **time_ms <= model.now_ms / 2).map(|(stamp, _)| stamp as u64).next_back();
    let expected = last.unwrap_or(model.compacted);
    assert_eq!(bed.ask(&Query::StampAt { time_ms: model.now_ms / 2 }), Ok(Reply::Done { stamp: expected }));
}

#[test]
fn cluster_does_what_the_model_does() {
    agrees(SHRINK_STEPS_MAX);
}

/// All cases; one that fails is made smaller in so many steps at most.
pub fn agrees(max_shrink_iters: u32) {
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let reached = std::cell::Cell::new((0, 0, 0));
    let asked = (vec(step(), STEPS / 4..STEPS), vec(reads(), 4));
    let result = runner.run(&asked, |(steps, queries)| {
        let (mut bed, mut model) = (Bed::default(), Model::new());
        for step in &steps {
            do_step(&mut bed, &mut model, step);
            if matches!(step, Step::Restore | Step::Tell(Command::Collect { .. })) {
                compare_all(&bed, &model);
            }
        }
        compare_all(&bed, &model);
        for query in queries {
            let found = bed.page(query.clone(), 0).map_err(|refusal| refusal.code);
            let expected = model
                .check_stamp(query.at)
                .map(|()| page(if query.at == 0 { model.now() } else { &model.states[query.at as usize] }, &query));
            assert_eq!(found, expected, "{query:?}");
        }
        let (stamps, collected, deletes) = reached.get();
        let gone = model.changes.iter().filter(|change| change.after.is_none()).count();
        reached.set((stamps + model.stamp(), collected + u64::from(bed.info().horizon > 0), deletes + gone));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // Otherwise the cases would compare little with little.
    let (commits, compacted, deletes) = reached.get();
    assert!(commits > 1_000 && compacted > 40 && deletes > 200, "{commits} commits, {compacted}, {deletes}");
}
