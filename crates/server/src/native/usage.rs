//! The usage of models: by a session, and by all sessions of a tenant.

use axum::Json;
use axum::extract::Path;
use singletree_harness::ModelUsage;
use singletree_protocol::native;

use super::answering::Telling;
use crate::caller::Scope;
use crate::problem::Problem;
use crate::section::{Operation, Route};

const TAG: &str = "usage";

/// Returns the routes of usage.
pub(super) fn routes() -> Vec<Route> {
    let session = Operation::new("showSessionUsage", "Shows what a session has used of models")
        .about(
            "Of every turn that has ended or waits, however it ended, since the session was made. A fork begins with \
             nothing. What a provider does not report is not counted.",
        )
        .tag(TAG)
        .answers::<native::Usage>(200, "The usage, by model.");
    let tenant = Operation::new("showUsage", "Shows what the tenant has used of models")
        .about("In all its sessions, also in those that were deleted since.")
        .tag(TAG)
        .answers::<native::Usage>(200, "The usage, by model.");
    vec![
        Route::get("/v1/sessions/{session}/usage", of_session).needs(Scope::Read).documented(session),
        Route::get("/v1/usage", of_tenant).needs(Scope::Admin).documented(tenant),
    ]
}

async fn of_session(telling: Telling, Path(session): Path<String>) -> Result<Json<native::Usage>, Problem> {
    let used = telling.chat().usage(&session).await.map_err(|error| Problem::of(&error))?;
    Ok(Json(usage(used)))
}

async fn of_tenant(telling: Telling) -> Result<Json<native::Usage>, Problem> {
    let used = telling.chat().usage_of_tenant().await.map_err(|error| Problem::of(&error))?;
    Ok(Json(usage(used)))
}

fn usage(used: Vec<ModelUsage>) -> native::Usage {
    let models: Vec<native::ModelUsage> = used.into_iter().map(of_model).collect();
    let total = models.iter().fold(native::UsageCounts::default(), |sum, it| add(sum, it.counts));
    native::Usage { models, total }
}

fn of_model(used: ModelUsage) -> native::ModelUsage {
    let ModelUsage { model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens } =
        used;
    let counts =
        native::UsageCounts { calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens };
    native::ModelUsage { model, counts }
}

fn add(one: native::UsageCounts, two: native::UsageCounts) -> native::UsageCounts {
    native::UsageCounts {
        calls: one.calls.saturating_add(two.calls),
        prompt_tokens: one.prompt_tokens.saturating_add(two.prompt_tokens),
        completion_tokens: one.completion_tokens.saturating_add(two.completion_tokens),
        cached_tokens: one.cached_tokens.saturating_add(two.cached_tokens),
        cache_creation_tokens: one.cache_creation_tokens.saturating_add(two.cache_creation_tokens),
    }
}
