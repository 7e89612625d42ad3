// Texts that depend on the time, updated by one timer that does nothing while the page is hidden.

const EACH_MS = 1000;

/** Elements, held weakly, and the functions that return their texts. */
let ticking = [];

/**
 * Shows `words(element)` in an element, each second anew. `words` is held strongly: it must not refer to the element in
 * another way, or the element is never freed. Screen readers are not told of each second.
 */
export function tick(element, words) {
  element.textContent = words(element);
  ticking.push({ element: new WeakRef(element), words });
  return element;
}

function update() {
  if (document.visibilityState !== "visible") return;
  ticking = ticking.filter(({ element }) => element.deref());
  for (const { element, words } of ticking) {
    const shown = element.deref();
    if (!shown) continue;
    const now = words(shown);
    if (shown.textContent !== now) shown.textContent = now;
  }
}

setInterval(update, EACH_MS);
document.addEventListener("visibilitychange", update);

const STEPS = [[60, "second"], [60, "minute"], [24, "hour"], [7, "day"], [5, "week"], [12, "month"], [Infinity, "year"]];
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

/** A span of seconds as people say it: "in 5 min", "2 days ago". */
export function relativeTime(seconds) {
  let span = seconds;
  for (const [size, unit] of STEPS) {
    if (Math.abs(span) < size) return relative.format(Math.round(span), unit);
    span /= size;
  }
  return "";
}

/** How long ago that was. */
export const ago = (at) => relativeTime(Math.min(0, (new Date(at) - Date.now()) / 1000));

/** A moment, short where it is today. */
export function shortTime(at) {
  const [moment, now] = [new Date(at), new Date()];
  const isToday = moment.toDateString() === now.toDateString();
  return isToday ? moment.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }) : moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
