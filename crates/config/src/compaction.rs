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
    pub(crate) fn read(mut section: TableReader<'_>) -> Self {
        let keep = section.count("keep", 1).map(|count| count.value);
        if section.raw("keep").is_none() {
            section.missing("keep", "how many messages the model sees as they are, as in `keep = 40`");
        }
        let every = section.count("every", 1).map(|count| count.value);
        let at = section.at;
        section.end();
        Self { at, keep: keep.unwrap_or(1), every }
    }

    /// Makes the policy.
    pub(crate) fn made(&self) -> Compaction {
        let compaction = Compaction::keeping(self.keep);
        match self.every {
            Some(every) => compaction.every(every),
            None => compaction,
        }
    }
}
