// A mock of someone else (@copilotkit/aimock), strict: what matches no fixture is refused. Prints its address, ends when
// its standard input does. What it understood of each request is at /__aimock/journal.
//
// usage: serve.mjs FOLDER-OF-NODE-MODULES FIXTURES.json

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, fixtures] = process.argv.slice(2);
const { LLMock } = await import(
  pathToFileURL(createRequire(`${folder}/`).resolve("@copilotkit/aimock"))
);

const mock = new LLMock({ port: 0, strict: true, chunkSize: 7 });
mock.loadFixtureFile(fixtures);
await mock.start();
console.log(mock.url);

process.stdin.resume();
process.stdin.on("end", async () => {
  await mock.stop();
  process.exit(0);
});
