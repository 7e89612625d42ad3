//! Commands beside a server that has the database open, and at a server elsewhere: over its native API, with the
//! output that they have alone.

mod campaigns;
mod lists;
mod turn_event;
mod turn_stream;

use std::io;

use serde_json::{Value, json};
use singletree::durable::{Error as StoreError, StoredTurnStatus as StoredStatus};
use singletree::engine::{IdGenerator, RandomIds};
use singletree::http::{HttpClient, HttpLimits, Secret};
use singletree_client::{AnswerOutcome, CampaignClient, Client, Connection};
use singletree_protocol::native::{
    ForkSession, Outcome, PromptPolicy, SendContent, SendMessage, SenderRole, SignalAnswer, TurnStatus, Wait,
};

use self::turn_stream::TurnStart;
use crate::args::{AnswerArgument, PolicyName};
use crate::artifact_shelf::ArtifactShelf;
use crate::command::not_failed_error;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, SUSPENDED};
use crate::json;
use crate::operator;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::shell_word::quote_shell_word;
use crate::who::read_env_variable;
use crate::wire::{Workspace, draw_session_id, policy_mismatch_error};

/// Which server is spoken to instead of a database.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ServerAddress {
    /// A server instead of a database. A server that has the database open is found without.
    #[arg(long, value_name = "URL", conflicts_with = "db")]
    pub(crate) url: Option<String>,
    /// The environment variable of the server's key; by default SINGLETREE_KEY.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_key_env: Option<String>,
}

/// Where a command finds its conversations.
pub(crate) enum ChatLocation {
    /// In a database that nobody else writes to.
    Here(Box<Workspace>),
    /// Behind a server.
    There(ServedChat),
}

/// The variable of the server's key where none is named.
const KEY: &str = "SINGLETREE_KEY";

/// How many turns are read at once.
const TURNS: u64 = 1000;

/// A server's conversations.
pub(crate) struct ServedChat {
    client: Client,
    campaigns: Box<CampaignClient>,
    url: String,
    /// The options that a suggested command needs to reach the same conversations.
    again: String,
}

/// Finds the conversations: behind the server that is named; else in the database; else behind the server that has it
/// open.
///
/// # Errors
/// Of opening the database, where no server says that it has it.
pub(crate) async fn locate_chat(
    place: &DatabaseLocation,
    address: &ServerAddress,
    open: impl Future<Output = Result<Workspace>>,
) -> Result<ChatLocation> {
    let key = read_server_key(address)?;
    if let Some(url) = &address.url {
        let again = format!(" --url {}", quote_shell_word(url));
        return Ok(ChatLocation::There(ServedChat::for_server_url(url, key, again)?));
    }
    if let Some(url) = operator::find_shared_server_url(place).await {
        return Ok(ChatLocation::There(ServedChat::for_server_url(&url, key, place.database_option())?));
    }
    match open.await {
        Ok(workspace) => Ok(ChatLocation::Here(Box::new(workspace))),
        Err(Error::Open { source: source @ StoreError::Locked { .. } }) => {
            match operator::find_server_url(place) {
                Some(url) => {
                    Ok(ChatLocation::There(ServedChat::for_server_url(&url, key, place.database_option())?))
                }
                None => Err(Error::Open { source }),
            }
        }
        Err(error) => Err(error),
    }
}

fn read_server_key(address: &ServerAddress) -> Result<Option<Secret>> {
    let name = address.server_key_env.as_deref();
    let value = read_env_variable(name.unwrap_or(KEY)).filter(|value| !value.trim().is_empty());
    if name.is_some() && value.is_none() {
        // It may be the key itself: its name is not told.
        return Err(Error::Usage("the variable that --server-key-env names is not set".to_owned()));
    }
    Ok(value.map(|value| Secret::new(value.trim())))
}

impl ServedChat {
    fn for_server_url(url: &str, key: Option<Secret>, again: String) -> Result<Self> {
        let transport = std::sync::Arc::new(HttpClient::new(HttpLimits::standard())?);
        let connection = Connection::new(transport, url, key)?;
        let campaigns = Box::new(CampaignClient::new(connection.clone()));
        Ok(Self { client: Client::new(connection), campaigns, url: url.to_owned(), again })
    }

