//! Connections of the door over a database in memory, byte by byte as clients send and read them.

use door_redis::testing::Memory;
use door_redis::{serve, Door, Metrics, Settles};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::LocalSet;

struct Bed {
    door: Rc<Door>,
    memory: Arc<Memory>,
    stop: watch::Sender<bool>,
}

struct Client(DuplexStream);

/// Nobody counts unfinished bytes here.
struct Uncounted;

impl Settles for Uncounted {
    fn settled(&self) {}
}

/// A test on one thread, with its door.
async fn with_door<F: Future<Output = ()>>(memory: Memory, test: impl FnOnce(Rc<Bed>) -> F) {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(memory);
            let door = Door::start(memory.clone(), Arc::new(Metrics::default()));
            test(Rc::new(Bed { door, memory, stop: watch::channel(false).0 })).await;
        })
        .await;
}

impl Bed {
    fn connect(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let address = "127.0.0.1:5".to_owned();
        tokio::task::spawn_local(serve(self.door.clone(), theirs, address, None, &Uncounted, self.stop.subscribe()));
        Client(ours)
    }
}

impl Client {
    async fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    }

    /// Exactly this comes, and nothing else yet. Line ends are written as spaces.
    async fn expect(&mut self, text: &str) {
        let wanted = text.replace(' ', "\r\n");
        let mut got = vec![0; wanted.len()];
        let read = tokio::time::timeout(Duration::from_secs(5), self.0.read_exact(&mut got)).await;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", " ");
        assert!(read.is_ok_and(|read| read.is_ok()), "wanted {text:?}, got {:?}", shown(&got));
        assert_eq!(shown(&got), text);
    }

    async fn ask(&mut self, line: &str, text: &str) {
        self.send(line).await;
        self.expect(text).await;
    }

    /// Nothing comes.
    async fn expect_nothing(&mut self) {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(50), self.0.read(&mut byte)).await;
        assert!(read.is_err(), "got {:?}", byte[0] as char);
    }

    /// Until no other connection is left.
    async fn until_alone(&mut self) {
        for _ in 0..1_000 {
            self.send("CLIENT LIST").await;
            let mut text = [0; 4_096];
            let count = self.0.read(&mut text).await.unwrap();
            if String::from_utf8_lossy(&text[..count]).matches("id=").count() == 1 {
                return;
            }
        }
        panic!("the other connections are still there");
    }

    async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), self.0.read_to_end(&mut rest)).await;
        assert!(read.is_ok_and(|read| read.is_ok()), "the connection is still open");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn replies_come_in_the_order_of_the_commands() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.ask("SET a 1\r\nGET a\r\nPING\r\nINCR a\r\nNOSUCH\r\nGET\r\nGET a\r\nECHO x", "+OK $1 1 +PONG :2 ").await;
        let mut rest = [0; 200];
        let count = client.0.read(&mut rest).await.unwrap();
        let rest = String::from_utf8_lossy(&rest[..count]).into_owned();
        let wanted = "-ERR unknown command 'NOSUCH', with args beginning with: \r\n-ERR wrong number of arguments for 'get' command\r\n$1\r\n2\r\n$1\r\nx\r\n";
        assert_eq!(rest, wanted);
        client.ask("SELECT 1\r\nGET a\r\nSELECT 0\r\nGET a\r\nSELECT 16", "+OK $-1 +OK $1 2 ").await;
    })
    .await;
}

#[tokio::test]
async fn a_pipeline_is_one_call() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        let lines: Vec<String> = (0..500).map(|n| format!("SET key:{n} {n}")).collect();
        client.ask(&lines.join("\r\n"), &"+OK ".repeat(500)).await;
        let calls = bed.memory.calls.load(std::sync::atomic::Ordering::Relaxed);
        assert!(calls <= 3, "{calls} calls");
    })
    .await;
}

#[tokio::test]
async fn a_broken_frame_ends_the_connection() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.send("SET a 1\r\n*1\r\nGET").await;
        let mut all = Vec::new();
        client.0.read_to_end(&mut all).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&all), "+OK\r\n-ERR Protocol error: expected '$', got 'G'\r\n");
        let mut other = bed.connect();
        other.ask("GET a", "$1 1 ").await;
        other.ask("QUIT", "+OK ").await;
        other.expect_end().await;
    })
    .await;
}

