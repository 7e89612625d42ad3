//! Who gives a command, and what that caller may do.

use singletree_campaign::CampaignScope;
use singletree_durable::DocumentChange;

use crate::error::{Error, Result};

/// A person or a program that gives commands to campaigns: a name, which is recorded, and scopes. A caller without a
/// scope is refused whatever needs it; the agent of a campaign is no caller and has none.
#[derive(Debug, Clone)]
pub struct CampaignCaller {
    name: String,
    scopes: Vec<CampaignScope>,
    changes: Vec<DocumentChange>,
}

impl CampaignCaller {
    /// Names a caller without any scope.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), scopes: Vec::new(), changes: Vec::new() }
    }

    /// Names a caller with all scopes, such as the person at the terminal of a database of their own.
    #[must_use]
    pub fn with_all_scopes(name: impl Into<String>) -> Self {
        let all = [CampaignScope::Write, CampaignScope::Approve, CampaignScope::Admin];
        all.into_iter().fold(Self::new(name), Self::with_scope)
    }

    /// Adds a scope. None includes another one.
    #[must_use]
    pub fn with_scope(mut self, scope: CampaignScope) -> Self {
        self.scopes.push(scope);
        self
    }

    /// Adds changes of documents that land in the commit of the command, such as an entry of an audit.
    #[must_use]
    pub fn with_changes(mut self, changes: impl IntoIterator<Item = DocumentChange>) -> Self {
        self.changes.extend(changes);
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the changes that land with the command.
    pub(crate) fn changes(&self) -> &[DocumentChange] {
        &self.changes
    }

    /// Checks that the caller has a scope.
    ///
    /// # Errors
    /// `campaign_scope_missing`.
    pub(crate) fn check_scope(&self, scope: CampaignScope) -> Result<()> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Error::ScopeMissing { scope }) }
    }
}
