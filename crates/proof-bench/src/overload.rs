//! Twice of what a world can do, then half of it: what is answered in time, second by second, and whether anything was lost.
//!
//!   closed loop (what it can do) ──▶ open loop at twice that ──▶ open loop at half ──▶ every acknowledged key is read
//!
//! Operations of the open loop have two seconds, and a client that gives up closes its connection. So many of them are under
//! way at most as there are connections ([`UNDER_WAY_MAX`]); what is due beyond that is not sent, and counted.
//!
//! Always: each operation writes a key of its own. It fails if a key is lost, if goodput does not come back, or if memory is not
//! given back; how long it took is a figure. Clients and nodes share the machine, in the closed loop as well.
//! Held by: `goodput_is_back_when_it_stays`.

use crate::availability::wire::Door;
use crate::load::{self, End, Job, Keys};
use crate::measure::round;
use crate::report::{Report, Section};
use crate::request::{Operation, Template};
use crate::workloads::say;
use crate::world::{memory_of, World};
use crate::{BenchError, Options};
use hive_client::{Client, ClientError};
use serde_json::{json, Value};
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// How long an operation has.
const DEADLINE: Duration = Duration::from_secs(2);
/// Connections of the open loop at most.
const UNDER_WAY_MAX: usize = 8_192;
/// How long half the load is looked at.
const AFTER: u64 = 30;
/// Of what is asked so much must be answered in time for a second to count as well.
const WELL_PERCENT: u64 = 95;
/// Goodput that is not back within this time counts as gone for good (the goal is 10 s).
const RECOVERY_SECONDS_MAX: u64 = 20;
/// Keys that are read afterwards, at most, evenly from all that were acknowledged.
const READ_MAX: usize = 20_000;
/// Reads at a time.
const READERS: usize = 64;
/// What the nodes may have more of anonymous memory at the end than before the overload: allocators keep some.
const MEMORY_TIMES_MAX: u64 = 3;
const MEMORY_MORE_MAX: u64 = 256 << 20;
/// Requests due at once are begun in groups as large as this, so that the clock is not asked for each.
const TICK: Duration = Duration::from_millis(1);

/// Whose bucket it is, and how long making it may take.
const ACCOUNT: &str = "bench";
const MAKE_MS: u64 = 30_000;
/// The actions that are pushed.
const DOORS: [&str; 2] = ["KvPut", "PutObject"];

/// What became of what began in one second.
#[derive(Clone, Copy, Default)]
struct Second {
    begun: u64,
    answered: u64,
    refused: u64,
    too_late: u64,
    not_sent: u64,
}

struct Open {
    doors: Vec<Door>,
    action: &'static str,
    value: String,
    seconds: RefCell<Vec<Second>>,
    acknowledged: RefCell<Vec<u64>>,
    start: Instant,
}

/// Measures each door.
pub async fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    if options.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) || options.tls.is_some() {
        return Err(BenchError::Usage(
            "overload speaks no TLS: name http:// endpoints, or leave out --endpoint and --ca".into(),
        ));
    }
    for action in DOORS {
        let world = World::open(options, false).await?;
        let pids = world.process_ids();
        if action == "PutObject" {
            make_bucket(&world.client).await?;
        }
        let operation = if action == "KvPut" { Operation::Put("strong") } else { Operation::ObjectPut };
        let template = Template::new(operation, options.value_bytes, options.order);
        let job = Job {
            endpoints: &world.endpoints,
            template: &template,
            clients: options.clients,
            keys: Keys::Random(options.keys),
            pace: None,
            warm_up: Duration::from_secs(1),
            end: End::After(options.duration),
            progress: None,
            pids: &pids,
        };
        let run = load::run(&job).await;
        let capacity = run.rate();
        if capacity < 1.0 {
            return Err(BenchError::World(format!("{action} in the closed loop: nothing but {:?}", run.errors)));
        }
        say(&format!("overload {action}: {capacity:.0}/s in the closed loop"));
        let memory = [memory_of(&pids).unwrap_or(0); 2];
        one(options, report, &world, action, capacity, memory).await?;
    }
    report.note(format!(
        "overload: open loop, {} s for each operation, at most {UNDER_WAY_MAX} of them under way; clients share the machine",
        DEADLINE.as_secs()
    ));
    Ok(())
}

/// A bucket; one of an earlier run against the same world will do.
async fn make_bucket(client: &Client) -> Result<(), BenchError> {
    let make = [
        json!({"action": "CreateAccount", "account": ACCOUNT, "deadline_ms": MAKE_MS}),
        json!({"action": "CreateBucket", "bucket": crate::request::BUCKET, "account": ACCOUNT, "deadline_ms": MAKE_MS}),
    ];
    for body in make {
        match client.action(body).await {
            Ok(_) | Err(ClientError::Refused { status: 409, .. }) => {}
            Err(error) => return Err(BenchError::World(error.to_string())),
        }
    }
    Ok(())
}

