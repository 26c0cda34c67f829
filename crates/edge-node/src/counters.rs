//! The core's numbers under the names that `/metrics` gives them.
//!
//! Always: names follow Prometheus (base units, `_total` added by the encoder), a kind is a label, and each help text says
//! what is counted and what to do about it (`metrics/tests.rs`). Not here: the text format (metrics.rs).

use crate::machine::{Metric, Value};
use core_cluster::api::LaneStatistics;
use core_node::{ReshardCounters, RouterStatistics};

fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric { name, help, label: None, value: Value::Gauge(value) }
}

fn count(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric { name, help, label: None, value: Value::Counter(value) }
}

fn seconds(name: &'static str, help: &'static str, ms: u64) -> Metric {
    Metric { name, help, label: None, value: Value::SecondsCounter(ms as f64 / 1e3) }
}

fn labelled(metric: Metric, key: &'static str, value: &'static str) -> Metric {
    Metric { label: Some((key, value)), ..metric }
}

/// Of a lane's replicas and log.
pub fn lane(numbers: &LaneStatistics, out: &mut Vec<Metric>) {
    replicas(numbers, out);
    followers(numbers, out);
    log(numbers, out);
    integrity(numbers, out);
    let help = "Time for which the oldest applied entry has waited to be in the archive. If it grows, check that the object store answers.";
    out.extend([
        gauge("archive_replicas", "Replicas kept in an object store (engine object).", numbers.tails),
        gauge(
            "archive_pending_entries",
            "Log entries applied to these replicas and not yet in the archive.",
            numbers.tail_entries_behind,
        ),
        Metric {
            name: "archive_lag_seconds",
            help,
            label: None,
            value: Value::SecondsGauge(numbers.tail_lag_ms as f64 / 1e3),
        },
    ]);
}

fn replicas(numbers: &LaneStatistics, out: &mut Vec<Metric>) {
    let help = "Reads of replicas here, by how: lease needs no message, index asks a majority of the members. If index grows fast, check the nodes' clocks and hibernation.";
    let reads = |kind, value| labelled(count("reads", help, value), "kind", kind);
    out.extend([
        gauge("replicas", "Replicas held.", numbers.replicas),
        gauge("replicas_leader", "Replicas that lead their cluster.", numbers.leaders),
        gauge("replicas_quiescent", "Replicas of idle clusters, which send no heartbeats.", numbers.quiesced),
        gauge(
            "overlay_bytes",
            "Bytes applied and not yet in an engine. If it stays high, the engine's disk is too slow.",
            numbers.overlay_bytes,
        ),
        count("flushes", "Times that applied changes were written to an engine.", numbers.flushes),
        count("proposals", "Log entries proposed by leaders here.", numbers.proposals),
        count("log_entries_applied", "Log entries applied to replicas here.", numbers.entries_applied),
        count("commands_applied", "Commands applied; one log entry may hold many.", numbers.commands_applied),
        count(
            "duplicates_suppressed",
            "Repeated requests that were answered and not applied again. It grows where clients or nodes retry.",
            numbers.duplicates_suppressed,
        ),
        count(
            "writes_too_late",
            "Writes that leaders here refused because a commit took longer than they had left. If it grows, the node has more to do than it can.",
            numbers.writes_too_late,
        ),
        reads("lease", numbers.reads_lease),
        reads("index", numbers.reads_index),
        reads("eventual", numbers.reads_eventual),
        count(
            "elections_started",
            "Elections that replicas here started. If it grows in a healthy world, check the network and the disks.",
            numbers.elections_started,
        ),
        count("elections_won", "Elections that replicas here won.", numbers.elections_won),
        count("snapshots_sent", "Snapshots of clusters sent to members.", numbers.snapshots_sent),
        count("snapshots_installed", "Snapshots of clusters installed here.", numbers.snapshots_installed),
        count("raft_messages_sent", "Messages of clusters sent to members on other nodes.", numbers.messages_sent),
    ]);
}

fn followers(numbers: &LaneStatistics, out: &mut Vec<Metric>) {
    out.extend([
        gauge(
            "follower_lag_entries",
            "Log entries by which the member that lags most, of those that answer, is behind its leader here. If it stays high, check that member's disk and network.",
            numbers.follower_lag_entries,
        ),
        gauge(
            "followers_silent",
            "Members of clusters led here that have not answered lately; idle clusters are left out. If it stays above 0, check the nodes and the network.",
            numbers.followers_silent,
        ),
    ]);
}

fn log(numbers: &LaneStatistics, out: &mut Vec<Metric>) {
    out.extend([
        gauge("log_segments", "Log segments in use.", numbers.log_segments),
        count("log_batches", "Batches written to the log, one disk sync each.", numbers.log_batches),
        count("log_bytes", "Bytes written to the log.", numbers.log_bytes),
        gauge(
            "log_torn_records",
            "Records that the last start dropped from the end of the log because their write was not complete.",
            numbers.log_cut_records,
        ),
        gauge("log_torn_bytes", "Bytes of these records.", numbers.log_cut_bytes),
        count(
            "log_write_timeouts",
            "Log writes longer than an election timeout, so that leaders here handed over. If it grows, replace the disk.",
            numbers.log_stalls,
        ),
        count(
            "log_entries_repaired",
            "Damaged log entries repaired from another member. If it grows, check the disk.",
            numbers.entries_repaired,
        ),
        count("log_entries_skipped", "Log entries that an operator skipped (hive ctl cluster skip).", numbers.entries_skipped),
    ]);
}

