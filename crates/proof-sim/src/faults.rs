//! What each kind of hazard does to the world, when it begins and when it ends.
//!
//! Always: a hazard that did something is counted by its name; `heal` takes everything back.
//! Not here: when they come (`plan`), that nothing they do may hurt (`run`).

use crate::disk::WriteFault;
use crate::excuses::Excuse;
use crate::host::Armed;
use crate::load::Targets;
use crate::plan::{FaultKind, Hazard, Layer};
use crate::trace::line::{Kind, Line};
use crate::world::access;
use crate::world::levels;
use crate::world::lost_majority::{ask_for_recovery, lose_majority};
use crate::world::{Answered, Due, World};
use base_engine::EngineError;
use base_types::action::{Action, KvTarget, Request};
use base_types::{ClusterId, ClusterName, NodeId};
use core_cluster::api::ReplicaView;
use core_node::api::Event;
use proof_check::Violation;
use std::time::Duration;

/// The world's own cluster.
pub(crate) const WORLD_CLUSTER: ClusterId = ClusterId(1);
/// How long an operator waits.
const OPERATOR_DEADLINE: Duration = Duration::from_secs(10);
/// A restart takes so long.
const RESTART_US: u64 = 200_000;
/// A crash this far behind a lost or misdirected write: later writes (a seal at least) lie between.
const LYING_DISK_CRASH_US: u64 = 1_500_000;

/// The hazard with this number begins.
pub fn begin(world: &mut World, number: usize, targets: &Targets) {
    let hazard = world.plan.hazards[number].clone();
    let node = (hazard.node as usize).saturating_sub(1);
    world.trace.note(world.now, "hazard", &[number as u64]);
    world.trace.say(world.now, || {
        let line = Line::new(Kind::Fault, hazard.in_words());
        let peer = (hazard.peer as usize).checked_sub(1).filter(|_| hazard.kind.names_a_peer());
        Line { node: (hazard.node as usize).checked_sub(1), peer, ..line }
    });
    world.trace.with(world.now, |recorder| recorder.mark_fault(world.now, &hazard));
    let fired = match hazard.kind {
        FaultKind::Loss | FaultKind::Duplicate | FaultKind::Reorder | FaultKind::Delay | FaultKind::SlowLinks => {
            // Counted frame by frame.
            world.network.set_noise(number, hazard.kind, hazard.amount);
            false
        }
        FaultKind::CutOneWay | FaultKind::Cut | FaultKind::Isolate | FaultKind::BlackHole | FaultKind::Partition => {
            cut(world, &hazard);
            true
        }
        FaultKind::Deaf => {
            // Counted frame by frame.
            world.network.deafen(number, node, hazard.amount);
            false
        }
        FaultKind::SlowDisk => {
            world.nodes[node].slow_disk_us = hazard.amount * 1_000;
            true
        }
        FaultKind::SeeSaw => {
            // Counted each time it tips.
            world.begin_see_saw();
            false
        }
        FaultKind::Reset => reset(world, node),
        FaultKind::SwizzleClog => swizzle(world, number, &hazard),
        FaultKind::Crash | FaultKind::PowerLoss | FaultKind::CrashAll => crash(world, &hazard, node),
        FaultKind::CrashInTurn => {
            world.nodes[node].armed =
                Some(Armed::InTurn { effects: hazard.amount as usize, down_us: hazard.for_ms * 1_000 });
            false
        }
        FaultKind::CrashAtVote => {
            world.nodes[node].armed = Some(Armed::AtVote { after_us: hazard.amount, down_us: hazard.for_ms * 1_000 });
            false
        }
        FaultKind::Hold => world.hold(node, hazard.for_ms * 1_000),
        FaultKind::LeaseEnd => {
            // Counted when it finds its moment.
            world.begin_lease_end();
            false
        }
        FaultKind::Pause => pause(world, node, hazard.for_ms * 1_000),
        FaultKind::DiskStall
        | FaultKind::SyncError
        | FaultKind::ReadOnly
        | FaultKind::DiskFull
        | FaultKind::EngineError => {
            disk_fails(world, &hazard, node);
            true
        }
        FaultKind::BitRot | FaultKind::TailRot | FaultKind::MisdirectedWrite | FaultKind::LostWrite => {
            disk_lies(world, &hazard, node)
        }
        FaultKind::Drain => {
            drain(world, node, true);
            true
        }
        FaultKind::FewerCores => {
            world.nodes[node].cores = vec![0; hazard.amount.max(1) as usize];
            world.kill(node, Some(RESTART_US), true);
            hazard.amount < world.nodes[node].lanes.len() as u64
        }
        FaultKind::DiskLost => {
            world.kill(node, Some(hazard.for_ms * 1_000), false);
            world.wipe(node);
            true
        }
        FaultKind::LogLost | FaultKind::LogSwapped => world.spoil_log(&hazard, node),
        FaultKind::Install => levels::install(world, &hazard, node),
        FaultKind::Finalize => levels::finalize(world, node),
        FaultKind::Unheard => {
            // Counted when it cuts.
            access::begin_unheard(world, number, node);
            false
        }
        FaultKind::MajorityLost => lose_majority(world, &hazard, targets),
        FaultKind::Recover => ask_for_recovery(world),
        FaultKind::PairRot | FaultKind::KeyRot => pairs_rot(world, &hazard, node),
        FaultKind::Diverge => world.diverge(&hazard, node),
        // A phase of its own, after the load (`run/outage.rs`).
        FaultKind::WorldDown => false,
        FaultKind::OldImage => old_image(world, &hazard, node),
        FaultKind::Drift => {
            let now = world.now;
            let ppm = hazard.amount as i64 * if hazard.amount.is_multiple_of(2) { 1 } else { -1 };
            world.nodes[node].clock.set_drift(now, ppm);
            world.clock_changed(node);
            true
        }
        FaultKind::ClockJump => {
            let now = world.now;
            world.nodes[node].clock.jump(now, hazard.amount * 1_000);
            world.clock_changed(node);
            true
        }
        FaultKind::WallJump => {
            let jump = hazard.amount as i64 * if hazard.amount.is_multiple_of(2) { 1 } else { -1 };
            world.nodes[node].wall_off_ms += jump;
            world.tell_wall_clock(node);
            true
        }
        FaultKind::Transfer
        | FaultKind::AddMember
        | FaultKind::RemoveMember
        | FaultKind::MoveMember
        | FaultKind::Decommission
        | FaultKind::WorldMember
        | FaultKind::SetEngine
        | FaultKind::Reshard => operate(world, &hazard, targets),
    };
    if fired {
        world.probe(hazard.kind.name());
    }
    if hazard.for_ms > 0 {
        world.schedule(world.now + hazard.for_ms * 1_000, Due::HazardEnd(number));
    }
}

