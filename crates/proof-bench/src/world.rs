//! The world that is measured: one that runs already, or a fresh `hive dev` of our own.
//!
//! Always: a world started here is stopped when this value goes, and its data is deleted.
//! Held by: `what_a_benchmark_starts_ends_with_it`.

use crate::limit::MemoryLimit;
use crate::{BenchError, Options};
use hive_client::{Client, Tls};
use serde_json::{json, Value};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a world may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A world.
pub struct World {
    /// `host:port` of each node, or `https://host:port`.
    pub endpoints: Vec<String>,
    pub client: Client,
    ready_file: Option<PathBuf>,
    own: Option<(Child, PathBuf)>,
}

impl World {
    /// The world of the options, or a fresh one. `restart`: its nodes come back after they die.
    pub async fn open(options: &Options, restart: bool) -> Result<World, BenchError> {
        if !options.endpoints.is_empty() {
            let client = client(&options.endpoints, options.tls.as_ref())?;
            options.tls.iter().for_each(crate::wire::use_tls);
            let url = |endpoint: &hive_client::Endpoint| match endpoint.scheme() {
                "https" => format!("https://{}", endpoint.address()),
                _ => endpoint.address().to_owned(),
            };
            let endpoints = client.endpoints().iter().map(url).collect();
            return Ok(World { endpoints, client, ready_file: options.ready_file.clone(), own: None });
        }
        start(options, restart, None).await
    }

    /// A fresh world whose processes are held in their memory.
    pub async fn open_limited(options: &Options, limit: Option<&MemoryLimit>) -> Result<World, BenchError> {
        start(options, false, limit).await
    }

    /// Files that the nodes have on disk; `None` of a world that is not our own.
    pub fn files(&self) -> Option<u64> {
        self.own.as_ref().map(|(_, directory)| files_of(directory))
    }

