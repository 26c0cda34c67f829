//! How the clusters known by configuration (world, region) come into being: once, from members that
//! are all blank, and never again from a blank state.
//!
//!   member ──probe──▶ member ──▶ Blank{disk} | Pending | Formed(document)
//!
//! The member with the lowest id coordinates: when every configured member has answered one round of
//! its probes with "blank", it makes the document (each member with its disk) and its own replica; once
//! that is durable it answers probes with the document, and the others make theirs.
//!
//! Always: there is one document. A member that reports to the coordinator that it is blank drops every answer it
//! was still waiting for (its nonce is new), so a document of an earlier attempt cannot reach it any
//! more; a document counts only for a member on the very disk it names. A member on another disk has
//! lost what it promised: it waits to be healed (`replica_repair.rs`) and never votes as it was.
//! Who remembers an announcement of the cluster (level_zero.rs), or hears one, forms nothing.
//! Held by: `a_world_waits_for_all_its_members_and_forms_once`.
//! Not here: members that are added or come back later.

use crate::context::level_zero::LevelZero;
use crate::context::{CoreContext, Turn};
use crate::durable::Deferred;
use crate::frame::{FormationDocument, FormationState, Item};
use crate::membership::level_zero::LevelZeroMembers;
use crate::membership::replica_repair::ReplicaRepair;
use crate::timers::TimerKey;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, DiskId, Generation, NodeId, ReadConsistency, ReplicaId, Tick, WriteConsistency};
use core::time::Duration;
use core_cluster::api::{Member, ReplicaSpec};
use std::collections::BTreeMap;

/// How often a blank member asks the others.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// One level 0 cluster of this lane, while this node has no replica of it or others may lack one.
#[derive(Debug, Default)]
struct Formation {
    nonce: u64,
    answers: BTreeMap<NodeId, DiskId>,
    /// This node's replica is there and was made from this.
    document: Option<FormationDocument>,
    durable: bool,
    /// Who asked while there was nothing to tell: answered again once there is.
    asked: BTreeMap<NodeId, u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Formations {
    of: BTreeMap<ClusterId, Formation>,
    timer: Tick,
}

impl Formations {
    /// Stops waiting for a cluster of which this node is no member. Whether it waited.
    pub fn give_up(&mut self, cluster: ClusterId) -> bool {
        let waits = self.of.get(&cluster).is_some_and(|formation| formation.document.is_none());
        if waits {
            self.of.remove(&cluster);
        }
        waits
    }

    /// The level 0 clusters this lane still waits for.
    pub fn waiting(&self) -> impl Iterator<Item = ClusterId> + '_ {
        self.of.iter().filter(|(_, formation)| formation.document.is_none()).map(|(cluster, _)| *cluster)
    }

    /// At start: which level 0 clusters should be here, and are they.
    pub fn start(&mut self, turn: &mut Turn<'_>, members: &LevelZeroMembers) {
        let here: Vec<LevelZero> = turn
            .core
            .level_zero()
            .iter()
            .filter(|zero| belongs_to(turn.core, members, zero) && turn.core.is_mine(zero.cluster))
            .cloned()
            .collect();
        let two = |zero: &LevelZero| crate::membership::status::two_members(zero, members.of(zero.cluster));
        for warning in turn.core.level_zero().iter().filter_map(two).collect::<Vec<_>>() {
            turn.note(crate::api::NoteLevel::Warning, warning);
        }
        for zero in here {
            let document = turn.lane.view(zero.cluster).map(|view| document_of(&zero, &view.members));
            let mut formation = Formation { nonce: turn.core.random().next(), ..Formation::default() };
            if let Some(known) = document {
                // No document any more (members have changed): blank members are the leader's to heal.
                (formation.document, formation.durable) = (known.or(Some(empty(zero.cluster))), true);
            }
            self.of.insert(zero.cluster, formation);
        }
        self.on_timer(turn, members);
    }

