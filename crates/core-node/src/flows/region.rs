//! Reports to the world where a region's level 0 cluster is: a document `region/<region>` in the world
//! cluster, so that other regions find it (Hive paper, 2.5: all is referenced from the global cluster).
//!
//! By design: compare-and-set; a document that says the same is left alone. Not here: when (replica_repair.rs).

use super::confused;
use crate::wire::{read_members, write_members};
use base_types::action::{ActionResult, Answer};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{ClusterId, Generation};
use bytes::Bytes;
use core::time::Duration;
use core_backends::reference::{Command, Query, Reply};
use core_cluster::api::Member;
use core_flow::{decode_call, reference_query, reference_write, CallResult, PlanContext, Planner, Step};

/// The pause before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What the document says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionDocument {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub members: Vec<Member>,
}

impl Encode for RegionDocument {
    fn encode(&self, out: &mut Writer) {
        // The first life, as all builds wrote it.
        if self.generation == Generation(1) {
            write_members(out.u8(1).u64(self.cluster.0), &self.members);
        } else {
            write_members(out.u8(2).u64(self.cluster.0).u32(self.generation.0), &self.members);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let version = input.u8("region document version")?;
        if ![1, 2].contains(&version) {
            return Err(DecodeError::version("region document", version, 2_u8));
        }
        let cluster = ClusterId(input.u64("cluster")?);
        let generation = Generation(if version == 1 { 1 } else { input.u32("generation")? });
        Ok(RegionDocument { cluster, generation, members: read_members(input)? })
    }
}

/// The key of a region's document.
pub fn region_key(region: &str) -> Bytes {
    Bytes::from(format!("region/{region}").into_bytes())
}

/// See the file's header.
pub struct RegionFlow {
    key: Bytes,
    body: Bytes,
    putting: bool,
}

impl RegionFlow {
    /// For one region.
    pub fn new(region: &str, document: &RegionDocument) -> RegionFlow {
        RegionFlow { key: region_key(region), body: document.to_bytes(), putting: false }
    }

    fn done(&self) -> Step {
        Step::Done(Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }))
    }
}

impl Planner for RegionFlow {
    fn name(&self) -> &'static str {
        "region-document"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.putting = false;
        Step::Calls(vec![reference_query(&Query::GetDocument { key: self.key.clone() })])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok(_) if self.putting => self.done(),
            Ok((Reply::Document { document }, _)) => {
                if document.as_ref().is_some_and(|document| document.body == self.body) {
                    return self.done();
                }
                let expected_version = document.map(|document| document.version);
                self.putting = true;
                let command = Command::PutDocument { key: self.key.clone(), expected_version, body: self.body.clone() };
                Step::Calls(vec![reference_write(&command)])
            }
            Ok(_) => Step::Done(confused("region document")),
            // The world is not formed yet, or another wrote between: read again.
            Err(_) => Step::Wait(RETRY),
        }
    }

    fn on_wake(&mut self, context: &mut PlanContext<'_>) -> Step {
        self.start(context)
    }
}
