//! Planners of the directory as a family: what a core keeps for them.
//!
//! Not here: who hands the copy on (core-node).

use base_access::Directory;
use core_flow::Planner;
use std::sync::Arc;

/// What a core keeps for planners of the directory.
#[derive(Clone, Default, Debug)]
pub struct AccessState {
    /// The copy that this core decides by.
    pub directory: Arc<Directory>,
    /// What a sync has found: the newest copy, to be kept by the host. It may be the one that is there.
    pub found: Option<Arc<Directory>>,
    /// Rows changed while a sync read others: what it found is complete up to its epoch, and has rows of later ones.
    pub overtaken: bool,
    /// A look has found that the head is not this copy's.
    pub behind: bool,
    /// A plan waits for a newer copy.
    pub wanted: bool,
}

/// What a planner of the directory may know and use in a step.
pub(crate) type PlanContext<'a> = core_flow::PlanContext<'a, AccessState>;

/// A planner of the directory.
pub type AccessPlanner = dyn Planner<AccessState>;
