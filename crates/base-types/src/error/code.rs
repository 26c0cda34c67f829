//! Every error code of Hive, in one table: its text, what kind of failure it is, what a router does with it, and what it
//! means.
//!
//! Always: kind, status, outcome and retry follow from the code alone, so no caller gives them. A text and a kind
//! together name one code, and a code keeps both: peers and replicated answers carry them. `tests/error_table.rs` compares
//! the table with the golden file and with docs/guides/api/errors.md.
//! Not here: the codes that the S3 API defines (`s3/error.rs`; here they are [`ErrorCode::S3`]).

use super::kind::{ErrorKind, Outcome};
use crate::codec::{DecodeError, Encode, Reader, Writer};
use crate::s3::S3ErrorCode;
use core::fmt;
use core::str::FromStr;

/// What a router or a call of several steps does with a refusal of a cluster that it sent a command to.
/// All but [`Routing::Answer`] are definite: nothing was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// Nothing: it is the answer.
    Answer,
    /// The partition is about to switch: the same cluster, a moment later.
    PartitionSwitching,
    /// The partition is another cluster's, or is at another epoch: read the keyspace's document again.
    PartitionMoved,
    /// The bucket's map or shard is being made, switched or removed: the same again, a moment later.
    ShardSwitching,
    /// The key is another shard's, or the shard is at another epoch: read the bucket's map again.
    ShardMoved,
    /// The cluster is deleted.
    ClusterGone,
    /// The cluster was deleted and created again.
    ClusterReplaced,
}

macro_rules! text {
    ($code:ident) => {
        stringify!($code)
    };
    ($code:ident $text:literal) => {
        $text
    };
}

macro_rules! codes {
    ($($code:ident $(= $text:literal)? $(@ $wire:literal)? $kind:ident $routing:ident $meaning:literal;)*) => {
        /// Why a request was not done: stable, for programs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)*
            /// A code that the S3 API defines. Made by `From<S3ErrorCode>` only: two S3 codes are Hive's, too.
            S3(S3ErrorCode),
            /// A peer of another version gave a code that this one does not have. The kind still says what to do.
            Other(ErrorKind),
        }

        impl ErrorCode {
            /// Every code of Hive's own, in the order of the table. Of several with one text the first is the usual one.
            pub const OWN: &'static [ErrorCode] = &[$(ErrorCode::$code,)*];

            /// Its text in answers.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => text!($code $($text)?),)*
                    ErrorCode::S3(code) => code.name(),
                    ErrorCode::Other(_) => "Internal",
                }
            }

            /// Its text in frames between nodes and in replicated answers: [`Self::as_str`], but for codes that were
            /// renamed since those formats were fixed.
            pub const fn wire_text(self) -> &'static str {
                match self {
                    $($(ErrorCode::$code => $wire,)?)*
                    other => other.as_str(),
                }
            }

            /// What the caller should do.
            pub const fn kind(self) -> ErrorKind {
                match self {
                    $(ErrorCode::$code => ErrorKind::$kind,)*
                    ErrorCode::S3(code) => code.kind(),
                    ErrorCode::Other(kind) => kind,
                }
            }

            /// What a router does with it.
            pub const fn routing(self) -> Routing {
                match self {
                    $(ErrorCode::$code => Routing::$routing,)*
                    ErrorCode::S3(_) | ErrorCode::Other(_) => Routing::Answer,
                }
            }

            /// What it means, for the guide.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $meaning,)*
                    ErrorCode::S3(code) => code.message(),
                    ErrorCode::Other(_) => "a node of another version gave a code that this one does not have",
                }
            }
        }
    };
}