async fn one(
    options: &Options,
    report: &mut Report,
    world: &World,
    action: &'static str,
    capacity: f64,
    [before, mut most]: [u64; 2],
) -> Result<(), BenchError> {
    let load_seconds = options.duration.as_secs().max(1);
    let all = load_seconds + AFTER;
    let open = Rc::new(Open {
        doors: world.endpoints.iter().map(|address| Door::new(address)).collect(),
        action,
        // The same letters are the value of a pair, and base64 of an object as long.
        value: "v".repeat(if action == "KvPut" { options.value_bytes } else { options.value_bytes.div_ceil(3) * 4 }),
        // One more: a second may be begun while the last ends.
        seconds: RefCell::new(vec![Second::default(); all as usize + 1]),
        acknowledged: RefCell::default(),
        start: Instant::now(),
    });
    let pids = world.process_ids();
    let mut under_way = JoinSet::new();
    let mut number = 0u64;
    let (mut due, mut looked) = (0.0, 0);
    let mut last = Duration::ZERO;
    while open.start.elapsed() < Duration::from_secs(all) {
        sleep_until((Instant::now() + TICK).into()).await;
        let now = open.start.elapsed();
        let rate = if now < Duration::from_secs(load_seconds) { capacity * 2.0 } else { capacity / 2.0 };
        due += rate * (now - last).as_secs_f64();
        last = now;
        while under_way.try_join_next().is_some() {}
        let at = (now.as_secs() as usize).min(all as usize);
        while due >= 1.0 {
            due -= 1.0;
            open.seconds.borrow_mut()[at].begun += 1;
            if under_way.len() >= UNDER_WAY_MAX {
                open.seconds.borrow_mut()[at].not_sent += 1;
                continue;
            }
            under_way.spawn_local(open.clone().operation(number, at));
            number += 1;
        }
        if now.as_secs() > looked {
            looked = now.as_secs();
            most = most.max(memory_of(&pids).unwrap_or(0));
        }
    }
    sleep(DEADLINE).await;
    under_way.shutdown().await;
    let seconds = open.seconds.borrow()[..all as usize].to_vec();
    let recovered = recovered(&seconds[load_seconds as usize..]);
    let end = memory_of(&pids).unwrap_or(0);
    let (lost, read) = lost(&world.client, &open).await?;
    for (bad, what) in [
        (lost > 0, format!("{lost} of {read} acknowledged keys are not there")),
        (
            recovered.is_none_or(|after| after > RECOVERY_SECONDS_MAX),
            format!("goodput is not back within {RECOVERY_SECONDS_MAX} s"),
        ),
        (
            end > before * MEMORY_TIMES_MAX + MEMORY_MORE_MAX,
            format!("the nodes had {} MiB of their own before, and {} MiB at the end", before >> 20, end >> 20),
        ),
    ] {
        if bad {
            report.failures.push(format!("overload {action}: {what}"));
        }
    }
    let found = Found { action, capacity, load_seconds, seconds, recovered, lost, read, memory: [before, most, end] };
    report.sections.push(Section { name: "overload", text: found.text(), json: found.json() });
    Ok(())
}

impl Open {
    async fn operation(self: Rc<Open>, number: u64, at: usize) {
        let body = match self.action {
            "KvPut" => json!({
                "action": "KvPut", "key": key(number), "value": self.value, "consistency": "strong",
                "deadline_ms": DEADLINE.as_millis() as u64,
            }),
            _ => json!({
                "action": "PutObject", "bucket": crate::request::BUCKET, "key": key(number), "consistency": "strong",
                "body_base64": self.value, "deadline_ms": DEADLINE.as_millis() as u64,
            }),
        };
        let door = &self.doors[number as usize % self.doors.len()];
        let begun = Instant::now();
        let answered = door.post("/", body.to_string().as_bytes(), DEADLINE).await;
        let mut seconds = self.seconds.borrow_mut();
        match answered {
            Ok((200, _)) => {
                self.acknowledged.borrow_mut().push(number);
                match begun.elapsed() <= DEADLINE {
                    true => seconds[at].answered += 1,
                    false => seconds[at].too_late += 1,
                }
            }
            Ok(_) => seconds[at].refused += 1,
            Err(_) => seconds[at].too_late += 1,
        }
    }
}

fn key(number: u64) -> String {
    format!("overload-{number:010}")
}

