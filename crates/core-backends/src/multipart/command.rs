//! Commands and queries of the multipart backend (docs/formats/s3-rows.md).

use crate::freed::Freed;
use crate::wire::{wire_enum, wire_struct};
use bytes::Bytes;

pub use base_types::s3::{OBJECT_BYTES_MAX, PART_BYTES_MIN, PUT_BYTES_MAX as PART_BYTES_MAX};

/// The most parts an upload has, and the greatest part number.
pub const PARTS_MAX: u32 = base_types::s3::PART_NUMBER_MAX;

/// The most lines one page of uploads or parts has.
pub const UPLOADS_PAGE_MAX: u32 = 1000;
/// What a part may tell beside its ETag: checksums and where its data is.
pub const PART_DETAIL_BYTES_MAX: usize = 8 << 10;

wire_struct! {
    /// A part, as it was uploaded or copied.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Part {
        pub number: u32,
        pub etag: String,
        pub size: u64,
        pub at_unix_ms: u64,
        /// Checksums, for the edge.
        pub checksums: Bytes,
        /// Where the data store has it; opaque here. Empty: its bytes were given inline.
        pub location: Bytes,
    }
}

wire_struct! {
    /// A part as a completion names it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PartName {
        pub number: u32,
        pub etag: String,
    }
}

wire_enum! {
    /// Where an upload is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum UploadState {
        1 => Open,
        /// Its parts are chosen; the object is being put. Only `Finish` or `Reopen` end this.
        2 => Completing,
        /// Its object is there; kept for a while, so that a repeated completion hears the same.
        3 => Completed,
        /// Given up; data of its parts waits to be removed.
        4 => Aborted,
    }
}

wire_struct! {
    /// The version a completion came to: its stamp, whether it is null, its time.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Completed {
        pub stamp: u64,
        pub null: bool,
        pub modified_ms: u64,
    }
}

wire_struct! {
    /// An upload. Its id is `upload`, in the text form of `UploadId`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Upload {
        pub upload: u64,
        pub key: Bytes,
        pub state: UploadState,
        pub at_unix_ms: u64,
        /// The object's document as far as it is known when the upload begins.
        pub document: Bytes,
        pub initiator: Bytes,
        /// Parts and bytes there are now.
        pub parts: u32,
        pub bytes: u64,
        /// How often parts were chosen; each choice is put under a token of its own.
        pub attempts: u32,
        /// The parts a completion chose, and the ETag they come to.
        pub chosen: Vec<u32>,
        pub etag: String,
        pub size: u64,
        /// The completion's outcome, for a client that retries.
        pub outcome: Option<Completed>,
        /// Cluster time after which a closed upload is forgotten.
        pub forget_ms: u64,
    }
}

wire_enum! {
    /// A change.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Command {
        /// Begins an upload; replies `Upload`.
        1 => Create { key: Bytes, at_unix_ms: u64, document: Bytes, initiator: Bytes },
        /// A part, in the place of an earlier one of its number; replies `Part` with what was there.
        /// `data_expires_ms`: the data store's intent ends then; a later part is refused `RequestTimeout`.
        2 => PutPart { key: Bytes, upload: u64, part: Part, inline: Option<Bytes>, data_expires_ms: Option<u64> },
        /// Chooses the parts; replies `Completion` with all that the object's put needs.
        3 => BeginComplete { key: Bytes, upload: u64, parts: Vec<PartName> },
        /// The object is there.
        4 => Finish { key: Bytes, upload: u64, outcome: Completed },
        /// The put of this attempt was refused for good (a condition): parts may be put and chosen again.
        5 => Reopen { key: Bytes, upload: u64, attempt: u32 },
        6 => Abort { key: Bytes, upload: u64 },
        /// Removes rows of closed uploads that are due, up to `limit`; what no object names is then freed data.
        7 => Collect { limit: u32 },
        /// The bucket is about to go: no upload is begun, added to or completed any more.
        8 => Close,
        /// The bucket stays.
        9 => Unclose,
        /// Of a bucket that is closed and goes: ends every upload and frees its data, `limit` rows at a time.
        10 => AbortAll { limit: u32 },
        /// Freed data as far as this sequence has been handed on; replies `Removed`.
        11 => ForgetFreed { until: u64 },
    }
}

wire_enum! {
    /// A question.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Query {
        1 => Upload { key: Bytes, upload: u64 },
        /// Parts behind a number.
        2 => ListParts { key: Bytes, upload: u64, after: u32, limit: u32 },
        /// Open uploads by key, then by age; behind `key_marker`, or behind `upload_marker` of that key.
        3 => ListUploads { prefix: Bytes, delimiter: Bytes, key_marker: Bytes, upload_marker: Option<u64>, limit: u32 },
        /// Open uploads begun before a time, oldest first, behind one of them: for lifecycle rules.
        4 => Older { before_unix_ms: u64, after: u64, limit: u32 },
        /// How many uploads are open, and what their parts hold.
        5 => Open,
        /// The oldest freed data behind a sequence; only what is `aged_ms` old: a reader may still be at it.
        6 => Freed { after: u64, limit: u32, aged_ms: u64 },
        /// Which of these places a part of an open (or completing) upload of the key names, behind (upload, part).
        7 => Names { key: Bytes, after: Option<(u64, u32)>, locations: Vec<Bytes> },
        /// Closed uploads that `Collect` takes next, whose tokens the shards may still keep.
        8 => Due { limit: u32 },
        /// What there is to tidy.
        9 => Upkeep,
    }
}

wire_enum! {
    /// One line of a listing of uploads.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum UploadItem {
        1 => Upload { key: Bytes, upload: u64, at_unix_ms: u64, document: Bytes, initiator: Bytes },
        2 => Prefix { prefix: Bytes },
    }
}

wire_enum! {
    /// What a command or query comes to.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Reply {
        1 => Done,
        2 => Upload { upload: Upload },
        /// The location of the part that was put over: freed data now.
        3 => Part { replaced: Option<Bytes>, at_unix_ms: u64 },
        /// `inline`: the bytes of the last part, where they were given inline. (No other part is so small.)
        4 => Completion { upload: Upload, parts: Vec<Part>, inline: Option<Bytes> },
        5 => Parts { parts: Vec<Part>, more: bool },
        6 => Uploads { items: Vec<UploadItem>, more: bool },
        7 => Removed { more: bool },
        8 => Open { uploads: u64, bytes: u64 },
        9 => Freed { rows: Vec<Freed>, more: bool },
        /// `after`: where the next query begins, if not all parts were looked at.
        10 => Named { locations: Vec<Bytes>, after: Option<(u64, u32)> },
        11 => Due { uploads: Vec<Due> },
        /// Closed uploads may be collected now (`due`), or will be (`waiting`); rows of freed data wait.
        12 => Upkeep { due: bool, waiting: bool, freed_rows: u64 },
    }
}

wire_struct! {
    /// A closed upload that is due, with the tokens it may have at the shard of its key.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Due {
        pub key: Bytes,
        pub upload: u64,
        pub attempts: u32,
    }
}

/// Under which token the shard puts what an attempt chose.
pub fn token(upload: u64, attempt: u32) -> u128 {
    u128::from(upload) << 32 | u128::from(attempt)
}

impl Command {
    /// Whether it adds to the uploads there are, so that a bucket being deleted refuses it.
    pub(super) fn is_adding(&self) -> bool {
        matches!(self, Command::Create { .. } | Command::PutPart { .. } | Command::BeginComplete { .. })
    }
}
