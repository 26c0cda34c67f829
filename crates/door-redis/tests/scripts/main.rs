//! Scripts through connections of the door, over a database in memory.
#![cfg(feature = "scripts")]

mod functions;

use base_types::access::Caller;
use base_types::redis::{RedisAnswer, RedisCall};
use base_types::Refusal;
use door_redis::testing::Memory;
use door_redis::{serve, About, Database, Door, Levels, Metrics, Server, Session, Settles};
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::Ordering;
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

async fn with_door<F: Future<Output = ()>>(test: impl FnOnce(Rc<Bed>) -> F) {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            let door = Door::start(memory.clone(), Arc::new(Metrics::default()));
            test(Rc::new(Bed { door, memory, stop: watch::channel(false).0 })).await;
        })
        .await;
}

impl Bed {
    fn connect(&self) -> Client {
        self.connect_by(&self.door)
    }

    fn connect_by(&self, door: &Rc<Door>) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let address = "127.0.0.1:5".to_owned();
        tokio::task::spawn_local(serve(door.clone(), theirs, address, None, &Uncounted, self.stop.subscribe()));
        Client(ours)
    }

    /// Another node's door to the same database.
    fn other_door(&self) -> Rc<Door> {
        Door::start(self.memory.clone(), Arc::new(Metrics::default()))
    }
}

impl Client {
    async fn send(&mut self, words: &[&str]) {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn expect(&mut self, wanted: &str) {
        let wanted = wanted.replace('|', "\r\n");
        let mut got = Vec::new();
        let read = async {
            let mut byte = [0];
            while got.len() < wanted.len() && self.0.read(&mut byte).await.unwrap() > 0 {
                got.push(byte[0]);
                if !wanted.as_bytes().starts_with(&got) {
                    break;
                }
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), read).await.is_ok();
        assert_eq!((String::from_utf8_lossy(&got).into_owned(), in_time), (wanted, true));
    }

    /// `|` stands for the ends of lines.
    async fn ask(&mut self, words: &[&str], wanted: &str) {
        self.send(words).await;
        self.expect(wanted).await;
    }

    /// Stops the script that runs, as soon as one does.
    async fn kills_a_script(&mut self) {
        loop {
            self.send(&["SCRIPT", "KILL"]).await;
            let mut got = [0; 256];
            let read = tokio::time::timeout(Duration::from_secs(20), self.0.read(&mut got)).await.unwrap().unwrap();
            match &got[..read] {
                b"+OK\r\n" => return,
                other => assert!(other.starts_with(b"-NOTBUSY"), "{}", String::from_utf8_lossy(other)),
            }
        }
    }

    /// An error that has this in it.
    async fn fails(&mut self, words: &[&str], wanted: &str) {
        self.send(words).await;
        let mut got = vec![0; 1 << 16];
        let read = tokio::time::timeout(Duration::from_secs(20), self.0.read(&mut got)).await.unwrap().unwrap();
        let got = String::from_utf8_lossy(&got[..read]).into_owned();
        assert!(got.starts_with('-') && got.contains(wanted), "{got:?}, not {wanted:?}");
    }
}

#[tokio::test]
async fn a_script_reads_and_writes() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        let text = "redis.call('SET', KEYS[1], ARGV[1]); return {redis.call('GET', KEYS[1]), #KEYS, 7}";
        client.ask(&["EVAL", text, "1", "k", "v"], "*3|$1|v|:1|:7|").await;
        client.ask(&["GET", "k"], "$1|v|").await;
        client.ask(&["EVAL", "return redis.call('INCR', 'n') + redis.call('INCR', 'n')", "0"], ":3|").await;
        client.ask(&["EVAL", "return redis.call('HSET', 'h', 'a', 1)", "0"], ":1|").await;
        client.ask(&["EVAL", "return redis.call('HGETALL', 'h')", "0"], "*2|$1|a|$1|1|").await;
        client
            .ask(&["EVAL", "redis.call('SELECT', 3) redis.call('SET', 'x', 1) return redis.call('DBSIZE')", "0"], ":1|")
            .await;
        client.ask(&["EXISTS", "x"], ":0|").await;
        client.ask(&["EVAL", "return redis.call('BLPOP', 'none', 0)", "0"], "$-1|").await;
        client.ask(&["EVAL", "return redis.call('PING')", "0"], "+PONG|").await;
        client.ask(&["EVAL", "return #redis.call('TIME')", "0"], ":2|").await;
        client.fails(&["EVAL", "return redis.call('MULTI')", "0"], "not allowed from script").await;
        client.fails(&["EVAL", "return redis.call('NOSUCH')", "0"], "Unknown Redis command called from script").await;
        client.fails(&["EVAL", "return redis.call('GET')", "0"], "Wrong number of args calling Redis command").await;
        client.fails(&["EVAL", "return 1", "x"], "ERR value is not an integer").await;
        client.fails(&["EVAL", "return 1", "-1"], "can't be negative").await;
        client.fails(&["EVAL", "return 1", "1"], "can't be greater").await;
    })
    .await;
}

