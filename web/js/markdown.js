// Markdown of others becomes elements here, and nowhere else.

import DOMPurify from "../vendor/dompurify-3.4.18/purify.es.mjs";
import { Marked } from "../vendor/marked-18.2.1/marked.esm.js";
import { TooCostly, tokensOf } from "./bounded_lexer.js";
import { visibleText } from "./visible_text.js";

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
  // Otherwise their values would have to match ALLOWED_URI_REGEXP.
  ADD_URI_SAFE_ATTR: ["align", "start"],
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

/**
 * What stands in an element: the blocks of its text with the nodes that show them, and the links that the text defines; or how
 * long the text is that is shown as it is.
 */
const shown = new WeakMap();

/**
 * Shows Markdown in an element. The blocks that it shows already stay as they are: a text that grows costs its last block. A
 * text that costs too much is shown as it is.
 */
export function show(element, text) {
  const visible = visibleText(text);
  const known = shown.get(element);
  // It has grown: it would cost still more.
  if (known?.plain <= visible.length) return showPlain(element, visible);
  try {
    showBlocks(element, tokensOf(visible, marked.defaults), known);
  } catch (error) {
    if (!(error instanceof TooCostly)) console.warn("a text is shown as it is", error);
    showPlain(element, visible);
  }
}

function showPlain(element, text) {
  const box = document.createElement("div");
  box.className = "as-it-is";
  box.textContent = text;
  element.replaceChildren(box);
  shown.set(element, { plain: text.length });
}

function showBlocks(element, tokens, known) {
  const links = JSON.stringify(tokens.links);
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
  // What was written as a character reference is a character only now.
  const texts = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const seen = visibleText(texts.currentNode.data);
    if (seen !== texts.currentNode.data) texts.currentNode.data = seen;
  }
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
