// What is wrong, from what the node says of itself and of the world, and what to do about each.
//
// By design: alarms are computed here from answers that anybody with the same rights gets; nothing is kept.

import { count, micros, permille, span } from "./text.js";

const CERTIFICATE_WARN_MS = 14 * 86_400_000;
const DISK_WARN = 800;
const DISK_BAD = 900;
const LOAD_WARN = 950;
/** A load is an alarm once it lasted so many samples. */
const LOAD_SAMPLES = 6;
const SYNC_WARN_US = 200_000;
const LOG_WRITE_WARN_MS = 1_000;

function alarm(kind, title, todo) {
  return { kind, title, todo };
}

function ofStatus(status, now) {
  const list = status.not_ready.map((reason) => alarm("bad", `Node ${status.node} is not ready: ${reason}`, "This node serves nobody until then. Send clients to other nodes."));
  list.push(...status.degraded.map((reason) => alarm("bad", `Node ${status.node} is degraded: ${reason}`, "What else this node serves is not affected.")));
  for (const quorum of status.quorum.filter((one) => !one.answers)) {
    list.push(alarm("bad", `Cluster ${quorum.cluster} has no majority`, "Start its members that are down. If they are gone for good: hive ctl recover " + quorum.cluster));
  }
  // Nodes that are down have an alarm of their own.
  const other = status.warnings.filter((warning) => !/^node \d+ \(.*\) is down$/.test(warning));
  list.push(...other.map((warning) => alarm("warn", warning, null)));
  if (status.log_write_ms > LOG_WRITE_WARN_MS) {
    list.push(alarm("bad", `A log write of node ${status.node} takes ${span(status.log_write_ms)}`, "Check this node's disk: its leaders hand over while it hangs. Replace it if that repeats."));
  }
  const left = status.certificate_expires_ms ? status.certificate_expires_ms - now : null;
  if (left !== null && left < CERTIFICATE_WARN_MS) {
    list.push(alarm(left < 0 ? "bad" : "warn", left < 0 ? `The certificate of node ${status.node} has expired` : `The certificate of node ${status.node} expires in ${span(left)}`,
      "Replace it: hive ca issue, then copy the files over the old ones. The node reloads them by itself."));
  }
  return list;
}

function ofNodes(nodes) {
  const list = nodes.filter((node) => !node.up).map((node) => alarm("bad", `Node ${node.id} is down (${node.region}, ${node.az}, ${node.http}); last seen ${span(node.seen_ms_ago)} ago`,
    `Start it, or look at its log. If it is gone for good: hive ctl decommission ${node.id}, then hive ctl forget ${node.id}`));
  list.push(...nodes.filter((node) => node.draining).map((node) => alarm("warn", `Node ${node.id} is being decommissioned; ${count(node.clusters)} replicas are left`,
    node.clusters === 0 ? `It is empty: stop it, then hive ctl forget ${node.id}` : `Wait; to undo it: hive ctl recommission ${node.id}`)));
  const versions = new Set(nodes.filter((node) => node.up).map((node) => node.version));
  if (versions.size > 1) {
    list.push(alarm("warn", `Nodes run different versions: ${[...versions].join(", ")}`, "Finish the rolling upgrade, then hive ctl upgrade finalize."));
  }
  return list;
}

function ofSamples(samples, node) {
  const last = samples[samples.length - 1];
  if (!last) return [];
  const list = [];
  if (last.disk_permille >= DISK_WARN) {
    list.push(alarm(last.disk_permille >= DISK_BAD ? "bad" : "warn", `The disk of node ${node} is ${permille(last.disk_permille)} full`,
      "Free space or add a node: the node refuses writes when less than limits.disk_free_bytes_min is left."));
  }
  const recent = samples.slice(-LOAD_SAMPLES);
  if (recent.length === LOAD_SAMPLES && recent.every((sample) => sample.load_permille >= LOAD_WARN)) {
    list.push(alarm("warn", `The machine of node ${node} has been busy for a minute`, "Add nodes or cores, move leaders away, or send less."));
  }
  if (recent.length === LOAD_SAMPLES && recent.every((sample) => sample.log_sync_p99_us >= SYNC_WARN_US)) {
    list.push(alarm("warn", `One in a hundred log writes of node ${node} takes more than ${micros(SYNC_WARN_US)}`, "Check its disk, and what else uses it."));
  }
  return list;
}

function ofClusters(clusters) {
  return clusters.flatMap((cluster) => cluster.warnings.map((warning) => alarm("warn", `${cluster.name}: ${warning}`, `Details: hive ctl cluster show ${cluster.name}`)));
}

/** All alarms, the worst first, each once. Parts that are not known (null) have none. */
export function alarms({ status, nodes, samples, clusters }) {
  const all = [
    ...(status ? ofStatus(status, Date.now()) : []),
    ...(nodes ? ofNodes(nodes) : []),
    ...(samples && status ? ofSamples(samples, status.node) : []),
    ...(clusters ? ofClusters(clusters) : []),
  ];
  const seen = new Set();
  const once = all.filter((one) => !seen.has(one.title) && seen.add(one.title));
  return [...once.filter((one) => one.kind === "bad"), ...once.filter((one) => one.kind !== "bad")];
}
