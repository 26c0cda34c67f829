//! The backend against a dumb twin, and the life of a partition step by step.

use super::*;
use crate::reply::decode_reply;
use base_engine::{Direction, KeyRange, Visit};
use base_types::action::BatchStep;
use base_types::{LogIndex, PartitionId};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Default, Clone, PartialEq, Eq, Debug)]
struct Space(BTreeMap<Bytes, Bytes>);

impl SpaceRead for Space {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let walk = self.0.range::<[u8], _>((Bound::Included(range.start), end));
        let mut walk: Box<dyn Iterator<Item = (&Bytes, &Bytes)>> = match direction {
            Direction::Forward => Box::new(walk),
            Direction::Backward => Box::new(walk.rev()),
        };
        let _ = walk.try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

impl SpaceWrite for Space {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.0.insert(key, value);
    }

    fn delete(&mut self, key: Bytes) {
        self.0.remove(&key);
    }
}

impl Space {
    fn run(&mut self, now_ms: u64, command: Command) -> Result<Reply, Refusal> {
        let bytes = command.to_bytes();
        assert_eq!(Command::from_bytes(bytes.clone()), Ok(command));
        validate(&bytes)?;
        let at =
            ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: now_ms };
        let reply = apply(at, self, &bytes).expect("the space is whole");
        crate::testing::check(base_types::BackendKind::Metadata, self);
        decode_reply(reply)
    }

    fn ask(&self, question: Query) -> Result<Reply, Refusal> {
        let bytes = question.to_bytes();
        assert_eq!(Query::from_bytes(bytes.clone()), Ok(question));
        decode_reply(query(0, self, &bytes).expect("the space is whole"))
    }

    fn info(&self, partition: u16) -> Option<PartitionInfo> {
        match self.ask(Query::Partition { partition: PartitionId(partition) }) {
            Ok(Reply::Partitions(mut list)) => list.pop(),
            other => panic!("{other:?}"),
        }
    }
}

fn scope(partition: u16, epoch: u64) -> Scope {
    Scope { partition: PartitionId(partition), epoch }
}

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn put(scope: Scope, key: &str, value: &str) -> Command {
    Command::Put { scope: Some(scope), key: text(key), value: text(value) }
}

fn code(result: Result<Reply, Refusal>) -> &'static str {
    result.expect_err("a refusal").code.as_str()
}

/// Each command is followed by a walk of all that is counted.
#[test]
pub(crate) fn counts_are_exact_whatever_a_moving_partition_takes() {
    let mut space = Space::default();
    let p = scope(3, 1);
    let delete = |key| Command::Delete { scope: Some(p), key: text(key) };
    space.run(0, Command::Adopt { scopes: vec![p] }).unwrap();
    for command in [put(p, "a", "1"), put(p, "b", "1"), delete("b"), delete("b"), Command::BeginMove { scope: p }] {
        space.run(0, command).unwrap();
    }
    for command in [put(p, "a", "2"), put(p, "c", "2"), put(p, "a", "3"), delete("a"), delete("a"), put(p, "d", "4")] {
        space.run(0, command).unwrap();
    }
    assert_eq!(space.info(3).unwrap().keys, 2);
}

#[test]
fn plain_and_scoped_pairs_never_mix() {
    let mut space = Space::default();
    let p = scope(0, 1);
    space.run(0, Command::Adopt { scopes: vec![p] }).unwrap();
    space.run(0, put(p, "k", "scoped")).unwrap();
    let get = |scope| Query::Get { scope, key: text("k") };
    assert_eq!(space.ask(get(None)), Ok(Reply::Value { value: None }));
    space.run(0, Command::Put { scope: None, key: text("k"), value: text("plain") }).unwrap();
    assert_eq!(space.ask(get(None)), Ok(Reply::Value { value: Some(text("plain")) }));
    assert_eq!(space.ask(get(Some(p))), Ok(Reply::Value { value: Some(text("scoped")) }));
    let deleted = space.run(0, Command::Delete { scope: None, key: text("k") });
    assert_eq!(deleted, Ok(Reply::Deleted { existed: true }));
    assert_eq!(space.ask(get(Some(p))), Ok(Reply::Value { value: Some(text("scoped")) }));
}

