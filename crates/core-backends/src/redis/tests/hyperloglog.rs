//! HyperLogLog, by a script of commands and of the replies that Redis 7.0 gave, and by sketches that it wrote.

use super::*;

#[test]
fn sketches_count_what_is_distinct() {
    script(
        "pfadd h -> 1
        pfadd h -> 0
        pfcount h -> 0
        pfadd h a b c d e f g -> 1
        pfadd h a -> 0
        pfcount h -> 7
        pfcount h none -> 7
        pfadd i g h i -> 1
        pfcount h i -> 9
        pfmerge j h i -> OK
        pfcount j -> 9
        pfmerge k -> OK
        pfcount k -> 0
        pfmerge k none h k -> OK
        pfcount k -> 7
        pfcount none -> 0
        type h -> string
        set s abc -> OK
        pfadd s a -> WRONGTYPE Key is not a valid HyperLogLog string value.
        pfcount s -> WRONGTYPE Key is not a valid HyperLogLog string value.
        pfcount h s -> WRONGTYPE Key is not a valid HyperLogLog string value.
        pfmerge h s -> WRONGTYPE Key is not a valid HyperLogLog string value.
        pfmerge s h -> WRONGTYPE Key is not a valid HyperLogLog string value.
        set t HYLL012345678901 -> OK
        pfadd t a -> WRONGTYPE Key is not a valid HyperLogLog string value.
        pfcount t -> WRONGTYPE Key is not a valid HyperLogLog string value.
        rpush l 1 -> 1
        pfadd l a -> WRONGTYPE Operation against a key holding the wrong kind of value
        pfcount l -> WRONGTYPE Operation against a key holding the wrong kind of value
        pfmerge h l -> WRONGTYPE Operation against a key holding the wrong kind of value
        pfadd -> refused ERR wrong number of arguments for 'pfadd' command",
    );
}

fn set(space: &mut MapSpace, key: &'static str, value: &[u8]) {
    run_words(space, 0, vec!["set".into(), key.into(), Bytes::copy_from_slice(value)]).unwrap();
}

fn get(space: &mut MapSpace, key: &'static str) -> Bytes {
    match run_words(space, 0, vec!["get".into(), key.into()]).unwrap() {
        Reply::Bulk(value) => value,
        other => panic!("{other:?}"),
    }
}

/// `pfadd h a b c d e f g`, as Redis keeps it.
const SPARSE: &[u8] =
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x46\x6d\x80\x56\x0c\x80\x44\x3c\x84\x38\x80\x50\xb1\x84\x49\x8c\
    \x80\x42\x6d\x80\x42\x5a";

#[test]
fn sketches_of_redis_are_read() {
    let mut space = MapSpace::default();
    run(&mut space, 0, "pfadd h a b c d e f g");
    assert_eq!(get(&mut space, "h"), SPARSE);
    set(&mut space, "of_redis", SPARSE);
    assert_eq!(run(&mut space, 0, "pfcount of_redis"), "7");
    assert_eq!(run(&mut space, 0, "pfcount of_redis h"), "7");
    assert_eq!(run(&mut space, 0, "pfadd of_redis a"), "0");
    // A count that is known is given, and forgotten at the next change.
    let mut counted = SPARSE.to_vec();
    (counted[8], counted[15]) = (99, 0);
    set(&mut space, "of_redis", &counted);
    assert_eq!(run(&mut space, 0, "pfcount of_redis"), "99");
    assert_eq!(run(&mut space, 0, "pfadd of_redis a h"), "1");
    assert_eq!(run(&mut space, 0, "pfcount of_redis"), "8");
    set(&mut space, "of_redis", &SPARSE[..SPARSE.len() - 1]);
    for line in ["pfadd of_redis a", "pfcount of_redis h", "pfmerge d of_redis"] {
        assert_eq!(run(&mut space, 0, line), "INVALIDOBJ Corrupted HLL object detected", "{line}");
    }
}

/// FNV-1a, for the sketches that Redis wrote.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn counts_are_those_of_redis() {
    for (elements, counted, checksum_of_redis) in [
        (1, 1, 0xe38f_5885_342b_0435),
        (10, 10, 0xe775_294f_f904_8861),
        (100, 100, 0xdb52_dba5_1d5d_7d1b),
        (1000, 1003, 0xcaee_ecb5_e694_0c4f),
        (1500, 1499, 0x7c67_c6c0_891f_d226),
        (2000, 1988, 0x1143_2462_231c_593d),
        (3000, 2976, 0x3ef2_94a9_cc21_fa94),
        (5000, 4980, 0x621d_92cc_8765_f4f0),
        (20000, 19988, 0x7e1f_9400_47eb_a6c5),
    ] {
        let mut space = MapSpace::default();
        for first in (0..elements).step_by(1000) {
            let some: Vec<String> =
                (first..elements.min(first + 1000)).map(|number| format!("element~{number}")).collect();
            run(&mut space, 0, &format!("pfadd h {}", some.join(" ")));
        }
        assert_eq!(run(&mut space, 0, "pfcount h"), counted.to_string());
        assert_eq!(checksum(&get(&mut space, "h")), checksum_of_redis, "{elements}");
    }
}

#[test]
fn sketches_are_bounded() {
    let mut space = MapSpace::default();
    run(&mut space, 0, "pfadd h a");
    let keys = ["h"; 1024].join(" ");
    assert_eq!(run(&mut space, 0, &format!("pfcount {keys}")), "1");
    assert_eq!(run(&mut space, 0, &format!("pfmerge d {keys}")), "OK");
    for name in ["pfcount h", "pfmerge e"] {
        let over = run(&mut space, 0, &format!("{name} h {keys}"));
        assert!(over.contains("reads at most 1024 keys"), "{over}");
    }
    assert_eq!(run(&mut space, 0, "exists e"), "0");
}
