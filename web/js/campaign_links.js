// What a page that shows no campaign needs of campaigns: their addresses, and the links to them. The rest of their
// modules is loaded with the first campaign or list of campaigns that is shown.

import { LANGUAGE, textsOf } from "./languages.js";

const ADDRESS = /^#\/(?:c\/(.+)|campaigns)$/;
const PREFIX = "campaign:";

/** The texts of the links, in the languages of `languages.js`. */
export const linkTexts = textsOf({
  campaigns: ["Campaigns", "Kampagnen", "Campañas", "Campagnes", "キャンペーン", "活动"],
  conversations: ["Conversations", "Gespräche", "Conversaciones", "Conversations", "会話", "对话"],
  campaign: ["campaign", "Kampagne", "campaña", "campagne", "キャンペーン", "活动"],
});

const $ = (id) => document.getElementById(id);

/** Whether the address is one of campaigns. */
export const showsCampaigns = () => ADDRESS.test(location.hash);

/** The id of the campaign that the address names; `null` for the list of campaigns. */
export const campaignInAddress = () => {
  const id = ADDRESS.exec(location.hash)?.[1];
  return id ? decodeURIComponent(id) : null;
};

/** The id of the campaign whose session this is, if it is one. */
export const campaignOf = (session) => (session?.startsWith(PREFIX) ? session.slice(PREFIX.length) : null);

/** The address of a campaign. */
export const campaignAddress = (id) => `#/c/${encodeURIComponent(id)}`;

let conversations = "#/new";

/** Shows which of the two kinds is shown; the link to conversations leads to the one that was shown last. */
export function markShownKind() {
  const isShown = showsCampaigns();
  if (!isShown) conversations = location.hash || "#/new";
  document.body.classList.toggle("campaigns", isShown);
  $("campaign").hidden = $("campaign-list").hidden = !isShown;
  $("to-conversations").href = conversations;
  for (const [id, on] of [["to-conversations", !isShown], ["to-campaigns", isShown]]) {
    if (on) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
}

/** Labels the links in the language of the browser. */
export function labelLinks() {
  for (const [id, text] of [["to-conversations", "conversations"], ["to-campaigns", "campaigns"]]) {
    $(id).textContent = linkTexts(text);
    $(id).lang = LANGUAGE;
  }
  $("campaign").setAttribute("aria-label", linkTexts("campaigns"));
}