/// The hazard with this number ends.
pub fn end(world: &mut World, number: usize) {
    let hazard = world.plan.hazards[number].clone();
    let node = (hazard.node as usize).saturating_sub(1);
    match hazard.kind {
        FaultKind::Loss
        | FaultKind::Duplicate
        | FaultKind::Reorder
        | FaultKind::Delay
        | FaultKind::SlowLinks
        | FaultKind::Deaf => world.network.clear_noise(number),
        FaultKind::SlowDisk => world.nodes[node].slow_disk_us = 0,
        FaultKind::CutOneWay | FaultKind::Cut | FaultKind::Isolate | FaultKind::BlackHole | FaultKind::Partition => {
            for (from, to) in cut_links(world.nodes.len(), &hazard) {
                world.network.mend(from, to);
            }
        }
        FaultKind::SeeSaw => world.end_see_saw(),
        FaultKind::Unheard => access::end_unheard(world, number),
        FaultKind::LeaseEnd => world.end_lease_end(),
        FaultKind::FewerCores => {
            world.nodes[node].cores = vec![0; world.nodes[node].lanes.len()];
            world.kill(node, Some(RESTART_US), true);
        }
        FaultKind::ReadOnly => read_only(world, node, false),
        FaultKind::DiskFull => full(world, node, false),
        FaultKind::Drain => drain(world, node, false),
        FaultKind::Drift => {
            let now = world.now;
            world.nodes[node].clock.set_drift(now, 0);
            world.clock_changed(node);
        }
        FaultKind::Decommission => {
            let back = Action::RecommissionNode { node: NodeId(hazard.node) };
            let _asked_or_not = ask(world, back);
        }
        _ => {}
    }
}

