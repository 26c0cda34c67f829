//! What a lane's log writer (edge-disk) reports, as the core's events.
//!
//! By design: one event a report, in its order.
//! Not here: files and threads (edge-disk), stalls (the lane watches how long its write is out).

use core_node::api::Event;
use edge_disk::DiskEvent;

pub use edge_disk::{LogDirectory, LogDiskOptions, LogWriter};

/// Where a thread beside the lane puts what it has to tell. Blocks while the lane is behind.
pub type Report = Box<dyn Fn(Event) + Send>;

/// A report of the log's threads, as an event.
pub fn event(report: DiskEvent) -> Event {
    match report {
        DiskEvent::Written { batch } => Event::LogWritten { batch },
        DiskEvent::Failed { message } => Event::LogFailed { message },
        DiskEvent::SegmentReady { segment } => Event::LogSegmentReady { segment },
        DiskEvent::SegmentFailed { segment } => Event::LogSegmentFailed { segment },
        DiskEvent::Full { full } => Event::DiskFull { full },
    }
}
