//! Writes fuzz/seeds: a few small valid inputs for each target, made by the encoders themselves.
//!
//!   cd fuzz && cargo run --example seeds
//!
//! Always: the same files each time; each under `SEED_BYTES_MAX`, no more than `SEEDS_MAX` a target.
//! Files it did not make (inputs that once failed) stay. Not here: what a target does with them.

mod seeds {
    pub mod backends;
    pub mod buckets;
    pub mod logs;
    pub mod nodes;
    pub mod redis;
    pub mod s3;
    pub mod texts;
    pub mod versioned;
}

use std::collections::BTreeMap;
use std::path::Path;

/// The longest seed.
const SEED_BYTES_MAX: usize = 4 << 10;
/// The most seeds of one target.
const SEEDS_MAX: usize = 40;

/// Seeds by target, in the order they were made.
#[derive(Default)]
pub struct Seeds(BTreeMap<&'static str, Vec<Vec<u8>>>);

impl Seeds {
    /// Adds one; what is too long or one too many is a mistake in this program.
    pub fn add(&mut self, target: &'static str, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        assert!(bytes.len() <= SEED_BYTES_MAX, "a seed of {target} has {} bytes", bytes.len());
        let list = self.0.entry(target).or_default();
        list.push(bytes.to_vec());
        assert!(list.len() <= SEEDS_MAX, "{target} has too many seeds");
    }
}

fn main() {
    let mut seeds = Seeds::default();
    seeds::texts::add(&mut seeds);
    seeds::backends::add(&mut seeds);
    seeds::buckets::add(&mut seeds);
    seeds::versioned::add(&mut seeds);
    seeds::nodes::add(&mut seeds);
    seeds::logs::add(&mut seeds);
    seeds::redis::add(&mut seeds);
    seeds::s3::add(&mut seeds);
    for (target, list) in &seeds.0 {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        std::fs::create_dir_all(&folder).expect("the folder is made");
        for (place, bytes) in list.iter().enumerate() {
            std::fs::write(folder.join(format!("{place:02}")), bytes).expect("the seed is written");
        }
        println!("{target}: {} seeds", list.len());
    }
}
