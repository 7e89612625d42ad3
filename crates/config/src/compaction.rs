//! `compaction`: when the beginning of a long conversation is summarised.

use singletree_agent::Compaction;

use crate::section::TableReader;

/// When the beginning of a long conversation is summarised, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct CompactionTable {
    /// Where it stands.
    pub(crate) at: usize,
    keep: u64,
    every: Option<u64>,
}

impl CompactionTable {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let keep = section.read_count("keep", 1).map(|count| count.value);
        if section.take_raw_value("keep").is_none() {
            section.report_missing_key(
                "keep",
                "how many messages the model sees as they are, as in `keep = 40`",
            );
        }
        let every = section.read_count("every", 1).map(|count| count.value);
        let at = section.at;
        section.report_unknown_keys();
        Self { at, keep: keep.unwrap_or(1), every }
    }

    /// Makes the policy.
    pub(crate) fn to_compaction(&self) -> Compaction {
        let compaction = Compaction::with_kept_messages(self.keep);
        match self.every {
            Some(every) => compaction.summarise_every(every),
            None => compaction,
        }
    }
}
