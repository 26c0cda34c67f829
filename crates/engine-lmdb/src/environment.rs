//! An open environment: LMDB's handle and the databases in it.
//!
//! Not here: how it is opened (`open.rs`), what is read (`lib.rs`, `fenced.rs`, `verify.rs`) and written (`writer.rs`).

use crate::failure::lmdb_failure;
use base_engine::EngineError;
use heed::types::Bytes as RawBytes;
use heed::{AnyTls, Env, RoTxn, WithoutTls};

/// One of the databases.
pub type Database = heed::Database<'static, RawBytes, RawBytes>;

/// An open environment.
#[derive(Clone)]
pub struct Environment {
    pub env: Env<WithoutTls>,
    pub spaces: Database,
    pub meta: Database,
    pub fences: Database,
}

impl Environment {
    /// Bytes of the pages that hold something; LMDB keeps the counts, so this is cheap.
    pub fn bytes_in_use(&self, reader: &RoTxn<'_, AnyTls>) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for database in [&self.spaces, &self.meta, &self.fences] {
            let stat = database.stat(reader).map_err(|error| lmdb_failure("measuring", error))?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            bytes += pages as u64 * u64::from(stat.page_size);
        }
        Ok(bytes)
    }
}
