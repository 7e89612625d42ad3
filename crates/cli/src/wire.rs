//! The composition root: which store, which agent, which time.

use std::sync::Arc;
use std::time::Duration;

use singletree::agent::Artifacts;
use singletree::config::OnUnoffered;
use singletree::controller::Controller;
use singletree::durable::{DocumentStore, Journal, SessionId, SessionKey, TenantId, WaitRowQuery};
use singletree::engine::{GraphOutline, IdGenerator, RandomIds, SystemClock};
use singletree::harness;
use singletree::harness::TurnPromptPolicy;
use singletree::http::Redactor;
use singletree::{Blobs, Chat, GraphAgent};

use crate::args::PolicyName;
use crate::ask::AnswerInstructions;
use crate::campaigns::begin_controller;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::narration_screen::{PIECES_MAX, TerminalNarration};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::serving::{build_notice_settings, resolve_blob_limits, size_or_default};
use crate::traces::{BackgroundExport, build_trace_exporter, note_unsent_turns};
use crate::who::{AgentSelection, Who};

/// How long running turns may take to end before the process does; the next process finishes the others.
const GRACE: Duration = Duration::from_secs(10);

/// An open database with a chat on it.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The chat.
    pub(crate) chat: Chat,
    /// Removes keys from printed text.
    pub(crate) redactor: Redactor,
    /// Who answers, and where they come from; none for the demo.
    pub(crate) about: Option<String>,
    /// How somebody answers from here who is asked later.
    pub(crate) here: AnswerInstructions,
    /// Drives its campaigns.
    pub(crate) controller: Controller,
    /// The artifacts of its sessions.
    pub(crate) artifacts: Artifacts,
    /// What was narrated since it was opened.
    pub(crate) narration: TerminalNarration,
    pub(crate) store: ConversationStore,
    /// Exports the traces of turns, where the file says where to.
    exporting: Option<BackgroundExport>,
}

impl Workspace {
    /// Opens the database for writing; a second process is refused, with `command` in its error.
    pub(crate) async fn open_with_agents(place: &DatabaseLocation, who: &Who, command: &str) -> Result<Self> {
        // A wrong file is reported before a database is created. A person at a terminal sees pending waits: no
        // notices are sent.
        let cast = AgentSelection { notify: Vec::new(), ..AgentSelection::from_arguments(who).await? };
        Self::open_writable(place, cast, command).await
    }

    /// As [`Workspace::open_with_agents`], for commands that need no agent.
    pub(crate) async fn open_without_agents(place: &DatabaseLocation, command: &str) -> Result<Self> {
        Self::open_writable(place, AgentSelection::with_demo_agent()?, command).await
    }

    /// Opens the database for reading, beside a writer or alone.
    pub(crate) async fn open_read_only(place: &DatabaseLocation) -> Result<Self> {
        Self::build_over_store(
            AgentSelection::with_demo_agent()?,
            ConversationStore::open_read_only(place).await?,
            place,
        )
    }

    /// As [`Workspace::open_read_only`], for commands that show which agents could go on. A wrong file does not fail the command
    /// unless it was named on the command line.
    pub(crate) async fn open_read_only_with_agents(place: &DatabaseLocation, who: &Who) -> Result<Self> {
        let store = ConversationStore::open_read_only(place).await?;
        match AgentSelection::from_arguments(who).await {
            Ok(cast) => Self::build_over_store(AgentSelection { notify: Vec::new(), ..cast }, store, place),
            Err(Error::Config(_)) if who.config.is_none() => {
                let workspace = Self::build_over_store(AgentSelection::with_demo_agent()?, store, place)?;
                Ok(Self { here: AnswerInstructions { agents: None, ..workspace.here }, ..workspace })
            }
            Err(error) => Err(error),
        }
    }

    async fn open_writable(place: &DatabaseLocation, cast: AgentSelection, command: &str) -> Result<Self> {
        let store = ConversationStore::open_writable(place, command).await?;
        let mut workspace = Self::build_over_store(cast, store, place)?;
        if let Some(exporting) = &mut workspace.exporting {
            exporting.start();
        }
        Ok(workspace)
    }

    fn build_over_store(
        cast: AgentSelection,
        store: ConversationStore,
        place: &DatabaseLocation,
    ) -> Result<Self> {
        let unoffered = build_unoffered_warner(cast.redactor.clone());
        let AgentSelection {
            agents,
            resources,
            campaigns,
            limits,
            serving,
            notify,
            traces,
            redactor,
            about,
            again,
            ..
        } = cast.build_over_store(&store, unoffered)?;
        let kept = match serving.narration {
            Some(false) => 0,
            Some(true) | None => size_or_default(serving.narration_keep, PIECES_MAX),
        };
        let narration = TerminalNarration::new(kept, redactor.clone());
        let artifacts = Artifacts::new(Arc::new(store.clone()), Arc::new(SystemClock));
        let builder = Chat::builder()
            .limits(limits)
            .blobs(Blobs::new(store.clone()).limits(resolve_blob_limits(&serving)))
            .notices(build_notice_settings(&notify)?)
            .narration(Arc::new(narration.clone()))
            .narrate_in(serving.narration_language.unwrap_or_default())
            .narrate_as(serving.narration_verbosity.unwrap_or_default());
        let builder = note_unsent_turns(builder, traces.as_ref());
        let known = redactor.clone();
        let parts = begin_controller(Arc::new(store.clone()), resources, campaigns)
            .narration(Arc::new(narration.clone()))
            .narrate_in(serving.narration_language.unwrap_or_default())
            .narrate_as(serving.narration_verbosity.unwrap_or_default())
            .redacting(Arc::new(move |text| known.redact(text).into_owned()))
            .build()?;
        let agents = agents.into_iter().chain([parts.cycle_agent()]);
        let chat = agents.fold(builder, |chat, agent| chat.agent(agent)).open(store.clone())?;
        let controller = parts.with_chat(chat.clone());
        let exporting = traces.as_ref().map(|settings| {
            let documents = (Arc::new(store.clone()) as Arc<dyn DocumentStore>, store.is_shared());
            build_trace_exporter(settings, chat.clone(), documents, &redactor).map(BackgroundExport::new)
        });
        let exporting = exporting.transpose()?;
        let agents = Some(chat.agents().map(str::to_owned).collect());
        let here = AnswerInstructions { again: format!("{again}{}", place.database_option()), agents };
        Ok(Self { chat, redactor, about, here, controller, artifacts, narration, store, exporting })
    }