#[tokio::test]
async fn what_a_script_did_before_an_error_stays() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        let text = "redis.call('SET', KEYS[1], 'x'); return redis.call('LPUSH', KEYS[1], 'y')";
        client.fails(&["EVAL", text, "1", "k"], "WRONGTYPE").await;
        client.ask(&["GET", "k"], "$1|x|").await;
        client
            .ask(
                &[
                    "EVAL",
                    "local e = redis.pcall('LPUSH', 'k', 'y') redis.call('SET', 'k', 'z') return e.err:sub(1, 9)",
                    "0",
                ],
                "$9|WRONGTYPE|",
            )
            .await;
        client.ask(&["GET", "k"], "$1|z|").await;
        // A reply that was taken for certain, and is an error: the script is run again, and sees it.
        let long = "k".repeat(2_000);
        client.ask(&["EVAL", "return type(redis.pcall('SET', KEYS[1], 1).err)", "1", &long], "$6|string|").await;
    })
    .await;
}

#[tokio::test]
async fn scripts_at_the_same_time_lose_nothing() {
    with_door(|bed| async move {
        let other = bed.other_door();
        // Reads, and writes what it has computed: any change between would be lost.
        let text = "local n = tonumber(redis.call('GET', KEYS[1]) or 0) redis.call('SET', KEYS[1], n + 1) return redis.call('LPUSH', 'l', n)";
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let mut client = if number % 2 == 0 { bed.connect() } else { bed.connect_by(&other) };
                tokio::task::spawn_local(async move {
                    for _ in 0..5 {
                        client.send(&["EVAL", text, "1", "n"]).await;
                        let mut got = [0; 256];
                        let read = client.0.read(&mut got).await.unwrap();
                        assert_eq!(got[0], b':', "{}", String::from_utf8_lossy(&got[..read]));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut client = bed.connect();
        client.ask(&["GET", "n"], "$3|100|").await;
        client.ask(&["LLEN", "l"], ":100|").await;
    })
    .await;
}

#[tokio::test]
async fn a_script_sees_one_moment() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.ask(&["MSET", "a", "0", "b", "0"], "+OK|").await;
        let writer = {
            let mut client = bed.connect();
            tokio::task::spawn_local(async move {
                for number in 1..200 {
                    let number = number.to_string();
                    client.ask(&["MSET", "a", &number, "b", &number], "+OK|").await;
                }
            })
        };
        for _ in 0..30 {
            let text = "local a = redis.call('GET', 'a') local b = redis.call('GET', 'b') return a == b and 'same' or a .. b";
            client.ask(&["EVAL_RO", text, "0"], "$4|same|").await;
        }
        writer.await.unwrap();
        // Of what names no keys, too.
        let writer = {
            let mut client = bed.connect();
            tokio::task::spawn_local(async move {
                for number in 0..100 {
                    client.ask(&["SET", &format!("k{number}"), "1"], "+OK|").await;
                }
            })
        };
        for _ in 0..20 {
            let text = "local a = redis.call('DBSIZE') local b = #redis.call('KEYS', '*') return a == b and 'same' or a .. '/' .. b";
            client.ask(&["EVAL", text, "0"], "$4|same|").await;
        }
        writer.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_picked_at_random_is_what_the_script_saw() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.ask(&["SADD", "s", "a", "b", "c", "d", "e", "f", "g", "h"], ":8|").await;
        let text = "local one = redis.call('SPOP', 's') local other = redis.call('SPOP', 's') redis.call('SADD', 'taken', one, other) return redis.call('SINTERCARD', 2, 's', 'taken')";
        client.ask(&["EVAL", text, "0"], ":0|").await;
        client.ask(&["SUNIONSTORE", "all", "s", "taken"], ":8|").await;
        client.ask(&["SCARD", "taken"], ":2|").await;
    })
    .await;
}

