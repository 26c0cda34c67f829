//! XGROUP: groups and consumers are made, set and removed.

use super::super::numbers::parse_integer;
use super::super::store::{check_name, Store};
use super::super::{fail, integer, wrong_count, Done, Fail, Reply};
use super::entries::shown;
use super::ids::{parse, parse_strict, Id};
use super::members::{Change, Consumer, Group};
use super::rows::Stream;
use super::wall_ms;
use bytes::Bytes;

/// Pending entries that go with one consumer at most.
const REMOVED_ENTRIES_MAX: u64 = 50_000;

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD <entries_read>]",
    "    Makes a group that has read up to an id, and with MKSTREAM the stream.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Makes a consumer, if it is not there.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Removes a consumer and what is pending with it; says how much that was.",
    "DESTROY <key> <groupname>",
    "    Removes a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD <entries_read>]",
    "    Sets up to which id a group has read.",
    "HELP",
    "    Prints this help.",
];

pub(super) fn help(lines: &[&str]) -> Reply {
    Reply::Array(lines.iter().map(|line| Reply::Status((*line).into())).collect())
}

/// A subcommand's name in lower case, if there is one of that name and it takes so many words; as in `CommandSpec`, less than zero: or more.
pub(super) fn subcommand(command: &str, known: &[(&'static str, i32)], argv: &[Bytes]) -> Result<&'static str, Fail> {
    let word = argv.get(1).map_or(&b""[..], |word| word);
    let Some((name, arity)) = known.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())) else {
        let shown: String = shown(word).chars().take(128).collect();
        return fail(format!("ERR unknown subcommand '{shown}'. Try {} HELP.", command.to_ascii_uppercase()));
    };
    let wanted = arity.unsigned_abs() as usize;
    if argv.len() < wanted || (*arity > 0 && argv.len() > wanted) {
        return fail(wrong_count(&format!("{command}|{name}")));
    }
    Ok(name)
}

/// What Redis says where a subcommand's words fit in number and make no sense.
pub(super) fn bad_subcommand<T>(command: &str, word: &[u8]) -> Result<T, Fail> {
    let shown: String = shown(word).chars().take(128).collect();
    fail(format!("ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {command} HELP."))
}

pub(super) fn no_group<T>(key: &[u8], group: &[u8]) -> Result<T, Fail> {
    fail(format!("NOGROUP No such consumer group '{}' for key name '{}'", shown(group), shown(key)))
}

pub(super) fn xgroup(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let known = [("create", -5), ("createconsumer", 5), ("delconsumer", 5), ("destroy", 4), ("help", 2), ("setid", -5)];
    match subcommand("xgroup", &known, argv)? {
        "help" => Ok(help(HELP)),
        "create" => create(store, argv),
        "setid" => set_id(store, argv),
        "destroy" => destroy(store, argv),
        "createconsumer" => create_consumer(store, argv),
        _ => delete_consumer(store, argv),
    }
}

/// The stream that a subcommand works on; `None` where it may be made.
fn stream_of(store: &mut Store<'_>, key: &[u8], may_be_made: bool) -> Result<Option<Stream>, Fail> {
    match Stream::open(store, key)? {
        None if !may_be_made => fail(
            "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM \
             option to create an empty stream automatically.",
        ),
        stream => Ok(stream),
    }
}

fn change_of(store: &mut Store<'_>, argv: &[Bytes]) -> Result<Change, Fail> {
    let Some(stream) = stream_of(store, &argv[2], false)? else { return no_group(&argv[2], &argv[3]) };
    match Change::open(store, stream, &argv[3])? {
        Some(change) => Ok(change),
        None => no_group(&argv[2], &argv[3]),
    }
}

/// MKSTREAM, and what ENTRIESREAD says.
fn options(argv: &[Bytes], create: bool) -> Result<(bool, Option<i64>), Fail> {
    let (mut make, mut read) = (false, None);
    let mut words = argv[5..].iter();
    while let Some(word) = words.next() {
        if create && word.eq_ignore_ascii_case(b"MKSTREAM") {
            make = true;
            continue;
        }
        match words.next() {
            Some(value) if word.eq_ignore_ascii_case(b"ENTRIESREAD") => match parse_integer(value)? {
                -1 => read = None,
                count if count < 0 => return fail("ERR value for ENTRIESREAD must be positive or -1"),
                count => read = Some(count),
            },
            _ => return bad_subcommand("XGROUP", &argv[1]),
        }
    }
    Ok((make, read))
}

fn create(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (make, read) = options(argv, true)?;
    let stream = stream_of(store, &argv[2], make)?;
    if argv.len() > 8 {
        return bad_subcommand("XGROUP", &argv[1]);
    }
    let last = match &argv[4][..] {
        b"$" => stream.as_ref().map_or(Id::MIN, |stream| stream.last),
        id => parse_strict(id, 0)?,
    };
    check_name("name of a group", &argv[3])?;
    if let Some(stream) = &stream {
        if Group::find(&*store.space, stream, &argv[3])?.is_some() {
            return fail("BUSYGROUP Consumer Group name already exists");
        }
    }
    let mut stream = match stream {
        Some(stream) => stream,
        None => Stream::create(store, &argv[2]),
    };
    let group = Group::new(stream.new_group(), last, read);
    store.space.put(stream.group_row(&argv[3]), group.row());
    stream.save(store, &argv[2])?;
    Ok(Reply::Ok)
}

fn set_id(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (_, read) = options(argv, false)?;
    let mut change = change_of(store, argv)?;
    if !matches!(argv.len(), 5 | 7) {
        return bad_subcommand("XGROUP", &argv[1]);
    }
    change.group.last = match &argv[4][..] {
        b"$" => change.stream.last,
        id => parse(id, 0)?,
    };
    change.group.read = read;
    change.close(store, &argv[2])?;
    Ok(Reply::Ok)
}

fn destroy(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(mut stream) = stream_of(store, &argv[2], false)? else { return Ok(integer(0)) };
    let Some(group) = Group::find(&*store.space, &stream, &argv[3])? else { return Ok(integer(0)) };
    stream.destroy_group(store, &argv[3], group.number);
    stream.save(store, &argv[2])?;
    Ok(integer(1))
}

fn create_consumer(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let mut change = change_of(store, argv)?;
    check_name("name of a consumer", &argv[4])?;
    if Consumer::find(&*store.space, &change.stream, change.group.number, &argv[4])?.is_some() {
        return Ok(integer(0));
    }
    let now = wall_ms(&store.moment);
    change.consumer(store, &argv[4], now)?;
    change.close(store, &argv[2])?;
    Ok(integer(1))
}

fn delete_consumer(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let mut change = change_of(store, argv)?;
    let group = change.group.number;
    let Some(consumer) = Consumer::find(&*store.space, &change.stream, group, &argv[4])? else { return Ok(integer(0)) };
    if consumer.pending > REMOVED_ENTRIES_MAX {
        return fail(format!(
            "ERR {} entries are pending with the consumer, and at most {REMOVED_ENTRIES_MAX} are removed with one; \
             acknowledge or claim some first",
            consumer.pending
        ));
    }
    let (interval, limit) = ((Id::MIN, Id::MAX), REMOVED_ENTRIES_MAX as usize);
    for id in change.stream.pending_ids(&*store.space, group, Some(consumer.number), interval, limit)? {
        if let Some(pending) = change.pending(store, id)? {
            change.release(store, id, pending)?;
        }
    }
    change.remove_consumer(store, &argv[4], consumer.number);
    change.close(store, &argv[2])?;
    Ok(Reply::Integer(consumer.pending as i64))
}
