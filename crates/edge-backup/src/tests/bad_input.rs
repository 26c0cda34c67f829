//! Backups that are not what they were: each is refused, and says why.

use super::{beside, flip, refused, run, verify_by, Bench};
use crate::manifest::{FILE, SIGNATURE_FILE};
use crate::{BackupError, Signer, Trusted};
use std::fs;

#[test]
fn truncated_part_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    let bytes = fs::read(bench.part("b", 2)).unwrap();
    for length in [0, 10, bytes.len() - 1] {
        fs::write(bench.part("b", 2), &bytes[..length]).unwrap();
        assert!(refused(bench.verify("b")).contains(&format!("it has {length} bytes instead of {}", bytes.len())));
    }
    fs::write(bench.part("b", 2), [&bytes[..], &[0]].concat()).unwrap();
    refused(bench.verify("b"));
}

#[test]
fn flipped_bit_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    for at in 0..fs::read(bench.part("b", 1)).unwrap().len() {
        flip(&bench.part("b", 1), at);
        assert!(refused(bench.verify("b")).contains("SHA-256"), "byte {at}");
        flip(&bench.part("b", 1), at);
    }
    bench.verify("b").unwrap();
}

#[test]
fn decoder_survives_any_bytes() {
    let bench = Bench::new();
    let made = bench.create("b").unwrap();
    let id = crate::manifest::id_of(&made.manifest.backup).unwrap();
    let good = fs::read(bench.part("b", 1)).unwrap();
    let mut refusals = 0;
    for at in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        refusals += u32::from(crate::part::decode(bytes.into(), &id, 1).is_err());
        refusals += u32::from(crate::part::decode(good[..at / 8].to_vec().into(), &id, 1).is_err());
    }
    assert!(refusals as usize > good.len() * 8);
}

#[test]
fn missing_part_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    fs::remove_file(bench.part("b", 3)).unwrap();
    assert!(refused(bench.verify("b")).contains("part-000003 is damaged: it is missing"));
}

#[test]
fn part_of_another_backup_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    bench.create("other").unwrap();
    fs::copy(bench.part("other", 1), bench.part("b", 1)).unwrap();
    refused(bench.verify("b"));
    // Even where the record fits the file: the part itself says of which backup it is.
    let other = bench.verify("other").unwrap();
    let id = run(crate::manifest::Manifest::read(&bench.depot("b"), &bench.signer.trusted())).unwrap().id;
    let record = &other.manifest().parts[0];
    let message = refused(run(crate::part::read(&bench.depot("other"), &id, 1, record)));
    assert!(message.contains("a part of another backup"), "{message}");
}

#[test]
fn swapped_parts_are_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    let chain = bench.verify("b").unwrap();
    let mut record = chain.manifest().parts[0].clone();
    fs::copy(bench.part("b", 1), bench.part("b", 2)).unwrap();
    record.file = "part-000002".into();
    let message = refused(run(crate::part::read(&bench.depot("b"), &chain.top().id, 2, &record)));
    assert!(message.contains("it is part 1 instead of 2"), "{message}");
}

#[test]
fn newer_format_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    let path = bench.dir("b").join(FILE);
    let text = fs::read_to_string(&path).unwrap().replace("\"format\": 1", "\"format\": 2");
    fs::write(&path, text).unwrap();
    assert!(matches!(bench.verify("b"), Err(BackupError::Newer { found: 2, known: 1, .. })));
}

#[test]
fn changed_manifest_or_signature_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    let manifest = bench.dir("b").join(FILE);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"world\": \"toy\"", "\"world\": \"joy\"")).unwrap();
    assert!(matches!(bench.verify("b"), Err(BackupError::WrongSignature { .. })));
    fs::write(&manifest, &text).unwrap();
    bench.verify("b").unwrap();
    let signature = bench.dir("b").join(SIGNATURE_FILE);
    flip(&signature, 5);
    assert!(matches!(bench.verify("b"), Err(BackupError::WrongSignature { .. })));
    fs::remove_file(&signature).unwrap();
    assert!(refused(bench.verify("b")).contains("manifest.sig is damaged: it is missing"));
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    assert!(refused(bench.verify("b")).contains("it is no manifest"));
}

#[test]
fn foreign_signature_is_refused() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    let (stranger, _) = Signer::open_or_make(&bench.dir("stranger.key")).unwrap();
    let judged = verify_by(&bench.depot("b"), &[], &stranger.trusted());
    assert!(refused(judged).contains(&bench.signer.fingerprint()));
    // The public key in a file makes it known.
    let file = bench.dir("signer.pub");
    fs::write(&file, bench.signer.public_pem()).unwrap();
    let trusted = stranger.trusted().and(Trusted::from_file(&file).unwrap());
    verify_by(&bench.depot("b"), &[], &trusted).unwrap();
}

#[test]
fn file_without_keys_is_refused() {
    let bench = Bench::new();
    let file = bench.dir("no.key");
    fs::write(&file, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    assert!(refused(Signer::open_or_make(&file)).contains("no Ed25519 private key"));
    fs::write(&file, "hello").unwrap();
    assert!(refused(Trusted::from_file(&file)).contains("no Ed25519 public key"));
}

#[test]
fn unfinished_backup_is_refused() {
    let bench = Bench::new();
    bench.toy.answer_only(Some(4));
    refused(bench.create("b"));
    assert!(matches!(bench.verify("b"), Err(BackupError::Unfinished { .. })));
    // Even with a signature that was written already.
    fs::write(bench.dir("b").join(SIGNATURE_FILE), [0; 64]).unwrap();
    assert!(matches!(bench.verify("b"), Err(BackupError::Unfinished { .. })));
    fs::create_dir(bench.dir("empty")).unwrap();
    assert!(matches!(bench.verify("empty"), Err(BackupError::NoBackup { .. })));
}

#[test]
fn restore_writes_nothing_from_a_damaged_backup() {
    let bench = Bench::new();
    let parts = bench.create("b").unwrap().manifest.parts.len() as u32;
    flip(&bench.part("b", parts), 40);
    refused(bench.restore("b", &beside("new")));
    refused(bench.restore("b", &super::in_place()));
    assert_eq!(bench.toy.writes(), 0);
}
