//! A ring of samples: what this node did in the last hours.
//!
//! ```text
//!   counters every 10 s ──difference──▶ Sample ──▶ ring, 6 h ──▶ JSON, newest last
//!   counters at a request ─difference─▶ the live sample: since the last one, not kept
//! ```
//!
//! Always: at most [`SAMPLES_MAX`] samples are kept, of fixed size, and an answer has at most one more.
//! Held by: `the_ring_keeps_the_newest_samples`.
//! Not here: where the numbers come from (edge-node's history.rs); numbers of other nodes: each node keeps its own.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

/// From one sample to the next.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// How many are kept: six hours of them.
pub const SAMPLES_MAX: usize = 6 * 3_600 / SAMPLE_EVERY.as_secs() as usize;
/// A live sample of less time than this would be noise.
const LIVE_MS_MIN: u64 = 900;
/// Buckets of a histogram; the last one has no upper bound.
pub const BUCKETS: usize = 17;

/// What kind of work an action is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// May read, write or both: transactions and Redis commands.
    Mixed,
    /// Everything else: administration, and the console's own requests.
    Other,
}

const READS: &[&str] = &[
    "KvGet",
    "KvScan",
    "KvHistory",
    "KvDescribe",
    "KvStampAt",
    "KvLease",
    "KvLeases",
    "GetObject",
    "HeadObject",
    "GetObjectAttributes",
    "GetObjectTagging",
    "GetObjectAcl",
    "HeadBucket",
    "ListBuckets",
    "ListObjects",
    "ListObjectsV2",
    "ListObjectVersions",
    "ListParts",
    "ListMultipartUploads",
    "CountObjects",
];
const WRITES: &[&str] = &[
    "KvPut",
    "KvDelete",
    "KvBatch",
    "KvCompareAndSet",
    "KvLeaseGrant",
    "KvLeaseKeepAlive",
    "KvLeaseRevoke",
    "PutObject",
    "CopyObject",
    "DeleteObject",
    "DeleteObjects",
    "PutObjectTagging",
    "DeleteObjectTagging",
    "CreateBucket",
    "DeleteBucket",
    "CreateMultipartUpload",
    "UploadPart",
    "UploadPartCopy",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
];
const MIXED: &[&str] = &["KvTransaction", "Redis", "RedisCall"];

/// The kind of an action of that name.
pub fn group(action: &str) -> Group {
    match action {
        _ if READS.contains(&action) => Group::Read,
        _ if WRITES.contains(&action) => Group::Write,
        _ if MIXED.contains(&action) => Group::Mixed,
        _ => Group::Other,
    }
}

/// How many took how long, since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub [u64; BUCKETS]);

impl Histogram {
    /// Adds another one's counts.
    pub fn add(&mut self, other: &[u64; BUCKETS]) {
        for (own, more) in self.0.iter_mut().zip(other) {
            *own = own.saturating_add(*more);
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }

    fn since(&self, earlier: &Histogram) -> Histogram {
        Histogram(std::array::from_fn(|index| self.0[index].saturating_sub(earlier.0[index])))
    }

    /// The microseconds within which `permille` of them ended, evenly spread inside a bucket; 0 where there are none. In the last
    /// bucket it is the bound below: at least so long.
    fn quantile_us(&self, permille: u64, bounds: &[u64; BUCKETS - 1]) -> u64 {
        let all = self.count();
        if all == 0 {
            return 0;
        }
        let wanted = (u128::from(all) * u128::from(permille)).div_ceil(1000).max(1) as u64;
        let mut before = 0u64;
        for (index, count) in self.0.iter().enumerate() {
            if before.saturating_add(*count) < wanted {
                before = before.saturating_add(*count);
                continue;
            }
            let low = index.checked_sub(1).map_or(0, |index| bounds[index]);
            let Some(high) = bounds.get(index) else { return low };
            let part = u128::from(high - low) * u128::from(wanted - before) / u128::from((*count).max(1));
            return low + part as u64;
        }
        bounds[BUCKETS - 2]
    }
}

/// What only grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Since the node started, by a clock that never goes back.
    pub elapsed_ms: u64,
    /// Requests by kind of work.
    pub reads: Histogram,
    /// Writes.
    pub writes: Histogram,
    /// Either.
    pub mixed: Histogram,
    /// Writes of the log to disk.
    pub log_sync: Histogram,
    /// Bytes sent to other nodes.
    pub peer_bytes: u64,
    /// CPU time of this process.
    pub cpu_ms: u64,
}

/// What goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// The wall clock.
    pub unix_ms: u64,
    /// The machine's CPU time in use, in thousandths.
    pub load: u32,
    /// How full the disk is, in thousandths.
    pub disk: u32,
    /// Memory of this process.
    pub resident_bytes: u64,
    /// Open connections of clients.
    pub connections: u64,
    /// Requests under way.
    pub waiting: u64,
    /// Replicas here.
    pub replicas: u64,
    /// Replicas that lead.
    pub leaders: u64,
}

/// What of a sample alarms look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The machine's CPU time in use, in thousandths.
    pub load_permille: u32,
    /// How full the disk is, in thousandths.
    pub disk_permille: u32,
    /// Within so long ended 99 of 100 writes of the log.
    pub log_sync_p99_us: u32,
}

