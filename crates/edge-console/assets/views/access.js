// Who may do what: users, roles, groups, tenants and tokens, to look at. Commands that change them are named.

import { act, attempt } from "../api.js";
import { badge, button, facts, h, problem, swap, table } from "../dom.js";
import { moment } from "../text.js";

const PAGE = 100;

/** Each part: title, the action, the answer's list, columns, and a row of one item. */
const PARTS = [
  ["Users", "ListUsers", "users", [["User"], ["Kind"], ["Tenant"], ["Roles"], ["State"], ["Created"]],
    (one) => [one.user, one.service ? "service" : "person", one.tenant ?? "–", lines(one.roles), one.disabled ? badge("bad", "disabled") : badge("good", "enabled"), moment(one.created_ms)], "hive user create"],
  ["Roles", "ListRoles", "roles", [["Role"], ["About"], ["Rules"]], (one) => [one.role, one.about ?? (one.builtin ? "built in" : "made in this world"), lines(one.rules)], "hive role create"],
  ["Groups", "ListGroups", "groups", [["Group"], ["Issuer"], ["Claim"], ["Roles"]], (one) => [one.group, one.issuer ?? "–", one.claim ?? "–", lines(one.roles)], "hive group create"],
  ["Tenants", "ListTenants", "tenants", [["Tenant"], ["Owns"], ["Created"]], (one) => [one.tenant, lines(one.owns), moment(one.created_ms)], "hive tenant create"],
  ["Tokens", "ListTokens", "tokens", [["Token"], ["User"], ["Only on"], ["Note"], ["Expires"], ["Created"]],
    (one) => [h("code", {}, one.id), one.user, one.on ?? "all its user may", one.note || "–", one.expires_ms ? moment(one.expires_ms) : "never", moment(one.created_ms)], "hive token create"],
];

function lines(texts) {
  return (texts ?? []).map((text) => h("div", { class: "small" }, text));
}

function part([title, action, name, columns, row, command]) {
  const [rows, pages] = [h("div", {}), h("div", { class: "row" })];
  let starts = [null];
  async function update() {
    const start = starts[starts.length - 1];
    const paged = ["ListUsers", "ListGroups"].includes(action);
    const [answer, refusal] = await attempt(act(action, paged ? { limit: PAGE, ...(start ? { start_after: start } : {}) } : {}));
    if (refusal) return swap(rows, problem(refusal));
    swap(rows, table(title, columns, answer[name].map(row), `None yet: ${command}`));
    const next = answer.next ?? null;
    if (paged && (next || starts.length > 1)) {
      swap(pages, button(`Previous page of ${title.toLowerCase()}`, () => { starts.pop(); update(); }, { disabled: starts.length === 1 }), button(`Next page of ${title.toLowerCase()}`, () => { starts.push(next); update(); }, { disabled: !next }));
    }
    return undefined;
  }
  return { root: h("section", {}, h("h2", {}, title), rows, pages), update };
}

export function access(_parts, world) {
  if (!world.user) {
    return { root: h("p", { class: "notice" }, "This world does not check who its clients are (access.required is off), so there are no users here. Production wants it: see the guide on users, or try hive dev --secure."), update() {} };
  }
  const parts = PARTS.map(part);
  let asked = false;
  const own = facts([["You are", world.user.user], ["Roles", lines(world.user.roles)], ["Allowed", lines(world.user.allowed)]]);
  const root = h("div", {}, own, h("p", { class: "quiet" }, "To look at. Changes are made with the commands hive user, role, group, tenant and token."), parts.map((one) => one.root));
  return {
    root,
    // Once: lists of users are long, and they change seldom.
    async update() {
      if (asked) return;
      asked = true;
      await Promise.all(parts.map((one) => one.update()));
    },
  };
}
