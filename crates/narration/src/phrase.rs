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
    "como comentamos",
    "como hablamos antes",
    "según los mensajes anteriores",
    "en nuestra conversación anterior",
    "me pidió antes",
    "me pediste antes",
    "comme nous en avons discuté",
    "comme nous l'avons vu plus tôt",
    "d'après les messages précédents",
    "dans notre conversation précédente",
    "vous m'avez demandé tout à l'heure",
    "tu m'as demandé tout à l'heure",
    "先ほどお話しした",
    "以前お話しした",
    "これまでのメッセージに基づ",
    "前回の会話で",
    "先ほどご依頼",
    "正如我们之前讨论",
    "如我们之前所讨论",
    "根据之前的消息",
    "在我们之前的对话中",
    "您之前让我",
    "你之前让我",
];

/// The text that stands for a rationale which claims a memory of the chat.
const REMOVED: &str = "[removed: refers to earlier chat]";

/// Returns an agent's rationale as people are told it: one that claims a memory of the chat is replaced, since an agent
/// that sees no chat cannot know what was said in it (agent-chat-output §11). The list of phrases is no guarantee.
///
/// ```
/// use singletree_narration::narrated_rationale;
///
/// assert_eq!(narrated_rationale("As we discussed, I send it."), "[removed: refers to earlier chat]");
/// assert_eq!(narrated_rationale("The letter is due."), "The letter is due.");
/// ```
#[must_use]
pub fn narrated_rationale(text: &str) -> &str {
    if find_memory_claim(text).is_some() { REMOVED } else { text }
}

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
    // A typographic apostrophe hides no phrase either.
    let plain = plain.replace('’', "'");
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

    // spec: agent-chat-output §11
    #[test]
    fn a_claim_is_found_in_each_language_of_narration() {
        for (text, found) in [
            ("As we discussed earlier, it is sent.", "as we discussed"),
            ("Wie wir besprochen haben, sende ich es.", "wie wir besprochen haben"),
            ("Como comentamos, lo envío.", "como comentamos"),
            ("Vous m’avez demandé tout à l’heure de l'envoyer.", "vous m'avez demandé tout à l'heure"),
            ("先ほどお話しした通り、送信します。", "先ほどお話しした"),
            ("正如我们之前讨论的，我发送它。", "正如我们之前讨论"),
        ] {
            assert_eq!(find_memory_claim(text), Some(found), "{text}");
            assert_eq!(narrated_rationale(text), REMOVED, "{text}");
        }
    }

    #[test]
    fn each_phrase_is_written_so_that_it_can_be_found() {
        for phrase in CLAIMS {
            assert!(find_memory_claim(&phrase.to_uppercase()).is_some(), "{phrase}");
            assert_eq!(phrase.split_whitespace().collect::<Vec<_>>().join(" "), *phrase);
        }
    }
}