#[test]
fn a_value_is_a_slice_of_the_command() {
    let mut space = Space::default();
    let bytes = Command::Put { scope: None, key: text("k"), value: Bytes::from(vec![7; 500]) }.to_bytes();
    let at = ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 0 };
    apply(at, &mut space, &bytes).unwrap();
    let stored = space.0.values().next().unwrap();
    assert!(bytes.as_ptr_range().contains(&stored.as_ptr()), "the value was copied");
}

#[test]
fn limits_and_bad_bytes_are_refused() {
    let put = |key: usize, value: usize| {
        validate(&Command::Put { scope: None, key: vec![1; key].into(), value: vec![1; value].into() }.to_bytes())
    };
    assert_eq!(put(KEY_BYTES_MAX, VALUE_BYTES_MAX), Ok(()));
    assert_eq!(put(0, 1).unwrap_err().code.as_str(), "EmptyKey");
    assert_eq!(put(KEY_BYTES_MAX + 1, 1).unwrap_err().code.as_str(), "KeyTooLarge");
    assert_eq!(put(1, VALUE_BYTES_MAX + 1).unwrap_err().code.as_str(), "ValueTooLarge");
    assert_eq!(validate(&vec![0; COMMAND_BYTES_MAX + 1].into()).unwrap_err().code.as_str(), "BodyTooLarge");
    let step = ScopedStep { scope: None, step: BatchStep::Delete { key: text("k") } };
    let batch = Command::Batch { steps: vec![step; base_types::BATCH_OPERATIONS_MAX + 1] };
    assert_eq!(validate(&batch.to_bytes()).unwrap_err().code.as_str(), "CorruptCommand");
    let whole = put_bytes_of_every_command();
    let mut space = Space::default();
    for bytes in whole {
        for cut in 0..bytes.len() {
            let part = bytes.slice(..cut);
            assert!(validate(&part).is_err());
            let at =
                ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 0 };
            assert!(decode_reply::<Reply>(apply(at, &mut space, &part).unwrap()).is_err());
            let _ = query(0, &space, &part).unwrap();
        }
    }
    assert!(space.0.is_empty(), "a refused command changed the space");
}

fn put_bytes_of_every_command() -> Vec<Bytes> {
    let s = scope(3, 9);
    let cursor = ImportCursor { after: Some(text("a")), copied: true, dirty: 300 };
    vec![
        put(s, "key", "value").to_bytes(),
        Command::CompareAndSet { scope: Some(s), key: text("k"), expected: Some(text("a")), value: None }.to_bytes(),
        Command::Adopt { scopes: vec![s, scope(4, 1)] }.to_bytes(),
        Command::Freeze { scope: s, lease_ms: 5 }.to_bytes(),
        Command::Handover { scope: s, dirty: 1_000 }.to_bytes(),
        Command::Import {
            scope: s,
            expected: cursor.clone(),
            cursor,
            pairs: vec![(text("k"), Some(text("v"))), (text("l"), None)],
        }
        .to_bytes(),
        Command::Release { scope: s, limit: 7 }.to_bytes(),
    ]
}

#[test]
fn compare_and_set_sets_only_what_it_expects() {
    let mut space = Space::default();
    let cas = |expected: Option<&str>, value: Option<&str>| Command::CompareAndSet {
        scope: None,
        key: text("k"),
        expected: expected.map(text),
        value: value.map(text),
    };
    assert_eq!(code(space.run(0, cas(Some("x"), Some("y")))), "ConditionFailed");
    space.run(0, cas(None, Some("a"))).unwrap();
    assert_eq!(code(space.run(0, cas(None, Some("b")))), "ConditionFailed");
    space.run(0, cas(Some("a"), Some("b"))).unwrap();
    space.run(0, cas(Some("b"), None)).unwrap();
    assert_eq!(space.ask(Query::Get { scope: None, key: text("k") }), Ok(Reply::Value { value: None }));
}

#[test]
fn a_batch_is_all_or_nothing() {
    let mut space = Space::default();
    space.run(0, Command::Adopt { scopes: vec![scope(0, 1), scope(1, 1)] }).unwrap();
    let step =
        |s: Scope, key: &str| ScopedStep { scope: Some(s), step: BatchStep::Put { key: text(key), value: text("v") } };
    let before = space.clone();
    assert_eq!(
        code(space.run(0, Command::Batch { steps: vec![step(scope(0, 1), "a"), step(scope(1, 2), "b")] })),
        "WrongPartition"
    );
    assert_eq!(space, before);
    space
        .run(0, Command::Batch { steps: vec![step(scope(0, 1), "a"), step(scope(1, 1), "b"), step(scope(0, 1), "a")] })
        .unwrap();
    assert_eq!(space.info(0).unwrap().keys, 1);
    assert_eq!(space.info(1).unwrap().keys, 1);
}

