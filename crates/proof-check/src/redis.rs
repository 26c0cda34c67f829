//! Redis databases: what clients asked and were answered, what was published and read, compared with one order of all calls.
//!
//! ```text
//!   journal: each call that writes first pushes its number to a list ──▶ the order in which calls were carried out
//!   clock:   each call asks how long a certain key still lives       ──▶ the cluster's time of each call that was answered
//!   both ──replayed──▶ a twin: the reply to each command, every key's end, every message
//! ```
//!
//! What must hold:
//! - a call is in the journal once, where its reply says; never if it was refused for good, or aborted;
//! - the order agrees with real time, reads at level strong included, and so does the cluster's time of what was carried out; it never runs
//!   ahead of real time; no key that was seen to have expired is there again;
//! - every reply is the twin's: counters count each call once, an element is given to one client, a transaction is whole, a key is there
//!   until its end and not after it;
//! - a transaction is carried out only if no key that it watches has changed since it was looked at, and is aborted only if one has;
//! - each reader gets all messages from where it began, once, in the order of the journal.
//!
//! Always: a doubt (an outcome or a time that nobody knows) counts for the system.
//! Held by: `right_story_passes_and_each_wrong_one_is_noticed`.
//! Not here: asking, and what is found after all has ended (proof-sim).

mod twin;

use crate::{Ending, Violation};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCommand, RedisMessage, RedisReply};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use twin::{Moment, Place, Twin};

/// What a clock may run ahead of real time, in percent, and what a look at it may come late by.
const CLOCK_PERCENT: u64 = 5;
const CLOCK_SLACK_MS: u64 = 100;

/// The list that each call which writes pushes its number to, in database 0.
pub const JOURNAL: &[u8] = b"journal";
/// The key that each call asks for how long it still lives, in database 0.
pub const CLOCK: &[u8] = b"clock";
/// How long it lives from the first call of the journal on, which makes it.
pub const CLOCK_MS: u64 = 1 << 40;
/// The two keys that transactions write together, in database 0.
pub const PAIR: [&[u8]; 2] = [b"one", b"other"];

/// A call of a client.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was asked.
    pub asked: RedisAsk,
    /// The door's clock.
    pub unix_ms: u64,
    /// By the leader, or by what any member had applied.
    pub strong: bool,
    /// When it began.
    pub invoked: u64,
    /// When it ended.
    pub returned: Option<u64>,
    /// Whether it happened.
    pub ending: Ending,
    /// The answer.
    pub told: Option<RedisAnswer>,
    /// Of a transaction that watches.
    pub watched: Option<Watched>,
}

/// How a client came to the versions that it watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    /// It began to ask for them.
    pub invoked: u64,
    /// After that it read: so many calls had been carried out.
    pub looked: usize,
}

/// What one reader of messages was given, from a number on.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// It asked for messages after this.
    pub from: u64,
    /// In the order in which they came.
    pub seen: Vec<RedisMessage>,
    /// It learned that messages are lost.
    pub lost: bool,
}

/// All of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Its calls; a call's number is its place here.
    pub calls: Vec<Call>,
    /// Its readers.
    pub readers: Vec<Reader>,
    /// What the journal holds after all has ended. None: nobody has read it.
    pub journal: Option<Vec<u64>>,
    /// Clocks leapt, so nothing is said of how fast the cluster's time ran.
    pub leaps: bool,
}

impl Call {
    /// The commands that it has.
    fn commands(&self) -> &[RedisCommand] {
        match &self.asked {
            RedisAsk::Commands { commands } | RedisAsk::Transaction { commands, .. } => commands,
            _ => &[],
        }
    }

    fn writes(&self) -> bool {
        self.commands().iter().any(RedisCommand::writes)
    }

    fn replies(&self) -> Option<&[RedisReply]> {
        match &self.told {
            Some(RedisAnswer::Replies { replies }) => Some(replies),
            _ => None,
        }
    }

