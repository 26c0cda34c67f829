//! Bitmaps, by scripts of commands and of the replies that Redis 7.0 gave.

use super::*;

#[test]
fn bits_are_set_counted_and_found() {
    script(
        "getbit a 7 -> 0
        setbit a 7 1 -> 0
        setbit a 7 0 -> 1
        setbit a 0 1 -> 0
        getbit a 0 -> 1
        getbit a 100 -> 0
        strlen a -> 1
        setbit a 23 1 -> 0
        strlen a -> 3
        setbit a -1 1 -> ERR bit offset is not an integer or out of range
        setbit a 07 1 -> ERR bit offset is not an integer or out of range
        setbit a 7 2 -> ERR bit is not an integer or out of range
        setbit a 7 x -> ERR bit is not an integer or out of range
        getbit a 4294967295 -> 0
        getbit a 4294967296 -> ERR bit offset is not an integer or out of range
        getbit a x -> ERR bit offset is not an integer or out of range
        setbit a 7 -> refused ERR wrong number of arguments for 'setbit' command
        rpush l 1 -> 1
        setbit l 1 1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        setbit l 1 2 -> ERR bit is not an integer or out of range
        getbit l 1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitcount l -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitpos l 1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitcount a -> 2
        set k foobar -> OK
        bitcount k -> 26
        bitcount k 0 0 -> 4
        bitcount k 1 1 -> 6
        bitcount k 1 -1 -> 22
        bitcount k -2 -1 -> 7
        bitcount k -1 -2 -> 0
        bitcount k -9 0 -> 4
        bitcount k 5 30 -> 4
        bitcount k 5 30 BIT -> 17
        bitcount k 1 1 byte -> 6
        bitcount k -9 -7 bit -> 2
        bitcount k 6 9 -> 0
        bitcount k 0 -> ERR syntax error
        bitcount k 0 1 xyz -> ERR syntax error
        bitcount k -1 -5 xyz -> 0
        bitcount k x 1 -> ERR value is not an integer or out of range
        bitcount none -> 0
        bitcount none 0 x -> 0
        bitpos k 1 -> 1
        bitpos k 0 -> 0
        bitpos k 1 2 -> 17
        bitpos k 1 -1 -> 41
        bitpos k 1 9 -> -1
        bitpos k 0 10 15 BIT -> 11
        bitpos k 1 7 15 BIT -> 9
        bitpos k 1 -3 -1 bit -> 46
        bitpos k 2 -> ERR The bit argument must be 1 or 0.
        bitpos k x -> ERR value is not an integer or out of range
        bitpos k 1 x -> ERR value is not an integer or out of range
        bitpos k 1 0 x -> ERR value is not an integer or out of range
        bitpos k 1 0 1 z -> ERR syntax error
        bitpos k 1 0 1 bit 2 -> ERR syntax error
        bitpos none 0 -> 0
        bitpos none 1 -> -1
        bitpos none 0 x -> 0
        set empty '' -> OK
        bitpos empty 0 -> -1
        bitpos empty 1 -> -1
        bitcount empty -> 0",
    );
}

#[test]
fn bitmaps_are_combined() {
    script(
        "set a foobar -> OK
        set b abc -> OK
        bitop and d a b -> 6
        bitop or d a b -> 6
        get d -> 'goobar'
        bitop xor d a b none -> 6
        bitop not n none -> 0
        exists n -> 0
        bitop xor d a a -> 6
        bitcount d -> 0
        bitop not d a -> 6
        bitop NOT d d -> 6
        get d -> 'foobar'
        bitop not d a b -> ERR BITOP NOT must be called with a single source key.
        bitop nand d a -> ERR syntax error
        bitop and d a none -> 6
        bitcount d -> 0
        rpush l 1 -> 1
        bitop or d a l -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitop or l a -> 6
        get l -> 'foobar'
        expire l 100 -> 1
        bitop or l a -> 6
        ttl l -> -1
        bitop or l none -> 0
        exists l -> 0
        bitop or d -> refused ERR wrong number of arguments for 'bitop' command",
    );
}

