//! Geo, by a script of commands and of the replies that Redis 7.0 gave.

use super::*;

#[test]
fn places_are_kept_as_scores() {
    script(
        "geoadd s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania -> 2
        geodist s Palermo Catania -> '166274.1516'
        geodist s Palermo Catania km -> '166.2742'
        geodist s Palermo none -> nil
        geodist none a b -> nil
        geodist none a b foo -> ERR unsupported unit provided. please use M, KM, FT, MI
        geodist s Palermo Catania foo -> ERR unsupported unit provided. please use M, KM, FT, MI
        geodist s Palermo Catania m m -> ERR syntax error
        geohash s Palermo none Catania -> ['sqc8b49rny0' nil 'sqdtr74hyu0']
        geohash none a -> [nil]
        geohash s -> []
        geohash none -> []
        geopos s Palermo none -> [[13.36138933897018433 38.11555639549629859] nil[]]
        geopos none a b -> [nil[] nil[]]
        geopos s -> []
        geopos none -> []
        zscore s Palermo -> 3479099956230698
        geoadd s 13.361389 38.115556 Palermo -> 0
        geoadd s ch 13.361389 38.2 Palermo -> 1
        geoadd s NX ch 13.361389 38.115556 Palermo -> 0
        geoadd s XX ch 13.361389 38.115556 Palermo -> 1
        geoadd s XX 1 1 new -> 0
        geoadd s nx xx 1 1 new -> ERR syntax error
        geoadd s nx 1 1 -> ERR syntax error
        geoadd s 1 1 a 2 -> ERR syntax error
        geoadd s ch ch ch -> ERR syntax error
        geoadd s 181 1 a -> ERR invalid longitude,latitude pair 181.000000,1.000000
        geoadd s 1 86 a -> ERR invalid longitude,latitude pair 1.000000,86.000000
        geoadd s x 1 a -> ERR value is not a valid float
        geoadd s 1 1 a 1 x b -> ERR value is not a valid float
        geoadd s gt 1 1 a -> ERR syntax error
        exists a -> 0",
    );
}

#[test]
fn places_are_found_around_others() {
    script(
        "geoadd s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania -> 2
        georadius s 15 37 200 km -> ['Palermo' 'Catania']
        georadius s 15 37 200 km WITHDIST -> [['Palermo' '190.4424'] ['Catania' '56.4413']]
        georadius s 15 37 200 km WITHCOORD -> [['Palermo' [13.36138933897018433 38.11555639549629859]] ['Catania' [15.08726745843887329 37.50266842333162032]]]
        georadius s 15 37 200 km WITHDIST WITHCOORD WITHHASH -> [['Palermo' '190.4424' 3479099956230698 [13.36138933897018433 38.11555639549629859]] ['Catania' '56.4413' 3479447370796909 [15.08726745843887329 37.50266842333162032]]]
        georadius s 15 37 100 km desc -> ['Catania']
        georadius s 15 37 200 km desc count 1 -> ['Palermo']
        georadius s 15 37 200 km count 1 -> ['Catania']
        georadius s 15 37 200 km count 0 -> ERR COUNT must be > 0
        georadius s 15 37 200 km count x -> ERR value is not an integer or out of range
        georadius s 15 37 200 km count -> ERR syntax error
        georadius s 15 37 200 km any -> ERR the ANY argument requires COUNT argument
        georadius s 15 37 200 km any count 1 -> ['Palermo']
        georadius s 15 37 -1 km -> ERR radius cannot be negative
        georadius s 15 37 x km -> ERR need numeric radius
        georadius s 15 37 1 parsec -> ERR unsupported unit provided. please use M, KM, FT, MI
        georadius s 15 x 1 km -> ERR value is not a valid float
        georadius none 15 37 x km -> ERR need numeric radius
        georadius none 15 37 1 km -> []
        georadius none 15 37 1 km bad -> ERR syntax error
        georadiusbymember s Palermo 200 km -> ['Palermo' 'Catania']
        georadiusbymember s none 200 km -> ERR could not decode requested zset member
        georadiusbymember none x y z -> []
        georadiusbymember_ro s Palermo 200 km withdist -> [['Palermo' '0.0000'] ['Catania' '166.2742']]
        georadiusbymember_ro s Palermo 200 km storedist d -> ERR syntax error
        geosearch s fromlonlat 15 37 byradius 200 km asc -> ['Catania' 'Palermo']
        geosearch s fromlonlat 15 37 bybox 400 400 km asc WITHDIST -> [['Catania' '56.4413'] ['Palermo' '190.4424']]
        geosearch s frommember Palermo bybox 10 400 km -> ['Palermo']
        geosearch s frommember none bybox 10 400 km -> ERR could not decode requested zset member
        geosearch s frommember Palermo fromlonlat 1 1 byradius 1 m -> ERR syntax error
        geosearch s frommember Palermo byradius 1 m bybox 1 1 m -> ERR syntax error
        geosearch s frommember Palermo asc asc asc -> ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch
        GEOSEARCH s byradius 1 m asc asc asc -> ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH
        geosearch s frommember Palermo byradius 1 m any -> ERR the ANY argument requires COUNT argument
        geosearch s fromlonlat 1 1 bybox -1 1 km -> ERR height or width cannot be negative
        geosearch s fromlonlat 1 1 bybox x 1 km -> ERR need numeric width
        geosearch s fromlonlat 1 1 bybox 1 x km -> ERR need numeric height
        geosearch s fromlonlat 1 1 bybox 1 1 x -> ERR unsupported unit provided. please use M, KM, FT, MI
        geosearch s fromlonlat 1 1 byradius 1 km store d -> ERR syntax error
        geosearch s fromlonlat 1 1 byradius 1 km storedist -> ERR syntax error
        geosearch none frommember Palermo byradius 1 m -> []
        geosearch none frommember Palermo byradius x m -> ERR need numeric radius
        geosearch none fromlonlat 1 1 frommember Palermo byradius 1 m -> ERR syntax error",
    );
}

