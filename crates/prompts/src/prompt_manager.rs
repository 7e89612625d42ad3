//! The manager: fetching from several backends in order, and rendering (spec: prompt-management §6, §9).

use std::sync::Arc;
use std::time::Duration;

use crate::backend::PromptBackend;
use crate::error::{Error, Result};
use crate::fallback::{Fallback, FallbackListener};
use crate::inputs::PromptInputs;
use crate::labels::{DEFAULT_LABEL, LabelResolver};
use crate::prompt::Prompt;
use crate::query::PromptQuery;
use crate::render;
use crate::result::PromptResult;
use crate::templating::{RenderLimits, TemplateEngine};
use singletree_env::{Clock, SystemClock};

/// Fetches prompts and renders them. Share it behind an `Arc`.
#[derive(Debug)]
pub struct PromptManager {
    // Never empty: the builder begins with one.
    backends: Vec<Box<dyn PromptBackend>>,
    labels: Option<Box<dyn LabelResolver>>,
    cache_ttl: Option<Duration>,
    clock: Arc<dyn Clock>,
    on_fallback: Option<FallbackListener>,
    templating: TemplateEngine,
}

/// Puts a manager together.
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct PromptManagerBuilder {
    manager: PromptManager,
    limits: RenderLimits,
}

impl PromptManager {
    /// Begins with the backend that is asked first.
    pub fn builder(primary: impl PromptBackend + 'static) -> PromptManagerBuilder {
        let limits = RenderLimits::default();
        let manager = Self {
            backends: vec![Box::new(primary)],
            labels: None,
            cache_ttl: None,
            clock: Arc::new(SystemClock),
            on_fallback: None,
            templating: TemplateEngine::new(limits),
        };
        PromptManagerBuilder { manager, limits }
    }

    /// Fetches a prompt from the first backend that can be reached.
    ///
    /// The label is the query's, else the resolver's, else `production`; the bound on the age of cached prompts is the
    /// query's, else the manager's default, else none. Every backend that is asked gets both.
    ///
    /// # Errors
    ///
    /// `prompt_not_found` as soon as a backend returns it: the next backend might have a prompt that was retired
    /// here. `prompt_store_unavailable` when no backend can be reached; any other error of a backend as it is.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the fetch.
    pub async fn fetch_prompt(&self, query: impl Into<PromptQuery>) -> Result<Arc<Prompt>> {
        let query = query.into();
        let label = match (&query.label, &self.labels) {
            (Some(label), _) => label.clone(),
            (None, Some(resolver)) => resolver.resolve_label(&query.name),
            (None, None) => DEFAULT_LABEL.to_owned(),
        };
        let cache_ttl = query.cache_ttl.or(self.cache_ttl);
        let mut passed_over = Vec::new();
        for (at, backend) in self.backends.iter().enumerate() {
            match backend.fetch_prompt(&query.name, &label, cache_ttl).await {
                Ok(prompt) => {
                    if let (Some(FallbackListener(tell)), false) = (&self.on_fallback, passed_over.is_empty())
                    {
                        let (name, passed_over) = (query.name.as_str(), passed_over.as_slice());
                        tell(&Fallback { name, label: &label, answered: at, passed_over });
                    }
                    return Ok(prompt);
                }
                Err(error @ Error::StoreUnavailable { .. }) => passed_over.push(error),
                Err(error) => return Err(error),
            }
        }
        Err(merge_unavailable_errors(passed_over))
    }

    /// Renders a prompt with inputs. Local and synchronous: nothing is read, and nothing but the inputs matters.
    ///
    /// A text prompt becomes one user message; placeholders are ignored. A chat prompt becomes a message for each
    /// segment, and at each placeholder the caller's messages, as they are.
    ///
    /// # Errors
    ///
    /// `prompt_render_error`, for everything that spec: prompt-management §11 names, for an empty text, and for a
    /// template that goes beyond the [limits](RenderLimits).
    pub fn render_prompt(&self, prompt: &Arc<Prompt>, inputs: &PromptInputs) -> Result<PromptResult> {
        render::render_prompt(&self.templating, prompt, inputs, self.clock.now().to_system_time())
    }

    /// Checks a prompt without inputs: every template must parse, and its segments must fit together.
    ///
    /// # Errors
    ///
    /// `prompt_render_error`, as [`render_prompt`](Self::render_prompt) would give.
    pub fn check_prompt(&self, prompt: &Prompt) -> Result<()> {
        render::check_template(&self.templating, prompt.template())
            .map_err(|description| render::build_render_error(prompt, &PromptInputs::new(), description))
    }

    /// Fetches a prompt and renders it.
    ///
    /// # Errors
    ///
    /// Those of [`fetch_prompt`](Self::fetch_prompt) and [`render_prompt`](Self::render_prompt).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the fetch.
    pub async fn get(&self, query: impl Into<PromptQuery>, inputs: &PromptInputs) -> Result<PromptResult> {
        let prompt = self.fetch_prompt(query).await?;
        self.render_prompt(&prompt, inputs)
    }
}

/// One error for all backends; each of theirs is told, the last one is the source.
fn merge_unavailable_errors(mut passed_over: Vec<Error>) -> Error {
    match passed_over.pop() {
        Some(last) if passed_over.is_empty() => last,
        last => {
            let before: Vec<String> = passed_over.iter().map(ToString::to_string).collect();
            let what = format!("no backend of prompts can be reached ({})", before.join("; "));
            Error::store_unavailable(what, last.map(Into::into))
        }
    }
}

impl PromptManagerBuilder {
    /// Adds a backend that is asked when none before it can be reached.
    pub fn fallback(mut self, backend: impl PromptBackend + 'static) -> Self {
        self.manager.backends.push(Box::new(backend));
        self
    }

    /// Sets who chooses the label where a query names none.
    pub fn label_resolver(mut self, resolver: impl LabelResolver + 'static) -> Self {
        self.manager.labels = Some(Box::new(resolver));
        self
    }

    /// Sets how old a cached prompt may be where a query says nothing; zero asks for fresh reads.
    pub fn cache_ttl(mut self, ttl: Duration) -> Self {
        self.manager.cache_ttl = Some(ttl);
        self
    }

    /// Takes the time of rendering from another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.manager.clock = clock;
        self
    }

    /// Sets how much work a template may make.
    pub fn render_limits(mut self, limits: RenderLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets who is told, before the fetch returns, that a backend was passed over.
    pub fn on_fallback(mut self, tell: impl Fn(&Fallback<'_>) + Send + Sync + 'static) -> Self {
        self.manager.on_fallback = Some(FallbackListener(Box::new(tell)));
        self
    }

    /// Returns the manager.
    #[must_use]
    pub fn build(self) -> PromptManager {
        PromptManager { templating: TemplateEngine::new(self.limits), ..self.manager }
    }
}
