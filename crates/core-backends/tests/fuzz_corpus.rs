//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `backend_metadata`, `key_codec`. Not here: coverage-guided runs (`make fuzz`).

#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/backends.rs"]
mod backends;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;

#[test]
fn backend_metadata() {
    corpus::run("backend_metadata", corpus::Bounds { base: 4 << 20, per_byte: 1024 }, backends::backend_metadata);
}

#[test]
fn backend_redis() {
    corpus::run("backend_redis", corpus::Bounds { base: 32 << 20, per_byte: 4096 }, backends::backend_redis);
}

#[test]
fn backend_allocator() {
    corpus::run("backend_allocator", corpus::Bounds { base: 4 << 20, per_byte: 1024 }, backends::backend_allocator);
}

#[test]
fn backend_reference() {
    corpus::run("backend_reference", corpus::Bounds { base: 4 << 20, per_byte: 1024 }, backends::backend_reference);
}

#[test]
fn backend_shard() {
    corpus::run("backend_shard", corpus::Bounds { base: 8 << 20, per_byte: 1024 }, backends::backend_shard);
}

#[test]
fn backend_shard_reference() {
    corpus::run(
        "backend_shard_reference",
        corpus::Bounds { base: 8 << 20, per_byte: 1024 },
        backends::backend_shard_reference,
    );
}

#[test]
fn backend_multipart() {
    corpus::run("backend_multipart", corpus::Bounds { base: 8 << 20, per_byte: 1024 }, backends::backend_multipart);
}

#[test]
fn backend_versioned() {
    corpus::run("backend_versioned", corpus::Bounds { base: 8 << 20, per_byte: 1024 }, backends::backend_versioned);
}

#[test]
fn key_codec() {
    corpus::run("key_codec", corpus::DECODER, backends::key_codec);
}
