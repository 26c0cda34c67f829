//! Creators, deleters and sweepers in every order, each of which may stop for good at any step or act on
//! what it saw a while ago.

use super::*;
use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::shard::tests::bed::Random;
use crate::testing::MapSpace;
use base_types::codec::Encode;
use base_types::LogIndex;
use std::collections::{BTreeMap, BTreeSet};

const BUCKETS: [&str; 2] = ["photos", "films"];
const ACCOUNTS: [&str; 2] = ["ann", "bob"];
/// No step is taken on what was seen longer ago: deadlines and routes are over by then.
const VIEW_MS_MAX: u64 = 35_000;

#[derive(Default)]
struct World {
    names: MapSpace,
    /// By account and bucket: version and entry.
    entries: BTreeMap<(String, String), (u64, Entry)>,
    clusters: BTreeSet<u128>,
    now_ms: u64,
    versions: u64,
}

/// What a runner read, and when.
#[derive(Clone)]
struct View {
    at_ms: u64,
    name: Name,
    entry: Option<(u64, Entry)>,
    built: bool,
}

impl World {
    fn name(&mut self, command: redis::Command) -> redis::Reply {
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(1),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        decode_reply(redis::apply(at, &mut self.names, &command.to_bytes()).unwrap()).unwrap()
    }

    fn see(&self, claim: &Claim) -> View {
        let asked = redis::query(self.now_ms, &self.names, &look_up(&claim.bucket).to_bytes()).unwrap();
        let value = match decode_reply(asked).unwrap() {
            redis::Reply::Bulk(value) => Some(value),
            redis::Reply::Nil => None,
            other => panic!("{other:?}"),
        };
        View {
            at_ms: self.now_ms,
            name: parse(&claim.bucket, value.as_deref()).unwrap(),
            entry: self.entries.get(&place(claim)).copied(),
            built: self.clusters.contains(&claim.id),
        }
    }

    fn act(&mut self, claim: &Claim, view: &View, step: Step) {
        let seen = view.entry.map(|(version, _)| version);
        let now = self.entries.get(&place(claim)).map(|(version, _)| *version);
        self.versions += 1;
        match step {
            Step::Name(command) => drop(self.name(command)),
            Step::Build => drop(self.clusters.insert(claim.id)),
            Step::DropCluster => drop(self.clusters.remove(&claim.id)),
            Step::PutEntry if now.is_none() => {
                let entry = Entry { id: claim.id, state: EntryState::Creating, since_ms: self.now_ms };
                self.entries.insert(place(claim), (self.versions, entry));
            }
            Step::Mark(state) if seen == now => {
                let entry = Entry { id: claim.id, state, since_ms: self.now_ms };
                self.entries.insert(place(claim), (self.versions, entry));
            }
            Step::DeleteEntry if seen == now => drop(self.entries.remove(&place(claim))),
            _ => {}
        }
    }

    /// A name is owned only while its bucket has an entry.
    fn check(&self, claims: &[Claim]) {
        for claim in claims {
            if matches!(&self.see(claim).name, Name::Owned(by) if by.id == claim.id) {
                let entry = self.entries.get(&place(claim)).map(|(_, entry)| entry.id);
                assert_eq!(entry, Some(claim.id), "a name is stuck: {claim:?}");
            }
        }
    }
}

fn place(claim: &Claim) -> (String, String) {
    (claim.account.clone(), claim.bucket.clone())
}

struct Creator {
    claim: Claim,
    reserved: bool,
    views: Vec<View>,
    told: Option<Result<(), Refusal>>,
    crashed: bool,
}

impl Creator {
    fn new(random: &mut Random, id: u128) -> Creator {
        let (bucket, account) = (random.pick(&BUCKETS).to_string(), random.pick(&ACCOUNTS).to_string());
        let claim = Claim { bucket, id, account, region: "fr-par".into() };
        Creator { claim, reserved: false, views: Vec::new(), told: None, crashed: false }
    }

    fn go_on(&mut self, random: &mut Random, world: &mut World) {
        self.views.retain(|view| world.now_ms - view.at_ms <= VIEW_MS_MAX);
        // A step once sent may arrive late, and after others.
        let late = !self.views.is_empty() && random.below(4) == 0;
        let view = if late { random.pick(&self.views).clone() } else { world.see(&self.claim) };
        let entry = view.entry.map(|(_, entry)| entry);
        let step = create_next(&self.claim, self.reserved, &view.name, entry, view.built);
        match &step {
            Step::Done(told) if !late => self.told = Some(told.clone()),
            Step::Name(command) if *command == self.claim.reserve() => self.reserved = true,
            _ => {}
        }
        world.act(&self.claim, &view, step);
        self.views.push(view);
        self.crashed = random.below(12) == 0;
    }
}

