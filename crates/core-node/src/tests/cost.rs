//! What a put costs, for a counter of instructions (docs/contributing/profile.md).

use super::*;

/// Puts that are under way together: a busy core's turn.
const PUTS_TOGETHER: u64 = 64;
const VALUE_BYTES: usize = 1_024;

/// `PUTS` puts (10,000 where nothing is said) of 1 KiB into a keyspace of three nodes, at level `LEVEL` (strong). The
/// instructions of two runs, subtracted and divided by the difference in puts, are those of one put on all three nodes.
///
/// With `USERS` set the world has `access.required`, that many users, and each put comes from one of them with a role on the
/// keys' prefix: the difference to a run without is what deciding costs. With `GETS` set, each put is a strong get. With
/// `MEMBERS` set the world has that many nodes, and each has a replica.
#[test]
#[ignore = "measures"]
fn cost_of_a_put() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (puts, users, gets) = (number("PUTS", 10_000), number("USERS", 0), number("GETS", 0) > 0);
    let level: WriteConsistency =
        std::env::var("LEVEL").map_or(WriteConsistency::Strong, |level| level.parse().unwrap());
    let members = number("MEMBERS", 3);
    let mut world = World::with_access(&vec!["nl-ams"; members as usize], 3, 1, users > 0);
    world.ready();
    let mut keyspace = alone::keyspace("costs", base_types::action::Partitioning::Range);
    if let Action::CreateKeyspace { rule, .. } = &mut keyspace {
        *rule = format!("size={members}");
    }
    world.done(1, keyspace);
    (1..=users).for_each(|user| world.user(&format!("user-{user}"), &["writer on kv/costs/key-"], user));
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    for round in 0..puts.div_ceil(PUTS_TOGETHER) {
        let tickets: Vec<Ticket> = (0..PUTS_TOGETHER)
            .map(|at| {
                let key = Bytes::from(format!("key-{:06}", (round * PUTS_TOGETHER + at) * 7_919 % 100_000));
                let target = KvTarget::Keyspace("costs".into());
                let caller = match users {
                    0 => Caller::Anyone,
                    users => Caller::Identity { credential: 1 + at % users, decided_at: None },
                };
                let action = match gets {
                    true => Action::KvGet { target, key },
                    false => Action::KvPut { target, key, value: value.clone() },
                };
                let consistency = (!gets).then_some(level);
                world.ask(1 + at % 3, Request { consistency, caller, ..request(action) })
            })
            .collect();
        world.until("puts are answered", 10_000, |world| {
            tickets.iter().all(|ticket| world.replies.get(ticket).is_some_and(|reply| reply.is_ok()))
        });
        world.replies.clear();
    }
}