    /// Returns the artifacts of a session.
    pub(crate) fn artifact_shelf(&self, session: &str) -> ArtifactShelf<'_> {
        ArtifactShelf::There { client: &self.client, session: session.to_owned() }
    }

    /// Returns where the server is.
    pub(crate) fn server_url(&self) -> &str {
        &self.url
    }

    /// Chooses the conversation: the one that is named; else the last one, if it has the policy that is asked for; else
    /// a new one.
    ///
    /// # Errors
    /// `usage` if the named one exists and has another policy, which it keeps; those of the server.
    pub(crate) async fn choose_session(
        &self,
        (named, last): (Option<String>, Option<String>),
        policy: Option<PolicyName>,
    ) -> Result<String> {
        let is_named = named.is_some();
        let Some(found) = named.or(last) else { return Ok(draw_session_id()) };
        let Some(policy) = policy.map(PolicyName::to_native_policy) else { return Ok(found) };
        match self.client.fetch_session(&found).await {
            Ok(session) if session.prompt_policy == policy => Ok(found),
            Ok(_) if is_named => Err(policy_mismatch_error(&found, policy.as_str())),
            Ok(_) => Ok(draw_session_id()),
            Err(error) if error.category() == "chat_session_unknown" => Ok(found),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells whether a session takes commands; a session that is not there yet, or that may not be read, does not.
    pub(crate) async fn takes_commands(&self, session: &str) -> bool {
        let found = self.client.fetch_session(session).await;
        found.is_ok_and(|session| session.prompt_policy == PromptPolicy::Command)
    }

    /// Sends a message and shows the outcome of its turn.
    pub(crate) async fn send_message(
        &self,
        session: &str,
        (text, agent, policy): (String, Option<String>, Option<PolicyName>),
        key: Option<&str>,
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        let content = SendContent::Text(text);
        let prompt_policy = policy.map(PolicyName::to_native_policy);
        let message = SendMessage { role: SenderRole::User, content, agent, prompt_policy };
        if as_json {
            let outcome = self.client.send_message(session, &message, key).await?;
            return self.print_turn_outcome(session, &outcome, (as_json, screen));
        }
        let start = TurnStart::Message(&message, key.map_or_else(draw_idempotency_key, str::to_owned));
        self.start_and_show_turn(session, start, screen).await
    }

    /// Answers the pending wait of this signal, or the only pending wait where no signal is given.
    pub(crate) async fn answer_pending_wait(
        &self,
        (signal, session): (Option<String>, Option<String>),
        reply: AnswerArgument,
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        let mut waits = self.client.list_pending_waits(session.as_deref()).await?.items;
        waits.retain(|wait| signal.as_ref().is_none_or(|signal| wait.signal == *signal));
        let [wait] = waits.as_slice() else {
            let text = match waits.len() {
                0 => format!("nothing waits for this answer at {}", self.url),
                count => format!("{count} wait for an answer; name one of them: singletree pending"),
            };
            return Err(Error::Usage(text));
        };
        self.answer_wait(wait, reply, (as_json, screen)).await
    }

    async fn answer_wait(
        &self,
        wait: &Wait,
        reply: AnswerArgument,
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        let answer = SignalAnswer {
            payload: reply.into_payload(),
            wait: wait.action.is_some().then_some(wait.number),
            action: wait.action.clone(),
        };
        if !as_json {
            screen.show_status("  ...")?;
            let start = TurnStart::Answer(&wait.signal, &answer);
            if let Some(outcome) = self.follow_turn(&wait.session, &start, screen).await? {
                return self.print_turn_outcome(&wait.session, &outcome, (as_json, screen));
            }
        }
        // An answer that is kept for later begins no turn; repeating the request gives the same result.
        match self.client.answer_wait(&wait.session, &wait.signal, &answer).await? {
            // It was kept a moment ago, and has been taken since.
            AnswerOutcome::Ended(_) if !as_json => {
                self.start_and_show_turn(&wait.session, TurnStart::Answer(&wait.signal, &answer), screen)
                    .await
            }
            AnswerOutcome::Ended(outcome) => {
                self.print_turn_outcome(&wait.session, &outcome, (as_json, screen))
            }
            AnswerOutcome::Kept(kept) => {
                screen.write_line(&format!("kept until something waits for it: {}", kept.signal))?;
                Ok(COMPLETED)
            }
        }
    }

    /// Cancels a turn of a session.
    pub(crate) async fn cancel_turn(
        &self,
        (session, turn): (&str, &str),
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        let ended = self.client.cancel_turn(session, turn).await?;
        let is_cancelled = matches!(
            &ended.outcome,
            Some(Outcome::Errored(errored)) if errored.category == "chat_turn_cancelled"
        );
        match (&ended.outcome, as_json) {
            (Some(outcome), true) => json::print_json(screen, &build_outcome_document(session, outcome))?,
            _ if is_cancelled => screen.write_line(&format!("cancelled: {turn}"))?,
            _ => screen.write_line(&format!("had ended already: {turn}"))?,
        }
        Ok(if is_cancelled { COMPLETED } else { ERRORED })
    }

    /// Retries a turn of a session and shows the outcome of the new one.
    pub(crate) async fn retry_turn(
        &self,
        (session, turn): (&str, &str),
        key: Option<&str>,
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        if as_json {
            let outcome = self.client.retry_turn(session, turn, key).await?;
            return self.print_turn_outcome(session, &outcome, (as_json, screen));
        }
        let start = TurnStart::Retry(turn, key.map_or_else(draw_idempotency_key, str::to_owned));
        self.start_and_show_turn(session, start, screen).await
    }

    async fn start_and_show_turn(
        &self,
        session: &str,
        start: TurnStart<'_>,
        screen: &mut TerminalOutput,
    ) -> Result<u8> {
        screen.show_status("  ...")?;
        match self.follow_turn(session, &start, screen).await? {
            Some(outcome) => self.print_turn_outcome(session, &outcome, (false, screen)),
            None => Err(Error::Usage(format!("{} began no turn", self.url))),
        }
    }

    /// Finds the last turn of a session, which is the only one that can be retried.
    ///
    /// # Errors
    /// `usage` where it did not fail; those of the server.
    pub(crate) async fn find_last_failed_turn(&self, session: &str) -> Result<String> {
        let (mut last, mut from) = (None, None);
        loop {
            let page = self.client.list_turns(session, from, Some(TURNS)).await?;
            last = page.items.into_iter().next_back().or(last);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let Some(last) = last else {
            return Err(Error::Usage(format!("no turn of session {session} is kept")));
        };
        Err(match last.status {
            TurnStatus::Errored => return Ok(last.id),
            TurnStatus::Accepted => not_failed_error(session, StoredStatus::Accepted),
            TurnStatus::Suspended => not_failed_error(session, StoredStatus::Suspended),
            TurnStatus::Completed => not_failed_error(session, StoredStatus::Completed),
        })
    }

    /// Makes a session with the beginning of another one, and returns its id.
    pub(crate) async fn fork_session(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<String>,
    ) -> Result<String> {
        Ok(self.client.fork_session(session, &ForkSession { at, id: to }).await?.id)
    }

    /// Deletes a session.
    pub(crate) async fn delete_session(&self, session: &str) -> Result<()> {
        Ok(self.client.delete_session(session).await?)
    }

    /// Returns the pending waits of a session.
    pub(crate) async fn list_pending_waits(&self, session: &str) -> Result<Vec<Wait>> {
        Ok(self.client.list_pending_waits(Some(session)).await?.items)
    }

    /// Answers a wait at a terminal.
    pub(crate) async fn answer_at_terminal(
        &self,
        wait: &Wait,
        reply: AnswerArgument,
        screen: &mut TerminalOutput,
    ) -> Result<u8> {
        screen.show_status("  ...")?;
        self.answer_wait(wait, reply, (false, screen)).await
    }

    /// Prints how a turn of a script ended, without the parts that were already shown while it ran.
    fn print_turn_outcome(
        &self,
        session: &str,
        outcome: &Outcome,
        (as_json, screen): (bool, &mut TerminalOutput),
    ) -> Result<u8> {
        let code = match outcome {
            Outcome::Completed(_) => COMPLETED,
            Outcome::Suspended(_) => SUSPENDED,
            Outcome::Errored(_) => ERRORED,
        };
        if as_json {
            json::print_json(screen, &build_outcome_document(session, outcome))?;
            return Ok(code);
        }
        let Outcome::Suspended(turn) = outcome else { return Ok(code) };
        show_remote_wait(&turn.wait, screen)?;
        if !screen.is_interactive() {
            let forms =
                if turn.wait.action.is_some() { ["approve", "reject"].as_slice() } else { &["'JSON'"] };
            let (signal, session) = (quote_shell_word(&turn.wait.signal), quote_shell_word(session));
            for form in forms {
                let line = format!("singletree answer {signal} {form} --session {session}{}", self.again);
                screen.write_styled_line(TextStyle::Dim, &format!("    {line}"))?;
            }
        }
        Ok(code)
    }
}

/// Draws an idempotency key, under which a request is sent again when its connection was lost.
fn draw_idempotency_key() -> String {
    RandomIds.generate_uuid()
}

/// Shows a pending wait, with every argument of an action.
pub(crate) fn show_remote_wait(wait: &Wait, screen: &mut TerminalOutput) -> io::Result<()> {
    crate::ask::show_wait_parts(
        (&wait.signal, wait.metadata.as_ref(), wait.action.is_some()),
        wait.deadline.as_ref().map(|deadline| deadline.0.clone()),
        screen,
    )
}

/// The document that `--json` prints: the same as for a turn that ran in this process.
fn build_outcome_document(session: &str, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Completed(turn) => json!({
            "session": session, "turn": turn.turn, "outcome": "completed", "replies": turn.replies,
        }),
        Outcome::Suspended(turn) => json!({
            "session": session, "turn": turn.turn, "outcome": "suspended",
            "invocation": turn.wait.invocation, "signal": turn.wait.signal, "wait": turn.wait.number,
            "action": turn.wait.action, "metadata": turn.wait.metadata,
            "deadline": turn.wait.deadline, "payload_schema": turn.wait.payload_schema,
            "pending_messages": turn.pending, "resumed_by": turn.resumed_by,
        }),
        Outcome::Errored(turn) => json!({
            "session": session, "turn": turn.turn, "outcome": "errored", "bucket": turn.bucket,
            "category": turn.category, "reply": turn.reply, "diagnostic": turn.diagnostic,
            "retry_safe": turn.retry_safe, "recorded": true,
        }),
    }
}
