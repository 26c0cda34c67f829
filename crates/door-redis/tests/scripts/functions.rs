//! Functions through connections of the door.

use super::{with_door, Client};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A library with one function, which adds to a counter.
fn adds(library: &str, function: &str, number: u32) -> String {
    format!("#!lua name={library}\nredis.register_function('{function}', function(keys, arguments)\n return redis.call('INCRBY', keys[1], {number} * (arguments[1] or 1))\nend)")
}

/// One with a function that only gives its number.
fn gives(library: &str, function: &str, number: u32) -> String {
    format!("#!lua name={library}\nredis.register_function{{function_name='{function}', callback=function() return {number} end, flags={{'no-writes'}}}}")
}

impl Client {
    async fn send_bytes(&mut self, words: &[&[u8]]) {
        let mut all = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            all.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            all.extend_from_slice(word);
            all.extend_from_slice(b"\r\n");
        }
        self.0.write_all(&all).await.unwrap();
    }

    /// A reply of one bulk string.
    async fn bulk(&mut self, words: &[&str]) -> Vec<u8> {
        self.send(words).await;
        let (mut line, mut byte) = (String::new(), [0]);
        while !line.ends_with("\r\n") {
            self.0.read_exact(&mut byte).await.unwrap();
            line.push(char::from(byte[0]));
        }
        let length: usize = line.trim().strip_prefix('$').expect(&line).parse().unwrap();
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes.truncate(length);
        bytes
    }
}

#[tokio::test]
async fn a_function_is_called_with_keys_and_arguments() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.fails(&["FCALL", "add", "1", "n"], "ERR Function not found").await;
        client.ask(&["FUNCTION", "LOAD", &adds("counting", "add", 2)], "$8|counting|").await;
        client.ask(&["FCALL", "add", "1", "n", "3"], ":6|").await;
        client.ask(&["FCALL", "ADD", "1", "n"], ":8|").await;
        client.fails(&["FCALL", "add", "x", "n"], "ERR Bad number of keys provided").await;
        client.fails(&["FCALL", "add", "2", "n"], "ERR Number of keys can't be greater than number of args").await;
        client.fails(&["FCALL", "add", "-1", "n"], "ERR Number of keys can't be negative").await;
        client.fails(&["FCALL_RO", "add", "1", "n"], "ERR Can not execute a script with write flag using *_ro command.").await;
        client.ask(&["FUNCTION", "LOAD", &gives("seven", "seven", 7)], "$5|seven|").await;
        client.ask(&["FCALL_RO", "seven", "0"], ":7|").await;
        let wrong = "#!lua name=wrong\nredis.register_function('wrong', function()\n local n = redis.call('LPUSH', 'n', 1)\n return n\nend)";
        client.ask(&["FUNCTION", "LOAD", wrong], "$5|wrong|").await;
        client.fails(&["FCALL", "wrong", "0"], "script: wrong, on @user_function:3.").await;
        let writes = "#!lua name=writes\nredis.register_function{function_name='writes', callback=function() return redis.call('SET', 'n', 1) end, flags={'no-writes'}}";
        client.ask(&["FUNCTION", "LOAD", writes], "$6|writes|").await;
        client.fails(&["FCALL", "writes", "0"], "Write commands are not allowed from read-only scripts").await;
        let late = "#!lua name=late\nlocal early = redis\nredis.register_function('late', function() early.register_function('x', function() end) end)
            redis.register_function('later', function() redis.register_function('x', function() end) end)
            redis.register_function('kept', function() early.call('SET', 'n', 1) end)
            redis.register_function('all', function() return math.floor(2.5) + redis.call('INCRBY', 'm', 1) end)";
        client.ask(&["FUNCTION", "LOAD", late], "$4|late|").await;
        client.fails(&["FCALL", "late", "0"], "redis.register_function can only be called on FUNCTION LOAD command").await;
        client.fails(&["FCALL", "later", "0"], "attempt to call field 'register_function' (a nil value)").await;
        client.fails(&["FCALL", "kept", "0"], "nonexistent global variable 'call'").await;
        client.ask(&["FCALL", "all", "0"], ":3|").await;
        client.ask(&["GET", "n"], "$1|8|").await;
    })
    .await;
}

