//! Clients that race for the names of buckets: they make one, use it, empty it and remove it, again and again.
//!
//! ```text
//!   Without ──made──▶ Has ──used, emptied──▶ Leaving ──removed──▶ Without
//!                      ▲◀──not empty───────────┤▲
//!                      │                 unknown▼│it is still ours
//!                      └ (of another: lost)    Doubtful ──▶ Without
//! ```
//!
//! What was surely removed is looked at once more, through any node (`Gone`, between Leaving and Without).
//!
//! Always: a name has one owner; a bucket just made is empty; one that nobody removes is not lost; no node still answers
//! for a removed one. Each life of a bucket is a place of its own in the history, where only its owner writes.
//! Not here: retries and history (`load`), that no name is barred for ever (`run`).

use crate::random::Random;
use crate::s3_load;
use base_types::s3::{CreateBucket, DeleteBucket, HeadBucket, S3Action, S3Answer, S3ErrorCode};
use base_types::ErrorCode;
use bytes::Bytes;
use proof_check::{Ending, Observed, Operation, Place, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// Places of lives begin here, behind those of the buckets that all share.
const FIRST_PLACE: u32 = 1 << 24;
/// Names that owners race for.
const NAMES: u64 = 2;
/// A removal needs more than three seconds to be begun at all.
pub const DEADLINE_MS: u64 = 8_000;

/// All names that are raced for.
pub fn names() -> Vec<String> {
    (0..NAMES).map(|number| format!("raced{number}")).collect()
}

/// The account of the owner of this number.
pub fn account(number: u64) -> String {
    format!("owner{number}")
}

/// What is known of a name.
#[derive(Default)]
struct Name {
    /// The client that surely has it.
    holder: Option<usize>,
    /// Removals that may yet come true: whose, and until when.
    removals: Vec<(usize, u64)>,
}

/// Who has which name, and how many lives there were.
#[derive(Default)]
pub struct Register {
    names: BTreeMap<String, Name>,
    lives: u32,
}

impl Register {
    fn name(&mut self, name: &str) -> &mut Name {
        self.names.entry(name.to_string()).or_default()
    }

    fn take(&mut self, client: usize, name: &str) -> Option<Violation> {
        let before = self.name(name).holder.replace(client).filter(|before| *before != client);
        before.map(|before| {
            Violation::new("owners", format!("{name} is given to client {client}, but client {before} has it"), vec![])
        })
    }

    fn leave(&mut self, client: usize, name: &str, until: u64) {
        let name = self.name(name);
        name.holder = None;
        name.removals.push((client, until));
    }

    /// No attempt of a removal can come late.
    fn certain(&mut self, client: usize, name: &str) {
        let removals = &mut self.name(name).removals;
        if let Some(at) = removals.iter().rposition(|(whose, _)| *whose == client) {
            removals.remove(at);
        }
    }

    fn new_place(&mut self) -> Place {
        self.lives += 1;
        Place(FIRST_PLACE + self.lives)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Without,
    Has,
    Leaving,
    Doubtful,
    Gone,
}

/// One owner.
pub struct Owner {
    account: String,
    stage: Stage,
    name: String,
    /// The name is not changed: it may have been made already.
    insists: bool,
    /// Its making was asked for once and answered: nothing of it can come late.
    surely_made: bool,
    place: Place,
    /// It surely served at some time from then on.
    alive_at: u64,
    left: u64,
    /// What may be there.
    keys: BTreeSet<Bytes>,
    /// Its keys are to be looked up.
    look: bool,
    /// Lives by name, for one that turns out to be ours still.
    lives: BTreeMap<String, Place>,
}

/// What an owner asks next.
pub enum Next {
    /// Nothing that the history knows.
    Call(S3Action),
    /// On an object of its bucket.
    Use(Place, Operation, String),
}

/// How a call of an owner ended.
pub enum Told<'a> {
    Answer(Option<&'a S3Answer>),
    Refused(ErrorCode),
    Nothing,
}

impl Owner {
    /// The owner of this number.
    pub fn new(number: u64) -> Owner {
        Owner {
            account: account(number),
            stage: Stage::Without,
            name: String::new(),
            insists: false,
            surely_made: false,
            place: Place(FIRST_PLACE),
            alive_at: 0,
            left: 0,
            keys: BTreeSet::new(),
            look: false,
            lives: BTreeMap::new(),
        }
    }

    /// Its next call. `gives_up` is when the last attempt of it will be over.
    pub fn next(
        &mut self,
        register: &mut Register,
        random: &mut Random,
        (client, written): (usize, u64),
        gives_up: u64,
    ) -> Next {
        let name = self.name.clone();
        match self.stage {
            Stage::Without => {
                if !self.insists {
                    self.name = random.pick(&names()).clone();
                }
                let (bucket, account) = (self.name.clone(), self.account.clone());
                Next::Call(CreateBucket { bucket, account, ..CreateBucket::default() }.into())
            }
            Stage::Has if self.look => Next::Use(self.place, s3_load::listing(None, s3_load::ALL_KEYS), name),
            Stage::Has if self.left > 0 => {
                self.left -= 1;
                let operation = self.draw(random, client, written);
                Next::Use(self.place, operation, name)
            }
            Stage::Has => match self.keys.first().cloned() {
                Some(key) => Next::Use(self.place, Operation::Delete { key }, name),
                None => {
                    self.stage = Stage::Leaving;
                    self.leaving(register, client, gives_up)
                }
            },
            Stage::Leaving => self.leaving(register, client, gives_up),
            Stage::Doubtful | Stage::Gone => Next::Call(HeadBucket { bucket: name }.into()),
        }
    }

    fn leaving(&self, register: &mut Register, client: usize, gives_up: u64) -> Next {
        register.leave(client, &self.name, gives_up);
        let expected_bucket_owner = Some(self.account.clone());
        Next::Call(DeleteBucket { bucket: self.name.clone(), expected_bucket_owner }.into())
    }

    fn draw(&mut self, random: &mut Random, client: usize, written: u64) -> Operation {
        let key = Bytes::from(format!("k{}", random.below(4)));
        match random.below(4) {
            0 | 1 => {
                self.keys.insert(key.clone());
                Operation::Put { key, value: s3_load::value(client, written) }
            }
            2 => Operation::Get { key },
            _ => Operation::Delete { key },
        }
    }

    /// An operation on an object ended that was asked for at `asked_at`.
    pub fn used(&mut self, operation: &Operation, ending: Ending, observed: Option<&Observed>, asked_at: u64) {
        if ending == Ending::Ok {
            self.alive_at = asked_at;
        }
        match (operation, observed) {
            (Operation::Delete { key }, _) if ending == Ending::Ok => _ = self.keys.remove(key),
            (Operation::Scan { .. }, Some(Observed::Page { entries, .. })) => {
                self.look = false;
                self.keys.extend(entries.iter().map(|(key, _)| key.clone()));
            }
            _ => {}
        }
    }

    /// Its bucket is not there: a violation, unless a removal of its own may have been begun late (it names the
    /// owner, so nobody else's bucket goes by it). One that was begun and given up bars the bucket until the sweep.
    pub fn missed(&mut self, register: &mut Register, client: usize) -> Option<Violation> {
        let name = register.name(&self.name);
        let removed = name.removals.iter().any(|(whose, until)| *whose == client && *until >= self.alive_at);
        if name.holder == Some(client) {
            name.holder = None;
        }
        self.stage = Stage::Without;
        let message = format!("bucket {} of client {client} is gone, and nobody has removed it", self.name);
        (!removed).then(|| Violation::new("owners", message, vec![]))
    }

    /// A call that the history does not know ended, asked for (the last time) at `asked_at`; `again`: it may have been
    /// carried out before that.
    pub fn called(
        &mut self,
        register: &mut Register,
        random: &mut Random,
        client: usize,
        (ending, again, asked_at): (Ending, bool, u64),
        told: Told<'_>,
    ) -> Option<Violation> {
        match (self.stage, ending, told) {
            (Stage::Without, Ending::Ok, _) => {
                self.surely_made = !again && !self.insists;
                // One that an earlier attempt made may have been removed meanwhile.
                self.alive_at = if self.surely_made { asked_at } else { 0 };
                return self.begin_life(register, random, client, true);
            }
            (Stage::Without, _, Told::Refused(ErrorCode::S3(S3ErrorCode::BucketAlreadyOwnedByYou))) => {
                (self.surely_made, self.alive_at) = (false, asked_at);
                return self.begin_life(register, random, client, false);
            }
            (Stage::Without, _, _) => self.insists = ending == Ending::Unknown,
            (Stage::Leaving, Ending::Ok, _)
            | (Stage::Leaving, Ending::Failed, Told::Refused(ErrorCode::S3(S3ErrorCode::NoSuchBucket))) => {
                register.certain(client, &self.name);
                self.stage = if self.surely_made { Stage::Gone } else { Stage::Without };
            }
            (Stage::Gone, _, told) => {
                self.stage = Stage::Without;
                return self.still_told(client, &told);
            }
            (Stage::Leaving, _, Told::Refused(ErrorCode::S3(S3ErrorCode::BucketNotEmpty))) => {
                if ending == Ending::Failed {
                    register.certain(client, &self.name);
                }
                (self.stage, self.look) = (Stage::Has, true);
                return register.take(client, &self.name);
            }
            (Stage::Leaving, _, _) => {
                if ending == Ending::Failed {
                    register.certain(client, &self.name);
                }
                self.stage = Stage::Doubtful;
            }
            (Stage::Doubtful, Ending::Ok, Told::Answer(Some(S3Answer::BucketInfo(info)))) => {
                self.stage = if info.owner.id == self.account { Stage::Leaving } else { Stage::Without };
            }
            (Stage::Doubtful, _, Told::Refused(ErrorCode::S3(S3ErrorCode::NoSuchBucket))) => {
                self.stage = Stage::Without
            }
            (Stage::Doubtful | Stage::Has, _, _) => {}
        }
        None
    }

    /// What was removed is not there any more, whichever node is asked.
    fn still_told(&self, client: usize, told: &Told<'_>) -> Option<Violation> {
        let Told::Answer(Some(S3Answer::BucketInfo(info))) = told else { return None };
        let message = format!("bucket {} of client {client} was removed, and a node still answers for it", self.name);
        (info.owner.id == self.account).then(|| Violation::new("owners", message, vec![]))
    }

    fn begin_life(
        &mut self,
        register: &mut Register,
        random: &mut Random,
        client: usize,
        fresh: bool,
    ) -> Option<Violation> {
        let known = self.lives.get(&self.name).copied().filter(|_| !fresh);
        self.place = known.unwrap_or_else(|| register.new_place());
        self.lives.insert(self.name.clone(), self.place);
        if fresh {
            self.keys.clear();
        }
        (self.stage, self.insists, self.look) = (Stage::Has, false, true);
        self.left = random.between(1, 8);
        register.take(client, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_owners_of_one_name_and_a_lost_bucket_are_noticed() {
        let (mut register, mut random) = (Register::default(), Random::stream(1, "owners"));
        let mut owners = [Owner::new(0), Owner::new(1)];
        for (number, owner) in owners.iter_mut().enumerate() {
            (owner.insists, owner.name) = (true, "raced0".to_string());
            assert!(matches!(owner.next(&mut register, &mut random, (number, 1), 9), Next::Call(_)));
            let violation =
                owner.called(&mut register, &mut random, number, (Ending::Ok, false, 5), Told::Answer(None));
            assert_eq!(violation.is_some(), number == 1);
        }
        register.leave(1, "raced0", 7);
        assert!(owners[0].missed(&mut register, 0).is_some());
        assert!(owners[1].missed(&mut register, 1).is_none());
        owners[1].used(&Operation::Clear, Ending::Ok, None, 8);
        assert!(owners[1].missed(&mut register, 1).is_some());
    }

    #[test]
    fn a_removed_bucket_that_a_node_still_tells_of_is_noticed() {
        let (mut register, mut random) = (Register::default(), Random::stream(1, "owners"));
        for (of, again, noticed) in [(0, false, true), (1, false, false), (0, true, false)] {
            let mut owner = Owner::new(0);
            owner.next(&mut register, &mut random, (0, 1), 9);
            owner.called(&mut register, &mut random, 0, (Ending::Ok, again, 5), Told::Answer(None));
            owner.stage = Stage::Leaving;
            let mut ends = |owner: &mut Owner, told: Told<'_>| {
                owner.called(&mut register, &mut random, 0, (Ending::Ok, false, 5), told).is_some()
            };
            assert!(!ends(&mut owner, Told::Answer(None)));
            let info = base_types::s3::BucketInfo {
                owner: base_types::s3::Owner { id: account(of), ..base_types::s3::Owner::default() },
                ..base_types::s3::BucketInfo::default()
            };
            if owner.stage == Stage::Gone {
                assert_eq!(ends(&mut owner, Told::Answer(Some(&info.into()))), noticed);
            } else {
                assert!(!noticed && again);
            }
            register.leave(0, &owner.name, 9);
        }
    }
}
