// AG-UI's own client, whose server's model errs: `node erring_agui.mjs TOOLS PACKAGE URL CASES`. Prints the result of each case by
// session, as one JSON object.
//
// TOOLS is where node_modules is, PACKAGE the version of the client there, URL the server, CASES a list of `{session, text}`
// as JSON.
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import { difference, inParallel, isSentence, short } from './erring.mjs';

const [tools, name, url, cases] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${tools}/clients.js`)(name);

const warnings = [];
for (const level of ['warn', 'error']) console[level] = (...said) => warnings.push(said.map(String).join(' '));

const open = (threadId) => new HttpAgent({ url: `${url}/v1/agui`, threadId });

/** Runs an agent; returns the event of its failure, if it failed. */
async function end(agent) {
  let failure;
  await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void (failure = event) });
  return failure;
}

async function run({ session, text }) {
  const agent = open(session);
  agent.addMessage({ id: `user-${session}`, role: 'user', content: text });
  const failure = await end(agent);
  if (failure && !isSentence(failure.message)) return { failed: true, fault: `the error says nothing: ${failure.message}` };
  const anew = open(session);
  await end(anew);
  const [held, loaded] = [agent.messages, anew.messages].map((messages) => JSON.parse(JSON.stringify(messages)));
  // A message that failed without effects is no part of the transcript; the client keeps it, to send it again.
  const isKeptHere = failure && loaded.length === 0;
  const expected = isKeptHere ? [{ id: `user-${session}`, role: 'user', content: text }] : loaded;
  const fault = isDeepStrictEqual(held, expected) ? undefined : difference(held, expected);
  const said = held.findLast((message) => message.role === 'assistant' && message.content);
  return { failed: Boolean(failure), text: short(said?.content), fault };
}

console.log(JSON.stringify({ ...(await inParallel(JSON.parse(cases), run)), warnings }));
