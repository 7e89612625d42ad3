//! The identity, the abilities and the requested features of a shell.

use std::collections::BTreeSet;

use singletree_protocol::openharness::{ActionType, Auth, Capabilities, Capability, RiskTier, ShellIdentity};

/// The identity, the abilities and the requested features of a shell. A shell must be able to do everything that it
/// lists here.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellProfile {
    /// Who it is.
    pub identity: ShellIdentity,
    /// References to who talks; none where the transport says it all.
    pub auth: Option<Auth>,
    /// The features that it requests.
    pub capabilities: Capabilities,
    /// The types of actions that its hands carry out, besides those that every shell handles itself: texts, questions
    /// and no-ops.
    pub actions: BTreeSet<String>,
    /// From which risk on a person is asked before an action, also where the engine does not ask for that.
    pub confirm_from: RiskTier,
    /// How many directives of one answer are looked at, of each class (INV-12).
    pub directives_max: usize,
}

impl ShellProfile {
    /// Makes the profile of a shell that shows text and asks questions.
    #[must_use]
    pub fn for_text_shell(shell_kind: &str, shell_version: &str) -> Self {
        let identity = ShellIdentity {
            shell_kind: Some(shell_kind.to_owned()),
            shell_version: Some(shell_version.to_owned()),
            ..ShellIdentity::default()
        };
        let asked = [(Capability::Approval.as_str().to_owned(), true.into())];
        Self {
            identity,
            auth: None,
            capabilities: asked.into_iter().collect(),
            actions: BTreeSet::new(),
            confirm_from: RiskTier::Caution,
            directives_max: 256,
        }
    }

    /// Adds a type of action that the shell's hands carry out.
    #[must_use]
    pub fn with_action(mut self, action_type: impl Into<String>) -> Self {
        self.actions.insert(action_type.into());
        self
    }

    /// Adds a feature that is asked for.
    #[must_use]
    pub fn with_capability(mut self, capability: Capability) -> Self {
        self.capabilities.insert(capability.as_str().to_owned(), true.into());
        self
    }

    /// Returns the feature that a type of action is part of: without it the action is not done.
    pub(super) fn needed_capability(action_type: &str) -> Option<Capability> {
        match ActionType::from_name(action_type)? {
            ActionType::RenderUi => Some(Capability::RichCards),
            ActionType::RequestApproval => Some(Capability::Approval),
            ActionType::SimulateAction
            | ActionType::RenderMessage
            | ActionType::Noop
            | ActionType::RequestSignal => None,
        }
    }
}
