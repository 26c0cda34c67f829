//! Random writes, compactions, stalls, cut-offs and restarts of the hub, against a list of all that was written.

use super::bed::*;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use crate::watch::Settings;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const KEYS: [&str; 6] = ["a", "b", "ba", "bb", "c", "d"];

#[derive(Clone, Debug)]
enum Step {
    /// Puts (true) and deletes.
    Commit(Vec<(usize, bool)>),
    /// To so many stamps before the last.
    Compact(u64),
    Watch {
        client: usize,
        key: usize,
        end: Option<usize>,
        back: Option<i64>,
        before: bool,
        no_puts: bool,
    },
    Cancel(usize),
    /// The client takes so many messages.
    Take(usize, usize),
    Progress(usize),
    Cut(bool),
    Lag(bool),
    Drop(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    prop_oneof![
        8 => proptest::collection::vec((key.clone(), prop::bool::weighted(0.7)), 1..5).prop_map(Step::Commit),
        1 => (0u64..12).prop_map(Step::Compact),
        4 => (0usize..3, key.clone(), proptest::option::of(key), proptest::option::of(-3i64..12), any::<bool>(),
            prop::bool::weighted(0.2))
            .prop_map(|(client, key, end, back, before, no_puts)| Step::Watch { client, key, end, back, before, no_puts }),
        1 => (0usize..3).prop_map(Step::Cancel),
        4 => (0usize..3, 1usize..20).prop_map(|(client, count)| Step::Take(client, count)),
        1 => (0usize..3).prop_map(Step::Progress),
        1 => prop::bool::weighted(0.3).prop_map(Step::Cut),
        1 => prop::bool::weighted(0.5).prop_map(Step::Lag),
        1 => (0usize..3).prop_map(Step::Drop),
        3 => (1u64..100).prop_map(Step::Pass),
    ]
}

/// What was written: for each revision its events as [`shown`] with former values.
type Written = BTreeMap<i64, Vec<(String, bool, String, String)>>;

/// A watch, and what came for it.
#[derive(Debug)]
struct Seen {
    request: WatchCreateRequest,
    /// The first revision that it gets; known when it is created.
    start: Option<i64>,
    events: Vec<String>,
    /// All up to here has come.
    header: i64,
    ended: Option<WatchResponse>,
}

struct World {
    bed: Bed,
    values: BTreeMap<String, String>,
    written: Written,
    clients: Vec<Option<(Client, HashMap<i64, Seen>)>>,
    next_id: i64,
    compacted: i64,
}

impl Seen {
    fn wants(&self, key: &str, put: bool) -> bool {
        let (start, end) = (&self.request.key[..], &self.request.range_end[..]);
        let inside =
            if end.is_empty() { start == key.as_bytes() } else { start <= key.as_bytes() && key.as_bytes() < end };
        inside && (!put || self.request.filters.is_empty())
    }

    /// What it should have been sent up to a revision.
    fn wanted(&self, written: &Written, up_to: i64) -> Vec<String> {
        let start = self.start.unwrap();
        let mut found = Vec::new();
        for (_, events) in written.range(start..).take_while(|(revision, _)| **revision <= up_to) {
            for (key, put, plain, with_before) in events {
                if self.wants(key, *put) {
                    found.push(if self.request.prev_kv { with_before } else { plain }.clone());
                }
            }
        }
        found
    }

    fn take(&mut self, message: &WatchResponse, written: &Written, compacted: i64) {
        assert!(self.ended.is_none(), "after its end: {message:?}");
        let revision = revision_of(message);
        if message.created {
            assert!(self.start.is_none() && !message.canceled);
            self.start = Some(match self.request.start_revision {
                0 => revision + 1,
                start => start,
            });
            self.header = self.start.unwrap() - 1;
            return;
        }
        if message.canceled {
            if message.compact_revision != 0 {
                assert!(message.compact_revision <= compacted && self.header + 1 < message.compact_revision);
            }
            self.ended = Some(message.clone());
            return;
        }
        let events = shown(message);
        if !events.is_empty() {
            self.events.extend(events.split(", ").map(str::to_owned));
        }
        assert!(revision >= self.header || message.watch_id == -1, "{} then {message:?}", self.header);
        self.header = self.header.max(revision);
        assert_eq!(self.events, self.wanted(written, self.header), "{self:?}");
    }
}

impl World {
    fn new() -> World {
        let settings = Settings { recent_bytes_max: 3_000, queue_revisions_max: 3, ..Settings::default() };
        let bed = Bed::with(settings);
        bed.store.page_max.store(4, Relaxed);
        let clients = (0..3).map(|_| Some((bed.client(), HashMap::new()))).collect();
        let (values, written) = (BTreeMap::new(), Written::new());
        World { bed, values, written, clients, next_id: 1, compacted: 0 }
    }

    fn last(&self) -> i64 {
        self.written.keys().next_back().copied().unwrap_or(1)
    }