#[tokio::test]
async fn who_has_not_said_who_it_is_may_do_little() {
    with_door(Memory::with_password("pass"), |bed| async move {
        let mut client = bed.connect();
        client.send("GET a").await;
        let mut text = [0; 33];
        client.0.read_exact(&mut text).await.unwrap();
        assert_eq!(text[..], b"-NOAUTH Authentication required.\r"[..]);
        client.expect_byte(b'\n').await;
        client.send("AUTH wrong").await;
        client.expect_line("-WRONGPASS invalid username-password pair or user is disabled.").await;
        client.ask("AUTH pass", "+OK ").await;
        client.ask("GET a", "$-1 ").await;
        client.ask("ACL WHOAMI", "$7 default ").await;
        let mut other = bed.connect();
        other.send("HELLO 3 AUTH ann pass").await;
        other.expect_byte(b'%').await;
        let mut flood = bed.connect();
        flood.send("*100\r\n$3\r\nGET").await;
        flood.expect_line("-ERR Protocol error: unauthenticated multibulk length").await;
        flood.expect_end().await;
    })
    .await;
}

impl Client {
    async fn expect_byte(&mut self, wanted: u8) {
        let mut byte = [0];
        self.0.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte[0] as char, wanted as char);
    }

    async fn expect_line(&mut self, wanted: &str) {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = tokio::time::timeout(Duration::from_secs(5), self.0.read_u8()).await;
            line.push(byte.expect("a line comes").expect("the connection is open"));
        }
        assert_eq!(String::from_utf8_lossy(&line).trim_end(), wanted);
    }
}

#[tokio::test]
async fn a_transaction_is_one_call() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        let calls = || bed.memory.calls.load(std::sync::atomic::Ordering::Relaxed);
        client
            .ask(
                "MULTI\r\nSET a 1\r\nPING\r\nSELECT 3\r\nSET b 2\r\nGET b\r\nHGET b f",
                "+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED ",
            )
            .await;
        assert_eq!(calls(), 0);
        client.ask("EXEC", "*6 +OK +PONG +OK +OK $1 2 ").await;
        client.expect_line("-WRONGTYPE Operation against a key holding the wrong kind of value").await;
        assert_eq!(calls(), 1);
        client.ask("GET b\r\nSELECT 0\r\nGET a", "$1 2 +OK $1 1 ").await;
        client.ask("MULTI\r\nSET a 2\r\nDISCARD\r\nGET a", "+OK +QUEUED +OK $1 1 ").await;
        client.ask("MULTI", "+OK ").await;
        client.send("SET a").await;
        client.expect_line("-ERR wrong number of arguments for 'set' command").await;
        client.send("EXEC").await;
        client.expect_line("-EXECABORT Transaction discarded because of previous errors.").await;
        client.send("EXEC").await;
        client.expect_line("-ERR EXEC without MULTI").await;
        // What is never carried out is refused when it is queued, and not after the others were done.
        client.ask("MULTI\r\nSET a 3", "+OK +QUEUED ").await;
        client.send("SAVE").await;
        client.expect_line("-ERR SAVE: every acknowledged write is on disk; there is nothing to save").await;
        client.send("EXEC").await;
        client.expect_line("-EXECABORT Transaction discarded because of previous errors.").await;
        client.ask("GET a", "$1 1 ").await;
    })
    .await;
}

#[tokio::test]
async fn a_watched_key_that_changes_aborts() {
    with_door(Memory::default(), |bed| async move {
        let (mut one, mut other) = (bed.connect(), bed.connect());
        one.ask("SET a 1\r\nWATCH a none\r\nMULTI\r\nINCR a\r\nEXEC", "+OK +OK +OK +QUEUED *1 :2 ").await;
        one.ask("WATCH a", "+OK ").await;
        other.ask("SET a 9", "+OK ").await;
        one.ask("MULTI\r\nINCR a\r\nEXEC\r\nGET a", "+OK +QUEUED *-1 $1 9 ").await;
        one.ask("WATCH a\r\nUNWATCH", "+OK +OK ").await;
        other.ask("SET a 8", "+OK ").await;
        one.ask("MULTI\r\nINCR a\r\nEXEC", "+OK +QUEUED *1 :9 ").await;
    })
    .await;
}

