// The list of conversations, and the count of what waits for a person.

import { textOf } from "./conversation.js";
import { fill, h, icon } from "./dom.js";
import { visibleText } from "./visible_text.js";

const titles = new Map();

export class Sessions {
  #list = h("ul", { className: "sessions", aria: { label: "conversations" } });
  #more = h("button", { type: "button", className: "quiet wordy", hidden: true, onclick: () => this.#next() }, "Older conversations");
  #items = [];
  #cursor = null;
  #waiting = new Set();
  #current = null;

  /** `acts`: `remove(id)`, and `called(id, title)` when it is known how the one that is open is called. */
  constructor(api, acts) {
    this.api = api;
    this.acts = acts;
    this.element = h("div", { className: "scroll" }, this.#list, this.#more);
  }

  /** Reads the first page anew. */
  async refresh() {
    const [page, pending] = await Promise.all([this.api.sessions(), this.api.pending()]);
    const older = this.#items.filter((it) => !page.items.some((other) => other.id === it.id));
    // The newest come first, and what is not among them any more is older.
    this.#items = [...page.items, ...(this.#cursor ? older : [])];
    this.#cursor ??= page.next;
    this.#waiting = new Set(pending.items.map((it) => it.session));
    this.#show();
    return this.#waiting.size;
  }

  /** Marks the one that is open. */
  set current(id) {
    this.#current = id;
    this.acts.called(id, titles.get(id));
    this.#show();
  }

  async #next() {
    const page = await this.api.sessions(this.#cursor);
    this.#cursor = page.next;
    this.#items.push(...page.items.filter((it) => !this.#items.some((other) => other.id === it.id)));
    this.#show();
  }

  #show() {
    this.#more.hidden = !this.#cursor;
    fill(this.#list, this.#items.map((it) => this.#row(it)));
  }

  #row(it) {
    const waits = this.#waiting.has(it.id);
    const title = h("span", { className: "title", dir: "auto", data: { of: it.id } }, titles.get(it.id) ?? visibleText(it.id));
    if (!titles.has(it.id)) this.#name(it.id);
    return h(
      "li",
      {},
      h(
        "a",
        { href: `#/s/${encodeURIComponent(it.id)}`, aria: it.id === this.#current ? { current: "page" } : {} },
        title,
        h("span", { className: "about" }, h("span", {}, it.agent, " · ", ago(it.updated_at)), waits && h("span", { className: "badge" }, icon("shield"), "waits for you")),
      ),
      h("button", { type: "button", className: "quiet", title: "Delete", aria: { label: `Delete ${it.id}` }, onclick: () => this.acts.remove(it.id) }, icon("bin")),
    );
  }

  async #name(id) {
    titles.set(id, id);
    const page = await this.api.messages(id, { from: 0, limit: 1 }).catch(() => null);
    if (!page?.items[0] || !this.begins(id, textOf(page.items[0]))) titles.delete(id);
  }

  /** A conversation is called by how it begins. */
  begins(id, said) {
    const text = said.trim().slice(0, 80);
    if (!text) return false;
    titles.set(id, visibleText(text));
    // The row may have been made anew meanwhile.
    const shown = this.#list.querySelector(`.title[data-of="${CSS.escape(id)}"]`);
    if (shown) shown.textContent = titles.get(id);
    if (id === this.#current) this.acts.called(id, titles.get(id));
    return true;
  }
}

const STEPS = [[60, "second"], [60, "minute"], [24, "hour"], [7, "day"], [5, "week"], [12, "month"], [Infinity, "year"]];
const words = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

/** How long ago that was, for people. */
export function ago(at) {
  let span = Math.min(0, (new Date(at) - Date.now()) / 1000);
  for (const [size, unit] of STEPS) {
    if (-span < size) return words.format(Math.round(span), unit);
    span /= size;
  }
  return "";
}
