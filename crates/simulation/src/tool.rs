//! The tools of the simulated agents: their effects happen outside of the process that asks for them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_llm::{BoxFuture, ToolDefinition};
use singletree_tools::{Effect, Error, Invocation, Output, Recovery, Result, Tool, ToolTraits};
use tokio::sync::oneshot;

use crate::executor::{SimulationExecutor, TaskGroup};
use crate::fault::{FaultKind, FaultSwarm};
use crate::ledger::{EffectLedger, EffectRecord};
use crate::random::SimulationRandom;
use crate::subject::KnownTools;

/// The argument of [`SimulatedToolKind::Look`] that may be any value.
pub(crate) const FREE_ARGUMENT: &str = "detail";

/// The kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimulatedToolKind {
    /// Reads.
    Look,
    /// Has an effect each time it is called.
    Effect,
    /// Has an effect once for a key, however often it is called with it.
    Idempotent,
    /// Has an effect that a person must approve.
    Risky,
    /// As `Effect`, of a server of tools.
    ServerEffect,
    /// As `Idempotent`, of a server of tools.
    ServerIdempotent,
}

impl SimulatedToolKind {
    /// Those that are always there.
    pub(crate) const FIXED: [Self; 4] = [Self::Look, Self::Effect, Self::Idempotent, Self::Risky];

    /// Those of the server of tools.
    pub(crate) const OF_SERVER: [Self; 2] = [Self::ServerEffect, Self::ServerIdempotent];

    pub(crate) fn tool_name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Effect => "effect",
            Self::Idempotent => "once",
            Self::Risky => "risky",
            Self::ServerEffect => "remote_effect",
            Self::ServerIdempotent => "remote_once",
        }
    }

    fn effect(self) -> Effect {
        match self {
            Self::Look => Effect::Read,
            Self::Effect | Self::Idempotent | Self::ServerEffect | Self::ServerIdempotent => {
                Effect::SafeWrite
            }
            Self::Risky => Effect::Destructive,
        }
    }

    fn recovery(self) -> Recovery {
        match self {
            Self::Look | Self::Idempotent | Self::ServerIdempotent => Recovery::Rerun,
            Self::Effect | Self::Risky | Self::ServerEffect => Recovery::Report,
        }
    }
}

/// The world as tools see it.
#[derive(Debug, Clone)]
pub(crate) struct ToolWorld {
    pub(crate) executor: SimulationExecutor,
    pub(crate) swarm: Arc<FaultSwarm>,
    pub(crate) ledger: EffectLedger,
    pub(crate) random: Arc<SimulationRandom>,
}

impl ToolWorld {
    /// Draws a duration.
    pub(crate) fn draw_micros(&self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.random.draw_between(low, high))
    }
}

/// A tool.
#[derive(Debug)]
pub(crate) struct SimulatedTool {
    traits: ToolTraits,
    world: ToolWorld,
    /// The list that counts its calls, for a tool of a user.
    known: Option<KnownTools>,
}

impl SimulatedTool {
    pub(crate) fn new(kind: SimulatedToolKind, world: ToolWorld) -> Result<Self> {
        let name = kind.tool_name();
        let mut schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
            "additionalProperties": false
        });
        if kind == SimulatedToolKind::Look {
            // As many tools have one: a value of any form.
            schema["properties"][FREE_ARGUMENT] = json!({});
        }
        let definition = ToolDefinition::new(name, "Does what the simulation asks for.", schema)
            .map_err(|source| Error::Definition { name: name.to_owned(), source })?;
        let traits = ToolTraits { definition, effect: kind.effect(), recovery: kind.recovery() };
        Ok(Self { traits, world, known: None })
    }

    /// Makes a tool in the place of one of a user.
    pub(crate) fn of_user(traits: ToolTraits, world: ToolWorld, known: KnownTools) -> Self {
        Self { traits, world, known: Some(known) }
    }

    /// Returns the world that it acts in.
    pub(crate) fn world(&self) -> &ToolWorld {
        &self.world
    }

    fn tool_name(&self) -> &str {
        self.traits.definition.name()
    }

    fn reads(&self) -> bool {
        !self.traits.effect.has_side_effects()
    }

    /// Makes the record of a request. Our own tools name the message that led to the call; those of a user their arguments.
    fn make_record(&self, invocation: Invocation<'_>) -> EffectRecord {
        let origin = invocation.origin.map(|origin| format!("{}/{}", origin.tenant, origin.session));
        let text = match &self.known {
            Some(_) => Value::Object(invocation.arguments.clone()).to_string(),
            None => {
                let text = invocation.arguments.get("text").and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
        };
        EffectRecord {
            key: invocation.key.to_string(),
            tool: self.tool_name().to_owned(),
            text,
            session: origin.unwrap_or_default(),
            took_effect: true,
        }
    }
}

impl Tool for SimulatedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.traits.definition
    }

    fn effect(&self) -> Effect {
        self.traits.effect
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.traits.recovery
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        let request = self.make_record(invocation);
        if let Some(known) = &self.known {
            known.count_call(self.tool_name());
        }
        let (is_idempotent, world) = (self.traits.recovery == Recovery::Rerun, self.world.clone());
        Box::pin(async move {
            let micros = |low, high| world.draw_micros(low, high);
            // Until here, nothing has left the process.
            world.executor.sleep_for(micros(10, 3_000)).await;
            if self.reads() {
                return Ok(Output::text(format!("saw {}", request.text)));
            }
            if world.swarm.is_due(FaultKind::ToolRequestLost) {
                let problem = "the service cannot be reached".to_owned();
                return Err(Error::Unavailable { problem, source: None });
            }
            let is_slow = world.swarm.is_due(FaultKind::ToolSlow);
            let span = if is_slow { micros(1_000_000, 60_000_000) } else { micros(100, 30_000) };
            let is_answer_lost = world.swarm.is_due(FaultKind::ToolAnswerLost);
            let mut done = request_effect(&world, request.clone(), is_idempotent, span).await;
            if is_answer_lost && is_idempotent {
                // The client of an idempotent service repeats what was not answered, under the same key.
                done = request_effect(&world, request, is_idempotent, micros(100, 30_000)).await;
            }
            match done {
                Some(done) if is_idempotent || !is_answer_lost => Ok(Output::text(done)),
                Some(_) | None => {
                    let problem = "the service went away".to_owned();
                    Err(Error::Interrupted { problem, source: None })
                }
            }
        })
    }
}

/// Sends the request to its service. It is on its way from now on, whatever becomes of the process.
async fn request_effect(
    world: &ToolWorld,
    request: EffectRecord,
    is_idempotent: bool,
    span: Duration,
) -> Option<String> {
    let (answer, answered) = oneshot::channel();
    let service = world.clone();
    let serving = async move {
        service.executor.sleep_for(span / 2).await;
        let done = format!("did {}", request.key);
        service.executor.trace_event(format_args!("effect {} of {}", request.text, request.session));
        service.ledger.take_request(request, is_idempotent);
        service.executor.sleep_for(span / 2).await;
        // Who asked may be dead.
        drop(answer.send(done));
    };
    world.executor.spawn_in_group(TaskGroup::WORLD, Box::pin(serving));
    answered.await.ok()
}
