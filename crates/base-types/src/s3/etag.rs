//! ETags: MD5 as S3 uses it (RFC 1321), and the ETag of a multipart object: the MD5 of its parts' MD5s
//! and their number. Not for secrets.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const SHIFTS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];

/// The sines of RFC 1321, 3.4, as the integers they stand for.
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8,
    0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
    0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87,
    0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
    0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039,
    0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,
    0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
    0xeb86d391,
];

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let word = |at: usize| u32::from_le_bytes([block[at * 4], block[at * 4 + 1], block[at * 4 + 2], block[at * 4 + 3]]);
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (f, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(f).wrapping_add(SINES[step]).wrapping_add(word(at));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16 * 4 + step % 4]));
    }
    for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
        *sum = sum.wrapping_add(part);
    }
}

/// The MD5 of some bytes.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
    let blocks = bytes.chunks_exact(64);
    let mut tail: Vec<u8> = blocks.remainder().to_vec();
    blocks.for_each(|block| mix(&mut state, block));
    tail.push(0x80);
    while tail.len() % 64 != 56 {
        tail.push(0);
    }
    tail.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    tail.chunks_exact(64).for_each(|block| mix(&mut state, block));
    let mut out = [0; 16];
    for (place, word) in out.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Bytes as lower case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    digits
        .filter(|digits| digits.len() % 2 == 0)
        .map(|digits| digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}

/// The ETag of an object made of parts with these ETags. A part whose ETag is no MD5 (encrypted data)
/// counts with the MD5 of its ETag's text, so that there is always one answer.
pub fn multipart_etag<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut all = Vec::new();
    let mut count = 0;
    for etag in parts {
        let binary = unhex(etag).filter(|bytes| bytes.len() == 16);
        all.extend_from_slice(&binary.unwrap_or_else(|| md5(etag.as_bytes()).to_vec()));
        count += 1;
    }
    format!("{}-{count}", hex(&md5(&all)))
}

/// Whether an ETag of a condition means this one: quotes and a weakness mark aside.
pub fn etag_matches(wanted: &str, etag: &str) -> bool {
    let bare = |text: &'_ str| -> String {
        let text = text.trim();
        text.strip_prefix("W/").unwrap_or(text).trim_matches('"').into()
    };
    bare(wanted) == bare(etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_of_the_rfc() {
        let long = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        for (text, sum) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (long, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(&md5(text.as_bytes())), sum, "{text}");
        }
        assert_eq!(md5(&[b'x'; 56]).len(), 16);
    }

    #[test]
    fn a_multipart_etag_is_the_md5_of_the_md5s() {
        let parts = ["0cc175b9c0f1b6a831c399e269772661", "d41d8cd98f00b204e9800998ecf8427e"];
        let binary: Vec<u8> = parts.iter().flat_map(|part| unhex(part).unwrap()).collect();
        assert_eq!(multipart_etag(parts.iter().copied()), format!("{}-2", hex(&md5(&binary))));
        assert!(multipart_etag(["no md5"].iter().copied()).ends_with("-1"));
    }

    #[test]
    fn quotes_do_not_matter() {
        assert!(etag_matches("\"abc\"", "abc") && etag_matches("W/\"abc\"", "abc") && !etag_matches("ab", "abc"));
    }
}
