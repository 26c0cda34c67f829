// Line charts of samples, as SVG.
//
// Always: a chart says in words what it shows (its label has the last and the highest value), so nobody needs to see the lines;
// lines differ by dashes as well as by colour.

import { h, s } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 150;
const LEFT = 2;
const BOTTOM = 6;
const TOP = 8;
/** Points of one line: more than a screen shows are thinned, keeping the highest of each group. */
const POINTS_MAX = 600;
const STYLES = ["one", "two", "three"];
/** Samples further apart than this many intervals are no line: the node was down between them. */
const GAP = 3;

/** A value that an axis can end with: 1, 2 or 5 times a power of ten. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * power).find((end) => end >= value);
}

function thin(points) {
  if (points.length <= POINTS_MAX) return points;
  const group = Math.ceil(points.length / POINTS_MAX);
  const kept = [];
  for (let at = 0; at < points.length; at += group) {
    kept.push(points.slice(at, at + group).reduce((best, point) => (point[1] > best[1] ? point : best)));
  }
  return kept;
}

function path(points, x, y, gapMs) {
  let text = "";
  let before = null;
  for (const [time, value] of points) {
    const joined = before !== null && time - before <= gapMs;
    text += `${joined ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    before = time;
  }
  return text;
}

function clockTime(ms) {
  return new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

/**
 * One chart. `series`: [name, points] with points [time_ms, value]; `show` makes a value readable; `from` and `to` are the ends of
 * the time axis; `top` is the least end of the value axis.
 */
export function chart({ title, series, show, from, to, everyMs, top = 0 }) {
  const thinned = series.map(([name, points]) => [name, thin(points)]);
  const highest = Math.max(top, ...thinned.flatMap(([, points]) => points.map((point) => point[1])));
  const end = ceiling(highest);
  const x = (time) => LEFT + ((time - from) / Math.max(1, to - from)) * (WIDTH - LEFT - 6);
  const y = (value) => TOP + (1 - Math.min(value, end) / end) * (HEIGHT - TOP - BOTTOM);
  const gapMs = everyMs * GAP * Math.max(1, Math.ceil(((to - from) / everyMs) / POINTS_MAX));
  const last = (points) => (points.length ? show(points[points.length - 1][1]) : "–");
  const most = (points) => (points.length ? show(Math.max(...points.map((point) => point[1]))) : "–");
  const words = thinned.map(([name, points]) => `${name}: now ${last(points)}, at most ${most(points)}`).join("; ");
  const middle = end / 2;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}. ${words}.` },
    [0, middle, end].map((value) => s("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) })),
    thinned.map(([, points], index) => s("path", { class: `line ${STYLES[index]}`, d: path(points, x, y, gapMs) })));
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", {}, title), thinned.map(([name, points], index) =>
      h("span", { class: `small key ${STYLES[index]}` }, `${["─", "╌", "┈"][index]} ${name} ${last(points)}`))),
    h("div", { class: "plot" }, svg),
    h("p", { class: "quiet small scale", "aria-hidden": "true" }, h("span", {}, clockTime(from)), h("span", {}, `0 to ${show(end)}`), h("span", {}, clockTime(to))));
}
