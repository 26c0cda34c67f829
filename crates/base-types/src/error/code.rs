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
        "this world does not check who its clients are (`access.required` is off), so users, roles and tokens would have no effect: turn it on in every `node.toml`, or use `hive dev --secure`";
    AlreadyAMember Conflict Answer
        "the node has a replica of this cluster already: name another node";
    BatchCrossesClusters Invalid Answer
        "the keys of a `KvBatch` live in more than one cluster; a batch is atomic in one only: send a batch for each cluster";
    BodyTooLarge TooLarge Answer
        "the body is longer than `limits.body_bytes_max` (4 MiB): send several requests, or raise the limit";
    BucketClosing Unavailable ShardSwitching
        "the bucket is being deleted; nodes handle this by themselves: if you see it, retry";
    CertificateRequired Invalid Answer
        "the port answers clients that show a user's certificate, and none was shown, or one that names no user: show one that `hive ca issue --user` made; see [TLS](../operations/tls.md)";
    ClusterExists Conflict Answer
        "a cluster of that name exists: choose another name, or delete it first";
    CommittedNotAbsolute Unknown Answer
        "an absolute write is committed, but a member had not synced it at the deadline: start the member that the message names, and repeat the write only with its `request_id`; see [Levels](README.md#levels)";
    CommittedNotInBucket Unknown Answer
        "an `s3` write is committed, but no bucket had it at the deadline: check that the object store answers, and repeat the write only with its `request_id`; see [Levels](README.md#levels)";
    ConditionFailed Precondition Answer
        "`KvCompareAndSet`: the key has another value than `expected`: read it again, then retry with what is there";
    ConfigClusterSilent Unavailable Answer
        "the configuration cluster does not answer; nodes handle this by themselves: if you see it, retry";
    Conflict Conflict Answer
        "something changed meanwhile; read again and retry";
    CorruptCommand Invalid Answer
        "a command in a cluster's log cannot be read; call the operator";
    DeadlineExceeded Unavailable Answer
        "the node had no answer within `deadline_ms`, or was too busy to begin; if it was a write, it was not done: retry, or allow a longer `deadline_ms`";
    DirectoryStale Unavailable Answer
        "this node has not heard from the world's directory of users for longer than `access.stale_limit_hours`: ask another node, or repair the world's clusters";
    DiskFailed Unavailable Answer
        "the node's log could not be written, and it takes no writes any more: ask another node, and replace the disk";
    DiskFull Full Answer
        "the node's disk has less than `limits.disk_free_bytes_min` left: free space, or add a node";
    DuplicateField Invalid Answer
        "a field is given twice: give it once";
    DuplicateNode Conflict Answer
        "two nodes claim one id: give the new one an `id` of its own";
    EmptyKey Invalid Answer
        "the key is empty: give it at least one byte";
    EndedLifeKept Conflict Answer
        "the node keeps data of an ended life of this cluster: discard it (`DiscardEnded`), or name another node";
    ForeignPage Invalid Answer
        "a page of another site may have caused the request: send it from a program, not from a browser; see [Browsers](limits.md#browsers)";
    GroupExists Conflict Answer
        "a group of that name exists: choose another name, or change it (`replace`, `--replace`)";
    Internal Internal Answer
        "a bug: report it with the message";
    CorruptDocument = "Internal" Corrupt Answer
        "a keyspace's document or reshard is damaged: call the operator with the message";
    InvalidClusterName Invalid Answer
        "the cluster's name is not valid: write `backend/backend@anything`, for example `metadata@users`";
    InvalidField Invalid Answer
        "a field has a value of the wrong kind: send the kind that the message names";
    InvalidKeyspace Invalid Answer
        "the keyspace's name, partitions, clusters or split keys are not valid: correct the one that the message names";
    UnnamableCluster = "InvalidKeyspace" Internal Answer
        "a keyspace's name makes no valid cluster name; a bug: report it with the message";
    InvalidRequest Invalid Answer
        "the body is JSON, but no action: send an object with `action`";
    InvalidRule Invalid Answer
        "the rule has a word or a value that is not valid: correct the one that the message names";
    KeyNotFound NotFound Answer
        "a put keeps the value or lease that its key has, and the key is not there: put it with value and lease";
    KeyTooLarge TooLarge Answer
        "the key is longer than 1,024 bytes: give a shorter one";
    KeyTooLong = "KeyTooLarge" Invalid Answer
        "the key is longer than 1,024 bytes, and the door refused it before any cluster saw it: give a shorter one";
    KeyspaceExists Conflict Answer
        "a keyspace of that name exists: choose another name, or delete it first";
    LeaderLives Conflict Answer
        "`RecoverCluster`: a survivor follows a leader that it is connected to, so the cluster serves: look at `hive ctl cluster show`, and retry if that leader dies";
    LeaseExists Conflict Answer
        "a lease of that number exists: choose another number";
    LevelZero Invalid Answer
        "`RecoverCluster`: a region's cluster is recovered through a node of that region: ask one";
    LimitOutOfRange Invalid Answer
        "a number or a list is outside its limits: give one inside the limits that the message names";
    WorldFull = "LimitOutOfRange" Full Answer
        "the world has as many nodes as it may have: forget nodes that are gone for good (`hive ctl node remove`)";
    MajorityLives Conflict Answer
        "`RecoverCluster`: a majority of the voters answers with whole logs, and elects a leader by itself: wait, and look at `hive ctl cluster show`";
    Malformed Invalid Answer
        "the HTTP request itself is malformed: correct what the message names";
    MalformedJson Invalid Answer
        "the body is not JSON, or nests too deep: correct it at the line and column that the message names";
    MemberUp Conflict Answer
        "`RecoverCluster`: a member did not answer, but the world hears from its node, so the member is cut off, stuck, or has just died: wait, ask through another node, or stop that node for good";
    MembershipChangePending Conflict Answer
        "another node is joining the cluster: wait until that is done, then retry";
    MembershipChangeRunning = "MembershipChangePending" Unavailable Answer
        "another change of members is under way: wait until it is done, then retry";
    MethodNotAllowed Invalid Answer
        "the route takes another method: use the one that the message names";
    MissingField Invalid Answer
        "a needed field is absent: add it";
    NewLifeSilent Conflict Answer
        "`DiscardEnded`: the new life has no leader, so what is kept may be all there is: retry when `hive ctl cluster show` shows a leader";
    NoArchiveReplica @ "NoDurableTail" Invalid Answer
        "a write at `s3` on a cluster of which no member that answers keeps it in a bucket, so nothing was written: add a node with `engine.object.url`, or use another level";
    NoArchiveReplicaYet = "NoArchiveReplica" @ "NoDurableTail" Unavailable Answer
        "a write at `s3`: the leader is new and does not know yet whether a member keeps the cluster in a bucket: retry";
    NoLeader Unavailable Answer
        "the cluster has no leader now: retry, and start its members that are down";
    NoSuchGroup NotFound Answer
        "there is no group of that name; `hive group list` (ListGroups) lists them";
    NoSuchLease NotFound Answer
        "there is no lease of that number, or its time is over: grant one";
    NoSuchPin NotFound Answer
        "there is no pin of that number, or its time is over: pin again";
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
        "`RecoverCluster`: no node that answers has a whole log of the cluster's present life: start the nodes that held it, or restore a backup";
    NodeDown Conflict Answer
        "`DiscardEnded`: the node is down and may come back: start it, or forget it first";
    NotAMember Invalid Answer
        "the node has no replica of this cluster, or no voting one: name a member (`DescribeCluster` lists them)";
    NoSuchMember = "NotAMember" NotFound Answer
        "the node that the change names is no member of this cluster: name a member (`DescribeCluster` lists them)";
    NotConfirmed Invalid Answer
        "`RecoverCluster`: `confirm` is not the cluster's name: write the name exactly";
    NotEqual Conflict Answer
        "a shard's copy is not equal yet; nodes handle this by themselves: if you see it, retry";
    NotFound NotFound Answer
        "there is no such route, or no such verification: `GET /` lists the routes; begin a new verification without `run`";
    NotLeader Unavailable Answer
        "another node leads; nodes handle this by themselves: if you see it, retry";
    NotQuarantined Conflict Answer
        "`SkipEntry`: the cluster's leader is not stopped at that entry: name the entry that `hive ctl status` names";
    NotReady Unavailable ShardSwitching
        "the node has not joined its world yet (`/ready` says what is missing), or a keyspace is being created: retry in a moment";
    NotInState = "NotReady" Conflict ShardSwitching
        "the cluster or shard is not in the state that the request needs: read it again, and retry when it is in the state that the message names";
    NoShardMap = "NotReady" NotFound ShardSwitching
        "the bucket's map has not been made yet; nodes handle this by themselves: if you see it, retry";
    NothingKept NotFound Answer
        "`DiscardEnded`: the node keeps nothing of an ended life of this cluster: `hive ctl recover` lists which nodes do";
    OutcomeUnknown Unknown Answer
        "the write may have happened: read the key, or repeat the write with the same `request_id`";
    Overloaded Overloaded Answer
        "too much is under way on this core, or a cluster remembers as many request ids as it may: back off and retry";
    PartitionMoving Unavailable PartitionSwitching
        "a reshard moves the key's partition; nodes handle this by themselves: if you see it, retry";
    PermissionDenied Forbidden Answer
        "the user may not do this: ask for a role that allows it (`hive user grant`)";
    PermissionsChanged Unavailable Answer
        "what the user may do changed while the request was under way, and nothing was done: retry";
    PlacementRefused Conflict Answer
        "a node cannot take the replica, or no other node can: do what the message names, then retry";
    PlacementImpossible = "PlacementRefused" Invalid Answer
        "the nodes of this world cannot meet the rule: add the nodes that the message says are missing, or change the rule";
    PlacementUnmet = "PlacementRefused" Unavailable Answer
        "the nodes that are up cannot meet the rule: start the nodes that the message names, then retry";
    Quarantined Corrupt Answer
        "the cluster is stopped at an entry that no replica can apply: `hive ctl cluster skip`";
    QuorumAtRisk Unavailable Answer
        "the change would leave the cluster without a majority that is up: start its members that are down first";
    LastVoter = "QuorumAtRisk" Invalid Answer
        "the node holds the cluster's only voter: add a member first, or delete the cluster";
    ReadOnly Invalid Answer
        "`hive attach` only reads: send the write to a node of the world";
    ReplicaDamaged Corrupt Answer
        "the replica is damaged and is being rebuilt: retry through another node";
    ReplicaRotted = "ReplicaDamaged" Conflict Answer
        "the records of an earlier replica rotted on the node, and a new one cannot take its place: name another node";
    ReplicaUnreadable = "ReplicaDamaged" Unavailable Answer
        "`hive attach`: the replica's copy in the bucket cannot be read now: retry, and check that the object store answers";
    RequestIdExpired Conflict Answer
        "whether the write of this `after:` id was applied is no longer known, or the id is of another cluster; this attempt was not applied, an earlier one may have been: read the key";
    ReshardRunning Conflict Answer
        "a reshard of this keyspace is under way: wait until it is done (`DescribeKeyspace` shows its progress)";
    RoleExists Conflict Answer
        "a role of that name exists: choose another name, or change its rules with `replace` (`--replace`)";
    ShardFrozen Unavailable ShardSwitching
        "a bucket's shard is being switched; nodes handle this by themselves: if you see it, retry";
    ShuttingDown Unavailable Answer
        "the node is stopping: ask another";
    StampCompacted Invalid Answer
        "history of this stamp was given up by a compaction: read at the stamp that the message names, or later";
    StampInFuture Invalid Answer
        "no commit of this stamp has been made yet: read at the newest (0)";
    StaleRoute Unavailable Answer
        "a route was out of date; nodes handle this by themselves: if you see it, retry";
    Superseded Unavailable Answer
        "this node belongs to an earlier incarnation of the world, which was restored since: ask a node of the restored world, and stop this one";
    SurvivorChanged Conflict Answer
        "`RecoverCluster`: another survivor than `survivor` is best by now: look again at what may be lost, then name that one";
    SurvivorGone Conflict Answer
        "the replica that was chosen as survivor is no longer on its node: begin again with a survey (`hive ctl recover`)";
    SurvivorUnfit Conflict Answer
        "the replica that was chosen as survivor cannot begin the new life any more: begin again with a survey (`hive ctl recover`)";
    Syntax Invalid Answer
        "a Redis command has wrong arguments: correct those that the message names";
    TenantExists Conflict Answer
        "a tenant of that name exists: choose another name";
    TenantHasUsers Conflict Answer
        "the tenant has users: delete them first (`hive user list --tenant`)";
    TooManyMembers Invalid Answer
        "the cluster would have more members than one may, which the message names: remove one first";
    TooManyRecoveries Conflict Answer
        "a cluster was recovered 8 times and data of all its ended lives is kept: discard some";
    TransactionTooLarge TooLarge Answer
        "a transaction has, changes, reads or answers more than one may: make several of it";
    Unauthenticated Unauthenticated Answer
        "the request has no credential, or one that is not valid: send `Authorization: Bearer` with a token (`hive token create`)";
    UnknownAction Invalid Answer
        "there is no action of that name: [the index](README.md) lists them";
    UnknownBackend Invalid Answer
        "the cluster has no such backend: use one that its name lists";
    UnknownCluster NotFound ClusterGone
        "there is no cluster of that name: `hive ctl clusters` (`ListClusters`) lists them";
    UnknownCommand Invalid Answer
        "the backend has no such command: use one that [Redis](redis.md) lists";
    UnknownEngine Invalid Answer
        "no node offers that engine: use one that the message lists, or start nodes with a build that has it";
    UnknownField Invalid Answer
        "the action has no such field: use the fields that the message lists";
    UnknownHost Invalid Answer
        "the `Host` is no name of this node: use its IP address, or add the name to `http.names`; see [Browsers](limits.md#browsers)";
    UnknownKeyspace NotFound Answer
        "there is no keyspace of that name: create it first (`hive ctl keyspace list` lists them)";
    UnknownLevel Invalid Answer
        "there is no such level: use hopeful, eventual, strong, absolute or s3 for writes, eventual or strong for reads";
    OtherNode Invalid Answer
        "the action concerns the node that is asked, and this is another one: ask the node itself, at the address that the message names; `hive ctl node` finds it";
    UnknownNode NotFound Answer
        "no node has that id: `hive ctl nodes` (`ListNodes`) lists them";
    UnknownRecovery NotFound Answer
        "this life of the cluster was not recovered: `hive ctl recover` (`ListRecoveries`) lists those that were";
    UserExists Conflict Answer
        "a user of that name exists: choose another name";
    ValueTooLarge TooLarge Answer
        "the value is longer than 1 MiB: give a shorter one, or put it as an S3 object";
    WrongGeneration Conflict ClusterReplaced
        "the cluster was deleted and created again meanwhile; nodes look it up again by themselves";
    WrongPartition Conflict PartitionMoved
        "the key's partition has moved; nodes handle this by themselves: if you see it, retry";
    WrongShard Conflict ShardMoved
        "the key's shard has split or merged; nodes handle this by themselves: if you see it, retry";
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
