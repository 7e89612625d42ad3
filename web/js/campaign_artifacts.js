// The artifacts of a campaign: each version with its content, and its approval.

import { KeptCards, decisionButtons, note, shownText, statusLine } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { h, icon } from "./dom.js";
import { visibleText, visibleValue } from "./visible_text.js";

export class CampaignArtifactList {
  #cards = new KeptCards();

  constructor(api, onChange) {
    Object.assign(this, { api, onChange });
  }

  /** Returns the cards, the newest version first. */
  parts(campaign, items, mayChange) {
    if (items.length === 0) return [note(words("noArtifacts"))];
    const key = (item) => `${campaign} ${item.kind}/${item.key}/${item.version} ${item.approved_by ?? ""} ${mayChange}`;
    return this.#cards.show(items.toReversed(), key, (item) => this.#card(campaign, item, mayChange));
  }

  #card(campaign, item, mayChange) {
    const title = visibleText(words("artifactVersion", { name: `${item.kind}/${item.key}`, version: item.version }));
    const by = words(item.source === "agent" ? "byAgent" : "byPerson");
    const content = h("div", {}, h("pre", { tabIndex: 0, role: "region", aria: { label: words("content") } }, h("code", { dir: "ltr" })));
    const status = statusLine();
    const isOpen = !item.approved_by && mayChange;
    const read = async () => {
      const whole = await this.api.campaignArtifact(campaign, item);
      content.querySelector("code").textContent = visibleValue(whole.content);
      return whole;
    };
    const head = [note(`${by} · ${item.approved_by ? words("approvedBy", { by: shownText(item.approved_by) }) : words("notApproved")}`), note(words("digest", { digest: item.digest }), { className: "note digest" })];
    if (!isOpen) {
      // The content of a decided version is read when somebody opens it.
      const details = h("details", { className: "artifact", ontoggle: () => details.open && read().catch((error) => (status.textContent = error.message)) }, h("summary", {}, title), head, content, status);
      return details;
    }
    const card = h("section", { className: "approval artifact risk-none", tabIndex: -1, aria: { label: title } }, h("h3", {}, icon("shield"), title), head, content);
    read().then(() => {
      const approve = async () => {
        await this.api.approveCampaignArtifact(campaign, { kind: item.kind, key: item.key, version: item.version, digest: item.digest });
        this.onChange();
      };
      card.append(...decisionButtons(content, { approve, status }).filter(Boolean));
    }, (error) => card.append((status.textContent = error.message, status)));
    return card;
  }
}