#[test]
fn what_is_found_is_stored() {
    script(
        "geoadd s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania -> 2
        georadius s 15 37 200 km store d -> 2
        zrange d 0 -1 withscores -> ['Palermo'=3479099956230698 'Catania'=3479447370796909]
        georadius s 15 37 200 km storedist d -> 2
        zrange d 0 -1 withscores -> ['Catania'=56.4412578701582 'Palermo'=190.44242984775784]
        georadius s 15 37 200 km storedist d withdist -> ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        georadius s 15 37 1 m store d -> 0
        exists d -> 0
        georadius s 15 37 200 km store -> ERR syntax error
        georadius_ro s 15 37 200 km store d -> ERR syntax error
        georadius_ro s 15 37 200 km asc -> ['Catania' 'Palermo']
        georadiusbymember none x y z store d -> 0
        georadiusbymember s Palermo 200 km store d -> 2
        geosearchstore e s fromlonlat 15 37 byradius 200 km asc -> 2
        zrange e 0 -1 withscores -> ['Palermo'=3479099956230698 'Catania'=3479447370796909]
        geosearchstore e s fromlonlat 15 37 byradius 200 km storedist count 1 -> 1
        zrange e 0 -1 -> ['Catania']
        geosearchstore e s fromlonlat 15 37 byradius 200 km withdist -> ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        geosearchstore e none fromlonlat 15 37 byradius 200 km -> 0
        exists e -> 0
        geosearchstore e s fromlonlat 15 37 byradius 200 km store x -> ERR syntax error
        set str v -> OK
        geoadd str 1 1 a -> WRONGTYPE Operation against a key holding the wrong kind of value
        geodist str a b -> WRONGTYPE Operation against a key holding the wrong kind of value
        geohash str a -> WRONGTYPE Operation against a key holding the wrong kind of value
        geopos str a -> WRONGTYPE Operation against a key holding the wrong kind of value
        georadius str x y z m -> WRONGTYPE Operation against a key holding the wrong kind of value
        geosearch str fromlonlat 1 1 byradius 1 m -> WRONGTYPE Operation against a key holding the wrong kind of value
        geosearchstore str s fromlonlat 15 37 byradius 200 km -> 2
        type str -> zset",
    );
}

#[test]
fn any_score_is_some_place() {
    script(
        "geoadd e 180 85.05112878 ne -180 -85.05112878 sw -> 2
        geohash e ne sw -> ['bp05b5048p0' '00bh0hbj200']
        geopos e ne sw -> [[180 85.0511287799999991] [-179.99999731779098511 -85.05112751263942528]]
        zrange e 0 -1 withscores -> ['sw'=0 'ne'=13510798882111488]
        zadd odd 1.5 a -5 b 99999999999999999999 c -> 3
        geohash odd a b c -> ['00bh0hbj210' 'bp05b5048p0' '00bh0hbj200']
        geopos odd a b c -> [[-179.99999731779098511 -85.05112497791824921] [180 85.0511287799999991] [-179.99999731779098511 -85.05112751263942528]]
        geodist odd a b -> '18919844.3072'",
    );
}