/// Everything works again and every node runs.
pub fn heal(world: &mut World) {
    world.end_see_saw();
    world.end_lease_end();
    world.network.heal();
    access::heal_unheard(world);
    levels::install_newest(world);
    for node in 0..world.nodes.len() {
        let now = world.now;
        world.nodes[node].armed = None;
        world.nodes[node].held_down = 0;
        drain(world, node, false);
        if std::mem::take(&mut world.nodes[node].stalled_until) > now {
            end_stall(world, node);
        }
        world.nodes[node].slow_disk_us = 0;
        world.nodes[node].cores = vec![0; world.nodes[node].lanes.len()];
        world.nodes[node].clock.release(now);
        world.nodes[node].clock.set_drift(now, 0);
        world.nodes[node].wall_off_ms = 0;
        world.clock_changed(node);
        if world.nodes[node].paused_until > now {
            world.nodes[node].paused_until = now;
            for lane in 0..world.nodes[node].lanes.len() {
                world.nodes[node].lanes[lane].turn_due = false;
                world.post(node, lane, Event::Timer);
            }
        }
        for lane in &mut world.nodes[node].lanes {
            lane.disk.next_fault = None;
        }
        read_only(world, node, false);
        full(world, node, false);
        if !world.nodes[node].running {
            let life = world.nodes[node].life;
            world.schedule(now + 1_000, Due::Start { node, life });
        }
    }
}

/// What a stalled disk has under way ends at once.
fn end_stall(world: &mut World, node: usize) {
    let life = world.nodes[node].life;
    for lane in 0..world.nodes[node].lanes.len() {
        if world.nodes[node].lanes[lane].disk.in_flight.is_some() {
            world.schedule(world.now + 1_000, Due::DiskDone { node, lane, life });
        }
    }
}

fn cut_links(nodes: usize, hazard: &Hazard) -> Vec<(usize, usize)> {
    let (node, peer) = ((hazard.node as usize).saturating_sub(1), (hazard.peer as usize).saturating_sub(1));
    let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let side = |index: usize| hazard.amount & (1 << index) != 0;
    match hazard.kind {
        FaultKind::CutOneWay => vec![(node, peer)],
        FaultKind::Cut => vec![(node, peer), (peer, node)],
        FaultKind::Partition => all.filter(|(from, to)| side(*from) != side(*to)).collect(),
        _ => all.filter(|(from, to)| *from == node || *to == node).collect(),
    }
}

fn cut(world: &mut World, hazard: &Hazard) {
    for (from, to) in cut_links(world.nodes.len(), hazard) {
        world.network.cut(from, to);
        if matches!(hazard.kind, FaultKind::Cut | FaultKind::Isolate) {
            world.disconnect(from, to);
        }
    }
}

fn reset(world: &mut World, node: usize) -> bool {
    for peer in 0..world.nodes.len() {
        if peer != node {
            world.disconnect(node, peer);
        }
    }
    true
}

/// Isolates node after node, and restores them in another order: as hazards of their own.
fn swizzle(world: &mut World, number: usize, hazard: &Hazard) -> bool {
    let nodes = world.nodes.len();
    let (cuts, mends) = (world.random.fault.shuffled(nodes), world.random.fault.shuffled(nodes));
    let step = (hazard.for_ms * 1_000 / (2 * nodes as u64 + 1)).max(1);
    // `position` is a moment too, not only a place in `cuts`.
    #[allow(clippy::needless_range_loop)]
    for position in 0..nodes {
        let cut_at = world.now + position as u64 * step;
        let mend_at = world.now + (nodes + position) as u64 * step;
        let black_hole =
            |node: usize| Hazard { kind: FaultKind::BlackHole, node: node as u64 + 1, for_ms: 0, ..hazard.clone() };
        // Cut in one order; each ends when its turn comes in the other.
        let node = cuts[position];
        let mended = mends.iter().position(|of| *of == node).unwrap_or(0);
        world.plan.hazards.push(Hazard {
            for_ms: (world.now + (nodes + mended) as u64 * step).saturating_sub(cut_at) / 1_000,
            ..black_hole(node)
        });
        world.schedule(cut_at, Due::Hazard(world.plan.hazards.len() - 1));
        assert!(mend_at > world.now && number < world.plan.hazards.len());
    }
    true
}

fn crash(world: &mut World, hazard: &Hazard, node: usize) -> bool {
    let down = Some(hazard.for_ms * 1_000);
    match hazard.kind {
        FaultKind::CrashAll => {
            (0..world.nodes.len()).for_each(|node| world.kill(node, down, true));
            true
        }
        kind => {
            let was_running = world.nodes[node].running;
            // Nobody hears of a node that lost its power.
            world.kill(node, down.filter(|_| was_running), kind == FaultKind::Crash);
            was_running
        }
    }
}

