//! Commands and queries of a shard, with their byte forms (docs/formats/s3-rows.md).
//!
//! Not here: what a command does (`objects.rs`, `reshard.rs`), what a query finds (`list.rs`, `index.rs`).

use super::growth::GrowthInfo;
use crate::freed::Freed;
use crate::memory::{Carried, MemoryPage};
use crate::wire::{wire_enum, wire_struct};
use base_types::s3::{Version, VersionStamp};
use base_types::Refusal;
use bytes::Bytes;

/// The most items one page of a listing has.
pub const LIST_ITEMS_MAX: u32 = 10_000;
/// The bytes after which a page of a listing ends early.
pub const LIST_BYTES_MAX: usize = 4 << 20;
/// The longest delimiter.
pub const DELIMITER_BYTES_MAX: usize = 1024;
/// The most keys one batch delete names (S3: 1000).
pub const DELETE_KEYS_MAX: usize = 1000;
/// The most parts a bucket or shard is cut into by one question.
pub const CUT_PARTS_MAX: u32 = 4096;
/// The most places one question names, and the most versions looked at for it.
pub const NAMES_MAX: usize = 256;
pub const NAMES_VERSIONS_MAX: usize = 4096;
/// The most snapshots of one shard that are pinned at a time.
pub const PINS_MAX: usize = 128;
/// The longest a snapshot is pinned.
pub const PIN_MS_MAX: u64 = 4 * 60 * 60 * 1000;
/// The longest a freeze may last before writes break it.
pub const FREEZE_MS_MAX: u64 = 10_000;
/// The most shards one is split into, or merged from.
pub const PEERS_MAX: usize = 8;
/// The most rows one export page, import, feed page, sweep or digest step has.
pub const STEP_ROWS_MAX: u32 = 4096;
/// The bytes after which an export or feed page ends early (one row may exceed it).
pub const STEP_BYTES_MAX: usize = 2 << 20;

wire_struct! {
    /// A range of keys: `start` inclusive, `end` exclusive, `None` without end.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Range {
        pub start: Bytes,
        pub end: Option<Bytes>,
    }
}

impl Range {
    /// Whether a key lies inside.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether all of `inner` lies inside.
    pub fn covers(&self, inner: &Range) -> bool {
        let ends = match (&self.end, &inner.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => inner <= outer,
        };
        self.start <= inner.start && ends
    }

    /// What both have, where they have something.
    pub fn meet(&self, other: &Range) -> Option<Range> {
        let start = self.start.clone().max(other.start.clone());
        let end = match (&self.end, &other.end) {
            (Some(one), Some(two)) => Some(one.min(two).clone()),
            (one, two) => one.clone().or_else(|| two.clone()),
        };
        let empty = end.as_ref().is_some_and(|end| *end <= start);
        (!empty).then_some(Range { start, end })
    }
}

wire_struct! {
    /// Another shard that takes part in a split or merge.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Peer {
        /// Its number in the bucket.
        pub shard: u64,
        pub epoch: u64,
        pub range: Range,
    }
}

wire_enum! {
    /// A bucket's versioning, as the bucket's own record has it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Versioning {
        /// Never switched on.
        1 => Unversioned,
        2 => Enabled,
        3 => Suspended,
    }
}

wire_enum! {
    /// What an ETag must be.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum EtagTest {
        /// `*`: any, but the object must be there.
        1 => Any,
        /// One of these.
        2 => OneOf { etags: Vec<String> },
    }
}

wire_struct! {
    /// Conditions on the current version. Times are Unix milliseconds.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Condition {
        pub if_match: Option<EtagTest>,
        pub if_none_match: Option<EtagTest>,
        pub if_modified_since: Option<u64>,
        pub if_unmodified_since: Option<u64>,
        /// Exactly this size (delete only).
        pub if_size: Option<u64>,
        /// Modified in exactly this second (delete only).
        pub if_modified_at: Option<u64>,
    }
}

wire_struct! {
    /// One version to remove, or a marker to set.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DeleteStep {
        pub key: Bytes,
        /// `Current`: a delete without a version id.
        pub version: Version,
        pub condition: Condition,
    }
}

wire_struct! {
    /// What deletes of one request share.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DeleteTerms {
        pub epoch: u64,
        pub versioning: Versioning,
        pub at_unix_ms: u64,
        /// The caller may pass over GOVERNANCE retention, and asked to.
        pub bypass_governance: bool,
        /// The bucket wants a second factor for removing versions, and the caller gave none.
        pub mfa_missing: bool,
        /// Told of markers this makes; absent: the bucket's owner.
        pub owner: Option<Bytes>,
    }
}

