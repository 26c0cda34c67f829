// Elements from strings that never become markup.
//
// Always: text reaches the page by text nodes alone; attributes come from this code, and an address is one of this page's own
// fragments or checked by `link`.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An HTML element: `h("p", {class: "quiet"}, "text", child)`. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Puts other children into an element. What had the focus, by its label or address, has it again. */
export function swap(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const mark = (one) => one.dataset.focus ?? one.getAttribute("href") ?? one.id;
  const wanted = active && mark(active);
  const scrolled = [...element.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
  element.replaceChildren();
  append(element, children);
  [...element.querySelectorAll(".scroll")].forEach((one, index) => {
    if (scrolled[index]) [one.scrollLeft, one.scrollTop] = scrolled[index];
  });
  if (wanted) [...element.querySelectorAll("a, button, input, select, [tabindex]")].find((one) => mark(one) === wanted)?.focus();
}

/** A word of state in a colour that never stands alone. */
export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}

/** A button. `focus` names it across redraws. */
export function button(text, press, attributes = {}) {
  return h("button", { type: "button", "data-focus": `${attributes.focus ?? ""}${text}`, ...attributes, focus: null, on: { click: press } }, text);
}

/** A link inside the console. */
export function link(route, text) {
  return h("a", { href: `#/${route}` }, text);
}

/** A table with headers, in a box that scrolls by itself. Columns: [title, kind]; kind "number" is right-aligned. */
export function table(caption, columns, rows, empty = "Nothing here.") {
  const head = columns.map(([title, kind]) => h("th", { scope: "col", class: kind ?? null }, title));
  const body = rows.map((row) => h("tr", {}, row.map((cell, index) => index === 0
    ? h("th", { scope: "row" }, cell)
    : h("td", { class: columns[index][1] ?? null }, cell))));
  if (body.length === 0) body.push(h("tr", {}, h("td", { colspan: columns.length, class: "quiet" }, empty)));
  return h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

/** Names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Big numbers with their names. */
export function figures(pairs) {
  return h("dl", { class: "cards" }, pairs.filter(Boolean).map(([name, value, more]) =>
    h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, ` ${more}`) : null))));
}

/** A field with its label. */
export function field(label, input) {
  return h("div", {}, h("label", { for: input.id }, label), input);
}

/** What went wrong, in the server's words. */
export function problem(error) {
  return h("p", { class: "notice bad", role: "alert" }, error.code ? `${error.code}: ` : "", error.message);
}
