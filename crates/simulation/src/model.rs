//! The simulated model: a script, or drawn answers, behind a line that tears, stalls and breaks.

mod drawn;
mod proposing;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;
use singletree_llm::{
    BoxFuture, BoxStream, Error, Provider, ProviderErrorDetail, Request, Response, ResponseAssembler,
    ResponseDelta, ResponseLimits, Result, ScriptedProvider,
};

use crate::executor::SimulationExecutor;
use crate::fault::{FaultKind, FaultSwarm};
use crate::random::SimulationRandom;
use crate::tool::{FREE_ARGUMENT, ToolWorld};
pub(crate) use proposing::ProposingModel;

/// Where the answers of the simulated model come from.
#[derive(Debug)]
pub(crate) enum ModelAnswerSource {
    /// The rules of a script.
    Script(ScriptedProvider),
    /// Random numbers.
    Drawn,
}

/// A model whose stream is cut into pieces at any place, and fails as real ones do.
#[derive(Debug)]
pub(crate) struct SimulatedModel {
    pub(crate) source: ModelAnswerSource,
    pub(crate) executor: SimulationExecutor,
    pub(crate) swarm: Arc<FaultSwarm>,
    pub(crate) random: Arc<SimulationRandom>,
}

impl SimulatedModel {
    /// Makes a model whose line fails as the world says.
    pub(crate) fn new(source: ModelAnswerSource, world: &ToolWorld) -> Self {
        let ToolWorld { executor, swarm, random, .. } = world.clone();
        Self { source, executor, swarm, random }
    }

    /// Returns the error of a server that does not answer, when it does not.
    fn draw_refusal(&self) -> Option<Error> {
        if !self.swarm.is_due(FaultKind::ModelRefuses) {
            return None;
        }
        let detail = ProviderErrorDetail::new("the model's server refuses");
        Some(match self.random.draw_below(4) {
            0 => Error::RateLimit(detail.with_status(429).with_retry_after(Duration::from_secs(2))),
            1 => Error::RateLimit(detail.with_status(429)),
            2 => Error::Unavailable(detail.with_status(503)),
            _ => Error::Unavailable(detail.with_status(500)),
        })
    }

    /// Makes an answer, and tears it.
    async fn draw_answer(&self, request: &Request) -> Result<Vec<(Duration, Result<ResponseDelta>)>> {
        self.executor.sleep_for(self.draw_micros(100, 20_000)).await;
        if let Some(refusal) = self.draw_refusal() {
            return Err(refusal);
        }
        let mut deltas: Vec<_> = match &self.source {
            ModelAnswerSource::Script(script) => script.stream_deltas(request).await?.collect().await,
            ModelAnswerSource::Drawn => drawn::draw_answer_deltas(request, &self.random)?,
        };
        if self.swarm.is_due(FaultKind::ModelMalformed) {
            self.spoil_calls(&mut deltas);
        }
        let mut pieces: Vec<_> = deltas.into_iter().flat_map(|delta| self.tear_delta(delta)).collect();
        if self.swarm.is_due(FaultKind::ModelBreaksOff) {
            pieces.truncate(self.random.draw_index(pieces.len()));
            pieces.push(Err(Error::Unavailable(ProviderErrorDetail::new("the stream broke off"))));
        }
        let stalls = self.swarm.is_due(FaultKind::ModelStalls).then(|| self.random.draw_index(pieces.len()));
        let paced = pieces.into_iter().enumerate().map(|(at, piece)| {
            let span = match stalls == Some(at) {
                true => self.draw_micros(1_000_000, 90_000_000),
                false => self.draw_micros(1, 4_000),
            };
            (span, piece)
        });
        Ok(paced.collect())
    }

    fn draw_micros(&self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.random.draw_between(low, high))
    }

    /// Cuts a text into two at any place, and thinking into its words.
    fn tear_delta(&self, delta: Result<ResponseDelta>) -> Vec<Result<ResponseDelta>> {
        match delta {
            Ok(ResponseDelta::Text { text, signature: None }) if text.len() > 1 => {
                let at = self.random.draw_index(text.len());
                let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                let (first, second) = text.split_at(at);
                vec![Ok(ResponseDelta::from_text(first)), Ok(ResponseDelta::from_text(second))]
            }
            Ok(ResponseDelta::Thinking { text, signature }) => {
                let thought = Ok(ResponseDelta::Thinking { text: String::new(), signature });
                let words = text.split_inclusive(' ').map(|word| Ok(ResponseDelta::from_thinking(word)));
                words.chain([thought]).collect()
            }
            other => vec![other],
        }
    }

    /// Lets a call name a tool that there is not, or have arguments that are no JSON, no object or deeply nested.
    fn spoil_calls(&self, deltas: &mut [Result<ResponseDelta>]) {
        for delta in deltas {
            if let Ok(ResponseDelta::ToolCall { name, arguments, .. }) = delta {
                match self.random.draw_below(4) {
                    0 if name.is_some() => *name = Some("no_such_tool".to_owned()),
                    1 if arguments.is_some() => *arguments = Some("{\"text\": ".to_owned()),
                    2 if arguments.is_some() => {
                        let levels = self.random.draw_index(80) + 50;
                        *arguments = arguments.take().map(|text| add_deep_argument(&text, levels));
                    }
                    _ if arguments.is_some() => *arguments = Some(Value::Null.to_string()),
                    _ => {}
                }
            }
        }
    }
}

/// Adds a value with so many levels to the arguments of a call, if this is the piece with which they begin.
fn add_deep_argument(piece: &str, levels: usize) -> String {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    match piece.strip_prefix("{\"") {
        Some(rest) => format!("{{\"{FREE_ARGUMENT}\":{open}{close},\"{rest}"),
        None => piece.to_owned(),
    }
}

impl Provider for SimulatedModel {
    fn model_name(&self) -> &str {
        "simulated"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let mut deltas = self.stream_deltas(request).await?;
            let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
            while let Some(delta) = deltas.next().await {
                assembler.push_delta(delta?)?;
            }
            assembler.finish_response()?.validate_against(request)
        })
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async move {
            let answer = self.draw_answer(request).await?;
            let paced = stream::iter(answer).then(move |(span, piece)| async move {
                self.executor.sleep_for(span).await;
                piece
            });
            Ok(paced.boxed())
        })
    }
}
