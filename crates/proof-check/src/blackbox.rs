//! An independent linearizability checker: Wing & Gong's search with memory (as in porcupine), one
//! key at a time, blind to the order that replies name.
//!
//! A scan is a read of every key it speaks for and a batch a write of each of its keys: both are
//! necessary conditions, each key's own. Ghosts (unknown or weak writes) are open-ended and optional.
//! They are only tried right before an operation that needs them: in any order that explains a
//! history, an unseen ghost can be dropped and a seen one moved up to the first that saw it.
//!
//! Always: a search ends after `steps_max` steps and is then counted as given up, not as passed.
//! Held by: `gives_up_at_its_bound_and_says_so`.
//! Not here: eventual reads (`values`), atomicity over several keys (`fast`).

use crate::history::{Ending, History, Observed, Operation, Record, Time};
use crate::keys::{Keys, Listed};
use crate::Violation;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// What the search came to.
#[derive(Default, Debug)]
pub struct Report {
    /// Keys with no possible order.
    pub violations: Vec<Violation>,
    /// Keys searched to an answer.
    pub keys_searched: u64,
    /// Keys whose search was ended by its bound.
    pub gave_up: u64,
}

/// A key's value: 0 is absent; values are numbered. A counter's value is itself.
type State = i64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Write {
        value: State,
    },
    Read {
        value: State,
    },
    /// A read that returns only whether the key exists.
    Presence {
        present: bool,
    },
    /// Existed, then gone.
    Delete {
        existed: bool,
    },
    Swap {
        expected: State,
        value: State,
    },
    NotEqual {
        expected: State,
    },
    Increment {
        value: State,
    },
    /// A ghost increment.
    Add,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    record: u64,
    step: Step,
    invoked: Time,
    returned: Time,
    ghost: bool,
}

impl Step {
    /// Whether it holds in a state and leaves it as it is, whatever the state will be later.
    fn only_looks(self, state: State) -> bool {
        let looks = match self {
            Step::Read { .. } | Step::Presence { .. } | Step::NotEqual { .. } => true,
            Step::Delete { existed } => !existed,
            Step::Write { .. } | Step::Swap { .. } | Step::Increment { .. } | Step::Add => false,
        };
        looks && apply(state, self) == Some(state)
    }
}

fn apply(state: State, step: Step) -> Option<State> {
    match step {
        Step::Write { value } => Some(value),
        Step::Read { value } => (state == value).then_some(state),
        Step::Presence { present } => ((state != 0) == present).then_some(state),
        Step::Delete { existed } => ((state != 0) == existed).then_some(0),
        Step::Swap { expected, value } => (state == expected).then_some(value),
        Step::NotEqual { expected } => (state != expected).then_some(state),
        Step::Increment { value } => (state + 1 == value).then_some(value),
        Step::Add => Some(state + 1),
    }
}

/// Checks every key of the history.
pub fn check(history: &History, steps_max: u64) -> Report {
    let mut report = Report::default();
    let keys = Keys::gather(history);
    let calls_of_keys = calls_by_key(history, &keys);
    for ((place, key), calls) in keys.names.iter().zip(&calls_of_keys).filter(|(_, calls)| !calls.is_empty()) {
        match search(calls, steps_max) {
            Answer::Linearizable => report.keys_searched += 1,
            Answer::GaveUp => report.gave_up += 1,
            Answer::Impossible { stuck_at } => {
                report.keys_searched += 1;
                let message = format!("no order of the {} operations on {key:?} in {place:?} explains what was answered; the longest explanation ends before these", calls.len());
                report.violations.push(Violation::new("blackbox", message, stuck_at));
            }
        }
    }
    report
}

/// Which keys are counters: scans do not see them, they are keys of another kind.
fn counters(history: &History, keys: &Keys<'_>) -> Vec<bool> {
    let mut counters = vec![false; keys.names.len()];
    for record in &history.records {
        if let Operation::Increment { key } | Operation::ReadCounter { key } = &record.operation {
            keys.number(record.place, key).into_iter().for_each(|number| counters[number] = true);
        }
    }
    counters
}

