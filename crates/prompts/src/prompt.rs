//! Prompts: templates with their identity (spec: prompt-management §3).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use singletree_llm::{Map, RuntimeConfig, TokenBudget};

use crate::hash;
use crate::labels::DEFAULT_LABEL;
use crate::template::{ChatSegment, Template};

/// A template with its identity, and its author's settings for calls with it. The template is shared between clones.
///
/// A new prompt has the label `production` and no time of fetching: the backend that hands it out sets that.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    name: String,
    version: String,
    label: String,
    template: Arc<Template>,
    template_hash: String,
    fetched_at: SystemTime,
    sampling: Option<RuntimeConfig>,
    token_budget: Option<TokenBudget>,
    observability_entities: Option<Map>,
    metadata: Option<Map>,
}

impl Prompt {
    /// Makes a text prompt: it renders to one user message.
    #[must_use]
    pub fn text(name: impl Into<String>, version: impl Into<String>, template: impl Into<String>) -> Self {
        Self::new(name, version, Template::Text(template.into()))
    }

    /// Makes a chat prompt.
    #[must_use]
    pub fn chat(
        name: impl Into<String>,
        version: impl Into<String>,
        segments: impl IntoIterator<Item = ChatSegment>,
    ) -> Self {
        Self::new(name, version, Template::Chat(segments.into_iter().collect()))
    }

    /// Makes a prompt of either kind. Its hash is computed here.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>, template: Template) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            label: DEFAULT_LABEL.to_owned(),
            template_hash: hash::hash_json_value(&template.to_json()),
            template: Arc::new(template),
            fetched_at: UNIX_EPOCH,
            sampling: None,
            token_budget: None,
            observability_entities: None,
            metadata: None,
        }
    }

    /// Sets the label under which the prompt is found.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the hash that the backend's own store gives to this content, in place of ours.
    ///
    /// The caller guarantees the property of our hash: equal for equal templates, different for different ones.
    #[must_use]
    pub fn with_template_hash(mut self, hash: impl Into<String>) -> Self {
        self.template_hash = hash.into();
        self
    }

    /// Sets when it was fetched. A cache keeps the time of the original fetch.
    #[must_use]
    pub fn with_fetched_at(mut self, time: SystemTime) -> Self {
        self.fetched_at = time;
        self
    }

    /// Sets how to sample with this prompt.
    #[must_use]
    pub fn with_sampling(mut self, sampling: RuntimeConfig) -> Self {
        self.sampling = Some(sampling);
        self
    }

    /// Sets how many tokens a call is expected to use.
    #[must_use]
    pub fn with_token_budget(mut self, budget: TokenBudget) -> Self {
        self.token_budget = Some(budget);
        self
    }

    /// Sets the prompt's ids in observability backends, by `<backend>_<entity>`.
    #[must_use]
    pub fn with_observability_entities(mut self, entities: Map) -> Self {
        self.observability_entities = Some(entities);
        self
    }

    /// Sets further data of the backend.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Returns the name: stable within its backend.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version: another one means other content.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the label under which it was fetched.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the template.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Returns the hash of the template: SHA-256 over its [JSON](Template::to_json) with sorted keys and no blanks.
    #[must_use]
    pub fn template_hash(&self) -> &str {
        &self.template_hash
    }

    /// Returns when it was fetched from where it comes from; the Unix epoch for a prompt that no backend handed out.
    #[must_use]
    pub fn fetched_at(&self) -> SystemTime {
        self.fetched_at
    }

    /// Returns how to sample, ready for [`Request`](singletree_llm::Request). There is no default.
    #[must_use]
    pub fn sampling(&self) -> Option<&RuntimeConfig> {
        self.sampling.as_ref()
    }

    /// Returns how many tokens a call is expected to use.
    #[must_use]
    pub fn token_budget(&self) -> Option<TokenBudget> {
        self.token_budget
    }

    /// Returns the prompt's ids in observability backends.
    #[must_use]
    pub fn observability_entities(&self) -> Option<&Map> {
        self.observability_entities.as_ref()
    }

    /// Returns further data of the backend.
    #[must_use]
    pub fn metadata(&self) -> Option<&Map> {
        self.metadata.as_ref()
    }
}