#[test]
fn an_epoch_that_was_given_up_never_comes_back() {
    let mut space = Space::default();
    let (old, new) = (scope(5, 3), scope(5, 4));
    space.run(0, Command::Adopt { scopes: vec![old] }).unwrap();
    space.run(0, put(old, "a", "1")).unwrap();
    space.run(0, Command::BeginMove { scope: old }).unwrap();
    space.run(0, Command::Freeze { scope: old, lease_ms: 100 }).unwrap();
    space.run(0, Command::Handover { scope: old, dirty: 0 }).unwrap();
    for state in ["dropping", "released"] {
        assert_eq!(space.info(5).unwrap().state.name(), state);
        assert_eq!(code(space.run(0, put(old, "a", "2"))), "WrongPartition");
        assert_eq!(code(space.run(0, put(new, "a", "2"))), "WrongPartition");
        assert_eq!(code(space.ask(Query::Get { scope: Some(old), key: text("a") })), "WrongPartition");
        assert_eq!(code(space.run(0, Command::Adopt { scopes: vec![old] })), "WrongPartition");
        assert_eq!(code(space.run(0, Command::PrepareImport { scope: old })), "WrongPartition");
        space.run(0, Command::Release { scope: old, limit: 10 }).unwrap();
    }
    assert_eq!(space.0.len(), 1, "only the released mark is left");
    space.run(0, Command::PrepareImport { scope: new }).unwrap();
    assert_eq!(code(space.run(0, put(new, "a", "2"))), "WrongPartition");
    space.run(0, Command::Activate { scope: new }).unwrap();
    space.run(0, put(new, "a", "2")).unwrap();
}

/// An engine may have removed pairs for a while yet: a step that began at the start would pass all of them.
#[test]
fn a_partition_is_removed_in_one_pass() {
    let mut space = Space::default();
    let (old, new) = (scope(5, 3), scope(5, 4));
    space.run(0, Command::PrepareImport { scope: old }).unwrap();
    let cursor = ImportCursor { after: Some(text("z")), ..ImportCursor::default() };
    let pairs = ["a", "b", "c", "d", "z"].map(|key| (text(key), Some(text("1")))).to_vec();
    space.run(0, Command::Import { scope: old, expected: ImportCursor::default(), cursor, pairs }).unwrap();
    // Given up half-way: what it had come to is not what is removed.
    space.run(0, Command::AbortImport { scope: old }).unwrap();
    let mut behind = None;
    for (step, more) in [true, true, false].into_iter().enumerate() {
        let released = space.run(0, Command::Release { scope: old, limit: 2 }).unwrap();
        assert!(matches!(released, Reply::Released { more: now, .. } if now == more), "step {step}: {released:?}");
        let reached = space.info(5).unwrap().cursor.after;
        assert!(!more || reached > behind, "{reached:?} follows {behind:?}");
        behind = reached;
    }
    assert_eq!(space.0.len(), 1, "only the released mark is left");
    assert_eq!(space.info(5).unwrap().cursor, ImportCursor::default());
    space.run(0, Command::PrepareImport { scope: new }).unwrap();
}

#[test]
fn a_freeze_holds_until_its_lease_and_a_write_then_bars_the_handover() {
    let mut space = Space::default();
    let s = scope(0, 1);
    space.run(0, Command::Adopt { scopes: vec![s] }).unwrap();
    assert_eq!(code(space.run(0, Command::Freeze { scope: s, lease_ms: 100 })), "Conflict");
    space.run(0, Command::BeginMove { scope: s }).unwrap();
    assert_eq!(code(space.run(0, Command::Handover { scope: s, dirty: 0 })), "Conflict");
    space.run(1_000, Command::Freeze { scope: s, lease_ms: 100 }).unwrap();
    let refused = space.run(1_099, put(s, "a", "1")).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.kind().retryable()), ("PartitionMoving", true));
    space.run(1_100, put(s, "a", "1")).unwrap();
    assert_eq!(space.info(0).unwrap().state, PartitionState::Moving);
    space.run(1_200, Command::Freeze { scope: s, lease_ms: 100 }).unwrap();
    assert_eq!(code(space.run(1_200, Command::Handover { scope: s, dirty: 0 })), "Conflict");
    space.run(1_200, Command::Unfreeze { scope: s }).unwrap();
    space.run(1_200, put(s, "b", "1")).unwrap();
    space.run(1_300, Command::Freeze { scope: s, lease_ms: 100 }).unwrap();
    space.run(9_000, Command::Handover { scope: s, dirty: 2 }).unwrap();
    assert_eq!(space.info(0).unwrap().state, PartitionState::Dropping);
}

