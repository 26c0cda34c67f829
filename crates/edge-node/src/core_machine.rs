//! The core as the host's machine.

use crate::machine::{MachineFactory, Opened};
use base_engine::Engine;
use base_types::Tick;
use core_log::LogDisk;
use core_node::api::NodeConfig;
use std::sync::Arc;

/// Opens `core_node::Core`.
pub struct CoreFactory;

impl MachineFactory for CoreFactory {
    fn open(&self, _: NodeConfig, _: Vec<Arc<dyn Engine>>, _: &mut dyn LogDisk, _: Tick) -> Opened {
        Err("this build has no core".into())
    }
}
