//! The life of a partition in one cluster, and the record it is kept in.
//!
//!   old owner   Owned ──BeginMove──▶ Moving ◀──Unfreeze, a write after the lease── Frozen
//!                                      └────────────────Freeze────────────────────▶ │
//!                                          Released ◀──Release── Dropping ◀──Handover┘
//!   new owner   (none) ──PrepareImport──▶ Importing ──Activate──▶ Owned
//!                                             └──AbortImport──▶ Dropping ──Release──▶ Released
//!
//! Always: an epoch that was given up in a cluster never comes back there (`Released` stays; mutant `StaleEpochAccepted`). A command that finds its
//! work done changes nothing and returns the state, so a mover may repeat every step. `Handover` is a compare-and-set
//! on the dirty sequence: no write can fall between the last copy and the switch, even if the freeze expired
//! (mutants `HandoverOlderDirty`, `MoveWithoutFreeze`).
//! Not here: pairs (`write.rs`, `scan.rs`), who calls these in which order (core-keyspace).

use super::command::{ImportCursor, PartitionInfo, PartitionState, Scope, FREEZE_LEASE_MS_MAX};
use super::keys;
use crate::contract::SpaceRead;
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, PartitionId, Refusal};

/// The form of the record below.
const RECORD_VERSION: u8 = 1;

/// What is kept of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub epoch: u64,
    pub state: PartitionState,
    pub keys: u64,
    pub dirty: u64,
    /// Cluster time at which a freeze may be broken.
    pub frozen_until_ms: u64,
    pub cursor: ImportCursor,
}

impl Encode for Record {
    fn encode(&self, out: &mut Writer) {
        out.u8(RECORD_VERSION).u8(self.state as u8).varint(self.epoch).varint(self.keys).varint(self.dirty);
        out.varint(self.frozen_until_ms);
        self.cursor.encode(out);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let version = input.u8("record version")?;
        if version != RECORD_VERSION {
            return Err(DecodeError::version("partition record", version, RECORD_VERSION));
        }
        Ok(Record {
            state: PartitionState::from_byte(input.u8("state")?).ok_or(DecodeError::Unknown("state"))?,
            epoch: input.varint("epoch")?,
            keys: input.varint("keys")?,
            dirty: input.varint("dirty sequence")?,
            frozen_until_ms: input.varint("frozen until")?,
            cursor: ImportCursor::decode(input)?,
        })
    }
}

impl Record {
    fn new(epoch: u64, state: PartitionState) -> Record {
        Record { epoch, state, keys: 0, dirty: 0, frozen_until_ms: 0, cursor: ImportCursor::default() }
    }

    /// Reads a partition's record.
    pub fn load(space: &dyn SpaceRead, partition: PartitionId) -> Result<Option<Record>, EngineError> {
        let Some(bytes) = space.get(&keys::record(partition))? else { return Ok(None) };
        decode(partition, bytes).map(Some)
    }

    /// The partition's state, as the cluster reports it.
    pub fn info(&self, partition: PartitionId) -> PartitionInfo {
        PartitionInfo {
            scope: Scope { partition, epoch: self.epoch },
            state: self.state,
            keys: self.keys,
            dirty: self.dirty,
            cursor: self.cursor.clone(),
        }
    }

    /// Whether changes are recorded.
    pub fn records_changes(&self) -> bool {
        matches!(self.state, PartitionState::Moving | PartitionState::Frozen)
    }
}

/// A record that does not decode is the engine's damage.
pub(super) fn decode(partition: PartitionId, bytes: bytes::Bytes) -> Result<Record, EngineError> {
    Record::from_bytes(bytes).map_err(|error| {
        EngineError::Corrupt(format!("record of metadata partition {partition} does not decode: {error}"))
    })
}

/// The refusal for a scope this cluster does not own.
pub(super) fn wrong_partition(scope: Scope, record: Option<&Record>) -> Refusal {
    let here = match record {
        None => "is unknown here".to_string(),
        Some(record) => format!("is {} at epoch {} here", record.state.name(), record.epoch),
    };
    Refusal::new(
        ErrorCode::WrongPartition,
        format!(
            "partition {} at epoch {} is not served: it {here}; read the keyspace again and retry",
            scope.partition, scope.epoch
        ),
    )
}

