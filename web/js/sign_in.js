// Signing in: the key is sent to the server once and is not stored.

import { h } from "./dom.js";

/** Asks for a key, and calls `then` when the server accepts it. */
export function signIn(api, then) {
  if (document.querySelector("dialog.sign-in")) return;
  const field = h("input", { type: "password", name: "key", autocomplete: "off", required: true, aria: { label: "API key" } });
  const status = h("p", { className: "note", role: "alert" });
  const dialog = h(
    "dialog",
    { className: "sign-in", aria: { labelledby: "sign-in" }, oncancel: (event) => event.preventDefault() },
    h("form", { onsubmit: enter }, h("h2", { id: "sign-in" }, "Sign in"), h("p", {}, "This server asks for a key. The operator creates one with ", h("code", {}, "singletree keys create"), "."), field, status, h("button", { className: "primary" }, "Sign in")),
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
      status.textContent = error.message;
      return;
    }
    dialog.close();
    dialog.remove();
    then();
  }
}
