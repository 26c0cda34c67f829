//! Commands and rows of every backend are the bytes of docs/formats/golden: a log and an engine of 0.2.0 mean here what they meant there.
//!
//! By design: a command that a story holds because it was refused then is left out ([`REFUSED_THEN`]): no log of that time has one.
//! Not here: what commands do (each backend's own tests).

#[allow(dead_code)] // Fuzzing uses the rest.
#[path = "../../../fuzz/entries/backends.rs"]
mod backends;
#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_types::codec::Encode;
use base_types::BackendKind;
use core_backends::{allocator, metadata, multipart, redis, reference, shard, shard_reference, versioned};

/// A story, and the Redis command that it holds because it was refused, which later builds carry out.
const REFUSED_THEN: (&str, &[u8]) = ("story 07", b"SETBIT");

/// A story's steps without that command.
fn as_then(backend: BackendKind, name: &str, story: &[u8]) -> Vec<u8> {
    if backend != BackendKind::Redis || name != REFUSED_THEN.0 {
        return story.to_vec();
    }
    let (mut kept, mut rest) = (Vec::new(), story);
    while let Some(([kind, low, high], behind)) = rest.split_first_chunk::<3>() {
        let (bytes, behind) = behind.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        let command = redis::Command::from_bytes(bytes.to_vec().into());
        let name = command.ok().and_then(|command| command.0.into_iter().next());
        if name.is_none_or(|name| name != REFUSED_THEN.1) {
            backends::push_step(&mut kept, *kind, bytes);
        }
        rest = behind;
    }
    assert!(kept.len() < story.len(), "{name} has no such command");
    kept
}

/// `C`: the backend's commands, `R`: its replies.
fn check<C: Encode, R: Encode>(backend: BackendKind, file: &str) {
    let stories = golden::lines(file).into_iter().filter(|(name, _)| name.starts_with("story"));
    let mut commands = 0;
    for (name, story) in stories {
        let story = as_then(backend, &name, &story);
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
