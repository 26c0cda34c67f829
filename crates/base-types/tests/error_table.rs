//! The table of error codes: nothing of it changes unnoticed, and the guide shows it as it is.
//!
//! `HIVE_WRITE=1 cargo test -p base-types --test error_table` writes the golden file and the guide's page anew.

use base_types::codec::{Encode, Writer};
use base_types::s3::S3ErrorCode;
use base_types::{ErrorCode, ErrorKind, Refusal, Routing};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const GOLDEN: &str = "tests/golden/error_codes.txt";
const PAGE: &str = "../../docs/guides/api/errors.md";

const PAGE_HEAD: &str = "# Error codes

What a refusal looks like: [the index](README.md#a-request-an-answer-a-refusal). This page is written by
`HIVE_WRITE=1 cargo test -p base-types --test error_table` from the one table of codes
(`crates/base-types/src/error/code.rs`); the same test without `HIVE_WRITE` fails where they differ.

| status | kind | what to do |
|---|---|---|
| 400 | the request is wrong | fix it |
| 403 | a page of another site may have caused it | see [Browsers](limits.md#browsers) |
| 404 | the thing does not exist | |
| 405 | the method is wrong | |
| 409 | in conflict with what is there | read again, retry |
| 412 | a condition does not hold | read again, retry |
| 413 | too large | |
| 429 | overloaded | back off, retry |
| 500 | damaged, or a bug | call the operator |
| 503 | unavailable | back off, retry |
| 504 | the outcome is unknown, or committed but not absolute | read, or repeat with the same `request_id` |
| 507 | the disk is full | free space |

Status, `retryable` and `outcome` of an answer follow from its code. Some codes have more than one row: the status then
says which row it is.

| code | status | retryable | outcome | meaning |
|---|---|---|---|---|
";

const PAGE_S3: &str = "
Before its body was read whole or its connection had a place, a request may also get 408 `Malformed` and 503 `Overloaded`.
A node of an older version may get a code that it does not have from a newer one. It then answers `Internal`, with the
status, `retryable` and `outcome` of the newer node's code.

The client library and `hive` map them to exit codes: 1 refused, 2 wrong usage, 3 unavailable, 4 outcome unknown. In the
client library a code is the enum `hive_client::ErrorCode`.

## Codes of S3 calls

S3 calls answer with the codes of the S3 API where it has one, through the JSON API as through the S3 gateway. Where the
S3 API has none, the gateway answers with the S3 code that makes a client do the right thing: `ServiceUnavailable` or
`SlowDown` to retry, `InternalError` where the outcome is unknown.

| code | status | retryable | meaning |
|---|---|---|---|
";

/// Compares a file with what it is to be, or writes it.
fn locked(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("HIVE_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, wanted).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is out of date: {}", shown(&path), first_difference(&found, wanted));
}

fn shown(path: &Path) -> String {
    format!("{}; run HIVE_WRITE=1 cargo test -p base-types --test error_table", path.display())
}

fn first_difference(found: &str, wanted: &str) -> String {
    let mut lines = found.lines().chain(std::iter::repeat("(end)")).zip(wanted.lines().chain(["(end)"]));
    lines.find(|(is, wanted)| is != wanted).map_or(String::new(), |(is, wanted)| format!("has\n{is}\nnot\n{wanted}"))
}

fn all_codes() -> impl Iterator<Item = ErrorCode> {
    let s3 = S3ErrorCode::ALL.iter().copied().map(ErrorCode::from).filter(|code| matches!(code, ErrorCode::S3(_)));
    ErrorCode::OWN.iter().copied().chain(s3)
}

#[test]
fn error_table_matches_its_golden_file() {
    let mut text = String::from("code text wire status kind outcome retryable routing\n");
    for code in all_codes() {
        let (outcome, retry) = (code.outcome().name(), code.retryable());
        let (status, kind, routing) = (code.status(), code.kind(), code.routing());
        writeln!(text, "{code:?} {code} {} {status} {kind:?} {outcome} {retry} {routing:?}", code.wire_text()).unwrap();
    }
    locked(GOLDEN, &text);
}

#[test]
fn error_table_is_the_guides_page() {
    let mut text = PAGE_HEAD.to_string();
    let mut rows: Vec<ErrorCode> = ErrorCode::OWN.to_vec();
    rows.sort_by_key(|code| (code.as_str(), code.status()));
    for code in rows {
        let (status, retry, outcome) = (code.status(), yes(code.retryable()), code.outcome().name());
        writeln!(text, "| `{code}` | {status} | {retry} | `{outcome}` | {} |", code.meaning()).unwrap();
    }
    text.push_str(PAGE_S3);
    for code in S3ErrorCode::ALL {
        let retry = yes(ErrorCode::from(*code).retryable());
        writeln!(text, "| `{}` | {} | {retry} | {} |", code.name(), code.status(), code.message()).unwrap();
    }
    locked(PAGE, &text);
}

fn yes(whether: bool) -> &'static str {
    if whether {
        "yes"
    } else {
        ""
    }
}

#[test]
fn code_survives_frames_and_answers() {
    let mut seen = BTreeSet::new();
    for code in all_codes() {
        assert!(seen.insert((code.wire_text(), code.kind())), "{code:?}: a text and a kind name one code");
        let refusal = Refusal::new(code, "why");
        assert_eq!(Refusal::from_bytes(refusal.to_bytes()), Ok(refusal), "{code:?}");
        assert_eq!(code.s3().map_or(code, ErrorCode::from), code);
        let parsed = ErrorCode::of_answer(code.status(), code.as_str()).expect("its own text");
        assert_eq!((parsed.as_str(), parsed.status()), (code.as_str(), code.status()));
        assert_eq!((parsed.retryable(), parsed.outcome()), (code.retryable(), code.outcome()), "{code:?}");
        assert_eq!(code.as_str().parse::<ErrorCode>().map(ErrorCode::as_str), Ok(code.as_str()));
    }
    assert!("NoSuchThing".parse::<ErrorCode>().is_err());
}

fn bytes_of(kind: ErrorKind, text: &str) -> bytes::Bytes {
    let mut out = Writer::new();
    out.u8(kind as u8).string(text).string("why");
    out.finish()
}

#[test]
fn refusal_bytes_are_kind_text_and_message() {
    let golden = [(ErrorCode::WrongShard, 2, "WrongShard"), (ErrorCode::PlacementUnmet, 3, "PlacementRefused")];
    for (code, kind, text) in golden {
        let kind = ErrorKind::from_byte(kind).expect("a kind");
        assert_eq!(Refusal::new(code, "why").to_bytes(), bytes_of(kind, text));
    }
}

#[test]
fn renamed_code_keeps_its_text_between_nodes() {
    for code in [ErrorCode::NoArchiveReplica, ErrorCode::NoArchiveReplicaYet] {
        assert_eq!(code.as_str(), "NoArchiveReplica");
        assert_eq!(Refusal::new(code, "why").to_bytes(), bytes_of(code.kind(), "NoDurableTail"));
        assert_eq!(ErrorCode::of_answer(code.status(), "NoDurableTail"), Some(code));
    }
}

#[test]
fn code_of_newer_node_keeps_its_kind() {
    for byte in 0..=u8::MAX {
        let Some(kind) = ErrorKind::from_byte(byte) else { continue };
        let refusal = Refusal::from_bytes(bytes_of(kind, "CodeOfTomorrow")).expect("decodes");
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("Internal", "why"));
        assert_eq!((refusal.kind(), refusal.code.retryable()), (kind, kind.retryable()));
        assert_eq!(refusal.code.routing(), Routing::Answer);
        assert_eq!(Refusal::from_bytes(refusal.to_bytes()), Ok(refusal), "passed on, it is the same");
    }
    // A text that is known, but with another kind: the kind decides what is safe.
    let other = Refusal::from_bytes(bytes_of(ErrorKind::Unknown, "ConditionFailed")).expect("decodes");
    assert_eq!(other.code, ErrorCode::Other(ErrorKind::Unknown));
}
