//! The servers that share the database, for who operates them.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use singletree_durable::{BoxFuture, SessionKey};
use singletree_protocol::native::{Node, NodeList};

use crate::Error;
use crate::caller::{RequestCaller, Scope};
use crate::native;
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::section::{ApiOperation, ApiRoute, ProtocolSection};
use crate::shared::ServerState;

/// Lists the processes that share a database ([`ServerBuilder::node_directory`](crate::ServerBuilder::node_directory)).
pub trait NodeDirectory: fmt::Debug + Send + Sync {
    /// Lists them, the oldest first.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    fn list_nodes(&self) -> BoxFuture<'_, singletree_durable::Result<Vec<Node>>>;

    /// Returns the address of another one that lives and holds a session; none by default. Streams of the session's events
    /// are sent on to it ([`ServerBuilder::peer_transport`](crate::ServerBuilder::peer_transport)), and every second each
    /// open stream that is not asks again.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    fn find_owner<'a>(
        &'a self,
        _: &'a SessionKey,
    ) -> BoxFuture<'a, singletree_durable::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Tells whether no process that has this address lives, as far as this one knows by now; false by default. It is called
    /// once a second while a request is sent on to that process, and must return at once. When it has told so twice in a row,
    /// the answer is not awaited any longer.
    fn has_died(&self, _: &str) -> bool {
        false
    }
}

/// Returns the section of the servers.
pub(crate) fn build_section() -> ProtocolSection {
    let list_them = ApiOperation::new("listNodes", "Lists the servers that share the database")
        .with_description("For the operator: the numbers are of all tenants. A server that has its database alone lists none.")
        .with_tag("nodes")
        .with_json_response::<NodeList>(200, "The servers, those that died among them.");
    let routes = vec![
        ApiRoute::get("/v1/nodes", list_nodes).with_required_scope(Scope::Admin).with_operation(list_them),
    ];
    ProtocolSection::new("nodes", native::render_problem, routes)
}

async fn list_nodes(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
) -> Result<Json<NodeList>, RequestProblem> {
    if !caller.is_operator() {
        let why = "the servers are the operator's; a key sees its tenant alone";
        let hint = "use `singletree nodes`, or the operator's key, which is beside the database";
        return Err(RequestProblem::from_kind(RequestProblemKind::Forbidden, why).with_hint(hint));
    }
    let items = match &shared.nodes {
        Some(directory) => directory.list_nodes().await.map_err(Error::Store)?,
        None => Vec::new(),
    };
    Ok(Json(NodeList { items }))
}