#[tokio::test]
async fn a_script_that_is_cut_changes_nothing() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client
            .fails(&["EVAL", "redis.call('INCR', 'n') while true do end", "0"], "was stopped; it has changed nothing")
            .await;
        client
            .fails(
                &[
                    "EVAL",
                    "redis.call('INCR', 'n') local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end",
                    "0",
                ],
                "memory",
            )
            .await;
        client.ask(&["EXISTS", "n"], ":0|").await;
        client.fails(&["SCRIPT", "KILL"], "NOTBUSY").await;
        client.send(&["EVAL", "redis.call('INCR', 'n') while true do pcall(redis.call, 'GET', 'n') end", "0"]).await;
        let mut other = bed.connect();
        other.kills_a_script().await;
        let mut got = [0; 256];
        let read = client.0.read(&mut got).await.unwrap();
        assert!(String::from_utf8_lossy(&got[..read]).contains("Script killed by user with SCRIPT KILL"));
        other.ask(&["EXISTS", "n"], ":0|").await;
        other.fails(&["EVAL", "for i = 1, 5000 do redis.call('SET', i, i) end", "0"], "at most 4095 commands").await;
        other.ask(&["DBSIZE"], ":0|").await;
    })
    .await;
}

#[tokio::test]
async fn a_script_is_known_at_every_door() {
    with_door(|bed| async move {
        let other = bed.other_door();
        let (mut client, mut at_other) = (bed.connect(), bed.connect_by(&other));
        let unknown = "0".repeat(40);
        client.fails(&["EVALSHA", &unknown, "0"], "NOSCRIPT No matching script. Please use EVAL.").await;
        let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        client.ask(&["SCRIPT", "LOAD", "return 1"], &format!("$40|{name}|")).await;
        at_other.ask(&["EVALSHA", name, "0"], ":1|").await;
        at_other.ask(&["EVALSHA", &name.to_uppercase(), "0"], ":1|").await;
        at_other.ask(&["SCRIPT", "EXISTS", name, &unknown], "*2|:1|:0|").await;
        client.ask(&["EVAL", "return 2", "0"], ":2|").await;
        at_other.ask(&["EVALSHA", "7f923f79fe76194c868d7e1d0820de36700eb649", "0"], ":2|").await;
        // The second time nothing is asked of the database.
        let before = bed.memory.calls.load(Ordering::Relaxed);
        client.ask(&["EVAL", "return 2", "0"], ":2|").await;
        at_other.ask(&["EVALSHA", name, "0"], ":1|").await;
        assert_eq!(bed.memory.calls.load(Ordering::Relaxed), before);
        // Under another script's name nothing is found.
        let words =
            ["HSET", "scripts", &unknown, "return 3"].map(|word| bytes::Bytes::copy_from_slice(word.as_bytes()));
        let commands = vec![base_types::redis::RedisCommand { database: 16, words: words.to_vec() }];
        let call = RedisCall { unix_ms: 0, seed: 0, ask: base_types::redis::RedisAsk::Commands { commands } };
        bed.memory.call(&bed.memory.session(None).unwrap(), call, Levels::default()).await.unwrap();
        client.fails(&["EVALSHA", &unknown, "0"], "NOSCRIPT").await;
        // They are nobody's keys.
        client.ask(&["FLUSHALL"], "+OK|").await;
        client.ask(&["DBSIZE"], ":0|").await;
        client.ask(&["SCRIPT", "EXISTS", name], "*1|:1|").await;
        client
            .fails(&["SCRIPT", "LOAD", "return return"], "ERR Error compiling script (new function): user_script:1:")
            .await;
    })
    .await;
}

