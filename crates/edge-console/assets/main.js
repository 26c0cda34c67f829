// The console: who asks, which view is shown, and when it is asked for again.
//
// ```text
//   who am I? ──401──▶ sign in ──▶ views by the address's fragment: #/overview, #/clusters/NAME, …
//   every few seconds, while the page is seen: world() ─▶ alarms ─▶ the view's update()
// ```

import { act, alarmsOfNode, attempt, forget, history, isSignedIn, Refusal, useKept, usePassword, useToken, whenSignedOut } from "./api.js";
import { alarms } from "./alarms.js";
import { badge, button, field, h, problem, swap } from "./dom.js";
import { overview } from "./views/overview.js";
import { clusters } from "./views/clusters.js";
import { keyspaces } from "./views/keyspaces.js";
import { buckets } from "./views/buckets.js";
import { traffic } from "./views/traffic.js";
import { flows } from "./views/flows.js";
import { alarmsView } from "./views/alarms.js";
import { access } from "./views/access.js";

const EVERY_MS = 5_000;
/** Clusters that are looked at for warnings. */
const CLUSTERS_LOOKED_AT = 200;
const CLUSTERS_EVERY_MS = 30_000;

const VIEWS = [
  ["overview", "Overview", overview],
  ["clusters", "Clusters", clusters],
  ["keyspaces", "Keyspaces", keyspaces],
  ["buckets", "Buckets", buckets],
  ["traffic", "Traffic", traffic],
  ["flows", "Flows", flows],
  ["alarms", "Alarms", alarmsView],
  ["access", "Access", access],
];

const at = (id) => document.getElementById(id);
let user = null;
let timer = null;
let shown = null;
/** Counts views that were shown: an answer that comes for an earlier one is dropped. */
let turn = 0;
/** What is known of the world; parts are null while nothing is known of them. */
const world = { status: null, nodes: null, refusal: null, samples: [], fields: [], everyMs: 10_000, live: null, clusters: null, clustersAt: 0, alarms: [], user: null };

