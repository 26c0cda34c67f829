//! Measures the shard backend alone, on engine-memory's kind of space (an ordered map in memory): puts,
//! gets, pages of listings, counts. Prints a line each. No Raft, no log, no network: what the state
//! machine itself costs.
//!
//!   cargo run --release -p core-backends --features testing --example shard_figures [keys]

use base_types::codec::Encode;
use base_types::s3::{field, Document, Version};
use base_types::{BackendKind, LogIndex};
use bytes::Bytes;
use core_backends::shard::{Command, Condition, Item, ListStart, Listing, PutStep, Query, Range, Reply, Versioning};
use core_backends::testing::MapSpace;
use core_backends::{apply, decode_reply, query, ApplyContext};
use std::time::Instant;

/// The document of an object as large as the paper's average.
const DOCUMENT_BYTES: usize = 2_000;

fn key(at: usize) -> Bytes {
    format!("folder-{:03}/{:03}/object-{at:08}.jpg", at % 100, at / 100 % 100).into()
}

fn tell(space: &mut MapSpace, index: usize, command: &Command) {
    let at = ApplyContext {
        life: base_types::Generation(1),
        index: LogIndex(index as u64 + 1),
        position: 0,
        cluster_time_ms: index as u64,
    };
    let reply = apply(BackendKind::Shard, at, space, &command.to_bytes()).expect("a map is never damaged");
    decode_reply::<Reply>(reply).expect("the command fits");
}

fn ask(space: &MapSpace, question: &Query) -> Reply {
    decode_reply(query(BackendKind::Shard, 0, space, &question.to_bytes()).expect("a map is never damaged"))
        .expect("the query fits")
}

fn put(at: usize, document: &Bytes) -> Command {
    let step = PutStep {
        epoch: 1,
        key: key(at),
        versioning: Versioning::Unversioned,
        at_unix_ms: at as u64,
        document: document.clone(),
        inline: None,
        condition: Condition::default(),
        once: None,
        data_expires_ms: None,
    };
    Command::Put { step }
}

/// Seconds this thread has been on a processor (Linux); a busy machine does not distort them.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Runs something many times and reports what one run takes, on the processor and by the clock.
fn measure(what: &str, times: usize, mut run: impl FnMut(usize)) {
    let (begun, cpu) = (Instant::now(), on_cpu());
    (0..times).for_each(&mut run);
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), on_cpu() - cpu);
    let micros = |seconds: f64| seconds * 1e6 / times as f64;
    println!(
        "{what:<40} {:>9.2} us CPU {:>9.2} us wall {:>10.0} /s of CPU",
        micros(cpu),
        micros(wall),
        times as f64 / cpu
    );
}

fn listing(prefix: &str, delimiter: &str, start: ListStart) -> Query {
    let listing = Listing {
        epoch: 1,
        prefix: prefix.to_string().into(),
        delimiter: delimiter.to_string().into(),
        start,
        limit: 1000,
        pin: None,
    };
    Query::List { listing }
}

fn main() {
    let keys: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut document = Document::new();
    document.set_number(field::SIZE, 2048).set(field::ETAG, Some("d41d8cd98f00b204e9800998ecf8427e".into()));
    document.set(field::USER_METADATA, Some(vec![b'm'; DOCUMENT_BYTES].into()));
    let document = document.encode();
    let mut space = MapSpace::default();
    tell(&mut space, 0, &Command::Create { epoch: 1, range: Range::default() });
    // An odd step walks all keys in an order that is not theirs.
    let shuffled = |at: usize| at * 7_919 % keys;
    println!("{keys} keys, documents of {DOCUMENT_BYTES} bytes");
    measure("put, new keys in no order", keys, |at| tell(&mut space, at, &put(shuffled(at), &document)));
    measure("put, over others", 100_000, |at| tell(&mut space, at, &put(shuffled(at), &document)));
    measure("get, current version", 100_000, |at| {
        let condition = Condition::default();
        ask(
            &space,
            &Query::Get { epoch: 1, key: key(shuffled(at)), version: Version::Current, inline: true, condition },
        );
    });
    measure("list, a page of 1000 keys", 200, |at| {
        ask(&space, &listing("", "", ListStart::After { key: key(shuffled(at)) }));
    });
    measure("list, 100 common prefixes of all keys", 200, |_| {
        ask(&space, &listing("", "/", ListStart::Beginning));
    });
    measure("count, a prefix of a hundredth", 1_000, |at| {
        let prefix = format!("folder-{:03}/", at % 100).into();
        ask(&space, &Query::Count { epoch: 1, prefix, pin: None });
    });
    measure("cut points, 100 parts", 100, |_| {
        ask(&space, &Query::CutPoints { epoch: 1, parts: 100, by_rows: false });
    });
    walk(&space, keys);
}

/// All keys, page by page.
fn walk(space: &MapSpace, keys: usize) {
    let cpu = on_cpu();
    let (mut told, mut start) = (0, ListStart::Beginning);
    while let Reply::Page { items, more } = ask(space, &listing("", "", start.clone())) {
        told += items.len();
        if let Some(Item::Object { key, .. }) = items.last() {
            start = ListStart::After { key: key.clone() };
        }
        if !more {
            break;
        }
    }
    assert_eq!(told, keys, "the walk returns every key once");
    println!("{:<40} {:>10.0} entries/s of CPU", "walk of all keys, pages of 1000", keys as f64 / (on_cpu() - cpu));
}
