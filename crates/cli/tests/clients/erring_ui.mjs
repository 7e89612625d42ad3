// The chat of Vercel's ai, whose server's model errs: `node erring_ui.mjs TOOLS PACKAGE URL CASES`. Prints the result of each case
// by session, as one JSON object.
//
// TOOLS is where node_modules is, PACKAGE the version of the library there, URL the server, CASES a list of `{session, text}`
// as JSON.
import { isDeepStrictEqual } from 'node:util';
import { State, library } from '../../../server/tests/clients/ui_library.mjs';
import { difference, inParallel, isSentence, short } from './erring.mjs';

const [tools, name, url, cases] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, validateUIMessages } = await library(tools, name);

const api = `${url}/v1/ui`;
const headers = { 'x-ai-sdk-version': name === 'ai' ? '5' : name.slice('ai-'.length) };

let ids = 0;
class Page extends AbstractChat {
  constructor(id) {
    super({ id, generateId: () => `client-${++ids}`, transport: new DefaultChatTransport({ api, headers }), state: new State([]) });
  }
}

const isRetracted = (part) => part.providerMetadata?.singletree?.retracted === true;
const textsOf = (message) => message?.parts.filter((part) => part.type === 'text').map((part) => part.text) ?? [];

/** Compares a chat with the messages that it would load now; returns the difference, if there is one. */
async function reload(page, failed) {
  const { messages } = await (await fetch(`${api}/${page.id}/messages`, { headers })).json();
  await validateUIMessages({ messages });
  const view = JSON.parse(JSON.stringify(page.messages));
  if (!failed) {
    // Text that was taken back is marked in the stream, which cannot delete it, and is not in the list.
    const shown = view.map((message) => ({ ...message, parts: message.parts.filter((part) => !isRetracted(part)) }));
    return isDeepStrictEqual(shown, messages) ? undefined : difference(shown, messages);
  }
  const [question, answer] = messages;
  if (!isDeepStrictEqual(question.parts, view[0].parts)) return difference(view[0], question);
  const told = answer.parts.at(-1);
  if (told.type !== 'data-error' || !isSentence(told.data.message)) return `a reload does not say why it failed: ${difference(view, answer)}`;
  const texts = [textsOf(view[1]), textsOf(answer)];
  return isDeepStrictEqual(...texts) ? undefined : difference(...texts);
}

async function run({ session, text }) {
  const page = new Page(session);
  await page.sendMessage({ text });
  const failed = page.status === 'error';
  const words = failed && !isSentence(page.error?.message) ? `the error says nothing: ${page.error?.message}` : undefined;
  const said = page.messages[1]?.parts.filter((part) => part.type === 'text' && (failed || !isRetracted(part)));
  return { failed, text: short(said?.at(-1)?.text), fault: words ?? (await reload(page, failed)) };
}

console.log(JSON.stringify(await inParallel(JSON.parse(cases), run)));
process.exit(0);
