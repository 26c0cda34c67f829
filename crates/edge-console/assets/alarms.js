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

/** All alarms, the worst first, each once. `listed` null: the node did not say, which is an alarm; undefined: this user may not ask. */
export function alarms({ listed, clusters }) {
  const unknown = { kind: "bad", title: "This node does not say which alarms it has", todo: "Ask another node, or look at this node's log." };
  const all = [...(listed ? ofNode(listed) : listed === null ? [unknown] : []), ...(clusters ? ofClusters(clusters) : [])];
  const seen = new Set();
  const once = all.filter((one) => !seen.has(one.title) && seen.add(one.title));
  return [...once.filter((one) => one.kind === "bad"), ...once.filter((one) => one.kind !== "bad")];
}
