//! Campaigns of shells: a template begins one, a run id `cmp_…` shows one, and tokens decide what waits in it (INV-7).

use serde_json::Value;
use singletree_campaign::{ActionStage, CampaignBoard, CampaignWait, PersonCommand, campaign_session};
use singletree_controller::{CampaignCaller, Controller, Error, NewCampaign};
use singletree_durable::{DocumentChange, InvocationId};
use singletree_harness::TurnId;
use singletree_llm::canonical_json;
use singletree_protocol::openharness::{
    Action, ActionDirective, ApprovalOption, Continuation, Decision, ErrorCode, Issued, RenderMessage,
    RequestApproval, ResponsePayload, RiskTier,
};

use super::admission::{PersonMessageContent, start_procedure_text};
use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use super::tokens::{self, ApprovalQuestion};
use super::{approval, digest};
use crate::caller::Scope;
use crate::campaigns::{campaign_caller, campaign_problem};

/// How the id of a campaign begins: a run id that begins so names a campaign.
const PREFIX: &str = "cmp_";
/// The names of the questions of campaigns.
const PLAN: &str = "campaign_plan";
const CALL: &str = "campaign_action";

/// Tells whether a run id may name a campaign.
pub(super) fn is_campaign_id(run_id: &str) -> bool {
    run_id.starts_with(PREFIX)
}

/// Returns the controller, if a procedure names one of its templates.
pub(super) fn find_template<'a>(asking: &ShellRequestContext<'a>, sop: &str) -> Option<&'a Controller> {
    let controller = asking.shared.campaigns.as_ref()?;
    controller.templates().iter().any(|template| template.name == sop).then_some(controller)
}

/// Begins a campaign of a template. The intent, where there is one, is its first command. The same request begins one
/// campaign, however often it is sent.
pub(super) async fn begin_campaign(
    asking: &ShellRequestContext<'_>,
    (controller, template): (&Controller, &str),
    saying: &PersonMessageContent,
    request_id: Option<&str>,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    asking.caller.require_scope(Scope::Write)?;
    if !saying.attachments.is_empty() {
        let why = "a campaign takes no attachments";
        return Err(EngineErrorResponse::invalid_field("context.attachments", why));
    }
    let tenant = &asking.caller.tenant;
    let id = request_id.map(|request_id| {
        let name = digest::digest_parts_hex(&["openharness campaign", tenant.as_str(), request_id]);
        format!("{PREFIX}{}", &name[..32])
    });
    let subject = asking.caller.subject.as_ref().map(ToString::to_string);
    let new = NewCampaign { id: id.clone(), subject, ..NewCampaign::from_template(template) };
    let caller = campaign_caller(asking.caller);
    let board = match (controller.create(tenant, new, &caller).await, id) {
        // A request that says nothing else gives no command.
        (Ok(board), _) if saying.intent == start_procedure_text(template, None) => board,
        (Ok(board), _) => give_first_command(controller, board, (asking, &caller), &saying.intent).await?,
        // An earlier attempt of the same request has begun it.
        (Err(error), Some(id)) if error.category() == "campaign_changed" => {
            controller.get(tenant, &id).await.map_err(campaign_failure)?
        }
        (Err(error), _) => return Err(campaign_failure(error)),
    };
    Ok(show_board(asking, &board, RequestReplayPolicy::Answer))
}

