// What the pages of the tests share: a version of Vercel's ai, and a state without a framework.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** Loads the package of this name from where node_modules is. */
export async function library(tools, name) {
  const folder = `${tools}/node_modules/${name}/`;
  const entry = JSON.parse(readFileSync(`${folder}package.json`)).exports['.'].import;
  return import(new URL(entry, pathToFileURL(folder)));
}

/** A state that nobody watches. */
export class State {
  constructor(messages) {
    this.messages = messages;
    this.status = 'ready';
    this.error = undefined;
  }
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) =>
    void (this.messages = [...this.messages.slice(0, index), this.snapshot(message), ...this.messages.slice(index + 1)]);
  snapshot = (value) => structuredClone(value);
}
