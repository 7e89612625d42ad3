//! Rendered prompts (spec: prompt-management §4).

use std::sync::Arc;
use std::time::SystemTime;

use singletree_llm::{ActivePrompt, ChatMessage, Map, RuntimeConfig};

use crate::prompt::Prompt;

/// Messages, ready for a [`Request`](singletree_llm::Request), and the prompt that they come from.
///
/// Name, version, label, hash, time of fetching, sampling, token budget and observability entities are the prompt's
/// own: [`prompt`](Self::prompt) has them.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResult {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) messages: Vec<Arc<ChatMessage>>,
    pub(crate) variables: Map,
    pub(crate) rendered_hash: String,
    pub(crate) rendered_at: SystemTime,
}

impl PromptResult {
    /// Returns the prompt, unchanged.
    #[must_use]
    pub fn prompt(&self) -> &Arc<Prompt> {
        &self.prompt
    }

    /// Returns the messages, never none.
    #[must_use]
    pub fn messages(&self) -> &[Arc<ChatMessage>] {
        &self.messages
    }

    /// Returns the messages for a request.
    #[must_use]
    pub fn into_messages(self) -> Vec<Arc<ChatMessage>> {
        self.messages
    }

    /// Returns how to sample: the prompt's own, or none.
    #[must_use]
    pub fn sampling(&self) -> Option<&RuntimeConfig> {
        self.prompt.sampling()
    }

    /// Returns the variables that were given; a secret's value is `"[redacted]"`.
    #[must_use]
    pub fn variables(&self) -> &Map {
        &self.variables
    }

    /// Returns the hash of the messages: SHA-256 over their JSON with sorted keys and no blanks. The same messages
    /// have the same hash, so it is the key of a memo.
    #[must_use]
    pub fn rendered_hash(&self) -> &str {
        &self.rendered_hash
    }

    /// Returns the prompt's identity for the request that is made of the messages
    /// ([`Request::with_prompt`](singletree_llm::Request::with_prompt)): reports of the call carry it (spec:
    /// prompt-management §12).
    #[must_use]
    pub fn active_prompt(&self) -> ActivePrompt {
        ActivePrompt {
            name: self.prompt.name().to_owned(),
            version: self.prompt.version().to_owned(),
            label: self.prompt.label().to_owned(),
            template_hash: self.prompt.template_hash().to_owned(),
            rendered_hash: self.rendered_hash.clone(),
            group_name: None,
            token_budget: self.prompt.token_budget(),
            observability_entities: self.prompt.observability_entities().cloned(),
        }
    }

    /// Returns when they were rendered.
    #[must_use]
    pub fn rendered_at(&self) -> SystemTime {
        self.rendered_at
    }
}