/// Whether reads of this scope are served.
pub(super) fn check_serves(scope: Scope, record: Option<&Record>) -> Result<(), Refusal> {
    match record {
        Some(record) if record.epoch == scope.epoch && record.state.serves() => Ok(()),
        Some(_) if planted(Mutant::StaleEpochAccepted) => Ok(()),
        _ => Err(wrong_partition(scope, record)),
    }
}

/// Whether writes are taken; a freeze whose lease is over ends here.
pub(super) fn check_takes_writes(scope: Scope, now_ms: u64, record: Option<&mut Record>) -> Result<(), Refusal> {
    check_serves(scope, record.as_deref())?;
    let Some(record) = record else { return Ok(()) };
    if record.state == PartitionState::Frozen {
        if now_ms < record.frozen_until_ms {
            return Err(Refusal::new(
                ErrorCode::PartitionMoving,
                format!("partition {} is about to switch to another cluster; retry in a moment", scope.partition),
            ));
        }
        record.state = PartitionState::Moving;
    }
    Ok(())
}

fn conflict(scope: Scope, record: &Record, wanted: &str) -> Refusal {
    Refusal::new(
        ErrorCode::Conflict,
        format!(
            "partition {} cannot {wanted} at epoch {}: it is {} at epoch {} with dirty sequence {}",
            scope.partition,
            scope.epoch,
            record.state.name(),
            record.epoch,
            record.dirty
        ),
    )
}

/// A change of a partition's state alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Adopt,
    BeginMove,
    Freeze { lease_ms: u32 },
    Unfreeze,
    Handover { dirty: u64 },
    PrepareImport,
    Activate,
    AbortImport,
}

/// The record after a change. One match, so that the picture above can be checked against it.
pub(super) fn change(now_ms: u64, scope: Scope, record: Option<Record>, change: Change) -> Result<Record, Refusal> {
    use PartitionState::*;
    let Some(mut record) = record else {
        return match change {
            Change::Adopt => Ok(Record::new(scope.epoch, Owned)),
            Change::PrepareImport => Ok(Record::new(scope.epoch, Importing)),
            _ => Err(wrong_partition(scope, None)),
        };
    };
    if record.state == Released && record.epoch < scope.epoch {
        match change {
            Change::Adopt => return Ok(Record::new(scope.epoch, Owned)),
            Change::PrepareImport => return Ok(Record::new(scope.epoch, Importing)),
            _ => {}
        }
    }
    if record.epoch != scope.epoch {
        return Err(wrong_partition(scope, Some(&record)));
    }
    match (change, record.state) {
        (Change::Adopt | Change::Activate, Owned | Moving | Frozen) => {}
        (Change::PrepareImport, Importing | Owned | Moving | Frozen) => {}
        (Change::Activate, Importing) => {
            record.state = Owned;
            record.dirty = 0;
            record.cursor = ImportCursor::default();
        }
        (Change::AbortImport, Importing) => {
            record.state = Dropping;
            record.cursor = ImportCursor::default();
        }
        (Change::BeginMove, Owned) => record.state = Moving,
        (Change::BeginMove, Moving | Frozen) => {}
        (Change::Freeze { lease_ms }, Moving | Frozen) => {
            record.state = Frozen;
            record.frozen_until_ms = now_ms.saturating_add(u64::from(lease_ms.min(FREEZE_LEASE_MS_MAX)));
        }
        (Change::Unfreeze, Frozen | Moving) => record.state = Moving,
        (Change::Handover { dirty }, Frozen) if dirty == record.dirty => record.state = Dropping,
        (Change::Handover { dirty }, Frozen) if dirty <= record.dirty && planted(Mutant::HandoverOlderDirty) => {
            record.state = Dropping;
        }
        (Change::Handover { .. }, Moving | Frozen) if planted(Mutant::MoveWithoutFreeze) => record.state = Dropping,
        // Already past it: a repeated step of a mover that did not hear the answer.
        (
            Change::BeginMove | Change::Freeze { .. } | Change::Handover { .. } | Change::AbortImport,
            Dropping | Released,
        ) => {}
        (Change::Handover { .. }, _) => return Err(conflict(scope, &record, "be handed over")),
        (Change::Freeze { .. } | Change::Unfreeze, _) => return Err(conflict(scope, &record, "be frozen or unfrozen")),
        (Change::AbortImport, _) => return Err(conflict(scope, &record, "give up an import")),
        _ => return Err(wrong_partition(scope, Some(&record))),
    }
    Ok(record)
}
