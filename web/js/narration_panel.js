// What was narrated about the open conversation. It is text for people: clearing it changes nothing else.

import { fill, h } from "./dom.js";
import { shortTime } from "./ticking.js";
import { visibleText } from "./visible_text.js";

/** How many pieces are shown; older ones leave. */
const PIECES_MAX = 500;
const KINDS = { ask: "question", error: "error", explanation: "reason", progress: "progress", status: "status" };
const SPEAKERS = { agent: "agent", system: "singletree", user: "you" };

const TEXTS = {
  clear: "Clear the narration",
  cleared: "Cleared. The conversation is as it was.",
  empty: "Nothing is narrated at the moment. The conversation does not depend on it.",
  off: "Narration is off.",
  label: "narration",
};

export class NarrationPanel {
  #list = h("ol", { className: "narration" });
  #words = h("p", { className: "note", role: "status" });
  #clear = h("button", { type: "button", className: "wordy", onclick: () => this.#forget() });
  #session = null;
  #last = undefined;

  /** `texts` are the texts of the panel, in the language of what surrounds it. */
  constructor(api, texts = TEXTS) {
    Object.assign(this, { api, texts });
    this.#list.setAttribute("aria-label", texts.label);
    this.#clear.textContent = texts.clear;
  }

  /** Reads what was narrated since the last time, and returns the parts that show it. */
  async parts(session) {
    if (session !== this.#session) [this.#session, this.#last] = [session, (this.#list.replaceChildren(), undefined)];
    const { items, enabled } = await this.api.narration(session, this.#last);
    if (session === this.#session) {
      // Two reads may overlap: a piece is shown once.
      const fresh = items.filter((item) => !this.#list.querySelector(`[data-id="${CSS.escape(item.id)}"]`));
      this.#list.append(...fresh.map(row));
      this.#last = items.at(-1)?.id ?? this.#last;
      while (this.#list.childElementCount > PIECES_MAX) this.#list.firstChild.remove();
      this.#tell(enabled);
    }
    return [h("div", { className: "row" }, this.#clear), this.#words, this.#list];
  }

  #tell(enabled) {
    const isEmpty = this.#list.childElementCount === 0;
    this.#clear.disabled = isEmpty;
    this.#words.textContent = !enabled ? this.texts.off : isEmpty ? this.texts.empty : "";
  }

  async #forget() {
    const session = this.#session;
    try {
      await this.api.clearNarration(session);
    } catch (error) {
      this.#words.textContent = error.message;
      return;
    }
    if (session !== this.#session) return;
    fill(this.#list);
    this.#tell(true);
    this.#words.textContent = this.texts.cleared;
  }
}

function row(item) {
  return h(
    "li",
    { className: `${item.role} ${item.kind}`, data: { id: item.id } },
    h("span", { className: "note" }, h("time", { dateTime: item.timestamp }, shortTime(Date.parse(item.timestamp))), ` · ${SPEAKERS[item.role] ?? item.role} · ${KINDS[item.kind] ?? item.kind}`),
    h("span", { className: "as-it-is", dir: "auto" }, visibleText(item.content)),
  );
}