#[test]
fn a_late_import_changes_nothing() {
    let mut space = Space::default();
    let s = scope(0, 2);
    space.run(0, Command::PrepareImport { scope: s }).unwrap();
    let cursor = |after: &str| ImportCursor { after: Some(text(after)), copied: false, dirty: 0 };
    let import = |expected: ImportCursor, to: &str, value: &str| Command::Import {
        scope: s,
        expected,
        cursor: cursor(to),
        pairs: vec![(text("k"), Some(text(value)))],
    };
    space.run(0, import(ImportCursor::default(), "k", "new")).unwrap();
    let reply = space.run(0, import(ImportCursor::default(), "z", "old")).unwrap();
    assert!(matches!(reply, Reply::Partition(info) if info.cursor == cursor("k") && info.keys == 1));
    space.run(0, Command::Activate { scope: s }).unwrap();
    space.run(0, import(cursor("k"), "z", "old")).unwrap();
    assert_eq!(space.ask(Query::Get { scope: Some(s), key: text("k") }), Ok(Reply::Value { value: Some(text("new")) }));
}

/// A splitmix generator: tests need chance that repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Moves a partition from one space to the other in small steps, with writes between any two.
fn move_partition(
    from: &mut Space,
    to: &mut Space,
    old: Scope,
    chance: &mut Chance,
    mut between: impl FnMut(&mut Space, &mut Chance),
) {
    let new = Scope { epoch: old.epoch + 1, ..old };
    from.run(0, Command::BeginMove { scope: old }).unwrap();
    to.run(0, Command::PrepareImport { scope: new }).unwrap();
    let mut frozen = false;
    loop {
        between(from, chance);
        let cursor = to.info(old.partition.0).unwrap().cursor;
        let mut next = cursor.clone();
        let pairs: Vec<(Bytes, Option<Bytes>)> = if !cursor.copied {
            match from.ask(Query::ExportPage { scope: old, after: cursor.after.clone(), bytes_max: 30 }).unwrap() {
                Reply::Export { pairs, more } => {
                    next.after = pairs.last().map(|(key, _)| key.clone()).or(next.after);
                    next.copied = !more;
                    pairs.into_iter().map(|(key, value)| (key, Some(value))).collect()
                }
                other => panic!("{other:?}"),
            }
        } else {
            match from.ask(Query::Dirty { scope: old, after: cursor.dirty, limit: 3 }).unwrap() {
                Reply::Dirty { pairs, reached, .. } if !pairs.is_empty() => {
                    next.dirty = reached;
                    pairs
                }
                _ if frozen => break,
                _ => {
                    frozen = true;
                    from.run(0, Command::Freeze { scope: old, lease_ms: 1 }).unwrap();
                    continue;
                }
            }
        };
        between(from, chance);
        to.run(0, Command::Import { scope: new, expected: cursor, cursor: next, pairs }).unwrap();
    }
    let dirty = to.info(old.partition.0).unwrap().cursor.dirty;
    from.run(0, Command::Handover { scope: old, dirty }).unwrap();
    to.run(0, Command::Activate { scope: new }).unwrap();
    while let Ok(Reply::Released { more: true, .. }) = from.run(0, Command::Release { scope: old, limit: 2 }) {}
}

