//! Rows are the bytes of docs/formats/golden. That a newer format is refused: the tests of the directory and of the environment.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use crate::format::{durable_key, pair_key, sealed, FORMAT_VERSION, VERSION_KEY};
use base_types::SpaceId;

#[test]
fn rows_are_those_of_the_first_release() {
    let row = |key: &[u8], value: &[u8]| [key, &sealed(key, value)].concat();
    golden::check("engine-lmdb", "version", &row(VERSION_KEY, &FORMAT_VERSION.to_le_bytes()));
    golden::check("engine-lmdb", "pair", &row(&pair_key(SpaceId(7), b"key"), b"value"));
    golden::check("engine-lmdb", "durable index", &row(&durable_key(SpaceId(7)), &300_u64.to_le_bytes()));
}
