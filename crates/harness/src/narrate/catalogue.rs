//! The sentences of the controller, in each language.

use singletree_narration::Locale;

/// A sentence. Its values in braces are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// A call waits for a person, and the tool is known: `{tool}`, `{signal}`.
    ApproveCall,
    /// An action waits for a person: `{signal}`.
    ApproveAction,
    /// Something else is awaited: `{signal}`.
    Awaits,
    /// It came: `{signal}`.
    Answered,
    /// It did not come in time: `{signal}`.
    Expired,
    /// Nobody waits for it any more: `{signal}`.
    GivenUp,
    /// It had come, and did not fit: `{signal}`.
    Unfit,
    /// The agent has asked for tools: `{tools}`.
    Calls,
    /// A call was not made: `{reason}`.
    NotDone,
    /// A tool has failed.
    ToolFailed,
    /// The beginning of the conversation was summarised: `{from}`, `{to}`.
    Summarised,
    /// It could not be: `{category}`.
    NotSummarised,
    /// The turn was cancelled.
    Stopped,
    /// The session begins as another one: `{session}`.
    Continues,
    /// The turn is over.
    Done,
}

impl Sentence {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 15] = [
        Self::ApproveCall,
        Self::ApproveAction,
        Self::Awaits,
        Self::Answered,
        Self::Expired,
        Self::GivenUp,
        Self::Unfit,
        Self::Calls,
        Self::NotDone,
        Self::ToolFailed,
        Self::Summarised,
        Self::NotSummarised,
        Self::Stopped,
        Self::Continues,
        Self::Done,
    ];

    /// Returns the template of a language.
    pub(crate) fn select_template(self, locale: Locale) -> &'static str {
        match locale {
            Locale::English => self.english_template(),
            Locale::German => self.german_template(),
        }
    }

    fn english_template(self) -> &'static str {
        match self {
            Self::ApproveCall => "Approval is needed to use {tool} ({signal}).",
            Self::ApproveAction => "Approval is needed: {signal}.",
            Self::Awaits => "Paused until {signal} arrives.",
            Self::Answered => "{signal} was answered; work goes on.",
            Self::Expired => "Nobody answered {signal} in time.",
            Self::GivenUp => "{signal} was cancelled.",
            Self::Unfit => "An answer to {signal} did not fit and was not taken.",
            Self::Calls => "The agent asks for {tools}.",
            Self::NotDone => "An action was not taken: {reason}",
            Self::ToolFailed => "A tool has failed; the agent is told.",
            Self::Summarised => {
                "The model is shown a summary in place of messages {from} to {to}; they are kept."
            }
            Self::NotSummarised => "No summary could be made ({category}); nothing has changed.",
            Self::Stopped => "The turn was stopped.",
            Self::Continues => "This conversation goes on from {session}.",
            Self::Done => "Done.",
        }
    }

    fn german_template(self) -> &'static str {
        match self {
            Self::ApproveCall => "Freigabe nötig, um {tool} zu verwenden ({signal}).",
            Self::ApproveAction => "Freigabe nötig: {signal}.",
            Self::Awaits => "Angehalten, bis {signal} eintrifft.",
            Self::Answered => "{signal} ist beantwortet; es geht weiter.",
            Self::Expired => "Niemand hat {signal} rechtzeitig beantwortet.",
            Self::GivenUp => "{signal} wurde zurückgezogen.",
            Self::Unfit => "Eine Antwort auf {signal} passte nicht und wurde nicht angenommen.",
            Self::Calls => "Der Agent verlangt {tools}.",
            Self::NotDone => "Eine Aktion wurde nicht ausgeführt: {reason}",
            Self::ToolFailed => "Ein Werkzeug ist gescheitert; der Agent erfährt es.",
            Self::Summarised => {
                "Das Modell sieht eine Zusammenfassung anstelle der Nachrichten {from} bis {to}; sie bleiben erhalten."
            }
            Self::NotSummarised => {
                "Es war keine Zusammenfassung möglich ({category}); nichts hat sich geändert."
            }
            Self::Stopped => "Der Zug wurde abgebrochen.",
            Self::Continues => "Dieses Gespräch setzt {session} fort.",
            Self::Done => "Fertig.",
        }
    }

    /// Fills in a template. Values are plain text: braces in them stay as they are.
    pub(crate) fn fill_template(self, locale: Locale, values: &[(&str, &str)]) -> String {
        let mut said = String::new();
        let mut rest = self.select_template(locale);
        while let Some((before, after)) = rest.split_once('{') {
            said.push_str(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            said.push_str(values.iter().find(|(it, _)| *it == name).map_or("", |(_, value)| value));
            rest = after;
        }
        said.push_str(rest);
        said
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use singletree_narration::find_memory_claim;

    use super::*;

    fn names(template: &str) -> BTreeSet<&str> {
        template.split('{').skip(1).map(|part| part.split_once('}').unwrap().0).collect()
    }

    // spec: agent-chat-output §5.1, §11
    #[test]
    fn every_sentence_is_in_every_language_with_the_same_names_and_claims_no_memory() {
        let mut seen = BTreeSet::new();
        for sentence in Sentence::ALL {
            let expected = names(sentence.select_template(Locale::default()));
            for locale in Locale::ALL {
                let template = sentence.select_template(locale);
                assert_eq!(names(template), expected, "{sentence:?} in {locale}");
                assert_eq!(find_memory_claim(template), None, "{sentence:?} in {locale}");
                assert!(seen.insert(template), "{sentence:?} in {locale} says what another one says");
                assert!(!template.trim().is_empty(), "{sentence:?} in {locale}");
            }
        }
    }

    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let said =
            Sentence::ApproveCall.fill_template(Locale::English, &[("tool", "{signal}"), ("signal", "a}b{")]);
        assert_eq!(said, "Approval is needed to use {signal} (a}b{).");
    }
}
