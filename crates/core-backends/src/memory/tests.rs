//! Which shards hear of a request, and that no form of an earlier build is read otherwise.

use super::*;

/// Small numbers out of a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Keys and bounds that share long beginnings, of lengths about the most that is kept.
    fn key(&mut self) -> Vec<u8> {
        let stem = [0, 1, 62, 63, 64, 65][self.below(6) as usize];
        let mut key = vec![b'm'; stem];
        (0..self.below(4)).for_each(|_| key.push(b'a' + self.below(26) as u8));
        key
    }
}

#[test]
pub fn whoever_has_the_key_hears_of_the_request() {
    let mut chance = Chance(7);
    let (mut told, mut left_out) = (0, 0);
    for _ in 0..200_000 {
        let key = chance.key();
        if key.is_empty() {
            continue;
        }
        let mut cuts = [chance.key(), chance.key()];
        cuts.sort();
        let ranges = [(&[][..], Some(&cuts[0][..])), (&cuts[0], Some(&cuts[1])), (&cuts[1], None)];
        for (start, end) in ranges {
            let holds = start <= &key[..] && end.is_none_or(|end| &key[..] < end);
            let hears = About::object(&key).may_lie_in(start, end);
            assert!(hears || !holds, "{key:?} in {start:?} {end:?}");
            // Where the whole key is kept nobody else hears of it.
            assert!(hears == holds || key.len() >= KEPT_KEY_BYTES_MAX);
            told += u64::from(hears);
            left_out += u64::from(!hears);
        }
    }
    assert!(left_out * 3 > told, "{told} told, {left_out} left out");
    assert!(About::from(Part::OBJECTS).may_lie_in(b"x", Some(b"y")), "of a key that is not known all hear");
}

#[test]
fn forms_with_and_without_a_key_are_read_back() {
    let abouts =
        [About::default(), Part::SEVERAL.into(), Part::OBJECTS.into(), About::object(b"k"), About::object(&[7; 99])];
    for about in abouts {
        let carried = Carried { id: RequestId(9), keep_ms: 5, about: about.clone(), reply: Bytes::from_static(b"r") };
        assert_eq!(Carried::from_bytes(carried.to_bytes()), Ok(carried));
        let mut out = Writer::new();
        about.encode_short(&mut out);
        let mut input = Reader::new(out.finish());
        assert_eq!((About::decode_short(&mut input), input.remaining()), (Ok(about), 0));
    }
    // As before keys were kept: id, 5, part 1, a reply of one byte.
    let old = [&[9][..], &[0; 15], &[5, 1, 0, 1, b'r']].concat();
    let read = Carried::from_bytes(old.into()).unwrap();
    assert_eq!((read.about, &read.reply[..]), (Part::OBJECTS.into(), &b"r"[..]));
    // A key that could not have been kept.
    for key in [&[][..], &[7; KEPT_KEY_BYTES_MAX + 1]] {
        let mut out = Writer::new();
        out.varint(u64::from(PLACED)).bytes(key);
        assert_eq!(About::decode_short(&mut Reader::new(out.finish())), Err(DecodeError::TooLarge("key")));
    }
}
