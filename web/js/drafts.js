// Messages that were begun and not sent: kept for the time of a tab, so that a reload loses none.

const PLACE = "singletree.draft.";
const NEW = "singletree.new";

/** Drafts that could not be stored: they last as long as the page. */
const unstored = new Map();

/** The draft of a conversation: its text and its images. */
export function readDraft(session) {
  try {
    // A draft that could not be stored is newer than the stored one.
    return unstored.get(session) ?? JSON.parse(sessionStorage.getItem(PLACE + session)) ?? { text: "", images: [] };
  } catch {
    return unstored.get(session) ?? { text: "", images: [] };
  }
}

/** Keeps the draft of a conversation; an empty one is removed. */
export function writeDraft(session, draft) {
  unstored.delete(session);
  try {
    if (draft.text || draft.images.length > 0) sessionStorage.setItem(PLACE + session, JSON.stringify(draft));
    else sessionStorage.removeItem(PLACE + session);
  } catch {
    unstored.set(session, draft);
  }
}

/** The id of the conversation that would be made next: the same after a reload, so that its draft is found. */
export function newSessionId() {
  try {
    const known = sessionStorage.getItem(NEW) ?? freshId();
    sessionStorage.setItem(NEW, known);
    return known;
  } catch {
    return freshId();
  }
}

/** Forgets the id for a new conversation: a conversation has it now. */
export function useSessionId() {
  try {
    sessionStorage.removeItem(NEW);
  } catch {}
}

/** Removes everything: whoever signs in next may be another person. */
export function clearDrafts() {
  unstored.clear();
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith("singletree.")) sessionStorage.removeItem(name);
  } catch {}
}

const freshId = () => `chat-${crypto.randomUUID().slice(0, 8)}`;