wire_struct! {
    /// A version put by `Put`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PutStep {
        pub epoch: u64,
        pub key: Bytes,
        pub versioning: Versioning,
        pub at_unix_ms: u64,
        /// A [`base_types::s3::Document`].
        pub document: Bytes,
        pub inline: Option<Bytes>,
        pub condition: Condition,
        /// Put, or refused, at most once under this token, until `Forget`: completions of uploads.
        pub once: Option<u128>,
        /// The data store's intent ends then (Unix ms): a later put is refused `RequestTimeout`.
        pub data_expires_ms: Option<u64>,
    }
}

wire_struct! {
    /// What this shard alone may hold behind a put: a bucket's quota, without what other shards and open uploads hold.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Bounds {
        /// Keys with a current version; a put over one that is there makes no more of them.
        pub keys_max: Option<u64>,
        /// Bytes of all versions.
        pub bytes_max: Option<u64>,
    }
}

wire_enum! {
    /// A change. `epoch` is the one the sender read in the bucket's map.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Command {
        /// An object's next version.
        1 => Put { step: PutStep },
        /// A delete; replies `Deleted`.
        2 => Delete { terms: DeleteTerms, step: DeleteStep },
        /// Deletes, each with an outcome of its own. Nobody sends it any more; logs of earlier builds may hold it.
        3 => DeleteMany { terms: DeleteTerms, steps: Vec<DeleteStep> },
        /// Sets or removes fields of a version's document.
        4 => Update {
            epoch: u64, key: Bytes, version: Version, changes: Vec<(u16, Option<Bytes>)>,
            at_unix_ms: u64, bypass_governance: bool, condition: Condition,
        },
        /// The token of a `Put` is no longer needed.
        5 => Forget { epoch: u64, key: Bytes, token: u128 },
        /// As `DeleteMany`, each key with a request id of its own (`each.rs`).
        6 => DeleteEach { terms: DeleteTerms, steps: Vec<DeleteStep>, ids: Vec<u128> },
        /// As `Put`, refused `QuotaExceeded` where the shard would hold more than this by it.
        7 => PutWithin { step: PutStep, bounds: Bounds },

        /// An empty shard that serves.
        16 => Create { epoch: u64, range: Range },
        /// An empty shard that takes rows of others.
        17 => PrepareImport { epoch: u64, range: Range, sources: Vec<Peer> },
        /// Rows of the source of this place; `expected` and `cursor` as in [`ImportCursor`].
        18 => Import { epoch: u64, source: u16, expected: ImportCursor, cursor: ImportCursor, rows: Vec<(Bytes, Option<Bytes>)> },
        /// The new shard serves. `stamp_floor`: the greatest stamp a source ever gave, so that no id comes back.
        19 => Activate { epoch: u64, stamp_floor: u64 },
        /// Every write from now on is doubled to these.
        20 => BeginSplit { epoch: u64, targets: Vec<Peer> },
        /// The split is given up.
        21 => AbortSplit { epoch: u64 },
        /// Adds the next rows to the digest that proves both sides equal.
        22 => Digest { epoch: u64, limit: u32 },
        /// Writes wait for so long at most.
        23 => Freeze { epoch: u64, lease_ms: u32 },
        24 => Unfreeze { epoch: u64 },
        /// Gives the range up for good if nothing changed since `feed` and the digests are equal.
        25 => CutOver { epoch: u64, feed: u64, digests: Vec<RangeDigest> },
        /// Becomes a shard of this epoch that ends behind the greatest key it was ever told to write. Rows stay.
        27 => Narrow { epoch: u64, next: u64 },
        /// Forgets rows of a shard that is retired or given up, when no snapshot needs it; or now.
        26 => Drop { epoch: u64, limit: u32, force: bool },

        /// First half of a snapshot of the bucket: writes wait, so that all shards stand still at one moment.
        32 => PinPrepare { epoch: u64, pin: u128, freeze_ms: u32, keep_ms: u64 },
        /// Second half: the snapshot stands.
        33 => PinCommit { pin: u128 },
        34 => Unpin { pin: u128 },
        /// Removes history that no snapshot needs.
        35 => Sweep { limit: u32 },

        /// Serves nobody from now on, if it holds no version and no marker: the bucket is about to go.
        36 => Close { epoch: u64 },
        /// The bucket stays: serves again.
        37 => Reopen { epoch: u64 },
        /// Freed data as far as this sequence has been handed on; replies `Dropped`.
        38 => ForgetFreed { until: u64 },
        /// A shard that takes over keys remembers requests that a source has applied, before it serves.
        48 => Remember { epoch: u64, ids: Vec<Carried> },
    }
}

