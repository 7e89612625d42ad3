// A list of which only what is near the window is in the document.

const NEAR = 1200;
const GUESS = 140;

/**
 * Shows items of unlike heights in a scrolling element. `render(item, element?)` makes or renews an element; an item has an
 * `id` and a `version` that changes when it must be rendered anew.
 */
export class VirtualList {
  #scroller;
  #inner;
  #render;
  #items = [];
  #heights = new Map();
  #shown = new Map();
  #pinned = true;
  #frame = 0;
  #observer;
  /** Where the reader was at the last look: content that grows does not move this. */
  #top = 0;
  /** Whether the end may have moved since the last layout. */
  #hasGrown = false;
  /** Whether a button of the pointer is down on the list. */
  #isHeld = false;
  /** How long the last layout took, in milliseconds. */
  cost = 0;
  /** Called when the reader comes near the beginning. */
  onTop = () => {};
  /** Called when the element that had the focus is gone. */
  onFocusLost = () => {};
  /** Called when the reader leaves the end, or comes back to it. */
  onPinned = () => {};

  constructor(scroller, inner, render) {
    this.#scroller = scroller;
    this.#inner = inner;
    this.#render = render;
    this.#observer = new ResizeObserver((entries) => this.#measured(entries));
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#grown()).observe(scroller);
    // What moves between press and release gets no click.
    inner.addEventListener("pointerdown", (event) => (this.#isHeld = event.button === 0));
    // A menu that the browser opens may keep the release for itself.
    for (const name of ["pointerup", "pointercancel", "contextmenu", "dragend", "blur"]) addEventListener(name, () => this.#released());
  }

  /** Whether the end is in sight, and stays so. */
  get pinned() {
    return this.#pinned;
  }

  /** Shows these items. What is added before them does not move what is being read. */
  set(items) {
    const anchor = this.#pinned ? null : this.#anchor();
    this.#items = items;
    this.#grown(anchor);
  }

  /** Goes to the end and stays there. */
  toEnd() {
    this.#pinned = true;
    this.onPinned(true);
    this.#grown();
  }

  /** Brings an item into sight. */
  show(id) {
    const index = this.#items.findIndex((item) => item.id === id);
    if (index < 0) return;
    this.#pinned = false;
    this.#scroller.scrollTop = this.#offset(index) - 60;
    this.#later();
  }

  /** Forgets everything. */
  clear() {
    for (const element of this.#shown.values()) element.remove();
    this.#shown.clear();
    this.#heights.clear();
    this.#items = [];
    this.#pinned = true;
    this.#top = 0;
  }

  #height(item) {
    return this.#heights.get(item.id) ?? GUESS;
  }

  #offset(index) {
    let offset = 0;
    for (let i = 0; i < index; i += 1) offset += this.#height(this.#items[i]);
    return offset;
  }

  #anchor() {
    const top = this.#scroller.scrollTop;
    let offset = 0;
    for (const item of this.#items) {
      const height = this.#height(item);
      if (offset + height > top) return { id: item.id, into: top - offset };
      offset += height;
    }
    return null;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    // The event of an earlier scroll may come after content has grown: only the reader leaves the end, upwards.
    const pinned = scrollHeight - scrollTop - clientHeight < 48 || (this.#pinned && scrollTop >= this.#top);
    this.#top = scrollTop;
    if (pinned !== this.#pinned) {
      this.#pinned = pinned;
      this.onPinned(pinned);
    }
    if (scrollTop < NEAR) this.onTop();
    this.#later();
  }

  #measured(entries) {
    const anchor = this.#pinned ? null : this.#anchor();
    let changed = false;
    for (const { target, borderBoxSize } of entries) {
      const height = borderBoxSize[0].blockSize;
      // One that has left the document says nothing.
      if (!target.isConnected || this.#heights.get(target.dataset.id) === height) continue;
      this.#heights.set(target.dataset.id, height);
      changed = true;
    }
    if (changed) this.#grown(anchor);
  }

  #grown(anchor = null) {
    this.#hasGrown = true;
    this.#later(anchor);
  }

  #released() {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#later();
  }

  #later(anchor = null) {
    this.#wanted = anchor ?? this.#wanted;
    if (this.#isHeld) return;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#isHeld) return;
      const began = performance.now();
      this.#layout();
      this.cost = performance.now() - began;
    });
  }

  #wanted = null;

  #layout() {
    const total = this.#offset(this.#items.length);
    const { clientHeight } = this.#scroller;
    let top = this.#pinned ? total - clientHeight : this.#scroller.scrollTop;
    if (this.#wanted && !this.#pinned) {
      const index = this.#items.findIndex((item) => item.id === this.#wanted.id);
      if (index >= 0) top = this.#offset(index) + this.#wanted.into;
    }
    const moved = this.#wanted && !this.#pinned;
    this.#wanted = null;
    let [offset, from, to, before] = [0, -1, this.#items.length, 0];
    for (let i = 0; i < this.#items.length; i += 1) {
      const height = this.#height(this.#items[i]);
      if (from < 0 && offset + height >= top - NEAR) [from, before] = [i, offset];
      if (offset > top + clientHeight + NEAR) {
        to = i;
        break;
      }
      offset += height;
    }
    if (from < 0) from = this.#items.length;
    this.#place(this.#items.slice(from, to), before, to === this.#items.length ? 0 : total - this.#offset(to));
    // A reader who comes near the end follows it from its next growth on, and is not moved before.
    if (this.#pinned && this.#hasGrown) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else if (moved) this.#scroller.scrollTop = top;
    this.#hasGrown = false;
    this.#top = this.#scroller.scrollTop;
    // Whoever waits at the beginning does not scroll any more.
    if (!this.#pinned && this.#scroller.scrollTop < NEAR) this.onTop();
  }

  #place(items, before, after) {
    const wanted = new Set(items.map((item) => item.id));
    for (const [id, element] of this.#shown) {
      if (wanted.has(id)) continue;
      const hasFocus = element.contains(document.activeElement);
      // An element with the focus stays in the document when it is scrolled out of sight.
      if (hasFocus && this.#items.some((item) => item.id === id)) continue;
      this.#observer.unobserve(element);
      element.remove();
      this.#shown.delete(id);
      if (hasFocus) this.onFocusLost();
    }
    let next = null;
    for (const item of items.toReversed()) {
      let element = this.#shown.get(item.id);
      if (!element || element.dataset.version !== String(item.version)) {
        const made = this.#render(item, element);
        made.dataset.id = item.id;
        made.dataset.version = item.version;
        if (made !== element) {
          element?.remove();
          this.#observer.observe(made);
          this.#shown.set(item.id, made);
          element = made;
        }
      }
      if (element.nextElementSibling !== next || element.parentNode !== this.#inner) this.#inner.insertBefore(element, next);
      next = element;
    }
    this.#inner.style.paddingTop = `${before}px`;
    this.#inner.style.paddingBottom = `${after}px`;
  }
}