/// Reads what was acknowledged, strongly: how many keys are not there, of how many.
async fn lost(client: &Client, open: &Open) -> Result<(usize, usize), BenchError> {
    let acknowledged = open.acknowledged.borrow().clone();
    let step = acknowledged.len().div_ceil(READ_MAX).max(1);
    let numbers: Vec<u64> = acknowledged.into_iter().step_by(step).collect();
    let mut tasks: JoinSet<Result<usize, BenchError>> = JoinSet::new();
    for part in numbers.chunks(numbers.len().div_ceil(READERS).max(1)) {
        let (client, part, action) = (client.clone(), part.to_vec(), open.action);
        tasks.spawn_local(async move {
            let mut lost = 0;
            for number in part {
                lost += usize::from(!is_there(&client, action, number).await?);
            }
            Ok(lost)
        });
    }
    let mut lost = 0;
    while let Some(ended) = tasks.join_next().await {
        lost += ended.map_err(|error| BenchError::World(error.to_string()))??;
    }
    Ok((lost, numbers.len()))
}

async fn is_there(client: &Client, action: &str, number: u64) -> Result<bool, BenchError> {
    let body = match action {
        "KvPut" => json!({"action": "KvGet", "key": key(number), "read_consistency": "strong", "deadline_ms": 30_000}),
        _ => {
            json!({"action": "HeadObject", "bucket": crate::request::BUCKET, "key": key(number), "deadline_ms": 30_000})
        }
    };
    match client.action(body).await {
        Ok(answer) => Ok(action != "KvPut" || answer["found"] == true),
        Err(hive_client::ClientError::Refused { status: 404, .. }) => Ok(false),
        Err(error) => Err(BenchError::World(format!("what was acknowledged cannot be read: {error}"))),
    }
}

/// Seconds from the end of the load until all that follow are well.
fn recovered(after: &[Second]) -> Option<u64> {
    let is_well = |second: &Second| second.answered * 100 >= second.begun * WELL_PERCENT;
    let bad = after.iter().rposition(|second| !is_well(second)).map_or(0, |at| at + 1);
    (bad < after.len()).then_some(bad as u64)
}

struct Found {
    action: &'static str,
    capacity: f64,
    load_seconds: u64,
    seconds: Vec<Second>,
    recovered: Option<u64>,
    lost: usize,
    read: usize,
    memory: [u64; 3],
}

impl Found {
    fn text(&self) -> String {
        let (load, after) = self.seconds.split_at(self.load_seconds as usize);
        let line = |seconds: &[Second]| {
            let mean = |pick: fn(&Second) -> u64| seconds.iter().map(pick).sum::<u64>() / seconds.len().max(1) as u64;
            format!(
                "{}/s asked, {}/s answered in time, {}/s refused, {}/s too late, {}/s not sent",
                mean(|second| second.begun),
                mean(|second| second.answered),
                mean(|second| second.refused),
                mean(|second| second.too_late),
                mean(|second| second.not_sent)
            )
        };
        let mut out = format!("overload, {}: {:.0}/s in the closed loop\n", self.action, self.capacity);
        let _ = writeln!(out, "  twice for {} s: {}", self.load_seconds, line(load));
        let _ = writeln!(out, "  half for {} s: {}", after.len(), line(after));
        let back = self.recovered.map_or("never".into(), |seconds| format!("{seconds} s"));
        let [before, most, end] = self.memory.map(|bytes| bytes >> 20);
        let _ = writeln!(
            out,
            "  goodput back after {back}; {} of {} acknowledged keys lost; memory of the nodes {before}, {most}, {end} MiB (before, most, end)",
            self.lost, self.read
        );
        let each: Vec<String> = self.seconds.iter().map(|second| second.answered.to_string()).collect();
        let _ = writeln!(out, "  answered in time, second by second: {}", each.join(" "));
        out
    }

    fn json(&self) -> Value {
        let second = |second: &Second| {
            json!({
                "begun": second.begun, "answered": second.answered, "refused": second.refused,
                "too_late": second.too_late, "not_sent": second.not_sent,
            })
        };
        json!({
            "action": self.action, "capacity": round(self.capacity), "load_seconds": self.load_seconds,
            "recovered_seconds": self.recovered, "lost": self.lost, "read": self.read, "memory_bytes": self.memory,
            "seconds": self.seconds.iter().map(second).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_back_when_it_stays() {
        let second = |begun, answered| Second { begun, answered, ..Second::default() };
        assert_eq!(recovered(&[second(10, 1), second(10, 10), second(10, 5), second(10, 10)]), Some(3));
        assert_eq!(recovered(&[second(10, 10), second(10, 10)]), Some(0));
        assert_eq!(recovered(&[second(10, 10), second(10, 1)]), None);
    }
}
