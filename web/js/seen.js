// Whether all of an element has been in sight, piece after piece.

/** Elements that are watched: the stretches of each that have been in sight, in pixels from its top, and whom to tell. */
const watched = new WeakMap();

/** Parts of a pixel that rounding may leave out. */
const SLACK = 2;

const lookAt = (entries) => entries.forEach(({ target }) => look(target));
// What stands before an element may push it through the window: no event tells of that.
const observer = new IntersectionObserver(lookAt, { threshold: Array.from({ length: 21 }, (_, n) => n / 20) });
const resized = new ResizeObserver(lookAt);

// Scrolling does not bubble; whatever scrolls around an element changes what is in sight of it.
addEventListener("scroll", lookAtAll, { capture: true, passive: true });
addEventListener("resize", lookAtAll);
document.addEventListener("visibilitychange", lookAtAll);

/** Elements that are in the document or may come back; an element that is gone for good is not kept by this. */
let all = [];

/** Calls `then` once when every part of an element has been in sight, however the reader got there. */
export function whenSeen(element, then) {
  watched.set(element, { seen: [], width: 0, height: 0, then });
  all.push(new WeakRef(element));
  observer.observe(element);
  resized.observe(element);
}

function lookAtAll() {
  all = all.filter((it) => watched.has(it.deref()));
  for (const it of all) look(it.deref());
}

function look(element) {
  const known = watched.get(element);
  if (!known || !element.isConnected || document.visibilityState !== "visible") return;
  const { top, bottom, width, height } = element.getBoundingClientRect();
  if (height === 0) return;
  // Of another width, or with other words in it, its lines stand elsewhere.
  if (known.width !== width || known.height !== height) Object.assign(known, { seen: [], width, height });
  const [from, to] = stretchInSight(element, top, bottom);
  if (to <= from) return;
  known.seen = joined([...known.seen, [from - top, to - top]]);
  const [first, last] = known.seen[0];
  if (first > SLACK || last < height - SLACK) return;
  watched.delete(element);
  observer.unobserve(element);
  resized.unobserve(element);
  known.then();
}

/** The part of an element that its surroundings let through, in pixels of the window. */
function stretchInSight(element, top, bottom) {
  let [from, to] = [Math.max(top, 0), Math.min(bottom, innerHeight)];
  for (let around = element.parentElement; around; around = around.parentElement) {
    if (getComputedStyle(around).overflowY === "visible") continue;
    const box = around.getBoundingClientRect();
    [from, to] = [Math.max(from, box.top), Math.min(to, box.bottom)];
  }
  return [from, to];
}

function joined(stretches) {
  const result = [];
  for (const [from, to] of stretches.toSorted((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && from <= last[1] + SLACK) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}
