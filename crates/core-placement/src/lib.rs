//! Rules, failure domains, scores, elections of members, the node map (Hive paper, 2.4 and 2.8).
//!
//! ```text
//! "size=5 location=fr-par failure_domain=az"  ──parse──▶ Rule ─┐
//! heartbeats ──▶ NodeMap ──▶ NodeRecord (labels, score, up) ───┴─elect─▶ members, or what is missing
//! ```
//!
//! Always: a rule is met or refused, never approximated; the same rule and records elect the same
//! nodes everywhere; nothing here knows a clock (`Tick`s are handed in).
//! Held by: `a_solution_is_found_whenever_one_exists`, `elections_follow_the_replicated_state`.
//! Not here: who sends heartbeats (core-node), where the records are replicated (core-backends,
//! `allocator`).
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod elect;
mod labels;
mod map;
mod record;
mod rule;
mod score;

pub use elect::{check, elect, elect_replacement, elect_spread, PlacementRefusal, REFUSAL_NAMES_MAX};
pub use labels::{FailureDomain, LabelError, Labels, LABEL_BYTES_MAX};
pub use map::{
    MapChange, MapDelta, MapError, MapRecord, MapVersion, NodeMap, MAP_DELTA_RECORDS_MAX, MAP_NODES_MAX, MAP_REPUBLISH,
};
pub use record::{Door, NodeRecord, NODE_ENGINES_MAX, NODE_TEXT_BYTES_MAX};
pub use rule::{Location, Rule, RuleError, RULE_BYTES_MAX, RULE_EXCLUDES_MAX, RULE_SIZE_DEFAULT, RULE_SIZE_MAX};
pub use score::{occupancy, score, SCORE_ALARM, SCORE_MAX, SCORE_STEP};
