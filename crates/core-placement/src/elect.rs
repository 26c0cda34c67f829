//! Electing members: the nodes a new cluster goes to, or what is missing for it.
//!
//! Domains part the nodes (each node stands in exactly one instance of each kind) and nest in
//! regions, so the best node of each instance, and of those the best `size` (of each region its
//! `repartition`), is a solution whenever one exists: no search is needed.
//!
//! Always: two elected nodes never share an instance of the rule's failure domain; a repartition is
//! met exactly; excluded chassis, nodes that are down and nodes being decommissioned are never elected; lowest score first, ties
//! by node id; what cannot be met is refused, never approximated.
//! Held by: `a_solution_is_found_whenever_one_exists`, `the_lowest_score_of_each_domain_goes_first`, `a_refusal_says_what_is_missing`.
//! Not here: making the cluster (core-node), keeping scores (`map.rs`).

use crate::{FailureDomain, NodeRecord, Rule, SCORE_STEP};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, NodeId, Refusal};
use core::fmt;

/// The most domain instances a refusal names.
pub const REFUSAL_NAMES_MAX: usize = 12;

/// Why a rule cannot be met by the nodes there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacementRefusal {
    /// Members the rule wants in `place`.
    pub wanted: usize,
    /// Domain instances that could take one.
    pub found: usize,
    /// The rule's failure domain.
    pub domain: FailureDomain,
    /// `world` or a region.
    pub place: String,
    /// The instances that could take one, by name, at most `REFUSAL_NAMES_MAX`.
    pub names: Vec<String>,
    /// Nodes in `place` passed over because they are down, excluded (by the rule or the caller),
    /// or without the rule's engine.
    pub down: u32,
    /// See `down`.
    pub excluded: u32,
    /// They are members already.
    pub members: u32,
    /// See `down`.
    pub draining: u32,
    /// See `down`.
    pub without_engine: u32,
    /// The rule's engine.
    pub engine: Option<String>,
    /// Whether `size` can be lowered (no repartition fixes it).
    pub size_is_free: bool,
    /// Whether the rule could be met if every node that is down came back.
    pub met_when_up: bool,
}

impl fmt::Display for PlacementRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, place) = (self.domain, &self.place);
        if self.wanted == 0 {
            return f.write_str("rule's repartition is full in every region without the lost member; remove that member instead of replacing it");
        }
        let passed_over = self.down + self.excluded + self.members + self.draining + self.without_engine;
        if self.found == 0 && passed_over == 0 && self.size_is_free {
            return write!(
                f,
                "rule wants {} {domain} in {place}; no node of the world stands there: check the name, or add nodes",
                self.wanted
            );
        }
        write!(f, "rule wants {} {domain} in {place}; only {} {domain} ", self.wanted, self.found)?;
        f.write_str(if self.found == 1 { "has a node that is up" } else { "have a node that is up" })?;
        if let Some(engine) = &self.engine {
            write!(f, " and offers engine {engine}")?;
        }
        for (at, name) in self.names.iter().enumerate() {
            write!(f, "{}{name}", if at == 0 { ": " } else { ", " })?;
        }
        if self.found > self.names.len() {
            write!(f, " and {} more", self.found - self.names.len())?;
        }
        let passed = [
            (self.down, "down"),
            (self.excluded, "excluded by the rule"),
            (self.members, "members already"),
            (self.draining, "being decommissioned"),
            (self.without_engine, "without the engine"),
        ];
        let passed: Vec<String> =
            passed.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
        if !passed.is_empty() {
            write!(f, " (nodes passed over: {})", passed.join(", "))?;
        }
        let size = if self.size_is_free { "lower size" } else { "change repartition" };
        if self.met_when_up {
            write!(f, "; bring the nodes that are down back, add nodes in another {domain}, or {size}")
        } else {
            write!(f, "; add nodes in another {domain} or {size}")
        }
    }
}

impl core::error::Error for PlacementRefusal {}

impl From<PlacementRefusal> for Refusal {
    /// Retryable only where waiting for nodes can help.
    fn from(refusal: PlacementRefusal) -> Refusal {
        let code = if refusal.met_when_up { ErrorCode::PlacementUnmet } else { ErrorCode::PlacementImpossible };
        Refusal::new(code, refusal.to_string())
    }
}

/// Elects the members of a new cluster, best first. `also_exclude` are nodes passed over beyond what
/// the rule excludes.
pub fn elect<'a>(
    rule: &Rule,
    nodes: impl IntoIterator<Item = &'a NodeRecord>,
    also_exclude: &[NodeId],
) -> Result<Vec<NodeId>, PlacementRefusal> {
    elect_spread(rule, nodes, also_exclude, 0)
}

