// Asks before anything changes: what will happen, as which command, and whether to do it.
//
// Always: nothing is sent before the plan was shown and confirmed; where the change takes a node or data away, its name must be typed.

import { h, field, problem, button } from "./dom.js";

/**
 * Shows a plan. `steps`: sentences; `command`: the same for a terminal; `typed`: what must be typed first; `run` does it.
 * Resolves to run's answer, or null where it was not confirmed.
 */
export function confirm({ title, steps, command, typed, word, run }) {
  return new Promise((done) => {
    const input = typed ? h("input", { id: "confirm-typed", autocomplete: "off", spellcheck: "false" }) : null;
    const out = h("div", { role: "status" });
    const go = h("button", { type: "submit", class: typed ? "danger" : "main", disabled: Boolean(typed) }, word);
    const cancel = button("Cancel", () => dialog.close());
    const form = h("form", { method: "dialog" },
      h("h2", { id: "confirm-title" }, title),
      h("ol", {}, steps.map((step) => h("li", {}, step))),
      h("p", { class: "small quiet" }, "The same in a terminal:"), h("pre", {}, command),
      input ? field(`Type ${typed} to confirm`, input) : null,
      out, h("div", { class: "row" }, go, cancel));
    const dialog = h("dialog", { "aria-labelledby": "confirm-title" }, form);
    let answer = null;
    // A change that is under way is waited for: closing the dialog would not stop it.
    const busy = (yes) => { go.disabled = yes; cancel.disabled = yes; };
    dialog.addEventListener("cancel", (event) => { if (cancel.disabled) event.preventDefault(); });
    input?.addEventListener("input", () => { go.disabled = input.value !== String(typed); });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      busy(true);
      out.replaceChildren(h("p", { class: "quiet" }, "Under way…"));
      try {
        answer = await run();
        dialog.close();
      } catch (error) {
        out.replaceChildren(problem(error), error.outcome === "unknown" ? h("p", {}, "It may have happened all the same: look before you repeat it.") : "");
        busy(false);
      }
    });
    dialog.addEventListener("close", () => { dialog.remove(); done(answer); });
    document.body.append(dialog);
    dialog.showModal();
    (input ?? cancel).focus();
  });
}
