// Signing in: the key goes to the server once and is not kept here.

import { h } from "./dom.js";

/** Asks for a key, and goes on when the server takes it. */
export function signIn(api, then) {
  if (document.querySelector("dialog.sign-in")) return;
  const field = h("input", { type: "password", name: "key", autocomplete: "off", required: true, aria: { label: "API key" } });
  const told = h("p", { className: "note", role: "alert" });
  const dialog = h(
    "dialog",
    { className: "sign-in", aria: { labelledby: "sign-in" }, oncancel: (it) => it.preventDefault() },
    h("form", { onsubmit: enter }, h("h2", { id: "sign-in" }, "Sign in"), h("p", {}, "This server wants a key. An operator makes one with ", h("code", {}, "singletree keys create"), "."), field, told, h("button", { className: "primary" }, "Sign in")),
  );
  document.body.append(dialog);
  dialog.showModal();

  async function enter(event) {
    event.preventDefault();
    const key = field.value;
    field.value = "";
    try {
      await api.signIn(key);
    } catch (error) {
      told.textContent = error.message;
      return;
    }
    dialog.close();
    dialog.remove();
    then();
  }
}