/// Values by number: each is written once, so equal numbers are equal values.
type Values<'a> = HashMap<&'a Bytes, State>;

fn value_number<'a>(values: &mut Values<'a>, value: Option<&'a Bytes>) -> State {
    let Some(value) = value else { return 0 };
    let next = values.len() as State + 1;
    *values.entry(value).or_insert(next)
}

/// Splits the history into the operations of each key, values numbered.
fn calls_by_key<'a>(history: &'a History, keys: &Keys<'a>) -> Vec<Vec<Call>> {
    let mut values = Values::new();
    let counters = counters(history, keys);
    let mut calls: Vec<Vec<Call>> = vec![Vec::new(); keys.names.len()];
    let mut steps: Vec<(usize, Step)> = Vec::new();
    for record in &history.records {
        let strong_read = !record.is_write() && record.is_strong() && record.ending == Ending::Ok;
        let failed_swap = record.is_strong() && record.observed == Some(Observed::ConditionFailed);
        if !(strong_read || record.is_settled_write() || record.is_ghost() || failed_swap) {
            continue;
        }
        let ghost = record.is_ghost() && !failed_swap;
        steps.clear();
        steps_of(record, (keys, &counters), &mut values, ghost, &mut steps);
        let returned = if ghost { Time::MAX } else { record.returned_or_never() };
        for (key, step) in &steps {
            calls[*key].push(Call { record: record.id, step: *step, invoked: record.invoked, returned, ghost });
        }
    }
    calls
}

fn steps_of<'a>(
    record: &'a Record,
    (keys, counters): (&Keys<'a>, &[bool]),
    values: &mut Values<'a>,
    ghost: bool,
    steps: &mut Vec<(usize, Step)>,
) {
    let mut one = |key: &Bytes, step: Step| steps.extend(keys.number(record.place, key).map(|key| (key, step)));
    match (&record.operation, record.observed.as_ref()) {
        (Operation::Get { key }, Some(Observed::Value(value))) => {
            one(key, Step::Read { value: value_number(values, value.as_ref()) });
        }
        (Operation::Scan { .. }, Some(Observed::Page { entries, next })) => {
            steps_of_page(record, (entries, next.as_ref()), (keys, counters), values, steps);
        }
        (Operation::Delete { key }, Some(Observed::Deleted(Some(existed)))) if !ghost => {
            one(key, Step::Delete { existed: *existed });
        }
        (Operation::CompareAndSet { key, expected, .. }, Some(Observed::ConditionFailed)) => {
            one(key, Step::NotEqual { expected: value_number(values, expected.as_ref()) });
        }
        (Operation::CompareAndSet { key, expected, value }, _) => {
            let (expected, value) = (value_number(values, expected.as_ref()), value_number(values, value.as_ref()));
            one(key, Step::Swap { expected, value });
        }
        (Operation::Increment { key }, Some(Observed::Integer(value))) if !ghost => {
            one(key, Step::Increment { value: *value });
        }
        (Operation::Increment { key }, _) => one(key, Step::Add),
        (Operation::ReadCounter { key }, Some(Observed::Integer(value))) => one(key, Step::Read { value: *value }),
        (Operation::Clear, _) => {
            steps.extend(keys.of(record.place).map(|key| (key, Step::Write { value: 0 })));
        }
        _ => {
            for (key, value) in record.effects() {
                one(key, Step::Write { value: value_number(values, value) });
            }
        }
    }
}

