//! Commands and rows of every backend are the bytes of docs/formats/golden: a log and an engine of 0.2.0 mean here what they meant there.
//!
//! Not here: what commands do (each backend's own tests).

#[allow(dead_code)] // Fuzzing uses the rest.
#[path = "../../../fuzz/entries/backends.rs"]
mod backends;
#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_types::codec::Encode;
use base_types::BackendKind;
use core_backends::{allocator, metadata, multipart, redis, reference, shard, shard_reference, versioned};

/// `C`: the backend's commands, `R`: its replies.
fn check<C: Encode, R: Encode>(backend: BackendKind, file: &str) {
    let stories = golden::lines(file).into_iter().filter(|(name, _)| name.starts_with("story"));
    let mut commands = 0;
    for (name, story) in stories {
        for bytes in backends::commands(backend, &story) {
            let command = C::from_bytes(bytes.clone()).unwrap_or_else(|error| panic!("{file}, {name}: {error}"));
            assert_eq!(golden::hex(&command.to_bytes()), golden::hex(&bytes), "{file}, {name}");
            commands += 1;
        }
        golden::check(file, &name.replace("story", "rows"), &backends::rows_after::<R>(backend, &story));
    }
    assert!(commands > 0, "{file} holds no command");
}

#[test]
fn commands_and_rows_are_those_of_the_first_release() {
    check::<allocator::Command, allocator::Reply>(BackendKind::Allocator, "backend-allocator");
    check::<metadata::Command, metadata::Reply>(BackendKind::Metadata, "backend-metadata");
    check::<multipart::Command, multipart::Reply>(BackendKind::Multipart, "backend-multipart");
    check::<redis::Command, redis::Reply>(BackendKind::Redis, "backend-redis");
    check::<reference::Command, reference::Reply>(BackendKind::Reference, "backend-reference");
    check::<shard::Command, shard::Reply>(BackendKind::Shard, "backend-shard");
    check::<shard_reference::Command, shard_reference::Reply>(BackendKind::ShardReference, "backend-shard-reference");
    check::<versioned::Command, versioned::Reply>(BackendKind::Versioned, "backend-versioned");
}
