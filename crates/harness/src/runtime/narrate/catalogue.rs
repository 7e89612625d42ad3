//! The sentences of the controller, in each language.

mod chinese;
mod english;
mod french;
mod german;
mod japanese;
mod spanish;

use singletree_narration::{Locale, fill_sentence};

/// A sentence. Its values in braces are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// A call waits for a person, and the tool is known: `{tool}`, `{signal}`.
    ApproveCall,
    /// The same with the arguments of the call: `{tool}`, `{signal}`, `{arguments}`.
    ApproveCallWith,
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
    /// A call has had its effect: `{tool}`.
    ToolSucceeded,
    /// A tool has failed: `{tool}`.
    ToolFailed,
    /// It is not known whether a call has had its effect: `{tool}`.
    ToolInDoubt,
    /// The subject of the sentences above where the name of the tool is not known.
    SomeTool,
    /// The beginning of the conversation was summarised: `{from}`, `{to}`.
    Summarised,
    /// It could not be: `{category}`.
    NotSummarised,
    /// The turn was cancelled.
    Stopped,
    /// The session begins as another one: `{session}`.
    Continues,
    /// A long text without its end: `{text}`, `{bytes}`, `{digest}`.
    CutOff,
    /// The turn is over.
    Done,
}

impl Sentence {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 20] = [
        Self::ApproveCall,
        Self::ApproveCallWith,
        Self::ApproveAction,
        Self::Awaits,
        Self::Answered,
        Self::Expired,
        Self::GivenUp,
        Self::Unfit,
        Self::Calls,
        Self::NotDone,
        Self::ToolSucceeded,
        Self::ToolFailed,
        Self::ToolInDoubt,
        Self::SomeTool,
        Self::Summarised,
        Self::NotSummarised,
        Self::Stopped,
        Self::Continues,
        Self::CutOff,
        Self::Done,
    ];

    /// Returns the template of a language.
    pub(crate) fn select_template(self, locale: Locale) -> &'static str {
        match locale {
            Locale::English => english::select_template(self),
            Locale::German => german::select_template(self),
            Locale::Spanish => spanish::select_template(self),
            Locale::French => french::select_template(self),
            Locale::Japanese => japanese::select_template(self),
            Locale::Chinese => chinese::select_template(self),
        }
    }

    /// Fills in a template. Values are plain text: braces in them stay as they are.
    pub(crate) fn fill_template(self, locale: Locale, values: &[(&str, &str)]) -> String {
        fill_sentence(self.select_template(locale), values)
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
