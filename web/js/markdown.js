// Markdown of others becomes elements here, and nowhere else.

import DOMPurify from "../vendor/dompurify-3.4.18/purify.es.mjs";
import { Marked } from "../vendor/marked-18.2.1/marked.esm.js";

const marked = new Marked({ gfm: true, breaks: true });

const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "strong",
  "table", "tbody", "td", "th", "thead", "tr", "ul",
];

// Nothing that loads by itself, nothing that acts: images are links, links open apart and say where they go.
const ALLOWED = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

marked.use({
  renderer: {
    // HTML in a text is text.
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || "image")}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

function escaped(text) {
  return text.replace(/[&<>"']/g, (it) => `&#${it.charCodeAt(0)};`);
}

/** Characters that change the order in which a text is read, without being seen. */
const BIDI = /[\u202A-\u202E\u2066-\u2069\u200E\u200F\u061C]/g;

/** Takes out of a text what turns it round. */
export function straight(text) {
  return text.replace(BIDI, "\uFFFD");
}

/** What stands in an element: the blocks of its text with the nodes that show them, and the links that the text defines. */
const shown = new WeakMap();

/** Shows Markdown in an element. The blocks that it shows already stay as they are: a text that grows costs its last block. */
export function show(element, text) {
  const tokens = marked.lexer(straight(text));
  const links = JSON.stringify(tokens.links);
  const known = shown.get(element);
  // A definition changes what any block before it says.
  const blocks = known?.links === links ? known.blocks : [];
  const alike = (token, block) => block?.type === token.type && block.raw === token.raw;
  let same = 0;
  while (same < tokens.length && alike(tokens[same], blocks[same])) same += 1;
  if (same === 0) element.replaceChildren();
  for (const { nodes } of blocks.splice(same)) for (const it of nodes) it.remove();
  for (const token of tokens.slice(same)) {
    const fragment = rendered(token);
    blocks.push({ type: token.type, raw: token.raw, nodes: [...fragment.childNodes] });
    element.append(fragment);
  }
  shown.set(element, { links, blocks });
}

/** Renders something of each kind, for nobody: the first text that is shown does not wait for the parts that it needs. */
export function warm() {
  show(document.createElement("div"), "# a\n\nb **c** `d` [e](https://example.org/)\n\n- f\n\n> g\n\n```\nh\n```\n\n|i|\n|-|\n|j|");
}

function rendered(token) {
  const fragment = DOMPurify.sanitize(marked.parser([token]), ALLOWED);
  for (const link of fragment.querySelectorAll("a")) {
    if (!link.getAttribute("href")) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    link.title = link.href;
  }
  // Wide things scroll by themselves, reachable by keyboard.
  for (const wide of fragment.querySelectorAll("pre, table")) {
    const box = document.createElement("div");
    box.className = "wide";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", wide.tagName === "PRE" ? "code" : "table");
    wide.replaceWith(box);
    box.append(wide);
  }
  return fragment;
}
