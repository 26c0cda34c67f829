//! The load: one open-loop stream of operations for each level, at a fixed rate, each operation with a deadline.
//!
//! Hive is asked by its own client (hive-client: the next member after a failure, the same request id); etcd by the same
//! steps with the same times, since its own client speaks gRPC. `one try` streams ask one member once, each in turn.
//! By design: an operation is begun when it is due, whatever became of those before; what was not answered in time has
//! failed, even if it is answered later. Not here: what a failure is put down to (proof-check).

use super::members::System;
use super::wire::{Door, Lost};
use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use hive_client::{Client, ClientError};
use proof_check::availability::tally::{Outcome, Record};
use serde_json::{json, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

/// How long an operation may take, all tries together.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// What a try of etcd may take before another member is asked, as hive-client has it.
const TRY_LEAST: Duration = Duration::from_millis(1_500);
/// The pause between tries at first, doubled up to the longest, as hive-client has it.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_millis(500);
/// How long operations under way may take at the end of a run.
const LAST_ANSWER: Duration = Duration::from_secs(4);
/// Operations of one stream under way at most; one that is due beyond that fails unasked. The rate times the deadline is
/// far less.
const UNDER_WAY_MAX: usize = 4_096;

/// What a stream does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    pub name: &'static str,
    pub reads: bool,
    /// Which keys: each level writes its own, so that none waits for another's.
    keys: &'static str,
    /// Hive's level; of etcd: whether a read may be answered by any member alone ("serializable").
    level: &'static str,
    /// Whether other members are asked after a failure.
    retries: bool,
}

const fn put(name: &'static str, level: &'static str, retries: bool) -> Stream {
    Stream { name, reads: false, keys: name, level, retries }
}

/// Reads what was written before the run.
const fn get(name: &'static str, level: &'static str, retries: bool) -> Stream {
    Stream { name, reads: true, keys: READ_KEYS, level, retries }
}

/// Keys that are written at a time before the measurement.
const FILLERS: u64 = 32;
/// The keys that are read.
const READ_KEYS: &str = "read";

const HIVE: [Stream; 8] = [
    put("put hopeful", "hopeful", true),
    put("put eventual", "eventual", true),
    put("put strong", "strong", true),
    put("put absolute", "absolute", true),
    get("get eventual", "eventual", true),
    get("get strong", "strong", true),
    put("put strong, one try", "strong", false),
    get("get strong, one try", "strong", false),
];

const ETCD: [Stream; 5] = [
    put("put", "", true),
    get("get serializable", "serializable", true),
    get("get linearizable", "", true),
    put("put, one try", "", false),
    get("get linearizable, one try", "", false),
];

/// The streams of a system.
pub fn streams(system: System) -> &'static [Stream] {
    match system {
        System::Hive => &HIVE,
        System::Etcd => &ETCD,
    }
}

/// What all streams of a run share.
pub struct Load {
    system: System,
    client: Client,
    doors: Vec<Door>,
    keys: u64,
    value: String,
    interval: Duration,
    pub start: Instant,
    over: Cell<bool>,
    records: Vec<RefCell<Vec<Record>>>,
    /// The latest that an operation was begun after it was due: what this program itself was late.
    late: Cell<Duration>,
}

impl Load {
    pub fn new(system: System, endpoints: &[String], keys: u64, value_bytes: usize, rate: u32) -> Rc<Load> {
        let client = Client::new(endpoints).expect("addresses made here");
        let client = client.with_options(hive_client::Options { deadline: Some(DEADLINE), ..Default::default() });
        Rc::new(Load {
            system,
            client,
            doors: endpoints.iter().map(|address| Door::new(address)).collect(),
            keys: keys.max(1),
            value: "v".repeat(value_bytes),
            interval: Duration::from_secs(1) / rate.max(1),
            start: Instant::now(),
            over: Cell::new(false),
            records: streams(system).iter().map(|_| RefCell::default()).collect(),
            late: Cell::default(),
        })
    }

