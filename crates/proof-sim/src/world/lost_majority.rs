//! A majority of a cluster that is gone for good, its recovery by an operator, and its members that come back after all.
//!
//! ```text
//!   MajorityLost ─▶ a majority of one cluster's voters dies, none of the world's ─▶ an operator recovers it, asking until it is done
//!        ─▶ `for_ms` later the dead come back, with all that they had
//! ```
//!
//! Always: what was acknowledged in the life that ended may be lost only where the survivor's log did not hold it, entry by
//! entry (`Begun`); what a member of that life answers after the next one began counts for nothing, for a while
//! (`FENCED_US`), and after that must not be answered at all; when all is healed none of them continues.
//! Not here: what core-cluster makes of it (lane/recovery.rs), which seeds lean to it (`emphasis`).

use super::{Due, World};
use crate::excuses::Excuse;
use crate::load::Targets;
use crate::plan::{FaultKind, Hazard};
use crate::trace::line::{About, Kind, Line};
use base_types::action::{Action, Request};
use base_types::{ClusterName, Generation};
use core_cluster::api::{Begun, ReplicaView};
use proof_check::{Ending, History, Violation};
use std::time::Duration;

/// When an operator asks for the first time, and how often.
const ASKED_AFTER_US: u64 = 2_000_000;
const ASKED_EVERY_US: u64 = 4_000_000;
/// How long a recovery is waited for.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(15);
/// A member of an ended life has heard of its end so long after it can: each lane asks every ten seconds.
const FENCED_US: u64 = 20_000_000;

/// What became of a cluster.
#[derive(Default)]
pub struct LostMajority {
    /// The cluster that is being recovered.
    name: Option<ClusterName>,
    /// The lives that began, and when.
    begun: Vec<(u64, Begun)>,
    /// When the last of the dead came back.
    back_at: u64,
}

/// A majority of some cluster's voters dies. False where none can without the world's majority.
pub fn lose_majority(world: &mut World, hazard: &Hazard, targets: &Targets) -> bool {
    let found = targets.clusters.iter().find_map(|name| Some((name.clone(), losable(world, name)?)));
    let Some((name, lost)) = found.filter(|_| world.lost_majority.name.is_none()) else { return false };
    world.trace.say(world.now, || {
        let nodes: Vec<String> = lost.iter().map(|node| format!("n{}", node + 1)).collect();
        let text = format!("{name} loses its members {} for good", nodes.join(" "));
        Line::new(Kind::Fault, text).about(Some(About::named(name.as_str())))
    });
    lost.iter().for_each(|node| world.kill(*node, Some(hazard.for_ms * 1_000), false));
    world.lost_majority.back_at = world.now + hazard.for_ms * 1_000;
    world.lost_majority.name = Some(name);
    let mut at = world.now + ASKED_AFTER_US;
    while at < world.lost_majority.back_at {
        world.plan.hazards.push(Hazard { kind: FaultKind::Recover, for_ms: 0, ..hazard.clone() });
        world.schedule(at, Due::Hazard(world.plan.hazards.len() - 1));
        at += ASKED_EVERY_US;
    }
    true
}

/// Members that are a majority, all up, at most one of them of the world's.
fn losable(world: &mut World, name: &ClusterName) -> Option<Vec<usize>> {
    let machines = world.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
    let view: ReplicaView =
        machines.flat_map(|machine| machine.views()).find(|view| view.name == *name && view.is_leader)?;
    let voters = view.members.iter().filter(|member| !member.learner);
    let voters: Vec<usize> = voters.filter_map(|member| world.index_of(member.node)).collect();
    if voters.iter().any(|node| !world.nodes[*node].running) {
        return None;
    }
    let order = world.random.fault.shuffled(voters.len());
    let of_world = |node: usize| (node as u64) < world.plan.shape.world_members;
    let world_may_lose = (world.plan.shape.world_members as usize).saturating_sub(1) / 2;
    let (mut lost, mut worlds) = (Vec::new(), 0);
    for node in order.into_iter().map(|place| voters[place]) {
        if lost.len() * 2 <= voters.len() && (!of_world(node) || worlds < world_may_lose) {
            worlds += usize::from(of_world(node));
            lost.push(node);
        }
    }
    (lost.len() * 2 > voters.len()).then_some(lost)
}

/// An operator asks some node for the recovery, unless it was done.
pub fn ask_for_recovery(world: &mut World) -> bool {
    let Some(name) = world.lost_majority.name.clone() else { return false };
    if !world.lost_majority.begun.is_empty() {
        return false;
    }
    let confirm = Some(name.as_str().to_string());
    let request = Request {
        action: Action::RecoverCluster { name, confirm, survivor: None },
        consistency: None,
        read_consistency: None,
        deadline: RECOVERY_DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    };
    let asked = world.random.fault.below(world.nodes.len() as u64) as usize;
    world.ask(asked, request).is_some()
}

/// A survivor began a life on its own.
pub(super) fn note_begun(world: &mut World, begun: Vec<Begun>) {
    for one in begun {
        world.probe("recovered");
        world.trace.say(world.now, || Line::new(Kind::Fault, format!("a new life begins: {one:?}")));
        world.lost_majority.begun.push((world.now, one));
    }
}

/// A replica of a life that ended and has not heard of it, although everything has been well for long.
pub fn unfenced(world: &World) -> Option<String> {
    let machines = world.nodes.iter().flat_map(|node| node.lanes.iter().map(move |lane| (node.id, lane)));
    let views = machines.filter_map(|(id, lane)| Some((id, lane.machine.as_ref()?.views())));
    let mut views = views.flat_map(|(id, views)| views.into_iter().map(move |view| (id, view)));
    let over = |view: &ReplicaView| {
        let ended = |one: &Begun| one.cluster == view.cluster && view.generation <= one.ended;
        view.ended == Generation(0) && world.lost_majority.begun.iter().any(|(_, one)| ended(one))
    };
    let (node, view) = views.find(|(_, view)| over(view))?;
    Some(format!("{} on {node:?} continues in life {}, which has ended", view.name, view.generation))
}

/// What the survivors did not hold may be lost: nobody knows any more whether it happened. What was answered in a life that
/// had ended counts for nothing, and must not be answered for long.
pub fn forgive_lost(world: &mut World, history: &mut History) -> Option<Violation> {
    let mut late = None;
    for (began, begun) in std::mem::take(&mut world.lost_majority.begun) {
        let fenced = began.max(world.lost_majority.back_at) + FENCED_US;
        for record in &mut history.records {
            let of_life = |at: &base_types::OrderedAt| at.cluster == begun.cluster && at.generation <= begun.ended;
            let Some(at) = record.at.filter(of_life) else { continue };
            let after = record.invoked;
            let (kept, outlived) = (begun.keeps(at.term, at.index), after > began);
            if outlived && after > fenced {
                let message =
                    format!("life {} of {:?} answered long after it had ended: {record:?}", begun.ended, at.cluster);
                late.get_or_insert(Violation::new("lives", message, vec![record.id]));
            }
            if kept && !outlived {
                // The next life continues after it, in the same order.
                record.at = Some(base_types::OrderedAt { generation: Generation(begun.ended.0 + 1), ..at });
                continue;
            }
            let excuse = if outlived { Excuse::AnsweredBeforeContact } else { Excuse::LostWithItsMajority };
            world.excuses.used(excuse, (record.id, 0));
            (record.ending, record.observed, record.returned, record.at) = (Ending::Unknown, None, None, None);
        }
    }
    late
}