#[tokio::test]
async fn functions_are_known_at_every_door_at_once() {
    with_door(|bed| async move {
        let other = bed.other_door();
        let (mut client, mut at_other) = (bed.connect(), bed.connect_by(&other));
        client.ask(&["FUNCTION", "LOAD", &gives("l", "f", 1)], "$1|l|").await;
        at_other.ask(&["FCALL", "f", "0"], ":1|").await;
        // What the other door remembers is out of date after each of these, and it must not answer by it.
        for number in 2..6 {
            client.ask(&["FUNCTION", "LOAD", "REPLACE", &gives("l", "f", number)], "$1|l|").await;
            at_other.ask(&["FCALL", "f", "0"], &format!(":{number}|")).await;
        }
        client.ask(&["FUNCTION", "LOAD", "REPLACE", &adds("l", "f", 1)], "$1|l|").await;
        at_other.ask(&["FCALL", "f", "1", "n"], ":1|").await;
        client.ask(&["FUNCTION", "LOAD", "REPLACE", &adds("l", "f", 10)], "$1|l|").await;
        at_other.ask(&["MULTI"], "+OK|").await;
        at_other.ask(&["INCR", "n"], "+QUEUED|").await;
        at_other.ask(&["FCALL", "f", "1", "n"], "+QUEUED|").await;
        at_other.ask(&["EXEC"], "*2|:2|:12|").await;
        client.ask(&["FUNCTION", "DELETE", "l"], "+OK|").await;
        at_other.fails(&["FCALL", "f", "1", "n"], "ERR Function not found").await;
        at_other.fails(&["FUNCTION", "DELETE", "l"], "ERR Library not found").await;
        at_other.ask(&["GET", "n"], "$2|12|").await;
        // A call of what is known costs two: the function's command, and its end.
        client.ask(&["FUNCTION", "LOAD", &adds("l", "f", 1)], "$1|l|").await;
        client.ask(&["FCALL", "f", "1", "n"], ":13|").await;
        let calls = bed.memory.calls.load(Ordering::Relaxed);
        client.ask(&["FCALL", "f", "1", "n"], ":14|").await;
        assert_eq!(bed.memory.calls.load(Ordering::Relaxed), calls + 2);
    })
    .await;
}

#[tokio::test]
async fn two_libraries_do_not_share_a_function() {
    with_door(|bed| async move {
        let other = bed.other_door();
        let (mut client, mut at_other) = (bed.connect(), bed.connect_by(&other));
        // Both at once: one of them is too late.
        client.send(&["FUNCTION", "LOAD", &gives("one", "f", 1)]).await;
        at_other.send(&["FUNCTION", "LOAD", &gives("two", "F", 2)]).await;
        let mut replies = Vec::new();
        for client in [&mut client, &mut at_other] {
            let mut got = [0; 256];
            let read = tokio::time::timeout(Duration::from_secs(20), client.0.read(&mut got)).await.unwrap().unwrap();
            replies.push(String::from_utf8_lossy(&got[..read]).into_owned());
        }
        let refused = replies.iter().filter(|reply| {
            reply.contains("ERR Function f already exists") || reply.contains("ERR Function F already exists")
        });
        assert_eq!(refused.count(), 1, "{replies:?}");
        client.ask(&["FUNCTION", "FLUSH"], "+OK|").await;
        client.ask(&["FUNCTION", "LOAD", &gives("one", "f", 1)], "$3|one|").await;
        client.fails(&["FUNCTION", "LOAD", &gives("one", "f", 1)], "ERR Library 'one' already exists").await;
        client.fails(&["FUNCTION", "LOAD", "REPLACE", &gives("two", "f", 1)], "ERR Function f already exists").await;
        for (source, wanted) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=x", "ERR Invalid library metadata"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!lisp name=x\n", "ERR Engine 'lisp' not found"),
            ("#!lua name=x other=1\n", "ERR Invalid metadata value given: other=1"),
            ("#!lua name=x name=y\n", "name argument was given multiple times"),
            ("#!lua name=x-y\n", "ERR Library names can only contain letters"),
            ("#!lua name=x\nreturn 1", "ERR No functions registered"),
            ("#!lua name=x\nno Lua", "ERR Error compiling function"),
        ] {
            client.fails(&["FUNCTION", "LOAD", source], wanted).await;
        }
        let long = "local d = ('x'):rep(2000000) redis.register_function{function_name='g', callback=function() end, description=d}";
        client.fails(&["FUNCTION", "LOAD", &format!("#!lua name=x\n{long}")], "OOM a keyspace has at most").await;
        client.fails(&["FUNCTION", "LOAD", &format!("#!lua name={}\nreturn 1", "x".repeat(513))], "ERR Library names").await;
        client.fails(&["FUNCTION", "LOAD", "OVER", "x"], "ERR Unknown option given: OVER").await;
        client.ask(&["FCALL", "f", "0"], ":1|").await;
    })
    .await;
}

