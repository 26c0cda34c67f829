//! What the node knows of its machine: load, disk, its own use; and the files it watches.
//!
//! Always: one thread, one look a second; numbers that cannot be read are zero, never an error.
//! Held by: `the_machine_can_be_looked_at`.
//! Not here: what they are used for (core-node's scores).

use crate::engines::sizes::EngineSizes;
use crate::mailbox::Sender;
use crate::tls::Certificates;
use core_node::api::Event;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// One look.
const EVERY: Duration = Duration::from_secs(1);
/// Certificates are looked at every so many looks.
const CERTIFICATES_EVERY: u64 = 5;
/// Engines are measured every so many looks.
const SIZES_EVERY: u64 = 10;

/// What this process uses of its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessUsage {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_files: u64,
}

/// What the thread watches and who hears of it.
pub struct Monitor {
    pub data: PathBuf,
    pub disk_free_bytes_min: u64,
    pub lanes: Vec<Sender<Event>>,
    pub certificates: Certificates,
    /// Measured, where somebody asks for them.
    pub engine_sizes: Option<Arc<EngineSizes>>,
    /// Who hears of load and disk in use at every look, in thousandths.
    pub on_look: Box<dyn Fn(u32, u32) + Send>,
}

impl Monitor {
    /// Looks until `stop`'s sender is gone.
    pub fn run(self, stop: Receiver<()>) {
        let (mut looks, mut full) = (0u64, false);
        let mut busy = CpuTimes::read();
        loop {
            let now = CpuTimes::read();
            let load = now.load_since(&busy);
            busy = now;
            let space = disk_space(&self.data);
            self.tell(|| Event::Machine { load, disk: space.fill() });
            (self.on_look)(load, space.fill());
            let unix_ms = unix_ms();
            self.tell(|| Event::Clock { unix_ms });
            let (begins, ends) = self.certificates.peers.current().valid;
            let ms = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
            self.tell(|| Event::Certificate { issued_ms: ms(begins), expires_ms: ms(ends) });
            let was_full = full;
            full = space.is_full(self.disk_free_bytes_min, was_full);
            if full && !was_full {
                tracing::error!(free_bytes = space.free, limit = self.disk_free_bytes_min, data = %self.data.display(), "the disk is nearly full: clients' writes are refused; make room");
            }
            // Told at every look while it lasts: a mailbox that was full must not miss it.
            if full || was_full {
                self.tell(|| Event::DiskFull { full });
            }
            if let Some(sizes) = self.engine_sizes.as_ref().filter(|_| looks % SIZES_EVERY == 0) {
                sizes.measure();
            }
            looks += 1;
            if looks % CERTIFICATES_EVERY == 0 {
                self.certificates.reload_if_changed();
            }
            match stop.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    /// A lane that is behind hears it at the next look.
    fn tell(&self, event: impl Fn() -> Event) {
        for lane in &self.lanes {
            let _ = lane.try_send(event());
        }
    }
}

/// The wall clock, Unix milliseconds; zero where it stands before 1970.
pub fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// The machine's CPU time, in clock ticks.
#[derive(Clone, Copy, Default)]
struct CpuTimes {
    idle: u64,
    all: u64,
}

impl CpuTimes {
    fn read() -> CpuTimes {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let Some(line) = text.lines().next() else { return CpuTimes::default() };
        // user nice system idle iowait irq softirq steal; guest times are in user already.
        let times: Vec<u64> =
            line.split_ascii_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let idle = times.get(3).unwrap_or(&0) + times.get(4).unwrap_or(&0);
        CpuTimes { idle, all: times.iter().sum() }
    }

    /// Busy thousandths since an earlier look.
    fn load_since(&self, earlier: &CpuTimes) -> u32 {
        let all = self.all.saturating_sub(earlier.all);
        let idle = self.idle.saturating_sub(earlier.idle).min(all);
        ((all - idle) * 1000).checked_div(all).unwrap_or(0) as u32
    }
}

/// Of the disk that a directory is on, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskSpace {
    pub free: u64,
    /// Zero where it cannot be read.
    pub all: u64,
}

impl DiskSpace {
    fn fill(&self) -> u32 {
        ((self.all - self.free.min(self.all)) * 1000).checked_div(self.all).unwrap_or(0) as u32
    }

    /// With a quarter of hysteresis. An unreadable disk (`all` 0) is not called full.
    fn is_full(&self, free_min: u64, was: bool) -> bool {
        self.all > 0 && self.free < if was { free_min + free_min / 4 } else { free_min }
    }
}

/// What room there is.
pub fn disk_space(path: &Path) -> DiskSpace {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return DiskSpace::default() };
    // SAFETY: statvfs fills the zeroed structure it is given; the path ends with a zero byte.
    let (result, space) = unsafe {
        let mut space: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut space), space)
    };
    if result != 0 {
        return DiskSpace::default();
    }
    DiskSpace { free: space.f_bavail * space.f_frsize, all: space.f_blocks * space.f_frsize }
}

/// This process's own use, from /proc.
pub fn process_usage() -> ProcessUsage {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; the fields begin after it.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    // SAFETY: plain queries of constants.
    let (ticks, page) = unsafe { (libc::sysconf(libc::_SC_CLK_TCK), libc::sysconf(libc::_SC_PAGESIZE)) };
    ProcessUsage {
        cpu_seconds: (field(11) + field(12)) as f64 / ticks.max(1) as f64,
        resident_bytes: field(21) * page.max(0) as u64,
        open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_can_be_looked_at() {
        let space = disk_space(Path::new("/tmp"));
        assert!(space.all > 0 && space.fill() <= 1000);
        assert!(space.is_full(u64::MAX / 2, false) && !space.is_full(0, false));
        assert!(!disk_space(Path::new("/no/such/path")).is_full(1, false));
        let usage = process_usage();
        assert!(usage.resident_bytes > 0 && usage.open_files > 2);
        let earlier = CpuTimes { idle: 10, all: 20 };
        assert_eq!(CpuTimes { idle: 15, all: 40 }.load_since(&earlier), 750);
        assert_eq!(earlier.load_since(&earlier), 0);
    }

    #[test]
    fn a_full_disk_needs_a_quarter_more_to_be_well() {
        let space = |free| DiskSpace { free, all: 1000 };
        assert!(space(99).is_full(100, false) && !space(100).is_full(100, false));
        assert!(space(124).is_full(100, true) && !space(125).is_full(100, true));
        assert_eq!(space(250).fill(), 750);
    }
}
