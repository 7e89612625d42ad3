// The form for messages. A draft is kept for its conversation until it is sent.

import { fill, h, icon } from "./dom.js";
import { readDraft, writeDraft } from "./drafts.js";

const EDITING = "You are editing an earlier message. Sending it continues in a copy of this conversation; this one stays as it is.";
const EDITING_ANEW = "You are editing a message that was not answered. It is sent as a new message.";

export class Composer {
  #form;
  #field;
  #images;
  #stop;
  #editBar;
  #editNote;
  #session = null;
  #attached = [];
  #tellOpened;
  /** Resolves when the first conversation is open. */
  #opened = new Promise((resolve) => (this.#tellOpened = resolve));
  /** The message that is edited, and the draft that was there before. */
  #edit = null;

  /** `actions`: `send({text, images, session, editing})`, `stop()`, `upload(file, session)`. */
  constructor(actions) {
    this.actions = actions;
    this.#field = h("textarea", { rows: 1, placeholder: "Write a message", dir: "auto", aria: { label: "message" }, oninput: () => this.#changed(), onkeydown: (event) => this.#keyPressed(event) });
    const picker = h("input", { type: "file", accept: "image/png,image/jpeg,image/gif,image/webp", multiple: true, hidden: true, onchange: () => this.#picked(picker) });
    this.#images = h("div", { className: "attached" });
    const cancel = h("button", { type: "button", className: "quiet wordy", onclick: () => this.leaveEdit() }, "Cancel editing");
    this.#editNote = h("p", { className: "note" });
    this.#editBar = h("div", { className: "editing", hidden: true }, this.#editNote, cancel);
    const send = h("button", { type: "submit", className: "primary round", title: "Send (Enter)", aria: { label: "Send" } }, icon("send"));
    this.#stop = h("button", { type: "button", className: "round", title: "Stop (Esc)", aria: { label: "Stop" }, hidden: true, onclick: () => actions.stop() }, icon("stop"));
    const attach = h("button", { type: "button", className: "round quiet", title: "Attach an image", aria: { label: "Attach an image" }, onclick: () => picker.click() }, icon("image"));
    this.#form = h("form", { className: "composer", onsubmit: (event) => (event.preventDefault(), this.#submit()) }, this.#editBar, this.#images, attach, picker, this.#field, this.#stop, send);
    this.#field.addEventListener("paste", (event) => this.#attach([...(event.clipboardData?.files ?? [])]));
  }

  get element() {
    return this.#form;
  }

  /** Shows the draft of a conversation; text typed before the first conversation was open is added to its draft. */
  open(session) {
    const typedBefore = this.#session === null ? this.#field.value : "";
    this.#edit = null;
    this.#editBar.hidden = true;
    this.#session = session;
    this.#tellOpened();
    const { text, images } = readDraft(session);
    this.#set(joined(text, typedBefore), images);
    this.focus();
  }

  focus() {
    // A keyboard that comes up by itself would cover the page of a phone.
    if (matchMedia("(pointer: fine)").matches) this.#field.focus();
  }

  /** Whether something can be stopped. */
  set canStop(canStop) {
    this.#stop.hidden = !canStop;
  }

  set placeholder(placeholder) {
    if (this.#field.placeholder !== placeholder) this.#field.placeholder = placeholder;
  }

  /** Whether an earlier message is edited. */
  get isEditing() {
    return this.#edit !== null;
  }

  /** Takes an earlier message into the form, with its images; without its id it is sent as a new message. */
  beginEdit(message, text, images) {
    this.#editNote.textContent = message === null ? EDITING_ANEW : EDITING;
    this.#edit = { message, before: this.#edit?.before ?? { text: this.#field.value, images: this.#attached } };
    this.#editBar.hidden = false;
    this.#set(text, images);
    this.#field.focus();
  }

  /** Ends the edit without sending: the draft from before is there again. */
  leaveEdit() {
    if (!this.#edit) return;
    const { text, images } = this.#edit.before;
    this.#edit = null;
    this.#editBar.hidden = true;
    this.#set(text, images);
    this.#field.focus();
  }

  #set(text, images) {
    this.#field.value = text;
    this.#attached = images;
    this.#showAttached();
    this.#changed();
  }

  #changed() {
    if (this.#session !== null && !this.#edit) writeDraft(this.#session, { text: this.#field.value, images: this.#attached });
    this.#field.style.height = "auto";
    this.#field.style.height = `${Math.min(this.#field.scrollHeight, 240)}px`;
  }

  #keyPressed(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    } else if (event.key === "Escape" && this.#edit) {
      // Elsewhere Escape stops the answer.
      event.stopPropagation();
      this.leaveEdit();
    }
  }

  async #submit() {
    const text = this.#field.value.trim();
    const [session, images, edit] = [this.#session, this.#attached, this.#edit];
    if (!text && images.length === 0) return this.leaveEdit();
    this.#edit = null;
    this.#editBar.hidden = true;
    this.#set(edit?.before.text ?? "", edit?.before.images ?? []);
    if (await this.actions.send({ text, images: images.map((image) => image.url), session, editing: edit?.message })) return;
    if (edit && this.#session === session) this.beginEdit(edit.message, text, images);
    else this.giveBack(session, text, images);
  }

  /** Puts back a message that was not sent, before the text that was typed since. */
  giveBack(session, text, images = []) {
    if (this.#session !== session && session !== null) {
      const draft = readDraft(session);
      return writeDraft(session, { text: joined(text, draft.text), images: [...images, ...draft.images] });
    }
    const before = this.#edit?.before;
    if (before) {
      Object.assign(before, { text: joined(text, before.text), images: [...images, ...before.images] });
      return writeDraft(this.#session, before);
    }
    this.#set(joined(text, this.#field.value), [...images, ...this.#attached]);
    this.#field.focus();
  }

  #picked(picker) {
    this.#attach([...picker.files]);
    // Otherwise the same file cannot be picked again.
    picker.value = "";
  }

  async #attach(files) {
    // A picture belongs to a conversation: one that was picked before the first is open waits for it.
    await this.#opened;
    const session = this.#session;
    for (const file of files) {
      const url = await this.actions.upload(file, session);
      if (!url) continue;
      if (session === this.#session) this.#attached = [...this.#attached, { url, name: file.name }];
      else this.giveBack(session, "", [{ url, name: file.name }]);
    }
    this.#showAttached();
    this.#changed();
  }

  #remove(image) {
    this.#attached = this.#attached.filter((other) => other !== image);
    this.#showAttached();
    this.#changed();
    this.#field.focus();
  }

  #showAttached() {
    const chip = (image) =>
      h("span", { className: "chip" }, image.name, h("button", { type: "button", className: "quiet", aria: { label: `Remove ${image.name}` }, onclick: () => this.#remove(image) }, icon("cross")));
    fill(this.#images, this.#attached.map(chip));
  }
}

const joined = (text, typed) => [text, typed].filter(Boolean).join("\n");
