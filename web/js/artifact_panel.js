// The artifacts of the open conversation: documents that its agent is shown with a command, once a person approved them.

import { h, icon } from "./dom.js";
import { whenSeen } from "./seen.js";
import { visibleText, visibleValue } from "./visible_text.js";

const INTRODUCTION = "Documents of this conversation. An agent that takes commands is shown the newest approved version of each.";
const UNSEEN = "Approve is locked until all of it has been in sight: scroll through it.";
/** Of kinds and keys, as the server has them. */
const NAME = "[A-Za-z0-9_.\\-]{1,128}";

export class ArtifactPanel {
  /** The cards by name and approval, kept so that what was in sight stays known. */
  #cards = new Map();
  #form = null;
  #session = null;

  /** `onChange` is called when an artifact was added or approved here. */
  constructor(api, onChange) {
    this.api = api;
    this.onChange = onChange;
  }

  /** Reads the artifacts, and returns the parts that show them. */
  async parts(session) {
    if (session !== this.#session) [this.#session, this.#form] = [session, this.#makeForm(session)], this.#cards.clear();
    const { items } = await this.api.artifacts(session);
    return [h("p", { className: "note" }, INTRODUCTION), ...items.toReversed().map((item) => this.#card(session, item)), this.#form];
  }

  #card(session, item) {
    const name = `${item.kind}/${item.key}/${item.version} ${Boolean(item.approved_by)}`;
    if (!this.#cards.has(name)) this.#cards.set(name, this.#makeCard(session, item));
    return this.#cards.get(name);
  }

  #makeCard(session, item) {
    const title = visibleText(`${item.kind} / ${item.key}, version ${item.version}`);
    const content = h("div", {}, h("pre", { tabIndex: 0, role: "region", aria: { label: "what it says" } }, h("code", { dir: "ltr" }, visibleValue(item.content))));
    const status = h("p", { className: "note", role: "status" });
    const by = item.source === "agent" ? "proposed by the agent" : "proposed by a person";
    const words = item.approved_by ? `${by} · approved by ${visibleText(item.approved_by)}` : `${by} · not approved`;
    const card = h("section", { className: "approval artifact risk-none", tabIndex: -1, aria: { label: title } }, h("h2", {}, icon("shield"), title), h("p", { className: "note" }, words), content, h("p", { className: "note digest" }, `digest ${item.digest.slice(0, 16)}…`));
    if (item.approved_by) return card;
    const approve = h("button", { type: "button", className: "primary", disabled: true, onclick: async () => {
      approve.disabled = true;
      try {
        await this.api.approveArtifact(session, { kind: item.kind, key: item.key, version: item.version, digest: item.digest });
        this.onChange();
      } catch (error) {
        status.textContent = error.message;
        approve.disabled = false;
      }
    } }, "Approve");
    status.textContent = UNSEEN;
    whenSeen(content, () => {
      approve.disabled = false;
      status.textContent = "";
    });
    card.append(h("div", { className: "row" }, approve), status);
    return card;
  }

  #makeForm(session) {
    const status = h("p", { className: "note", role: "status" });
    const kind = h("input", { name: "kind", required: true, pattern: NAME, placeholder: "letter", aria: { label: "kind" } });
    const key = h("input", { name: "key", required: true, pattern: NAME, placeholder: "spring", aria: { label: "key" } });
    const content = h("textarea", { rows: 4, required: true, aria: { label: "content" } });
    const form = h("form", { className: "propose" }, h("h2", {}, "Propose a document"), h("label", {}, "Kind", kind), h("label", {}, "Key", key), h("label", {}, "Content", content), h("div", { className: "row" }, h("button", { type: "submit" }, "Propose")), status);
    form.onsubmit = async (event) => {
      event.preventDefault();
      try {
        await this.api.addArtifact(session, { kind: kind.value, key: key.value, content: content.value });
        form.reset();
        status.textContent = "Proposed. It is shown to no model before it is approved.";
        this.onChange();
      } catch (error) {
        status.textContent = error.message;
      }
    };
    return form;
  }
}