    /// The process of each node, by node id; empty where unknown.
    pub fn pids(&self) -> Vec<(u64, u32)> {
        let Some(file) = &self.ready_file else { return Vec::new() };
        let Some(value) = read_json(file) else { return Vec::new() };
        let nodes = value["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter_map(|node| Some((node["id"].as_u64()?, node["pid"].as_u64()? as u32))).collect()
    }

    /// `host:port` of each node's etcd door; empty where unknown.
    pub fn etcd_endpoints(&self) -> Vec<String> {
        let Some(value) = self.ready_file.as_deref().and_then(read_json) else { return Vec::new() };
        let nodes = value["nodes"].as_array().cloned().unwrap_or_default();
        let address = |node: &Value| Some(node["etcd"].as_str()?.trim_start_matches("http://").to_owned());
        nodes.iter().filter_map(address).collect()
    }

    /// `host:port` of each node's Redis door; empty where unknown.
    pub fn redis_endpoints(&self) -> Vec<String> {
        let Some(value) = self.ready_file.as_deref().and_then(read_json) else { return Vec::new() };
        let nodes = value["nodes"].as_array().cloned().unwrap_or_default();
        let address = |node: &Value| Some(node["redis"].as_str()?.trim_start_matches("redis://").to_owned());
        nodes.iter().filter_map(address).collect()
    }

    /// The processes alone.
    pub fn process_ids(&self) -> Vec<u32> {
        self.pids().into_iter().map(|(_, pid)| pid).collect()
    }

    /// The node that leads the first cluster of the keyspace `default`.
    pub async fn leader(&self) -> Result<u64, BenchError> {
        let failed = |error: hive_client::ClientError| BenchError::World(error.to_string());
        let keyspace =
            self.client.action(json!({"action": "DescribeKeyspace", "keyspace": "default"})).await.map_err(failed)?;
        let name = keyspace["keyspace"]["owners"][0].clone();
        let cluster = self.client.action(json!({"action": "DescribeCluster", "name": name})).await.map_err(failed)?;
        cluster["cluster"]["leader"].as_u64().ok_or_else(|| BenchError::World(format!("cluster {name} has no leader")))
    }

    /// Bytes that the nodes have on disk, and of them those of their logs; `None` of a world that is not our own.
    pub fn disk_bytes(&self) -> Option<(u64, u64)> {
        self.own.as_ref().map(|(_, directory)| disk_bytes_of(directory, false))
    }

    /// Waits until every node says it is ready.
    pub async fn wait_ready(&self) -> Result<(), BenchError> {
        let start = Instant::now();
        for at in 0..self.endpoints.len() {
            while !matches!(self.client.get_path(at, "/ready").await, Ok((200, _))) {
                if start.elapsed() > START_TIMEOUT {
                    return Err(BenchError::World(format!("{} is not ready", self.endpoints[at])));
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

fn client(endpoints: &[String], tls: Option<&Tls>) -> Result<Client, BenchError> {
    let client = match tls {
        Some(tls) => Client::with_tls(endpoints, tls),
        None => Client::new(endpoints),
    };
    client.map_err(|error| BenchError::Usage(error.to_string()))
}

fn read_json(file: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Blocks that are allocated below a directory, in bytes, and of them those of logs. What cannot be read is gone already.
fn disk_bytes_of(directory: &Path, is_log: bool) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut all, mut log) = (0, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let (below, logs) = disk_bytes_of(&entry.path(), is_log || entry.file_name() == "log");
            (all, log) = (all + below, log + logs);
        } else {
            let bytes = metadata.blocks() * 512;
            (all, log) = (all + bytes, log + if is_log { bytes } else { 0 });
        }
    }
    (all, log)
}

/// Files below a directory.
fn files_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_of(&entry.path()) } else { 1 }).sum()
}

/// Anonymous memory of some processes, in bytes: what is theirs and no cache of files. `None` where one is unknown.
pub fn memory_of(pids: &[u32]) -> Option<u64> {
    let anonymous = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    if pids.is_empty() {
        return None;
    }
    pids.iter().map(anonymous).sum()
}

async fn start(options: &Options, restart: bool, limit: Option<&MemoryLimit>) -> Result<World, BenchError> {
    let failed = |error: std::io::Error| BenchError::World(error.to_string());
    // Beside the report: the disk that is measured is the one the caller works on, not a tmpfs.
    let directory = std::path::absolute(options.out.join("world")).map_err(failed)?;
    std::fs::create_dir_all(&options.out).map_err(failed)?;
    let (ready_file, log) = (options.out.join("world-ready.json"), options.out.join("world.log"));
    let _ = std::fs::remove_file(&ready_file);
    let output = std::fs::File::create(&log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let mut command = Command::new(&options.program);
    command.args([
        "dev",
        "--fresh",
        "--nodes",
        &options.nodes.to_string(),
        "--base-port",
        &options.base_port.to_string(),
    ]);
    if let [engine] = &options.engines[..] {
        command.args(["--engine", engine]);
    }
    command.args(&options.dev_arguments);
    command.arg("--data").arg(&directory).arg("--ready-file").arg(&ready_file);
    if !restart {
        command.arg("--no-restart");
    }
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    if let Some(limit) = limit {
        limit.hold(&mut command)?;
    }
    let mut child = spawn_bound(&mut command).map_err(failed)?;
    let start = Instant::now();
    let ready = loop {
        if let Some(value) = read_json(&ready_file) {
            break value;
        }
        let ended = child.try_wait().map_err(failed)?;
        if ended.is_some() || start.elapsed() > START_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(BenchError::World(format!("`hive dev` did not start:\n{}", text.trim_end())));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let nodes = ready["nodes"].as_array().cloned().unwrap_or_default();
    let urls: Vec<String> = nodes.iter().filter_map(|node| node["http"].as_str().map(str::to_owned)).collect();
    let client = client(&urls, None)?;
    let endpoints = client.endpoints().iter().map(|endpoint| endpoint.address().to_owned()).collect();
    Ok(World { endpoints, client, ready_file: Some(ready_file), own: Some((child, directory)) })
}

/// Starts a process that is asked to stop when the thread that started it ends, however that ends: a benchmark that is killed
/// leaves no world behind.
pub(crate) fn spawn_bound(command: &mut Command) -> std::io::Result<Child> {
    spawn_bound_by(command, libc::SIGTERM)
}

/// The same, by a signal of the caller's choice.
pub(crate) fn spawn_bound_by(command: &mut Command, signal: libc::c_int) -> std::io::Result<Child> {
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec only calls that are allowed there are made: prctl, getppid, _exit.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong);
            // The parent may have died before the line above.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    command.spawn()
}

impl Drop for World {
    fn drop(&mut self) {
        let Some((child, directory)) = &mut self.own else { return };
        stop(child);
        let _ = std::fs::remove_dir_all(directory);
        if let Some(file) = &self.ready_file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Asks a process to stop and waits; kills it after a while.
pub fn stop(child: &mut Child) {
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let start = Instant::now();
    while start.elapsed() < STOP_TIMEOUT {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_benchmark_starts_ends_with_it() {
        let mut child = std::thread::spawn(|| spawn_bound(Command::new("sleep").arg("60")).unwrap())
            .join()
            .expect("it was started");
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn files_of_logs_are_told_apart() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("lane-0/log")).unwrap();
        std::fs::write(home.path().join("lane-0/log/1.seg"), vec![1; 100_000]).unwrap();
        std::fs::write(home.path().join("lane-0/data.mdb"), vec![1; 300_000]).unwrap();
        let (all, log) = disk_bytes_of(home.path(), false);
        assert!((100_000..200_000).contains(&log) && (400_000..500_000).contains(&all), "{all} {log}");
        assert!(memory_of(&[std::process::id()]).unwrap() > 100_000);
        assert_eq!(memory_of(&[]), None);
    }
}
