// Elements without markup: text is always text.

/** Makes an element: properties and `on…` handlers as they are called in the DOM, `data` and `aria` as groups. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "data") Object.assign(element.dataset, value);
    else if (name === "aria") for (const [key, it] of Object.entries(value)) element.setAttribute(`aria-${key}`, it);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((it) => it !== undefined && it !== null && it !== false));
  return element;
}

/** Puts children in place of what an element holds. Those that are there already are not moved. */
export function fill(element, ...children) {
  const wanted = children.flat().filter((it) => it !== undefined && it !== null && it !== false);
  for (const it of [...element.childNodes]) if (!wanted.includes(it)) it.remove();
  let at = element.firstChild;
  for (const it of wanted) {
    if (it === at) at = at.nextSibling;
    else element.insertBefore(typeof it === "string" ? new Text(it) : it, at);
  }
}

/** An icon of the sprite in index.html; the words beside it say what it is. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}