/// The names of a sample's numbers, in their order.
const FIELDS: [&str; 18] = [
    "time_ms",
    "reads_per_s",
    "writes_per_s",
    "mixed_per_s",
    "read_p50_us",
    "read_p99_us",
    "write_p50_us",
    "write_p99_us",
    "log_sync_p99_us",
    "peer_bytes_per_s",
    "process_cpu_permille",
    "load_permille",
    "disk_permille",
    "resident_bytes",
    "connections",
    "requests_waiting",
    "replicas",
    "leaders",
];

/// One point of every chart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    rates: [f32; 3],
    latencies_us: [u32; 5],
    peer_bytes_per_s: f32,
    process_cpu: u32,
    gauges: Gauges,
}

impl Sample {
    fn between(earlier: &Counters, now: &Counters, gauges: Gauges, bounds: &[u64; BUCKETS - 1]) -> Sample {
        let ms = now.elapsed_ms.saturating_sub(earlier.elapsed_ms).max(1);
        let rate = |count: u64| (count as f64 * 1e3 / ms as f64) as f32;
        let reads = now.reads.since(&earlier.reads);
        let writes = now.writes.since(&earlier.writes);
        let mixed = now.mixed.since(&earlier.mixed);
        let sync = now.log_sync.since(&earlier.log_sync);
        let us = |of: &Histogram, permille| u32::try_from(of.quantile_us(permille, bounds)).unwrap_or(u32::MAX);
        let cpu_ms = now.cpu_ms.saturating_sub(earlier.cpu_ms);
        Sample {
            rates: [rate(reads.count()), rate(writes.count()), rate(mixed.count())],
            latencies_us: [us(&reads, 500), us(&reads, 990), us(&writes, 500), us(&writes, 990), us(&sync, 990)],
            peer_bytes_per_s: rate(now.peer_bytes.saturating_sub(earlier.peer_bytes)),
            process_cpu: u32::try_from(cpu_ms.saturating_mul(1_000) / ms).unwrap_or(u32::MAX),
            gauges,
        }
    }

    /// In the order of [`FIELDS`].
    fn write(&self, out: &mut String) {
        let Gauges { unix_ms, load, disk, resident_bytes, connections, waiting, replicas, leaders } = self.gauges;
        let [reads, writes, mixed] = self.rates;
        let [read_half, read_most, write_half, write_most, sync] = self.latencies_us;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "[{unix_ms},{reads:.1},{writes:.1},{mixed:.1},{read_half},{read_most},{write_half},{write_most},{sync},{:.0},{},{load},{disk},{resident_bytes},{connections},{waiting},{replicas},{leaders}]",
            self.peer_bytes_per_s, self.process_cpu
        );
    }
}

/// The ring.
#[derive(Debug)]
pub struct History {
    bounds: &'static [u64; BUCKETS - 1],
    samples: VecDeque<Sample>,
    last: Option<Counters>,
}

impl History {
    /// An empty one. `bounds`: the upper bounds of histograms, in microseconds.
    pub fn new(bounds: &'static [u64; BUCKETS - 1]) -> History {
        History { bounds, samples: VecDeque::new(), last: None }
    }

    /// Takes a sample: everything since the one before. The first call only begins.
    pub fn take(&mut self, now: Counters, gauges: Gauges) {
        if let Some(earlier) = self.last.replace(now) {
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample::between(&earlier, &now, gauges, self.bounds));
        }
    }

    /// The last samples, oldest first, in short.
    pub fn recent(&self, most: usize) -> Vec<Look> {
        let skipped = self.samples.len().saturating_sub(most);
        let look = |sample: &Sample| Look {
            load_permille: sample.gauges.load,
            disk_permille: sample.gauges.disk,
            log_sync_p99_us: sample.latencies_us[4],
        };
        self.samples.iter().skip(skipped).map(look).collect()
    }

    /// As JSON: the samples after `since_ms` by the wall clock, and last the time since then, which is not kept.
    pub fn json(&self, since_ms: u64, now: Counters, gauges: Gauges) -> String {
        let live = self.last.filter(|last| now.elapsed_ms.saturating_sub(last.elapsed_ms) >= LIVE_MS_MIN);
        let live = live.map(|last| Sample::between(&last, &now, gauges, self.bounds));
        let kept = self.samples.iter().filter(|sample| sample.gauges.unix_ms > since_ms);
        let mut out = format!(
            "{{\"ok\":true,\"now_ms\":{},\"every_ms\":{},\"samples_max\":{SAMPLES_MAX},\"fields\":[",
            gauges.unix_ms,
            SAMPLE_EVERY.as_millis()
        );
        for (index, name) in FIELDS.iter().enumerate() {
            let _ = write!(out, "{}\"{name}\"", if index > 0 { "," } else { "" });
        }
        out.push_str("],\"samples\":[");
        for (index, sample) in kept.enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            sample.write(&mut out);
        }
        out.push_str("],\"live\":");
        match live {
            Some(sample) => sample.write(&mut out),
            None => out.push_str("null"),
        }
        out.push('}');
        out
    }
}

#[cfg(test)]
mod tests;