/// An entry without "log" is a key and its value in an engine.
fn integrity(numbers: &LaneStatistics, out: &mut Vec<Metric>) {
    out.extend([
        count("scrub_entries", "Entries that the scrub has read.", numbers.scrub_entries),
        count("scrub_bytes", "Bytes that the scrub has read.", numbers.scrub_bytes),
        count("scrub_rounds", "Rounds of the scrub that read everything.", numbers.scrub_rounds),
        count(
            "scrub_failures",
            "Parts that the scrub could not read. If it grows, read the node's log for the place and check the disk.",
            numbers.scrub_failures,
        ),
        gauge("entries_damaged", "Entries that are damaged now and are being repaired.", numbers.pairs_damaged),
        count(
            "entries_found_damaged",
            "Entries found damaged. If it grows, check the disk and the memory.",
            numbers.pairs_found_damaged,
        ),
        count("entries_recovered", "Damaged entries repaired from another member.", numbers.pairs_repaired),
        count(
            "entries_unrecoverable",
            "Entries damaged on every member: data is lost. The node's log names the keys; restore them from a backup.",
            numbers.pairs_lost,
        ),
        count("replicas_rebuilt", "Damaged replicas rebuilt from the other members.", numbers.replicas_rebuilt),
        gauge(
            "replicas_quarantined",
            "Replicas that serve nothing until an operator acts. If it is not 0, run hive ctl status.",
            numbers.replicas_quarantined,
        ),
        count("quarantines", "Times that a replica was quarantined.", numbers.quarantines),
        count(
            "replicas_diverged",
            "Replicas that contradicted their cluster's majority and were rebuilt. If it grows, check the disk and the memory.",
            numbers.contradictions,
        ),
    ]);
}

/// Of splits and merges of buckets' shards.
pub fn reshards(numbers: &ReshardCounters, out: &mut Vec<Metric>) {
    let help = "Remembered requests that moved with their keys, by whether writers waited: no while the source served, yes after the freeze.";
    let moved = |blocked, value| labelled(count("s3_dedup_transferred", help, value), "blocked", blocked);
    let blocked_help = "Time for which writers of a shard waited for its cut-over. If it is often above 0.05, the nodes are short of CPU or disk.";
    out.extend([
        count("s3_reshards", "Splits and merges of shards that finished here.", numbers.finished),
        count(
            "s3_tail_splits",
            "Splits among them that cut a shard at its end, so that nothing was copied.",
            numbers.tail_splits,
        ),
        count(
            "s3_reshard_digest_mismatch",
            "Splits and merges given up because source and targets differed. If it grows, report a bug and check the disks.",
            numbers.digest_mismatches,
        ),
        count("s3_rows_copied", "Rows copied to new shards.", numbers.rows_copied),
        seconds("s3_copy_seconds", "Time spent copying rows, of all splits and merges added up.", numbers.copying_ms),
        Metric {
            name: "s3_cutover_blocked_seconds",
            help: blocked_help,
            label: None,
            value: Value::Blocked(numbers.cutover_blocked),
        },
        count(
            "s3_cutover_freeze_expired",
            "Write freezes that expired before their cut-over, so that writers waited once more. If it grows fast, the nodes are overloaded.",
            numbers.freezes_expired,
        ),
        moved("no", numbers.dedup_transferred.saturating_sub(numbers.dedup_transferred_blocked)),
        moved("yes", numbers.dedup_transferred_blocked),
        seconds(
            "s3_dedup_transfer_blocked_seconds",
            "Time for which writers waited for remembered requests to move.",
            numbers.dedup_blocked_ms,
        ),
    ]);
}

/// Of the router.
pub fn router(numbers: &RouterStatistics, out: &mut Vec<Metric>) {
    let help = "Attempts to carry out a request, by where the cluster's replica is.";
    let attempts = |target, value| labelled(count("attempts", help, value), "target", target);
    out.extend([
        count("requests", "Requests of clients.", numbers.requests),
        count("requests_failed", "Requests answered with an error, for whatever reason.", numbers.requests_failed),
        count(
            "requests_overloaded",
            "Requests refused because too many were under way. If it grows, add nodes or cores, or send less.",
            numbers.requests_overloaded,
        ),
        count(
            "requests_denied",
            "Requests of nobody known, or not allowed to the user that asked. If it grows, somebody tries what it may not.",
            numbers.requests_denied,
        ),
        count(
            "requests_expired",
            "Requests dropped because their deadline had passed before work on them began. If it grows, the node is overloaded.",
            numbers.requests_expired,
        ),
        count(
            "requests_outcome_unknown",
            "Writes answered without a known outcome: they may have been applied. It grows when leaders die or links fail.",
            numbers.requests_unknown,
        ),
        attempts("local", numbers.attempts_local),
        attempts("remote", numbers.attempts_remote),
        count("attempt_timeouts", "Attempts that got no answer in time. If it grows, check the network.", numbers.attempt_timeouts),
        count("redirects", "Attempts sent on to another member because the first does not lead.", numbers.redirects),
        count("retries", "Attempts after the first of their request.", numbers.retries),
        count("resolves", "Lookups of clusters by name.", numbers.resolves),
        count("route_invalidations", "Cached routes dropped because they were out of date.", numbers.cache_flushes),
        count("forwards_served", "Attempts of other nodes that this node answered.", numbers.forwards_served),
        count("frames_received", "Frames received from peers and from other lanes.", numbers.frames_received),
        count(
            "frames_invalid",
            "Frames received that could not be decoded. If it grows, check that all nodes run compatible versions.",
            numbers.frames_refused,
        ),
        count("plans_started", "Operations of several steps that were started.", numbers.plans_started),
        count("plans_finished", "Operations of several steps that finished.", numbers.plans_finished),
        gauge("operations_pending", "Requests and internal operations under way.", numbers.operations_pending),
        gauge("routes_cached", "Routes to clusters in the cache.", numbers.routes_cached),
    ]);
}
