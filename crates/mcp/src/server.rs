//! A server as an agent sees it: connected when it is needed, and again when it went away.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::Tool as Listing;
use serde_json::Value;
use singletree_llm::{BoxFuture, ToolDefinition, count_patterns};
use singletree_tools::{DefinitionPins, Offer, Tool, Toolset};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::builder::McpServerBuilder;
use crate::connection::{ConnectionTerms, McpConnection};
use crate::error::{Error, Result};
use crate::judgement::McpToolSettings;
use crate::name::build_offered_name;
use crate::pinned::PinComparison;
use crate::place::{McpCommand, McpEndpoint, McpServerLocation};
use crate::remote_tool::{RemoteMcpTool, unavailable_tool_error};

/// How long the schema of one tool may take to compile. The limits on schemas bound it to some milliseconds; this is a
/// safety net for unforeseen cases.
const COMPILE_TIME: Duration = Duration::from_secs(5);
/// How often the rest after a failed connection is doubled.
const DOUBLED_MAX: u32 = 4;

/// An MCP server and its tools. Cheap to clone; all clones are one server.
///
/// Nothing happens until it is needed: the first request for tools or the first call connects, and concurrent ones wait
/// for that connection. When the server goes away, the next use connects again; after a failed attempt no other is made
/// for [`McpLimits::rest`](crate::McpLimits::rest). The tools are listed once for each connection, and again when the
/// server says that they changed; while a server is away its last known tools are offered.
///
/// A program is stopped when every clone of its server is dropped; its remaining tools can then no longer be called.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<McpServerInner>,
}

/// The state that the server and its tools share.
#[derive(Debug)]
pub(crate) struct McpServerInner {
    pub(crate) terms: Arc<ConnectionTerms>,
    pub(crate) judgement: McpToolSettings,
    pins: Arc<dyn DefinitionPins>,
    desk: Mutex<McpConnectionState>,
    listed: Mutex<McpToolListing>,
}

/// The connection, or why there is none.
#[derive(Debug, Default)]
struct McpConnectionState {
    connection: Option<Arc<McpConnection>>,
    connected: u64,
    rest: Option<(Instant, Error)>,
    /// Connections in a row that could not be made.
    failures: u32,
}

/// The result of the last listing.
#[derive(Debug, Default)]
struct McpToolListing {
    /// Of which connection, and after how many changes.
    seen: Option<(u64, u64)>,
    listings: Vec<Listing>,
    tools: Option<Arc<[Arc<dyn Tool>]>>,
    problems: Vec<String>,
}

/// How a server stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpReport {
    /// Whether it is connected now.
    pub connected: bool,
    /// The number of its process, while it is a program that runs.
    pub process: Option<u32>,
    /// How often it was connected.
    pub connections: u64,
    /// The names of its tools as models see them, in the server's order.
    pub tools: Vec<String>,
    /// The problems of its tools: not offered, renamed, or with a changed definition.
    pub problems: Vec<String>,
    /// The last output on its standard error.
    pub said: String,
}

impl McpServer {
    /// Starts to describe a server that is a program.
    #[must_use]
    pub fn program(name: &str, command: McpCommand) -> McpServerBuilder {
        McpServerBuilder::new(name, McpServerLocation::Command(command))
    }

    /// Starts to describe a server that is reached by streamable HTTP.
    #[must_use]
    pub fn endpoint(name: &str, endpoint: McpEndpoint) -> McpServerBuilder {
        McpServerBuilder::new(name, McpServerLocation::Endpoint(endpoint))
    }