/// A scan reads every key it speaks for: those it lists, and those it does not.
fn steps_of_page<'a>(
    record: &'a Record,
    (entries, next): (&'a [(Bytes, Bytes)], Option<&Bytes>),
    (keys, counters): (&Keys<'a>, &[bool]),
    values: &mut Values<'a>,
    steps: &mut Vec<(usize, Step)>,
) {
    let Operation::Scan { keys_only, .. } = &record.operation else { return };
    let mut listed = Listed::new(entries);
    for number in keys.covered(record, next).filter(|number| !counters[*number]) {
        let step = match listed.value(keys.names[number].1) {
            Some(_) if *keys_only => Step::Presence { present: true },
            found => Step::Read { value: value_number(values, found) },
        };
        steps.push((number, step));
    }
}

enum Answer {
    Linearizable,
    GaveUp,
    Impossible { stuck_at: Vec<u64> },
}

/// Which calls are already in the order.
#[derive(Clone)]
struct Taken {
    bits: Vec<u64>,
    /// The exclusive or of a number for each call taken: it identifies the set (Zobrist's hash). It has 128 bits: two
    /// sets with one sum would hide a way and raise a false alarm, but that happens less than once in all runs there
    /// will be.
    sum: u128,
}

/// Sums are spread already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u128(&mut self, sum: u128) {
        self.0 = sum as u64 ^ (sum >> 64) as u64;
    }
}

/// A number for anything: Splitmix's finish, twice.
fn spread(value: u64) -> u128 {
    let half = |salt: u64| {
        let mut mixed = value.wrapping_add(salt);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(mixed ^ (mixed >> 31))
    };
    half(0x9e37_79b9_7f4a_7c15) << 64 | half(0x3c6e_f372_fe94_f82a)
}

struct Search<'a> {
    /// Settled calls by invocation.
    calls: Vec<&'a Call>,
    /// Ghosts by invocation.
    ghosts: Vec<&'a Call>,
    steps_left: u64,
    /// Sums of what was taken and of the state it led to.
    seen: HashSet<u128, BuildHasherDefault<AsIs>>,
    deepest: (usize, Vec<u64>),
}

/// One place in the search: what is taken, the state, and which way to go next.
struct Frame {
    count: usize,
    /// Successors not yet tried.
    next: Vec<(Taken, State)>,
}

fn search(calls: &[Call], steps_max: u64) -> Answer {
    let mut settled: Vec<&Call> = calls.iter().filter(|call| !call.ghost).collect();
    let mut ghosts: Vec<&Call> = calls.iter().filter(|call| call.ghost).collect();
    settled.sort_by_key(|call| (call.invoked, call.returned));
    ghosts.sort_by_key(|call| call.invoked);
    let words = (settled.len() + ghosts.len()).div_ceil(64);
    let mut search =
        Search { calls: settled, ghosts, steps_left: steps_max, seen: HashSet::default(), deepest: (0, Vec::new()) };
    let first = search.frame(Taken { bits: vec![0; words], sum: 0 }, 0, 0);
    let mut stack = vec![first];
    while let Some(top) = stack.last_mut() {
        if top.count == search.calls.len() {
            return Answer::Linearizable;
        }
        let Some((taken, state)) = top.next.pop() else {
            stack.pop();
            continue;
        };
        if search.steps_left == 0 {
            return Answer::GaveUp;
        }
        search.steps_left -= 1;
        if search.seen.insert(taken.sum ^ spread(!(state as u64))) {
            let count = top.count + 1;
            let frame = search.frame(taken, state, count);
            stack.push(frame);
        }
    }
    Answer::Impossible { stuck_at: search.deepest.1 }
}

fn has(taken: &Taken, bit: usize) -> bool {
    taken.bits[bit / 64] & (1 << (bit % 64)) != 0
}

/// The calls not taken, in order.
fn not_in(taken: &Taken) -> impl Iterator<Item = usize> + '_ {
    taken.bits.iter().enumerate().flat_map(|(number, word)| {
        let mut left = !word;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            let found = (left != 0).then_some(number * 64 + bit);
            left &= left.wrapping_sub(1);
            found
        })
    })
}

fn with(taken: &Taken, bit: usize) -> Taken {
    let mut taken = taken.clone();
    if !has(&taken, bit) {
        taken.bits[bit / 64] |= 1 << (bit % 64);
        taken.sum ^= spread(bit as u64);
    }
    taken
}

