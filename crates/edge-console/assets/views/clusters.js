// Clusters: a page of the list, and one cluster with its members, their lag, and what can be done with it.

import { act, attempt } from "../api.js";
import { confirm } from "../confirm.js";
import { badge, button, facts, field, h, link, problem, swap, table } from "../dom.js";
import { count, size } from "../text.js";

const PAGE = 50;

function address(name) {
  return `clusters/${encodeURIComponent(name)}`;
}

function members(cluster) {
  return [...cluster.members].sort((one, other) => one.node - other.node).map((member, index) => [index ? " " : "",
    member.up ? `${member.node}${member.learner ? " (learner)" : ""}` : badge("bad", `${member.node} down`)]);
}

function list() {
  const prefix = h("input", { id: "prefix", type: "search", spellcheck: "false", autocomplete: "off" });
  const rows = h("div", { "aria-live": "off" });
  const pages = h("div", { class: "row" });
  // Where each page begins; the last one is shown.
  let starts = [null];
  let next = null;

  async function update() {
    const fields = { prefix: prefix.value, limit: PAGE, ...(starts[starts.length - 1] === null ? {} : { start_after: starts[starts.length - 1] }) };
    const [answer, refusal] = await attempt(act("ListClusters", fields));
    if (refusal) return swap(rows, problem(refusal));
    next = answer.next;
    swap(rows, table(`Clusters${prefix.value ? ` that begin with ${prefix.value}` : ""}, page ${starts.length}`,
      [["Name"], ["Id", "number"], ["Leader", "number"], ["Members"], ["Rule"], ["Warnings"]],
      answer.clusters.map((cluster) => [link(address(cluster.name), cluster.name), cluster.id, cluster.leader ?? h("span", { class: "quiet" }, "idle"),
        members(cluster), h("span", { class: "small" }, cluster.rule), cluster.warnings.length ? badge("warn", cluster.warnings.length) : "–"]),
      "No cluster has such a name."));
    swap(pages, button("Previous page", () => { starts.pop(); update(); }, { disabled: starts.length === 1 }),
      button("Next page", () => { starts.push(next); update(); }, { disabled: next === null || next === undefined }));
    return undefined;
  }

  const form = h("form", { class: "row", role: "search" }, field("Name begins with", prefix), h("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => { event.preventDefault(); starts = [null]; update(); });
  return { root: h("div", {}, h("p", { class: "quiet" }, "A cluster is one Raft group. “Idle” leaders were not asked lately: that is no outage."), form, rows, pages), update };
}

async function lead(cluster, node) {
  return confirm({
    title: `Make node ${node} the leader?`,
    steps: [`Node ${cluster.leader ?? "?"} hands the leadership of ${cluster.name} to node ${node}.`, "Requests that arrive meanwhile wait for the new leader, usually some milliseconds.", "No data moves."],
    command: `hive ctl cluster transfer ${cluster.name} ${node}`,
    word: "Transfer",
    run: () => act("TransferLeader", { name: cluster.name, node }),
  });
}

async function move(cluster, from) {
  return confirm({
    title: `Move the replica of node ${from} elsewhere?`,
    steps: [`The rule of ${cluster.name} (${cluster.rule}) chooses the node that takes its place; if none does, the request is refused.`,
      "The new replica receives a snapshot, then votes; then the one here is removed.", "Clients go on meanwhile."],
    command: `hive ctl cluster move ${cluster.name} --from ${from}`,
    word: "Move",
    run: () => act("MoveMember", { name: cluster.name, from }, 30_000),
  });
}

function one(name) {
  const [about, rows, checked] = [h("div", {}), h("div", {}), h("div", { role: "status" })];

  async function update() {
    const [answer, refusal] = await attempt(act("DescribeCluster", { name }));
    if (refusal) return swap(about, problem(refusal));
    const cluster = answer.cluster;
    swap(about, cluster.warnings.map((warning) => h("p", { class: "notice" }, warning)), facts([
      ["Leader", cluster.leader === null ? "none known" : `node ${cluster.leader}, term ${count(cluster.term)}`],
      ["Log", `${count(cluster.commit)} entries committed, ${count(cluster.applied)} applied by the leader`],
      ["Id and generation", `${cluster.id}, ${cluster.generation}`], ["Rule", cluster.rule],
      ["Levels by default", `writes ${cluster.consistency}, reads ${cluster.read_consistency}`],
      ["Engine", cluster.engine || "the nodes' default"], cluster.moves ? ["Moves", "its replicas are being moved"] : null]));
    const after = (run) => async () => { if (await run()) update(); };
    swap(rows, table("Members", [["Node"], ["Role"], ["State"], ["Has entry", "number"], ["Lag, entries", "number"], ["Actions"]],
      [...cluster.members].sort((a, b) => a.node - b.node).map((member) => {
        const leads = member.node === cluster.leader;
        return [`Node ${member.node}`, leads ? badge("good", "leader") : member.learner ? "learner" : "voter", member.up ? badge("good", "up") : badge("bad", "down"),
          count(member.matched), leads ? "–" : count(Math.max(0, cluster.commit - member.matched)),
          h("div", { class: "row" }, leads || member.learner || !member.up ? null : button("Make leader…", after(() => lead(cluster, member.node)), { focus: member.node, "aria-label": `Make node ${member.node} the leader` }),
            button("Move…", after(() => move(cluster, member.node)), { focus: member.node, "aria-label": `Move the replica of node ${member.node}` }))];
      })));
    return undefined;
  }

  async function verify() {
    swap(checked, h("p", { class: "quiet" }, "Every member checks every pair it holds…"));
    const [answer, refusal] = await attempt(act("VerifyCluster", { name }, 30_000));
    if (refusal) return swap(checked, problem(refusal));
    return swap(checked, h("p", { class: answer.whole ? "notice good" : "notice" }, answer.whole ? "Every replica is whole and they are equal." : answer.done ? "Not every replica is whole." : "The check takes longer; hive ctl verify waits for it."),
      table("What the members hold", [["Node"], ["State"], ["Pairs", "number"], ["Size", "number"], ["Damaged", "number"]],
        answer.members.map((member) => [`Node ${member.node}`, member.state, count(member.pairs), size(member.bytes), count(member.damaged)])),
      answer.advice.map((advice) => h("p", {}, advice)));
  }

  const root = h("div", {}, h("p", {}, link("clusters", "All clusters")), about, rows,
    h("h2", {}, "Sizes and integrity"), h("p", { class: "quiet" }, "Reads everything each member holds, and compares the members. Nothing is changed."), button("Check the replicas", verify), checked);
  return { root, update, title: name };
}

export function clusters([name]) {
  return name ? one(name) : list();
}
