//! What `hive top` knows of a world, and how it asks for it.

use crate::arguments::top::Order;
use crate::arguments::{Levels, World};
use crate::failure::Failure;
use crate::output::{ask, client, client_of, items};
use hive_client::Client;
use serde_json::{json, Value};
use std::cmp::Reverse;
use std::time::Duration;
use tokio::task::JoinSet;

/// Nodes that are asked for their numbers at a time.
pub const NODES_ASKED_MAX: usize = 32;
/// How long a node may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Samples are at most so old: a node takes one every ten seconds.
const SAMPLE_AGE_MS: u64 = 15_000;

/// The heads of the table of nodes.
pub const HEADS: [&str; 14] = [
    "NODE",
    "STATE",
    "PLACE",
    "LOAD",
    "DISK",
    "READ/S",
    "READ P99",
    "WRITE/S",
    "WRITE P99",
    "LOG P99",
    "LEADS",
    "REPLICAS",
    "CLIENTS",
    "MEMORY",
];

/// The nodes, greatest first; by number where they are alike.
pub fn sorted(order: Order, nodes: &[Node]) -> Vec<&Node> {
    let mut sorted: Vec<&Node> = nodes.iter().collect();
    let numbers = |node: &Node| node.numbers.clone().unwrap_or_default();
    sorted.sort_by_key(|node| {
        let numbers = numbers(node);
        let greatest = match order {
            Order::Node => 0,
            Order::Load => numbers.load_permille,
            Order::Disk => numbers.disk_permille,
            Order::Reads => numbers.reads as u64,
            Order::Writes => numbers.writes as u64,
            Order::P99 => numbers.read_p99_us.max(numbers.write_p99_us),
        };
        (Reverse(greatest), node.id)
    });
    sorted
}

/// What a node said of its last seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// A second, transactions and Redis commands with them.
    pub reads: f64,
    pub writes: f64,
    pub mixed: f64,
    pub read_p99_us: u64,
    pub write_p99_us: u64,
    pub log_p99_us: u64,
    pub load_permille: u64,
    pub disk_permille: u64,
    pub memory_bytes: u64,
    pub connections: u64,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub id: u64,
    pub up: bool,
    pub draining: bool,
    pub place: String,
    pub http: String,
    pub replicas: u64,
    pub leaders: u64,
    /// `None`: it did not say.
    pub numbers: Option<Numbers>,
}

impl Node {
    /// Up, down, or leaving; a node that is up and did not answer is silent.
    pub fn state(&self) -> &'static str {
        match (self.up, self.draining, &self.numbers) {
            (false, ..) => "down",
            (true, true, _) => "leaving",
            (true, false, None) => "silent",
            (true, false, Some(_)) => "up",
        }
    }

    /// In the order of [`HEADS`].
    pub fn cells(&self) -> [String; HEADS.len()] {
        let of = |text: fn(&Numbers) -> String| self.numbers.as_ref().map_or("-".into(), text);
        [
            self.id.to_string(),
            self.state().into(),
            self.place.clone(),
            of(|numbers| percent(numbers.load_permille)),
            of(|numbers| percent(numbers.disk_permille)),
            of(|numbers| rate(numbers.reads + numbers.mixed)),
            of(|numbers| time(numbers.read_p99_us)),
            of(|numbers| rate(numbers.writes)),
            of(|numbers| time(numbers.write_p99_us)),
            of(|numbers| time(numbers.log_p99_us)),
            self.leaders.to_string(),
            self.replicas.to_string(),
            of(|numbers| numbers.connections.to_string()),
            of(|numbers| bytes(numbers.memory_bytes)),
        ]
    }
}

#[derive(Clone, Debug)]
pub struct Alarm {
    pub bad: bool,
    pub title: String,
    pub todo: String,
}

/// The world at one moment.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    pub world: String,
    /// The node that was asked.
    pub asked: u64,
    pub ready: bool,
    pub degraded: bool,
    pub nodes: Vec<Node>,
    /// `None`: no node said.
    pub alarms: Option<Vec<Alarm>>,
}

impl Glance {
    /// Reads and writes a second, of all nodes.
    pub fn rates(&self) -> (f64, f64) {
        let numbers = || self.nodes.iter().filter_map(|node| node.numbers.as_ref());
        (numbers().map(|one| one.reads + one.mixed).sum(), numbers().map(|one| one.writes).sum())
    }

    /// Those that are known.
    pub fn alarms(&self) -> &[Alarm] {
        self.alarms.as_deref().unwrap_or_default()
    }

