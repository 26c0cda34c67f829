//! One node as a child process.
//!
//! By design: the kernel kills it when this process dies, however it dies (`PR_SET_PDEATHSIG`); a node
//! that ended is waited for, so that its process id is free.

use super::layout::Place;
use crate::failure::Failure;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long nodes have to stop by themselves.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a log is shown when a node fails to start.
const LOG_TAIL_BYTES: u64 = 2_000;

/// A node's process.
pub struct Node {
    pub id: u64,
    pub log: PathBuf,
    child: Child,
    ended_at: Option<Instant>,
    changed: bool,
}

impl Node {
    /// Starts a node.
    pub fn spawn(place: &Place) -> Result<Node, Failure> {
        let log = place.directory.join("node.log");
        Ok(Node { id: place.id, child: spawn(place, &log)?, log, ended_at: None, changed: false })
    }

    /// Starts it again after its end.
    pub fn respawn(&mut self, place: &Place) -> Result<(), Failure> {
        self.ended_at = Some(Instant::now());
        self.child = spawn(place, &self.log)?;
        self.ended_at = None;
        self.changed = true;
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, told once for each end.
    pub fn ended(&mut self) -> Option<String> {
        if self.ended_at.is_some() {
            return None;
        }
        let status = self.child.try_wait().ok()??;
        self.ended_at = Some(Instant::now());
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no status".into(),
        })
    }

    /// Whether it has been dead for so long.
    pub fn dead_for(&self, time: Duration) -> bool {
        self.ended_at.is_some_and(|at| at.elapsed() >= time)
    }

    /// Whether its process id is new since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        let tail = || -> std::io::Result<String> {
            let mut file = std::fs::File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        tail().unwrap_or_else(|error| format!("(no log: {error})"))
    }

    fn signal(&self, signal: i32) {
        if self.ended_at.is_none() {
            // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
            unsafe { libc::kill(self.child.id() as i32, signal) };
        }
    }
}

fn spawn(place: &Place, log: &PathBuf) -> Result<Child, Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::refused(format!("node {}: {what}: {error}", place.id));
    // Where the program's file was replaced by a newer one meanwhile, the nodes stay what this process is.
    let program = std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| "/proc/self/exe".into());
    let output =
        std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(|error| failed("log", error))?;
    let errors = output.try_clone().map_err(|error| failed("log", error))?;
    let mut command = Command::new(program);
    command.arg("node").arg("--config").arg(place.config()).stdin(Stdio::null()).stdout(output).stderr(errors);
    // A group of its own: ctrl-c in the terminal reaches only us, and we stop the nodes in order.
    command.process_group(0);
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec only calls that are allowed there are made: prctl, getppid, _exit.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
            // The parent may have died before the line above.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    command.spawn().map_err(|error| failed("spawn", error))
}

/// Stops every node: asked first, killed after a while.
pub async fn stop_all(nodes: &mut [Node]) {
    for node in nodes.iter() {
        node.signal(libc::SIGTERM);
    }
    let start = Instant::now();
    while start.elapsed() < STOP_TIMEOUT {
        let alive = nodes.iter().filter(|node| node.ended_at.is_none()).count();
        if alive == 0 {
            return;
        }
        for node in nodes.iter_mut() {
            let _ = node.ended();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for node in nodes.iter_mut() {
        if node.ended_at.is_none() {
            eprintln!("node {} did not stop within {} s and is killed", node.id, STOP_TIMEOUT.as_secs());
            node.signal(libc::SIGKILL);
            let _ = node.child.wait();
        }
    }
}
