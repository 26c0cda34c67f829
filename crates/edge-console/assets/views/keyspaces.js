// Keyspaces, and the keys in one: page by page, a value at a time.
//
// Always: a page has at most PAGE keys and no values; of a value at most SHOWN_BYTES are drawn, as text or as hex.

import { act, attempt, bytesOf, field as bytesField, toBase64 } from "../api.js";
import { confirm } from "../confirm.js";
import { badge, button, facts, field, h, link, problem, swap, table } from "../dom.js";
import { count, hex, isolated, keyText, plain, size } from "../text.js";

const PAGE = 50;
const SHOWN_BYTES = 16 << 10;
const encoder = new TextEncoder();

function owners(keyspace) {
  return [...new Set(keyspace.owners)];
}

function reshardText(keyspace) {
  const { reshard } = keyspace;
  return reshard ? badge("warn", `${reshard.moves_done} of ${reshard.moves_total} moves`) : "–";
}

function list() {
  const rows = h("div", {});
  async function update() {
    const [answer, refusal] = await attempt(act("ListKeyspaces"));
    if (refusal) return swap(rows, problem(refusal));
    return swap(rows, table("Keyspaces", [["Name"], ["Kind"], ["Partitions"], ["Clusters", "number"], ["Engine"], ["Rule"], ["Reshard"]],
      answer.keyspaces.map((one) => [link(`keyspaces/${encodeURIComponent(one.name)}`, one.name), one.kind, `${one.partitions} by ${one.partition}`,
        owners(one).length, one.engine ?? "default", h("span", { class: "small" }, one.rule), reshardText(one)]), "There is no keyspace yet: hive ctl keyspace create"));
  }
  return { root: rows, update };
}

/** A value: its first bytes as text or as hex. */
function valueView(bytes) {
  const part = bytes.subarray(0, SHOWN_BYTES);
  // A letter of several bytes may be cut at the end.
  const text = [0, 1, 2, 3].map((less) => (less && part.length === bytes.length ? null : plain(part.subarray(0, part.length - less)))).find((one) => one !== null) ?? null;
  const pre = h("pre", { tabindex: 0, "aria-label": "Value" });
  const choice = h("div", { class: "row", role: "group", "aria-label": "Shown as" });
  function show(as) {
    pre.textContent = as === "text" ? text : hex(part);
    swap(choice, ["text", "hex"].map((way) => button(way === "text" ? "Text" : "Hex", () => show(way), { focus: "as", "aria-pressed": String(way === as), disabled: way === "text" && text === null })));
  }
  show(text === null ? "hex" : "text");
  return [choice, bytes.length > part.length ? h("p", { class: "quiet" }, `The first ${size(part.length)} of ${size(bytes.length)}.`) : null, pre];
}

/** A reply of Redis as lines. */
function redisText(reply) {
  if (reply && reply.base64 !== undefined) return hex(Uint8Array.from(atob(reply.base64), (letter) => letter.charCodeAt(0)));
  return typeof reply === "string" ? reply : JSON.stringify(reply, null, 2);
}

const REDIS_READS = {
  string: (key) => ["GET", key], hash: (key) => ["HSCAN", key, "0", "COUNT", String(PAGE)], list: (key) => ["LRANGE", key, "0", String(PAGE - 1)],
  set: (key) => ["SSCAN", key, "0", "COUNT", String(PAGE)], zset: (key) => ["ZRANGE", key, "0", String(PAGE - 1), "WITHSCORES"],
};

/** How keys of each kind of keyspace are listed and read. */
const STORES = {
  plain: {
    async page(keyspace, prefix, start) {
      const answer = await act("KvScan", { keyspace, keys_only: true, limit: PAGE, ...(prefix ? { prefix } : {}), ...(start ? bytesField("start_after", start) : {}) });
      return { keys: answer.entries.map((entry) => bytesOf(entry, "key")), next: bytesOf(answer, "next") };
    },
    async read(keyspace, key) {
      const answer = await act("KvGet", { keyspace, ...bytesField("key", key) });
      if (!answer.found) return [h("p", { class: "notice" }, "The key is not there any more.")];
      const bytes = bytesOf(answer, "value") ?? new Uint8Array();
      return [facts([["Size", `${count(bytes.length)} bytes`], ["Read at", `entry ${answer.at.index} of ${answer.at.cluster}`]]), valueView(bytes)];
    },
  },
  redis: {
    async page(keyspace, prefix, start) {
      const answer = await act("Redis", { keyspace, command: ["SCAN", start ?? "0", "COUNT", String(PAGE), ...(prefix ? ["MATCH", `${prefix.replace(/[\\*?[\]]/g, "\\$&")}*`] : [])] });
      if (answer.reply?.error) throw new Error(answer.reply.error);
      const [cursor, keys] = answer.reply;
      return { keys: keys.map((key) => (key.base64 === undefined ? encoder.encode(key) : Uint8Array.from(atob(key.base64), (letter) => letter.charCodeAt(0)))), next: cursor === "0" ? null : cursor };
    },
    async read(keyspace, bytes) {
      const key = plain(bytes) ?? { base64: toBase64(bytes) };
      const kind = (await act("Redis", { keyspace, command: ["TYPE", key] })).reply;
      const expires = (await act("Redis", { keyspace, command: ["PTTL", key] })).reply;
      const command = REDIS_READS[kind];
      const reply = command ? (await act("Redis", { keyspace, command: command(key) })).reply : null;
      const text = command ? redisText(reply) : "This kind of value is not shown; use redis-cli.";
      return [facts([["Type", kind], ["Expires", expires > 0 ? `in ${count(expires)} ms` : "never"]]),
        text.length > SHOWN_BYTES ? h("p", { class: "quiet" }, `The first ${size(SHOWN_BYTES)}.`) : null, h("pre", { tabindex: 0, "aria-label": "Value" }, text.slice(0, SHOWN_BYTES))];
    },
  },
};
STORES.versioned = STORES.plain;