    /// Writes every key once, so that each read must find its own; `Err`: what a key met.
    pub async fn fill(self: &Rc<Load>) -> Result<(), String> {
        let mut fillers = JoinSet::new();
        for first in 0..FILLERS {
            fillers.spawn_local(self.clone().fill_from(first));
        }
        while let Some(filled) = fillers.join_next().await {
            filled.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    /// Writes each key whose number divided by [`FILLERS`] leaves this rest.
    async fn fill_from(self: Rc<Load>, first: u64) -> Result<(), String> {
        let put =
            Stream { keys: READ_KEYS, ..put("fill", if self.system == System::Hive { "strong" } else { "" }, true) };
        for number in (first..self.keys).step_by(FILLERS as usize) {
            let start = Instant::now();
            while self.operation(put, number).await != Outcome::Answered {
                if start.elapsed() > DEADLINE * 5 {
                    return Err(format!("key {number} could not be written within {:?}", start.elapsed()));
                }
            }
        }
        Ok(())
    }

    /// Begins all streams. They continue until [`Load::finish`].
    pub fn begin(self: &Rc<Load>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for at in 0..streams(self.system).len() {
            tasks.spawn_local(self.clone().drive(at));
        }
        tasks
    }

    /// Milliseconds since the beginning.
    pub fn now(&self) -> u32 {
        self.start.elapsed().as_millis() as u32
    }

    async fn drive(self: Rc<Load>, at: usize) {
        let stream = streams(self.system)[at];
        // Streams take turns: they do not all begin in the same millisecond.
        let first = self.start + self.interval * at as u32 / streams(self.system).len() as u32;
        let mut under_way = JoinSet::new();
        for number in 0u32.. {
            let due = first + self.interval * number;
            sleep_until(due.into()).await;
            if self.over.get() {
                break;
            }
            while under_way.try_join_next().is_some() {}
            self.late.set(self.late.get().max(due.elapsed()));
            if under_way.len() >= UNDER_WAY_MAX {
                self.record(at, due, Outcome::Refused);
                continue;
            }
            let load = self.clone();
            under_way.spawn_local(async move {
                let begun = Instant::now();
                let outcome = load.operation(stream, u64::from(number)).await;
                let in_time = begun.elapsed() <= DEADLINE;
                load.record(at, begun, if in_time || outcome != Outcome::Answered { outcome } else { Outcome::Late });
            });
        }
        let _ = timeout(LAST_ANSWER, async { while under_way.join_next().await.is_some() {} }).await;
    }

    fn record(&self, at: usize, begun: Instant, outcome: Outcome) {
        let begun = begun.saturating_duration_since(self.start).as_millis() as u32;
        self.records[at].borrow_mut().push(Record { begun, ended: self.now(), outcome });
    }

    /// Ends the streams, and hands out what each saw.
    pub async fn finish(&self, mut tasks: JoinSet<()>) -> Vec<(Stream, Vec<Record>)> {
        self.over.set(true);
        while tasks.join_next().await.is_some() {}
        streams(self.system).iter().copied().zip(self.records.iter().map(RefCell::take)).collect()
    }

    /// See `late`.
    pub fn latest(&self) -> Duration {
        self.late.get()
    }

    async fn operation(&self, stream: Stream, number: u64) -> Outcome {
        let key = format!("{}-{:08}", stream.keys, number % self.keys);
        match (self.system, stream.retries) {
            (System::Hive, true) => self.by_client(stream, &key).await,
            (System::Hive, false) => {
                let body = hive_body(stream, &key, &self.value);
                self.one_try(stream, number as usize, "/", &body, DEADLINE).await
            }
            (System::Etcd, _) => self.etcd(stream, number as usize, &key).await,
        }
    }

    async fn by_client(&self, stream: Stream, key: &str) -> Outcome {
        match self.client.action(hive_body(stream, key, &self.value)).await {
            Ok(answer) if stream.reads && answer["found"] != true => Outcome::Wrong,
            Ok(_) => Outcome::Answered,
            Err(ClientError::Unknown { .. }) => Outcome::Unknown,
            Err(error @ ClientError::Refused { .. }) if error.exit_code() == 4 => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        }
    }

    async fn etcd(&self, stream: Stream, number: usize, key: &str) -> Outcome {
        let key = STANDARD.encode(key);
        let (path, body) = match stream.reads {
            false => ("/v3/kv/put", json!({"key": key, "value": STANDARD.encode(&self.value)})),
            true => ("/v3/kv/range", json!({"key": key, "serializable": stream.level == "serializable"})),
        };
        let (start, mut outcome) = (Instant::now(), Outcome::Refused);
        let mut pause = PAUSE_FIRST;
        let mut at = number;
        loop {
            if stream.retries {
                let heard = (0..self.doors.len()).find(|step| !self.doors[(at + step) % self.doors.len()].is_silent());
                at += heard.unwrap_or(0);
            }
            let left = DEADLINE.saturating_sub(start.elapsed());
            let patience = if stream.retries { (left / 2).max(TRY_LEAST).min(left) } else { left };
            match self.one_try(stream, at, path, &body, patience).await {
                Outcome::Refused if outcome == Outcome::Unknown => {}
                tried => outcome = tried,
            }
            let left = DEADLINE.saturating_sub(start.elapsed());
            if !matches!(outcome, Outcome::Refused | Outcome::Unknown) || !stream.retries || left <= PAUSE_FIRST {
                break;
            }
            at += 1;
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
        outcome
    }

    /// One member, once.
    async fn one_try(&self, stream: Stream, member: usize, path: &str, body: &Value, patience: Duration) -> Outcome {
        let door = &self.doors[member % self.doors.len()];
        let lost = |sent: bool| if sent && !stream.reads { Outcome::Unknown } else { Outcome::Refused };
        let (status, answer) = match door.post(path, body.to_string().as_bytes(), patience).await {
            Ok(answered) => answered,
            Err(Lost::NotSent) => return lost(false),
            Err(Lost::Sent) => return lost(true),
        };
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let found = if self.system == System::Hive { answer["found"] == true } else { answer["kvs"].is_array() };
        match status {
            200 if stream.reads && !found => Outcome::Wrong,
            200 => Outcome::Answered,
            // Hive says which; etcd's gateway does not, and 5xx of it may have been applied (a time-out).
            _ if self.system == System::Hive => lost(answer["error"]["outcome"] == "unknown"),
            _ => lost(status >= 500),
        }
    }
}

fn hive_body(stream: Stream, key: &str, value: &str) -> Value {
    match stream.reads {
        true => {
            json!({"action": "KvGet", "key": key, "read_consistency": stream.level, "deadline_ms": DEADLINE.as_millis() as u64})
        }
        false => json!({
            "action": "KvPut", "key": key, "consistency": stream.level, "value": value, "deadline_ms": DEADLINE.as_millis() as u64,
        }),
    }
}
