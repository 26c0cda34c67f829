// What is wrong, and what to do about each: what the node says of itself and of the world (GET /alarms), and warnings of the
// clusters that this page has read.

const SEVERITIES = new Set(["bad", "warn"]);

function ofClusters(clusters) {
  return clusters.flatMap((cluster) => cluster.warnings.map((warning) => ({
    kind: "warn", title: `${cluster.name}: ${warning}`, todo: `Details: hive ctl cluster show ${cluster.name}` })));
}

function ofNode(listed) {
  return listed.map((one) => ({ kind: SEVERITIES.has(one.severity) ? one.severity : "warn", title: one.title, todo: one.todo }));
}

/** All alarms, the worst first, each once. Parts that are not known (null) have none. */
export function alarms({ listed, clusters }) {
  const all = [...(listed ? ofNode(listed) : []), ...(clusters ? ofClusters(clusters) : [])];
  const seen = new Set();
  const once = all.filter((one) => !seen.has(one.title) && seen.add(one.title));
  return [...once.filter((one) => one.kind === "bad"), ...once.filter((one) => one.kind !== "bad")];
}