    /// Time to ask the others.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, members: &LevelZeroMembers) {
        let waiting: Vec<ClusterId> = self.waiting().collect();
        for cluster in &waiting {
            if turn.lane.view(*cluster).is_some() {
                // The leader has healed it meanwhile.
                if let Some(formation) = self.of.get_mut(cluster) {
                    (formation.document, formation.durable) = (Some(empty(*cluster)), true);
                }
                continue;
            }
            self.probe(turn, members, *cluster, None);
        }
        let at = if waiting.is_empty() { Tick::NEVER } else { turn.now + turn.core.random().jitter(PROBE_EVERY) };
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::Formation, old, at);
    }

    /// A member can be reached: ask at once.
    pub fn on_peer(&mut self, turn: &mut Turn<'_>, members: &LevelZeroMembers, node: NodeId) {
        let waiting: Vec<ClusterId> = self.waiting().collect();
        let concerned = |zero: &LevelZero| waiting.contains(&zero.cluster) && zero.members.contains(&node);
        if turn.core.level_zero().iter().any(concerned) {
            self.on_timer(turn, members);
        }
    }

    /// Starts a round of questions to everyone (or continues with a new nonce towards one).
    fn probe(&mut self, turn: &mut Turn<'_>, members: &LevelZeroMembers, cluster: ClusterId, only: Option<NodeId>) {
        let nonce = turn.core.random().next();
        let Some(zero) = turn.core.level_zero_of(cluster).cloned() else { return };
        let Some(formation) = self.of.get_mut(&cluster) else { return };
        formation.nonce = nonce;
        formation.answers.clear();
        let others =
            zero.members.iter().filter(|node| **node != turn.core.node() && only.is_none_or(|only| only == **node));
        let others: Vec<NodeId> = others.copied().collect();
        for node in others {
            turn.core.send_to_cluster(node, cluster, &Item::FormationProbe { cluster, nonce });
        }
        self.form_if_complete(turn, members, &zero);
    }

    /// A member asks what this node holds.
    pub fn on_probe(
        &mut self,
        turn: &mut Turn<'_>,
        (members, repair): (&LevelZeroMembers, &ReplicaRepair),
        (from, cluster, nonce): (NodeId, ClusterId, u64),
    ) {
        // A node that knows that the cluster is there says who has it: nobody forms another by an old list.
        let told = members.answer(turn.core, from, cluster);
        let Some(zero) = turn.core.level_zero_of(cluster).cloned() else { return };
        if !zero.members.contains(&from) {
            if told {
                return;
            }
            return turn.refuse_frame(from, "it asks about a level 0 cluster of which it is no configured member");
        }
        let changed = repair.members_of(cluster).is_some_and(|seen| document_of(&zero, &seen).is_none());
        let Some(formation) = self.of.get_mut(&cluster).filter(|_| !changed) else { return };
        let state = match &formation.document {
            Some(document) if formation.durable && document.members.is_empty() => return,
            Some(document) if formation.durable => FormationState::Formed(document.clone()),
            Some(_) => FormationState::Pending,
            None if told => return,
            None => FormationState::Blank { disk: turn.core.config().disk },
        };
        if !matches!(state, FormationState::Formed(_)) {
            formation.asked.insert(from, nonce);
        }
        let promised = matches!(state, FormationState::Blank { .. }) && zero.members.first() == Some(&from);
        turn.core.send_to_cluster(from, cluster, &Item::FormationAnswer { cluster, nonce, state });
        if promised {
            self.probe(turn, members, cluster, Some(from));
        }
    }

    /// A member answered.
    pub fn on_answer(
        &mut self,
        turn: &mut Turn<'_>,
        members: &LevelZeroMembers,
        (from, cluster, nonce): (NodeId, ClusterId, u64),
        state: FormationState,
    ) {
        let Some(zero) = turn.core.level_zero_of(cluster).cloned() else { return };
        let Some(formation) = self.of.get_mut(&cluster) else { return };
        if formation.nonce != nonce || formation.document.is_some() || !zero.members.contains(&from) {
            return;
        }
        match state {
            FormationState::Blank { disk } => {
                formation.answers.insert(from, disk);
                self.form_if_complete(turn, members, &zero);
            }
            FormationState::Pending => {}
            FormationState::Formed(document) => self.join_formed(turn, &zero, document),
        }
    }

    fn form_if_complete(&mut self, turn: &mut Turn<'_>, known: &LevelZeroMembers, zero: &LevelZero) {
        if zero.members.first() != Some(&turn.core.node()) || known.of(zero.cluster).is_some() {
            return;
        }
        let Some(formation) = self.of.get(&zero.cluster) else { return };
        let disk = |node: &NodeId| {
            if *node == turn.core.node() {
                Some(turn.core.config().disk)
            } else {
                formation.answers.get(node).copied()
            }
        };
        let member =
            |node: &NodeId| Some(Member { replica: ReplicaId(node.0), node: *node, disk: disk(node)?, learner: false });
        let Some(members) = zero.members.iter().map(member).collect::<Option<Vec<Member>>>() else { return };
        self.make_formed(turn, zero, FormationDocument { cluster: zero.cluster, members });
    }

    fn join_formed(&mut self, turn: &mut Turn<'_>, zero: &LevelZero, document: FormationDocument) {
        let own = document.members.iter().find(|member| member.node == turn.core.node());
        let same_disk = own.is_some_and(|member| member.disk == turn.core.config().disk);
        if document.cluster == zero.cluster && own.is_some() && (same_disk || planted(Mutant::BlankVotes)) {
            self.make_formed(turn, zero, document);
        }
    }

    fn make_formed(&mut self, turn: &mut Turn<'_>, zero: &LevelZero, document: FormationDocument) {
        let spec = ReplicaSpec {
            cluster: zero.cluster,
            generation: Generation(1),
            name: (*zero.name).clone(),
            rule: format!("size={} location=world failure_domain=chassis", document.members.len()).into(),
            engine: turn.core.config().default_engine.as_str().into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            replica: ReplicaId(turn.core.node().0),
            initial_members: document.members.as_slice().into(),
        };
        turn.core.wake_lane();
        match turn.lane.create_replica(turn.now, spec) {
            Ok(_) => {
                turn.note(
                    crate::api::NoteLevel::Info,
                    format!("cluster {} formed with {} members", zero.name, document.members.len()),
                );
                if let Some(formation) = self.of.get_mut(&zero.cluster) {
                    formation.document = Some(document);
                }
                turn.core.stage(zero.cluster, turn.lane.staged_batch());
                let early = turn.core.hold(zero.cluster, Deferred::Formed(zero.cluster));
                assert!(early.is_none(), "what was staged just now cannot be durable");
            }
            Err(refusal) => turn
                .note(crate::api::NoteLevel::Error, format!("cluster {} cannot be formed here: {refusal}", zero.name)),
        }
    }

    /// This node's replica of a level 0 cluster is on disk: who asked learns it.
    pub fn on_durable(&mut self, core: &mut CoreContext, cluster: ClusterId) {
        let Some(formation) = self.of.get_mut(&cluster) else { return };
        formation.durable = true;
        let asked = core::mem::take(&mut formation.asked);
        let Some(document) = formation.document.clone() else { return };
        for (node, nonce) in asked {
            let state = FormationState::Formed(document.clone());
            core.send_to_cluster(node, cluster, &Item::FormationAnswer { cluster, nonce, state });
        }
    }
}

/// Whether this node is a member of a level 0 cluster: as was announced, else as is configured.
fn belongs_to(core: &CoreContext, members: &LevelZeroMembers, zero: &LevelZero) -> bool {
    match members.of(zero.cluster) {
        Some(known) => known.lists(core.node()),
        None => zero.members.contains(&core.node()),
    }
}

/// The document, if the members are still the first ones.
fn document_of(zero: &LevelZero, members: &[Member]) -> Option<FormationDocument> {
    is_original(zero, members).then(|| FormationDocument { cluster: zero.cluster, members: members.to_vec() })
}

/// Whether the members are those that the cluster was formed with.
pub fn is_original(zero: &LevelZero, members: &[Member]) -> bool {
    let first =
        |member: &Member| member.replica.0 == member.node.0 && !member.learner && zero.members.contains(&member.node);
    members.len() == zero.members.len() && members.iter().all(first)
}

/// Formed, with nothing to tell.
fn empty(cluster: ClusterId) -> FormationDocument {
    FormationDocument { cluster, members: Vec::new() }
}
