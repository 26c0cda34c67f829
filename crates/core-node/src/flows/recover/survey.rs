//! What is left of a cluster: what its survivors hold, whether somebody lives, and what an operator must know before the word.
//!
//! Always: a refusal or a finding for all that can be known here; nothing is changed.
//! Held by: `a_survey_changes_nothing`, `members_that_live_are_not_overruled`.
//! Not here: asking the nodes, and what follows (recover.rs); which survivor is best (base-types).

use super::*;
use base_types::ErrorCode;

/// How the survivors stand: what a report says, and what a recovery is decided by.
pub(super) struct Survey {
    pub(super) record: ClusterRecord,
    pub(super) survivors: Vec<Survivor>,
    /// Nodes that answered, with or without a replica.
    pub(super) answered: BTreeSet<NodeId>,
    /// Nodes that the world hears of.
    pub(super) up: BTreeSet<NodeId>,
    /// The latest life that anybody has heard of.
    pub(super) heard: Generation,
}

impl Survey {
    /// The next life may have begun already, by a word that `reference` has lost with its own majority.
    pub(super) fn best(&self) -> Option<&Survivor> {
        let next = best_survivor(&self.survivors, Generation(self.record.generation.0.saturating_add(1)));
        next.or_else(|| best_survivor(&self.survivors, self.record.generation))
    }

    /// All that are or were members, as far as anybody knows, one a node.
    pub(super) fn members(&self) -> Vec<ClusterMember> {
        let own = self.survivors.iter().map(|one| ClusterMember {
            replica: one.replica,
            node: one.node,
            disk: one.disk,
            learner: false,
        });
        let told = self.survivors.iter().flat_map(|one| one.members.iter().map(listed));
        let mut all: Vec<ClusterMember> = Vec::new();
        for member in own.chain(self.record.members.iter().copied()).chain(told) {
            if !all.iter().any(|known| known.node == member.node) {
                all.push(member);
            }
        }
        all.sort_by_key(|member| member.node);
        all
    }

    /// Voters of the latest membership that a survivor knows.
    pub(super) fn voters(&self) -> Vec<FormerMember> {
        let known = self.best().filter(|best| !best.members.is_empty());
        let known = known.map(|best| best.members.clone()).unwrap_or_else(|| {
            let member = |member: &ClusterMember| FormerMember {
                replica: member.replica,
                node: member.node,
                disk: member.disk,
                learner: member.learner,
            };
            self.record.members.iter().map(member).collect()
        });
        known.into_iter().filter(|member| !member.learner).collect()
    }

    /// Members that may hold data and do not answer.
    pub(super) fn silent(&self) -> Vec<NodeId> {
        let silent = |member: &ClusterMember| !self.answered.contains(&member.node);
        self.members().into_iter().filter(silent).map(|member| member.node).collect()
    }

    /// Why nothing can or need be recovered.
    pub(super) fn obstacle(&self) -> Option<Refusal> {
        let name = &self.record.name;
        let voters = self.voters();
        if !planted(Mutant::LivingMembersOverruled) {
            if let Some(refusal) = self.sign_of_life() {
                return Some(refusal);
            }
        }
        let lives = |voter: &&FormerMember| {
            let whole = |one: &&Survivor| one.replica == voter.replica && one.can_begin();
            self.survivors.iter().filter(whole).any(|one| one.generation == self.record.generation)
        };
        let alive = voters.iter().filter(lives).count();
        if alive * 2 > voters.len() {
            let message = format!(
                "{alive} of the {} voters of cluster {name} answer with whole logs, which is a majority: it elects a leader by itself and loses nothing; look at `hive ctl cluster show {name}`",
                voters.len()
            );
            return Some(Refusal::new(ErrorCode::MajorityLives, message));
        }
        if self.best().is_none() {
            let held: Vec<NodeId> = self.record.members.iter().map(|member| member.node).collect();
            let over = self.survivors.iter().filter(|one| one.state == SurvivorState::Ended);
            let over: Vec<NodeId> = over.map(|one| one.node).collect();
            let start = match (over.is_empty(), held.is_empty()) {
                (false, _) => format!("{} ended when a later life began on another node: start that one", named(&over)),
                (true, true) => "start the nodes that held it".to_string(),
                (true, false) => format!("start the nodes that held it ({})", join(&held)),
            };
            let message = format!(
                "no node that answers holds a whole log of life {} of cluster {name}: {start}, or restore it from a backup",
                self.record.generation
            );
            return Some(Refusal::new(ErrorCode::NoSurvivor, message));
        }
        None
    }

