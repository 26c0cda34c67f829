//! Keys, their expiry, and strings, by scripts of commands and replies.

use super::*;

#[test]
fn strings() {
    script(
        "get a -> nil
        set a 1 -> OK
        GET a -> '1'
        set a 2 NX -> nil
        set b 2 XX -> nil
        set a 2 xx get -> '1'
        set a 3 NX GET -> '2'
        set a 3 NX XX -> ERR syntax error
        set a 3 EX -> ERR syntax error
        set a 3 EX 0 -> ERR invalid expire time in 'set' command
        set a 3 EX 9223372036854775807 -> ERR invalid expire time in 'set' command
        set a 3 EX 1 KEEPTTL -> ERR syntax error
        set a 4 IFEQ 2 -> OK
        set a 5 ifeq 3 -> nil
        set none 5 IFEQ 3 -> nil
        set a 5 IFEQ -> ERR syntax error
        set a 5 NX IFEQ 4 -> ERR syntax error
        set t 1 -> OK
        delex t IFEQ 2 -> 0
        delex t IFNE 2 -> ERR syntax error
        delex t ifeq 1 -> 1
        delex t IFEQ 1 -> 0
        set t 1 -> OK
        delex t -> 1
        set a 2 -> OK
        setnx a 9 -> 0
        setnx c 9 -> 1
        getset c 10 -> '9'
        getdel c -> '10'
        getdel c -> nil
        mset x 1 y 2 x 3 -> OK
        mset x 1 y -> ERR wrong number of arguments for 'mset' command
        mget x y z -> ['3' '2' nil]
        msetnx q 1 x 2 -> 0
        msetnx q 1 r 2 q 3 -> 1
        mget q r -> ['3' '2']
        append a bc -> 3
        strlen a -> 3
        strlen none -> 0
        getrange a 0 -1 -> '2bc'
        getrange a -2 9 -> 'bc'
        getrange a 2 1 -> ''
        getrange a 0 -9 -> '2'
        setrange a 5 zz -> 7
        getrange a 3 4 -> '\0\0'
        setrange none 5 '' -> 0
        exists none -> 0
        setrange a -1 x -> ERR offset is out of range
        setrange a 9999999 x -> ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            .replace("\\0", "\0")
            .as_str(),
    );
}

#[test]
fn counters() {
    script(
        "incr n -> 1
        incrby n 41 -> 42
        decr n -> 41
        decrby n 42 -> -1
        set n 9223372036854775807 -> OK
        incr n -> ERR increment or decrement would overflow
        decrby n -9223372036854775808 -> ERR decrement would overflow
        set n 010 -> OK
        incr n -> ERR value is not an integer or out of range
        incrby n 1.5 -> ERR value is not an integer or out of range
        set f 10.5 -> OK
        incrbyfloat f 0.1 -> '10.6'
        incrbyfloat f -5 -> '5.6'
        set f 5.0e3 -> OK
        incrbyfloat f 2.0e2 -> '5200'
        incrbyfloat f x -> ERR value is not a valid float
        incrbyfloat f inf -> ERR increment would produce NaN or Infinity
        get f -> '5200'",
    );
}

#[test]
fn expiry() {
    script(
        "set a 1 PX 500 -> OK
        pttl a -> 500
        ttl a -> 1
        @1499
        get a -> '1'
        @1500
        get a -> nil
        ttl a -> -2
        exists a -> 0
        set a 2 NX -> OK
        pttl a -> -1
        expire a 10 -> 1
        set a 3 KEEPTTL -> OK
        ttl a -> 10
        append a x -> 2
        ttl a -> 10
        persist a -> 1
        persist a -> 0
        expire a 10 XX -> 0
        expire a 10 NX -> 1
        expire a 5 GT -> 0
        expire a 5 LT -> 1
        ttl a -> 5
        expire a 5 GT LT -> ERR GT and LT options at the same time are not compatible
        expire a 5 ZZ -> ERR Unsupported option ZZ
        set a 4 -> OK
        ttl a -> -1
        pexpire a -1 -> 1
        exists a -> 0
        expire a 5 -> 0
        setex a 5 v -> OK
        psetex b 0 v -> ERR invalid expire time in 'psetex' command
        hset h f v -> 1
        expire h 1 -> 1
        @9000
        hset h g w -> 1
        hgetall h -> ['g' 'w']
        type h -> hash
        type none -> none
        dbsize -> 1",
    );
}

#[test]
fn keys_move_and_are_copied() {
    script(
        "rpush l a b c -> 3
        expire l 100 -> 1
        rename l m -> OK
        exists l -> 0
        lrange m 0 -1 -> ['a' 'b' 'c']
        ttl m -> 100
        rename none x -> ERR no such key
        set s v -> OK
        renamenx s m -> 0
        renamenx s t -> 1
        copy m n -> 1
        copy m n -> 0
        lpop n -> 'a'
        llen m -> 3
        ttl n -> 100
        copy t n REPLACE -> 1
        get n -> 'v'
        copy t t -> ERR source and destination objects are the same
        copy t t DB 5 -> 1
        copy t t DB 5 -> 0
        copy t t DB 16 -> ERR DB index is out of range
        move n 5 -> 1
        move n 5 -> 0
        move t 0 -> ERR source and destination objects are the same
        rename m t -> OK
        lrange t 0 -1 -> ['a' 'b' 'c']
        dbsize -> 1
        keys * -> ['t']
        keys x* -> []
        randomkey -> 't'
        zadd z 1 a 2 b -> 2
        copy z y -> 1
        zrem z a b -> 2
        zrange y 0 -1 WITHSCORES -> ['a'=1 'b'=2]
        touch t y none -> 2
        object encoding t -> 'quicklist'
        object encoding y -> 'listpack'
        object encoding none -> nil
        set i 12 -> OK
        object encoding i -> 'int'
        sadd q 1 2 -> 2
        object encoding q -> 'intset'
        sadd q x -> 1
        object encoding q -> 'hashtable'
        flushall -> OK
        dbsize -> 0
        randomkey -> nil",
    );
}

#[test]
fn values_with_an_end_and_what_two_have_in_common() {
    script(
        "set a v -> OK
        getex a EX 10 -> 'v'
        ttl a -> 10
        getex a -> 'v'
        ttl a -> 10
        getex a PERSIST -> 'v'
        ttl a -> -1
        getex a EX 0 -> ERR invalid expire time in 'getex' command
        getex a NX -> ERR syntax error
        getex none EX 10 -> nil
        substr a 0 0 -> 'v'
        set b v EXAT 100 -> ERR dates are taken from clients of the Redis door, whose clock they are of; give a duration
        set x ohmytext -> OK
        set y mynewtext -> OK
        lcs x y -> 'mytext'
        lcs x y LEN -> 6
        lcs x y IDX -> {'matches': [[[4 7] [5 8]] [[2 3] [0 1]]] 'len': 6}
        lcs x y IDX MINMATCHLEN 4 WITHMATCHLEN -> {'matches': [[[4 7] [5 8] 4]] 'len': 6}
        lcs x y IDX LEN -> ERR If you want both the length and indexes, please just use IDX.
        lcs x none -> ''",
    );
}