/// The first bytes of client's commands, of `Remember`, and of the query `Remembered`.
pub(super) const OF_CLIENTS: core::ops::RangeInclusive<u8> = 1..=7;
pub(super) const DELETE: u8 = 2;
pub(super) const DELETE_EACH: u8 = 6;
/// Those that begin with an epoch and a key: a put, with bounds or without, an update, the end of a token.
pub(super) const KEY_BEHIND_EPOCH: [u8; 4] = [1, 4, 5, 7];
pub(super) const REMEMBER: u8 = 48;
pub(super) const REMEMBERED: u8 = 16;

wire_struct! {
    /// How far an import has come; kept with the rows, so that a copy that comes late changes nothing.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct ImportCursor {
        /// The last row copied.
        pub after: Bytes,
        /// All rows were copied once; the feed is left.
        pub copied: bool,
        /// The feed sequence taken over.
        pub feed: u64,
    }
}

wire_struct! {
    /// What a range holds, in sixteen bytes that do not depend on the order rows came in.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct RangeDigest {
        pub range: Range,
        pub sum: u128,
        pub rows: u64,
    }
}

wire_enum! {
    /// Where a listing begins.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum ListStart {
        1 => Beginning,
        /// Behind a key; where the key is itself a common prefix of this listing, behind all it covers.
        2 => After { key: Bytes },
        /// Behind everything with this prefix.
        3 => AfterPrefix { prefix: Bytes },
        /// Behind a version of a key (versions only).
        4 => AfterVersion { key: Bytes, version: Version },
    }
}

wire_struct! {
    /// Which keys a listing returns.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Listing {
        pub epoch: u64,
        pub prefix: Bytes,
        /// Empty: none.
        pub delimiter: Bytes,
        pub start: ListStart,
        pub limit: u32,
        /// As of this snapshot.
        pub pin: Option<u128>,
    }
}

wire_enum! {
    /// A question.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Query {
        1 => Get { epoch: u64, key: Bytes, version: Version, inline: bool, condition: Condition },
        2 => List { listing: Listing },
        3 => ListVersions { listing: Listing },
        /// Exactly how much there is with this prefix.
        4 => Count { epoch: u64, prefix: Bytes, pin: Option<u128> },
        /// Keys that cut this shard into even parts, by keys or (`by_rows`) by rows.
        5 => CutPoints { epoch: u64, parts: u32, by_rows: bool },
        6 => Describe,
        /// Keys that part the writes of the last minutes evenly; none where that cannot be told.
        11 => LoadCuts { epoch: u64, parts: u32 },
        /// Rows of a range behind `after`, for a new shard.
        7 => Export { epoch: u64, range: Range, after: Bytes, bytes_max: u32 },
        /// What changed in a range since a sequence.
        8 => Feed { epoch: u64, range: Range, after: u64, limit: u32 },
        /// The oldest freed data behind a sequence, whatever state the shard is in; only what is `aged_ms` old: a reader may still be at it.
        9 => Freed { after: u64, limit: u32, aged_ms: u64 },
        /// Which of these places a version of the key names, of those behind `after`.
        10 => Names { epoch: u64, key: Bytes, after: Option<VersionStamp>, locations: Vec<Bytes> },
        /// Which requests on objects were applied, in entries behind `after`. The cluster itself answers it.
        16 => Remembered { after: u64 },
    }
}

wire_struct! {
    /// How much there is. `bytes` is of all versions, `current_bytes` of the newest.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Totals {
        pub keys: u64,
        pub current_bytes: u64,
        pub versions: u64,
        pub markers: u64,
        pub bytes: u64,
    }
}