#[tokio::test]
async fn libraries_are_listed() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.ask(&["FUNCTION", "LIST"], "*0|").await;
        let source = gives("one", "f", 1);
        client.ask(&["FUNCTION", "LOAD", &source], "$3|one|").await;
        client.ask(&["FUNCTION", "LOAD", &gives("two", "g", 1)], "$3|two|").await;
        let one = "*6|$12|library_name|$3|one|$6|engine|$3|LUA|$9|functions|*1|*6|$4|name|$1|f|$11|description|$-1|$5|flags|*1|+no-writes|";
        client.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "on*"], &format!("*1|{one}")).await;
        let with_code = one.replacen("*6|", "*8|", 1);
        client.ask(&["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "one"], &format!("*1|{with_code}$12|library_code|${}|{source}|", source.len())).await;
        let many = "ERR unknown subcommand or wrong number of arguments for 'flush'. Try FUNCTION HELP.";
        client.fails(&["FUNCTION", "FLUSH", "SYNC", "x"], many).await;
        client.fails(&["FUNCTION", "FLUSH", "x"], "only supports SYNC|ASYNC").await;
        client.fails(&["FUNCTION", "LIST", "ALL"], "ERR Unknown argument ALL").await;
        client.fails(&["FUNCTION", "LIST", "LIBRARYNAME"], "ERR library name argument was not given").await;
        let engines = "$7|engines|*2|$3|LUA|*4|$15|libraries_count|:2|$15|functions_count|:2|";
        client.ask(&["FUNCTION", "STATS"], &format!("*4|$14|running_script|$-1|{engines}")).await;
    })
    .await;
}

#[tokio::test]
async fn libraries_are_dumped_and_restored() {
    with_door(|bed| async move {
        let mut client = bed.connect();
        client.ask(&["FUNCTION", "LOAD", &gives("one", "f", 1)], "$3|one|").await;
        client.ask(&["FUNCTION", "LOAD", &gives("two", "g", 2)], "$3|two|").await;
        let dump = client.bulk(&["FUNCTION", "DUMP"]).await;
        client.send_bytes(&[b"FUNCTION", b"RESTORE", &dump]).await;
        client.expect("-ERR Library one already exists|").await;
        client.ask(&["FUNCTION", "LOAD", "REPLACE", &gives("one", "f", 11)], "$3|one|").await;
        client.send_bytes(&[b"FUNCTION", b"RESTORE", &dump, b"REPLACE"]).await;
        client.expect("+OK|").await;
        client.ask(&["FCALL", "f", "0"], ":1|").await;
        client.ask(&["FUNCTION", "FLUSH", "ASYNC"], "+OK|").await;
        client.fails(&["FCALL", "g", "0"], "ERR Function not found").await;
        // A function of another library is in the way: nothing of the dump is kept.
        client.ask(&["FUNCTION", "LOAD", &gives("three", "g", 3)], "$5|three|").await;
        client.send_bytes(&[b"FUNCTION", b"RESTORE", &dump]).await;
        client.expect("-ERR Function g already exists|").await;
        client.fails(&["FCALL", "f", "0"], "ERR Function not found").await;
        client.send_bytes(&[b"FUNCTION", b"RESTORE", &dump, b"FLUSH"]).await;
        client.expect("+OK|").await;
        client.ask(&["FCALL", "g", "0"], ":2|").await;
        let policy = "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.|";
        client.send_bytes(&[b"FUNCTION", b"RESTORE", &dump, b"MERGE"]).await;
        client.expect(policy).await;
        for at in 0..dump.len() {
            let mut damaged = dump.clone();
            damaged[at] ^= 1;
            client.send_bytes(&[b"FUNCTION", b"RESTORE", &damaged, b"FLUSH"]).await;
            client.expect("-ERR DUMP payload version or checksum are wrong|").await;
        }
        client.fails(&["FUNCTION", "RESTORE", ""], "ERR DUMP payload version or checksum are wrong").await;
        client.ask(&["FCALL", "f", "0"], ":1|").await;
    })
    .await;
}

#[tokio::test]
async fn a_function_that_runs_is_shown_and_killed() {
    with_door(|bed| async move {
        let (mut runs, mut client) = (bed.connect(), bed.connect());
        let endless = "#!lua name=l\nredis.register_function('endless', function(keys) redis.call('SET', keys[1], 1) while true do end end)";
        client.ask(&["FUNCTION", "LOAD", endless], "$1|l|").await;
        client.fails(&["FUNCTION", "KILL"], "NOTBUSY").await;
        runs.send(&["FCALL", "endless", "1", "k"]).await;
        loop {
            client.send(&["FUNCTION", "STATS"]).await;
            let mut got = [0; 512];
            let read = tokio::time::timeout(Duration::from_secs(20), client.0.read(&mut got)).await.unwrap().unwrap();
            if String::from_utf8_lossy(&got[..read]).contains("$4\r\nname\r\n$7\r\nendless") {
                break;
            }
        }
        client.fails(&["SCRIPT", "KILL"], "NOTBUSY").await;
        client.ask(&["FUNCTION", "KILL"], "+OK|").await;
        runs.expect("-ERR Script killed by user with SCRIPT KILL. script: endless|").await;
        client.ask(&["GET", "k"], "$-1|").await;
    })
    .await;
}
