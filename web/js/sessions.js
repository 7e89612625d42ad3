// The list of conversations, and the count of those that wait for a person.

import { campaignAddress, campaignOf, linkTexts } from "./campaign_links.js";
import { textOf } from "./conversation.js";
import { fill, h, icon } from "./dom.js";
import { ago, tick } from "./ticking.js";
import { visibleText } from "./visible_text.js";

const TITLE_MAX = 80;
const UNTITLED = "New conversation";

/** Titles by conversation, and those that are being read. */
const titles = new Map();
const reading = new Set();

export class Sessions {
  #list = h("ul", { className: "sessions", aria: { label: "conversations" } });
  #more = h("button", { type: "button", className: "quiet wordy", hidden: true, onclick: () => this.#readMore() }, "Older conversations");
  #items = [];
  #cursor = null;
  #waiting = new Set();
  #current = null;

  /** `actions`: `remove(id)`, `nameOf(agent)`, and `titled(id, title)` when the title of the open conversation is known. */
  constructor(api, actions) {
    this.api = api;
    this.actions = actions;
    this.element = h("div", { className: "scroll" }, this.#list, this.#more);
  }

  /** Reads the first page anew. Returns how many conversations wait for a person, and which of them did not before. */
  async refresh() {
    const [page, pending] = await Promise.all([this.api.sessions(), this.api.pending()]);
    const older = this.#items.filter((item) => !page.items.some((other) => other.id === item.id));
    // The newest come first, and what is not among them any more is older.
    this.#items = [...page.items, ...(this.#cursor ? older : [])];
    this.#cursor ??= page.next;
    const waiting = new Set(pending.items.map((wait) => wait.session));
    const begun = [...waiting].filter((id) => !this.#waiting.has(id));
    this.#waiting = waiting;
    this.#show();
    return { waiting: waiting.size, begun };
  }

  /** Marks the one that is open. */
  set current(id) {
    this.#current = id;
    this.actions.titled(id, titles.get(id));
    this.#show();
  }

  /** The title of a conversation, as far as it is known. */
  titleOf(id) {
    return titles.get(id) ?? UNTITLED;
  }

  async #readMore() {
    const page = await this.api.sessions(this.#cursor);
    this.#cursor = page.next;
    this.#items.push(...page.items.filter((item) => !this.#items.some((other) => other.id === item.id)));
    this.#show();
  }

  #show() {
    this.#more.hidden = !this.#cursor;
    fill(this.#list, this.#items.map((item) => this.#row(item)));
  }

  #row(item) {
    const waits = this.#waiting.has(item.id);
    // The session of a campaign is a record: it is shown as its campaign, and goes with it.
    const campaign = campaignOf(item.id);
    if (campaign === null && !titles.has(item.id)) this.#readTitle(item.id);
    return h(
      "li",
      {},
      h(
        "a",
        { href: campaign !== null ? campaignAddress(campaign) : `#/s/${encodeURIComponent(item.id)}`, title: item.id, aria: item.id === this.#current ? { current: "page" } : {} },
        h("span", { className: "title", dir: "auto", data: { of: item.id } }, campaign ?? this.titleOf(item.id)),
        h(
          "span",
          { className: "about" },
          h("span", {}, item.parent ? "copy · " : "", campaign !== null ? linkTexts("campaign") : [item.prompt_policy === "command" ? "commands · " : "", this.actions.nameOf(item.agent)].join(""), " · ", tick(h("time", { dateTime: item.updated_at }), () => ago(item.updated_at))),
          waits && h("span", { className: "badge" }, icon("shield"), "waits for you"),
        ),
      ),
      campaign === null && h("button", { type: "button", className: "quiet", title: "Delete", data: { deletes: item.id }, aria: { label: `Delete “${this.titleOf(item.id)}”` }, onclick: () => this.actions.remove(item.id) }, icon("bin")),
    );
  }

  async #readTitle(id) {
    if (reading.has(id)) return;
    reading.add(id);
    const page = await this.api.messages(id, { from: 0, limit: 1 }).catch(() => null);
    const message = page?.items[0] ?? page?.failed?.[0]?.message;
    if (message) this.setTitle(id, textOf(message));
    reading.delete(id);
  }

  /** A conversation has the beginning of its first message as its title. */
  setTitle(id, beginning) {
    const text = beginning.trim().slice(0, TITLE_MAX);
    if (!text || titles.get(id) === visibleText(text)) return;
    titles.set(id, visibleText(text));
    // The row may have been made anew meanwhile.
    const shown = this.#list.querySelector(`.title[data-of="${CSS.escape(id)}"]`);
    if (shown) shown.textContent = titles.get(id);
    this.#list.querySelector(`[data-deletes="${CSS.escape(id)}"]`)?.setAttribute("aria-label", `Delete “${titles.get(id)}”`);
    if (id === this.#current) this.actions.titled(id, titles.get(id));
  }
}
