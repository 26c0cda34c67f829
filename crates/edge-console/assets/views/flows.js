// What is being moved at this moment, and how far it is.

import { act, attempt } from "../api.js";
import { badge, h, link, problem, swap, table } from "../dom.js";
import { count, moment } from "../text.js";

/** Clusters asked whether their replicas are being moved, at a time. */
const ASKED_MAX = 40;

function bar(label, done, all) {
  return h("div", {}, h("progress", { max: Math.max(1, all), value: done, "aria-label": label }), h("span", { class: "small" }, ` ${count(done)} of ${count(all)}`));
}

export function flows() {
  const [rows, past] = [h("div", {}), h("div", {})];
  /** Replicas of a draining node when it was first seen so: what its progress is measured against. */
  const first = new Map();

  function drains(nodes) {
    return nodes.filter((node) => node.draining).map((node) => {
      first.set(node.id, Math.max(first.get(node.id) ?? 0, node.clusters));
      const all = first.get(node.id);
      return [`Decommission of node ${node.id}`, bar(`Decommission of node ${node.id}`, all - node.clusters, all), node.clusters === 0 ? `It is empty: stop it, then hive ctl node remove ${node.id}` : "Replicas move by their rules; nothing to do"];
    });
  }

  async function moving(clusters) {
    const warned = clusters.filter((cluster) => cluster.warnings.length || cluster.members.some((member) => member.learner)).slice(0, ASKED_MAX);
    const answers = await Promise.all(warned.map((cluster) => attempt(act("DescribeCluster", { name: cluster.name }))));
    return answers.flatMap(([answer]) => (answer?.cluster.moves || answer?.cluster.members.some((member) => member.learner) ? [answer.cluster] : []))
      .map((cluster) => {
        const learner = cluster.members.find((member) => member.learner);
        return [h("span", {}, "Replicas of ", link(`clusters/${encodeURIComponent(cluster.name)}`, cluster.name)),
          learner ? bar(`Copy of ${cluster.name} to node ${learner.node}`, Math.min(learner.matched, cluster.commit), cluster.commit) : badge("warn", "waits for its turn"), learner ? `Node ${learner.node} receives a copy` : cluster.warnings.join("; ")];
      });
  }

  async function update(world) {
    const [[keyspaces, refusal], [recoveries]] = await Promise.all([attempt(act("ListKeyspaces")), attempt(act("ListRecoveries"))]);
    const reshards = (keyspaces?.keyspaces ?? []).filter((one) => one.reshard).map((one) => [h("span", {}, "Reshard of ", link(`keyspaces/${encodeURIComponent(one.name)}`, one.name)),
      bar(`Reshard of ${one.name}`, one.reshard.moves_done, one.reshard.moves_total), `To ${one.reshard.target_clusters} clusters; reads and writes go on`]);
    const open = (recoveries?.recoveries ?? []).filter((one) => one.state === "open").map((one) => [`Recovery of ${one.name}`, badge("warn", "replicas are being added"), "It is whole once it has as many members as its rule wants"]);
    const all = [...reshards, ...drains(world.nodes ?? []), ...open, ...await moving(world.clusters ?? [])];
    swap(rows, refusal ? problem(refusal) : null, table("Under way", [["What"], ["Progress"], ["More"]], all, "Nothing is being moved."));
    swap(past, recoveries?.recoveries.length ? [h("h2", {}, "Recoveries"), table("Recoveries of clusters whose majority was lost", [["Cluster"], ["State"], ["When"], ["Survivor"]],
      recoveries.recoveries.map((one) => [link(`clusters/${encodeURIComponent(one.name)}`, one.name), badge(one.state === "whole" ? "good" : "warn", one.state), moment(one.unix_ms), `node ${one.survivor}`]))] : null);
  }
  const root = h("div", {}, h("p", { class: "quiet" }, "Decommissions, reshards, recoveries and replicas that move. A split of a bucket's shard shows on the page of the bucket."), rows, past);
  return { root, update };
}
