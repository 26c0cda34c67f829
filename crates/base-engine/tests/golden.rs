//! Chunks of snapshots and the rows of stored engines are the bytes of docs/formats/golden.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_engine::Chunk;
use base_types::codec::Encode;

#[test]
fn chunks_are_those_of_the_first_release() {
    for (name, bytes) in golden::lines("chunks") {
        let chunk = Chunk::from_bytes(bytes.clone().into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(golden::hex(&chunk.to_bytes()), golden::hex(&bytes), "{name}");
    }
}

#[test]
fn chunk_of_a_newer_version_is_refused_with_both_versions_and_what_to_do() {
    let mut bytes = golden::line("chunks", "chunk 00");
    bytes[0] += 1;
    let refused = Chunk::from_bytes(bytes.into()).unwrap_err().to_string();
    assert!(refused.starts_with("chunk has version 2, and this build"), "{refused}");
    assert!(refused.contains("reads up to 1: install here the release of hive that wrote it"), "{refused}");
}

#[cfg(feature = "stored")]
#[test]
fn rows_of_stored_engines_are_those_of_the_first_release() {
    use base_engine::stored::format;
    use base_types::SpaceId;
    let row = |key: &[u8], value: &[u8]| [key, &format::sealed(key, value)].concat();
    let version = |version: u32| row(format::VERSION_KEY, &version.to_le_bytes());
    golden::check("engine-stored", "version 1", &version(format::FORMAT_VERSION));
    golden::check("engine-stored", "version 2, with fences", &version(format::FENCED_VERSION));
    golden::check("engine-stored", "pair", &row(&format::pair_key(SpaceId(7), b"key"), b"value"));
    golden::check("engine-stored", "durable index", &row(&format::durable_key(SpaceId(7)), &300_u64.to_le_bytes()));
}