fn sweep(random: &mut Random, world: &mut World, old: &mut Vec<(Claim, View)>) {
    let Some(((account, bucket), (_, entry))) = ({
        let all: Vec<_> = world.entries.clone().into_iter().collect();
        (!all.is_empty()).then(|| random.pick(&all).clone())
    }) else {
        return;
    };
    let claim = Claim { bucket, id: entry.id, account, region: "fr-par".into() };
    old.retain(|(_, view)| world.now_ms - view.at_ms <= VIEW_MS_MAX);
    let (claim, view) = match old.is_empty() || random.below(3) > 0 {
        true => (claim.clone(), world.see(&claim)),
        false => random.pick(old).clone(),
    };
    let entry = view.entry.map(|(_, entry)| entry);
    let step = sweep_next(&claim, view.at_ms, &view.name, entry, view.built);
    world.act(&claim, &view, step);
    old.push((claim, view));
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let (mut world, mut creators, mut old) = (World { now_ms: 1_000, ..World::default() }, Vec::new(), Vec::new());
    let mut created = 0;
    for step in 0..600u64 {
        world.now_ms += random.below(8_000);
        if step < 400 && random.below(6) == 0 {
            creators.push(Creator::new(&mut random, u128::from(step) + 1));
        }
        for creator in creators.iter_mut().filter(|creator| !creator.crashed && creator.told.is_none()) {
            creator.go_on(&mut random, &mut world);
            if creator.told == Some(Ok(())) {
                created += 1;
                let entry = world.entries[&place(&creator.claim)].1;
                assert!(entry.id == creator.claim.id && world.clusters.contains(&entry.id));
                assert!(matches!(&world.see(&creator.claim).name, Name::Owned(by) if by.id == entry.id));
            }
        }
        // An owner deletes its bucket.
        let active = world.entries.iter().find(|(_, (_, entry))| entry.state == EntryState::Active);
        if let Some((at, (_, entry))) = active.map(|(at, entry)| (at.clone(), *entry)).filter(|_| random.below(10) == 0)
        {
            let deleting = Entry { state: EntryState::Deleting, since_ms: world.now_ms, ..entry };
            world.versions += 1;
            world.entries.insert(at, (world.versions, deleting));
        }
        sweep(&mut random, &mut world, &mut old);
        world.check(&creators.iter().map(|creator| creator.claim.clone()).collect::<Vec<_>>());
    }
    let crashed = creators.iter().filter(|creator| creator.crashed && creator.told.is_none()).count();
    settle(&mut random, &mut world, &mut old);
    check_settled(&world, &creators);
    (created, crashed)
}

/// Only sweepers are left, and time.
fn settle(random: &mut Random, world: &mut World, old: &mut Vec<(Claim, View)>) {
    for _ in 0..400 {
        world.now_ms += 10_000;
        sweep(random, world, old);
    }
}

/// Every name is free or belongs to a bucket that is whole; nothing else is left.
fn check_settled(world: &World, creators: &[Creator]) {
    assert!(world.entries.values().all(|(_, entry)| entry.state == EntryState::Active));
    let active: BTreeSet<u128> = world.entries.values().map(|(_, entry)| entry.id).collect();
    assert_eq!(world.clusters, active, "clusters without a bucket, or buckets without a cluster");
    for creator in creators {
        match world.see(&creator.claim).name {
            Name::Free => {}
            Name::Owned(by) => assert!(active.contains(&by.id)),
            Name::Pending(by) => panic!("a reservation is stuck: {by:?}"),
        }
    }
}

#[test]
pub fn no_name_is_owned_twice_or_stuck() {
    let (mut created, mut crashed) = (0, 0);
    for seed in 0..16 {
        let (more_created, more_crashed) = run(seed);
        (created, crashed) = (created + more_created, crashed + more_crashed);
    }
    assert!(created > 50 && crashed > 50, "{created} were created, {crashed} creators crashed");
}

#[test]
fn who_comes_second_hears_whose_it_is() {
    let claim = |id, account: &str| Claim { bucket: "b".into(), id, account: account.into(), region: "r".into() };
    let (mine, other) = (claim(1, "ann"), claim(2, "bob"));
    let code = |name: Name| match create_next(&mine, true, &name, None, false) {
        Step::Done(Err(refusal)) => refusal.code.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(Name::Owned(other.clone())), "BucketAlreadyExists");
    assert_eq!(code(Name::Owned(claim(3, "ann"))), "BucketAlreadyOwnedByYou");
    assert_eq!(code(Name::Pending(other)), "OperationAborted");
    assert!(parse("b", Some(b"pending xyz a r")).is_err() && parse("b", Some(&[0xff])).is_err());
}