#[tokio::test]
async fn flushed_scripts_are_forgotten() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        client.ask(&["EVAL", "return 1", "0"], ":1|").await;
        client.ask(&["SCRIPT", "FLUSH", "SYNC"], "+OK|").await;
        client.ask(&["SCRIPT", "EXISTS", name], "*1|:0|").await;
        client.fails(&["EVALSHA", name, "0"], "NOSCRIPT").await;
        client.fails(&["SCRIPT", "FLUSH", "NOW"], "SYNC|ASYNC").await;
        client.ask(&["EVAL", "return 1", "0"], ":1|").await;
        client.ask(&["EVALSHA", name, "0"], ":1|").await;
    })
    .await;
}

#[tokio::test]
async fn a_script_that_may_not_write_does_not() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        let wanted = "Write commands are not allowed from read-only scripts";
        client.fails(&["EVAL_RO", "return redis.call('SET', 'a', 1)", "0"], wanted).await;
        client.fails(&["EVAL", "#!lua flags=no-writes\nreturn redis.call('SET', 'a', 1)", "0"], wanted).await;
        client.ask(&["EVAL", "#!lua flags=no-writes\nreturn redis.call('EXISTS', 'a')", "0"], ":0|").await;
        client.ask(&["EVAL_RO", "#!lua flags=no-writes\nreturn 5", "0"], ":5|").await;
        client.fails(&["EVAL_RO", "#!lua\nreturn 5", "0"], "Can not execute a script with write flag").await;
        client.fails(&["EVAL", "#!lua flags=odd\nreturn 5", "0"], "Unexpected flag in script shebang: odd").await;
        client.fails(&["EVAL", "#!js\nreturn 5", "0"], "Unexpected engine in script shebang: js").await;
        client.fails(&["EVAL", "#!lua name=x\nreturn 5", "0"], "Unknown lua shebang option: name=x").await;
        client.fails(&["EVAL", "#!lua\n\nreturn nope", "0"], "user_script:3:").await;
    })
    .await;
}

#[tokio::test]
async fn a_script_may_do_what_its_user_may() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        *bed.memory.forbidden.lock().unwrap() = Some(b"secret");
        client.fails(&["EVAL", "return redis.call('GET', 'secret')", "0"], "NOPERM").await;
        let text = "redis.call('SET', 'a', 1) return redis.pcall('GET', 'secret').err:sub(1, 6)";
        client.ask(&["EVAL", text, "0"], "$6|NOPERM|").await;
        client.ask(&["GET", "a"], "$1|1|").await;
    })
    .await;
}

#[tokio::test]
async fn scripts_are_part_of_a_transaction() {
    with_door(|bed| async move {
        let (mut client, mut other) = (bed.connect(), bed.connect());
        let queue = async |client: &mut Client, words: &[&str]| client.ask(words, "+QUEUED|").await;
        let text = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        client.ask(&["MULTI"], "+OK|").await;
        queue(&mut client, &["SET", "n", "1"]).await;
        queue(&mut client, &["EVAL", text, "1", "n", "10"]).await;
        queue(&mut client, &["PING"]).await;
        queue(&mut client, &["SELECT", "2"]).await;
        queue(&mut client, &["EVAL", text, "1", "n", "5"]).await;
        queue(&mut client, &["EVAL_RO", text, "1", "n", "5"]).await;
        queue(&mut client, &["EVALSHA", "0", "0"]).await;
        other.ask(&["EXISTS", "n"], ":0|").await;
        client.send(&["EXEC"]).await;
        client
            .expect("*7|+OK|:11|+PONG|+OK|:5|-ERR Write commands are not allowed from read-only scripts. script: ")
            .await;
        let mut rest = [0; 256];
        let read = client.0.read(&mut rest).await.unwrap();
        assert!(String::from_utf8_lossy(&rest[..read]).ends_with("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
        other.ask(&["GET", "n"], "$2|11|").await;
        client.ask(&["SELECT", "0"], "+OK|").await;
        // What is watched counts: for a script that writes, and for one that asks nothing.
        for text in ["return redis.call('INCR', 'n')", "return 1"] {
            client.ask(&["WATCH", "w"], "+OK|").await;
            client.ask(&["MULTI"], "+OK|").await;
            queue(&mut client, &["EVAL", text, "0"]).await;
            other.ask(&["SET", "w", text], "+OK|").await;
            client.ask(&["EXEC"], "*-1|").await;
            client.ask(&["WATCH", "w"], "+OK|").await;
            client.ask(&["MULTI"], "+OK|").await;
            queue(&mut client, &["EVAL", "return 7", "0"]).await;
            client.ask(&["EXEC"], "*1|:7|").await;
        }
        other.ask(&["GET", "n"], "$2|11|").await;
    })
    .await;
}

#[tokio::test]
async fn messages_of_a_script_come_once_it_is_done() {
    with_door(|bed| async move {
        let (mut client, mut heard) = (bed.connect(), bed.connect());
        heard.ask(&["SUBSCRIBE", "c"], "*3|$9|subscribe|$1|c|:1|").await;
        client
            .ask(&["EVAL", "redis.call('PUBLISH', 'c', 'a') return redis.call('PUBLISH', 'c', 'b')", "0"], ":1|")
            .await;
        heard.expect("*3|$7|message|$1|c|$1|a|*3|$7|message|$1|c|$1|b|").await;
    })
    .await;
}

#[tokio::test]
async fn resp3_reaches_scripts_that_ask_for_it() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.ask(&["ZADD", "z", "1.5", "m"], ":1|").await;
        client.ask(&["EVAL", "redis.setresp(3) return redis.call('ZSCORE', 'z', 'm')", "0"], "$3|1.5|").await;
        client.ask(&["EVAL", "return type(redis.call('ZSCORE', 'z', 'm'))", "0"], "$6|string|").await;
        client.ask(&["EVAL", "redis.setresp(3) return redis.call('HGETALL', 'none')", "0"], "*0|").await;
    })
    .await;
}