fn pause(world: &mut World, node: usize, micros: u64) -> bool {
    if !world.nodes[node].running {
        return false;
    }
    let until = world.now + micros;
    world.nodes[node].paused_until = world.nodes[node].paused_until.max(until);
    world.nodes[node].disturbed_at = until;
    world.schedule(until, Due::Resume { node });
    true
}

fn disk_fails(world: &mut World, hazard: &Hazard, node: usize) {
    match hazard.kind {
        FaultKind::DiskStall => {
            let (now, host) = (world.now, &mut world.nodes[node]);
            if host.stalled_until <= now {
                host.stalled_since = now;
            }
            host.stalled_until = now + hazard.for_ms * 1_000;
        }
        FaultKind::SyncError => {
            let lane = world.random.fault.below(world.nodes[node].lanes.len() as u64) as usize;
            world.nodes[node].lanes[lane].disk.next_fault = Some(WriteFault::Fails);
        }
        FaultKind::ReadOnly => read_only(world, node, true),
        FaultKind::DiskFull => full(world, node, true),
        _ => {
            let error = match world.random.fault.per_mille(500) {
                true => EngineError::Io("input/output error (injected)".to_string()),
                false => EngineError::Full("disk full (injected)".to_string()),
            };
            let lane = world.random.fault.below(world.nodes[node].lanes.len() as u64) as usize;
            world.nodes[node].lanes[lane].engine.fail_next_write(error);
        }
    }
}

fn read_only(world: &mut World, node: usize, on: bool) {
    for lane in &mut world.nodes[node].lanes {
        lane.disk.read_only = on;
    }
}

/// Every lane learns it; a node that is down comes back undrained.
pub fn drain(world: &mut World, node: usize, drained: bool) {
    if world.nodes[node].running {
        for lane in 0..world.nodes[node].lanes.len() {
            world.post(node, lane, Event::Drained { drained });
        }
    }
}

fn full(world: &mut World, node: usize, on: bool) {
    let was = world.nodes[node].lanes.iter().any(|lane| lane.disk.full);
    for lane in &mut world.nodes[node].lanes {
        lane.disk.full = on;
    }
    if was != on && world.nodes[node].running {
        for lane in 0..world.nodes[node].lanes.len() {
            world.post(node, lane, Event::DiskFull { full: on });
        }
        world.kick_disks(node);
    }
}

fn disk_lies(world: &mut World, hazard: &Hazard, node: usize) -> bool {
    world.nodes[node].disk_lied = true;
    world.nodes[node].disk_suspect = true;
    let lane = world.random.fault.below(world.nodes[node].lanes.len() as u64) as usize;
    if matches!(hazard.kind, FaultKind::BitRot | FaultKind::TailRot) {
        // Rot is found by who reads: at the next start.
        world.kill(node, Some(hazard.for_ms * 1_000), true);
        let (rotten, disk) = (&mut world.random.fault, &mut world.nodes[node].lanes[lane].disk);
        return match hazard.kind {
            FaultKind::TailRot => disk.rot_tail(hazard.amount.max(1), rotten),
            _ => disk.rot(hazard.amount.max(1), rotten),
        };
    }
    let fault = if hazard.kind == FaultKind::LostWrite { WriteFault::Lost } else { WriteFault::Misdirected };
    world.nodes[node].lanes[lane].disk.next_fault = Some(fault);
    let (life, at) = (world.nodes[node].life, world.now + LYING_DISK_CRASH_US + world.random.fault.below(1_000_000));
    world.schedule(at, Due::Die { node, life, down_us: hazard.for_ms * 1_000 });
    true
}

