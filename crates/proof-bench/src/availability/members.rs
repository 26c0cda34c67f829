//! Five members of Hive or etcd as processes of this program's, behind links that it can cut.
//!
//!   laid out ──start──▶ serves ──kill, stop──▶ down ──(wipe)──start──▶ serves …
//!
//! By design: both systems get the same: members on loopback, synced logs, peers only through `links.rs`, clients past it;
//! every process ends with this value, a paused one too. No call here blocks the thread that clients are measured on.
//! Not here: when to break what (proof-check), the load (clients.rs).

use super::links::Links;
use super::wire::Door;
use crate::world::spawn_bound_by;
use crate::{BenchError, Options};
use hive_client::Client;
use proof_check::availability::schedule::SYNC_DELAY;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Members of either system.
pub const MEMBERS: usize = 5;
/// Which zone each is in: five nodes in three of them.
const ZONES: [&str; MEMBERS] = ["z1", "z1", "z2", "z2", "z3"];
/// How long all may take to serve.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a member may take to end when asked.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer about the members themselves may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// What a slow disk delays: all that syncs, and writes that do (Hive's log is written with O_DSYNC).
const SYNC_CALLS: &str = "pwrite64,pwritev,pwritev2,fdatasync,fsync,msync";
/// Partitions of the keyspace, spread over one to three clusters.
const PARTITIONS: u32 = 12;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    Hive,
    Etcd,
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Hive => "hive",
            System::Etcd => "etcd",
        }
    }
}

/// The members.
pub struct Members {
    pub system: System,
    program: PathBuf,
    directory: PathBuf,
    ports: Vec<Ports>,
    children: Vec<Option<Child>>,
    links: Links,
    client: Client,
    doors: Vec<Door>,
    tracer: Option<Child>,
}

/// A member's ports.
#[derive(Clone, Copy)]
struct Ports {
    clients: u16,
    peer: u16,
    /// What the others dial: the link in front of `peer`.
    advertised: u16,
}

