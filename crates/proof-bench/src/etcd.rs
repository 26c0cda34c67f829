//! The peer: five etcd members on this machine, where `etcd` is installed.
//!
//! Loaded through its JSON gateway (`/v3/kv/put`) over HTTP/1.1, as Hive is: the gateway costs etcd
//! some CPU that its own gRPC clients would not; the report says so. Members speak plain TCP.

use crate::world::{spawn_bound, stop};
use crate::BenchError;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MEMBERS: u16 = 5;
/// Client ports are this plus the member, peer ports 100 above.
const BASE_PORT: u16 = 23_790;
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running cluster; stopped and deleted when it goes.
pub struct Etcd {
    pub endpoints: Vec<String>,
    pub version: String,
    children: Vec<Child>,
    directory: PathBuf,
}

/// Where `etcd` is, if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("etcd")).find(|program| program.is_file())
}

/// What the report says where there is none.
pub const MISSING: &str = "etcd: not found on PATH; build it with `scripts/etcd.sh DIRECTORY` (needs Go), or \
    `apt-get install etcd-server`, and put it on PATH";

impl Etcd {
    /// Starts five members under a directory.
    pub async fn start(program: &Path, out: &Path) -> Result<Etcd, BenchError> {
        let failed = |error: std::io::Error| BenchError::World(format!("etcd: {error}"));
        let directory = std::path::absolute(out.join("etcd")).map_err(failed)?;
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let version = Command::new(program).arg("--version").output().map_err(failed)?;
        let version = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or("etcd").to_owned();
        let endpoints = (1..=MEMBERS).map(|member| format!("127.0.0.1:{}", BASE_PORT + member)).collect();
        let mut cluster = Etcd { endpoints, version, children: Vec::new(), directory };
        for member in 1..=MEMBERS {
            let mut command = member_command(program, &cluster.directory, member).map_err(failed)?;
            let child = spawn_bound(&mut command).map_err(failed)?;
            cluster.children.push(child);
        }
        cluster.wait_healthy().await?;
        Ok(cluster)
    }

    /// The members' processes.
    pub fn process_ids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    async fn wait_healthy(&self) -> Result<(), BenchError> {
        let client = hive_client::Client::new(&self.endpoints).map_err(|error| BenchError::World(error.to_string()))?;
        let start = Instant::now();
        for at in 0..self.endpoints.len() {
            while !matches!(client.get_path(at, "/health").await, Ok((200, _))) {
                if start.elapsed() > START_TIMEOUT {
                    return Err(BenchError::World(format!(
                        "etcd member {} is not healthy; see {}",
                        at + 1,
                        self.directory.display()
                    )));
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

fn member_command(program: &Path, directory: &Path, member: u16) -> std::io::Result<Command> {
    let client = format!("http://127.0.0.1:{}", BASE_PORT + member);
    let peer = |member: u16| format!("http://127.0.0.1:{}", BASE_PORT + 100 + member);
    let all: Vec<String> = (1..=MEMBERS).map(|member| format!("m{member}={}", peer(member))).collect();
    let log = std::fs::File::create(directory.join(format!("m{member}.log")))?;
    let mut command = Command::new(program);
    command.arg("--name").arg(format!("m{member}")).arg("--data-dir").arg(directory.join(format!("m{member}")));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer(member), "--initial-advertise-peer-urls", &peer(member)]);
    command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new", "--log-level", "warn"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Ok(command)
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(stop);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