    async fn commit(&mut self, changes: &[(usize, bool)]) {
        let revision = self.last() + 1;
        let (mut operations, mut events, mut touched) = (Vec::new(), Vec::new(), Vec::new());
        for (key, is_put) in changes {
            let key = KEYS[*key];
            if touched.contains(&key) || !is_put && !self.values.contains_key(key) {
                continue;
            }
            touched.push(key);
            let was = self.values.get(key).map_or(String::new(), |was| format!(" (was {was})"));
            let value = format!("{key}{revision}");
            let plain = if *is_put { format!("{revision} {key}={value}") } else { format!("{revision} -{key}") };
            operations.push(if *is_put { put(key, &value) } else { delete(key) });
            if *is_put {
                self.values.insert(key.into(), value);
            } else {
                self.values.remove(key);
            }
            events.push((key.to_string(), *is_put, plain.clone(), format!("{plain}{was}")));
        }
        if !operations.is_empty() {
            let stamp = self.bed.commit(operations).await;
            assert_eq!(crate::revision::of_stamp(stamp), revision);
            self.written.insert(revision, events);
        }
    }

    fn watch(&mut self, client: usize, request: WatchCreateRequest) {
        let Some((client, watches)) = &mut self.clients[client] else { return };
        let request = WatchCreateRequest { watch_id: self.next_id, ..request };
        self.next_id += 1;
        client.create(request.clone());
        let seen = Seen { start: None, events: Vec::new(), header: 0, ended: None, request };
        watches.insert(seen.request.watch_id, seen);
    }

    /// Takes messages; `false`: none came.
    async fn take(&mut self, client: usize) -> bool {
        let (written, compacted) = (&self.written, self.compacted);
        let Some((taker, watches)) = &mut self.clients[client] else { return false };
        let message = match taker.soon_or_end().await {
            None => return false,
            Some(Ok(message)) => message,
            Some(Err(status)) => {
                // A watch was asked for while the node was cut off. A client connects again.
                assert_eq!(status.message(), "etcdserver: unhealthy cluster");
                self.clients[client] = Some((self.bed.client(), HashMap::new()));
                return true;
            }
        };
        if message.watch_id == -1 {
            let all = watches.values_mut().filter(|seen| seen.start.is_some() && seen.ended.is_none());
            all.for_each(|seen| seen.take(&message, written, compacted));
        } else {
            watches.get_mut(&message.watch_id).unwrap().take(&message, written, compacted);
        }
        true
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::Commit(changes) => self.commit(&changes).await,
            Step::Compact(back) => {
                let to = self.last().saturating_sub_unsigned(back);
                if to > self.compacted.max(1) {
                    self.bed.compact(to as u64).await;
                    self.compacted = to;
                }
            }
            Step::Watch { client, key, end, back, before, no_puts } => {
                let range_end = end.map_or(Bytes::new(), |end| Bytes::from_static(KEYS[end].as_bytes()));
                if !range_end.is_empty() && range_end[..] <= *KEYS[key].as_bytes() {
                    return;
                }
                let start_revision = back.map_or(0, |back| (self.last() + 1 - back).max(1));
                let filters = if no_puts { vec![0] } else { Vec::new() };
                let request =
                    WatchCreateRequest { range_end, start_revision, prev_kv: before, filters, ..on(KEYS[key]) };
                self.watch(client, request);
            }
            Step::Cancel(client) => {
                if let Some((client, watches)) = &self.clients[client] {
                    watches.keys().min().into_iter().for_each(|id| client.cancel(*id));
                }
            }
            Step::Take(client, count) => {
                for _ in 0..count {
                    self.take(client).await;
                }
            }
            Step::Progress(client) => {
                if let Some((client, _)) = &self.clients[client] {
                    client.ask_progress();
                }
            }
            Step::Cut(cut) => self.bed.store.cut.store(cut, Relaxed),
            Step::Lag(lag) => {
                let at = if lag { self.last() as u64 } else { 0 };
                self.bed.store.lag_at.store(at, Relaxed);
            }
            Step::Drop(client) => self.clients[client] = Some((self.bed.client(), HashMap::new())),
            Step::Pass(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    }

    /// Everybody takes until nothing comes; then all that was not cancelled is complete.
    async fn finish(&mut self) {
        self.bed.store.cut.store(false, Relaxed);
        self.bed.store.lag_at.store(0, Relaxed);
        for client in 0..self.clients.len() {
            while self.take(client).await {}
            let Some((_, watches)) = &self.clients[client] else { continue };
            for seen in watches.values() {
                assert!(seen.start.is_some(), "it was never answered: {seen:?}");
                if seen.ended.is_none() {
                    assert_eq!(seen.events, seen.wanted(&self.written, self.last()), "{seen:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn watchers_see_what_was_written(steps in proptest::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.run(step).await;
            }
            world.finish().await;
        });
    }
}
