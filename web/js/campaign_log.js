// The log of a campaign: the newest entries, and earlier ones on demand.

import { code, pretty } from "./call_view.js";
import { actionButton, note } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { h } from "./dom.js";
import { shortTime } from "./ticking.js";
import { visibleText } from "./visible_text.js";

/** How many entries are shown when a campaign is opened, and read at a time. */
const PAGE = 100;
/** How many are shown at most; the oldest leave, and can be read again. */
const ENTRIES_MAX = 1000;
const SUMMARY_MAX = 120;

export class CampaignLogView {
  #list = h("ol", { className: "log" });
  #earlier = actionButton("…", () => this.#readEarlier(), { className: "wordy" });
  #first = 1;
  #campaign = null;

  constructor(api) {
    this.api = api;
    this.#earlier.setAttribute("aria-label", words("log"));
    this.element = h("div", {}, note(words("logNote")), this.#list, this.#earlier);
  }

  /** Reads the newest entries of a campaign, the last of which is `last`. */
  async open(campaign, last) {
    this.#campaign = campaign;
    this.#list.replaceChildren();
    this.#first = Math.max(1, last - PAGE + 1);
    const { items } = await this.api.campaignLog(campaign, { after: this.#first - 1, limit: PAGE });
    if (campaign !== this.#campaign) return;
    items.forEach((entry) => this.take(entry));
    this.#showEarlier();
  }

  /** Shows an entry that is new. */
  take(entry) {
    if (this.#list.querySelector(`[data-seq="${entry.seq}"]`)) return;
    this.#list.prepend(row(entry));
    while (this.#list.childElementCount > ENTRIES_MAX) {
      this.#list.lastChild.remove();
      this.#first = Number(this.#list.lastChild.dataset.seq);
    }
    this.#showEarlier();
  }

  async #readEarlier() {
    const campaign = this.#campaign;
    const from = Math.max(1, this.#first - PAGE);
    const { items } = await this.api.campaignLog(campaign, { after: from - 1, limit: this.#first - from });
    if (campaign !== this.#campaign) return;
    this.#list.append(...items.toReversed().map(row));
    this.#first = from;
    this.#showEarlier();
  }

  #showEarlier() {
    this.#earlier.hidden = this.#first <= 1;
  }
}

function row(entry) {
  const { seq, at, type, ...fields } = entry;
  const about = Object.entries(fields).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · ");
  const short = about.length > SUMMARY_MAX ? `${about.slice(0, SUMMARY_MAX)}…` : about;
  return h("li", { data: { seq, type } }, h("details", { className: "event" }, h("summary", {}, h("span", { className: "note" }, `${seq} `, h("time", { dateTime: at }, shortTime(Date.parse(at)))), h("span", { className: "kind" }, type), h("span", { className: "about", dir: "auto" }, visibleText(short).replaceAll("\n", " "))), code(pretty(entry))));
}
