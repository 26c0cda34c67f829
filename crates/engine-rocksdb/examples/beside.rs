//! What providers of general metadata keep beside a node's keys, while the node is stopped: `beside DIRECTORY [LIMIT]`.
//!
//! A line a version of a key that has reached a table: space, key, bytes of its value, and the second (since 1970) in
//! which it first did. DIRECTORY is a lane's, `<data>/lane-<n>/rocksdb`. At most LIMIT keys, 100 where none is given.

use base_engine::stored::format::pair_key;
use base_engine::{Direction, Engine, EngineError, EngineRead, KeyRange};
use engine_rocksdb::{RocksConfig, SizeAndAge};
use std::ops::ControlFlow;
use std::process::ExitCode;

const LIMIT: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let limit = arguments.get(1).map_or(Ok(LIMIT), |limit| limit.parse());
    let (Some(directory), Ok(limit), true) = (arguments.first(), limit, arguments.len() <= 2) else {
        eprintln!("beside DIRECTORY [LIMIT]");
        return ExitCode::from(2);
    };
    match list(directory, limit) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{directory}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(directory: &str, limit: usize) -> Result<Vec<String>, EngineError> {
    let engine = engine_rocksdb::open(directory, RocksConfig::default())?;
    let mut keys = Vec::new();
    for space in engine.spaces()? {
        engine.range(space, KeyRange::ALL, Direction::Forward, &mut |key, _| {
            keys.push((space, key.to_vec()));
            if keys.len() < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if keys.len() >= limit {
            break;
        }
    }
    let mut lines = Vec::new();
    for (space, key) in keys {
        for kept in engine.store().metadata(&pair_key(space, &key))? {
            if let Some((bytes, since)) = kept.of(SizeAndAge::TAG).and_then(SizeAndAge::read) {
                lines.push(format!("space {} key {} bytes {bytes} since {since}", space.0, key.escape_ascii()));
            }
        }
    }
    Ok(lines)
}
