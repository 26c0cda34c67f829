//! S3 keys as rows hold them: every byte one up, then a zero.
//!
//! A legal key is UTF-8, so no byte is above 0xf4 and one up never overflows. Zero is then free for the
//! end: bytes keep their order, no key is the beginning of another, nothing grows but by one byte,
//! and what begins with a prefix still does. (Escapes would double a key of zeros past an engine's limit.)
//!
//! Always: `open(close(k)) == k`; `close(a) < close(b)` exactly if `a < b`; no row ends in `\x01` (`tests` below, `shard/tests/bed.rs`).

use bytes::Bytes;

/// The end of a key within a row.
pub(crate) const END: u8 = 0;

/// One up, without the end: what a prefix becomes.
pub(crate) fn raise(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// A whole key.
pub(crate) fn close(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    out.extend(key.iter().map(|byte| byte.wrapping_add(1)));
    out.push(END);
    out
}

/// Bytes without their end, one down.
pub(crate) fn lower(raised: &[u8]) -> Bytes {
    raised.iter().map(|byte| byte.wrapping_sub(1)).collect::<Vec<u8>>().into()
}

/// How many bytes at the start of a row's rest are its closed key, the end included.
pub(crate) fn closed_bytes(rest: &[u8]) -> Option<usize> {
    rest.iter().position(|byte| *byte == END).map(|at| at + 1)
}

/// For the fuzzer: what stands behind the first byte as two keys, parted where that byte says; both with their closed form.
pub(crate) fn fuzz(data: &[u8]) -> Vec<(&str, Vec<u8>)> {
    let Some((parting, rest)) = data.split_first() else { return Vec::new() };
    let (left, right) = rest.split_at(usize::from(*parting).min(rest.len()));
    let (Ok(left), Ok(right)) = (core::str::from_utf8(left), core::str::from_utf8(right)) else { return Vec::new() };
    let (low, high) = (close(left.as_bytes()), close(right.as_bytes()));
    assert_eq!(low.cmp(&high), left.as_bytes().cmp(right.as_bytes()), "rows have another order than their keys");
    assert_eq!(high.starts_with(&raise(left.as_bytes())), right.starts_with(left), "a prefix is another one in rows");
    assert_eq!(closed_bytes(&[&low[..], &high[..]].concat()), Some(low.len()), "a key ends elsewhere in a row");
    let both = vec![(left, low), (right, high)];
    for (key, closed) in &both {
        assert_eq!(lower(&closed[..key.len()]), key.as_bytes(), "a key comes back as another");
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_prefixes_are_kept() {
        let keys = ["", "\0", "\0\0", "\0\u{1}", "\u{1}", "\u{1}\0", "a", "a\0", "a\u{1}b", "aa", "é", "\u{10ffff}"];
        for left in keys {
            assert_eq!(lower(&close(left.as_bytes())[..left.len()]), left.as_bytes());
            assert_eq!(closed_bytes(&[&close(left.as_bytes())[..], b"rest"].concat()), Some(left.len() + 1));
            for right in keys {
                let (low, high) = (close(left.as_bytes()), close(right.as_bytes()));
                assert_eq!(low.cmp(&high), left.as_bytes().cmp(right.as_bytes()), "{left:?} {right:?}");
                assert_eq!(high.starts_with(&raise(left.as_bytes())), right.starts_with(left));
            }
        }
    }
}