/// As `elect`, but scores closer than `SCORE_STEP` count as equal and such ties go by a hash of
/// `spread` and the node (zero: exactly `elect`). Scores are reported seconds apart; without this a
/// burst of creations would all elect the same few nodes. Callers hash the cluster's name.
pub fn elect_spread<'a>(
    rule: &Rule,
    nodes: impl IntoIterator<Item = &'a NodeRecord>,
    also_exclude: &[NodeId],
    spread: u64,
) -> Result<Vec<NodeId>, PlacementRefusal> {
    let nodes: Vec<&NodeRecord> = nodes.into_iter().collect();
    let mut elected = Vec::with_capacity(rule.size);
    for (place, wanted) in quotas(rule) {
        let field =
            Field { rule, nodes: &nodes, also_exclude, replaces: false, place, taken: &BTreeSet::new(), spread };
        elected.extend(field.take(wanted)?);
    }
    let mut order: Vec<(Rank, NodeId)> = Vec::with_capacity(elected.len());
    for record in elected {
        order.push((rank(record, spread), record.node));
    }
    order.sort();
    Ok(order.into_iter().map(|(_, node)| node).collect())
}

/// Elects one node in the place of `lost` for a cluster with these `members` (`lost` among them or
/// already gone): not a member, in no domain instance of those that stay, in a region whose
/// repartition has room.
pub fn elect_replacement<'a>(
    rule: &Rule,
    members: &[NodeId],
    lost: NodeId,
    nodes: impl IntoIterator<Item = &'a NodeRecord>,
    spread: u64,
) -> Result<NodeId, PlacementRefusal> {
    let nodes: Vec<&NodeRecord> = nodes.into_iter().collect();
    let stay = |record: &&&NodeRecord| record.node != lost && members.contains(&record.node);
    let staying: Vec<&NodeRecord> = nodes.iter().filter(stay).copied().collect();
    let stays = staying.iter().filter(|_| !planted(Mutant::ReplacementSharesDomain));
    let taken: BTreeSet<String> = stays.map(|record| record.labels.domain(rule.failure_domain)).collect();
    let mut exclude: Vec<NodeId> = members.to_vec();
    exclude.push(lost);
    let mut candidates: Vec<(Rank, NodeId)> = Vec::new();
    let mut refusal = None;
    for (place, wanted) in quotas(rule) {
        let there = staying.iter().filter(|record| place.is_none_or(|region| record.labels.region == region)).count();
        if there >= wanted && place.is_some() {
            continue;
        }
        let field = Field { rule, nodes: &nodes, also_exclude: &exclude, replaces: true, place, taken: &taken, spread };
        match field.take(1) {
            Ok(found) => candidates.extend(found.iter().map(|record| (rank(record, spread), record.node))),
            Err(error) => refusal = Some(error),
        }
    }
    match (candidates.into_iter().min(), refusal) {
        (Some((_, node)), _) => Ok(node),
        (None, Some(refusal)) => Err(refusal),
        // Every region of the repartition is full: the lost member was one too many.
        (None, None) => Err(full_repartition(rule)),
    }
}

fn full_repartition(rule: &Rule) -> PlacementRefusal {
    PlacementRefusal {
        wanted: 0,
        found: 0,
        domain: rule.failure_domain,
        place: rule.location.to_string(),
        names: Vec::new(),
        down: 0,
        excluded: 0,
        members: 0,
        draining: 0,
        without_engine: 0,
        engine: rule.engine.clone(),
        size_is_free: false,
        met_when_up: false,
    }
}

/// What is not as the rule wants it in a cluster that exists; empty when well. Never a refusal: a
/// cluster lives on while nodes move and fail.
pub fn check<'a>(rule: &Rule, members: &[NodeId], nodes: impl IntoIterator<Item = &'a NodeRecord>) -> Vec<String> {
    let known: BTreeMap<NodeId, &NodeRecord> = nodes.into_iter().map(|record| (record.node, record)).collect();
    let mut warnings = Vec::new();
    if members.len() != rule.size {
        warnings.push(format!("rule wants {} members; there are {}", rule.size, members.len()));
    }
    let mut domains: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    let mut regions: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        let Some(record) = known.get(member) else {
            warnings.push(format!("member node {member} is not in the node map"));
            continue;
        };
        domains.entry(record.labels.domain(rule.failure_domain)).or_default().push(*member);
        *regions.entry(&record.labels.region).or_default() += 1;
        check_member(rule, record, &mut warnings);
    }
    for (domain, sharing) in domains.iter().filter(|(_, sharing)| sharing.len() > 1) {
        let sharing: Vec<String> = sharing.iter().map(NodeId::to_string).collect();
        warnings.push(format!("member nodes {} share {} {domain}", sharing.join(", "), rule.failure_domain));
    }
    for (region, wanted) in &rule.repartition {
        let there = regions.get(region.as_str()).copied().unwrap_or(0);
        if there != *wanted {
            warnings.push(format!("repartition wants {wanted} members in {region}; there are {there}"));
        }
    }
    warnings
}

