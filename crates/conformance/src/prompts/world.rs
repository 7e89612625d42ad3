//! The runtime of a case: its backends and managers, and the results of its calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree::prompts::{
    DEFAULT_LABEL, Error, Prompt, PromptBackend as _, PromptGroup, PromptManager, PromptResult,
};

use super::backend::{CasePromptBackend, PromptBackendSpec, SteppedClock};
use super::call::{PromptAction, PromptCallSpec, RenderPromptSource};
use super::setting::{LabelResolverSpec, PromptManagerSpec, build_labels, resolve_label};
use crate::failure::{CaseFailure, Outcome};

/// The result of a call.
#[derive(Debug, Clone)]
pub(super) enum PromptCallResult {
    /// A prompt.
    Prompt(Arc<Prompt>),
    /// A rendered prompt.
    Result(Box<PromptResult>),
    /// A group, and the names of the results of which it was made.
    Group(PromptGroup, Vec<String>),
    /// A label, of a resolver.
    Label(String),
    /// Nothing, as of a clock.
    Nothing,
}

/// Backends, managers, and the captured results by name.
#[derive(Debug)]
pub(super) struct PromptEnvironment {
    backends: Vec<Arc<CasePromptBackend>>,
    managers: BTreeMap<String, PromptManager>,
    resolvers: Vec<LabelResolverSpec>,
    pub(super) captured: BTreeMap<String, PromptCallResult>,
}

impl PromptEnvironment {
    pub(super) fn from_specs(
        backends: &[PromptBackendSpec],
        managers: &[(String, PromptManagerSpec)],
        resolvers: &[LabelResolverSpec],
    ) -> Outcome<Self> {
        let backends = backends.iter().map(|backend| Arc::new(CasePromptBackend::new(backend))).collect();
        let mut world = Self {
            backends,
            managers: BTreeMap::new(),
            resolvers: resolvers.to_vec(),
            captured: BTreeMap::new(),
        };
        for (name, spec) in managers {
            let manager = world.build_manager(spec, resolvers)?;
            world.managers.insert(name.clone(), manager);
        }
        Ok(world)
    }

    fn build_manager(
        &self,
        spec: &PromptManagerSpec,
        resolvers: &[LabelResolverSpec],
    ) -> Outcome<PromptManager> {
        let backends = match &spec.backends {
            None => self.backends.clone(),
            Some(names) => {
                let one = |name: &String| self.find_backend(name, &spec.path);
                names.iter().map(one).collect::<Outcome<_>>()?
            }
        };
        let mut backends = backends.into_iter();
        let primary =
            backends.next().ok_or_else(|| CaseFailure::reader_error(&spec.path, "it has no backend"))?;
        let mut builder = PromptManager::builder(primary).clock(Arc::new(SteppedClock::new()));
        for backend in backends {
            builder = builder.fallback(backend);
        }
        if !spec.resolvers.is_empty() {
            builder = builder.label_resolver(build_labels(&spec.resolvers, resolvers, &spec.path)?);
        }
        if let Some(ttl) = spec.cache_ttl {
            builder = builder.cache_ttl(ttl);
        }
        Ok(builder.build())
    }

    /// Returns a backend by its name.
    pub(super) fn find_backend(&self, name: &str, path: &str) -> Outcome<Arc<CasePromptBackend>> {
        let found = self.backends.iter().find(|backend| backend.name == name).cloned();
        found.ok_or_else(|| CaseFailure::reader_error(path, format!("there is no backend '{name}'")))
    }

    fn find_manager(&self, name: &str, path: &str) -> Outcome<&PromptManager> {
        let found = self.managers.get(name);
        found.ok_or_else(|| CaseFailure::reader_error(path, format!("there is no manager '{name}'")))
    }

    /// Returns a captured result. That nothing was captured is an assertion failure: references stand in
    /// expectations, too.
    pub(super) fn captured_result(&self, name: &str, path: &str) -> Outcome<&PromptCallResult> {
        let found = self.captured.get(name);
        found.ok_or_else(|| CaseFailure::assertion_error(path, format!("nothing is captured as '{name}'")))
    }

    fn rendered_result(&self, name: &str, path: &str) -> Outcome<&PromptResult> {
        match self.captured_result(name, path)? {
            PromptCallResult::Result(it) => Ok(it),
            PromptCallResult::Prompt(_)
            | PromptCallResult::Group(..)
            | PromptCallResult::Label(_)
            | PromptCallResult::Nothing => {
                Err(CaseFailure::reader_error(path, format!("'{name}' is no rendered prompt")))
            }
        }
    }

    /// Makes a call.
    pub(super) async fn run_prompt_call(
        &self,
        call: &PromptCallSpec,
    ) -> Outcome<Result<PromptCallResult, Error>> {
        let path = &call.path;
        let rendered = |it: PromptResult| PromptCallResult::Result(Box::new(it));
        Ok(match &call.action {
            PromptAction::Ask { backend, query } => {
                let label = query.label.as_deref().unwrap_or(DEFAULT_LABEL);
                let backend = self.find_backend(backend, path)?;
                backend.fetch_prompt(&query.name, label, query.cache_ttl).await.map(PromptCallResult::Prompt)
            }
            PromptAction::Fetch { manager, query } => {
                self.find_manager(manager, path)?.fetch_prompt(query).await.map(PromptCallResult::Prompt)
            }
            PromptAction::Get { manager, query, inputs } => {
                self.find_manager(manager, path)?.get(query, inputs).await.map(rendered)
            }
            PromptAction::Render { manager, prompt, inputs } => {
                let manager = self.find_manager(manager, path)?;
                let prompt = match prompt {
                    RenderPromptSource::Fetched(query) => manager.fetch_prompt(query).await,
                    RenderPromptSource::Captured(name) => match self.captured_result(name, path)? {
                        PromptCallResult::Prompt(it) => Ok(it.clone()),
                        PromptCallResult::Result(_)
                        | PromptCallResult::Group(..)
                        | PromptCallResult::Label(_)
                        | PromptCallResult::Nothing => {
                            return Err(CaseFailure::reader_error(path, format!("'{name}' is no prompt")));
                        }
                    },
                };
                prompt.and_then(|prompt| manager.render_prompt(&prompt, inputs)).map(rendered)
            }
            PromptAction::Advance { backend, by } => {
                let backend = self.find_backend(backend, path)?;
                if !backend.is_caching {
                    return Err(CaseFailure::reader_error(path, "only a caching backend has a clock"));
                }
                backend.clock.advance(*by);
                Ok(PromptCallResult::Nothing)
            }
            PromptAction::Resolve { resolver, name } => {
                Ok(PromptCallResult::Label(resolve_label(resolver, name, &self.resolvers, path)?))
            }
            PromptAction::Group { name, members } => {
                let results = members.iter().map(|member| self.rendered_result(member, path).cloned());
                let results: Vec<_> = results.collect::<Outcome<_>>()?;
                PromptGroup::new(name, results).map(|it| PromptCallResult::Group(it, members.clone()))
            }
        })
    }
}