impl Totals {
    /// Both together.
    pub fn plus(&self, other: &Totals) -> Totals {
        Totals {
            keys: self.keys.wrapping_add(other.keys),
            current_bytes: self.current_bytes.wrapping_add(other.current_bytes),
            versions: self.versions.wrapping_add(other.versions),
            markers: self.markers.wrapping_add(other.markers),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// What is left without `other`.
    pub fn minus(&self, other: &Totals) -> Totals {
        Totals {
            keys: self.keys.wrapping_sub(other.keys),
            current_bytes: self.current_bytes.wrapping_sub(other.current_bytes),
            versions: self.versions.wrapping_sub(other.versions),
            markers: self.markers.wrapping_sub(other.markers),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }

    /// Rows of the version table.
    pub fn rows(&self) -> u64 {
        self.versions.wrapping_add(self.markers)
    }
}

wire_enum! {
    /// One line of a listing.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Item {
        /// `fields`: the document's fields that listings tell.
        1 => Object { key: Bytes, stamp: VersionStamp, null: bool, fields: Bytes },
        2 => Version { key: Bytes, stamp: VersionStamp, null: bool, marker: bool, latest: bool, fields: Bytes },
        3 => Prefix { prefix: Bytes },
    }
}

wire_enum! {
    /// Where a shard is in its life.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum ShardState {
        1 => Serving,
        /// Serves, and doubles writes.
        2 => Splitting,
        /// Takes rows; serves nobody.
        3 => Importing,
        /// Given up to its peers; answers only snapshots.
        4 => Retired,
        /// Rows gone; stays as a mark that this epoch never comes back.
        5 => Dropped,
        /// Empty, and serves nobody while its bucket is being deleted.
        6 => Closed,
    }
}

wire_struct! {
    /// A pinned snapshot.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PinInfo {
        pub pin: u128,
        /// Cluster time.
        pub expires_ms: u64,
        /// It stands; else writes are still held for it.
        pub committed: bool,
    }
}

wire_struct! {
    /// What a shard reports of itself.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ShardInfo {
        pub state: ShardState,
        pub epoch: u64,
        pub range: Range,
        pub totals: Totals,
        /// Targets of a split, sources of an import.
        pub peers: Vec<Peer>,
        pub cursors: Vec<ImportCursor>,
        /// The last feed sequence.
        pub feed: u64,
        /// The greatest version stamp given or taken over.
        pub last_stamp: u64,
        /// Writes wait (and a snapshot or a cut-over may be under way).
        pub frozen: bool,
        /// One for each peer, once all rows are summed up.
        pub digests: Option<Vec<RangeDigest>>,
        pub pins: Vec<PinInfo>,
        pub history_rows: u64,
        /// Rows of freed data that wait to be collected.
        pub freed_rows: u64,
        pub growth: GrowthInfo,
    }
}

wire_enum! {
    /// What a delete came to.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Deleted {
        /// Nothing was there.
        1 => Nothing,
        /// A version is gone.
        2 => Removed { stamp: VersionStamp, null: bool, marker: bool },
        /// A marker stands in front.
        3 => Marked { stamp: VersionStamp, null: bool },
    }
}

wire_enum! {
    /// What a command or query comes to.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Reply {
        1 => Done,
        /// `modified_ms`: the time of the version; a stamp may be older, where it was written over in place.
        2 => Put { stamp: VersionStamp, null: bool, modified_ms: u64 },
        3 => Deleted { deleted: Deleted },
        4 => DeletedMany { outcomes: Vec<Result<Deleted, Refusal>> },
        5 => Updated { stamp: VersionStamp, null: bool },
        6 => Object { stamp: VersionStamp, null: bool, latest: bool, document: Bytes, inline: Option<Bytes> },
        /// What was asked for is a delete marker; `latest`: as the current version.
        7 => Marker { stamp: VersionStamp, null: bool, latest: bool, document: Bytes },
        /// A read's condition says that the client has it already.
        8 => NotModified { stamp: VersionStamp, null: bool, document: Bytes },
        9 => Page { items: Vec<Item>, more: bool },
        10 => Count { totals: Totals },
        11 => CutPoints { keys: Vec<Bytes> },
        12 => Shard { info: ShardInfo },
        13 => Rows { rows: Vec<(Bytes, Bytes)>, more: bool },
        14 => Feed { rows: Vec<(Bytes, Option<Bytes>)>, reached: u64, more: bool },
        15 => Dropped { more: bool },
        16 => Freed { rows: Vec<Freed>, more: bool },
        /// `after`: where the next query begins, if not all versions were looked at.
        17 => Named { locations: Vec<Bytes>, after: Option<VersionStamp> },
        /// The put was refused under its token, and is so for good.
        18 => PutRefused { refusal: Refusal },
        32 => Remembered { page: MemoryPage },
    }
}
