use super::*;
use std::time::Duration;

fn words(text: &[&str]) -> Vec<Bytes> {
    text.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn run_for(source: &str, time: Duration) -> Ended {
    let script = Script {
        source: Bytes::copy_from_slice(source.as_bytes()),
        name: "0123".into(),
        library: false,
        keys: words(&["k1", "k2"]),
        arguments: words(&["a1"]),
    };
    let stop = Arc::new(Stop::new(Instant::now() + time));
    // A database that replies with its question, in the kinds that there are.
    let calls = |words: Words| {
        Some(match &words[0][..] {
            b"error" => RedisReply::Error("WRONGTYPE no".into()),
            b"nil" => RedisReply::Nil,
            b"map" => RedisReply::Map(vec![(bulk("f"), RedisReply::Double(Bytes::from_static(b"1.5")))]),
            b"set" => RedisReply::Set(vec![bulk("m")]),
            b"ok" => RedisReply::Ok,
            b"number" => RedisReply::Integer(7),
            _ => RedisReply::Array(words.into_iter().map(RedisReply::Bulk).collect()),
        })
    };
    run(&script, &stop, Box::new(calls))
}

fn eval(source: &str) -> RedisReply {
    match run_for(source, Duration::from_secs(20)) {
        Ended::Reply(reply) => reply,
        other => panic!("{other:?} of {source}"),
    }
}

fn bulk(text: &str) -> RedisReply {
    RedisReply::Bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn array(items: &[&str]) -> RedisReply {
    RedisReply::Array(items.iter().map(|item| bulk(item)).collect())
}

/// The script replies with this text, or this error.
fn says(source: &str, wanted: &str) {
    match eval(source) {
        RedisReply::Bulk(text) => assert_eq!(String::from_utf8_lossy(&text), wanted, "{source}"),
        RedisReply::Error(text) | RedisReply::Status(text) => assert_eq!(text, wanted, "{source}"),
        RedisReply::Integer(number) => assert_eq!(number.to_string(), wanted, "{source}"),
        other => panic!("{other:?} of {source}"),
    }
}

#[test]
fn values_become_replies() {
    assert_eq!(eval("return 3.99"), RedisReply::Integer(3));
    assert_eq!(eval("return true"), RedisReply::Integer(1));
    assert_eq!(eval("return false"), RedisReply::Nil);
    assert_eq!(eval("return"), RedisReply::Nil);
    assert_eq!(eval("return {'a', 'b', nil, 'c'}"), array(&["a", "b"]));
    assert_eq!(eval("return {KEYS[1], KEYS[2], ARGV[1]}"), array(&["k1", "k2", "a1"]));
    assert_eq!(eval("return {ok='fine'}"), RedisReply::Status("fine".into()));
    assert_eq!(eval("return {err='My Err'}"), RedisReply::Error("My Err".into()));
    assert_eq!(eval("return redis.error_reply('MY thing')"), RedisReply::Error("MY thing".into()));
    assert_eq!(eval("return redis.error_reply('thing')"), RedisReply::Error("ERR thing".into()));
    assert_eq!(eval("return redis.status_reply('S')"), RedisReply::Status("S".into()));
    assert_eq!(eval("return {double=1.5}"), RedisReply::Double(Bytes::from_static(b"1.5")));
    assert_eq!(eval("return {map={a=1}}"), RedisReply::Map(vec![(bulk("a"), RedisReply::Integer(1))]));
    assert_eq!(eval("return {set={a=true}}"), RedisReply::Set(vec![bulk("a")]));
    assert!(matches!(eval("local t = {} t[1] = t return t"), RedisReply::Error(text) if text.contains("stack limit")));
}

#[test]
fn replies_become_values() {
    assert_eq!(eval("return redis.call('echo', 1, 2.5)"), array(&["echo", "1", "2.5"]));
    says("return redis.call('ok').ok", "OK");
    says("return type(redis.call('nil'))", "boolean");
    says("return redis.call('number') + 1", "8");
    assert_eq!(eval("return redis.call('map')"), array(&["f", "1.5"]));
    says("redis.setresp(3); return tostring(redis.call('map').map.f.double)", "1.5");
    says("redis.setresp(3); return tostring(redis.call('set').set.m)", "true");
    says("redis.setresp(3); return type(redis.call('nil'))", "nil");
    says("return redis.pcall('error').err", "WRONGTYPE no");
    says("return redis.call('error')", "WRONGTYPE no script: 0123, on @user_script:1.");
    says("local ok, e = pcall(redis.call, 'error'); return e.err", "WRONGTYPE no");
    says("\n\nerror('oh')", "ERR user_script:3: oh script: 0123, on @user_script:3.");
    says("\nreturn redis.call('error')", "WRONGTYPE no script: 0123");
    says("error({err='MINE oh'})", "MINE oh script: 0123, on @user_script:1.");
    says(
        "return redis.call()",
        "ERR Please specify at least one argument for this redis.call() call script: 0123, on @user_script:1.",
    );
    says(
        "return redis.call({})",
        "ERR Lua redis lib command arguments must be strings or integers script: 0123, on @user_script:1.",
    );
    says("return return", "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'return'");
}

#[test]
fn a_script_has_no_way_out() {
    for name in
        ["io", "require", "loadfile", "dofile", "package", "debug", "getfenv", "setfenv", "print", "newproxy", "module"]
    {
        let wanted = format!(
            "ERR user_script:1: Script attempted to access nonexistent global variable '{name}' script: 0123, on @user_script:1."
        );
        says(&format!("return {name}"), &wanted);
        says(&format!("return _G.{name}"), &wanted);
    }
    says("return type(os.execute)", "nil");
    says("a = 1", "ERR user_script:1: Attempt to modify a readonly table script: 0123, on @user_script:1.");
    says("local ok = pcall(setmetatable, _G, {}) return tostring(ok)", "false");
    says("return tostring(getmetatable(_G))", "false");
    // What is compiled already is not taken.
    says("local f, e = loadstring(string.dump(function() end)) return tostring(f)", "nil");
    says("return loadstring('return 7')()", "7");
    says(
        "local f = loadstring('return io') return 1, f()",
        "ERR [string \"return io\"]:1: Script attempted to access nonexistent global variable 'io' script: 0123, on @user_script:1.",
    );
}

#[test]
fn a_script_that_does_not_end_is_stopped() {
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f f = function() return pcall(f) or f() end while true do f() end",
        "local c = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) while true do c() end",
        "while true do redis.pcall('ok') end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return pcall(function() return t.x end)",
    ] {
        let begun = Instant::now();
        let ended = run_for(source, Duration::from_millis(100));
        assert!(matches!(ended, Ended::Stopped(Why::TimeOver)), "{ended:?} of {source}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{source}");
    }
}

#[test]
fn a_script_that_wants_too_much_memory_is_stopped() {
    for source in [
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
    ] {
        let ended = run_for(source, Duration::from_secs(20));
        assert!(matches!(ended, Ended::Memory), "{ended:?} of {source}");
    }
    // What a text is made of may be there many times.
    says(
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end local ok, e = pcall(cjson.encode, t) return e",
        "user_script:1: Cannot serialise: the text is too long",
    );
    let reply = eval("local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return t");
    assert!(matches!(reply, RedisReply::Error(text) if text.contains("reply has more than")));
}

#[test]
fn tables_become_json_and_back() {
    for (lua, json) in [
        ("{1, 2, 3}", "[1,2,3]"),
        ("{}", "{}"),
        ("{a = 'x/y\"\\n\\127'}", r#"{"a":"x\/y\"\n\u007f"}"#),
        ("{1, nil, 3}", "[1,null,3]"),
        ("{cjson.null, true, false, 1.5, 1e20, 'é'}", "[null,true,false,1.5,1e+20,\"é\"]"),
        ("{[5] = 1}", "[null,null,null,null,1]"),
        ("{[-1] = 1}", r#"{"-1":1}"#),
        ("3.14159265358979", "3.1415926535898"),
    ] {
        says(&format!("return cjson.encode({lua})"), json);
    }
    says(r#"return cjson.decode('{"a":[1,2,{"b":"\\u00e9\\ud83d\\ude00"}]}').a[3].b"#, "é😀");
    says("return tostring(cjson.decode('[null]')[1] == cjson.null)", "true");
    says("return tostring(cjson.decode(' -1.5e2 '))", "-150");
    says("return cjson.decode(cjson.encode({KEYS, ARGV}))[1][2]", "k2");
    for (text, wanted) in [
        ("x", "Expected value but found invalid token at character 1"),
        ("[1,", "Expected value but found T_END at character 4"),
        ("[1 2]", "Expected comma or array end but found T_NUMBER at character 4"),
        ("{\"a\" 1}", "Expected colon but found T_NUMBER at character 6"),
        ("{} x", "Expected the end but found invalid token at character 4"),
        ("\"\\x\"", "Expected value but found invalid escape code at character 2"),
        ("\"\\ud83d\"", "Expected value but found invalid escape code at character 2"),
        ("\"ab", "Expected value but found unexpected end of string at character 4"),
    ] {
        says(
            &format!("local ok, e = pcall(cjson.decode, [==[{text}]==]) return e"),
            &format!("user_script:1: {wanted}"),
        );
    }
    says(
        "return select(2, pcall(cjson.encode, {[1000] = 1}))",
        "user_script:1: Cannot serialise table: excessively sparse array",
    );
    says(
        "return select(2, pcall(cjson.encode, {function() end}))",
        "user_script:1: Cannot serialise function: type not supported",
    );
}

#[test]
fn libraries_say_what_is_wrong() {
    says("return redis.sha1hex('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    says("return select(2, pcall(redis.sha1hex))", "user_script:1: wrong number of arguments");
    says(
        "return select(2, pcall(bit.band, 'x'))",
        "user_script:1: bad argument #1 to 'band' (number expected, got string)",
    );
    says("return redis.log(redis.LOG_DEBUG, 'x') or 'nothing'", "nothing");
    says("return tostring(redis.replicate_commands())", "true");
}

#[test]
fn numbers_are_bits() {
    for (expression, wanted) in [
        ("bit.band(0xff, 0x0f)", "15"),
        ("bit.bor(1, 2, 4)", "7"),
        ("bit.bxor(5, 1)", "4"),
        ("bit.bnot(0)", "-1"),
        ("bit.lshift(1, 31)", "-2147483648"),
        ("bit.rshift(-1, 28)", "15"),
        ("bit.arshift(-256, 4)", "-16"),
        ("bit.rol(0x12345678, 8)", "878082066"),
        ("bit.tobit(2^32 + 5)", "5"),
        ("bit.bswap(0x12345678)", "2018915346"),
        ("bit.tohex(255, 4)", "00ff"),
        ("bit.tohex(255, -2)", "FF"),
    ] {
        says(&format!("return {expression}"), wanted);
    }
}

#[test]
fn values_are_packed_and_unpacked() {
    for value in ["1", "-1", "-33", "255", "65536", "-70000", "2^40", "1.5", "0.1", "'text'", "true", "('x'):rep(300)"]
    {
        let source = format!("local v = {value} local w = cmsgpack.unpack(cmsgpack.pack(v)) return tostring(v == w)");
        says(&source, "true");
    }
    says(
        "return redis.sha1hex(cmsgpack.pack({1, 'a', {b = false}}))",
        &crate::lua::sha1_of(&[0x93, 1, 0xa1, b'a', 0x81, 0xa1, b'b', 0xc2]),
    );
    assert_eq!(eval("return {cmsgpack.unpack(cmsgpack.pack('a', 'b'))}"), array(&["a", "b"]));
    assert_eq!(eval("return {select(2, cmsgpack.unpack_one(cmsgpack.pack('a', 'b')))}"), array(&["a"]));
    says("return select(2, pcall(cmsgpack.unpack, '\\147\\1'))", "user_script:1: Missing bytes in input.");
    says(
        "return select(2, pcall(cmsgpack.unpack, '\\221\\255\\255\\255\\255'))",
        "user_script:1: Missing bytes in input.",
    );
    says("return struct.pack('>I2', 258)", "\u{1}\u{2}");
    says("return struct.pack('<i4', 1)", "\u{1}\0\0\0");
    says("return struct.unpack('>h', '\\255\\254')", "-2");
    says("return struct.unpack('<d', struct.pack('<d', 1.5)) * 2", "3");
    says("return struct.size('!4bi4')", "8");
    assert_eq!(eval("return {struct.unpack('Bc0s', struct.pack('Bc0s', 2, 'ab', 'cd'))}"), {
        RedisReply::Array(vec![bulk("ab"), bulk("cd"), RedisReply::Integer(7)])
    });
    says("return select(2, pcall(struct.unpack, 'i4', 'abc'))", "user_script:1: data string too short");
    says("return select(2, pcall(struct.pack, 'i99', 1))", "user_script:1: integral size 99 is larger than limit of 8");
}

#[test]
fn random_numbers_are_the_same_in_each_run() {
    let source = "local t = {} for i = 1, 5 do t[i] = math.random(1000000) end return t";
    let once = eval(source);
    assert_eq!(once, eval(source));
    let RedisReply::Array(items) = &once else { panic!("{once:?}") };
    assert!(items.iter().any(|item| *item != items[0]));
    says("math.randomseed(5) local a = math.random() math.randomseed(5) return tostring(a == math.random())", "true");
    says("return select(2, pcall(math.random, 0))", "user_script:1: bad argument #1 to 'random' (interval is empty)");
}

fn registers(source: &str) -> Result<Vec<Registered>, String> {
    let stop = Arc::new(Stop::new(Instant::now() + Duration::from_secs(20)));
    register(Bytes::copy_from_slice(source.as_bytes()), &stop)
}

#[test]
fn a_library_says_what_its_functions_are() {
    let one = |name: &str, description: Option<&'static str>, flags: &[&str]| Registered {
        name: name.into(),
        description: description.map(Bytes::from),
        flags: flags.iter().map(|flag| flag.to_string()).collect(),
    };
    let text = "local n = 1 redis.register_function('a', function() return n end)
        redis.register_function{function_name='b', callback=function() end, description='d', flags={'no-writes', 'allow-stale'}}";
    assert_eq!(registers(text), Ok(vec![one("a", None, &[]), one("b", Some("d"), &["no-writes", "allow-stale"])]));
    for (text, wanted) in [
        ("return 1", "No functions registered"),
        ("this is no Lua", "Error compiling function: "),
        (
            "redis.register_function('f')",
            "calling redis.register_function with a single argument is only applicable to Lua table",
        ),
        ("redis.register_function()", "wrong number of arguments to redis.register_function"),
        ("redis.register_function('f', 1)", "second argument to redis.register_function must be a function"),
        ("redis.register_function(1, print)", "Script attempted to access nonexistent global variable 'print'"),
        ("redis.register_function{function_name='f'}", "must get a callback argument"),
        ("redis.register_function{callback=function() end}", "must get a function name argument"),
        ("redis.register_function{function_name='f', callback=function() end, flags={'fast'}}", "unknown flag given"),
        ("redis.register_function{function_name='f', other=1}", "unknown argument given to redis.register_function"),
        ("redis.register_function('f g', function() end)", "can only contain letters, numbers"),
        (
            "redis.register_function('f', function() end) redis.register_function('F', function() end)",
            "Function already exists in the library",
        ),
        ("return redis.call('GET', 'k')", "attempted to access nonexistent global variable 'call'"),
        ("return math.random()", "attempted to access nonexistent global variable 'math'"),
        ("return redis.redis.call('GET', 'k')", "attempted to access nonexistent global variable 'redis'"),
        ("redis.call = 1", "Attempt to modify a readonly table"),
        ("n = 1", "Attempt to modify a readonly table"),
        ("return KEYS[1]", "nonexistent global variable 'KEYS'"),
    ] {
        let said = registers(text).expect_err(text);
        assert!(said.contains(wanted), "{text}: {said}, not {wanted}");
    }
}

#[test]
fn a_library_that_does_not_end_is_stopped() {
    let stop = Arc::new(Stop::new(Instant::now() + Duration::from_millis(50)));
    let said = register(Bytes::from_static(b"while true do end"), &stop);
    assert_eq!(said, Err("Error registering functions: FUNCTION LOAD timeout".into()));
}