function browser(keyspace) {
  const store = STORES[keyspace.kind] ?? STORES.plain;
  const prefix = h("input", { id: "key-prefix", type: "search", spellcheck: "false", autocomplete: "off" });
  const [rows, value, pages] = [h("div", {}), h("section", { "aria-live": "polite", "aria-label": "Value of the key" }), h("div", { class: "row" })];
  let starts = [null];

  async function open(key) {
    const name = keyText(key);
    swap(value, h("h3", {}, "Key ", h("code", {}, isolated(name))), h("p", { class: "quiet" }, "Reading…"));
    let shown;
    try {
      shown = await store.read(keyspace.name, key);
    } catch (error) {
      shown = [problem(error)];
    }
    value.scrollIntoView({ block: "nearest" });
    swap(value, h("h3", {}, "Key ", h("code", {}, isolated(name)), plain(key) === null ? " (hex)" : ""), shown);
  }

  async function load() {
    let page;
    try {
      page = await store.page(keyspace.name, prefix.value, starts[starts.length - 1]);
    } catch (error) {
      swap(pages);
      return swap(rows, problem(error));
    }
    swap(rows, table(`Keys${prefix.value ? ` that begin with ${prefix.value}` : ""}, page ${starts.length}`, [["Key"], ["Bytes", "number"]],
      page.keys.map((key) => [button(isolated(keyText(key)), () => open(key), { class: "link mono" }), count(key.length)]), "No key here."));
    swap(pages, button("Previous page", () => { starts.pop(); load(); }, { disabled: starts.length === 1 }),
      button("Next page", () => { starts.push(page.next); load(); }, { disabled: page.next === null }), button("Reload", load));
    return undefined;
  }

  const form = h("form", { class: "row", role: "search" }, field("Key begins with", prefix), h("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => { event.preventDefault(); starts = [null]; load(); });
  load();
  return h("section", { "aria-labelledby": "h-keys" }, h("h2", { id: "h-keys" }, "Keys"), form, value, rows, pages);
}

function partitions(keyspace) {
  const owned = new Map();
  keyspace.owners.forEach((owner, index) => owned.set(owner, [...(owned.get(owner) ?? []), index]));
  return table("Clusters of the keyspace", [["Cluster"], ["Partitions"]], [...owned].map(([owner, numbers]) => [link(`clusters/${encodeURIComponent(owner)}`, owner), numbers.join(" ")]));
}

async function reshard(keyspace) {
  const clusters = h("input", { id: "reshard-clusters", type: "number", min: 1, max: keyspace.partitions, value: owners(keyspace).length, required: true });
  return confirm({
    title: `Spread ${keyspace.name} over another number of clusters?`,
    steps: [[h("span", {}, `Its ${keyspace.partitions} partitions are now in ${owners(keyspace).length} clusters. They shall be in `), field("Number of clusters", clusters)],
      "New clusters are placed by the keyspace's rule. Partitions move one by one; reads and writes go on.", "The page “Flows” shows the progress."],
    command: `hive ctl keyspace reshard ${keyspace.name} CLUSTERS`,
    word: "Reshard",
    run: () => act("Reshard", { keyspace: keyspace.name, clusters: Number(clusters.value) }),
  });
}

function one(name) {
  const [about, keys] = [h("div", {}), h("div", {})];
  let begun = false;
  async function update() {
    const [answer, refusal] = await attempt(act("DescribeKeyspace", { keyspace: name }));
    if (refusal) return swap(about, problem(refusal));
    const keyspace = answer.keyspace;
    swap(about, facts([["Kind", keyspace.kind], ["Partitions", `${keyspace.partitions} by ${keyspace.partition}, epoch ${keyspace.epoch}`], ["Rule", keyspace.rule], ["Engine", keyspace.engine ?? "the nodes' default"],
      ["Reshard", reshardText(keyspace)]]), partitions(keyspace),
    keyspace.kind === "plain" && !keyspace.reshard ? h("div", { class: "row" }, button("Reshard…", async () => { if (await reshard(keyspace)) update(); })) : null);
    if (!begun) {
      begun = true;
      swap(keys, browser(keyspace));
    }
    return undefined;
  }
  return { root: h("div", {}, h("p", {}, link("keyspaces", "All keyspaces")), about, keys), update, title: `Keyspace ${name}` };
}

export function keyspaces([name]) {
  return name ? one(name) : list();
}
