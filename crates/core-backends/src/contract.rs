//! What a backend is: pure functions over the space it is handed, and what the cluster must know of its commands.
//!
//! By design: what a backend does not say is said here for all of them, so that a new backend has three functions to write.
//! Not here: which backend has which number (`table.rs`), what each does (its own room).

use crate::memory::{About, Carried, MemoryAsked, MemoryPage, Part};
use crate::reply::encode_reply;
use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::codec::{DecodeError, Encode};
use base_types::invariant::Broken;
use base_types::{ErrorCode, Generation, LogIndex, Refusal, RequestId, COMMAND_BYTES_MAX};
use bytes::Bytes;

/// Where an apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyContext {
    /// The life of the cluster that the entry belongs to.
    pub life: Generation,
    pub index: LogIndex,
    pub position: u32,
    /// The cluster's own clock, stamped by its leader: milliseconds that only advance.
    pub cluster_time_ms: u64,
}

/// What a check of invariants has come to. An engine's damage is no bug of the backend's.
pub(crate) type Checked = Result<Result<(), Broken>, EngineError>;

/// How long a completed upload is remembered for who repeats its completion, and the tokens of its puts, in cluster time.
pub const CLOSED_KEEP_MS: u64 = 60 * 60 * 1000;
/// So long after it took over rows of others a shard is not narrowed: requests that were carried out there may name
/// keys behind all rows. Longer than a request can be repeated (106.6 s: decision 0030; core-cluster compares them).
pub const NARROW_AFTER_MS: u64 = 120_000;

/// How long state machines keep what may still be asked for, in cluster time. Part of the state machine: alike on all nodes
/// of a world. Real nodes have `Keep::default()`; the simulator draws less, so that what comes of the end is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Completed uploads, and the tokens of their puts. Longer than a request can be repeated.
    pub closed_ms: u64,
    /// A shard that took over rows is not narrowed for so long. Longer than a request can be repeated.
    pub narrow_after_ms: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { closed_ms: CLOSED_KEEP_MS, narrow_after_ms: NARROW_AFTER_MS }
    }
}

/// What a backend sees of its space. Keys are the backend's own; no neighbour's.
pub trait SpaceRead {
    /// How long what is kept in it is kept.
    fn keep(&self) -> Keep {
        Keep::default()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;
    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError>;
}

/// What a backend may change.
pub trait SpaceWrite: SpaceRead {
    fn put(&mut self, key: Bytes, value: Bytes);
    fn delete(&mut self, key: Bytes);
}

/// What a leader proposes by itself, and when: a state machine does nothing without an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// In the cluster's time; one that has passed: now.
    pub at_ms: u64,
    pub command: Bytes,
}

/// A part of what a new leader proposes before anything else, and where the rest begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// None: this part of the space wants nothing.
    pub command: Option<Bytes>,
    pub next: Bytes,
}

/// Looks up how a request was answered that the cluster remembers.
pub type Known<'a> = &'a dyn Fn(RequestId) -> Option<Bytes>;

/// One replicated state machine.
pub(crate) trait Backend: Sync {
    /// Refuses a command that could not be applied, before it reaches the log. Bad bytes are a refusal, never a panic.
    fn validate(&self, command: &Bytes) -> Result<(), Refusal>;

    /// Applies a command. The reply is `encode_reply` of the backend's own reply or refusal.
    /// `Err` only for the engine's damage: the replica then stops.
    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError>;

    /// Answers a read. The reply is `encode_reply` of the backend's own reply or refusal.
    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError>;

    /// As `apply`, but what a command asks beside other things, and what the cluster remembers (`known`), is not
    /// done once more. (A command that is remembered as a whole does not come here.)
    fn apply_once(
        &self,
        at: ApplyContext,
        space: &mut dyn SpaceWrite,
        command: &Bytes,
        _known: Known<'_>,
    ) -> Result<Bytes, EngineError> {
        self.apply(at, space, command)
    }

    /// What a command is about: asked of every command that is applied, so it is read off the first bytes.
    fn about_of(&self, _command: &Bytes) -> About {
        Part::WHOLE.into()
    }

    /// Whether a query may wait until there is something to give. Asked of every read, so it looks at the first bytes.
    fn waits(&self, _query: &Bytes) -> bool {
        false
    }

    /// Whether it has such queries at all.
    fn has_waiting_queries(&self) -> bool {
        false
    }

    /// Of a query that waits, and its reply: what is asked after the next change, where the reply gives nothing yet.
    /// `None`: it is answered.
    fn next_query(&self, _query: &Bytes, _reply: &Bytes) -> Option<Bytes> {
        None
    }

    /// What a leader is to propose next. Asked after each change of the space.
    fn upkeep(&self, _space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
        Ok(None)
    }

    /// What a leader is to propose that took over at `began_ms`, before anything else of its own: from `after` on. `None`: nothing more.
    /// Called again with the time of now until then.
    fn takeover(
        &self,
        _space: &dyn SpaceRead,
        _began_ms: u64,
        _now_ms: u64,
        _after: &[u8],
    ) -> Result<Option<Takeover>, EngineError> {
        Ok(None)
    }

    /// Whether something that a query may show ends after the first of these times and not after the second, without an entry that ends it.
    /// A leader's clock runs on between entries; the next leader's begins where the last entry had it.
    fn ends_between(&self, _space: &dyn SpaceRead, _query: &Bytes, _times: (u64, u64)) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Whether what it counts and lists beside its rows is what they are.
    fn check_invariants(&self, _space: &dyn SpaceRead) -> Checked {
        Ok(Ok(()))
    }

    /// Whether a query asks the cluster for its memory of requests.
    fn memory_asked(&self, _query: &Bytes) -> Option<MemoryAsked> {
        None
    }

    /// The reply to such a query. A backend that never asks is never told.
    fn tell_memory(&self, _page: MemoryPage) -> Bytes {
        let message = "this backend remembers no requests of its own";
        encode_reply::<MemoryPage>(&Err(Refusal::new(ErrorCode::Internal, message)))
    }

    /// What a command that was carried out brings for the cluster's memory; of requests of its own, for `keep_ms`.
    fn memory_brought(&self, _command: &Bytes, _reply: &Bytes, _keep_ms: u64) -> Vec<Carried> {
        Vec::new()
    }
}

/// Decodes a command or query whole, within its bound.
pub(crate) fn decode<T: Encode>(what: &'static str, bytes: &Bytes) -> Result<T, Refusal> {
    if bytes.len() > COMMAND_BYTES_MAX {
        let message = format!("{what} is {} bytes long; at most {COMMAND_BYTES_MAX} are taken", bytes.len());
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    T::from_bytes(bytes.clone()).map_err(|error| {
        Refusal::new(
            ErrorCode::CorruptCommand,
            format!("{what} does not decode: {error}; sender and receiver may differ in version"),
        )
    })
}

/// What a row that does not decode means: the engine gave back what was never written.
pub(crate) fn corrupt_row(what: &'static str, error: DecodeError) -> EngineError {
    EngineError::Corrupt(format!("{what} does not decode: {error}"))
}