async fn give_first_command(
    controller: &Controller,
    board: CampaignBoard,
    (asking, caller): (&ShellRequestContext<'_>, &CampaignCaller),
    intent: &str,
) -> Result<CampaignBoard, EngineErrorResponse> {
    let command = PersonCommand::Free { text: intent.to_owned() };
    let given = controller.command(&asking.caller.tenant, &board.campaign.id, command, caller).await;
    given.map_err(campaign_failure)
}

/// Shows a campaign: its state, and what waits in it, with new tokens.
pub(super) async fn show_campaign(
    asking: &ShellRequestContext<'_>,
    run_id: &str,
    session: Option<&str>,
) -> Result<Option<ExecutedRequest>, EngineErrorResponse> {
    asking.caller.require_scope(Scope::Read)?;
    let Some(controller) = &asking.shared.campaigns else { return Ok(None) };
    let board = match controller.get(&asking.caller.tenant, run_id).await {
        Ok(board) => board,
        Err(Error::Unknown { .. }) => return Ok(None),
        Err(error) => return Err(campaign_failure(error)),
    };
    if is_invocation(asking, run_id).await? {
        let why = "names a campaign and an invocation";
        return Err(EngineErrorResponse::invalid_field("context.continuation.run_id", why));
    }
    if session.is_some_and(|session| session != campaign_session(run_id)) {
        return Err(super::deciding::unknown_continuation_error());
    }
    // A campaign goes on: the same request may get another state later.
    Ok(Some(show_board(asking, &board, RequestReplayPolicy::Free)))
}

async fn is_invocation(asking: &ShellRequestContext<'_>, run_id: &str) -> Result<bool, EngineErrorResponse> {
    let Ok(invocation) = InvocationId::parse(run_id) else { return Ok(false) };
    match asking.chat.turn(&TurnId::new(invocation, 0)).await {
        Ok(_) => Ok(true),
        Err(singletree_harness::Error::TurnUnknown { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Tells whether a question of a token is one of a campaign.
pub(super) fn is_campaign_question(question: &ApprovalQuestion) -> bool {
    is_campaign_id(&question.run_id) && [PLAN, CALL].contains(&question.signal.as_str())
}

/// Carries out the decision of a token.
pub(super) async fn decide_question(
    asking: &ShellRequestContext<'_>,
    question: &ApprovalQuestion,
    decision: Decision,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    let controller = asking.shared.campaigns.as_ref();
    let controller = controller.ok_or_else(super::deciding::unknown_continuation_error)?;
    let (version, digest) = (question.wait, question.action.clone());
    let command = match (question.signal.as_str(), decision) {
        (PLAN, Decision::Approve) => PersonCommand::ApprovePlan { version, digest },
        (PLAN, Decision::Reject) => PersonCommand::RejectPlan { version, reason: None },
        (_, decision) => {
            let approved = decision == Decision::Approve;
            PersonCommand::DecideAction { digest, approved, reason: None }
        }
    };
    let caller = campaign_caller(asking.caller);
    let decided = controller.command(&asking.caller.tenant, &question.run_id, command, &caller).await;
    let board = decided.map_err(|error| match error.category() {
        "campaign_changed" => tokens::decided_otherwise_error(),
        _ => campaign_failure(error),
    })?;
    Ok(show_board(asking, &board, RequestReplayPolicy::Answer))
}

/// A decision that waits in a campaign, as a person is shown it.
struct CampaignQuestion {
    signal: &'static str,
    title: String,
    prompt: String,
    name: String,
    params: Value,
    /// The version of the plan; 0 of a call.
    version: u64,
    digest: String,
}

impl CampaignQuestion {
    fn from_board(board: &CampaignBoard) -> Option<Self> {
        // A plan can be approved also while its agent is asked again, after a command.
        let plan = board.plan.as_ref().filter(|_| !board.is_plan_approved() && !board.status.is_over());
        match (plan, &board.wait, &board.action) {
            (Some(plan), _, _) => Some(Self {
                signal: PLAN,
                title: format!("Approval wanted: plan of {}, version {}", board.campaign.name, plan.version),
                prompt: "May this plan run? Its tasks and their proofs:".to_owned(),
                name: PLAN.to_owned(),
                params: serde_json::to_value(&plan.tasks).unwrap_or_default(),
                version: plan.version,
                digest: plan.digest.clone(),
            }),
            (None, Some(CampaignWait::Action), Some(open)) if open.stage == ActionStage::Asked => {
                Some(Self {
                    signal: CALL,
                    title: format!("Approval wanted: {}", open.action.tool),
                    prompt: format!("May `{}` run with these arguments?", open.action.tool),
                    name: open.action.tool.clone(),
                    params: Value::Object(open.action.args.clone()),
                    version: 0,
                    digest: open.action.digest.clone(),
                })
            }
            _ => None,
        }
    }
}

/// Writes the state of a campaign, and asks what waits in it.
fn show_board(
    asking: &ShellRequestContext<'_>,
    board: &CampaignBoard,
    keep: RequestReplayPolicy,
) -> ExecutedRequest {
    // A key that may not read learns that the campaign is there, and no more (S7).
    let can_read = asking.caller.can_read_messages();
    let text = if can_read { describe_board(board) } else { format!("Campaign {}.", board.campaign.id) };
    let mut directives = vec![render_text(asking.redact_text(&text))];
    let mut changes = Vec::new();
    if can_read && let Some(question) = CampaignQuestion::from_board(board) {
        add_question(asking, (board, &question), &mut directives, &mut changes);
    }
    let session = campaign_session(&board.campaign.id);
    let issued = Issued {
        session_id: Some(session.clone()),
        run_id: Some(board.campaign.id.clone()),
        ..Issued::default()
    };
    let payload = ResponsePayload::success(directives).with_issued(&issued);
    ExecutedRequest { payload, session: Some(session), changes, keep }
}

fn add_question(
    asking: &ShellRequestContext<'_>,
    (board, question): (&CampaignBoard, &CampaignQuestion),
    directives: &mut Vec<ActionDirective>,
    changes: &mut Vec<DocumentChange>,
) {
    let shown = asking.redact_text(&approval::format_arguments(&question.params));
    let (shown, is_whole) = approval::cut_shown_text(&shown);
    let params_sha256 = digest::digest_text_hex(&canonical_json(&question.params));
    let run_id = board.campaign.id.clone();
    let mut options = Vec::new();
    if asking.terms.can_ask {
        let until = tokens::decision_deadline(asking, None);
        let pair = tokens::issue_tokens(
            asking,
            &ApprovalQuestion {
                session: campaign_session(&run_id),
                run_id: run_id.clone(),
                signal: question.signal.to_owned(),
                wait: question.version,
                action: question.digest.clone(),
                params_sha256: params_sha256.clone(),
                until: until.as_millis(),
            },
        );
        changes.extend(pair.changes);
        // What nobody has seen whole cannot be approved here (S6).
        let offered =
            pair.tokens.into_iter().filter(|(decision, _)| is_whole || *decision == Decision::Reject);
        options.extend(offered.map(|(decision, token)| ApprovalOption {
            id: decision.as_str().to_owned(),
            label: approval::decision_label(decision).to_owned(),
            continuation: Continuation {
                run_id: Some(run_id.clone()),
                continuation_token: Some(token),
                ..Continuation::default()
            },
        }));
    }
    let fallback = format!("{}\n{shown}\nIt waits in the campaign {run_id}.", question.prompt);
    if options.is_empty() {
        directives.push(render_text(fallback.clone()));
    }
    let payload = RequestApproval {
        signal_id: question.signal.to_owned(),
        run_id,
        title: asking.redact_text(&question.title),
        prompt: format!("{}\n{shown}", question.prompt),
        action: Action { name: question.name.clone(), params_summary: shown, params_sha256 },
        options,
        expires_at: None,
        fallback_message: fallback,
    };
    directives.push(ActionDirective::request_approval(&payload, RiskTier::Dangerous));
}

fn render_text(text: String) -> ActionDirective {
    ActionDirective::render_message(&RenderMessage {
        fallback_message: Some(text.clone()),
        text,
        format: Some("plain".to_owned()),
        message_id: None,
    })
}

/// Describes the state of a campaign for a person.
fn describe_board(board: &CampaignBoard) -> String {
    let counts = board.count_tasks();
    let total = counts.pending + counts.in_progress + counts.done + counts.blocked;
    let mut text = format!(
        "Campaign {}: {}. {} of {total} tasks are done.",
        board.campaign.name, board.status, counts.done
    );
    if let Some(failure) = &board.failure {
        text += &format!(" It failed: {failure}.");
    }
    if let Some(CampaignWait::Question { question, .. }) = &board.wait {
        text += &format!(" It waits for an answer: {question}");
    }
    text
}

fn campaign_failure(error: Error) -> EngineErrorResponse {
    let problem = campaign_problem(error);
    // The request was a valid message: HTTP says 200 (§13).
    let error = super::failure::error_from_problem(&problem);
    match ErrorCode::from_name(&error.code) {
        Some(ErrorCode::Unauthorized | ErrorCode::Forbidden) => problem.into(),
        _ => error.into(),
    }
}
