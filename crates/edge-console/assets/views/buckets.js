// Accounts, their buckets, and the objects in one: by prefix, page by page, with the bucket's shards.

import { act, attempt } from "../api.js";
import { badge, button, facts, field, h, link, problem, swap, table } from "../dom.js";
import { count, isolated, keyText, moment, size } from "../text.js";

const PAGE = 50;
const ACCOUNTS = 100;
const BUCKETS = 200;
const encoder = new TextEncoder();

function list() {
  const rows = h("div", {});
  async function update() {
    const [answer, refusal] = await attempt(act("ListAccounts"));
    if (refusal) return swap(rows, problem(refusal));
    const accounts = answer.accounts.slice(0, ACCOUNTS);
    const of = await Promise.all(accounts.map((account) => attempt(act("ListBuckets", { account: account.id, max_buckets: BUCKETS }))));
    const found = accounts.flatMap((account, index) => (of[index][0]?.buckets ?? []).map((bucket) => [
      link(`buckets/${encodeURIComponent(bucket.name)}`, bucket.name), account.id, moment(bucket.creation_date_ms)]));
    const refused = of.map(([, wrong]) => wrong).find(Boolean);
    return swap(rows, refused ? problem(refused) : null, table("Buckets", [["Name"], ["Account"], ["Created"]], found, "There is no bucket yet."),
      table("Accounts", [["Account"], ["Name"]], accounts.map((account) => [account.id, account.display_name]), "There is no account yet: hive ctl s3 account create"));
  }
  return { root: rows, update };
}

function shards(bucket) {
  const out = h("div", {});
  async function update() {
    const [answer, refusal] = await attempt(act("DescribeShards", { bucket }));
    if (refusal) return swap(out, problem(refusal));
    return swap(out, table("Shards, in the order of keys", [["Cluster"], ["From"], ["To"], ["State"], ["Keys", "number"], ["Versions", "number"], ["Size of objects", "number"]],
      answer.shards.map((shard) => [link(`clusters/${encodeURIComponent(shard.cluster)}`, shard.cluster), h("code", {}, isolated(shard.start || "the first key")), h("code", {}, isolated(shard.end ?? "the last key")),
        badge(shard.state === "serving" ? "good" : "warn", shard.state), count(shard.keys), count(shard.versions), size(shard.bytes)])));
  }
  return { root: out, update };
}

function objects(bucket) {
  const prefix = h("input", { id: "object-prefix", type: "search", spellcheck: "false", autocomplete: "off" });
  const [rows, detail, pages] = [h("div", {}), h("section", { "aria-live": "polite", "aria-label": "The object" }), h("div", { class: "row" })];
  let tokens = [null];

  async function open(key) {
    swap(detail, h("h3", {}, "Object ", h("code", {}, isolated(key))), h("p", { class: "quiet" }, "Reading…"));
    const [head, refusal] = await attempt(act("HeadObject", { bucket, key }));
    if (refusal) return swap(detail, problem(refusal));
    detail.scrollIntoView({ block: "nearest" });
    const seen = ["action", "ok", "at", "level", "key", "size", "etag", "last_modified_ms"];
    const more = Object.entries(head).filter(([name, value]) => !seen.includes(name) && value !== null && value !== false && !(Array.isArray(value) && value.length === 0));
    return swap(detail, h("h3", {}, "Object ", h("code", {}, isolated(key))), facts([["Size", `${count(head.size)} bytes`], ["ETag", h("code", {}, head.etag ?? "–")], ["Changed", moment(head.last_modified_ms)],
      ...more.map(([name, value]) => [name.replaceAll("_", " "), typeof value === "object" ? h("code", {}, JSON.stringify(value)) : String(value)])]));
  }

  function into(folder) {
    prefix.value = folder;
    tokens = [null];
    load();
  }

  async function load() {
    const token = tokens[tokens.length - 1];
    const [answer, refusal] = await attempt(act("ListObjectsV2", { bucket, delimiter: "/", max_keys: PAGE, ...(prefix.value ? { prefix: prefix.value } : {}), ...(token ? { continuation_token: token } : {}) }));
    if (refusal) {
      swap(pages);
      return swap(rows, problem(refusal));
    }
    const folders = answer.common_prefixes.map((folder) => [button(isolated(folder), () => into(folder), { class: "link mono" }), "prefix", "", ""]);
    const found = answer.contents.map((object) => [button(isolated(keyText(encoder.encode(object.key))), () => open(object.key), { class: "link mono" }), "object", size(object.size), moment(object.last_modified_ms)]);
    swap(rows, table(`Objects${prefix.value ? ` below ${prefix.value}` : ""}, page ${tokens.length}`, [["Key"], ["What"], ["Size", "number"], ["Changed"]], [...folders, ...found], "No object here."));
    const up = prefix.value.replace(/[^/]*\/?$/, "");
    swap(pages, prefix.value ? button("Up", () => into(up)) : null, button("Previous page", () => { tokens.pop(); load(); }, { disabled: tokens.length === 1 }),
      button("Next page", () => { tokens.push(answer.next_continuation_token); load(); }, { disabled: !answer.next_continuation_token }));
    return undefined;
  }

  const form = h("form", { class: "row", role: "search" }, field("Key begins with", prefix), h("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => { event.preventDefault(); into(prefix.value); });
  load();
  return h("section", { "aria-labelledby": "h-objects" }, h("h2", { id: "h-objects" }, "Objects"), form, detail, rows, pages);
}

function one(name) {
  const about = h("div", {});
  const parts = shards(name);
  async function update() {
    const [[head, refusal], [counted]] = await Promise.all([attempt(act("HeadBucket", { bucket: name })), attempt(act("CountObjects", { bucket: name }))]);
    if (refusal) return swap(about, problem(refusal));
    swap(about, facts([["Owner", `${head.owner.id} (${head.owner.display_name})`], ["Created", moment(head.creation_date_ms)], ["Region", head.bucket_region ?? "–"], ["Versioning", head.versioning ?? "off"],
      ["Object ownership", head.object_ownership ?? "–"], counted ? ["Holds", `${count(counted.keys)} objects, ${count(counted.versions)} versions, ${size(counted.bytes)}`] : null,
      ["Quota", head.quota ? JSON.stringify(head.quota) : "none"]]));
    return parts.update();
  }
  return { root: h("div", {}, h("p", {}, link("buckets", "All buckets")), about, objects(name), h("h2", {}, "Shards"), parts.root), update, title: `Bucket ${name}` };
}

export function buckets([name]) {
  return name ? one(name) : list();
}
