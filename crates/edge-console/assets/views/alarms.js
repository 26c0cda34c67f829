// All alarms, each with what to do next.

import { badge, h, swap } from "../dom.js";

/** Alarms as a list. */
export function alarmList(alarms) {
  return h("ul", { class: "alarms" }, alarms.map((alarm) => h("li", { class: `alarm ${alarm.kind}` },
    h("p", {}, badge(alarm.kind, alarm.kind === "bad" ? "Act now" : "Look"), " ", h("strong", {}, alarm.title)),
    alarm.todo ? h("p", {}, "Next: ", alarm.todo) : null)));
}

export function alarmsView() {
  const list = h("div", {});
  let before = null;
  function update(world) {
    const text = JSON.stringify([world.alarms, world.refusal?.message]);
    if (text === before) return;
    before = text;
    if (world.refusal) swap(list, h("p", { class: "notice bad" }, world.refusal.message));
    else swap(list, world.alarms.length ? alarmList(world.alarms) : h("p", { class: "notice good" }, "No alarms. This node, the nodes it sees, and the first 200 clusters are well."));
  }
  const root = h("div", {}, list, h("p", { class: "quiet small" }, "Alarms come from what this node sees: its own health, disk and certificate, the nodes of the world, and the warnings of clusters."));
  return { root, update };
}