    fn number(&self, of: usize) -> Option<u64> {
        match self.replies()?.get(of)? {
            RedisReply::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// So many calls had been carried out after it.
    pub fn place(&self) -> Option<usize> {
        self.number(0).map(|place| place as usize)
    }

    /// The cluster's time, from the first call of the journal on.
    pub fn time_ms(&self) -> Option<u64> {
        // Of the call that makes the clock it is not asked for before that.
        self.number(1).and_then(|left| CLOCK_MS.checked_sub(left))
    }
}

/// Its numbers are of this book, not of the history of other keys.
fn violation(text: String) -> Violation {
    Violation::new("redis", text, Vec::new())
}

/// Checks a cluster.
pub fn check(book: &Book) -> Vec<Violation> {
    let mut found = check_pairs(book);
    found.extend(check_taken(book));
    let Some(journal) = &book.journal else { return found };
    let unsound = check_journal(book, journal);
    if !unsound.is_empty() {
        // What follows would only repeat it in other words.
        found.extend(unsound);
        return found;
    }
    let times = times(book, journal);
    found.extend(check_real_time(book, journal));
    found.extend(check_clock(book, journal));
    let (twin, wrong) = replay(book, journal, &times);
    found.extend(wrong);
    found.extend(check_aborted(book, journal, &twin));
    found.extend(check_messages(book, &twin));
    found
}

/// Two keys that are written together are never seen different. It needs no journal.
fn check_pairs(book: &Book) -> Vec<Violation> {
    let mut found = Vec::new();
    for (id, call) in book.calls.iter().enumerate() {
        let Some(replies) = call.replies() else { continue };
        let mut seen = call.commands().iter().zip(replies).filter_map(|(command, reply)| {
            let gets = &command.words[0][..] == b"GET" && PAIR.contains(&&command.words[1][..]);
            gets.then_some(reply)
        });
        if let (Some(one), Some(other)) = (seen.next(), seen.next()) {
            if one != other {
                found.push(violation(format!("call {id} sees one transaction in parts: {one:?} and {other:?}")));
            }
        }
    }
    found
}

/// An element is given to one client. It needs no journal: each element is pushed by one command.
fn check_taken(book: &Book) -> Vec<Violation> {
    let (mut found, mut taken) = (Vec::new(), BTreeMap::<(u8, &Bytes), usize>::new());
    for (id, call) in book.calls.iter().enumerate() {
        for (command, reply) in call.commands().iter().zip(call.replies().unwrap_or_default()) {
            let element = match (&command.words[0].to_ascii_lowercase()[..], reply) {
                (b"lpop" | b"rpop", RedisReply::Bulk(element)) => element,
                (b"blpop" | b"brpop", RedisReply::Array(parts)) => match &parts[..] {
                    [_, RedisReply::Bulk(element)] => element,
                    _ => continue,
                },
                _ => continue,
            };
            if let Some(other) = taken.insert((command.database, element), id) {
                found.push(violation(format!("calls {other} and {id} were both given the element {element:?}")));
            }
        }
    }
    found
}

/// Each call is there once, if it may be, and where it says.
fn check_journal(book: &Book, journal: &[u64]) -> Vec<Violation> {
    let (mut found, mut places) = (Vec::new(), BTreeMap::new());
    for (place, id) in journal.iter().enumerate() {
        if let Some(other) = places.insert(*id, place) {
            let text = format!("call {id} was carried out twice, as number {} and {}", other + 1, place + 1);
            found.push(violation(text));
        }
    }
    for (id, call) in book.calls.iter().enumerate().filter(|(_, call)| call.writes()) {
        let place = places.remove(&(id as u64));
        match (call.ending, &call.told, place) {
            (Ending::Failed, _, Some(place)) => {
                let text = format!("call {id} was refused for good, and carried out as number {}", place + 1);
                found.push(violation(text));
            }
            (Ending::Ok, Some(RedisAnswer::Aborted), Some(place)) => {
                found.push(violation(format!("call {id} was aborted, and carried out as number {}", place + 1)));
            }
            (Ending::Ok, Some(RedisAnswer::Replies { .. }), place) if place.map(|place| place + 1) != call.place() => {
                let (said, place) = (call.place(), place.map(|place| place + 1));
                let text = format!("call {id} learned that it was carried out as number {said:?}; it was as {place:?}");
                found.push(violation(text));
            }
            _ => {}
        }
    }
    if let Some((id, _)) = places.into_iter().next() {
        found.push(violation(format!("the journal names {id}, which is no call that writes")));
    }
    found
}

/// Between which times each call of the journal was carried out.
fn times(book: &Book, journal: &[u64]) -> Vec<Moment> {
    let told = |id: &u64| book.calls[*id as usize].time_ms();
    let unix_ms = |id: &u64| book.calls[*id as usize].unix_ms;
    let mut moments: Vec<Moment> = Vec::with_capacity(journal.len());
    let mut low = 0;
    for id in journal {
        low = told(id).unwrap_or(low);
        moments.push(Moment { low, high: 0, unix_ms: unix_ms(id) });
    }
    let mut high = u64::MAX / 4;
    for (id, moment) in journal.iter().zip(&mut moments).rev() {
        high = told(id).unwrap_or(high);
        moment.high = high.max(moment.low);
    }
    moments
}

/// A call that was carried out, or a read.
struct Placed<'a> {
    id: usize,
    call: &'a Call,
    /// So many calls had been carried out after it.
    place: usize,
    /// It is one of them.
    own: bool,
}

/// All calls of which somebody knows their place, by their beginning.
fn placed<'a>(book: &'a Book, journal: &[u64]) -> Vec<Placed<'a>> {
    let mut all: Vec<Placed<'a>> = journal
        .iter()
        .enumerate()
        .map(|(place, id)| (*id as usize, place + 1, true))
        .chain(book.calls.iter().enumerate().filter_map(|(id, call)| {
            let place = call.place().filter(|_| call.strong && !call.writes())?;
            Some((id, place, false))
        }))
        .map(|(id, place, own)| Placed { id, call: &book.calls[id], place, own })
        .collect();
    all.sort_by_key(|one| (one.call.invoked, one.id));
    all
}

