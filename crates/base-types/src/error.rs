//! What goes wrong, told so that the caller knows what to do. Doors map it to their protocol.

use crate::codec::{DecodeError, Encode, Reader, Writer};
use alloc::string::String;
use core::fmt;

/// What the user should do about it (HOUSE_STYLE, "When things go wrong").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ErrorKind {
    /// Fix the request.
    Invalid = 0,
    /// The thing asked for does not exist.
    NotFound = 1,
    /// Reread, then retry.
    Conflict = 2,
    /// Back off, retry.
    Unavailable = 3,
    /// Back off, retry.
    Overloaded = 4,
    /// No room left on disk.
    Full = 5,
    /// Larger than the limit.
    TooLarge = 6,
    /// Check: the write may have happened.
    Unknown = 7,
    /// Call the operator.
    Corrupt = 8,
    /// Report a bug.
    Internal = 9,
    /// A condition of the request does not hold (compare-and-set, if-match).
    Precondition = 10,
}

impl ErrorKind {
    /// From its byte on the wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [ErrorKind; 11] = [
            ErrorKind::Invalid,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Unavailable,
            ErrorKind::Overloaded,
            ErrorKind::Full,
            ErrorKind::TooLarge,
            ErrorKind::Unknown,
            ErrorKind::Corrupt,
            ErrorKind::Internal,
            ErrorKind::Precondition,
        ];
        ALL.get(usize::from(byte)).copied()
    }

    /// Whether the same request may succeed later without being changed.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Unavailable | Self::Overloaded | Self::Unknown)
    }
}

/// Whether a refused or failed write can have taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Outcome {
    /// It has not and never will.
    NotApplied,
    /// It may have, or may yet.
    Unknown,
}

impl Outcome {
    /// The word used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }
}

/// A request that was not done. `code` is stable and for machines, `message` is for people: lower
/// case, no full stop, naming the thing, its value, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What the user should do.
    pub kind: ErrorKind,
    /// A stable CamelCase word, for example `UnknownKeyspace`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { kind, code, message: message.into() }
    }

    /// Shorthand for a request that must be mended.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(ErrorKind::Invalid, code, message)
    }

    /// Whether the write can have taken effect.
    pub fn outcome(&self) -> Outcome {
        // An expired id is refused for good, but its first try may have been applied.
        if self.kind == ErrorKind::Unknown || self.code == REQUEST_ID_EXPIRED {
            Outcome::Unknown
        } else {
            Outcome::NotApplied
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl core::error::Error for Refusal {}

/// A request id that is too old to tell whether it was applied.
pub const REQUEST_ID_EXPIRED: &str = "RequestIdExpired";

/// The codes Hive itself gives. A code read from a peer is looked up here, so that a `Refusal` needs
/// no allocation for it and a peer cannot invent one.
pub const CODES: &[&str] = &[
    "Internal",
    "InvalidRequest",
    "UnknownAction",
    "UnknownField",
    "MalformedJson",
    "BodyTooLarge",
    "KeyTooLarge",
    "ValueTooLarge",
    "EmptyKey",
    "UnknownLevel",
    "InvalidRule",
    "InvalidClusterName",
    "PlacementRefused",
    "UnknownCluster",
    "ClusterExists",
    "UnknownKeyspace",
    "KeyspaceExists",
    "InvalidKeyspace",
    "UnknownNode",
    "UnknownEngine",
    "NotAMember",
    "AlreadyAMember",
    "MembershipChangePending",
    "QuorumAtRisk",
    "NoLeader",
    "NotLeader",
    "WrongGeneration",
    "WrongPartition",
    "PartitionMoving",
    "Overloaded",
    "DeadlineExceeded",
    "OutcomeUnknown",
    "CommittedNotAbsolute",
    "CommittedNotInBucket",
    "NoDurableTail",
    "ReadOnly",
    "ConditionFailed",
    "DiskFull",
    "DiskFailed",
    "ReplicaDamaged",
    "ShuttingDown",
    "WrongType",
    "NotAnInteger",
    "Overflow",
    "Syntax",
    "UnknownCommand",
    "BatchCrossesClusters",
    "TokenInvalid",
    "LimitOutOfRange",
    "ReshardRunning",
    "NotFound",
    "CorruptCommand",
    "UnknownBackend",
    "NotReady",
    "DuplicateNode",
    "StaleRoute",
    REQUEST_ID_EXPIRED,
    "Conflict",
    "MethodNotAllowed",
    "Malformed",
    "TooManyMembers",
    // Of a cluster that lost its majority for good.
    "MajorityLives",
    "LeaderLives",
    "MemberUp",
    "SurvivorChanged",
    "NewLifeSilent",
    "NoSurvivor",
    "SurvivorGone",
    "SurvivorUnfit",
    "NotConfirmed",
    "EndedLifeKept",
    "NothingKept",
    "NodeDown",
    "LevelZero",
    "UnknownRecovery",
    "TooManyRecoveries",
    "WouldBlock",
    "InvalidField",
    "MissingField",
    "DuplicateField",
    // Of a bucket's shards.
    "NotEqual",
    "ShardFrozen",
    "BucketClosing",
    "WrongShard",
];

/// The static form of a code read from a peer; `Internal` where it is none of [`CODES`] nor S3's.
pub fn code_from_str(text: &str) -> &'static str {
    let own = CODES.iter().copied().find(|code| *code == text);
    own.or_else(|| crate::s3::S3ErrorCode::from_name(text).map(|code| code.name())).unwrap_or("Internal")
}

impl Encode for Refusal {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.kind as u8).string(self.code).string(&self.message);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let kind = ErrorKind::from_byte(input.u8("error kind")?).ok_or(DecodeError::Unknown("error kind"))?;
        Ok(Refusal { kind, code: code_from_str(&input.string("error code")?), message: input.string("error message")? })
    }
}
