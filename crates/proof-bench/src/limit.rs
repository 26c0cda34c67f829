//! A bound on the memory of processes, their page cache included: a control group of our own.
//!
//! By design: the group is removed with this value, when its processes have ended. Where none can be made the caller gets an error:
//! no figure is given as one of limited memory that was not.

use crate::BenchError;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where version 2 lies, then version 1's memory controller; each with the file of its bound and of what was used at most.
const HIERARCHIES: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup", "memory.max", "memory.peak"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
];
/// Processes that were told to end are gone from their group a moment later.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A group with a bound.
pub struct MemoryLimit {
    group: PathBuf,
    used_most: &'static str,
}

impl MemoryLimit {
    /// A new group that may use so much.
    pub fn new(bytes: u64) -> Result<MemoryLimit, BenchError> {
        let mut reasons = Vec::new();
        for (root, bound, used_most) in HIERARCHIES {
            // Version 1 lies in a tmpfs, where any file can be made and bounds nothing.
            if !Path::new(root).join("cgroup.procs").exists() {
                reasons.push(format!("{root}: no control groups"));
                continue;
            }
            let group = Path::new(root).join(format!("hive-bench-{}", std::process::id()));
            let made = std::fs::create_dir(&group).and_then(|()| std::fs::write(group.join(bound), bytes.to_string()));
            match made {
                Ok(()) => return Ok(MemoryLimit { group, used_most }),
                Err(error) => {
                    let _ = std::fs::remove_dir(&group);
                    reasons.push(format!("{}: {error}", group.join(bound).display()));
                }
            }
        }
        Err(BenchError::Usage(format!(
            "memory cannot be limited here ({}); run as root, or where a memory control group may be made",
            reasons.join("; ")
        )))
    }

    /// The process, and all it starts, will be in the group.
    pub fn hold(&self, command: &mut Command) -> Result<(), BenchError> {
        let path = CString::new(self.group.join("cgroup.procs").as_os_str().as_bytes())
            .map_err(|error| BenchError::World(error.to_string()))?;
        // SAFETY: between fork and exec only calls that are allowed there are made: open, write, close.
        unsafe {
            command.pre_exec(move || {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                // "0" is the process that writes it.
                let written = if file < 0 { -1 } else { libc::write(file, c"0".as_ptr().cast(), 1) };
                if written != 1 {
                    return Err(std::io::Error::last_os_error());
                }
                libc::close(file);
                Ok(())
            });
        }
        Ok(())
    }

    /// What was used at most, where the kernel says so.
    pub fn used_most(&self) -> Option<u64> {
        std::fs::read_to_string(self.group.join(self.used_most)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let start = Instant::now();
        while std::fs::remove_dir(&self.group).is_err() && start.elapsed() < REMOVE_TIMEOUT {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