impl Members {
    /// Lays them out under the report's directory, starts them and waits until they serve.
    pub async fn start(system: System, program: &Path, options: &Options) -> Result<Members, BenchError> {
        let directory = std::path::absolute(options.out.join(system.name())).map_err(failed)?;
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(failed)?;
        // The systems have ports of their own, so that what one leaves in TIME_WAIT is not in the other's way.
        let base = options.base_port + if system == System::Etcd { 50 } else { 0 };
        let ports: Vec<Ports> = (1..=MEMBERS as u16)
            .map(|id| Ports { clients: base + id, peer: base + 10 + id, advertised: base + 20 + id })
            .collect();
        let pairs: Vec<(u16, u16)> = ports.iter().map(|ports| (ports.advertised, ports.peer)).collect();
        let links = Links::start(&pairs).map_err(|error| BenchError::World(format!("links: {error}")))?;
        let endpoints: Vec<String> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports.clients)).collect();
        let client = Client::new(&endpoints).map_err(|error| BenchError::Usage(error.to_string()))?;
        let client = client.with_options(hive_client::Options { deadline: Some(ASK_TIMEOUT), ..Default::default() });
        let doors = endpoints.iter().map(|address| Door::new(address)).collect();
        let children = (0..MEMBERS).map(|_| None).collect();
        let program = program.to_owned();
        let mut members = Members { system, program, directory, ports, children, links, client, doors, tracer: None };
        if system == System::Hive {
            members.lay_out()?;
        }
        for member in 0..MEMBERS {
            members.launch(member)?;
        }
        members.wait_serving().await?;
        Ok(members)
    }

    /// `host:port` of each, for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.doors.iter().map(|door| door.address().to_owned()).collect()
    }

    /// Certificates and configurations of Hive's nodes.
    fn lay_out(&self) -> Result<(), BenchError> {
        let authority = self.directory.join("ca");
        let authority = authority.to_string_lossy();
        self.command(&["ca", "init", "--dir", &authority, "--world", "bench"])?;
        for member in 0..MEMBERS {
            let id = (member + 1).to_string();
            self.command(&["ca", "issue", "--dir", &authority, "--node", &id, "--address", "127.0.0.1"])?;
            let home = self.home(member);
            std::fs::create_dir_all(&home).map_err(failed)?;
            std::fs::write(home.join("node.toml"), self.configuration(member)).map_err(failed)?;
        }
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Result<(), BenchError> {
        let done = Command::new(&self.program).args(arguments).stdin(Stdio::null()).output().map_err(failed)?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(BenchError::World(format!("`hive {}` ended with {}: {said}", arguments.join(" "), done.status)))
    }

    fn home(&self, member: usize) -> PathBuf {
        self.directory.join(format!("node-{}", member + 1))
    }

    fn configuration(&self, member: usize) -> String {
        let quoted = |text: String| Value::from(text).to_string();
        let address = |port: u16| quoted(format!("127.0.0.1:{port}"));
        let file = |name: String| quoted(self.directory.join("ca").join(name).to_string_lossy().into_owned());
        let (id, zone, ports) = (member + 1, ZONES[member], self.ports[member]);
        let listed = |section: &str| -> String {
            let one = |(at, ports): (usize, &Ports)| {
                format!("[[{section}.members]]\nid = {}\naddress = {}\n", at + 1, address(ports.advertised))
            };
            self.ports.iter().enumerate().map(one).collect()
        };
        [
            format!("id = {id}\ndata = \"data\"\ncores = 1\n[world]\nname = \"bench\"\n"),
            listed("world"),
            "[region]\nname = \"bench\"\n".into(),
            listed("region"),
            format!("[location]\naz = \"{zone}\"\nrack = \"{zone}-r{id}\"\nchassis = \"{zone}-c{id}\"\n"),
            format!("[http]\nlisten = {}\n", address(ports.clients)),
            format!("[peer]\nlisten = {}\nadvertise = {}\n", address(ports.peer), address(ports.advertised)),
            format!("[certificates]\nauthority = {}\n", file("ca.pem".into())),
            format!("certificate = {}\nkey = {}\n", file(format!("node-{id}.pem")), file(format!("node-{id}.key"))),
        ]
        .concat()
    }

    fn member_command(&self, member: usize) -> Command {
        let mut command = Command::new(&self.program);
        if self.system == System::Hive {
            command.arg("node").arg("--config").arg(self.home(member).join("node.toml"));
            return command;
        }
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all: Vec<String> =
            self.ports.iter().enumerate().map(|(at, ports)| format!("m{at}={}", url(ports.advertised))).collect();
        let ports = self.ports[member];
        command.arg("--name").arg(format!("m{member}")).arg("--data-dir").arg(self.home(member).join("data"));
        command.args(["--listen-client-urls", &url(ports.clients), "--advertise-client-urls", &url(ports.clients)]);
        command.args(["--listen-peer-urls", &url(ports.peer)]);
        command.args(["--initial-advertise-peer-urls", &url(ports.advertised)]);
        command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new", "--log-level", "error"]);
        command
    }

    /// Starts a member that does not run.
    pub fn launch(&mut self, member: usize) -> Result<(), BenchError> {
        let home = self.home(member);
        std::fs::create_dir_all(&home).map_err(failed)?;
        let log = std::fs::File::options().create(true).append(true).open(home.join("log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = self.member_command(member);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        // By SIGKILL: a paused process hears nothing else.
        let child = spawn_bound_by(&mut command, libc::SIGKILL).map_err(failed)?;
        self.links.set_owner(member, Some(child.id()));
        self.children[member] = Some(child);
        Ok(())
    }

    fn signal(&self, member: usize, signal: libc::c_int) {
        if let Some(child) = &self.children[member] {
            // SAFETY: a signal to a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
    }

    /// kill -9.
    pub async fn kill(&mut self, member: usize) {
        self.signal(member, libc::SIGKILL);
        self.ended(member).await;
    }

    /// Asks it to end, and kills it where it does not.
    pub async fn stop(&mut self, member: usize) {
        self.signal(member, libc::SIGTERM);
        self.ended(member).await;
    }

    async fn ended(&mut self, member: usize) {
        let start = Instant::now();
        while let Some(child) = &mut self.children[member] {
            if !matches!(child.try_wait(), Ok(None)) {
                self.children[member] = None;
                self.links.set_owner(member, None);
            } else if start.elapsed() > STOP_TIMEOUT {
                let _ = child.kill();
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    pub fn pause(&self, member: usize) {
        self.signal(member, libc::SIGSTOP);
    }

    pub fn resume(&self, member: usize) {
        self.signal(member, libc::SIGCONT);
    }

    /// Deletes the data of a member that does not run.
    pub async fn wipe(&self, member: usize) -> Result<(), BenchError> {
        let data = self.home(member).join("data");
        // On another thread: clients are measured meanwhile.
        let gone = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(data)).await;
        gone.map_err(|error| BenchError::World(error.to_string()))?.map_err(failed)
    }

    /// Cuts off the zone of a member, itself included; how many members are in it.
    pub fn cut_zone_of(&self, member: usize) -> usize {
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..MEMBERS).partition(|one| ZONES[*one] == ZONES[member]);
        self.links.cut_between(&inside, &outside);
        inside.len()
    }

    pub fn heal(&self) {
        self.links.heal();
    }

    /// From now on a member's disk syncs slowly; `false`: this machine has no `strace`, or it cannot attach.
    pub async fn slow_disk(&mut self, member: usize) -> bool {
        let Some(pid) = self.children[member].as_ref().map(Child::id) else { return false };
        let inject = format!("inject={SYNC_CALLS}:delay_enter={}", SYNC_DELAY.as_micros());
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()]);
        command.args(["-e", &format!("trace={SYNC_CALLS}"), "-e", &inject]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = spawn_bound_by(&mut command, libc::SIGTERM) else { return false };
        self.tracer = Some(child);
        sleep(Duration::from_millis(300)).await;
        let runs = matches!(self.tracer.as_mut().map(Child::try_wait), Some(Ok(None)));
        if !runs {
            self.tracer = None;
        }
        runs
    }

    /// Disks are as quick as before.
    pub async fn quick_disk(&mut self) {
        let Some(mut tracer) = self.tracer.take() else { return };
        // SAFETY: a signal to a child that has not been waited for; strace lets go of what it traces.
        unsafe { libc::kill(tracer.id() as i32, libc::SIGINT) };
        let start = Instant::now();
        while matches!(tracer.try_wait(), Ok(None)) {
            if start.elapsed() > STOP_TIMEOUT {
                let _ = tracer.kill();
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether the process of each member still runs, though none of this program's orders ended it.
    pub fn crashed(&mut self) -> Option<usize> {
        let ended =
            |child: &mut Option<Child>| child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        self.children.iter_mut().position(ended)
    }

    /// Where its log is, for messages.
    pub fn log_of(&self, member: usize) -> PathBuf {
        self.home(member).join("log")
    }

    async fn wait_serving(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        let path = if self.system == System::Hive { "/ready" } else { "/health" };
        for member in 0..MEMBERS {
            while !matches!(self.doors[member].get(path, ASK_TIMEOUT).await, Ok((200, _))) {
                if start.elapsed() > START_TIMEOUT || self.crashed().is_some() {
                    let log = self.log_of(member);
                    return Err(BenchError::World(format!(
                        "{} member {} does not serve {path}; look at {}",
                        self.system.name(),
                        member + 1,
                        log.display()
                    )));
                }
                sleep(LOOK_PAUSE).await;
            }
        }
        if self.system == System::Hive {
            self.create_keyspace().await?;
        }
        Ok(())
    }

    async fn create_keyspace(&self) -> Result<(), BenchError> {
        let body = json!({
            "action": "CreateKeyspace", "keyspace": "default", "partition": "hash", "partitions": PARTITIONS, "clusters": 1,
            "rule": format!("size={MEMBERS} location=world failure_domain=chassis"),
            "deadline_ms": START_TIMEOUT.as_millis() as u64,
        });
        self.client.action(body).await.map(drop).map_err(|error| BenchError::World(error.to_string()))
    }

    /// The member that leads (the keyspace's cluster of this number, modulo how many there are); `None`: nobody says so.
    pub async fn leader(&self, number: u64) -> Option<usize> {
        if self.system == System::Etcd {
            return self.etcd_status().await.into_iter().position(|status| {
                status.is_some_and(|status| {
                    status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
                })
            });
        }
        let owners = self.owners().await?;
        let name = owners.get(number as usize % owners.len().max(1))?;
        let cluster = self.cluster(name).await?;
        let leader = cluster["leader"].as_u64().filter(|leader| (1..=MEMBERS as u64).contains(leader))?;
        Some(leader as usize - 1)
    }

    /// The clusters of the keyspace.
    async fn owners(&self) -> Option<Vec<Value>> {
        let answer = self.client.action(json!({"action": "DescribeKeyspace", "keyspace": "default"})).await.ok()?;
        let mut owners = answer["keyspace"]["owners"].as_array().cloned()?;
        owners.sort_by_key(Value::to_string);
        owners.dedup();
        Some(owners)
    }

    async fn cluster(&self, name: &Value) -> Option<Value> {
        let answer = self.client.action(json!({"action": "DescribeCluster", "name": name})).await.ok()?;
        Some(answer["cluster"].clone())
    }

    async fn etcd_status(&self) -> Vec<Option<Value>> {
        let mut all = Vec::new();
        for door in &self.doors {
            let asked = door.post("/v3/maintenance/status", b"{}", ASK_TIMEOUT).await;
            all.push(
                asked.ok().and_then(|(status, body)| (status == 200).then(|| serde_json::from_slice(&body).ok())?),
            );
        }
        all
    }

    /// How far everything was committed just now; `None` where nobody says.
    pub async fn committed(&self) -> Option<Vec<(String, u64)>> {
        if self.system == System::Etcd {
            let indexes =
                self.etcd_status().await.into_iter().flatten().filter_map(|status| number(&status["raftIndex"]));
            return indexes.max().map(|index| vec![("etcd".into(), index)]);
        }
        let mut all = Vec::new();
        for name in self.clusters().await? {
            let commit = self.cluster(&name).await?["commit"].as_u64()?;
            all.push((name.as_str()?.to_owned(), commit));
        }
        Some(all)
    }

    /// Every cluster of the world, the world's and regions' own among them.
    async fn clusters(&self) -> Option<Vec<Value>> {
        let answer = self.client.action(json!({"action": "ListClusters", "limit": 1000})).await.ok()?;
        Some(answer["clusters"].as_array()?.iter().map(|cluster| cluster["name"].clone()).collect())
    }

    /// Whether every member is up and has in its log what was committed then: full redundancy.
    pub async fn whole(&self, committed: &[(String, u64)]) -> bool {
        if self.system == System::Etcd {
            let wanted = committed.first().map_or(0, |(_, index)| *index);
            let reached = |status: &Option<Value>| {
                status.as_ref().and_then(|status| number(&status["raftAppliedIndex"])).is_some_and(|at| at >= wanted)
            };
            return self.etcd_status().await.iter().all(reached);
        }
        for (name, commit) in committed {
            // A cluster that went away meanwhile (a keyspace moved) has nothing left to restore.
            let Some(cluster) = self.cluster(&name.as_str().into()).await else {
                let there = self.clusters().await.is_none_or(|names| names.contains(&name.as_str().into()));
                if there {
                    return false;
                }
                continue;
            };
            let members = cluster["members"].as_array().cloned().unwrap_or_default();
            let is_whole = |member: &Value| {
                member["up"] == true && member["learner"] == false && member["matched"].as_u64() >= Some(*commit)
            };
            if members.len() != wanted_members(&cluster["rule"]) || !members.iter().all(is_whole) {
                return false;
            }
        }
        for door in &self.doors {
            if !matches!(door.get("/ready", ASK_TIMEOUT).await, Ok((200, _))) {
                return false;
            }
        }
        true
    }

    /// Spreads the keyspace over so many clusters; whether that was taken on.
    pub async fn reshard(&self, clusters: u64) -> bool {
        let body = json!({"action": "Reshard", "keyspace": "default", "clusters": clusters});
        self.client.action(body).await.is_ok()
    }

    /// Whether the keyspace still moves.
    pub async fn moves(&self) -> bool {
        let answer = self.client.action(json!({"action": "DescribeKeyspace", "keyspace": "default"})).await;
        answer.map_or(true, |answer| !answer["keyspace"]["reshard"].is_null())
    }
}

/// How many members a rule asks for: `size=3 location=…`.
fn wanted_members(rule: &Value) -> usize {
    let mut words = rule.as_str().unwrap_or_default().split_whitespace();
    words.find_map(|word| word.strip_prefix("size=")?.parse().ok()).unwrap_or(MEMBERS)
}

/// etcd's gateway writes 64-bit numbers as text.
fn number(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64())
}

fn failed(error: std::io::Error) -> BenchError {
    BenchError::World(error.to_string())
}

impl Drop for Members {
    fn drop(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            crate::world::stop(tracer);
        }
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
        }
        for child in self.children.iter_mut().flatten() {
            let _ = child.wait();
        }
        for member in 0..MEMBERS {
            // Logs stay, for those who want to know why.
            let _ = std::fs::remove_dir_all(self.home(member).join("data"));
        }
    }
}
