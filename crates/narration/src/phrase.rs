//! Phrases that refer to earlier messages as if they were remembered (agent-chat-output §11).

/// Beginnings of phrases that claim a memory of the chat, in lower case, without their last words.
const CLAIMS: &[&str] = &[
    "as we discussed",
    "as discussed earlier",
    "as i mentioned before",
    "as i said before",
    "based on previous messages",
    "based on our previous",
    "based on our earlier",
    "earlier in our conversation",
    "earlier in this chat",
    "in our last conversation",
    "you asked me before",
    "you asked me earlier",
    "you told me before",
    "you told me earlier",
    "auf grundlage früherer nachrichten",
    "wie bereits besprochen",
    "wie wir besprochen haben",
    "wie zuvor besprochen",
    "sie haben mich vorhin gebeten",
    "du hast mich vorhin gebeten",
];

/// Finds a phrase that claims a memory of the chat. Narration is never read back, so no text may refer to it.
///
/// Case and line ends do not hide a phrase. A text that quotes a phrase contains one, too: the function finds texts
/// that a person should check, and decides nothing.
///
/// ```
/// use singletree_narration::find_memory_claim;
///
/// assert_eq!(find_memory_claim("As  we\ndiscussed earlier, …"), Some("as we discussed"));
/// assert_eq!(find_memory_claim("The file is written."), None);
/// ```
#[must_use]
pub fn find_memory_claim(text: &str) -> Option<&'static str> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let plain = words.join(" ");
    CLAIMS.iter().copied().find(|it| plain.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: agent-chat-output §11
    #[test]
    fn the_three_phrases_of_the_specification_are_found_however_they_are_set() {
        let check = |text: &str, found: &str| assert_eq!(find_memory_claim(text), Some(found), "{text}");
        check("As we discussed earlier, the file is there.", "as we discussed");
        check("… BASED ON PREVIOUS\n  MESSAGES, I would wait.", "based on previous messages");
        check("(You asked me before to send it.)", "you asked me before");
        assert_eq!(find_memory_claim("We discussed nothing; you asked me nothing."), None);
    }

    #[test]
    fn each_phrase_is_written_so_that_it_can_be_found() {
        for phrase in CLAIMS {
            assert!(find_memory_claim(&phrase.to_uppercase()).is_some(), "{phrase}");
            assert_eq!(phrase.split_whitespace().collect::<Vec<_>>().join(" "), *phrase);
        }
    }
}
