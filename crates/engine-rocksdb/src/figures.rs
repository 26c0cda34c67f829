//! What reads did and what tables look like: RocksDB's own counts, for figures.
//!
//! By design: counting costs nothing that is not paid anyway (RocksDB counts per thread at its default level).
//! Not here: MetaHive's counters (`metahive.rs`).

use crate::ffi::*;
use crate::store::RocksStore;
use base_engine::EngineError;

/// What the reads of one thread did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Work {
    /// Blocks found in RocksDB's cache.
    pub blocks_cached: u64,
    /// Blocks read from files, or from the system's cache.
    pub blocks_read: u64,
    /// Their bytes as stored.
    pub bytes_read: u64,
    /// Keys compared with keys.
    pub keys_compared: u64,
}

impl Work {
    /// Of this thread, over all databases, since it began.
    pub fn of_this_thread() -> Work {
        let mut all = [0; WORK];
        // SAFETY: the shim fills as many numbers as the array has.
        unsafe { hive_rocks_work(&mut all) };
        let [blocks_cached, blocks_read, bytes_read, keys_compared] = all;
        Work { blocks_cached, blocks_read, bytes_read, keys_compared }
    }

    /// With each number what `change` makes of it and of `other`'s.
    fn zip(self, other: Work, change: impl Fn(u64, u64) -> u64) -> Work {
        Work {
            blocks_cached: change(self.blocks_cached, other.blocks_cached),
            blocks_read: change(self.blocks_read, other.blocks_read),
            bytes_read: change(self.bytes_read, other.bytes_read),
            keys_compared: change(self.keys_compared, other.keys_compared),
        }
    }

    /// What was done since `before`.
    pub fn since(self, before: Work) -> Work {
        self.zip(before, u64::saturating_sub)
    }

    /// Both.
    pub fn and(self, other: Work) -> Work {
        self.zip(other, u64::saturating_add)
    }
}

/// Has what this thread writes next lie in memory in a way that the seed alone decides. The towers of RocksDB's skip
/// lists are drawn by chance, and one database with higher ones than another is quicker by some hundredths.
pub fn same_towers(seed: u32) {
    // SAFETY: it sets a number of this thread.
    unsafe { hive_rocks_seed(seed) }
}

/// What the tables of a database are made of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Entries, metadata not counted.
    pub entries: u64,
    /// Blocks of data.
    pub blocks: u64,
    /// Their bytes as stored.
    pub data_bytes: u64,
    /// Of the index, which lies in memory whole.
    pub index_bytes: u64,
    /// Of filters, which lie in memory whole.
    pub filter_bytes: u64,
}

impl RocksStore {
    /// Of all tables there are now.
    pub fn shape(&self) -> Result<Shape, EngineError> {
        let (mut all, mut error) = ([0; SHAPE], HiveError::none());
        // SAFETY: the handle is open; the shim fills as many numbers as the array has.
        unsafe { hive_rocks_shape(self.database.handle(), &mut all, &mut error) };
        let [entries, blocks, data_bytes, index_bytes, filter_bytes] = all;
        error.judge("reading properties").map(|()| Shape { entries, blocks, data_bytes, index_bytes, filter_bytes })
    }
}
