//! Lists, sets and hashes, by scripts of commands and replies.

use super::*;

#[test]
fn hashes() {
    script(
        "hset h b 2 a 1 -> 2
        hset h b 3 c 4 -> 1
        hset h b -> refused ERR wrong number of arguments for 'hset' command
        hset h b 1 c -> ERR wrong number of arguments for 'hset' command
        hmset h d 5 -> OK
        hgetall h -> ['a' '1' 'b' '3' 'c' '4' 'd' '5']
        hsetnx h a 9 -> 0
        hsetnx h e 9 -> 1
        hget h e -> '9'
        hget h zz -> nil
        hmget h a zz c -> ['1' nil '4']
        hmget none a -> [nil]
        hexists h a -> 1
        hlen h -> 5
        hincrby h a 5 -> 6
        hincrby h n -5 -> -5
        hset h t x -> 1
        hincrby h t 1 -> ERR hash value is not an integer
        hdel h a b c d e n t zz -> 7
        exists h -> 0
        dbsize -> 0
        set s 1 -> OK
        hset s a 1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        hget s a -> WRONGTYPE Operation against a key holding the wrong kind of value
        hincrby none f x -> ERR value is not an integer or out of range
        exists none -> 0
        dbsize -> 1",
    );
}

#[test]
fn lists_and_sets() {
    script(
        "lpush l a b -> 2
        rpush l c -> 3
        lrange l 0 -1 -> ['b' 'a' 'c']
        lrange l -2 -1 -> ['a' 'c']
        lrange l 5 9 -> []
        lindex l 0 -> 'b'
        lindex l -1 -> 'c'
        lindex l 3 -> nil
        lpop l -> 'b'
        rpop l 5 -> ['c' 'a']
        lpop l -> nil
        lpop l 2 -> nil[]
        lpop l -1 -> ERR value is out of range, must be positive
        lpop l 1 1 -> ERR wrong number of arguments for 'lpop' command
        exists l -> 0
        llen l -> 0
        sadd s b a b -> 2
        sadd s a -> 0
        smembers s -> ['a' 'b']
        sismember s a -> 1
        sismember s z -> 0
        scard s -> 2
        smismember s a z b -> [1 0 1]
        lpush s x -> WRONGTYPE Operation against a key holding the wrong kind of value
        srem s a z -> 1
        srem s b -> 1
        exists s -> 0
        srem s b -> 0
        dbsize -> 0",
    );
}

#[test]
fn lists_in_the_middle() {
    script(
        "rpush l a b c d e f -> 6
        linsert l before b x -> 7
        linsert l AFTER e y -> 8
        lrange l 0 -1 -> ['a' 'x' 'b' 'c' 'd' 'e' 'y' 'f']
        linsert l before none z -> -1
        linsert none before a z -> 0
        linsert l beside a z -> ERR syntax error
        lset l 0 q -> OK
        lset l -1 r -> OK
        lset l 8 r -> ERR index out of range
        lset none 0 r -> ERR no such key
        lrange l 0 -1 -> ['q' 'x' 'b' 'c' 'd' 'e' 'y' 'r']
        ltrim l 1 -2 -> OK
        lrange l 0 -1 -> ['x' 'b' 'c' 'd' 'e' 'y']
        rpush l b c b -> 9
        lrem l 1 b -> 1
        lrem l -1 b -> 1
        lrange l 0 -1 -> ['x' 'c' 'd' 'e' 'y' 'b' 'c']
        lrem l 0 c -> 2
        lrem l 0 none -> 0
        lrange l 0 -1 -> ['x' 'd' 'e' 'y' 'b']
        lpos l e -> 2
        lpos l none -> nil
        rpush l e e -> 7
        lpos l e RANK 2 -> 5
        lpos l e RANK -1 -> 6
        lpos l e COUNT 0 -> [2 5 6]
        lpos l e COUNT 2 RANK -1 -> [6 5]
        lpos l e COUNT 0 MAXLEN 4 -> [2]
        lpos l e RANK 0 -> ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        lmove l m LEFT RIGHT -> 'x'
        lmove l l LEFT RIGHT -> 'd'
        rpoplpush l m -> 'd'
        lrange m 0 -1 -> ['d' 'x']
        lmpop 2 none m RIGHT COUNT 5 -> ['m' ['x' 'd']]
        lmpop 1 m LEFT -> nil[]
        lmpop 0 m LEFT -> ERR numkeys should be greater than 0
        blpop none l 0 -> ['l' 'e']
        brpop l -1 -> ERR timeout is negative
        brpop l x -> ERR timeout is not a float or out of range
        blmpop 0 1 none LEFT -> nil[]
        blmove none l LEFT LEFT 0 -> nil
        lpushx none a -> 0
        rpushx l z -> 5
        ltrim l 9 10 -> OK
        exists l m -> 0
        dbsize -> 0",
    );
}