#[tokio::test]
async fn a_blocked_client_gets_what_comes() {
    with_door(Memory::default(), |bed| async move {
        let (mut one, mut other) = (bed.connect(), bed.connect());
        one.send("BLPOP l k 0").await;
        one.expect_nothing().await;
        other.ask("RPUSH k x y", ":2 ").await;
        one.expect("*2 $1 k $1 x ").await;
        one.ask("BLPOP l k 0", "*2 $1 k $1 y ").await;
        // What was sent after it waits.
        one.send("BRPOP l 0\r\nPING").await;
        one.expect_nothing().await;
        other.ask("SET other 1\r\nLPUSH l z", "+OK :1 ").await;
        one.expect("*2 $1 l $1 z +PONG ").await;
    })
    .await;
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    with_door(Memory::default(), |bed| async move {
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let mut client = bed.connect();
            client.send("BLPOP l 0").await;
            client.expect_nothing().await;
            waiting.push(client);
        }
        let mut other = bed.connect();
        other.ask("RPUSH l 0 1 2", ":3 ").await;
        for (n, client) in waiting.iter_mut().take(3).enumerate() {
            client.expect(&format!("*2 $1 l $1 {n} ")).await;
        }
        other.ask("RPUSH l 3 4", ":2 ").await;
        for (n, client) in waiting.iter_mut().enumerate().skip(3) {
            client.expect(&format!("*2 $1 l $1 {n} ")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_blocked_client_that_leaves_takes_nothing() {
    with_door(Memory::default(), |bed| async move {
        let mut one = bed.connect();
        one.send("BLPOP l 0").await;
        one.expect_nothing().await;
        let mut other = bed.connect();
        drop(one);
        other.until_alone().await;
        other.ask("RPUSH l x", ":1 ").await;
        other.ask("LLEN l", ":1 ").await;
    })
    .await;
}

#[tokio::test]
async fn time_runs_out() {
    with_door(Memory::default(), |bed| async move {
        let (mut one, mut other) = (bed.connect(), bed.connect());
        one.ask("BLPOP l 0.05", "*-1 ").await;
        let id = one_id(&mut one).await;
        one.send("BLPOP l 0").await;
        one.expect_nothing().await;
        other.ask(&format!("CLIENT UNBLOCK {id} ERROR"), ":1 ").await;
        one.expect_line("-UNBLOCKED client unblocked via CLIENT UNBLOCK").await;
        other.ask(&format!("CLIENT UNBLOCK {id}"), ":0 ").await;
        other.ask(&format!("CLIENT KILL ID {id}"), ":1 ").await;
        one.expect_end().await;
    })
    .await;
}

async fn one_id(client: &mut Client) -> String {
    client.send("CLIENT ID").await;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(client.0.read_u8().await.unwrap());
    }
    String::from_utf8_lossy(&line).trim().trim_start_matches(':').to_owned()
}

#[tokio::test]
async fn what_is_not_done_says_so() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        let commands = [
            "BGSAVE",
            "SAVE",
            "REPLICAOF NO ONE",
            "SHUTDOWN",
            "MONITOR",
            "MODULE LIST",
            "FUNCTION NOSUCH",
            "ACL SETUSER x",
            "DEBUG SEGFAULT",
            "CONFIG SET maxmemory 1mb",
            "CONFIG SET appendfsync no",
            "CLIENT TRACKING ON",
            "CLIENT PAUSE 1",
            "CONFIG RESETSTAT",
            "HIVE NOSUCH",
            "CLUSTER COUNTKEYSINSLOT 1",
        ];
        for command in commands {
            client.send(command).await;
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(client.0.read_u8().await.unwrap());
            }
            assert!(line.starts_with(b"-"), "{command}: {}", String::from_utf8_lossy(&line));
        }
        client.ask("CONFIG SET appendonly yes", "+OK ").await;
        client.ask("CONFIG GET appendon*", "*2 $10 appendonly $3 yes ").await;
    })
    .await;
}

#[tokio::test]
async fn levels_are_the_connections_own() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.ask("HIVE CONSISTENCY", "*2 $6 strong $6 strong ").await;
        client.ask("HIVE CONSISTENCY eventual absolute\r\nHIVE CONSISTENCY", "+OK *2 $8 eventual $8 absolute ").await;
        client.ask("WAIT 2 0\r\nREADWRITE\r\nHIVE CONSISTENCY", ":2 +OK *2 $6 strong $8 absolute ").await;
        client.ask("HIVE CONSISTENCY hopeful SET a 1\r\nHIVE CONSISTENCY eventual GET a", "+OK $1 1 ").await;
        client.send("HIVE CONSISTENCY hopeful GET a").await;
        client.expect_line("-ERR a level of reads is eventual or strong").await;
        client.ask("HIVE CONSISTENCY strong\r\nWAIT 1 0", "+OK :1 ").await;
    })
    .await;
}

#[tokio::test]
async fn a_client_may_want_no_replies() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.ask("CLIENT REPLY SKIP\r\nSET a 1\r\nGET a", "$1 1 ").await;
        client.ask("CLIENT REPLY OFF\r\nSET a 2\r\nPING\r\nCLIENT REPLY ON\r\nGET a", "+OK $1 2 ").await;
        // It still receives what it subscribes to.
        client.ask("CLIENT REPLY OFF\r\nSUBSCRIBE c", "*3 $9 subscribe $1 c :1 ").await;
    })
    .await;
}

