//! Models that are ready to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singletree_agent::ScriptedCommands;
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_llm::{ModelRetryPolicy, Provider, RetryBackoff, RuntimeConfig, ScriptedProvider};
use singletree_providers::{Capabilities, HttpProvider};

use super::AgentDependencies;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{HttpModel, ModelRetry, ModelTable, ModelTime};
use crate::resolve::{ReadyBackend, ReadyModel};

/// A model that is ready to be asked, and how.
#[derive(Debug)]
pub(crate) struct BuiltModel {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) sampling: RuntimeConfig,
    pub(crate) answer: Option<Duration>,
    pub(crate) retry: ModelRetryPolicy,
}

/// Models by name.
pub(crate) type Models<'c> = BTreeMap<&'c str, BuiltModel>;

/// Makes the models that agents use.
pub(crate) fn build_models<'c>(config: &'c Config, means: &AgentDependencies) -> Result<Models<'c>> {
    let model = |it: &'c ReadyModel| Ok((it.table.name.value.as_str(), build_model(it, means)?));
    config.resolved.models.iter().map(model).collect()
}

/// Makes the models that agents use, with another provider in the place of each.
pub(crate) fn replace_models<'c>(config: &'c Config, provider: &Arc<dyn Provider>) -> Models<'c> {
    let models = config.resolved.models.iter();
    models
        .map(|model| (model.table.name.value.as_str(), configure_model(&model.table, provider.clone())))
        .collect()
}

fn build_model(model: &ReadyModel, means: &AgentDependencies) -> Result<BuiltModel> {
    let table = &model.table;
    let provider: Arc<dyn Provider> = match &model.source {
        ReadyBackend::Script(script) => {
            let provider = ScriptedProvider::new(script.clone()).with_pace(means.env.timer.clone());
            Arc::new(ScriptedCommands::new(provider))
        }
        ReadyBackend::Http { model: http, key } => {
            let provider = build_http_provider(&table.name.value, http, (&table.time, key.as_ref()));
            Arc::new(provider?)
        }
    };
    Ok(configure_model(table, provider))
}

fn configure_model(table: &ModelTable, provider: Arc<dyn Provider>) -> BuiltModel {
    let (sampling, answer) = (table.sampling.clone(), table.time.answer);
    BuiltModel { provider, sampling, answer, retry: retry_policy(&table.retry) }
}

/// Makes the provider of a model behind a server. Nothing is sent.
pub(crate) fn build_http_provider(
    name: &str,
    model: &HttpModel,
    (time, key): (&ModelTime, Option<&Secret>),
) -> Result<HttpProvider> {
    let limits = http_limits(time);
    let client = HttpClient::new(limits)?;
    let passes_baggage = model.baggage.unwrap_or(true);
    let transport = Arc::new(if passes_baggage { client } else { client.without_baggage() });
    let mut builder = HttpProvider::builder(model.wire, model.model.as_str(), transport)
        .limits(limits)
        .capabilities(model_capabilities(model));
    if let Some(base_url) = &model.base_url {
        builder = builder.base_url(base_url.as_str());
    }
    if let Some(key) = key {
        builder = builder.key(key.clone());
    }
    builder.build().map_err(|error| Error::Model { name: name.to_owned(), source: Box::new(error) })
}

fn http_limits(time: &ModelTime) -> HttpLimits {
    let mut limits = HttpLimits::standard();
    limits.connect = time.connect.unwrap_or(limits.connect);
    limits.head = time.first.unwrap_or(limits.head);
    limits.idle = time.idle.unwrap_or(limits.idle);
    limits
}

fn model_capabilities(model: &HttpModel) -> Capabilities {
    let mut capabilities = Capabilities::of(model.wire);
    capabilities.streaming = model.streaming.unwrap_or(capabilities.streaming);
    capabilities.images = model.images.unwrap_or(capabilities.images);
    capabilities.structured_output = model.structured_output.unwrap_or(capabilities.structured_output);
    capabilities
}

fn retry_policy(table: &ModelRetry) -> ModelRetryPolicy {
    let mut backoff = RetryBackoff::default();
    if let RetryBackoff::Jittered { base, cap, .. } = &mut backoff {
        *base = table.pause.unwrap_or(*base);
        *cap = table.longest_pause.unwrap_or(*cap);
    }
    let retry = ModelRetryPolicy::new().backoff(backoff);
    match table.attempts {
        Some(attempts) => retry.max_attempts(u32::try_from(attempts).unwrap_or(u32::MAX)),
        None => retry,
    }
}