/** The fragment's parts: "#/clusters/metadata%40a" → ["clusters", "metadata@a"]. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter((part) => part !== "");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [];
  }
}

function named(samples, fields) {
  return samples.map((sample) => Object.fromEntries(fields.map((name, index) => [name, sample[index]])));
}

async function learnHistory() {
  const last = world.samples[world.samples.length - 1];
  const answer = await history(last ? last.time_ms : 0);
  world.samples.push(...named(answer.samples, answer.fields));
  world.samples.splice(0, Math.max(0, world.samples.length - answer.samples_max));
  world.everyMs = answer.every_ms;
  world.live = answer.live ? named([answer.live], answer.fields)[0] : null;
}

async function learn() {
  const [[status, refusal], [nodes], [listed, unlisted]] = await Promise.all([attempt(act("Status")), attempt(act("ListNodes")), attempt(alarmsOfNode()), attempt(learnHistory())]);
  Object.assign(world, { status, refusal, nodes: nodes?.nodes ?? null });
  if (Date.now() - world.clustersAt > CLUSTERS_EVERY_MS) {
    const [answer] = await attempt(act("ListClusters", { limit: CLUSTERS_LOOKED_AT }));
    Object.assign(world, { clusters: answer?.clusters ?? null, clustersAt: Date.now() });
  }
  const before = world.alarms.length;
  world.alarms = alarms({ listed: listed ? listed.alarms : unlisted?.status === 403 || !status ? undefined : null, clusters: world.clusters });
  if (world.alarms.length > before) {
    at("announce").textContent = `${world.alarms.length} alarms; the first: ${world.alarms[0].title}`;
  }
}

function drawHead() {
  const { status, refusal } = world;
  at("world").textContent = status ? `world ${status.world} · node ${status.node}` : "";
  const state = !status ? ["bad", refusal?.code === "NoAnswer" ? "No answer" : "Unknown"]
    : !status.ready ? ["bad", "Not ready"] : status.degraded.length ? ["warn", "Degraded"] : ["good", "Ready"];
  const text = status ? ` ${status.nodes_up} of ${status.nodes_total} nodes up` : ` ${refusal?.message ?? ""}`;
  const wanted = state[1] + text;
  // Redrawn only where it changed: this is a live region.
  if (at("health").textContent !== wanted) swap(at("health"), badge(...state), text);
}

function drawNav() {
  const [current] = route();
  const bad = world.alarms.some((alarm) => alarm.kind === "bad");
  const items = VIEWS.map(([path, title]) => h("li", {}, h("a", { href: `#/${path}`, "aria-current": path === (current ?? "overview") ? "page" : null },
    title, path === "alarms" && world.alarms.length ? h("span", { class: `count${bad ? "" : " warn"}` }, world.alarms.length) : null)));
  swap(at("nav"), h("ul", {}, items));
  at("nav").hidden = false;
}

async function tick(of) {
  clearTimeout(timer);
  try {
    if (!document.hidden) {
      await learn();
      if (of !== turn) return;
      drawHead();
      drawNav();
      await shown?.update(world);
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  if (of === turn) timer = setTimeout(() => tick(of), EVERY_MS);
}

/** Shows the view that the address names. */
function show(moveFocus) {
  const [path = "overview", ...rest] = route();
  const found = VIEWS.find(([name]) => name === path) ?? VIEWS[0];
  turn += 1;
  const main = at("main");
  shown = found[2](rest, world);
  document.title = `${shown.title ?? found[1]} – Hive console`;
  swap(main, h("h1", { tabindex: -1, id: "title" }, shown.title ?? found[1]), shown.root);
  if (moveFocus) {
    at("title").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  drawNav();
  tick(turn);
}

function drawWho() {
  if (!user) return swap(at("who"), h("span", { class: "small" }, "no sign-in in this world"));
  return swap(at("who"), h("span", {}, user.user), isSignedIn() ? button("Sign out", () => { forget(); location.reload(); }) : null);
}

/** The form; what it says wrong last. */
function signIn(reason) {
  turn += 1;
  clearTimeout(timer);
  shown = null;
  whenSignedOut(() => {});
  at("nav").hidden = true;
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
  const keep = h("input", { id: "keep", type: "checkbox" });
  const name = h("input", { id: "user", autocomplete: "username", spellcheck: "false" });
  const password = h("input", { id: "password", type: "password", autocomplete: "current-password" });
  const out = h("div", {}, reason ? h("p", { class: "notice", role: "alert" }, reason) : null);
  const form = h("form", { class: "card" },
    h("h2", {}, "With a token"), field("Token (hive token create prints one)", token),
    h("p", {}, h("label", { class: "check", for: "keep" }, keep, " Keep the token until this tab is closed")),
    h("h2", {}, "Or with a password"), field("User", name), field("Password", password),
    h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Sign in")), out,
    h("p", { class: "quiet small" }, "You may do here what your roles allow, as with the command hive. A password stays in this page's memory and is forgotten when it is reloaded."));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!token.value.trim() && !name.value) return swap(out, h("p", { class: "notice bad", role: "alert" }, "Give a token, or a user and a password."));
    swap(out, h("p", { class: "quiet" }, "Signing in…"));
    if (token.value.trim()) useToken(token.value.trim(), false);
    else usePassword(name.value, password.value);
    try {
      user = await act("WhoAmI");
    } catch (error) {
      forget();
      return swap(out, problem(error));
    }
    if (token.value.trim() && keep.checked) useToken(token.value.trim(), true);
    return begin();
  });
  swap(at("main"), h("div", { class: "sign" }, h("h1", {}, "Sign in"), form));
  document.title = "Sign in – Hive console";
  token.focus();
}

function begin() {
  world.user = user;
  whenSignedOut((reason) => { forget(); signIn(reason); });
  drawWho();
  window.onhashchange = () => show(true);
  show(false);
}

async function start() {
  at("skip").addEventListener("click", (event) => { event.preventDefault(); at("main").focus(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && shown) tick(turn); });
  useKept();
  try {
    user = await act("WhoAmI");
  } catch (error) {
    if (error.status === 401) {
      const kept = isSignedIn();
      forget();
      return signIn(kept ? error.message : null);
    }
    if (error.code !== "AccessOff") {
      swap(at("main"), h("h1", {}, "Hive console"), problem(error), button("Try again", () => location.reload()));
      return undefined;
    }
  }
  return begin();
}

start();