fn check_member(rule: &Rule, record: &NodeRecord, warnings: &mut Vec<String>) {
    let node = record.node;
    if !record.up {
        warnings.push(format!("member node {node} is down"));
    }
    if record.draining {
        warnings.push(format!("member node {node} is being decommissioned"));
    }
    if !rule.location.holds(&record.labels.region) {
        warnings.push(format!("member node {node} stands in {}, outside {}", record.labels.region, rule.location));
    }
    if rule.excludes(&record.labels) {
        warnings.push(format!("member node {node} stands in excluded chassis {}", record.labels.chassis));
    }
}

/// How many members go where: the repartition, or all anywhere (`None`).
fn quotas(rule: &Rule) -> Vec<(Option<&str>, usize)> {
    if rule.repartition.is_empty() {
        return alloc::vec![(None, rule.size)];
    }
    rule.repartition.iter().map(|(region, count)| (Some(region.as_str()), *count)).collect()
}

/// The order of election: lowest first.
type Rank = (u32, u64, NodeId);

fn rank(record: &NodeRecord, spread: u64) -> Rank {
    if spread == 0 {
        return (record.score, 0, record.node);
    }
    (record.score / SCORE_STEP, mix(spread ^ mix(record.node.0)), record.node)
}

/// A fixed mixing of bits (splitmix64's finisher): the same on every node and in every version.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One place to elect in, and from whom.
struct Field<'f, 'a> {
    rule: &'f Rule,
    nodes: &'f [&'a NodeRecord],
    also_exclude: &'f [NodeId],
    /// They are the members of the cluster that one is looked for.
    replaces: bool,
    /// A region of the repartition; `None`: the rule's whole location.
    place: Option<&'f str>,
    /// Domain instances that already hold a member.
    taken: &'f BTreeSet<String>,
    spread: u64,
}

impl<'a> Field<'_, 'a> {
    /// The best node of each of the best `wanted` domain instances.
    fn take(&self, wanted: usize) -> Result<Vec<&'a NodeRecord>, PlacementRefusal> {
        let best = self.best_by_domain(false);
        if best.len() < wanted {
            return Err(self.refuse(wanted, &best));
        }
        let mut order: Vec<&NodeRecord> = best.into_values().collect();
        order.sort_by_key(|record| rank(record, self.spread));
        order.truncate(wanted);
        Ok(order)
    }

    fn here(&self) -> impl Iterator<Item = &'a NodeRecord> + '_ {
        self.nodes.iter().copied().filter(|record| {
            let region = record.labels.region.as_str();
            self.rule.location.holds(region) && self.place.is_none_or(|place| place == region)
        })
    }

    fn is_excluded(&self, record: &NodeRecord) -> bool {
        self.also_exclude.contains(&record.node) || self.rule.excludes(&record.labels)
    }

    /// `with_down`: as if every node were up.
    fn best_by_domain(&self, with_down: bool) -> BTreeMap<String, &'a NodeRecord> {
        let mut best: BTreeMap<String, &NodeRecord> = BTreeMap::new();
        for record in self.here() {
            let offers = record.offers(self.rule.engine.as_deref());
            let usable = (record.up || with_down) && !record.draining && offers;
            if !usable || self.is_excluded(record) {
                continue;
            }
            let domain = record.labels.domain(self.rule.failure_domain);
            if self.taken.contains(&domain) {
                continue;
            }
            let holder = best.entry(domain).or_insert(record);
            if rank(record, self.spread) < rank(holder, self.spread) {
                *holder = record;
            }
        }
        best
    }

    fn refuse(&self, wanted: usize, best: &BTreeMap<String, &NodeRecord>) -> PlacementRefusal {
        let mut refusal = PlacementRefusal {
            wanted,
            found: best.len(),
            domain: self.rule.failure_domain,
            place: self.place.map_or_else(|| self.rule.location.to_string(), str::to_string),
            names: best.keys().take(REFUSAL_NAMES_MAX).cloned().collect(),
            size_is_free: self.rule.repartition.is_empty(),
            met_when_up: self.best_by_domain(true).len() >= wanted,
            ..full_repartition(self.rule)
        };
        for record in self.here() {
            if self.replaces && self.also_exclude.contains(&record.node) {
                refusal.members += 1;
            } else if self.is_excluded(record) {
                refusal.excluded += 1;
            } else if !record.up {
                refusal.down += 1;
            } else if record.draining {
                refusal.draining += 1;
            } else if !record.offers(self.rule.engine.as_deref()) {
                refusal.without_engine += 1;
            }
        }
        refusal
    }
}

#[cfg(test)]
mod tests;