#[test]
fn random_commands_and_moves_leave_what_the_twin_has() {
    for seed in 0..30 {
        let mut chance = Chance(seed);
        let mut spaces = [Space::default(), Space::default()];
        let mut twin: BTreeMap<(u16, Bytes), Bytes> = BTreeMap::new();
        let mut owner = [0usize; 3];
        let mut epoch = [1u64; 3];
        spaces[0].run(0, Command::Adopt { scopes: (0..3).map(|p| scope(p, 1)).collect() }).unwrap();
        for _ in 0..6 {
            for _ in 0..40 {
                let p = chance.below(3) as u16;
                random_write(&mut spaces[owner[usize::from(p)]], &mut twin, p, epoch[usize::from(p)], &mut chance);
            }
            let p = chance.below(3) as usize;
            let (left, right) = spaces.split_at_mut(1);
            let (from, to) = if owner[p] == 0 { (&mut left[0], &mut right[0]) } else { (&mut right[0], &mut left[0]) };
            let old = scope(p as u16, epoch[p]);
            let moving = p as u16;
            move_partition(from, to, old, &mut chance, |space, chance| {
                if chance.below(2) == 0 && space.info(moving).unwrap().state == PartitionState::Moving {
                    random_write(space, &mut twin, moving, old.epoch, chance);
                }
            });
            owner[p] = 1 - owner[p];
            epoch[p] += 1;
        }
        for p in 0..3u16 {
            let (here, s) = (&spaces[owner[usize::from(p)]], scope(p, epoch[usize::from(p)]));
            let expected: Vec<(Bytes, Bytes)> = twin
                .iter()
                .filter(|((q, _), _)| *q == p)
                .map(|((_, key), value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(here.info(p).unwrap().keys, expected.len() as u64, "seed {seed}");
            assert_eq!(page(here, vec![s], false, 10_000, 1 << 20), expected, "seed {seed}");
            assert!(!spaces[1 - owner[usize::from(p)]].info(p).is_some_and(|info| info.state.serves()));
        }
    }
}

fn random_write(space: &mut Space, twin: &mut BTreeMap<(u16, Bytes), Bytes>, p: u16, epoch: u64, chance: &mut Chance) {
    let key = text(&format!("key{}", chance.below(20)));
    let value = text(&format!("{}", chance.below(1_000_000)));
    let s = Some(scope(p, epoch));
    match chance.below(4) {
        0 => {
            let existed = twin.remove(&(p, key.clone())).is_some();
            assert_eq!(space.run(5, Command::Delete { scope: s, key }), Ok(Reply::Deleted { existed }));
        }
        1 => {
            let expected = twin.get(&(p, key.clone())).cloned();
            space
                .run(5, Command::CompareAndSet { scope: s, key: key.clone(), expected, value: Some(value.clone()) })
                .unwrap();
            twin.insert((p, key), value);
        }
        _ => {
            space.run(5, Command::Put { scope: s, key: key.clone(), value: value.clone() }).unwrap();
            twin.insert((p, key), value);
        }
    }
}

fn page(space: &Space, scopes: Vec<Scope>, reverse: bool, limit: u32, bytes_max: u32) -> Vec<(Bytes, Bytes)> {
    let scan = Query::Scan {
        scopes: ScanScopes::Partitions(scopes.clone()),
        start: Bytes::new(),
        end: None,
        reverse,
        limit,
        bytes_max,
        keys_only: false,
    };
    match space.ask(scan).unwrap() {
        Reply::Page { entries, covered, .. } => {
            assert_eq!(covered, scopes);
            entries
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_is_the_beginning_of_the_ordered_union() {
    let mut chance = Chance(7);
    let mut space = Space::default();
    let scopes: Vec<Scope> = (0..5).map(|p| scope(p, 1)).collect();
    space.run(0, Command::Adopt { scopes: scopes.clone() }).unwrap();
    let mut all = BTreeMap::new();
    for n in 0..200u32 {
        let (key, value) =
            (text(&format!("{:04}", n * 7919 % 1000)), Bytes::from(vec![b'v'; chance.below(9) as usize]));
        space
            .run(
                0,
                Command::Put { scope: Some(scopes[chance.below(5) as usize]), key: key.clone(), value: value.clone() },
            )
            .unwrap();
        all.insert(key, value);
    }
    let forward: Vec<(Bytes, Bytes)> = all.into_iter().collect();
    let backward: Vec<(Bytes, Bytes)> = forward.iter().rev().cloned().collect();
    for (reverse, whole) in [(false, &forward), (true, &backward)] {
        for limit in [1, 3, 50, 199, 200, 201] {
            let most = whole.len().min(limit);
            assert_eq!(page(&space, scopes.clone(), reverse, limit as u32, 1 << 20), whole[..most], "limit {limit}");
        }
        for bytes_max in [1usize, 10, 100, 1000] {
            let mut bytes = 0;
            let fits = whole.iter().take_while(|(key, value)| {
                bytes += key.len() + value.len();
                bytes <= bytes_max
            });
            let most = fits.count().max(1);
            assert_eq!(
                page(&space, scopes.clone(), reverse, 1000, bytes_max as u32),
                whole[..most],
                "bytes {bytes_max}"
            );
        }
    }
}
