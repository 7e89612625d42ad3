//! `[replies]`: the texts for end users when a turn fails.

use singletree_harness::{BucketTable, ErrorReplies, FailureBucket};
use singletree_narration::Locale;

use crate::section::TableReader;

/// The texts of one `[replies]` table.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepliesTable {
    language: Option<Locale>,
    /// By bucket or category.
    texts: Vec<(&'static str, String)>,
}

impl RepliesTable {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let languages = Locale::ALL.map(|language| (language.as_str(), language));
        let language = section.read_choice("language", &languages).map(|choice| choice.value);
        let buckets = [
            FailureBucket::SessionTerminating,
            FailureBucket::RetryableTransient,
            FailureBucket::UserCorrectable,
        ];
        let keys = buckets.map(FailureBucket::as_str).into_iter().chain(BucketTable::listed_categories());
        let texts = keys.filter_map(|key| Some((key, section.read_text(key)?.value))).collect();
        section.report_unknown_keys();
        Self { language, texts }
    }

    /// Makes the texts of an agent: its own go before those for all agents, and these before the built-in ones of its
    /// language.
    pub(crate) fn merge_error_replies(of_all: Option<&Self>, own: Option<&Self>) -> ErrorReplies {
        let language = [own, of_all].into_iter().flatten().find_map(|table| table.language);
        let texts = [of_all, own].into_iter().flatten().flat_map(|table| &table.texts);
        let built_in = ErrorReplies::for_language(language.unwrap_or_default());
        texts.fold(built_in, |replies, (key, text)| replies.with_text(key, text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::file::ConfigFile;
    use crate::report::MistakeCollector;

    use super::*;

    // Finding U14; D32
    #[test]
    fn replies_of_an_agent_go_over_those_of_all_and_those_over_the_built_in_ones() {
        let text = "[replies]\nlanguage = \"de\"\nprovider_rate_limit = \"Kurz warten.\"\nuser_correctable = \"So nicht.\"\n\
                    [agents.a]\ninstructions = \"x\"\n\
                    [agents.a.replies]\nlanguage = \"en\"\nuser_correctable = \"Not so.\"\n\
                    [agents.b]\ninstructions = \"x\"\n";
        let faults = MistakeCollector::default();
        let file = ConfigFile::from_toml_text(text, Path::new("."), &faults).expect("it reads");
        let replies: Vec<ErrorReplies> = file
            .agents
            .iter()
            .map(|agent| RepliesTable::merge_error_replies(file.replies.as_ref(), agent.replies.as_ref()))
            .collect();
        let told = |replies: &ErrorReplies| {
            let of = |category: &str| replies.by_category[category].clone();
            [of("provider_rate_limit"), of("provider_authentication"), replies.user_correctable.clone()]
        };
        let [english, german] = [Locale::English, Locale::German].map(|language| {
            ErrorReplies::for_language(language).by_category["provider_authentication"].clone()
        });
        assert_eq!(told(&replies[0]), ["Kurz warten.".to_owned(), english, "Not so.".to_owned()]);
        assert_eq!(told(&replies[1]), ["Kurz warten.".to_owned(), german, "So nicht.".to_owned()]);
        let none = RepliesTable::merge_error_replies(None, None);
        assert_eq!(none.by_category, ErrorReplies::for_language(Locale::English).by_category);
    }
}