/// The order agrees with real time.
fn check_real_time(book: &Book, journal: &[u64]) -> Vec<Violation> {
    let (mut found, all) = (Vec::new(), placed(book, journal));
    let mut ended: Vec<&Placed<'_>> = all.iter().filter(|one| one.call.returned.is_some()).collect();
    ended.sort_by_key(|one| one.call.returned);
    let (mut ended, mut most) = (ended.into_iter().peekable(), (0, 0));
    let mut latest: Option<(u64, usize)> = None;
    for one in &all {
        while let Some(before) = ended.next_if(|before| before.call.returned < Some(one.call.invoked)) {
            most = most.max((before.place, before.id));
            // What a read sees of time no entry has stamped. What it saw to have ended is another check (`check_ends`).
            latest = latest.max(before.call.time_ms().filter(|_| before.own).map(|time| (time, before.id)));
        }
        if one.place < most.0 + usize::from(one.own) {
            let text = format!(
                "call {} began after call {} had ended as number {}, and is at number {}",
                one.id, most.1, most.0, one.place
            );
            found.push(violation(text));
        }
        if let (Some((before, id)), Some(time)) = (latest, one.call.time_ms()) {
            if time < before {
                let text = format!(
                    "call {} began after call {id} had ended at {before} ms of the cluster's time, and is at {time} ms",
                    one.id
                );
                found.push(violation(text));
            }
        }
    }
    found
}