/// Cells are searched in Redis' order, which who asks for no order sees; ANY takes the first.
#[test]
fn places_come_in_the_order_of_cells() {
    script(
        "geoadd w 4.916 9.671 m0 11.808 17.698 m1 9.596 16.893 m2 -18.840 -1.375 m3 17.734 5.959 m4 16.036 -15.472 m5 -1.237 -10.137 m6 1.750 2.958 m7 -19.475 -11.331 m8 -8.821 16.654 m9 10.629 -13.616 m10 11.886 -14.449 m11 4.698 -14.932 m12 -19.929 14.856 m13 -11.622 -11.381 m14 19.297 14.896 m15 -8.428 18.459 m16 1.569 7.113 m17 -11.809 17.639 m18 7.626 18.663 m19 15.750 -8.048 m20 -5.552 -13.362 m21 -14.172 -17.394 m22 -7.946 4.124 m23 -> 24
        geoadd p -178.78 61.65 p0 -52.07 72.02 p1 -66.31 71.81 p2 -116.60 84.38 p3 -171.77 81.12 p4 -173.50 69.15 p5 28.27 -71.32 p6 74.79 -62.98 p7 -91.41 68.61 p8 -52.27 79.39 p9 -141.10 81.49 p10 -166.81 -65.21 p11 -> 12
        geosearch w fromlonlat 1 1 byradius 900 km -> ['m7' 'm17']
        geosearch w fromlonlat 1 1 bybox 2400 1200 km -> ['m7' 'm23']
        geosearch w fromlonlat 1 1 byradius 9000 km -> ['m7' 'm17' 'm0' 'm4' 'm2' 'm19' 'm15' 'm1' 'm12' 'm10' 'm11' 'm5' 'm20' 'm23' 'm13' 'm18' 'm9' 'm16' 'm22' 'm8' 'm14' 'm21' 'm3' 'm6']
        geosearch w frommember m3 byradius 600 mi count 3 any -> ['m3']
        geosearch w fromlonlat -3 7 bybox 3000 4000 km count 4 any desc -> ['m18' 'm16' 'm9' 'm23']
        georadius_ro p 100 70 2000 km -> []
        georadius_ro p -100 -82 1500 km -> []
        georadius_ro p 179.9 75 3000 km count 2 any -> ['p0' 'p5']
        geosearch p fromlonlat 0 84 bybox 9000 500 km -> ['p3']
        georadius_ro p 0 0 20000 km count 5 -> ['p6' 'p1' 'p2' 'p7' 'p9']
        georadius_ro p 180 85.05112878 3000 km -> []",
    );
}

#[test]
fn searches_are_bounded() {
    let mut space = MapSpace::default();
    for first in (0..120_000).step_by(1000) {
        let members: Vec<String> = (first..first + 1000).map(|n| format!("1 1 m{n}")).collect();
        // Without a walk of all rows after each.
        let bytes = Command(words(&format!("geoadd z {}", members.join(" ")))).to_bytes();
        let at = ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 0 };
        apply(at, &mut space, &bytes).unwrap();
    }
    let around = "fromlonlat 1 1 byradius 1 km";
    let stored = "ERR a search that may store looks at 100000 members at most; use GEOSEARCH";
    assert_eq!(run(&mut space, 0, &format!("geosearchstore d z {around}")), stored);
    assert_eq!(run(&mut space, 0, "georadius z 1 1 1 km count 1"), stored);
    assert_eq!(run(&mut space, 0, "exists d"), "0");
    let over = "ERR reply is larger than 100000 elements or 4194304 bytes; use COUNT";
    assert_eq!(run(&mut space, 0, &format!("geosearch z {around}")), over);
    assert_eq!(run(&mut space, 0, &format!("geosearch z {around} withdist count 100000")), over);
    assert_eq!(run(&mut space, 0, &format!("geosearch z {around} count 2")), "['m0' 'm1']");
    assert_eq!(run(&mut space, 0, &format!("geosearchstore d z {around} count 3 any")), "3");
}
