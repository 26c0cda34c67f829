//! Flips bits in a node's RocksDB while the node is stopped: `flip DIRECTORY PER-MILLION SEED`.
//!
//! Every entry is written anew by a merge, and of a million so many get a flipped bit behind their MetaHive
//! checksum and in front of the block's: what memory does to data before it is sealed. Prints how many. For
//! `scripts/real/case_integrity.py`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, per_million, seed] = &arguments[..] else {
        eprintln!("flip DIRECTORY PER-MILLION SEED");
        return ExitCode::from(2);
    };
    let (Ok(per_million), Ok(seed)) = (per_million.parse(), seed.parse()) else {
        eprintln!("PER-MILLION and SEED are numbers");
        return ExitCode::from(2);
    };
    let flipped = engine_rocksdb::open(directory, engine_rocksdb::RocksConfig::default()).and_then(|engine| {
        let store = engine.store();
        store.write_out()?;
        store.flip_entries(per_million, seed);
        store.compact()?;
        store.flip_entries(0, 0);
        Ok(store.counters().injected)
    });
    match flipped {
        Ok(count) => {
            println!("{count} entries flipped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{directory}: {error}");
            ExitCode::FAILURE
        }
    }
}