codes! {
    AccessOff Invalid Answer
        "the world asks nobody who they are (`access.required` is off), so users, roles and tokens would count for nothing";
    AlreadyAMember Conflict Answer
        "the node has a replica of this cluster already";
    BatchCrossesClusters Invalid Answer
        "the keys of a `KvBatch` live in more than one cluster; a batch is atomic in one only";
    BodyTooLarge TooLarge Answer
        "the body is longer than `limits.body_bytes_max` (4 MiB)";
    BucketClosing Unavailable ShardSwitching
        "the bucket is being deleted; nodes handle this among themselves";
    CertificateRequired Invalid Answer
        "the port answers clients that show a user's certificate, and none was shown, or one that names no user; see [TLS](../operations/tls.md)";
    ClusterExists Conflict Answer
        "a cluster of that name exists";
    CommittedNotAbsolute Unknown Answer
        "an absolute write is committed, but a member had not synced it at the deadline; see [Levels](README.md#levels)";
    CommittedNotInBucket Unknown Answer
        "an `s3` write is committed, but no bucket had it at the deadline; see [Levels](README.md#levels)";
    ConditionFailed Precondition Answer
        "`KvCompareAndSet`: the key has another value than `expected`";
    ConfigClusterSilent Unavailable Answer
        "the configuration cluster does not answer; nodes handle this among themselves";
    Conflict Conflict Answer
        "something changed meanwhile; read again and retry";
    CorruptCommand Invalid Answer
        "a command in a cluster's log cannot be read; call the operator";
    DeadlineExceeded Unavailable Answer
        "no answer within `deadline_ms`; a read, or a write that was surely not done. A busy node says so without having begun";
    DirectoryStale Unavailable Answer
        "this node has not heard from the world's directory of users for longer than `access.stale_limit_hours`: ask another node, or mend the world's clusters";
    DiskFailed Unavailable Answer
        "the node's log could not be written; it takes no writes any more";
    DiskFull Full Answer
        "the node's disk has less than `limits.disk_free_bytes_min` left";
    DuplicateField Invalid Answer
        "a field is given twice";
    DuplicateNode Conflict Answer
        "two nodes claim one id";
    EmptyKey Invalid Answer
        "a key has at least one byte";
    EndedLifeKept Conflict Answer
        "the node keeps data of an ended life of this cluster: discard it (`DiscardEnded`), or name another node";
    ForeignPage Invalid Answer
        "a page of another site may have caused the request; see [Browsers](limits.md#browsers)";
    Internal Internal Answer
        "a bug: report it with the message";
    CorruptDocument = "Internal" Corrupt Answer
        "a keyspace's document or reshard is damaged: call the operator with the message";
    InvalidClusterName Invalid Answer
        "a name is `backend/backend@anything`";
    InvalidField Invalid Answer
        "a field has a value of the wrong kind";
    InvalidKeyspace Invalid Answer
        "the keyspace's name, partitions, clusters or split keys are not valid";
    UnnamableCluster = "InvalidKeyspace" Internal Answer
        "a keyspace's name makes no valid cluster name; a bug: report it with the message";
    InvalidRequest Invalid Answer
        "the body is JSON, but no action";
    InvalidRule Invalid Answer
        "the rule has a word or a value that is not valid";
    KeyTooLarge TooLarge Answer
        "a key has at most 1,024 bytes";
    KeyTooLong = "KeyTooLarge" Invalid Answer
        "a key has at most 1,024 bytes; the door refused it before any cluster saw it";
    KeyspaceExists Conflict Answer
        "a keyspace of that name exists";
    LeaderLives Conflict Answer
        "`RecoverCluster`: a survivor follows a leader that it is connected to; the cluster serves";
    LevelZero Invalid Answer
        "`RecoverCluster`: a region's cluster is recovered through a node of that region";
    LimitOutOfRange Invalid Answer
        "a number or a list is outside its limits";
    WorldFull = "LimitOutOfRange" Full Answer
        "the world has as many nodes as it may have; forget nodes that are gone for good";
    MajorityLives Conflict Answer
        "`RecoverCluster`: a majority of the voters answers with whole logs; it elects a leader by itself";
    Malformed Invalid Answer
        "the HTTP request itself is malformed";
    MalformedJson Invalid Answer
        "the body is not JSON, or nests too deep";
    MemberUp Conflict Answer
        "`RecoverCluster`: a member did not answer, and the world hears of its node: it is cut off, stuck, or has just died";
    MembershipChangePending Conflict Answer
        "another node is joining the cluster; wait until that is done";
    MembershipChangeRunning = "MembershipChangePending" Unavailable Answer
        "one change of members at a time: wait for the one under way";
    MethodNotAllowed Invalid Answer
        "the route takes another method";
    MissingField Invalid Answer
        "a needed field is absent";
    NewLifeSilent Conflict Answer
        "`DiscardEnded`: the new life has no leader, so what is kept may be all there is";
    NoArchiveReplica @ "NoDurableTail" Invalid Answer
        "a write at `s3` on a cluster of which no member that answers keeps it in a bucket; nothing was written";
    NoArchiveReplicaYet = "NoArchiveReplica" @ "NoDurableTail" Unavailable Answer
        "the same of a leader that may not have heard of its members yet; nodes retry, and answer with 400 when it has";
    NoLeader Unavailable Answer
        "the cluster has no leader now";
    NoSuchRole NotFound Answer
        "there is no role of that name; `hive role list` (ListRoles) lists them";
    NoSuchS3Key NotFound Answer
        "there is no S3 key of a user with that public half; `hive key list` (ListS3Keys) lists them";
    NoSuchTenant NotFound Answer
        "there is no tenant of that name; `hive tenant list` (ListTenants) lists them";
    NoSuchToken NotFound Answer
        "there is no token of that id; `hive token list` (ListTokens) lists them";
    NoSuchUser NotFound Answer
        "there is no user of that name; `hive user list` (ListUsers) lists them";
    NoSealingKey Conflict Answer
        "S3 keys of users are sealed, and this node has no sealing key: set `access.sealing_key_file` on every node";
    NoSurvivor Conflict Answer
        "`RecoverCluster`: no node that answers has a whole log of the cluster's present life";
    NodeDown Conflict Answer
        "`DiscardEnded`: the node is down and may come back: start it, or forget it first";
    NotAMember Invalid Answer
        "the node has no replica of this cluster, or no voting one; `DescribeCluster` lists the members";
    NoSuchMember = "NotAMember" NotFound Answer
        "the node that the change names is no member of this cluster; `DescribeCluster` lists the members";
    NotConfirmed Invalid Answer
        "`RecoverCluster`: `confirm` is not the cluster's name";
    NotEqual Conflict Answer
        "a shard's copy is not equal yet; nodes handle this among themselves";
    NotFound NotFound Answer
        "there is no such route, or no such verification";
    NotLeader Unavailable Answer
        "another node leads; nodes handle this among themselves";
    NotQuarantined Conflict Answer
        "`SkipEntry`: the cluster's leader is not stopped at that entry";
    NotReady Unavailable ShardSwitching
        "not yet: the node has not joined its world (`/ready` says what is missing), or a keyspace is being created";
    NotInState = "NotReady" Conflict ShardSwitching
        "the cluster or shard is not in the state that the request needs; the message says which";
    NoShardMap = "NotReady" NotFound ShardSwitching
        "the bucket's map has not been made yet; nodes handle this among themselves";
    NothingKept NotFound Answer
        "`DiscardEnded`: the node keeps nothing of an ended life of this cluster";
    OutcomeUnknown Unknown Answer
        "the write may have happened; read, or repeat it with the same `request_id`";
    Overloaded Overloaded Answer
        "too much is under way on this core, or a cluster remembers as many request ids as it may: back off and retry";
    PartitionMoving Unavailable PartitionSwitching
        "a reshard moves the key's partition; nodes handle this among themselves";
    PermissionDenied Forbidden Answer
        "the user may not do this; the message says which role would allow it";
    PermissionsChanged Unavailable Answer
        "what the user may do changed while the request was under way, and nothing was done: retry";
    PlacementRefused Conflict Answer
        "a node cannot take the replica, or nobody else can; the message says why";
    PlacementImpossible = "PlacementRefused" Invalid Answer
        "the rule cannot be met by the nodes of this world; the message says what is missing";
    PlacementUnmet = "PlacementRefused" Unavailable Answer
        "the rule cannot be met by the nodes that are up; the message says what is missing";
    Quarantined Corrupt Answer
        "the cluster is stopped at an entry that no replica can apply: `hive ctl cluster skip`";
    QuorumAtRisk Unavailable Answer
        "the change would leave the cluster without a majority that is up";
    LastVoter = "QuorumAtRisk" Invalid Answer
        "the node holds the cluster's only voter; delete the cluster instead";
    ReadOnly Invalid Answer
        "`hive attach` only reads along; ask a node of the world";
    ReplicaDamaged Corrupt Answer
        "the replica is damaged and is being rebuilt";
    ReplicaRotted = "ReplicaDamaged" Conflict Answer
        "the records of an earlier replica rotted on the node, and a new one cannot take its place";
    ReplicaUnreadable = "ReplicaDamaged" Unavailable Answer
        "`hive attach`: the replica's copy in the bucket cannot be read now";
    RequestIdExpired Conflict Answer
        "whether the write of this `after:` id was applied is no longer known, or the id is of another cluster; this attempt was not applied, an earlier one may have been: read the key";
    ReshardRunning Conflict Answer
        "a reshard of this keyspace is under way; `DescribeKeyspace` shows its progress";
    RoleExists Conflict Answer
        "a role of that name exists; `replace` (`--replace`) changes its rules";
    ShardFrozen Unavailable ShardSwitching
        "a bucket's shard is being switched; nodes handle this among themselves";
    ShuttingDown Unavailable Answer
        "the node is stopping: ask another";
    StaleRoute Unavailable Answer
        "a route was out of date; nodes handle this among themselves";
    Superseded Unavailable Answer
        "a later process of this node has taken its place; ask another node";
    SurvivorChanged Conflict Answer
        "`RecoverCluster`: another survivor than `survivor` is best by now";
    SurvivorGone Conflict Answer
        "the replica that was chosen as survivor is no longer on its node";
    SurvivorUnfit Conflict Answer
        "the replica that was chosen as survivor cannot begin the new life any more; the message says what it is";
    Syntax Invalid Answer
        "a Redis command has wrong arguments";
    TenantExists Conflict Answer
        "a tenant of that name exists";
    TenantHasUsers Conflict Answer
        "the tenant has users; delete them first";
    TooManyMembers Invalid Answer
        "a cluster has at most 15 members";
    TooManyRecoveries Conflict Answer
        "a cluster was recovered 8 times and data of all its ended lives is kept: discard some";
    Unauthenticated Unauthenticated Answer
        "the request has no credential, or one that counts for nothing: send `Authorization: Bearer` with a token (`hive token create`)";
    UnknownAction Invalid Answer
        "there is no action of that name";
    UnknownBackend Invalid Answer
        "the cluster has no such backend; its name lists those it has";
    UnknownCluster NotFound ClusterGone
        "there is no cluster of that name";
    UnknownCommand Invalid Answer
        "the backend has no such command";
    UnknownEngine Invalid Answer
        "no node offers that engine";
    UnknownField Invalid Answer
        "the action has no such field";
    UnknownHost Invalid Answer
        "the `Host` is no name of this node; see [Browsers](limits.md#browsers)";
    UnknownKeyspace NotFound Answer
        "there is no keyspace of that name";
    UnknownLevel Invalid Answer
        "writes know hopeful, eventual, strong, absolute, s3; reads know eventual, strong";
    UnknownNode NotFound Answer
        "no node has that id";
    UnknownRecovery NotFound Answer
        "this life of the cluster was not recovered";
    UserExists Conflict Answer
        "a user of that name exists";
    ValueTooLarge TooLarge Answer
        "a value has at most 1 MiB";
    WrongGeneration Conflict ClusterReplaced
        "the cluster was deleted and created again meanwhile; nodes look it up again by themselves";
    WrongPartition Conflict PartitionMoved
        "the key's partition has moved; nodes handle this among themselves";
    WrongShard Conflict ShardMoved
        "the key's shard has split or merged; nodes handle this among themselves";
}

