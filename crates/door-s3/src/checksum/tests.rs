use super::*;
use base_types::s3::Data;

fn hashed(bytes: &[u8]) -> Hashed {
    let mut hasher = Hasher::new(&ChecksumAlgorithm::ALL);
    bytes.chunks(3).for_each(|chunk| hasher.update(chunk));
    hasher.finish()
}

#[test]
fn known_values() {
    // The values of the S3 API reference's examples and of the algorithms' own check input.
    let check = hashed(b"123456789");
    assert_eq!(check.length, 9);
    assert_eq!(check.etag(), "25f9e794323b453885f5181f1b624d0b");
    assert_eq!(check.checksums.crc32.as_deref(), Some("y/Q5Jg=="));
    assert_eq!(check.checksums.crc32c.as_deref(), Some("4waSgw=="));
    assert_eq!(check.checksums.crc64nvme.as_deref(), Some("rosUhgp5mIg="));
    assert_eq!(check.checksums.sha1.as_deref(), Some("98O8HYCOBHMq32eZZczDTKeuNEE="));
    assert_eq!(hashed(b"").checksums.sha256.as_deref(), Some("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="));
}

fn part(number: u32, bytes: &[u8]) -> PartData {
    let hashed = hashed(bytes);
    PartData {
        part_number: number,
        size: hashed.length,
        etag: hashed.etag(),
        checksums: hashed.checksums,
        data: Data::default(),
    }
}

#[test]
fn the_checksum_of_a_whole_is_joined_from_its_parts() {
    let whole = hashed(b"hello, wide world");
    let parts = [part(1, b"hello, "), part(2, b"wide"), part(7, b" world")];
    for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64nvme] {
        let joined = of_parts(algorithm, ChecksumType::FullObject, &parts);
        assert_eq!(joined.as_ref(), whole.checksums.get(algorithm), "{algorithm:?}");
        let composite = of_parts(algorithm, ChecksumType::Composite, &parts).unwrap();
        assert!(composite.ends_with("-3") && Some(&composite) != joined.as_ref());
    }
    assert_eq!(of_parts(ChecksumAlgorithm::Sha256, ChecksumType::FullObject, &parts), None, "no hash can be joined");
    let etag = etag_of_parts(parts.iter().map(|part| part.etag.as_str()));
    assert!(etag.ends_with("-3") && etag.len() == 34, "{etag}");
}

#[test]
fn what_was_promised_must_come() {
    let good = hashed(b"a").checksums;
    assert!(verify(&good, &good).is_ok());
    let other = hashed(b"b").checksums;
    assert_eq!(verify(&good, &other).unwrap_err().code.as_str(), "BadDigest");
    let broken = Checksums { crc32: Some("????".into()), ..Checksums::default() };
    assert_eq!(well_formed(&broken).unwrap_err().code.as_str(), "InvalidRequest");
    assert!(well_formed(&good).is_ok());
}