/// Pairs of clusters that have copies of them elsewhere: of a cluster of one nobody could mend any.
fn pairs_rot(world: &mut World, hazard: &Hazard, node: usize) -> bool {
    world.nodes[node].disk_suspect = true;
    let mut rotten = 0;
    for _ in 0..hazard.amount.max(1) {
        let random = &mut world.random.fault;
        let lane = random.below(world.nodes[node].lanes.len() as u64) as usize;
        let (cluster, place) = (random.below(u64::from(u32::MAX)), random.below(u64::from(u32::MAX)));
        let host = &world.nodes[node].lanes[lane];
        let Some(machine) = host.machine.as_ref() else { continue };
        let mut views = machine.views();
        views.retain(|view| {
            let config = view.name.as_str().starts_with("metadata@config-");
            view.members.len() >= 3 && !config && !view.blank && !view.damaged
        });
        let Some(view) = views.get(cluster as usize % views.len().max(1)) else { continue };
        // Of `peer` classes of keys each node has its own: what rots on several is disjoint.
        let eligible = |key: &[u8]| match hazard.peer {
            0 => true,
            classes => xxhash_rust::xxh3::xxh3_64(key) % classes == hazard.node % classes,
        };
        // No draw of its own, so that pairs rot as they did before keys could.
        let hit = match hazard.kind {
            // Every other time one of a client's keys: what a cluster keeps for itself are most of a space's, and nobody reads them.
            FaultKind::KeyRot if place % 2 == 1 => {
                let of_clients = |key: &[u8]| key.first().is_some_and(|first| *first != 0);
                host.engine.flip_key_one_of(view.space, place as usize, cluster as usize, &of_clients)
            }
            FaultKind::KeyRot => host.engine.flip_key_any(view.space, place as usize, cluster as usize),
            _ => host.engine.damage_one_of(view.space, place as usize, &eligible),
        };
        rotten += u64::from(hit.is_some());
    }
    rotten > 0
}

fn old_image(world: &mut World, hazard: &Hazard, node: usize) -> bool {
    world.nodes[node].disk_lied = true;
    world.nodes[node].disk_suspect = true;
    let wanted = world.now.saturating_sub(hazard.amount * 1_000);
    world.kill(node, Some(hazard.for_ms * 1_000), false);
    let host = &mut world.nodes[node];
    let Some(found) = host.images.iter().rposition(|image| image.taken_at <= wanted && image.disk == host.disk_id)
    else {
        return false;
    };
    let Some(image) = host.images.remove(found) else { return false };
    host.level = image.level;
    for (lane, (disk, engine)) in host.lanes.iter_mut().zip(image.lanes) {
        lane.disk = disk;
        lane.engine = std::sync::Arc::new(engine_memory::MemoryEngine::from_image(engine));
    }
    world.part_bucket(node);
    true
}

fn operate(world: &mut World, hazard: &Hazard, targets: &Targets) -> bool {
    let node = NodeId(hazard.node);
    let clusters: Vec<_> = targets.clusters.iter().chain(&targets.histories).chain(&targets.databases).collect();
    let name = match clusters.is_empty() {
        true => None,
        false => Some((*world.random.fault.pick(&clusters)).clone()),
    };
    let keyspace = match targets.keyspaces.is_empty() {
        true => None,
        false => Some(world.random.fault.pick(&targets.keyspaces).clone()),
    };
    let action = match (hazard.kind, name, keyspace) {
        (FaultKind::Transfer, Some(name), _) => Action::TransferLeader { name, node },
        (FaultKind::AddMember, Some(name), _) => Action::AddMember { name, node },
        (FaultKind::RemoveMember, Some(name), _) => Action::RemoveMember { name, node },
        (FaultKind::MoveMember, Some(name), _) => {
            let to = (hazard.amount == 0).then_some(NodeId(hazard.peer));
            Action::MoveMember { name, from: node, to }
        }
        (FaultKind::SetEngine, Some(name), _) => {
            Action::SetEngine { target: KvTarget::Cluster(name), engine: "memory".into() }
        }
        (FaultKind::Decommission, ..) => Action::DecommissionNode { node },
        (FaultKind::WorldMember, ..) => match world_change(world, hazard) {
            Some(change) => change,
            None => return false,
        },
        (FaultKind::Reshard, _, Some(keyspace)) => {
            Action::Reshard { keyspace, clusters: hazard.amount.clamp(1, 8) as u16 }
        }
        _ => return false,
    };
    ask(world, action)
}

/// The world's member number `node`, as its leader has them, gives way to `peer`, if that is none.
fn world_change(world: &World, hazard: &Hazard) -> Option<Action> {
    let led = world.leader_view(WORLD_CLUSTER)?;
    let members: Vec<NodeId> = led.members.iter().map(|member| member.node).collect();
    let from = *members.get(hazard.node as usize % members.len().max(1))?;
    let to = Some(NodeId(hazard.peer)).filter(|to| !members.contains(to))?;
    Some(Action::MoveMember { name: led.name, from, to: Some(to) })
}