    /// The world in a line.
    pub fn headline(&self) -> String {
        let (reads, writes) = self.rates();
        let up = self.nodes.iter().filter(|node| node.up).count();
        let state = match (self.ready, self.degraded) {
            (false, _) => "NOT READY",
            (true, true) => "DEGRADED",
            (true, false) => "ready",
        };
        format!(
            "world {} · {state} (node {}) · {up} of {} nodes up · {} reads/s · {} writes/s · {} alarms",
            self.world,
            self.asked,
            self.nodes.len(),
            rate(reads),
            rate(writes),
            self.alarms.as_ref().map_or("unknown".into(), |alarms| alarms.len().to_string())
        )
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let (reads, writes) = self.rates();
        let nodes: Vec<Value> = self.nodes.iter().map(node_json).collect();
        let shown = |alarm: &Alarm| json!({"severity": if alarm.bad { "bad" } else { "warn" }, "title": alarm.title, "todo": alarm.todo});
        let alarms: Option<Vec<Value>> = self.alarms.as_ref().map(|alarms| alarms.iter().map(shown).collect());
        json!({
            "ok": true, "world": self.world, "node": self.asked, "ready": self.ready, "degraded": self.degraded,
            "reads_per_s": reads, "writes_per_s": writes, "nodes": nodes, "alarms": alarms,
        })
    }
}

fn node_json(node: &Node) -> Value {
    let numbers = node.numbers.as_ref().map(|numbers| {
        json!({
            "reads_per_s": numbers.reads, "writes_per_s": numbers.writes, "mixed_per_s": numbers.mixed,
            "read_p99_us": numbers.read_p99_us, "write_p99_us": numbers.write_p99_us,
            "log_sync_p99_us": numbers.log_p99_us, "load_permille": numbers.load_permille,
            "disk_permille": numbers.disk_permille, "resident_bytes": numbers.memory_bytes,
            "connections": numbers.connections,
        })
    });
    json!({
        "id": node.id, "state": node.state(), "place": node.place, "http": node.http,
        "replicas": node.replicas, "leaders": node.leaders, "numbers": numbers,
    })
}

/// Asks a world again and again.
pub struct Observer {
    world: World,
    client: Client,
}

impl Observer {
    /// Of the world that the arguments name.
    pub fn new(world: World) -> Result<Observer, Failure> {
        let client = client(&world, &Levels::default())?;
        Ok(Observer { world, client })
    }

    /// One look. An error: nobody answered, or this user may not ask.
    pub async fn look(&self) -> Result<Glance, Failure> {
        let status = ask(&self.client, &self.world, json!({"action": "Status"})).await?;
        // The node map comes from a cluster that may be what is missing: the status stands without it.
        let listed = self.client.action(json!({"action": "ListNodes", "read_consistency": "eventual"})).await;
        let nodes = listed.map(|answer| items(&answer, "nodes").iter().map(node_of).collect()).unwrap_or_default();
        Ok(Glance {
            world: status["world"].as_str().unwrap_or_default().into(),
            asked: status["node"].as_u64().unwrap_or_default(),
            ready: status["ready"] == true,
            degraded: !items(&status, "degraded").is_empty(),
            nodes: self.with_numbers(nodes).await,
            alarms: alarms_of(&self.client).await,
        })
    }

    async fn with_numbers(&self, mut nodes: Vec<Node>) -> Vec<Node> {
        let up: Vec<usize> = (0..nodes.len()).filter(|index| nodes[*index].up).collect();
        for some in up.chunks(NODES_ASKED_MAX) {
            let mut asked = JoinSet::new();
            for index in some.iter().copied() {
                let Ok(client) = client_of(&self.world, &[nodes[index].http.as_str()]) else { continue };
                let client = client.with_options(self.client.options().clone());
                asked.spawn(async move {
                    (index, tokio::time::timeout(PATIENCE, numbers_of(&client)).await.ok().flatten())
                });
            }
            while let Some(answer) = asked.join_next().await {
                if let Ok((index, numbers)) = answer {
                    nodes[index].numbers = numbers;
                }
            }
        }
        nodes
    }
}

/// Every node has its own; the first that answers sees the others, too. `None`: nobody said.
async fn alarms_of(client: &Client) -> Option<Vec<Alarm>> {
    let mut found = None;
    for endpoint in 0..client.endpoints().len() {
        found = got(client, endpoint, "/alarms").await;
        if found.is_some() {
            break;
        }
    }
    let answer = found?;
    let text = |alarm: &Value, name: &str| alarm[name].as_str().unwrap_or_default().to_owned();
    let alarm =
        |one: &Value| Alarm { bad: one["severity"] == "bad", title: text(one, "title"), todo: text(one, "todo") };
    Some(items(&answer, "alarms").iter().map(alarm).collect())
}