/// The cluster's time goes with the journal, and never ahead of real time.
fn check_clock(book: &Book, journal: &[u64]) -> Vec<Violation> {
    let mut found = Vec::new();
    let told: Vec<(u64, u64)> =
        journal.iter().filter_map(|id| Some((*id, book.calls[*id as usize].time_ms()?))).collect();
    for pair in told.windows(2) {
        if pair[1].1 < pair[0].1 {
            let text = format!(
                "call {} is at {} ms, and call {} after it at {} ms",
                pair[0].0, pair[0].1, pair[1].0, pair[1].1
            );
            found.push(violation(text));
        }
    }
    if book.leaps {
        return found;
    }
    // What the cluster's time was at most ahead, as a clock that runs 5 % too fast would have it.
    let fast = |us: u64| us * (100 + CLOCK_PERCENT) / 100_000;
    let all = placed(book, journal);
    let mut ended: Vec<&Placed<'_>> = all.iter().filter(|one| one.call.returned.is_some()).collect();
    ended.sort_by_key(|one| one.call.returned);
    let (mut ended, mut least) = (ended.into_iter().peekable(), None::<(i128, usize)>);
    for one in &all {
        // It may step back where leaders change, so calls at the same time say nothing.
        while let Some(before) = ended.next_if(|before| before.call.returned < Some(one.call.invoked)) {
            let Some(time) = before.call.time_ms() else { continue };
            let began = (i128::from(time) - i128::from(fast(before.call.invoked)), before.id);
            least = Some(least.map_or(began, |least| least.min(began)));
        }
        let (Some(time), Some(returned)) = (one.call.time_ms(), one.call.returned) else { continue };
        let ahead = i128::from(time) - i128::from(fast(returned));
        if let Some((least, id)) = least.filter(|(least, _)| ahead > least + i128::from(CLOCK_SLACK_MS)) {
            let ms = ahead - least;
            found.push(violation(format!("from call {id} to call {} the cluster's time ran {ms} ms ahead", one.id)));
        }
    }
    found
}

/// Compares every reply with the twin's.
fn replay(book: &Book, journal: &[u64], times: &[Moment]) -> (Twin, Vec<Violation>) {
    let (mut found, mut twin, mut ends) = (Vec::new(), Twin::default(), Vec::new());
    let mut reads: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (id, call) in book.calls.iter().enumerate().filter(|(_, call)| !call.writes()) {
        if let Some(place) = call.place() {
            reads.entry(place).or_default().push(id);
        }
    }
    for before in 0..=journal.len() {
        for id in reads.remove(&before).unwrap_or_default() {
            let call = &book.calls[id];
            let Some(time) = call.time_ms() else { continue };
            let at = Moment { low: time, high: time, unix_ms: call.unix_ms };
            ends.extend(ends_seen(&twin, id, call, &at));
            found.extend(compare(&mut twin, id, call, &at, before));
        }
        let (Some(id), Some(at)) = (journal.get(before), times.get(before)) else { continue };
        let (id, call) = (*id as usize, &book.calls[*id as usize]);
        ends.extend(ends_seen(&twin, id, call, at));
        found.extend(check_watched(&twin, id, call, at));
        found.extend(compare(&mut twin, id, call, at, before));
    }
    for (place, ids) in reads {
        let text = format!("call {} saw {place} calls carried out, of {}", ids[0], journal.len());
        found.push(violation(text));
    }
    found.extend(check_ends(book, ends));
    (twin, found)
}

/// A key that expires, as a client saw it: the number of its last change, whether it had expired, and who saw it.
type End = (Place, usize, bool, usize);

/// What an answered call of the leader saw of keys that expire.
fn ends_seen(twin: &Twin, id: usize, call: &Call, at: &Moment) -> Vec<End> {
    if call.replies().is_none() || !call.strong {
        return Vec::new();
    }
    let shows = |command: &&RedisCommand| !matches!(&command.words[0][..], b"PUBLISH") && command.words.len() > 1;
    let keys = call.commands().iter().filter(shows).map(|command| (command.database, command.words[1].clone()));
    keys.filter_map(|key| twin.ended(&key, at).map(|(changed, gone)| (key, changed, gone, id))).collect()
}

/// What was seen to have expired is not seen again.
fn check_ends(book: &Book, ends: Vec<End>) -> Vec<Violation> {
    let (mut found, mut gone) = (Vec::new(), BTreeMap::<(&Place, usize), (u64, usize)>::new());
    for (key, changed, _, id) in ends.iter().filter(|(_, _, gone, _)| *gone) {
        let Some(returned) = book.calls[*id].returned else { continue };
        let first = gone.entry((key, *changed)).or_insert((returned, *id));
        *first = (returned, *id).min(*first);
    }
    for (key, changed, _, id) in ends.iter().filter(|(_, _, gone, _)| !gone) {
        let Some((returned, before)) = gone.get(&(key, *changed)) else { continue };
        if book.calls[*id].invoked > *returned {
            let text =
                format!("call {id} began after call {before} had seen that {:?} is gone, and it is there", key.1);
            found.push(violation(text));
        }
    }
    found
}