/// An operator asks any node. Where no node routes, it asks all of them, and the leader obeys.
fn ask(world: &mut World, action: Action) -> bool {
    let wish = match &action {
        Action::AddMember { name, node } => Some((name.clone(), *node, true)),
        Action::RemoveMember { name, node } => Some((name.clone(), *node, false)),
        _ => None,
    };
    let request = Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: OPERATOR_DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    };
    if world.plan.layer == Layer::Lane {
        return (0..world.nodes.len()).filter(|node| world.ask(*node, request.clone()).is_some()).count() > 0;
    }
    let asked = world.random.fault.below(world.nodes.len() as u64) as usize;
    let ticket = world.ask(asked, request);
    if let (Some(ticket), Some((name, node, add))) = (ticket, wish) {
        let (lives, running) = (lives(world), running(world));
        // Who is no voter anywhere is not taken away: the wish is fulfilled as it comes.
        let mut views = world.views().into_iter().filter(|view| view.name == name);
        let is_voter = views.any(|view| view.members.iter().any(|member| !member.learner && member.node == node));
        world.wishes.insert(ticket, Wish { name, node, add, is_voter, at: world.now, lives, running });
    }
    ticket.is_some()
}

/// A member an operator has asked for, or not to be one any more.
#[derive(Debug)]
pub struct Wish {
    name: ClusterName,
    node: NodeId,
    add: bool,
    /// Whether any member knew the node as a voter when it was asked.
    is_voter: bool,
    at: u64,
    lives: u64,
    /// Who was up when it was asked.
    running: Vec<NodeId>,
}

fn running(world: &World) -> Vec<NodeId> {
    world.nodes.iter().filter(|node| node.running).map(|node| node.id).collect()
}

/// A removal was granted: a majority of those that stay was up, at its beginning or its end.
fn check_quorum(world: &mut World, wish: &Wish) {
    if !wish.is_voter {
        return;
    }
    let now = running(world);
    let Some(led) =
        world.views().into_iter().filter(|view| view.name == wish.name && view.is_leader).max_by_key(|view| view.term)
    else {
        return;
    };
    let stay: Vec<NodeId> = led
        .members
        .iter()
        .filter(|member| !member.learner && member.node != wish.node)
        .map(|member| member.node)
        .collect();
    let up = stay.iter().filter(|node| now.contains(node) || wish.running.contains(node)).count();
    if up <= stay.len() / 2 {
        let (node, name) = (wish.node, &wish.name);
        let message = format!("node {node} was removed from {name}, although of {stay:?} only {up} were up");
        world.violate(Violation::new("quorum", message, vec![]));
    }
}

fn lives(world: &World) -> u64 {
    world.nodes.iter().map(|node| node.life).sum()
}

/// An operator got the answer that the members are as required: then some replica must have applied the change. Not
/// checked where somebody died meanwhile, or where another operator required the opposite.
pub fn on_wish_answered(world: &mut World, wish: &Wish, answered: &Answered) {
    let opposite = if wish.add { FaultKind::RemoveMember } else { FaultKind::AddMember };
    let disturbed = lives(world) != wish.lives
        || world.nodes.iter().any(|node| node.disturbed_at >= wish.at || node.disk_suspect)
        || world.plan.hazards.iter().any(|hazard| {
            let moves = [FaultKind::MoveMember, FaultKind::Decommission, FaultKind::SetEngine];
            hazard.kind == opposite || moves.contains(&hazard.kind)
        })
        || world.plan.tuning.replace_after_ms > 0;
    if !matches!(answered, Answered::Response(response) if response.is_ok()) {
        return;
    }
    if !wish.add {
        check_quorum(world, wish);
    }
    if disturbed {
        return world.excuses.used(Excuse::MembersUnchecked, (wish.at, wish.node.0));
    }
    let machines = world.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
    let views: Vec<_> =
        machines.flat_map(|machine| machine.views()).filter(|view| view.name == wish.name && !view.blank).collect();
    let votes = |view: &ReplicaView| view.members.iter().any(|member| member.node == wish.node && !member.learner);
    let there = |view: &ReplicaView| view.members.iter().any(|member| member.node == wish.node);
    let applied = match wish.add {
        true => views.iter().any(votes),
        false => views.is_empty() || !views.iter().all(there),
    };
    if !applied {
        let (node, word) = (wish.node, if wish.add { "added to" } else { "removed from" });
        let message = format!("node {node} was said to be {word} {}, and no replica has applied it", wish.name);
        world.violate(Violation::new("members", message, vec![]));
    }
}
