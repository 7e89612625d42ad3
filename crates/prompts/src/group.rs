//! Groups: results that belong together in a trace (spec: prompt-management §10).

use crate::error::{Error, Result};
use crate::result::PromptResult;

/// Two or more results under one name. It orders nothing and runs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptGroup {
    name: String,
    members: Vec<PromptResult>,
}

impl PromptGroup {
    /// Makes a group of results, in the order in which they are meant to be used.
    ///
    /// # Errors
    ///
    /// `prompt_group_invalid` for fewer than two members.
    pub fn new(name: impl Into<String>, members: impl IntoIterator<Item = PromptResult>) -> Result<Self> {
        let (name, members): (String, Vec<_>) = (name.into(), members.into_iter().collect());
        if members.len() < 2 {
            return Err(Error::GroupInvalid { group: name, members: members.len() });
        }
        Ok(Self { name, members })
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the members, in their order.
    #[must_use]
    pub fn members(&self) -> &[PromptResult] {
        &self.members
    }
}
