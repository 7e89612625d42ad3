// Shared by the clients whose server's model errs.

const SHOWN = 1500;

/**
 * Runs all cases, so many at once, and returns their results by session. An exception is a fault. `begin` makes a value that the cases
 * of one line share.
 */
export async function inParallel(cases, run, { atOnce = 6, begin } = {}) {
  const [rest, results] = [[...cases], {}];
  const work = async () => {
    const shared = await begin?.();
    for (let next = rest.shift(); next; next = rest.shift()) {
      results[next.session] = await run(next, shared).catch((error) => ({ failed: null, fault: `it threw: ${error?.stack ?? error}` }));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return results;
}

/** Tells whether a text has words for a person. */
export const isSentence = (text) => typeof text === 'string' && text.trim().split(/\s+/).length > 3;

/** Returns a text that may be compared outside of this process; nothing for a very long one. */
export const short = (text) => (text?.length > 10_000 ? undefined : text);

/** Describes two values that should be equal, in a readable length. */
export function difference(seen, loaded) {
  const [one, other] = [seen, loaded].map((value) => JSON.stringify(value) ?? 'nothing');
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const from = Math.max(0, at - 100);
  return `the client holds …${one.slice(from, from + SHOWN)} and a reload …${other.slice(from, from + SHOWN)}`;
}
