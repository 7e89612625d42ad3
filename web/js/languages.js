// Texts in the languages in which the server narrates.

/** The order of the languages in every table of texts. */
const LANGUAGES = ["en", "de", "es", "fr", "ja", "zh"];

/** The language of the browser, where the page has it; otherwise English. */
export const LANGUAGE = (globalThis.navigator?.languages ?? []).map((tag) => tag.toLowerCase().split("-")[0]).find((tag) => LANGUAGES.includes(tag)) ?? "en";

/** Returns a function that returns the text of a name in the language of the browser, with its values. */
export function textsOf(texts) {
  const textOf = (name, values = {}) => texts[name][LANGUAGES.indexOf(LANGUAGE)].replace(/\{(\w+)\}/g, (_, value) => values[value] ?? "");
  /** For tests: the names of the texts that are not whole: a language or a value is missing. */
  textOf.incomplete = () => {
    const values = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort().join();
    return Object.entries(texts)
      .filter(([, all]) => all.length !== LANGUAGES.length || all.some((text) => !text || values(text) !== values(all[0])))
      .map(([name]) => name);
  };
  return textOf;
}
