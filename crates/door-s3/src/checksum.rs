//! The checksums of S3: computed while bytes pass by, and of several parts from the parts'.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use base_types::s3::{ChecksumAlgorithm, ChecksumType, Checksums, PartData, S3ErrorCode};
use base_types::Refusal;
use crc_fast::{CrcAlgorithm, Digest as Crc};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The state of one algorithm.
enum Running {
    Crc(Crc),
    Sha1(Sha1),
    Sha256(Sha256),
}

fn crc_of(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64nvme => Some(CrcAlgorithm::Crc64Nvme),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => None,
    }
}

/// How many bytes a CRC has as S3 writes it.
fn crc_bytes(algorithm: ChecksumAlgorithm, value: u64) -> Vec<u8> {
    match algorithm {
        ChecksumAlgorithm::Crc64nvme => value.to_be_bytes().to_vec(),
        _ => (value as u32).to_be_bytes().to_vec(),
    }
}

impl Running {
    fn new(algorithm: ChecksumAlgorithm) -> Running {
        match (crc_of(algorithm), algorithm) {
            (Some(crc), _) => Running::Crc(Crc::new(crc)),
            (None, ChecksumAlgorithm::Sha1) => Running::Sha1(Sha1::new()),
            (None, _) => Running::Sha256(Sha256::new()),
        }
    }
}

/// Length, MD5 and the asked checksums of bytes that pass by.
pub struct Hasher {
    length: u64,
    md5: Md5,
    running: Vec<(ChecksumAlgorithm, Running)>,
}

/// What came out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hashed {
    /// How many bytes.
    pub length: u64,
    /// Their MD5.
    pub md5: [u8; 16],
    /// The asked checksums.
    pub checksums: Checksums,
}

impl Hashed {
    /// The MD5 as an etag, without quotes.
    pub fn etag(&self) -> String {
        hex(&self.md5)
    }
}

/// Lower case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Hasher {
    /// For these algorithms, beside the MD5.
    pub fn new(algorithms: &[ChecksumAlgorithm]) -> Hasher {
        let running = algorithms.iter().map(|algorithm| (*algorithm, Running::new(*algorithm))).collect();
        Hasher { length: 0, md5: Md5::new(), running }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.md5.update(bytes);
        for (_, running) in &mut self.running {
            match running {
                Running::Crc(crc) => crc.update(bytes),
                Running::Sha1(sha) => sha.update(bytes),
                Running::Sha256(sha) => sha.update(bytes),
            }
        }
    }

    /// The end.
    pub fn finish(self) -> Hashed {
        let mut checksums = Checksums::default();
        for (algorithm, running) in self.running {
            let bytes = match running {
                Running::Crc(crc) => crc_bytes(algorithm, crc.finalize()),
                Running::Sha1(sha) => sha.finalize().to_vec(),
                Running::Sha256(sha) => sha.finalize().to_vec(),
            };
            *checksums.slot(algorithm) = Some(STANDARD.encode(bytes));
            checksums.checksum_type = Some(ChecksumType::FullObject);
        }
        Hashed { length: self.length, md5: self.md5.finalize().into(), checksums }
    }
}

/// Which of these are given.
pub fn given(checksums: &Checksums) -> Vec<ChecksumAlgorithm> {
    ChecksumAlgorithm::ALL.into_iter().filter(|algorithm| checksums.get(*algorithm).is_some()).collect()
}

/// Refuses values that cannot be of their algorithm at all.
pub fn well_formed(checksums: &Checksums) -> Result<(), Refusal> {
    for algorithm in given(checksums) {
        let length = match algorithm {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
            ChecksumAlgorithm::Crc64nvme => 8,
            ChecksumAlgorithm::Sha1 => 20,
            ChecksumAlgorithm::Sha256 => 32,
        };
        let text = checksums.get(algorithm).map_or("", String::as_str);
        // A composite checksum has its number of parts behind a dash.
        let text = text.split_once('-').map_or(text, |(text, _)| text);
        if STANDARD.decode(text).map_or(true, |bytes| bytes.len() != length) {
            let message = format!("Value for x-amz-checksum-{} header is invalid.", header_name(algorithm));
            return Err(S3ErrorCode::InvalidRequest.because(message));
        }
    }
    Ok(())
}

/// The end of the header `x-amz-checksum-…`.
pub fn header_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "crc32",
        ChecksumAlgorithm::Crc32c => "crc32c",
        ChecksumAlgorithm::Crc64nvme => "crc64nvme",
        ChecksumAlgorithm::Sha1 => "sha1",
        ChecksumAlgorithm::Sha256 => "sha256",
    }
}

/// Refuses (`BadDigest`) where what was promised is not what came.
pub fn verify(promised: &Checksums, computed: &Checksums) -> Result<(), Refusal> {
    for algorithm in given(promised) {
        if promised.get(algorithm) != computed.get(algorithm) {
            let message = format!("The {} you specified did not match the calculated checksum.", label(algorithm));
            return Err(S3ErrorCode::BadDigest.because(message));
        }
    }
    Ok(())
}

fn label(algorithm: ChecksumAlgorithm) -> String {
    header_name(algorithm).to_ascii_uppercase()
}

/// The etag of an object of parts: the MD5 of their MD5s, a dash, their number.
pub fn etag_of_parts<'a>(etags: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = etags.len();
    let mut md5 = Md5::new();
    for etag in etags {
        md5.update(unhex(etag));
    }
    format!("{}-{count}", hex(&md5.finalize()))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

/// The checksum of an object of parts, from the parts' own. `None` where a part has none.
pub fn of_parts(algorithm: ChecksumAlgorithm, kind: ChecksumType, parts: &[PartData]) -> Option<String> {
    let values: Option<Vec<(Vec<u8>, u64)>> =
        parts.iter().map(|part| Some((STANDARD.decode(part.checksums.get(algorithm)?).ok()?, part.size))).collect();
    let values = values?;
    match kind {
        ChecksumType::Composite => {
            let mut hasher = Hasher::new(&[algorithm]);
            values.iter().for_each(|(bytes, _)| hasher.update(bytes));
            let digest = hasher.finish().checksums.get(algorithm)?.clone();
            Some(format!("{digest}-{}", parts.len()))
        }
        ChecksumType::FullObject => {
            let crc = crc_of(algorithm)?;
            let number = |bytes: &[u8]| bytes.iter().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
            let (first, rest) = values.split_first()?;
            let joined = rest.iter().fold(number(&first.0), |joined, (bytes, size)| {
                crc_fast::checksum_combine(crc, joined, number(bytes), *size)
            });
            Some(STANDARD.encode(crc_bytes(algorithm, joined)))
        }
    }
}

#[cfg(test)]
mod tests;