/// The live sample, else the last one.
async fn numbers_of(client: &Client) -> Option<Numbers> {
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_millis() as u64;
    let path = format!("/console/history?since={}", now_ms.saturating_sub(SAMPLE_AGE_MS));
    numbers_in(&got(client, 0, &path).await?)
}

async fn got(client: &Client, endpoint: usize, path: &str) -> Option<Value> {
    let (status, body) = client.get_path(endpoint, path).await.ok()?;
    (status == 200).then(|| serde_json::from_slice(&body).ok()).flatten()
}

fn numbers_in(history: &Value) -> Option<Numbers> {
    let fields: Vec<&str> = history["fields"].as_array()?.iter().filter_map(Value::as_str).collect();
    let live = Some(&history["live"]).filter(|live| live.is_array());
    let sample = live.or_else(|| history["samples"].as_array()?.last())?;
    let number = |name: &str| {
        let index = fields.iter().position(|field| *field == name);
        index.and_then(|index| sample[index].as_f64()).unwrap_or_default()
    };
    Some(Numbers {
        reads: number("reads_per_s"),
        writes: number("writes_per_s"),
        mixed: number("mixed_per_s"),
        read_p99_us: number("read_p99_us") as u64,
        write_p99_us: number("write_p99_us") as u64,
        log_p99_us: number("log_sync_p99_us") as u64,
        load_permille: number("load_permille") as u64,
        disk_permille: number("disk_permille") as u64,
        memory_bytes: number("resident_bytes") as u64,
        connections: number("connections") as u64,
    })
}

fn node_of(node: &Value) -> Node {
    let text = |name: &str| node[name].as_str().unwrap_or_default();
    let place = ["region", "az", "rack", "chassis"].map(text).join("/");
    Node {
        id: node["id"].as_u64().unwrap_or_default(),
        up: node["up"] == true,
        draining: node["draining"] == true,
        place: place.trim_matches('/').to_owned(),
        http: text("http").to_owned(),
        replicas: node["clusters"].as_u64().unwrap_or_default(),
        leaders: node["leaders"].as_u64().unwrap_or_default(),
        numbers: None,
    }
}

fn percent(permille: u64) -> String {
    format!("{} %", permille / 10)
}

/// A second.
pub fn rate(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.1}M", number / 1e6),
        number if number >= 1e4 => format!("{:.1}k", number / 1e3),
        number => format!("{number:.0}"),
    }
}

fn time(us: u64) -> String {
    match us {
        0 => "-".into(),
        1..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

fn bytes(number: u64) -> String {
    match number {
        number if number >= 10 << 30 => format!("{} GiB", number >> 30),
        number => format!("{} MiB", number >> 20),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn node(id: u64, numbers: Option<Numbers>) -> Node {
        Node {
            id,
            up: true,
            draining: false,
            place: "fr-par/1/1/1".into(),
            http: "127.0.0.1:1".into(),
            replicas: 12,
            leaders: 4,
            numbers,
        }
    }

    #[test]
    fn every_order_puts_its_greatest_first() {
        let numbers = |seed: f64| Numbers { reads: seed, writes: 10.0 - seed, ..Numbers::default() };
        let mut nodes: Vec<Node> = (1..=3).map(|id| node(id, Some(numbers(id as f64)))).collect();
        nodes.push(node(4, None));
        let ids = |order: Order| sorted(order, &nodes).iter().map(|node| node.id).collect::<Vec<_>>();
        assert_eq!(ids(Order::Node), [1, 2, 3, 4]);
        assert_eq!(ids(Order::Reads), [3, 2, 1, 4]);
        assert_eq!(ids(Order::Writes), [1, 2, 3, 4]);
        let all: Vec<Order> = std::iter::successors(Some(Order::Node), |order| Some(order.next())).take(7).collect();
        let names: std::collections::BTreeSet<String> = all.iter().map(|order| order.name()).collect();
        assert_eq!((names.len(), all[6]), (6, Order::Node));
    }

    #[test]
    fn the_live_sample_comes_before_the_last_one() {
        let fields = json!(["time_ms", "reads_per_s", "writes_per_s", "load_permille"]);
        let kept = json!({"fields": fields, "samples": [[1, 1.0, 2.0, 3], [2, 4.0, 5.0, 6]], "live": null});
        assert_eq!(numbers_in(&kept).unwrap().reads, 4.0);
        let live = json!({"fields": fields, "samples": [[1, 1.0, 2.0, 3]], "live": [9, 7.0, 8.0, 9]});
        let numbers = numbers_in(&live).unwrap();
        assert_eq!((numbers.reads, numbers.writes, numbers.load_permille), (7.0, 8.0, 9));
        assert!(numbers_in(&json!({"fields": fields, "samples": [], "live": null})).is_none());
        assert!(numbers_in(&json!("no object")).is_none());
    }
}