    /// Chooses the conversation: the one that is named; else the last one, if the agent that is asked for answers
    /// there, or any of those that are here, under the policy that is asked for; else a new one.
    ///
    /// # Errors
    /// `usage` if the named one exists and has another policy, which it keeps.
    pub(crate) async fn choose_session(
        &self,
        named: Option<String>,
        last: Option<String>,
        (agent, policy): (Option<&str>, Option<PolicyName>),
    ) -> Result<String> {
        let policy = policy.map(PolicyName::to_prompt_policy);
        let fits = |it: TurnPromptPolicy| policy.is_none_or(|policy| policy == it);
        if let (Some(named), Some(policy)) = (&named, policy) {
            match self.chat.session(named).info().await {
                Ok(info) if !fits(info.prompt_policy) => {
                    return Err(policy_mismatch_error(named, policy.as_str()));
                }
                Ok(_) | Err(harness::Error::SessionUnknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(last) = named.is_none().then_some(last).flatten() else {
            return Ok(named.unwrap_or_else(draw_session_id));
        };
        let answers = |name: &str| {
            agent.map_or_else(|| self.chat.agents().any(|agent| agent == name), |agent| agent == name)
        };
        match self.chat.session(&last).info().await {
            Ok(info) if answers(&info.agent) && fits(info.prompt_policy) => Ok(last),
            Ok(_) => Ok(draw_session_id()),
            Err(harness::Error::SessionUnknown { .. }) => Ok(last),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes keys out of an error.
    pub(crate) fn redact_result<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.into_redacted(&self.redactor))
    }

    /// Refuses the name of an agent that is not here.
    pub(crate) fn check_agent(&self, name: Option<&str>) -> Result<()> {
        match name.filter(|name| !self.chat.agents().any(|agent| agent == *name)) {
            Some(name) => Err(unknown_agent_error(name, self.chat.agents())),
            None => Ok(()),
        }
    }

    /// Finds the action that a signal was last about in a session, answered or not: the number of its wait and the
    /// action's digest. Who answers again must name them too.
    pub(crate) async fn find_last_action(
        &self,
        session: &str,
        signal: &str,
    ) -> Result<Option<(u64, String)>> {
        let session = SessionId::parse(session).map_err(|error| Error::Usage(error.to_string()))?;
        let key = SessionKey::new(TenantId::single(), session);
        let waits = self.store.read_waits(&WaitRowQuery::Signal(key, signal.to_owned())).await;
        let waits = waits.map_err(harness::Error::from)?;
        let last = waits.into_iter().map(|(_, wait)| wait).max_by_key(|it| it.no);
        Ok(last.and_then(|last| Some((last.no, last.action?))))
    }

    /// Lets running turns end, and closes the database.
    pub(crate) async fn close_gracefully(self) {
        let Self { chat, controller, store, exporting, .. } = self;
        drop(controller);
        // A turn that did not end in time is taken over at the next start.
        chat.shutdown(GRACE).await;
        if let Some(exporting) = exporting {
            exporting.finish().await;
        }
        drop(chat);
        store.close().await;
    }
}

/// Says on the standard error which tools the agents do not have: the standard output is the conversation's alone.
fn build_unoffered_warner(redactor: Redactor) -> OnUnoffered {
    Arc::new(move |it| {
        // Where nobody reads, nobody can be told.
        TerminalOutput::standard_error().write_warning(&redactor.redact(&it.to_string())).unwrap_or_default();
    })
}

/// Describes the graph of an agent. Nothing of the agent runs, so that it does not matter where its tools would reach.
pub(crate) async fn describe_graph(name: &str, who: &Who) -> Result<GraphOutline> {
    let agents = AgentSelection::from_arguments(who).await?.agents;
    let found = agents.iter().find(|agent| agent.name() == name);
    let found = found.ok_or_else(|| unknown_agent_error(name, agents.iter().map(GraphAgent::name)))?;
    Ok(found.graph().outline())
}

fn unknown_agent_error<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::Usage(format!("there is no agent '{name}'; there is: {}", known.join(", ")))
}

/// Says that a session keeps its policy.
pub(crate) fn policy_mismatch_error(session: &str, policy: &str) -> Error {
    Error::Usage(format!(
        "session {session} keeps the policy that it was made with, which is not '{policy}'; start another one"
    ))
}

/// Makes the id of a new session: short, for people type it.
pub(crate) fn draw_session_id() -> String {
    let uuid = RandomIds.generate_uuid();
    let first = uuid.split('-').next().unwrap_or(&uuid);
    format!("chat-{first}")
}
