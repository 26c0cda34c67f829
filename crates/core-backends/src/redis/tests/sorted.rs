//! Sorted sets, by scripts of commands and replies.

use super::*;

#[test]
fn sorted_sets() {
    script(
        "zadd z 2 b 1 a 3 c -> 3
        zadd z CH 5 a 3 c -> 1
        zrange z 0 -1 WITHSCORES -> ['b'=2 'c'=3 'a'=5]
        zrange z 0 1 REV WITHSCORES -> ['a'=5 'c'=3]
        zrange z 2 2 WITHSCORES -> ['a'=5]
        zrange z 1 2 -> ['c' 'a']
        zrange z 1 9 REV -> ['c' 'b']
        zrangebyscore z (2 +inf -> ['c' 'a']
        zrangebyscore z -inf (5 WITHSCORES -> ['b'=2 'c'=3]
        zrangebyscore z 2 5 LIMIT 1 1 -> ['c']
        zrangebyscore z 2 5 LIMIT 1 -1 -> ['c' 'a']
        zrangebyscore z (5 2 -> []
        zrangebyscore z x 2 -> ERR min or max is not a float
        zrange z 5 (2 BYSCORE REV -> ['a' 'c']
        zrange z 0 1 LIMIT 0 1 -> ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        zadd z NX 9 a -> 0
        zadd z XX 9 new -> 0
        zadd none XX 9 new -> 0
        zadd z NX XX 1 a -> ERR XX and NX options at the same time are not compatible
        zadd z GT LT 1 a -> ERR GT, LT, and/or NX options at the same time are not compatible
        zadd z INCR 1 a 2 b -> ERR INCR option supports a single increment-element pair
        zadd z 1 -> refused ERR wrong number of arguments for 'zadd' command
        zadd z 1 a 2 -> ERR syntax error
        zadd z nan a -> ERR value is not a valid float
        zadd z GT CH 1 a -> 0
        zadd z LT CH 1.5 a -> 1
        zscore z a -> 1.5
        zadd z INCR XX 1 a -> 2.5
        zadd z NX INCR 1 a -> nil
        zincrby z -2.5 a -> 0
        zadd z -0 a -> 0
        zscore z a -> 0
        zadd z inf i -> 1
        zincrby z -inf i -> ERR resulting score is not a number (NaN)
        zscore z none -> nil
        zcard z -> 4
        zrem z a i q -> 2
        zrem z b c -> 2
        exists z none -> 0
        dbsize -> 0",
    );
}

#[test]
fn ranges_of_sorted_sets() {
    script(
        "zadd z 1 a 2 b 3 c 4 d 5 e -> 5
        zrevrange z 0 1 WITHSCORES -> ['e'=5 'd'=4]
        zrevrangebyscore z 4 (2 -> ['d' 'c']
        zcount z (1 4 -> 3
        zcount z 5 1 -> 0
        zcount z x 1 -> ERR min or max is not a float
        zrank z c -> 2
        zrevrank z c -> 2
        zrank z none -> nil
        zmscore z a none e -> [1 nil 5]
        zrangestore t z 2 4 BYSCORE -> 3
        zrange t 0 -1 -> ['b' 'c' 'd']
        zrangestore t z 9 10 -> 0
        exists t -> 0
        zremrangebyrank z 0 0 -> 1
        zremrangebyscore z (4 +inf -> 1
        zrange z 0 -1 -> ['b' 'c' 'd']
        zpopmin z -> ['b' 2]
        zpopmax z 5 -> ['d'=4 'c'=3]
        exists z -> 0
        zpopmin z -> []
        zpopmin z -1 -> ERR value is out of range, must be positive
        zadd x 0 a 0 b 0 c 0 d -> 4
        zrangebylex x [b (d -> ['b' 'c']
        zrevrangebylex x + [c -> ['d' 'c']
        zrangebylex x - + LIMIT 1 2 -> ['b' 'c']
        zrange x (a + BYLEX -> ['b' 'c' 'd']
        zrange x - + BYLEX WITHSCORES -> ERR syntax error, WITHSCORES not supported in combination with BYLEX
        zrangebylex x b + -> ERR min or max not valid string range item
        zlexcount x - (c -> 2
        zremrangebylex x [a (b -> 1
        zmpop 2 none x MAX COUNT 2 -> ['x' [['d' 0] ['c' 0]]]
        zmpop 1 none MIN -> nil[]
        bzpopmin none x 0 -> ['x' 'b' 0]
        bzpopmax x 1 -> nil[]
        bzmpop 0 1 x MIN -> nil[]",
    );
}

#[test]
fn sorted_sets_together() {
    script(
        "zadd a 1 x 2 y -> 2
        zadd b 10 y 20 z -> 2
        sadd s y w -> 2
        zunion 2 a b WITHSCORES -> ['x'=1 'y'=12 'z'=20]
        zinter 2 a b WITHSCORES -> ['y'=12]
        zinter 3 a b s WITHSCORES -> ['y'=13]
        zdiff 2 a b WITHSCORES -> ['x'=1]
        zunion 2 a b -> ['x' 'y' 'z']
        zunion 2 a b WEIGHTS 2 -1 AGGREGATE MIN WITHSCORES -> ['z'=-20 'y'=-10 'x'=2]
        zunion 2 a b AGGREGATE MAX WITHSCORES -> ['x'=1 'y'=10 'z'=20]
        zunion 0 a -> ERR at least 1 input key is needed for 'zunion' command
        zunion 2 a b WEIGHTS 1 -> ERR syntax error
        zunion 2 a b WEIGHTS 1 x -> ERR weight value is not a float
        zintercard 2 a b -> 1
        zintercard 2 a b LIMIT 5 -> 1
        zunionstore d 2 a b -> 3
        zrange d 0 -1 WITHSCORES -> ['x'=1 'y'=12 'z'=20]
        zinterstore d 2 a none -> 0
        exists d -> 0
        zdiffstore d 1 b -> 2
        zunionstore a 1 a WITHSCORES -> ERR syntax error
        set str v -> OK
        zunion 2 a str -> WRONGTYPE Operation against a key holding the wrong kind of value
        zrandmember a 0 WITHSCORES -> []
        zrandmember none -> nil
        zrandmember none 2 -> []
        zscan b 0 MATCH z -> ['0' ['z' 20]]",
    );
}
