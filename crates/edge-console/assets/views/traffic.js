// What this node did in the last hours, as charts of its samples.

import { chart } from "../chart.js";
import { button, h, swap, table } from "../dom.js";
import { micros, moment, permille, rate, size } from "../text.js";

const SPANS = [["15 minutes", 15 * 60_000], ["1 hour", 3_600_000], ["6 hours", 6 * 3_600_000]];
const ROWS = 12;

/** The charts by name: title, how a value is shown, and lines: name and how a sample gives its value (null: none). */
const CHARTS = {
  rate: ["Requests per second", rate, [["reads", (one) => one.reads_per_s], ["writes", (one) => one.writes_per_s], ["Redis and transactions", (one) => one.mixed_per_s]]],
  latency: ["Time to an answer, 99 of 100", micros, [["reads", (one) => one.read_p99_us || null], ["writes", (one) => one.write_p99_us || null]]],
  half: ["Time to an answer, half of them", micros, [["reads", (one) => one.read_p50_us || null], ["writes", (one) => one.write_p50_us || null]]],
  log: ["Time to write the log to disk, 99 of 100", micros, [["log", (one) => one.log_sync_p99_us || null]]],
  cpu: ["CPU", permille, [["machine", (one) => one.load_permille], ["this process, of one core", (one) => one.process_cpu_permille]]],
  disk: ["Disk in use", permille, [["disk", (one) => one.disk_permille]]],
  memory: ["Memory of this process", size, [["memory", (one) => one.resident_bytes]]],
  network: ["Sent to other nodes, per second", size, [["bytes", (one) => one.peer_bytes_per_s]]],
  clients: ["Clients", rate, [["connections", (one) => one.connections], ["requests under way", (one) => one.requests_waiting]]],
  leaders: ["Replicas", rate, [["held", (one) => one.replicas], ["led", (one) => one.leaders]]],
};
const TOPS = { cpu: 1000, disk: 1000 };

/** Charts of the last `spanMs`; all, or those that are named. */
export function charts(world, spanMs, names = Object.keys(CHARTS)) {
  const samples = world.live ? [...world.samples, world.live] : world.samples;
  const last = samples[samples.length - 1];
  if (!last) return h("p", { class: "quiet" }, "The first sample comes 10 seconds after the node has started.");
  const to = last.time_ms;
  const first = samples.findIndex((sample) => sample.time_ms >= to - spanMs);
  const seen = samples.slice(first);
  // A node that runs for a short time only: its samples take the whole width.
  const from = Math.max(to - spanMs, Math.min(seen[0].time_ms, to - 60_000));
  return h("div", { class: "charts" }, names.map((name) => {
    const [title, show, lines] = CHARTS[name];
    const series = lines.map(([line, value]) => [line, seen.map((sample) => [sample.time_ms, value(sample)]).filter((point) => point[1] !== null)]);
    return chart({ title, series, show, from, to, everyMs: world.everyMs, top: TOPS[name] ?? 0 });
  }));
}

function asTable(world) {
  const rows = world.samples.slice(-ROWS).reverse().map((one) => [moment(one.time_ms), rate(one.reads_per_s), rate(one.writes_per_s), rate(one.mixed_per_s),
    micros(one.read_p99_us), micros(one.write_p99_us), permille(one.load_permille)]);
  return table("The newest samples as numbers", [["Time"], ["Reads/s", "number"], ["Writes/s", "number"], ["Redis and transactions/s", "number"],
    ["Read p99", "number"], ["Write p99", "number"], ["CPU", "number"]], rows, "No sample yet.");
}

export function traffic(_parts, world) {
  let spanMs = SPANS[0][1];
  const [plots, numbers, chosen] = [h("div", {}), h("div", {}), h("div", { class: "row", role: "group", "aria-label": "Time shown" })];
  function choices() {
    swap(chosen, SPANS.map(([title, ms]) => button(title, () => { spanMs = ms; choices(); update(world); }, { focus: "span", "aria-pressed": String(ms === spanMs) })));
  }
  function update(now) {
    swap(plots, charts(now, spanMs));
    swap(numbers, asTable(now));
  }
  choices();
  const root = h("div", {}, h("p", { class: "quiet" }, "These are the numbers of this node alone, from its memory: a sample every 10 seconds, six hours of them. Each node's own console shows its own."),
    chosen, plots, h("h2", {}, "As a table"), numbers);
  return { root, update };
}