impl ErrorCode {
    /// Whether the write can have taken effect.
    pub const fn outcome(self) -> Outcome {
        match (self, self.kind()) {
            // This try was not applied, but an earlier one with the same id may have been.
            (ErrorCode::RequestIdExpired, _) | (_, ErrorKind::Unknown) => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }

    /// Whether the same request may succeed later without being changed.
    pub const fn retryable(self) -> bool {
        self.kind().retryable()
    }

    /// Whether it is no answer to a request but a way on: "later", or "not here any more". Replicas do not remember it:
    /// the retry with the same id must be able to succeed, here or where the key has gone.
    #[deny(clippy::wildcard_enum_match_arm)] // A new way of routing must be thought of here.
    pub const fn is_redirect(self) -> bool {
        let moved = match self.routing() {
            Routing::PartitionMoved | Routing::ShardMoved => true,
            Routing::PartitionSwitching | Routing::ShardSwitching => false,
            Routing::Answer | Routing::ClusterGone | Routing::ClusterReplaced => false,
        };
        moved || self.retryable()
    }

    /// Whether the write is committed, and only the level that was asked for is not known to be reached.
    pub const fn is_committed(self) -> bool {
        matches!(self, ErrorCode::CommittedNotAbsolute | ErrorCode::CommittedNotInBucket)
    }

    /// Whether a rule or a node cannot give a replica its place.
    pub const fn is_placement(self) -> bool {
        matches!(self, ErrorCode::PlacementRefused | ErrorCode::PlacementImpossible | ErrorCode::PlacementUnmet)
    }

    /// The HTTP status it travels with.
    pub const fn status(self) -> u16 {
        match self {
            ErrorCode::CertificateRequired | ErrorCode::ForeignPage | ErrorCode::UnknownHost => 403,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::S3(code) => code.status(),
            _ => self.kind().status(),
        }
    }

    /// The code as one that the S3 API defines.
    pub const fn s3(self) -> Option<S3ErrorCode> {
        match self {
            ErrorCode::S3(code) => Some(code),
            ErrorCode::InvalidRequest => Some(S3ErrorCode::InvalidRequest),
            ErrorCode::MethodNotAllowed => Some(S3ErrorCode::MethodNotAllowed),
            _ => None,
        }
    }

    /// The code of an HTTP answer with this status, by its text. None where this version has no such code.
    pub fn of_answer(status: u16, text: &str) -> Option<ErrorCode> {
        let exact = Self::OWN.iter().copied().find(|code| code.status() == status && code.has_text(text));
        exact.or_else(|| text.parse().ok())
    }

    fn has_text(self, text: &str) -> bool {
        self.as_str() == text || self.wire_text() == text
    }
}

/// Its kind and its text, in frames and in replicated answers.
impl Encode for ErrorCode {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.kind() as u8).string(self.wire_text());
    }

    /// A text that this version does not have, or has with another kind only, leaves the kind: [`ErrorCode::Other`], or
    /// the code of this kind that has its text.
    fn decode(input: &mut Reader) -> Result<ErrorCode, DecodeError> {
        let kind = ErrorKind::from_byte(input.u8("error kind")?).ok_or(DecodeError::Unknown("error kind"))?;
        let text = input.bytes("error code")?;
        let text = core::str::from_utf8(&text).map_err(|_| DecodeError::NotUtf8("error code"))?;
        let own = |text: &str| Self::OWN.iter().copied().find(|code| code.kind() == kind && code.has_text(text));
        let s3 = || S3ErrorCode::from_name(text).filter(|code| code.kind() == kind).map(ErrorCode::S3);
        // Passed on, it has the text of `Other`: that is the same code then as now.
        let other = || own(ErrorCode::Other(kind).as_str()).unwrap_or(ErrorCode::Other(kind));
        Ok(own(text).or_else(s3).unwrap_or_else(other))
    }
}

impl From<S3ErrorCode> for ErrorCode {
    fn from(code: S3ErrorCode) -> ErrorCode {
        match code {
            S3ErrorCode::InvalidRequest => ErrorCode::InvalidRequest,
            S3ErrorCode::MethodNotAllowed => ErrorCode::MethodNotAllowed,
            code => ErrorCode::S3(code),
        }
    }
}

/// A text that is no error code of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no error code of this version; docs/guides/api/errors.md lists them")
    }
}

impl core::error::Error for UnknownCode {}

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    /// By its text alone: of several codes with one text, the usual one.
    fn from_str(text: &str) -> Result<ErrorCode, UnknownCode> {
        let own = Self::OWN.iter().copied().find(|code| code.has_text(text));
        own.or_else(|| S3ErrorCode::from_name(text).map(ErrorCode::S3)).ok_or(UnknownCode)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