/// As Redis 7.0 answers them in both versions of its protocol.
#[tokio::test]
async fn bitmaps_sketches_and_places_are_served() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.ask("SETBIT b 1 1\r\nBITCOUNT b\r\nGETBIT b 1", ":0 :1 :1 ").await;
        client.ask("PFADD h x y\r\nPFCOUNT h", ":1 :2 ").await;
        client.ask("GEOADD g 13.361389 38.115556 p\r\nGEODIST g p p", ":1 $6 0.0000 ").await;
        client.ask("GEORADIUS g 13 38 100 km STORE d\r\nTYPE d", ":1 +zset ").await;
        client.ask("GEOPOS g p q", "*2 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1 ").await;
        client.send("HELLO 3").await;
        client.expect_byte(b'%').await;
        let _ = client.0.read(&mut [0; 400]).await.unwrap();
        client.ask("GEOPOS g p q", "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _ ").await;
        client.ask("GEOSEARCH g FROMMEMBER p BYRADIUS 1 m WITHHASH", "*1 *2 $1 p :3479099956230698 ").await;
        client.ask("BITFIELD b OVERFLOW FAIL INCRBY u1 0 3", "*1 _ ").await;
    })
    .await;
}

#[tokio::test]
async fn resp3_has_its_own_kinds() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        client.send("HELLO 3").await;
        client.expect_byte(b'%').await;
        let mut rest = [0; 400];
        let _ = client.0.read(&mut rest).await.unwrap();
        client.ask("GET none\r\nHSET h f v", "_ :1 ").await;
        client.ask("BLPOP none 0.01", "_ ").await;
        client.send("HELLO 4").await;
        client.expect_line("-NOPROTO unsupported protocol version").await;
    })
    .await;
}

#[tokio::test]
async fn subscribers_get_what_others_publish() {
    with_door(Memory::default(), |bed| async move {
        let (mut two, mut three, mut other) = (bed.connect(), bed.connect(), bed.connect());
        two.ask("SUBSCRIBE news", "*3 $9 subscribe $4 news :1 ").await;
        three.send("HELLO 3").await;
        three.expect_byte(b'%').await;
        let _ = three.0.read(&mut [0; 400]).await.unwrap();
        three.ask("PSUBSCRIBE n*", ">3 $10 psubscribe $2 n* :1 ").await;
        other.ask("PUBLISH news hello", ":2 ").await;
        two.expect("*3 $7 message $4 news $5 hello ").await;
        three.expect(">4 $8 pmessage $2 n* $4 news $5 hello ").await;
        two.send("GET a").await;
        two.expect_line("-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
            .await;
        three.ask("SET a 1", "+OK ").await;
        two.ask("PING", "*2 $4 pong $0  ").await;
        other.ask("PUBSUB NUMSUB news none\r\nPUBSUB NUMPAT", "*4 $4 news :1 $4 none :0 :1 ").await;
        two.ask("UNSUBSCRIBE", "*3 $11 unsubscribe $4 news :0 ").await;
        two.ask("GET a", "$1 1 ").await;
        drop((two, three));
        other.until_alone().await;
        other.ask("PUBLISH news gone", ":0 ").await;
    })
    .await;
}

#[tokio::test]
async fn a_long_command_in_a_pipeline_hinders_none_of_it() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        let word = "v".repeat(1_000_000);
        let many: Vec<String> =
            (0..5).map(|n| format!("*3\r\n$3\r\nSET\r\n$2\r\nk{n}\r\n$1000000\r\n{word}")).collect();
        let four = format!("*7\r\n$4\r\nMSET{}", format!("\r\n$1\r\nx\r\n$1000000\r\n{word}").repeat(3));
        let send = async {
            let (reader, mut writer) = tokio::io::split(&mut client.0);
            writer
                .write_all(format!("{}\r\n{four}\r\n*2\r\n$3\r\nGET\r\n$1\r\nq\r\n", many.join("\r\n")).as_bytes())
                .await
                .unwrap();
            drop(reader);
        };
        send.await;
        client.expect(&format!("{}+OK $-1 ", "+OK ".repeat(5))).await;
    })
    .await;
}

