//! One request about campaigns: the controller, the caller, and the audit of its tenant.

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use singletree_campaign::{CampaignBoard, CampaignScope, Error as CampaignError};
use singletree_controller::{CampaignCaller, Controller, Error};
use singletree_durable::TenantId;
use singletree_harness::FailureBucket;
use singletree_protocol::native;

use super::convert;
use crate::caller::{Caller, Scope};
use crate::keys::KeyAuditEntry;
use crate::native::HandlerContext;
use crate::problem::{RequestProblem, RequestProblemKind, category_status};
use crate::section::ApiOperation;
use crate::shared::ServerState;

/// One request about campaigns.
pub(super) struct CampaignRequest {
    pub(super) telling: HandlerContext,
    pub(super) controller: Controller,
}

impl FromRequestParts<Arc<ServerState>> for CampaignRequest {
    type Rejection = RequestProblem;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<ServerState>,
    ) -> Result<Self, RequestProblem> {
        let telling = HandlerContext::from_request_parts(parts, shared).await?;
        let without = || {
            let kind = RequestProblemKind::RouteUnknown;
            RequestProblem::from_kind(kind, "this server has no campaigns")
        };
        let controller = shared.campaigns.clone().ok_or_else(without)?;
        Ok(Self { telling, controller })
    }
}

impl CampaignRequest {
    /// Returns the tenant of the caller: campaigns of others do not exist for it (INV-14).
    pub(super) fn tenant(&self) -> &TenantId {
        &self.telling.caller.tenant
    }

    /// Returns the caller for the controller, with the scopes of its key.
    pub(super) fn campaign_caller(&self) -> CampaignCaller {
        campaign_caller(&self.telling.caller)
    }

    /// Returns the caller for the controller with an entry of the tenant's audit, which lands in the commit of the
    /// command. The entry has ids and digests only.
    pub(super) fn audited_caller(
        &self,
        (action, campaign): (&str, &str),
        details: &[(&str, serde_json::Value)],
    ) -> CampaignCaller {
        let entry = KeyAuditEntry::new(&self.telling.caller.name, action, campaign);
        let entry = details.iter().fold(entry, |entry, (name, value)| entry.with_detail(name, value.clone()));
        let change = self.telling.shared.audit.build_entry_change(self.tenant(), entry);
        self.campaign_caller().with_changes([change])
    }
}

impl CampaignRequest {
    /// Answers with a campaign after a change of it; a caller that may not read learns only that it is done.
    pub(super) fn respond_with_board(&self, board: &CampaignBoard) -> Response {
        match self.telling.caller.can_read_messages() {
            true => Json(convert::convert_detail(board)).into_response(),
            false => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

/// Returns a caller for the controller, with the scopes of its key.
pub(crate) fn campaign_caller(caller: &Caller) -> CampaignCaller {
    let scopes = caller.scopes.iter().filter_map(|scope| match scope {
        Scope::Read => None,
        Scope::Write => Some(CampaignScope::Write),
        Scope::Approve => Some(CampaignScope::Approve),
        Scope::Admin => Some(CampaignScope::Admin),
    });
    scopes.fold(CampaignCaller::new(&caller.name), CampaignCaller::with_scope)
}

/// Adds the answers of [`CampaignRequest::respond_with_board`] to an operation.
pub(super) fn with_board_responses(operation: ApiOperation) -> ApiOperation {
    operation
        .with_json_response::<native::CampaignDetail>(200, "The campaign as it is then.")
        .with_empty_response(204, "It is done; the key may not read campaigns.")
}

/// Makes the problem of an error of the controller.
pub(crate) fn campaign_problem(error: Error) -> RequestProblem {
    match error {
        Error::Chat(source) => RequestProblem::from_chat_error(&source),
        Error::Campaign(CampaignError::Store(source))
        | Error::Agent(singletree_agent::Error::Store { source }) => {
            RequestProblem::from_chat_error(&source.into())
        }
        // Only the operator can repair stored data.
        Error::Campaign(CampaignError::Log { .. }) => {
            let (status, bucket) = (StatusCode::INTERNAL_SERVER_ERROR, FailureBucket::SessionTerminating);
            RequestProblem::new(status, error.category(), bucket, error.to_string())
        }
        refused => {
            let (category, bucket) = (refused.category(), FailureBucket::UserCorrectable);
            let status = category_status(category, bucket);
            RequestProblem::new(status, category, bucket, refused.to_string())
        }
    }
}
