//! The usage of models: by a session, and by all sessions of a tenant.

use axum::Json;
use axum::extract::Path;
use singletree_harness::ModelTokenUsage;
use singletree_protocol::native;

use super::answering::HandlerContext;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "usage";

/// Returns the routes of usage.
pub(super) fn usage_routes() -> Vec<ApiRoute> {
    let session = ApiOperation::new("showSessionUsage", "Shows what a session has used of models")
        .with_description(
            "Of every turn that has ended or waits, however it ended, since the session was made. A fork begins with \
             nothing. What a provider does not report is not counted.",
        )
        .with_tag(TAG)
        .with_json_response::<native::Usage>(200, "The usage, by model.");
    let tenant = ApiOperation::new("showUsage", "Shows what the tenant has used of models")
        .with_description("In all its sessions, also in those that were deleted since.")
        .with_tag(TAG)
        .with_json_response::<native::Usage>(200, "The usage, by model.");
    vec![
        ApiRoute::get("/v1/sessions/{session}/usage", show_session_usage)
            .with_required_scope(Scope::Read)
            .with_operation(session),
        ApiRoute::get("/v1/usage", show_tenant_usage)
            .with_required_scope(Scope::Admin)
            .with_operation(tenant),
    ]
}

async fn show_session_usage(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::Usage>, RequestProblem> {
    let used = telling
        .caller_chat()
        .session(&session)
        .usage()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(convert_usage(used)))
}

async fn show_tenant_usage(telling: HandlerContext) -> Result<Json<native::Usage>, RequestProblem> {
    let used = telling
        .caller_chat()
        .usage_of_tenant()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(convert_usage(used)))
}

fn convert_usage(used: Vec<ModelTokenUsage>) -> native::Usage {
    let models: Vec<native::ModelUsage> = used.into_iter().map(convert_model_usage).collect();
    let total =
        models.iter().fold(native::UsageCounts::default(), |sum, it| add_usage_counts(sum, it.counts));
    native::Usage { models, total }
}

fn convert_model_usage(used: ModelTokenUsage) -> native::ModelUsage {
    let ModelTokenUsage {
        model,
        calls,
        prompt_tokens,
        completion_tokens,
        cached_tokens,
        cache_creation_tokens,
    } = used;
    let counts =
        native::UsageCounts { calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens };
    native::ModelUsage { model, counts }
}

fn add_usage_counts(one: native::UsageCounts, two: native::UsageCounts) -> native::UsageCounts {
    native::UsageCounts {
        calls: one.calls.saturating_add(two.calls),
        prompt_tokens: one.prompt_tokens.saturating_add(two.prompt_tokens),
        completion_tokens: one.completion_tokens.saturating_add(two.completion_tokens),
        cached_tokens: one.cached_tokens.saturating_add(two.cached_tokens),
        cache_creation_tokens: one.cache_creation_tokens.saturating_add(two.cache_creation_tokens),
    }
}
