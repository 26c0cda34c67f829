//! Documents of keyspaces are the bytes of docs/formats/golden, and one of another version is refused with what to do.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_types::codec::Encode;
use core_keyspace::Document;

#[test]
fn documents_are_those_of_the_first_release() {
    for (name, bytes) in golden::lines("keyspace-documents") {
        let document = Document::from_bytes(bytes.clone().into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(golden::hex(&document.to_bytes()), golden::hex(&bytes), "{name}");
    }
}

#[test]
fn document_of_a_newer_version_is_refused_with_both_versions_and_what_to_do() {
    let mut bytes = golden::line("keyspace-documents", "document 00");
    bytes[0] = 3;
    let refused = Document::from_bytes(bytes.into()).unwrap_err().to_string();
    assert!(refused.starts_with("keyspace document has version 3, and this build"), "{refused}");
    assert!(refused.contains("reads up to 2: install here the release of hive that wrote it"), "{refused}");
}