    pub(crate) fn new(
        terms: ConnectionTerms,
        judgement: McpToolSettings,
        pins: Arc<dyn DefinitionPins>,
    ) -> Self {
        let terms = Arc::new(terms);
        let shared =
            McpServerInner { terms, judgement, pins, desk: Mutex::default(), listed: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Connects and lists the tools, if that is not done already: for those who want to know at the start.
    ///
    /// # Errors
    ///
    /// `mcp_configuration_invalid`, `mcp_connect_failed`, `mcp_timeout`, `mcp_connection_lost`, `mcp_refused`.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives up a connection that is not made yet.
    pub async fn connect(&self) -> Result<()> {
        self.shared.list_current_tools().await.map(drop)
    }

    /// Stops the server and waits until it is gone, unless calls still wait for it: those end as interrupted. A later
    /// use starts it again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the rest to the background.
    pub async fn disconnect(&self) {
        let connection = self.shared.desk.lock().await.connection.take();
        let Some(connection) = connection else { return };
        // Calls that still wait hold it too: they are told that it is over, and the last of them lets go of it.
        connection.abort_connection();
        if let Some(connection) = Arc::into_inner(connection) {
            connection.close_and_wait().await;
        }
    }

    /// Tells how the server stands. Connects nothing.
    ///
    /// # Cancellation
    ///
    /// Dropping the future changes nothing.
    pub async fn report_status(&self) -> McpReport {
        let listed = self.shared.listed.lock().await;
        let desk = self.shared.desk.lock().await;
        let connection = desk.connection.as_ref();
        let live = connection.filter(|connection| !connection.connection_link().is_closed());
        let tools = listed.tools.iter().flat_map(|tool| tool.iter());
        McpReport {
            connected: live.is_some(),
            process: live.and_then(|live| live.connection_link().process_id()),
            connections: desk.connected,
            tools: tools.map(|it| it.definition().name().to_owned()).collect(),
            problems: listed.problems.clone(),
            said: connection
                .map(|connection| {
                    self.shared.terms.words.clean_text(&connection.connection_link().last_stderr_lines())
                })
                .or_else(|| {
                    desk.rest.as_ref().and_then(|(_, error)| error.last_stderr_lines().map(str::to_owned))
                })
                .unwrap_or_default(),
        }
    }
}

impl Toolset for McpServer {
    fn name(&self) -> &str {
        &self.shared.terms.server
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        async { self.shared.current_or_last_tools().await.map_err(unavailable_tool_error) }.boxed()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("name", &self.shared.terms.server)
            .field("place", &self.shared.terms.place)
            .finish_non_exhaustive()
    }
}

impl McpServerInner {
    /// Returns the connection, made now if there is none. Who comes while it is made waits for it.
    #[expect(
        clippy::disallowed_methods,
        reason = "time limits and tasks of a connection to a child process or a server"
    )]
    pub(crate) async fn ensure_connection(&self) -> Result<Arc<McpConnection>> {
        let mut desk = self.desk.lock().await;
        if let Some(connection) =
            desk.connection.as_ref().filter(|connection| !connection.connection_link().is_closed())
        {
            return Ok(Arc::clone(connection));
        }
        if let Some((until, error)) = &desk.rest
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        desk.connection = None;
        match McpConnection::open_and_greet(&self.terms, desk.connected + 1).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                desk.connected += 1;
                desk.rest = None;
                desk.failures = 0;
                desk.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                let rest = self.terms.limits.rest * 2_u32.pow(desk.failures.min(DOUBLED_MAX));
                desk.failures = desk.failures.saturating_add(1);
                desk.rest = Some((Instant::now() + rest, error.clone()));
                Err(error)
            }
        }
    }

    /// Returns the tools as they are now, or as they were known last when the server is away.
    async fn current_or_last_tools(self: &Arc<Self>) -> Result<Arc<[Arc<dyn Tool>]>> {
        match self.list_current_tools().await {
            Ok(tools) => Ok(tools),
            Err(error) => self.listed.lock().await.tools.clone().ok_or(error),
        }
    }

    async fn list_current_tools(self: &Arc<Self>) -> Result<Arc<[Arc<dyn Tool>]>> {
        let mut listed = self.listed.lock().await;
        match self.refresh_tool_listing(&mut listed).await {
            // It may have gone before anybody noticed: the next connection is asked.
            Err(Error::Lost { .. }) => self.refresh_tool_listing(&mut listed).await,
            other => other,
        }
    }

    async fn refresh_tool_listing(
        self: &Arc<Self>,
        listed: &mut McpToolListing,
    ) -> Result<Arc<[Arc<dyn Tool>]>> {
        let connection = self.ensure_connection().await?;
        // Read before the list: a change while it is on its way makes it old at once.
        let seen = Some((connection.connection_number(), connection.connection_link().tool_change_count()));
        if let Some(tools) = listed.tools.as_ref().filter(|_| listed.seen == seen) {
            return Ok(Arc::clone(tools));
        }
        let listings = connection.list_tools().await?;
        listed.seen = seen;
        if let Some(tools) = listed.tools.as_ref().filter(|_| listed.listings == listings) {
            return Ok(Arc::clone(tools));
        }
        let (tools, problems) = self.build_offered_tools(&listings).await;
        listed.listings = listings;
        listed.problems = problems;
        listed.tools = Some(Arc::clone(&tools));
        Ok(tools)
    }

    /// Makes tools of the listings, and returns the problems of those that are not offered, renamed or changed.
    async fn build_offered_tools(
        self: &Arc<Self>,
        listings: &[Listing],
    ) -> (Arc<[Arc<dyn Tool>]>, Vec<String>) {
        let limits = &self.terms.limits;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut problems = Vec::new();
        let (mut taken, mut patterns) = (BTreeSet::new(), 0_usize);
        for listing in listings {
            let own = self.terms.words.clean_problem(&listing.name);
            if tools.len() == limits.tools {
                problems.push(format!("there are more than {} tools; the rest is not offered", limits.tools));
                break;
            }
            let name = build_offered_name(&self.terms.server, &listing.name, &taken);
            if taken.contains(&name) {
                problems.push(format!("{own}: the name is there twice; the second is not offered"));
                continue;
            }
            let parameters = parameter_schema(listing);
            patterns = patterns.saturating_add(count_patterns(&parameters));
            let described = truncated_description(listing, limits.description_bytes);
            let compiled = if patterns > limits.patterns {
                Err(format!("the schemas of this server have more than {} patterns", limits.patterns))
            } else {
                compile_definition(&name, described, parameters).await
            };
            match compiled {
                Ok(definition) => {
                    let pinned =
                        PinComparison::compare_with_pin(self.pins.as_ref(), &self.terms.server, listing)
                            .await;
                    if let PinComparison::Changed { .. } = pinned {
                        problems.push(format!("{own}: its definition is not the one that was seen first"));
                    }
                    if !name.ends_with(listing.name.as_ref()) {
                        problems.push(format!("{own}: offered as {name}"));
                    }
                    taken.insert(name);
                    tools.push(Arc::new(RemoteMcpTool::new(self, definition, listing, &pinned)));
                }
                Err(problem) => problems.push(format!("{own}: not offered: {problem}")),
            }
        }
        (tools.into(), problems)
    }
}

fn truncated_description(listing: &Listing, bytes_max: usize) -> String {
    let described = listing.description.as_deref().or(listing.title.as_deref()).unwrap_or_default();
    described[..described.floor_char_boundary(bytes_max)].to_owned()
}

fn parameter_schema(listing: &Listing) -> Value {
    let mut parameters = listing.schema_as_json_value();
    if let Some(root) = parameters.as_object_mut() {
        // Providers stumble over it, and it says nothing of the arguments.
        root.remove("$schema");
    }
    parameters
}

/// Compiles a definition beside the runtime: a server may say anything, and compiling its patterns takes time.
async fn compile_definition(
    name: &str,
    described: String,
    parameters: Value,
) -> Result<ToolDefinition, String> {
    let name = name.to_owned();
    let compile =
        move || ToolDefinition::new(&name, &described, parameters).map_err(|error| error.to_string());
    match timeout(COMPILE_TIME, spawn_blocking(compile)).await {
        Ok(Ok(compiled)) => compiled,
        Ok(Err(panicked)) => Err(panicked.to_string()),
        Err(_elapsed) => Err("its schema takes too long to compile".to_owned()),
    }
}
