//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `s3_policy`, `s3_query`, `s3_signature`, `s3_document`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/entries/s3.rs"]
mod s3;

#[test]
fn s3_policy() {
    corpus::run("s3_policy", corpus::DECODER, s3::s3_policy);
}

#[test]
fn s3_query() {
    corpus::run("s3_query", corpus::DECODER, s3::s3_query);
}

#[test]
fn s3_signature() {
    corpus::run("s3_signature", corpus::DECODER, s3::s3_signature);
}

#[test]
fn s3_document() {
    corpus::run("s3_document", corpus::DECODER, s3::s3_document);
}

#[test]
fn s3_form() {
    corpus::run("s3_form", corpus::DECODER, s3::s3_form);
}

#[test]
fn sts_form() {
    corpus::run("sts_form", corpus::DECODER, s3::sts_form);
}
