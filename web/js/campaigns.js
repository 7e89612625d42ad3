// The campaigns of the page: their list, the form that begins one, and the one that is open.

import { campaignAddress, campaignInAddress, showsCampaigns } from "./campaign_links.js";
import { CampaignForm, CampaignList } from "./campaign_list.js";
import { CampaignPage } from "./campaign_page.js";
import { words } from "./campaign_words.js";
import { fill } from "./dom.js";
import { LANGUAGE } from "./languages.js";

const $ = (id) => document.getElementById(id);

/** `actions` are those of the page: `fail(error)`, `announce(text)`, `tell(text)`, `signInAnew()`. */
export class Campaigns {
  #isOpen = false;

  constructor(api, actions) {
    Object.assign(this, { api, actions });
    this.list = new CampaignList(api);
    this.form = new CampaignForm(api, (id) => (location.hash = campaignAddress(id)));
    this.page = new CampaignPage(api, {
      ...actions,
      titled: (name) => this.#title(name),
      refreshList: () => this.refresh(),
      refused: (response) => (response.status === 401 ? actions.signInAnew() : actions.fail(new Error(`The server answered ${response.status}.`))),
      deleted: () => (location.hash = "#/campaigns"),
    });
    $("campaign-list").append(this.list.element);
  }

  /** Shows the campaign that the address names, or the form; closes the open one when the address names none. */
  route(agents) {
    const isShown = showsCampaigns();
    if (!isShown && this.#isOpen) this.page.close();
    this.#isOpen = isShown;
    if (!isShown) return;
    const id = campaignInAddress();
    this.list.current = id;
    this.refresh();
    if (id) {
      fill($("campaign"), this.page.element);
      this.page.open(id);
    } else this.#showForm(agents);
  }

  /** Reads the list anew. */
  refresh() {
    if (!showsCampaigns()) return Promise.resolve();
    return this.list.refresh().catch(this.actions.fail);
  }

  #title(name) {
    $("title").textContent = name;
    $("title").title = "";
  }

  async #showForm(agents) {
    this.page.close();
    this.#title(words("newCampaign"));
    fill($("campaign"), this.form.element);
    this.form.element.lang = LANGUAGE;
    const offered = await this.api.campaignTemplates().catch((error) => (this.actions.fail(error), { items: [], agents: [] }));
    this.form.offer(agents, offered);
  }
}