fn compare(twin: &mut Twin, id: usize, call: &Call, at: &Moment, before: usize) -> Option<Violation> {
    let (mut wrong, replies) = (None, call.replies());
    for (number, command) in call.commands().iter().enumerate() {
        let wanted = twin.run(command, at, before);
        let Some(told) = replies.map(|replies| replies.get(number)) else { continue };
        if let Some(wanted) = wanted.filter(|wanted| told != Some(wanted)) {
            let words: Vec<String> = command.words.iter().map(|word| word.escape_ascii().to_string()).collect();
            wrong.get_or_insert(format!(
                "call {id}, number {} at {} ms: {} gave {told:?}, and {wanted:?} is right",
                before + usize::from(call.writes()),
                at.low,
                words.join(" ")
            ));
        }
    }
    wrong.map(violation)
}

/// A transaction that was carried out found what it watches as it was.
fn check_watched(twin: &Twin, id: usize, call: &Call, at: &Moment) -> Vec<Violation> {
    let (RedisAsk::Transaction { watched, .. }, Some(since)) = (&call.asked, call.watched) else { return Vec::new() };
    let mut found = Vec::new();
    for key in watched {
        let Some(changed) = twin.changed(&(key.database, key.key.clone()), at) else { continue };
        let same = if key.version == 0 { changed == 0 } else { changed > 0 && changed <= since.looked };
        if !same {
            let text = format!(
                "call {id} was carried out although {:?}, which it watches since number {}, changed at number {changed}",
                key.key, since.looked
            );
            found.push(violation(text));
        }
    }
    found
}

/// A transaction that was aborted watches a key that may have changed.
fn check_aborted(book: &Book, journal: &[u64], twin: &Twin) -> Vec<Violation> {
    let (mut found, all) = (Vec::new(), placed(book, journal));
    for (id, call) in book.calls.iter().enumerate() {
        let (RedisAsk::Transaction { watched, .. }, Some(RedisAnswer::Aborted)) = (&call.asked, &call.told) else {
            continue;
        };
        let (Some(since), Some(returned)) = (call.watched, call.returned) else { continue };
        let before = all.iter().filter(|one| one.call.returned.is_some_and(|at| at < since.invoked));
        let after = all.iter().filter(|one| one.call.invoked > returned);
        let low = before.map(|one| one.place).max().unwrap_or(0);
        let high = after.map(|one| one.place - usize::from(one.own)).min().unwrap_or(journal.len());
        let may_have_changed = watched.iter().any(|key| {
            let changes = twin.changes.get(&(key.database, key.key.clone()));
            changes.is_some_and(|changes| changes.iter().any(|at| (low..high).contains(at)))
        });
        if !may_have_changed {
            found.push(violation(format!("call {id} was aborted, and nobody changed what it watches: {watched:?}")));
        }
    }
    found
}

/// Each reader has all of what was published, in its order.
fn check_messages(book: &Book, twin: &Twin) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, reader) in book.readers.iter().enumerate() {
        if reader.lost {
            // The ring holds more messages than a book has calls.
            found.push(violation(format!("reader {number} learned that messages are lost")));
            continue;
        }
        let mut next = reader.from + 1;
        for message in &reader.seen {
            if message.number != next {
                let text = format!("reader {number} was given message {} where {next} comes next", message.number);
                found.push(violation(text));
                break;
            }
            let at = usize::try_from(message.number - 1).ok();
            let wanted = at.and_then(|at| twin.published.get(at));
            if wanted != Some(&(message.channel.clone(), message.message.clone())) {
                found.push(violation(format!("reader {number} was given {message:?}; {wanted:?} was published")));
                break;
            }
            next += 1;
        }
        let all = twin.published.len() as u64;
        if next <= all && found.is_empty() {
            found.push(violation(format!("reader {number} was given messages up to {}, of {all}", next - 1)));
        }
    }
    let texts: BTreeSet<_> = twin.published.iter().map(|(_, text)| text).collect();
    if texts.len() < twin.published.len() {
        found.push(violation("one message was published twice".to_string()));
    }
    found
}

#[cfg(test)]
mod tests;
