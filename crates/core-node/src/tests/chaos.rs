//! Kills, silent cuts and lost disks at random while clients count: every request ends by its deadline,
//! no acknowledged increment is lost, none counts twice.

use super::*;
use base_types::action::RedisReply;
use base_types::ErrorKind;
use core_flow::Random;

const CLIENT_DEADLINE_MS: u64 = 2_000;

struct Tally {
    acknowledged: u64,
    unknown: u64,
    refused: u64,
}

fn increments(world: &mut World, name: &ClusterName, random: &mut Random, rounds: u64) -> Tally {
    let mut tally = Tally { acknowledged: 0, unknown: 0, refused: 0 };
    let mut out: BTreeMap<Ticket, Tick> = BTreeMap::new();
    let mut down: Option<(u64, Tick)> = None;
    for round in 0..rounds {
        let alive: Vec<u64> = world.nodes.keys().map(|id| id.0).filter(|id| world.is_running(*id)).collect();
        let node = alive[random.below(alive.len() as u64) as usize];
        let command = vec![bytes("INCR"), bytes("n")];
        let mut incr = level(
            Action::Redis { target: KvTarget::Cluster(name.clone()), command },
            WriteConsistency::Strong,
            u128::from(round) + 1,
        );
        incr.deadline = Duration::from_millis(CLIENT_DEADLINE_MS);
        out.insert(world.ask(node, incr), world.now);
        match down {
            None if random.below(30) == 0 => {
                let victim = alive[random.below(alive.len() as u64) as usize];
                match random.below(3) {
                    0 => drop(world.cut.insert(NodeId(victim))),
                    kind => {
                        world.kill(victim);
                        if kind == 2 {
                            let lanes = world.nodes[&NodeId(victim)].lanes.len() as u16;
                            world.new_disk(victim, lanes);
                        }
                        // Clients of a node that died are on their own.
                        out.clear();
                    }
                }
                down = Some((victim, world.now + Duration::from_millis(500 + random.below(2_000))));
            }
            Some((victim, until)) if world.now >= until => {
                if !world.cut.remove(&NodeId(victim)) {
                    world.start(victim);
                }
                down = None;
                world.run(2_000);
            }
            _ => {}
        }
        world.run(1 + random.below(60));
        collect(world, &mut out, &mut tally);
    }
    if let Some((victim, _)) = down {
        if !world.cut.remove(&NodeId(victim)) {
            world.start(victim);
        }
    }
    world.run(CLIENT_DEADLINE_MS + 500);
    collect(world, &mut out, &mut tally);
    assert!(out.is_empty(), "requests never ended: {out:?}");
    tally
}

fn collect(world: &mut World, out: &mut BTreeMap<Ticket, Tick>, tally: &mut Tally) {
    for (ticket, response) in core::mem::take(&mut world.replies) {
        if out.remove(&ticket).is_none() {
            continue;
        }
        match response {
            Ok(_) => tally.acknowledged += 1,
            Err(failure) if failure.refusal.kind() == ErrorKind::Unknown => tally.unknown += 1,
            Err(_) => tally.refused += 1,
        }
    }
    let late = out.values().find(|begun| world.now.since(**begun) > Duration::from_millis(CLIENT_DEADLINE_MS + 200));
    assert!(late.is_none(), "a request outlived its deadline");
}

fn count(seed: u64, lanes: u16) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams"], 3, lanes);
    world.ready();
    let name = world.create(1, "redis@counter", "size=3 location=fr-par");
    let mut random = Random::new(seed);
    let rounds = 250;
    let tally = increments(&mut world, &name, &mut random, rounds);
    let read = Action::Redis { target: KvTarget::Cluster(name.clone()), command: vec![bytes("GET"), bytes("n")] };
    let value: u64 = match world.done(4, read).result {
        ActionResult::Redis { reply: RedisReply::Bulk(value) } => {
            String::from_utf8(value.to_vec()).unwrap().parse().unwrap()
        }
        other => panic!("{other:?}"),
    };
    // Each id was asked once; what the routers tried again counts once or not at all.
    let most = rounds - tally.refused;
    assert!(
        value >= tally.acknowledged && value <= most,
        "seed {seed}: {value} counted, {} acknowledged, {} refused",
        tally.acknowledged,
        tally.refused
    );
    assert!(
        tally.acknowledged > rounds / 3,
        "seed {seed}: {} acknowledged, {} unknown, {} refused",
        tally.acknowledged,
        tally.unknown,
        tally.refused
    );
    world.until("all replicas are back", 60_000, |world| world.holders(&name) == vec![1, 2, 3]);
}

#[test]
fn counters_survive_chaos() {
    let seeds = std::env::var("CHAOS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3u64);
    for seed in 1..=seeds {
        count(seed, 1 + (seed % 2) as u16);
    }
}
