//! Commands of people to campaigns, and their repetition by an idempotency key.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use singletree_campaign::{CampaignScope, campaign_session};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, SessionId, StoredDocument,
};
use singletree_harness::FailureBucket;
use singletree_llm::canonical_json;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem, with_board_responses};
use super::convert;
use super::lifecycle::TAG;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::native::{IDEMPOTENCY_KEY, mark_replayed};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

/// The kind of the documents that name commands which were given with a key. They are deleted with their campaign.
const KIND: &str = "campaign_command";
/// How many bytes a key may have.
const KEY_BYTES: usize = 512;
/// How long a key is known.
const KEY_KEPT: std::time::Duration = std::time::Duration::from_hours(24);

const COMMANDS: &str = "\
One command, of the caller with the scope that it needs: `free`, `unblock`, `retry` and `answer` need `write`; `decide` and \
`confirm` need `approve`; `budget` needs `admin`. A command is decided over the campaign as it is: of two that contradict each \
other one is carried out, and the other one is 409 `campaign_changed`. Needs the scope `write`, `approve` or `admin`, by the \
command.";

/// Returns the routes about commands.
pub(super) fn command_routes() -> Vec<ApiRoute> {
    let give = ApiOperation::new("commandCampaign", "Gives a command to a campaign")
        .with_description(COMMANDS)
        .with_tag(TAG)
        .with_header(
            "Idempotency-Key",
            "Commands once: the same key with the same command again changes nothing, with another one it is 409. Known for a day.",
        )
        .with_json_body::<native::CampaignCommand>()
        .with_error_statuses(&[403, 409]);
    let give = with_board_responses(give);
    vec![ApiRoute::post("/v1/campaigns/{campaign}/commands", give_command).with_operation(give)]
}

async fn give_command(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::CampaignCommand>,
) -> Result<Response, RequestProblem> {
    let digest = digest_text(&canonical_json(&serde_json::to_value(&sent).unwrap_or_default()));
    let (action, details) = describe_command(&sent);
    let command = convert::read_command(sent);
    asked.telling.caller.require_scope(match command.required_scope() {
        CampaignScope::Write => Scope::Write,
        CampaignScope::Approve => Scope::Approve,
        CampaignScope::Admin => Scope::Admin,
    })?;
    let key = asked.read_command_key(&campaign, &digest)?;
    if let Some(key) = &key
        && asked.was_command_given(key).await?
    {
        return asked.respond_with_replay(&campaign).await;
    }
    let caller = asked.audited_caller((action, &campaign), &details);
    let caller = caller.with_changes(key.iter().map(CommandKey::build_change));
    let board = asked.controller.command(asked.tenant(), &campaign, command, &caller).await;
    match (board, &key) {
        (Ok(board), _) => Ok(asked.respond_with_board(&board)),
        // The same request may have come twice at the same time.
        (Err(error), Some(key)) if error.category() == "campaign_changed" => {
            match asked.was_command_given(key).await? {
                true => asked.respond_with_replay(&campaign).await,
                false => Err(campaign_problem(error)),
            }
        }
        (Err(error), _) => Err(campaign_problem(error)),
    }
}

/// Returns the word of a command for the audit, and its ids and digests.
fn describe_command(command: &native::CampaignCommand) -> (&'static str, Vec<(&'static str, Value)>) {
    match command {
        native::CampaignCommand::Free { text } => {
            ("campaign.commanded", vec![("digest", digest_text(text).into())])
        }
        native::CampaignCommand::Unblock { task } => ("campaign.task_unblocked", vec![("task", json!(task))]),
        native::CampaignCommand::Retry { task } => ("campaign.task_retried", vec![("task", json!(task))]),
        native::CampaignCommand::Answer { answer, .. } => {
            ("campaign.answered", vec![("digest", digest_text(&canonical_json(answer)).into())])
        }
        native::CampaignCommand::Confirm { task, question } => (
            "campaign.confirmed",
            vec![("task", json!(task)), ("question_digest", digest_text(question).into())],
        ),
        native::CampaignCommand::Decide { digest, approved, .. } => {
            ("campaign.action_decided", vec![("digest", json!(digest)), ("approved", json!(approved))])
        }
        native::CampaignCommand::Budget { budget } => {
            ("campaign.budget_changed", vec![("budget", json!(budget))])
        }
    }
}

/// A command that is given with a key: the document that names it, and the digest of the command.
struct CommandKey {
    document: DocumentKey,
    session: SessionId,
    body: JsonDocument,
    digest: String,
    expires_at: singletree_durable::Timestamp,
}

impl CommandKey {
    fn build_change(&self) -> DocumentChange {
        DocumentChange::Write {
            key: self.document.clone(),
            expect: DocumentPrecondition::Absent,
            session: Some(self.session.clone()),
            body: self.body.clone(),
            expires_at: Some(self.expires_at),
        }
    }
}

impl CampaignRequest {
    /// Reads the key of the request, if it has one.
    fn read_command_key(&self, campaign: &str, digest: &str) -> Result<Option<CommandKey>, RequestProblem> {
        let Some(key) = self.telling.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
        let key = key.to_str().ok().filter(|key| (1..=KEY_BYTES).contains(&key.len()));
        let key = key.ok_or_else(|| {
            RequestProblem::invalid_request(format!(
                "Idempotency-Key has 1 to {KEY_BYTES} characters of ASCII"
            ))
        })?;
        let unknown = || campaign_problem(singletree_controller::Error::Unknown { id: campaign.to_owned() });
        let session = SessionId::parse(campaign_session(campaign)).map_err(|_| unknown())?;
        let id = format!("{campaign}/{}", digest_text(key));
        Ok(Some(CommandKey {
            document: DocumentKey::new(self.tenant().clone(), KIND, id),
            session,
            body: JsonDocument::from_serializable(&json!({ "digest": digest }))
                .map_err(|error| RequestProblem::invalid_request(error.to_string()))?,
            digest: digest.to_owned(),
            expires_at: self.telling.shared.now().saturating_add(KEY_KEPT),
        }))
    }

    /// Tells whether the command was given before with this key.
    ///
    /// # Errors
    /// `chat_idempotency_conflict` when another command was given with it.
    async fn was_command_given(&self, key: &CommandKey) -> Result<bool, RequestProblem> {
        let found = self.telling.shared.documents.read_document(&key.document).await;
        let found = found.map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
        let digest_of = |document: &StoredDocument| {
            let body: Option<Value> = document.body.decode().ok();
            body.and_then(|body| Some(body.get("digest")?.as_str()?.to_owned()))
        };
        match found.as_ref().map(digest_of) {
            None => Ok(false),
            Some(Some(digest)) if digest == key.digest => Ok(true),
            Some(_) => Err(RequestProblem::new(
                StatusCode::CONFLICT,
                "chat_idempotency_conflict",
                FailureBucket::UserCorrectable,
                "another command was given with this Idempotency-Key",
            )),
        }
    }

    async fn respond_with_replay(&self, campaign: &str) -> Result<Response, RequestProblem> {
        let board = self.controller.get(self.tenant(), campaign).await.map_err(campaign_problem)?;
        let mut response = self.respond_with_board(&board);
        mark_replayed(&mut response);
        Ok(response)
    }
}

/// Digests a text: its SHA-256 in lower-case hexadecimal.
fn digest_text(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
