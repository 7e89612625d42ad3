// Where a person writes. What is typed is kept for its conversation until it is accepted.

import { fill, h, icon } from "./dom.js";

const drafts = new Map();

export class Composer {
  #form;
  #field;
  #images;
  #send;
  #stop;
  #session = null;
  #attached = [];

  /** `acts`: `send(text, images, session)`, `stop()`, `upload(file)`. */
  constructor(acts) {
    this.#field = h("textarea", { rows: 1, placeholder: "Write a message", dir: "auto", aria: { label: "message" }, oninput: () => this.#typed(), onkeydown: (it) => this.#key(it) });
    const picker = h("input", { type: "file", accept: "image/png,image/jpeg,image/gif,image/webp", multiple: true, hidden: true, onchange: () => this.#attach([...picker.files]) });
    this.#images = h("div", { className: "attached" });
    this.#send = h("button", { type: "submit", className: "primary round", title: "Send (Enter)", aria: { label: "Send" } }, icon("send"));
    this.#stop = h("button", { type: "button", className: "round", title: "Stop (Esc)", aria: { label: "Stop" }, hidden: true, onclick: () => acts.stop() }, icon("stop"));
    const attach = h("button", { type: "button", className: "round quiet", title: "Attach an image", aria: { label: "Attach an image" }, onclick: () => picker.click() }, icon("image"));
    this.#form = h("form", { className: "composer", onsubmit: (it) => (it.preventDefault(), this.#submit()) }, this.#images, attach, picker, this.#field, this.#stop, this.#send);
    this.#field.addEventListener("paste", (it) => this.#attach([...(it.clipboardData?.files ?? [])]));
    this.acts = acts;
  }

  get element() {
    return this.#form;
  }

  /** Shows the draft of a conversation: of the first one also what was typed before it was open. */
  open(session) {
    if (this.#session === null && this.#field.value) drafts.set(session, this.#field.value);
    this.#session = session;
    this.#attached = [];
    this.#showAttached();
    this.#field.value = drafts.get(session) ?? "";
    this.#grow();
    this.focus();
  }

  focus() {
    // A keyboard that comes up by itself would cover the page of a phone.
    if (matchMedia("(pointer: fine)").matches) this.#field.focus();
  }

  /** Says whether something runs: then what is sent steers it, and it can be stopped. */
  set running(running) {
    this.#stop.hidden = !running;
    this.#field.placeholder = running ? "Say something to the turn that runs" : "Write a message";
  }

  /** Puts a text into the field. */
  set text(text) {
    this.#field.value = text;
    this.#typed();
    this.#field.focus();
  }

  #typed() {
    drafts.set(this.#session, this.#field.value);
    this.#grow();
  }

  #grow() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${Math.min(this.#field.scrollHeight, 240)}px`;
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    }
  }

  async #submit() {
    const text = this.#field.value.trim();
    const [session, images] = [this.#session, this.#attached];
    if (!text && images.length === 0) return;
    this.#field.value = "";
    this.#attached = [];
    this.#showAttached();
    this.#typed();
    if (!(await this.acts.send(text, images.map((it) => it.blob), session))) this.giveBack(session, text, images);
  }

  /** Puts back what was not accepted, before what was typed there since: nothing that was written is lost. */
  giveBack(session, text, images = []) {
    const before = (typed) => [text, typed].filter(Boolean).join("\n");
    if (this.#session !== session && session !== null) {
      drafts.set(session, before(drafts.get(session)));
    } else {
      this.#attached = [...images, ...this.#attached];
      this.#showAttached();
      this.text = before(this.#field.value);
    }
  }

  async #attach(files) {
    for (const file of files) {
      const blob = await this.acts.upload(file);
      if (blob) this.#attached.push({ blob, name: file.name });
    }
    this.#showAttached();
  }

  #showAttached() {
    const one = (it) =>
      h("span", { className: "chip" }, it.name, h("button", { type: "button", className: "quiet", aria: { label: `Remove ${it.name}` }, onclick: () => ((this.#attached = this.#attached.filter((other) => other !== it)), this.#showAttached()) }, icon("cross")));
    fill(this.#images, this.#attached.map(one));
  }
}