/// Loses each commit's race until it has lost so many.
struct Racing {
    memory: Arc<Memory>,
    left: std::sync::atomic::AtomicU32,
}

#[async_trait::async_trait]
impl Database for Racing {
    async fn call(&self, session: &Session, call: RedisCall, levels: Levels) -> Result<RedisAnswer, Refusal> {
        use base_types::redis::RedisAsk;
        let races = matches!(call.ask, RedisAsk::Script { .. })
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if races {
            let words = vec![bytes::Bytes::from_static(b"INCR"), bytes::Bytes::from_static(b"n")];
            let commands = vec![base_types::redis::RedisCommand { database: 0, words }];
            self.memory
                .call(session, RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Commands { commands } }, levels)
                .await?;
        }
        self.memory.call(session, call, levels).await
    }

    async fn authenticate(&self, user: Option<&str>, password: &[u8]) -> Result<Session, Refusal> {
        self.memory.authenticate(user, password).await
    }

    fn session(&self, _: Option<&str>) -> Option<Session> {
        Some(Session { caller: Caller::Anyone, user: "default".into(), keyspace: "redis".into() })
    }

    fn admits(&self, session: &Session) -> bool {
        self.memory.admits(session)
    }

    fn may_subscribe(&self, session: &Session) -> bool {
        self.memory.may_subscribe(session)
    }

    async fn servers(&self, session: &Session) -> Result<Vec<Server>, Refusal> {
        self.memory.servers(session).await
    }

    fn about(&self) -> About {
        self.memory.about()
    }

    fn unix_ms(&self) -> u64 {
        self.memory.unix_ms()
    }

    fn random(&self) -> u64 {
        self.memory.random()
    }
}

#[tokio::test]
async fn a_script_that_loses_is_run_again_so_often() {
    for (lost, wanted) in [(3, ":104|"), (1_000, "")] {
        with_door(|bed| async move {
            let racing = Racing { memory: bed.memory.clone(), left: lost.into() };
            let door = Door::start(Arc::new(racing), Arc::new(Metrics::default()));
            let mut client = bed.connect_by(&door);
            let text = "local n = tonumber(redis.call('GET', 'n') or 100) return redis.call('INCRBY', 'sum', n == 100 and 100 or n) + 1";
            let text = if lost == 3 { "return redis.call('INCR', 'n') + 100" } else { text };
            match wanted {
                "" => client.fails(&["EVAL", text, "0"], "TRYAGAIN others changed what the script reads").await,
                wanted => client.ask(&["EVAL", text, "0"], wanted).await,
            }
            client.ask(&["EXISTS", "sum"], ":0|").await;
        })
        .await;
    }
}