#[test]
fn integers_in_strings_keep_their_range() {
    script(
        "bitfield f -> []
        exists f -> 0
        bitfield f get u8 0 -> [0]
        exists f -> 0
        bitfield f set u8 0 255 get u8 0 get i8 0 get u4 2 -> [0 255 -1 15]
        bitfield f incrby u8 0 10 -> [9]
        bitfield f incrby u8 0 -10 -> [255]
        bitfield f overflow sat incrby u8 0 300 incrby u8 0 -1000 -> [255 0]
        bitfield f overflow fail incrby u8 0 -1 get u8 0 -> [nil 0]
        bitfield f overflow fail incrby u8 #1 256 overflow wrap incrby u8 #1 256 -> [nil 0]
        strlen f -> 2
        bitfield f set i5 #3 -17 get i5 #3 get i5 15 -> [0 15 15]
        bitfield f overflow sat set i5 #3 -17 get i5 #3 -> [15 -16]
        bitfield f overflow sat set i5 #3 16 get i5 #3 -> [-16 15]
        bitfield f set u8 0 -1 get u8 0 -> [0 255]
        bitfield f overflow sat set u8 0 -1 get u8 0 -> [255 255]
        bitfield f overflow fail set u8 0 -1 -> [nil]
        bitfield f set i64 100 9223372036854775807 incrby i64 100 1 -> [0 -9223372036854775808]
        bitfield f overflow sat incrby i64 100 -1 get i64 100 -> [-9223372036854775808 -9223372036854775808]
        bitfield f set u63 200 9223372036854775807 incrby u63 200 1 -> [0 0]
        bitfield f set u1 3 1 get u1 3 get i1 3 -> [1 1 -1]
        bitfield f set i1 3 0 overflow sat incrby i1 3 1 -> [-1 0]
        bitfield f get u64 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get i65 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get x8 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get u0 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get u08 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get u 0 -> ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        bitfield f get u8 -1 -> ERR bit offset is not an integer or out of range
        bitfield f get u8 #-1 -> ERR bit offset is not an integer or out of range
        bitfield f get u8 x -> ERR bit offset is not an integer or out of range
        bitfield f get u8 4294967295 -> [0]
        bitfield f get u8 4294967296 -> ERR bit offset is not an integer or out of range
        bitfield f get u8 #536870912 -> ERR bit offset is not an integer or out of range
        bitfield f set u8 0 x -> ERR value is not an integer or out of range
        bitfield f overflow bad -> ERR Invalid OVERFLOW type specified
        bitfield f overflow -> ERR syntax error
        bitfield f get u8 -> ERR syntax error
        bitfield f set u8 0 -> ERR syntax error
        bitfield f del u8 0 -> ERR syntax error
        bitfield none overflow fail set u2 14 4 -> [nil]
        strlen none -> 2
        bitfield_ro f get u8 0 get u8 99999 -> [239 0]
        bitfield_ro f set u8 0 1 -> ERR BITFIELD_RO only supports the GET subcommand
        bitfield_ro f set u8 0 x -> ERR value is not an integer or out of range
        bitfield_ro f overflow sat get u8 0 -> [239]
        bitfield_ro nothing get u8 0 -> [0]
        rpush l 1 -> 1
        bitfield l -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitfield_ro l get u8 0 -> WRONGTYPE Operation against a key holding the wrong kind of value
        bitfield l set u8 0 1 -> WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn bitmaps_are_bounded() {
    let mut space = MapSpace::default();
    let last = VALUE_BYTES_MAX * 8 - 1;
    assert_eq!(run(&mut space, 0, &format!("setbit a {last} 1")), "0");
    assert_eq!(
        run(&mut space, 0, &format!("setbit a {} 1", last + 1)),
        "ERR bit offset is not an integer or out of range"
    );
    assert_eq!(run(&mut space, 0, "strlen a"), VALUE_BYTES_MAX.to_string());
    assert_eq!(run(&mut space, 0, &format!("bitfield a set u8 {} 255", last - 7)), "[1]");
    assert_eq!(
        run(&mut space, 0, &format!("bitfield a set u8 {} 255", last - 6)),
        "ERR bit offset is not an integer or out of range"
    );
    assert_eq!(run(&mut space, 0, &format!("bitfield a get u8 {}", last - 6)), "[254]");
    let sources = ["a"; strings::STRINGS_BYTES_MAX / VALUE_BYTES_MAX].join(" ");
    assert_eq!(run(&mut space, 0, &format!("bitop or d {sources}")), VALUE_BYTES_MAX.to_string());
    let over = run(&mut space, 0, &format!("bitop and d {sources} a"));
    assert_eq!(over, "ERR BITOP reads at most 16777216 bytes of strings; name fewer keys");
    assert_eq!(run(&mut space, 0, "bitcount d"), "8", "the error changed nothing");
}

#[test]
fn bits_keep_a_keys_expiry_and_its_version() {
    let mut space = MapSpace::default();
    run(&mut space, 0, "set a b PX 100");
    run(&mut space, 0, "setbit a 7 1");
    run(&mut space, 0, "bitfield a set u8 0 7");
    assert_eq!(run(&mut space, 0, "pttl a"), "100");
    let before = space.clone();
    run(&mut space, 0, "setbit a 7 1");
    run(&mut space, 0, "bitfield a set u8 0 7 overflow fail incrby u2 6 1");
    assert_eq!(space, before, "what changes no bit is no change for WATCH");
    assert_eq!(run(&mut space, 100, "getbit a 7"), "0");
}
