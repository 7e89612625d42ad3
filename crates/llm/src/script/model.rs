//! The scripted model as a provider.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use singletree_env::BoxFuture;

use super::Script;
use super::answer::AnswerPlan;
use super::pattern::Captures;
use super::situation::RuleRequestView;
use crate::assemble::{ResponseAssembler, ResponseLimits};
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::provider::{BoxStream, Provider};
use crate::request::Request;
use crate::response::Response;
use singletree_env::{InstantTimer, Timer};

/// A provider whose model is a [`Script`]. Stateless and deterministic; always ready.
///
/// It streams word by word, and its whole answer is its own stream assembled. Its usage counts
/// words.
#[derive(Debug, Clone)]
pub struct ScriptedProvider {
    script: Arc<Script>,
    pace: Arc<dyn Timer>,
}

impl ScriptedProvider {
    /// Makes a provider that does not pause.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { script: Arc::new(script), pace: Arc::new(InstantTimer) }
    }

    /// Performs the script's delays by this pace.
    #[must_use]
    pub fn with_pace(mut self, pace: Arc<dyn Timer>) -> Self {
        self.pace = pace;
        self
    }

    fn plan_answer(&self, request: &Request) -> Result<AnswerPlan> {
        request.check()?;
        let script = &*self.script;
        let situation = RuleRequestView::from_request(request);
        let rule = script
            .rules
            .iter()
            .find_map(|rule| rule.match_request(&situation).map(|captures| (&rule.then, captures)));
        let turn = || Captures::from([("turn".to_owned(), situation.users.len().to_string())]);
        let (then, captures) =
            rule.or_else(|| script.fallback.as_ref().map(|then| (then, turn()))).ok_or_else(|| {
                let asked = situation.users.last().map_or("", AsRef::as_ref);
                let asked: String = asked.chars().take(80).collect();
                Error::InvalidRequest(ProviderErrorDetail::new(format!(
                    "no rule of the script fits {asked:?}"
                )))
            })?;
        Ok(then.build_answer_plan(request, &script.model, &captures))
    }

    /// Streams the answer to a request, as [`Provider::stream_deltas`] does, without keeping the request: for wrappers that
    /// make requests of their own.
    ///
    /// # Errors
    /// `provider_invalid_request` when no rule fits, or the request is not valid.
    pub fn stream_script(&self, request: &Request) -> Result<BoxStream<'_, Result<ResponseDelta>>> {
        Ok(self.stream_answer(self.plan_answer(request)?))
    }

    fn stream_answer(&self, plan: AnswerPlan) -> BoxStream<'_, Result<ResponseDelta>> {
        let AnswerPlan { deltas, error, delay } = plan;
        let items = deltas.into_iter().map(Ok).chain(error.map(Err));
        stream::iter(items)
            .then(move |item| async move {
                if !delay.is_zero() {
                    self.pace.sleep_for(delay).await;
                }
                item
            })
            .boxed()
    }
}

impl Provider for ScriptedProvider {
    fn model_name(&self) -> &str {
        &self.script.model
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move {
            let mut deltas = self.stream_answer(self.plan_answer(request)?);
            let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
            while let Some(delta) = deltas.next().await {
                assembler.push_delta(delta?)?;
            }
            assembler.finish_response()?.validate_against(request)
        }
        .boxed()
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        async move { self.stream_script(request) }.boxed()
    }
}