impl Search<'_> {
    fn frame(&mut self, taken: Taken, state: State, count: usize) -> Frame {
        let mut earliest_return = Time::MAX;
        let mut candidates = Vec::new();
        // By invocation: behind the first that began after some return, none can come next.
        for bit in not_in(&taken).take_while(|bit| *bit < self.calls.len()) {
            let call = self.calls[bit];
            if call.invoked > earliest_return {
                break;
            }
            earliest_return = earliest_return.min(call.returned);
            candidates.push(bit);
        }
        candidates.retain(|bit| self.calls[*bit].invoked <= earliest_return);
        if count >= self.deepest.0 {
            self.deepest = (count, candidates.iter().map(|bit| self.calls[*bit].record).collect());
        }
        // What only looks, and sees what there is, goes first and alone: it changes nothing and holds up nobody, so an order
        // that explains the rest with it later explains it with it now.
        let looks = |bit: &&usize| self.calls[**bit].step.only_looks(state);
        if let Some(bit) = candidates.iter().find(looks) {
            return Frame { count, next: vec![(with(&taken, *bit), state)] };
        }
        let mut next = Vec::new();
        for bit in candidates.iter().rev() {
            for (taken, state) in self.ghost_ways(&taken, state, self.calls[*bit].step, earliest_return) {
                next.push((with(&taken, *bit), state));
            }
        }
        // Tried last to first: the ways without ghosts go first.
        for bit in candidates.iter().rev() {
            if let Some(state) = apply(state, self.calls[*bit].step) {
                next.push((with(&taken, *bit), state));
            }
        }
        Frame { count, next }
    }

    /// Every way to reach a state in which `step` holds by ghosts that land right before it.
    fn ghost_ways(&self, taken: &Taken, state: State, step: Step, until: Time) -> Vec<(Taken, State)> {
        if matches!(step, Step::Write { .. }) {
            return Vec::new();
        }
        if let Step::Increment { value } = step {
            return self.add_until(taken, state, value - 1, until, step);
        }
        let mut ways = Vec::new();
        for (number, ghost) in self.ghosts.iter().enumerate() {
            let bit = self.calls.len() + number;
            if ghost.invoked > until || has(taken, bit) {
                continue;
            }
            let after = match ghost.step {
                Step::Write { value } => apply(value, step).map(|after| (with(taken, bit), after)),
                Step::Swap { expected, value } => apply(value, step).and_then(|after| {
                    self.reach(&with(taken, bit), state, expected, until).map(|taken| (taken, after))
                }),
                _ => None,
            };
            ways.extend(after);
        }
        if let (Step::Read { value }, true) = (step, self.ghosts.iter().any(|ghost| ghost.step == Step::Add)) {
            ways.extend(self.add_until(taken, state, value, until, step));
        }
        ways
    }

    /// Lands ghosts until the state is `goal`. Values are used once, so the way back is one chain.
    fn reach(&self, taken: &Taken, state: State, goal: State, until: Time) -> Option<Taken> {
        if state == goal {
            return Some(taken.clone());
        }
        let usable = |number: usize, ghost: &Call| ghost.invoked <= until && !has(taken, self.calls.len() + number);
        for (number, ghost) in self.ghosts.iter().enumerate().filter(|(number, ghost)| usable(*number, ghost)) {
            let bit = self.calls.len() + number;
            match ghost.step {
                Step::Write { value } if value == goal => return Some(with(taken, bit)),
                Step::Swap { expected, value } if value == goal => {
                    if let Some(taken) = self.reach(&with(taken, bit), state, expected, until) {
                        return Some(taken);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Lands as many ghost increments as bring the counter to `goal`, earliest first: all are open-ended, so which does not matter.
    fn add_until(&self, taken: &Taken, state: State, goal: State, until: Time, step: Step) -> Vec<(Taken, State)> {
        let (mut taken, mut state) = (taken.clone(), state);
        for (number, ghost) in self.ghosts.iter().enumerate() {
            let bit = self.calls.len() + number;
            if state < goal && ghost.step == Step::Add && ghost.invoked <= until && !has(&taken, bit) {
                taken = with(&taken, bit);
                state += 1;
            }
        }
        if state != goal {
            return Vec::new();
        }
        apply(state, step).map(|state| (taken, state)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;

    const STEPS: u64 = 10_000;

    fn violations(records: Vec<Record>) -> usize {
        let report = check(&history(records), STEPS);
        assert_eq!(report.gave_up, 0);
        report.violations.len()
    }

    #[test]
    fn takes_concurrency_that_has_an_order() {
        assert_eq!(
            violations(vec![
                put(0, 10, "k", "a"),
                put(0, 10, "k", "b"),
                get(5, 6, "k", Some("b")),
                get(11, 12, "k", Some("a"))
            ]),
            0
        );
        assert_eq!(
            violations(vec![
                put(0, 10, "k", "a"),
                scan(11, 12, &[("k", "a")]),
                delete(13, 14, "k", true),
                get(15, 16, "k", None)
            ]),
            0
        );
        assert_eq!(violations(vec![swap(0, 1, "k", None, "a", true), swap(2, 3, "k", None, "b", false)]), 0);
        assert_eq!(
            violations(vec![
                increment(0, 5, "n", 2),
                increment(0, 5, "n", 1),
                read_counter(6, 7, "n", 2),
                scan(8, 9, &[])
            ]),
            0
        );
    }

    #[test]
    fn rejects_stale_reads_lost_writes_and_double_counts() {
        assert_eq!(violations(vec![put(0, 1, "k", "a"), put(2, 3, "k", "b"), get(4, 5, "k", Some("a"))]), 1);
        assert_eq!(violations(vec![put(0, 1, "k", "a"), get(4, 5, "k", None)]), 1);
        assert_eq!(violations(vec![put(0, 1, "k", "a"), scan(4, 5, &[])]), 1);
        assert_eq!(violations(vec![put(0, 9, "k", "a"), get(1, 2, "k", Some("a")), get(3, 4, "k", None)]), 1);
        assert_eq!(violations(vec![increment(0, 1, "n", 1), increment(2, 3, "n", 3)]), 1);
        assert_eq!(violations(vec![swap(0, 1, "k", None, "a", true), swap(2, 3, "k", None, "b", true)]), 1);
        assert_eq!(violations(vec![put(0, 1, "k", "a"), delete(2, 3, "k", false)]), 1);
    }

    #[test]
    fn ghosts_may_land_late_or_never_but_once() {
        let ghost = || unknown(put(0, 1, "k", "g"));
        assert_eq!(
            violations(vec![ghost(), put(2, 3, "k", "a"), get(4, 5, "k", Some("a")), get(6, 7, "k", Some("g"))]),
            0
        );
        assert_eq!(
            violations(vec![ghost(), get(2, 3, "k", Some("g")), put(4, 5, "k", "a"), get(6, 7, "k", Some("g"))]),
            1
        );
        assert_eq!(violations(vec![get(0, 1, "k", Some("g")), unknown(put(2, 3, "k", "g"))]), 1);
        let chain = |last| {
            vec![
                ghost(),
                unknown(swap(0, 1, "k", Some("g"), "h", true)),
                unknown(swap(0, 1, "k", Some("h"), "i", true)),
                get(5, 6, "k", Some(last)),
            ]
        };
        assert_eq!(violations(chain("i")), 0);
        assert_eq!(violations(chain("z")), 1);
        assert_eq!(
            violations(vec![unknown(increment(0, 1, "n", 0)), increment(2, 3, "n", 2), read_counter(4, 5, "n", 2)]),
            0
        );
        assert_eq!(violations(vec![unknown(increment(0, 1, "n", 0)), increment(2, 3, "n", 3)]), 1);
    }

    #[test]
    fn gives_up_at_its_bound_and_says_so() {
        let mut records: Vec<Record> = (0..12).map(|value| put(0, 100, "k", &value.to_string())).collect();
        records.push(get(101, 102, "k", Some("x")));
        let report = check(&history(records), 50);
        assert_eq!((report.gave_up, report.keys_searched, report.violations.len()), (1, 0, 0));
    }
}
