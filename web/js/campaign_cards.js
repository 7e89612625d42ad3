// Parts that the campaign pages share: cards that are kept while the thing they show is the same, and buttons that act once.

import { h } from "./dom.js";
import { whenSeen } from "./seen.js";
import { visibleText } from "./visible_text.js";
import { words } from "./campaign_words.js";

/** A new card's buttons are disabled this long: a click that was meant for the card before it decides nothing. */
const READ_MS = 1000;

/** Elements by the thing that they show: typed text, focus and the record of the parts seen stay while it is the same. */
export class KeptCards {
  #cards = new Map();

  /** Returns the elements of these items, made by `make` where `keyOf(item)` is new; those of other items are forgotten. */
  show(items, keyOf, make) {
    const kept = new Map(items.map((item) => [keyOf(item), item]));
    const shown = [...kept].map(([key, item]) => [key, this.#cards.get(key) ?? make(item)]);
    this.#cards = new Map(shown);
    return shown.map(([, element]) => element);
  }
}

/** A button that is disabled while its action runs; a failure is told in `status`. */
export function actionButton(label, act, { className = "", status, name } = {}) {
  const button = h("button", { type: "button", className, data: name ? { does: name } : {}, onclick: async () => {
    button.disabled = true;
    if (status) status.textContent = "";
    try {
      await act();
    } catch (error) {
      if (!status) throw error;
      status.textContent = problemText(error);
    }
    button.disabled = false;
  } }, label);
  return button;
}

/** The words for a refusal: of two decisions that race, one is told that it came too late. */
export function problemText(error) {
  if (error.category === "campaign_changed" || error.category === "campaign_status_unfit") return `${words("changed")} (${error.message})`;
  return error.hint ? `${error.message} (${error.hint})` : error.message;
}

/** Buttons to approve and reject a thing that has to be read first: approve is locked until `shown` has been in sight. */
export function decisionButtons(shown, { approve, reject, status }) {
  const field = reject && h("textarea", { rows: 1, maxLength: 4000 });
  const yes = actionButton(words("approve"), () => approve(), { className: "primary", status, name: "approve" });
  const no = reject && actionButton(words("reject"), () => reject(field.value.trim() || undefined), { status, name: "reject" });
  let [isRead, isSeen] = [false, false];
  const unlock = () => {
    yes.disabled = !isRead || !isSeen;
    if (no) no.disabled = !isRead;
  };
  unlock();
  status.textContent = words("unseen");
  setTimeout(() => (isRead = true, unlock()), READ_MS);
  whenSeen(shown, () => {
    isSeen = true;
    if (status.textContent === words("unseen")) status.textContent = "";
    unlock();
  });
  return [field && h("label", { className: "reason" }, words("reason"), field), h("div", { className: "row" }, yes, no), status];
}

/** A paragraph of small text. */
export const note = (text, props = {}) => h("p", { className: "note", ...props }, text);

/** A text of others, as it may be shown. */
export const shownText = (text) => visibleText(String(text ?? ""));

/** A status line that screen readers announce. */
export const statusLine = () => h("p", { className: "note", role: "status" });
