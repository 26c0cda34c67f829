// The world at a glance: is it well, what does this node do, who is where.

import { act } from "../api.js";
import { badge, button, figures, h, link, problem, swap } from "../dom.js";
import { confirm } from "../confirm.js";
import { alarmList } from "./alarms.js";
import { charts } from "./traffic.js";
import { count, permille, size, span } from "../text.js";

const ALARMS_SHOWN = 3;
const CHART_SPAN_MS = 15 * 60_000;

/** Items by the value of a field, in the order of the values. */
function grouped(items, name) {
  const groups = new Map();
  for (const item of items) groups.set(item[name], [...(groups.get(item[name]) ?? []), item]);
  return [...groups].sort(([one], [other]) => (one < other ? -1 : 1));
}

function state(node) {
  if (!node.up) return ["bad", "Down"];
  return node.draining ? ["warn", "Draining"] : ["good", "Up"];
}

async function drain(node) {
  await confirm({
    title: `Decommission node ${node.id}?`,
    steps: [
      `Nothing new is placed on node ${node.id}.`,
      `Each of its ${count(node.clusters)} replicas moves to another node, by the rule of its cluster. Clients go on meanwhile.`,
      "If a rule could not be met without the node, the request is refused and nothing changes.",
      "You can take the node back at any time. When it is empty, stop it and forget it.",
    ],
    command: `hive ctl node decommission ${node.id}`,
    typed: node.id,
    word: "Decommission",
    run: () => act("DecommissionNode", { node: node.id }, 20_000),
  });
}

async function takeBack(node) {
  await confirm({
    title: `Take node ${node.id} back into service?`,
    steps: ["New replicas may be placed on it again.", "Replicas that have moved away stay where they are."],
    command: `hive ctl node recommission ${node.id}`,
    word: "Take back",
    run: () => act("RecommissionNode", { node: node.id }),
  });
}

async function strike(node) {
  await confirm({
    title: `Remove node ${node.id} from the list?`,
    steps: [`Node ${node.id} is down and no cluster's member, or the request is refused.`, "It cannot come back under this number with its data."],
    command: `hive ctl node remove ${node.id}`,
    typed: node.id,
    word: "Forget",
    run: () => act("ForgetNode", { node: node.id }),
  });
}

function tile(node, world, scoreMax, replicasMax) {
  const [kind, word] = state(node);
  const own = world.status?.node === node.id;
  const last = own ? world.samples[world.samples.length - 1] ?? world.live : null;
  const bar = (label, value, max) => h("p", { class: "small" }, `${label} ${count(value)}`, h("meter", { min: 0, max: Math.max(1, max), value, "aria-label": `${label} of node ${node.id}` }));
  const actions = node.draining ? [button("Take back", () => takeBack(node), { focus: node.id, "aria-label": `Take node ${node.id} back into service` })]
    : node.up ? [button("Drain…", () => drain(node), { focus: node.id, "aria-label": `Decommission node ${node.id}` })] : [];
  if (!node.up) actions.push(button("Forget…", () => strike(node), { focus: node.id, "aria-label": `Remove node ${node.id} from the list` }));
  return h("li", { class: `node${node.up ? "" : " down"}${node.draining ? " draining" : ""}` },
    h("p", { class: "head" }, h("strong", {}, `Node ${node.id}`, own ? " (this node)" : ""), badge(kind, word)),
    h("p", { class: "small quiet" }, `${node.http} · ${node.version} · ${count(node.cores)} ${node.cores === 1 ? "core" : "cores"}`),
    h("p", { class: "small" }, `leads ${count(node.leaders)} of ${count(node.clusters)} replicas`, node.up ? "" : ` · last seen ${span(node.seen_ms_ago)} ago`),
    last ? h("p", { class: "small" }, `CPU ${permille(last.load_permille)} · disk ${permille(last.disk_permille)} · memory ${size(last.resident_bytes)}`) : null,
    bar("Score", node.score, scoreMax), bar("Replicas", node.clusters, replicasMax),
    h("details", {}, h("summary", { class: "small", "data-focus": `more${node.id}` }, "Actions"), h("div", { class: "row" }, actions)));
}

/** From the outermost to the innermost: the field of a node, its heading and the class of its box. */
const LEVELS = [["region", "h3", "Region", "region"], ["az", "h4", "Zone", "az"], ["rack", "h5", "Rack", null], ["chassis", "p", "Chassis", null]];

/** Nodes as nested lists. */
function tree(nodes, depth, show) {
  if (depth === LEVELS.length) return h("ul", {}, nodes.map(show));
  const [name, heading, word, box] = LEVELS[depth];
  const items = grouped(nodes, name).map(([value, inside]) => h("li", { class: box },
    h(heading, heading === "p" ? { class: "small quiet" } : {}, `${word} ${value}`), tree(inside, depth + 1, show)));
  return h("ul", depth === 0 ? { class: "world" } : {}, items);
}

function map(world) {
  const nodes = [...world.nodes].sort((one, other) => one.id - other.id);
  const scoreMax = Math.max(...nodes.map((node) => node.score));
  const replicasMax = Math.max(...nodes.map((node) => node.clusters));
  return tree(nodes, 0, (node) => tile(node, world, scoreMax, replicasMax));
}

export function overview() {
  const [summary, worst, plots, places] = [0, 0, 0, 0].map(() => h("div", {}));
  const root = h("div", {}, summary, worst,
    h("section", { "aria-labelledby": "h-now" }, h("h2", { id: "h-now" }, "This node in the last 15 minutes"), plots, h("p", { class: "small" }, link("traffic", "More charts, up to six hours"))),
    h("section", { "aria-labelledby": "h-map" }, h("h2", { id: "h-map" }, "The world"), h("p", { class: "quiet small" }, "The score is the load, the disk and the replicas of a node in one number: placement takes the lowest first."), places));
  let mapText = "";

  function update(world) {
    const { status, nodes, refusal } = world;
    const now = world.live ?? world.samples[world.samples.length - 1];
    swap(summary, refusal ? problem(refusal) : figures([
      ["Nodes up", `${status.nodes_up} of ${status.nodes_total}`],
      ["Replicas on this node", count(status.clusters), `${count(status.quiesced)} idle`],
      ["Led by this node", count(status.leaders)],
      ["Alarms", count(world.alarms.length)],
      now ? ["Requests per second", count(now.reads_per_s + now.writes_per_s + now.mixed_per_s), "this node"] : null,
    ]));
    swap(worst, world.alarms.length ? [h("h2", {}, "Alarms"), alarmList(world.alarms.slice(0, ALARMS_SHOWN)),
      world.alarms.length > ALARMS_SHOWN ? link("alarms", `All ${world.alarms.length} alarms`) : null] : null);
    swap(plots, charts(world, CHART_SPAN_MS, ["rate", "latency"]));
    if (!nodes) return swap(places, h("p", { class: "quiet" }, "The nodes are not known: the node does not answer, or you may not see them."));
    // Redrawn only where something else is to be seen, so that open details stay open.
    const seen = JSON.stringify([nodes.map((node) => ({ ...node, seen_ms_ago: node.up ? 0 : Math.floor(node.seen_ms_ago / 10_000) })), world.samples.length]);
    if (seen !== mapText) {
      const open = [...places.querySelectorAll("details")].map((one) => one.open);
      swap(places, map(world));
      [...places.querySelectorAll("details")].forEach((one, index) => { one.open = open[index] ?? false; });
      mapText = seen;
    }
    return undefined;
  }
  return { root, update };
}
