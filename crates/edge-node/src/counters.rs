//! The core's numbers under the names `/metrics` gives them.

use crate::machine::Counter;
use core_cluster::api::LaneStatistics;
use core_node::{ReshardCounters, RouterStatistics};

/// Of a lane's replicas and log.
pub fn lane_counters(numbers: &LaneStatistics, out: &mut Vec<Counter>) {
    let gauge = |name, help, value| Counter { name, help, gauge: true, value };
    let count = |name, help, value| Counter { name, help, gauge: false, value };
    out.extend([
        gauge("replicas", "replicas held", numbers.replicas),
        gauge("leaders", "clusters led", numbers.leaders),
        gauge("quiesced", "clusters that sleep", numbers.quiesced),
        gauge("overlay_bytes", "applied and not yet in an engine", numbers.overlay_bytes),
        gauge("log_segments", "log segments in use", numbers.log_segments),
        count("log_batches", "batches written to the log", numbers.log_batches),
        count("log_bytes", "bytes written to the log", numbers.log_bytes),
        gauge("log_cut_records", "records that the last start cut off the log's end as torn", numbers.log_cut_records),
        gauge("log_cut_bytes", "bytes that the last start cut off the log's end as torn", numbers.log_cut_bytes),
        count("proposals", "entries proposed here", numbers.proposals),
        count("entries_applied", "entries applied", numbers.entries_applied),
        count("commands_applied", "commands applied", numbers.commands_applied),
        count("duplicates_suppressed", "retries that were not applied again", numbers.duplicates_suppressed),
        count("reads_lease", "strong reads answered under a lease", numbers.reads_lease),
        count("reads_index", "strong reads that asked the members", numbers.reads_index),
        count("reads_eventual", "eventual reads", numbers.reads_eventual),
        count("elections_started", "elections started here", numbers.elections_started),
        count(
            "log_stalls",
            "log writes that took an election timeout, so that leaders here handed over",
            numbers.log_stalls,
        ),
        count("elections_won", "elections won", numbers.elections_won),
        count("snapshots_sent", "snapshots sent", numbers.snapshots_sent),
        count("snapshots_installed", "snapshots installed", numbers.snapshots_installed),
        count("entries_repaired", "log entries mended from a peer", numbers.entries_repaired),
        count("scrub_entries", "entries read by the scrub", numbers.scrub_entries),
        count("scrub_bytes", "bytes read by the scrub", numbers.scrub_bytes),
        count("scrub_rounds", "rounds of the scrub that met everything", numbers.scrub_rounds),
        count("scrub_failures", "parts that the scrub could not read", numbers.scrub_failures),
        gauge("pairs_damaged", "pairs that read as damaged and are being mended", numbers.pairs_damaged),
        count("pairs_found_damaged", "pairs that read as damaged", numbers.pairs_found_damaged),
        count("pairs_repaired", "pairs mended from another member", numbers.pairs_repaired),
        count("pairs_lost", "pairs damaged on every member", numbers.pairs_lost),
        count("replicas_rebuilt", "replicas given up, to be rebuilt from the other members", numbers.replicas_rebuilt),
        gauge(
            "replicas_quarantined",
            "replicas that serve nothing: an operator is needed",
            numbers.replicas_quarantined,
        ),
        count("quarantines", "times a replica was quarantined", numbers.quarantines),
        count("entries_skipped", "entries skipped by an operator's word", numbers.entries_skipped),
        count(
            "replicas_contradicting",
            "replicas given up because they contradict the majority",
            numbers.contradictions,
        ),
        count("raft_messages_sent", "messages of clusters to peers", numbers.messages_sent),
        count("flushes", "overlays written out", numbers.flushes),
        gauge("tail_replicas", "replicas kept in a bucket, to be reborn from", numbers.tails),
        gauge("tail_entries_behind", "entries applied to them and not yet in the bucket", numbers.tail_entries_behind),
        gauge("tail_lag_ms", "milliseconds for which the oldest of these has waited", numbers.tail_lag_ms),
    ]);
}

/// Of splits and merges of buckets' shards.
pub fn reshard_counters(numbers: &ReshardCounters, out: &mut Vec<Counter>) {
    let gauge = |name, help, value| Counter { name, help, gauge: true, value };
    let count = |name, help, value| Counter { name, help, gauge: false, value };
    out.extend([
        count("s3_reshards", "splits and merges of buckets' shards run here", numbers.finished),
        count("s3_narrowed", "of them, shards whose tail went to a new one: nothing was copied", numbers.narrowed),
        count("s3_reshards_unequal", "splits and merges given up because both sides were not equal", numbers.unequal),
        count("s3_rows_copied", "rows copied to new shards", numbers.rows_copied),
        count("s3_copying_ms", "milliseconds of copying, flows added up", numbers.copying_ms),
        count("s3_frozen_ms", "milliseconds that writers of a shard waited for its switch", numbers.frozen_ms),
        gauge("s3_frozen_ms_max", "the longest of them", numbers.frozen_ms_max),
        count("s3_switches", "switches that writers of a shard waited for", numbers.switches),
        count("s3_frozen_long", "of them, those that took longer than 50 ms", numbers.frozen_long),
        count(
            "s3_frozen_in_vain",
            "freezes that were over before their switch: writers waited once more",
            numbers.frozen_in_vain,
        ),
        gauge("s3_frozen_in_vain_max", "the most of one flow", numbers.frozen_in_vain_max),
        count("s3_carried", "remembered requests that went along with keys", numbers.carried),
        count("s3_carried_late", "of them, those carried while nobody served the keys", numbers.carried_late),
        count("s3_carried_late_ms", "milliseconds that this took", numbers.carried_late_ms),
    ]);
}

/// Of the router.
pub fn router_counters(numbers: &RouterStatistics, out: &mut Vec<Counter>) {
    let gauge = |name, help, value| Counter { name, help, gauge: true, value };
    let count = |name, help, value| Counter { name, help, gauge: false, value };
    out.extend([
        count("requests", "client requests", numbers.requests),
        count("requests_overloaded", "requests refused for load", numbers.requests_overloaded),
        count(
            "requests_expired",
            "requests whose deadline had passed before a core came to them",
            numbers.requests_expired,
        ),
        count("requests_failed", "requests refused or failed", numbers.requests_failed),
        count("requests_unknown", "writes that ended without a known outcome", numbers.requests_unknown),
        count("attempts_local", "attempts on clusters held here", numbers.attempts_local),
        count("attempts_remote", "attempts sent to other nodes", numbers.attempts_remote),
        count("redirects", "attempts sent on to another member", numbers.redirects),
        count("attempt_timeouts", "attempts without an answer in time", numbers.attempt_timeouts),
        count("retries", "attempts after the first", numbers.retries),
        count("resolves", "names looked up", numbers.resolves),
        count("cache_flushes", "routes forgotten because they were wrong", numbers.cache_flushes),
        count("forwards_served", "attempts of other nodes answered", numbers.forwards_served),
        count("frames_received", "frames of peers and other lanes", numbers.frames_received),
        count("frames_refused", "frames that did not decode", numbers.frames_refused),
        count("plans_started", "multi-step flows started", numbers.plans_started),
        count("plans_finished", "multi-step flows finished", numbers.plans_finished),
        gauge("operations_pending", "operations under way", numbers.operations_pending),
        gauge("routes_cached", "routes known", numbers.routes_cached),
    ]);
}