#[tokio::test]
async fn who_comes_later_does_not_overtake() {
    with_door(Memory::default(), |bed| async move {
        let (mut first, mut second, mut other) = (bed.connect(), bed.connect(), bed.connect());
        first.send("BLPOP l 0").await;
        first.expect_nothing().await;
        // In one write: the push, and somebody else's wait right after it.
        other.send("RPUSH l x").await;
        second.send("BLPOP l 0").await;
        first.expect("*2 $1 l $1 x ").await;
        other.expect(":1 ").await;
        other.ask("RPUSH l y", ":1 ").await;
        second.expect("*2 $1 l $1 y ").await;
    })
    .await;
}

#[tokio::test]
async fn a_transaction_counts_receivers_too() {
    with_door(Memory::default(), |bed| async move {
        let (mut two, mut other) = (bed.connect(), bed.connect());
        two.ask("SUBSCRIBE news", "*3 $9 subscribe $4 news :1 ").await;
        other.ask("MULTI\r\nPUBLISH news a\r\nPUBLISH none b\r\nEXEC", "+OK +QUEUED +QUEUED *2 :1 :0 ").await;
        two.expect("*3 $7 message $4 news $1 a ").await;
    })
    .await;
}

/// Commands that the door answers by itself are refused, too.
#[tokio::test]
async fn connection_of_a_revoked_user_is_nobodys() {
    with_door(Memory::with_password("secret"), |bed| async move {
        let mut client = bed.connect();
        client.ask("AUTH secret", "+OK ").await;
        client.ask("SET k v", "+OK ").await;
        client.ask("MULTI", "+OK ").await;
        client.ask("SET k w", "+QUEUED ").await;
        bed.memory.revoked.store(true, std::sync::atomic::Ordering::Relaxed);
        let no = "-NOAUTH Authentication required.";
        for line in ["EXEC", "GET k", "PUBSUB CHANNELS", "CLIENT LIST", "PING"] {
            client.send(line).await;
            let mut got = vec![0; no.len() + 2];
            client.0.read_exact(&mut got).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&got).trim_end(), no, "{line}");
        }
        bed.memory.revoked.store(false, std::sync::atomic::Ordering::Relaxed);
        client.ask("AUTH secret", "+OK ").await;
        client.ask("GET k", "$1 v ").await;
    })
    .await;
}

/// Exactly this comes; `|` stands for the ends of lines, because texts have spaces.
async fn comes(client: &mut Client, wanted: &str) {
    let wanted = wanted.replace('|', "\r\n");
    let mut got = vec![0; wanted.len()];
    let read = tokio::time::timeout(Duration::from_secs(5), client.0.read_exact(&mut got)).await;
    assert_eq!(String::from_utf8_lossy(&got), wanted);
    assert!(read.is_ok_and(|read| read.is_ok()));
}

#[tokio::test]
async fn commands_say_what_they_are() {
    with_door(Memory::default(), |bed| async move {
        let mut client = bed.connect();
        for (line, wanted) in [
            (
                "COMMAND DOCS get nosuch",
                "*2|$3|get|*8|$7|summary|$15|Gives a string.|$5|since|$5|1.0.0|$5|group|$6|string|$10|complexity|$4|O(1)|",
            ),
            (
                "COMMAND INFO mget nosuch",
                "*2|*10|$4|mget|:-2|*2|+readonly|+fast|:1|:-1|:1|*3|+@read|+@string|+@fast|*0|*1|*6|$5|flags|*2|+RO|+ACCESS|\
                 $12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|\
                 $9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:-1|$7|keystep|:1|$5|limit|:0|*0|*-1|",
            ),
            ("COMMAND GETKEYS zunionstore d 2 a b", "*3|$1|d|$1|a|$1|b|"),
            ("COMMAND GETKEYS eval x 0 a", "*0|"),
            ("COMMAND GETKEYS zunionstore d 9 a b", "*1|$1|d|"),
            ("COMMAND GETKEYS zinter 9 a b", "-ERR Invalid arguments specified for command|"),
            ("COMMAND GETKEYS ping", "-ERR The command has no key arguments|"),
            ("COMMAND GETKEYS get", "-ERR Invalid number of arguments specified for command|"),
            ("COMMAND GETKEYS nosuch a", "-ERR Invalid command specified|"),
            ("COMMAND GETKEYSANDFLAGS get a", "*1|*2|$1|a|*2|+RO|+ACCESS|"),
            ("COMMAND LIST FILTERBY PATTERN xread*", "*2|$5|xread|$10|xreadgroup|"),
            ("COMMAND LIST FILTERBY ACLCAT hyperloglog", "*5|$5|pfadd|$7|pfcount|$7|pfdebug|$7|pfmerge|$10|pfselftest|"),
        ] {
            client.send(line).await;
            comes(&mut client, wanted).await;
        }
    })
    .await;
}
