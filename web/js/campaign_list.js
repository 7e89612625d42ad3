// The list of campaigns, and the form that begins one.

import { budgetFields, budgetOf, reasonWords } from "./campaign_head.js";
import { note, shownText, statusLine } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { fill, h, icon } from "./dom.js";
import { ago, tick } from "./ticking.js";

export class CampaignList {
  #list = h("ul", { className: "sessions campaigns", aria: { label: words("campaigns") } });
  #empty = note(words("noCampaigns"));
  #more = h("button", { type: "button", className: "quiet wordy", hidden: true, onclick: () => this.#readMore() }, words("olderCampaigns"));
  #items = [];
  #next = null;
  #current = null;

  constructor(api) {
    this.api = api;
    this.element = h("div", { className: "scroll" }, this.#empty, this.#list, this.#more);
  }

  /** Reads the first page anew. Returns how many campaigns wait for a person. */
  async refresh() {
    const page = await this.api.campaigns();
    const rest = this.#items.filter((item) => page.next && item.id > page.items.at(-1)?.id);
    [this.#items, this.#next] = [[...page.items, ...rest], rest.length > 0 ? this.#next : page.next];
    this.#show();
    return this.#items.filter((item) => item.waits_for).length;
  }

  /** Marks the one that is open. */
  set current(id) {
    this.#current = id;
    this.#show();
  }

  async #readMore() {
    const page = await this.api.campaigns(this.#next);
    this.#next = page.next;
    this.#items.push(...page.items.filter((item) => !this.#items.some((other) => other.id === item.id)));
    this.#show();
  }

  #show() {
    this.#more.hidden = !this.#next;
    this.#empty.hidden = this.#items.length > 0;
    fill(this.#list, this.#items.toSorted((a, b) => b.updated_at.localeCompare(a.updated_at)).map((item) => this.#row(item)));
  }

  #row(item) {
    const about = h("span", { className: "about" }, h("span", {}, words(item.status), " · ", tick(h("time", { dateTime: item.updated_at }), () => ago(item.updated_at))), item.waits_for && h("span", { className: "badge" }, icon("shield"), words("waitsForYou")));
    return h("li", {}, h("a", { href: `#/c/${encodeURIComponent(item.id)}`, title: reasonWords(item) || item.id, aria: item.id === this.#current ? { current: "page" } : {} }, h("span", { className: "title", dir: "auto" }, shownText(item.name)), about));
  }
}

/** The form that begins a campaign. `onCreated` gets its id. */
export class CampaignForm {
  #status = statusLine();
  #name = h("input", { name: "name", maxLength: 200 });
  #goal = h("textarea", { name: "goal", rows: 4, maxLength: 4096 });
  #agent = h("select", { name: "agent" });
  #template = h("select", { name: "template" });
  #budget = budgetFields();
  /** The id of the campaign that this form makes: sent again after a lost answer, it makes no second one. */
  #id = newCampaignId();

  constructor(api, onCreated) {
    this.api = api;
    const templates = h("label", { hidden: true }, words("template"), this.#template);
    this.#template.onchange = () => this.#require();
    this.templates = templates;
    this.element = h("form", { className: "propose campaign-form", aria: { label: words("newCampaign") } }, h("h2", {}, words("newCampaign")), note(words("introduction")), templates, h("label", {}, words("name"), this.#name), h("label", {}, words("goal"), this.#goal), h("label", {}, words("agent"), this.#agent), h("fieldset", {}, h("legend", {}, words("budget")), Object.values(this.#budget).map(({ label }) => label)), h("div", { className: "row" }, h("button", { type: "submit", className: "primary" }, words("begin"))), this.#status);
    this.element.onsubmit = async (event) => {
      event.preventDefault();
      try {
        const made = await this.api.createCampaign(this.#asked());
        this.element.reset();
        this.#id = newCampaignId();
        this.#require();
        this.#status.textContent = "";
        onCreated(made.id);
      } catch (error) {
        this.#status.textContent = error.hint ? `${error.message} (${error.hint})` : error.message;
      }
    };
    this.#require();
  }

  /** Offers these templates, and of these agents those that may pursue campaigns. */
  offer(agents, { items: templates, agents: able }) {
    fill(this.#agent, able.map((id) => h("option", { value: id }, agents.find((agent) => agent.id === id)?.name ?? id)));
    fill(this.#template, h("option", { value: "" }, words("noTemplate")), templates.map((template) => h("option", { value: template.name }, template.name)));
    this.templates.hidden = templates.length === 0;
    this.#require();
  }

  /** Without a template a goal is needed; with one, its own values hold where nothing is said. */
  #require() {
    const isFree = !this.#template.value;
    this.#goal.required = isFree;
    this.#agent.disabled = !isFree;
  }

  #asked() {
    const template = this.#template.value || undefined;
    const budget = budgetOf(this.#budget);
    const isLimited = Object.values(budget).some((part) => part !== undefined);
    return { id: this.#id, template, name: this.#name.value || undefined, goal: this.#goal.value || undefined, agent: template ? undefined : this.#agent.value || undefined, budget: isLimited ? budget : undefined };
  }
}

const newCampaignId = () => `cmp_${crypto.randomUUID().replaceAll("-", "")}`;
