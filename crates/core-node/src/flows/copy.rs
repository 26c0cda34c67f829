//! Copies a keyspace's document into the region's cluster, so that a cold node of the region finds it when the world is out of
//! reach (decision 0035).
//!
//!   copy/keyspace/<name>   version u8 = 1 | u64 the document's version in the world | body
//!
//! By design: compare-and-set; a copy as new as this one is left alone. What it is made of was read strongly from the world.
//! Not here: when (keyspaces.rs), who reads it (location.rs).

use super::confused;
use base_types::action::{ActionResult, Answer};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BackendKind, ClusterName, ReadConsistency};
use bytes::Bytes;
use core::time::Duration;
use core_backends::reference::{Command, Query, Reply};
use core_flow::{decode_call, Call, CallResult, PlanContext, Planner, Step};

/// The first byte of a copy.
const COPY_VERSION: u8 = 1;
/// The pause before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What the copy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentCopy {
    pub version: u64,
    pub body: Bytes,
}

impl Encode for DocumentCopy {
    fn encode(&self, out: &mut Writer) {
        out.u8(COPY_VERSION).u64(self.version).raw(&self.body);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let version = input.u8("document copy version")?;
        if version != COPY_VERSION {
            return Err(DecodeError::version("document copy", version, COPY_VERSION));
        }
        Ok(DocumentCopy { version: input.u64("document version")?, body: input.rest() })
    }
}

/// The key of a keyspace's copy.
pub fn copy_key(keyspace: &str) -> Bytes {
    Bytes::from(format!("copy/keyspace/{keyspace}").into_bytes())
}

/// See the file's header.
pub struct CopyFlow {
    region: ClusterName,
    key: Bytes,
    /// `None`: the keyspace is gone, and so the copy goes.
    copy: Option<DocumentCopy>,
    writing: bool,
}

impl CopyFlow {
    /// For one keyspace.
    pub fn new(region: ClusterName, keyspace: &str, copy: Option<DocumentCopy>) -> CopyFlow {
        CopyFlow { region, key: copy_key(keyspace), copy, writing: false }
    }

    fn read(&mut self) -> Step {
        self.writing = false;
        let query = Query::GetDocument { key: self.key.clone() };
        Step::Calls(vec![Call::Read {
            cluster: self.region.clone(),
            backend: BackendKind::Reference,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        }])
    }

    fn write(&mut self, command: &Command) -> Step {
        self.writing = true;
        Step::Calls(vec![Call::Write {
            cluster: self.region.clone(),
            backend: BackendKind::Reference,
            command: command.to_bytes(),
            consistency: None,
            request_id: None,
        }])
    }

    fn done(&self) -> Step {
        Step::Done(Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }))
    }
}

impl Planner for CopyFlow {
    fn name(&self) -> &'static str {
        "document-copy"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.read()
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok(_) if self.writing => self.done(),
            Ok((Reply::Document { document }, _)) => {
                let held = document.as_ref().and_then(|held| DocumentCopy::from_bytes(held.body.clone()).ok());
                let key = self.key.clone();
                let expected_version = document.map(|document| document.version);
                match (self.copy.clone(), held) {
                    (None, None) => self.done(),
                    (None, Some(_)) => self.write(&Command::DeleteDocument { key, expected_version }),
                    (Some(copy), Some(held)) if held.version >= copy.version => self.done(),
                    (Some(copy), _) => {
                        self.write(&Command::PutDocument { key, expected_version, body: copy.to_bytes() })
                    }
                }
            }
            Ok(_) => Step::Done(confused("document copy")),
            // The region has no leader, or another wrote between: read again.
            Err(_) => Step::Wait(RETRY),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.read()
    }
}
