//! How a store is opened, and what a write waits for.
//!
//! Not here: what is written into the directory for good (`directory.rs`).

use std::time::Duration;

/// The longest key.
pub const KEY_BYTES_MAX: usize = base_types::KEY_BYTES_MAX;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = base_types::VALUE_BYTES_MAX;
/// The most that the keys and values of one batch come to: a batch is one record of a log.
pub const BATCH_BYTES_MAX: usize = base_types::COMMAND_BYTES_MAX;
/// The most cores of a store.
pub const CORES_MAX: u16 = 256;
/// The smallest segment that holds the largest batch.
pub const SEGMENT_BYTES_MIN: u64 = 8 << 20;
/// The least memory of a core: two of the largest batches.
pub(crate) const CORE_MEMORY_BYTES_MIN: u64 = 16 << 20;

/// What a write waits for. Either way all reads see it when it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Until it is in memory: a crash takes up to `Options::flush_every` of such writes.
    Weak,
    /// Until it is on the disk, synced.
    #[default]
    Strong,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make the store if the directory is empty or not there.
    pub create: bool,
    /// Cores that share the keys. Taken when the store is made (absent: one a processor) and fixed then;
    /// another number given later is refused.
    pub cores: Option<u16>,
    /// The engine the data rests in; fixed when the store is made (absent: lmdb).
    pub engine: Option<String>,
    /// What writes wait for that do not say.
    pub durability: Durability,
    /// How long a weak write may be in memory only.
    pub flush_every: Duration,
    /// At the latest after this time what is in memory goes to the engine too, so that the log can be cut.
    pub engine_every: Duration,
    /// Memory for what the engine does not hold yet, of all cores. The log keeps about as much again.
    pub memory_bytes_max: u64,
    /// The size of a log segment; each core has two spare ones.
    pub segment_bytes: u64,
    /// The most bytes a core's engine may grow to (lmdb: address space, taken at once; others: 0 is no bound).
    pub engine_bytes_max: u64,
    /// How long a write may wait for the disk before it is given up.
    pub wait_max: Duration,
    /// Give each core's thread a processor of its own, where there are enough.
    pub pin: bool,
    /// Open a store whose log has rotted: what is whole is kept, the rest is lost and told (`Store::notes`).
    pub accept_damage: bool,
}

impl Options {
    /// As `Options::default()`, but writes that do not say what they wait for are weak: they return once they are in
    /// memory, in about a microsecond.
    ///
    /// Promised: every read that begins after a write returned sees it. The write is on the disk, synced, within
    /// `flush_every` (a second) and the time that the disk takes to sync. After `flush` or `close` nothing written before can be lost. A
    /// batch is there whole or not at all, whatever happens.
    ///
    /// Lost when the process or the machine dies: of each core, the writes after its last flush. So a write may be lost
    /// and a later one to a key of another core kept; never an earlier one to the same key lost and a later one of the
    /// same thread kept. When a disk fails, the writes that it had not synced are lost, and every call after that says so.
    ///
    /// One write that must not be lost says `Durability::Strong` (`Store::put_with`); it waits for the writes before it
    /// to its core, too.
    pub fn weak() -> Options {
        Options { durability: Durability::Weak, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create: true,
            cores: None,
            engine: None,
            durability: Durability::Strong,
            flush_every: Duration::from_secs(1),
            engine_every: Duration::from_secs(10),
            memory_bytes_max: 256 << 20,
            segment_bytes: SEGMENT_BYTES_MIN,
            engine_bytes_max: 64 << 30,
            wait_max: Duration::from_secs(30),
            pin: true,
            accept_damage: false,
        }
    }
}