#[test]
fn sets_together() {
    script(
        "sadd a 1 2 3 4 -> 4
        sadd b 3 4 5 -> 3
        sinter a b -> ['3' '4']
        sunion a b none -> ['1' '2' '3' '4' '5']
        sdiff a b -> ['1' '2']
        sdiff none a -> []
        sinter a none -> []
        sintercard 2 a b -> 2
        sintercard 2 a b LIMIT 1 -> 1
        sintercard 0 a -> ERR numkeys should be greater than 0
        sintercard 3 a b -> ERR Number of keys can't be greater than number of args
        sinterstore c a b -> 2
        smembers c -> ['3' '4']
        sunionstore a a b -> 5
        scard a -> 5
        sdiffstore c a a -> 0
        exists c -> 0
        smove a b 1 -> 1
        smove a b 1 -> 0
        sismember b 1 -> 1
        set s x -> OK
        smove a s 2 -> WRONGTYPE Operation against a key holding the wrong kind of value
        sinter a s -> WRONGTYPE Operation against a key holding the wrong kind of value
        sunionstore s a -> 4
        spop s 10 -> ['2' '3' '4' '5']
        exists s -> 0
        spop none -> nil
        spop none 3 -> []
        spop a -1 -> ERR value is out of range, must be positive
        srandmember none -> nil
        srandmember none 3 -> []
        sscan a 0 MATCH [45] -> ['0' ['5' '4']]
        sscan a x -> ERR invalid cursor",
    );
}

/// Random picks, scans and pops against a plain set, small and large.
#[test]
fn a_scan_gives_all_that_stays() {
    for size in [5usize, 500, 3_000] {
        let mut space = MapSpace::default();
        let members: Vec<String> = (0..size).map(|n| format!("member:{n}")).collect();
        for part in members.chunks(100) {
            run(&mut space, 0, &format!("sadd s {}", part.join(" ")));
        }
        let (mut cursor, mut seen, mut rounds) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let reply = run_words(&mut space, 0, words(&format!("sscan s {cursor} COUNT 50"))).unwrap();
            let Reply::Array(parts) = reply else { panic!() };
            let [Reply::Bulk(next), Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
            seen.extend(found.iter().map(show));
            cursor = String::from_utf8(next.to_vec()).unwrap();
            rounds += 1;
            // What comes and goes meanwhile hides nothing.
            run(&mut space, 0, &format!("sadd s other:{rounds}"));
            run(&mut space, 0, &format!("srem s other:{}", rounds - 1));
            if cursor == "0" {
                break;
            }
        }
        assert!(members.iter().all(|member| seen.contains(&format!("'{member}'"))), "{size}");
        assert!(rounds <= size / 50 + 2);
        let picked = run(&mut space, 0, "srandmember s 4");
        assert_eq!(picked.split(' ').collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(run(&mut space, 0, "srandmember s -40").split(' ').count(), 40);
        assert_eq!(run(&mut space, 0, "spop s 3").split(' ').count(), 3);
        assert_eq!(run(&mut space, 0, "scard s"), (size + 1 - 3).to_string());
    }
}

#[test]
fn hashes_at_random_and_by_pages() {
    script(
        "hset h a 1 -> 1
        hrandfield h -> 'a'
        hrandfield h 5 -> ['a']
        hrandfield h -3 -> ['a' 'a' 'a']
        hrandfield h 1 WITHVALUES -> ['a'='1']
        hrandfield h 1 NOVALUES -> ERR syntax error
        hrandfield none -> nil
        hscan h 0 -> ['0' ['a' '1']]
        hscan h 0 MATCH b* -> ['0' []]
        hstrlen h a -> 1
        hstrlen h none -> 0
        hincrbyfloat h a 1.5 -> '2.5'
        hincrbyfloat h n -0.5 -> '-0.5'
        hincrbyfloat h a x -> ERR value is not a valid float
        hset h t x -> 1
        hincrbyfloat h t 1 -> ERR hash value is not a float
        hkeys none -> []
        hgetall none -> []",
    );
}
