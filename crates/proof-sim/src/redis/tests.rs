use super::draw::{draw, Drawn};
use super::*;
use std::collections::BTreeSet;

/// What a command writes that nobody else may: a value, an element or a message.
fn written(command: &RedisCommand) -> Option<(Bytes, Bytes)> {
    let of = |at: usize| Some((command.words[1].clone(), command.words[at].clone()));
    match &command.words[0][..] {
        b"SET" | b"LPUSH" | b"RPUSH" | b"PUBLISH" => of(2),
        b"HSET" => of(3),
        _ => None,
    }
}

#[test]
fn what_is_drawn_is_written_once() {
    let (mut random, mut seen) = (Random::stream(1, "test"), BTreeSet::new());
    for id in 0..2_000 {
        let (commands, whole) = match draw(&mut random, id, 3, UNIX_MS) {
            Drawn::Write(commands) => (commands, false),
            Drawn::Transaction(commands) => (commands, true),
            _ => continue,
        };
        let pair = |command: &&RedisCommand| proof_check::redis::PAIR.contains(&&command.words[1][..]);
        assert_eq!(commands.iter().filter(pair).count(), if whole { 2 } else { 0 });
        for command in &commands {
            assert!(written(command).is_none_or(|one| seen.insert(one)), "{command:?}");
        }
    }
}

#[test]
fn a_call_is_tried_with_one_request_id() {
    let mut plan = crate::swarm::draw(1, crate::plan::Layer::Lane);
    (plan.shape.nodes, plan.shape.databases, plan.load.redis) = (3, 1, 1);
    let targets = Targets { databases: vec![name_of(0, false).parse().unwrap()], ..Targets::default() };
    let mut own = Databases::new(&plan, &targets);
    let mut world = World::recorded(plan.clone(), crate::lane_machine::LaneOpener::boxed(&plan.shape), None);
    // Nodes start within the first 200 ms; before, nobody listens.
    while world.advance(200_000).is_some() {}
    own.draw(&mut world, 0);
    let first = own.clients[0].open.as_ref().unwrap().request_id;
    let ticket = own.clients[0].open.as_ref().unwrap().ticket.unwrap();
    assert!(own.on_answer(&mut world, ticket, &Answered::Lost));
    let again = own.clients[0].open.as_ref().unwrap();
    assert!(again.unknown && again.ticket.is_none());
    own.ask(&mut world, 0);
    let again = own.clients[0].open.as_ref().unwrap();
    assert!(again.request_id == first && again.ticket.is_some_and(|other| other != ticket));
    assert_eq!(own.books[0].calls.len(), 1);
}