    /// Somebody lives whom the survey does not reach: those who are cut off are not gone.
    pub(super) fn sign_of_life(&self) -> Option<Refusal> {
        let name = &self.record.name;
        let follows = |one: &&Survivor| one.generation == self.record.generation && one.follows.is_some();
        if let Some((one, leader)) = self.survivors.iter().find(follows).and_then(|one| Some((one, one.follows?))) {
            let message = format!(
                "cluster {name} has a leader, node {leader}, as node {} knows: it serves, and nothing is lost; look at `hive ctl cluster show {name}`, and retry if node {leader} dies",
                one.node
            );
            return Some(Refusal::new(ErrorCode::LeaderLives, message));
        }
        let up: Vec<NodeId> = self.silent().into_iter().filter(|node| self.up.contains(node)).collect();
        if up.is_empty() {
            return None;
        }
        let message = format!(
            "{} of cluster {name} did not answer, but the world hears of {}: they may serve it; wait, or ask through another node, or stop what is running there for good",
            named(&up),
            if up.len() == 1 { "it" } else { "them" }
        );
        Some(Refusal::new(ErrorCode::MemberUp, message))
    }

    /// What an operator must know before the word is given.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let Some(best) = self.best() else { return findings };
        let silent = self.silent();
        if best.generation > self.record.generation {
            findings.push(format!(
                "life {} began on node {} already, by a word that the world has lost: it is taken up as it is",
                best.generation, best.node
            ));
        }
        if !silent.is_empty() {
            findings.push(format!(
                "{} did not answer: acknowledged writes that no other node holds are lost, and nobody can list them; start one of these nodes first if you can",
                named(&silent)
            ));
        }
        if self.record.name.is_level_zero() && !silent.is_empty() {
            findings.push(format!(
                "{} may live, cut off from here: nothing above this cluster knows. Then they serve it, and they are the ones that end, with all that they acknowledge, when they hear of the new life",
                named(&silent)
            ));
        }
        let listed = self.record.members.iter().any(|member| member.replica == best.replica);
        if !listed {
            findings.push(format!(
                "node {} is no member any more as the world knows it: everything since it was removed is lost",
                best.node
            ));
        }
        let known = self.record.members_at.1;
        if known > best.last {
            findings.push(format!(
                "the cluster had reached entry {known}, and the best log ends at {}: at least {} entries are lost",
                best.last,
                known.0 - best.last.0
            ));
        }
        match best.state {
            SurvivorState::Mending => findings.push(format!(
                "rows of node {} read as damaged: those that nobody else can give back are lost; the data of the other survivors is kept until you discard it",
                best.node
            )),
            SurvivorState::Quarantined => findings.push(format!(
                "node {} is quarantined, and the new life is too until the entry it waits at is skipped; `hive ctl status` says why",
                best.node
            )),
            _ => {}
        }
        if best.last > best.commit {
            findings.push(format!(
                "entries {} to {} of node {} are not known to be committed and become part of the cluster: writes that were answered 'unknown' may appear",
                best.commit.0 + 1,
                best.last,
                best.node
            ));
        }
        let others = self.survivors.iter().filter(|one| one.node != best.node && !one.adds_nothing_to(best));
        findings.extend(others.map(|one| {
            format!(
                "node {} ({}, life {}) may hold entries up to {} that node {} lacks: its data is kept until you discard it",
                one.node,
                one.state.as_str(),
                one.generation,
                one.last,
                best.node
            )
        }));
        findings
    }

    /// What was confirmed is no longer what would happen.
    pub(super) fn changed_since(&self, seen: Option<NodeId>) -> Option<Refusal> {
        let (seen, best) = (seen?, self.best()?.node);
        let message = format!(
            "node {best} is the best survivor of cluster {} now, not node {seen}; nothing was changed: look again at what may be lost",
            self.record.name
        );
        (seen != best).then(|| Refusal::new(ErrorCode::SurvivorChanged, message))
    }

    pub(super) fn info(&self) -> RecoveryInfo {
        RecoveryInfo {
            name: self.record.name.clone(),
            cluster: self.record.cluster,
            ended: self.record.generation,
            state: RecoveryState::Surveyed,
            survivor: self.best().map(|best| best.node),
            unix_ms: 0,
            by: NodeId(0),
            survivors: self.survivors.clone(),
            silent: self.silent(),
            held: Vec::new(),
            findings: self.findings(),
        }
    }

    pub(super) fn recovery(&self, by: NodeId, unix_ms: u64) -> Option<Recovery> {
        let best = self.best()?;
        let empty = |member: &ClusterMember| {
            self.answered.contains(&member.node) && !self.survivors.iter().any(|one| one.node == member.node)
        };
        let mut members = self.members();
        let survivor = members.iter().copied().find(|member| member.node == best.node)?;
        // Members of the life that begins keep nothing of the one that ends.
        let of_next = |member: &ClusterMember| {
            self.survivors.iter().any(|one| one.node == member.node && one.generation > self.record.generation)
        };
        members.retain(|member| member.node != best.node && !empty(member) && !of_next(member));
        Some(Recovery {
            name: self.record.name.clone(),
            cluster: self.record.cluster,
            ended: self.record.generation,
            survivor: ClusterMember { replica: best.replica, ..survivor },
            unix_ms,
            by,
            told: self.survivors.clone(),
            held: members,
            open: true,
        })
    }
}
