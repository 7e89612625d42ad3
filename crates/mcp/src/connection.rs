//! One connection to a server: greeting, listing, calling.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Extensions, Implementation, PaginatedRequestParams, PingRequest, PingRequestMethod, ProtocolVersion,
    RequestMetaObject, SubscriptionFilter, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RunningService,
    ServiceError,
};
use rmcp::{ClientHandler, RoleClient};
use singletree_http::TraceHeaders;
use singletree_tools::Invocation;
use tokio::time::timeout;

use crate::child::ChildTransport;
use crate::error::{Error, Result};
use crate::limits::McpLimits;
use crate::link::{ConnectionEnd, ConnectionLink};
use crate::place::McpServerLocation;
use crate::probe::ProbeTransport;
use crate::remote::RemoteTransport;
use crate::words::SecretRedactor;

/// How many pages a list of tools may have.
const PAGES_MAX: usize = 100;
/// How long a sign of life is waited for: a server may be busy with another call.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// The state that all connections of one server share.
#[derive(Debug)]
pub(crate) struct ConnectionTerms {
    pub(crate) server: String,
    pub(crate) place: McpServerLocation,
    pub(crate) limits: McpLimits,
    /// Whether the caller's `baggage` goes on.
    pub(crate) passes_baggage: bool,
    pub(crate) words: SecretRedactor,
}

/// One connection. Dropping it ends it in the background: a program is asked to stop, then killed.
#[derive(Debug)]
pub(crate) struct McpConnection {
    number: u64,
    service: RunningService<RoleClient, NotificationListener>,
    link: Arc<ConnectionLink>,
    terms: Arc<ConnectionTerms>,
}

/// Why a server could not be greeted in one way.
struct GreetingFailure {
    error: Error,
    /// Whether the other way would end alike.
    is_final: bool,
}

/// Receives the server's notifications. Requests of the server to a client (samples, a person's input) are declined.
#[derive(Debug)]
struct NotificationListener {
    link: Arc<ConnectionLink>,
}

impl ClientHandler for NotificationListener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.link.record_tool_change();
    }

    fn get_info(&self) -> ClientConfig {
        let who = Implementation::new("singletree", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), who)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

impl McpConnection {
    /// Starts or reaches the server, and greets it.
    ///
    /// # Errors
    ///
    /// `mcp_configuration_invalid`, `mcp_connect_failed`, `mcp_timeout`.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives up, and kills the program.
    pub(crate) async fn open_and_greet(terms: &Arc<ConnectionTerms>, number: u64) -> Result<Self> {
        let limit = terms.limits.connect;
        let mut link = Arc::new(ConnectionLink::new(terms.limits.said_bytes));
        let greeted = match timeout(limit, Self::greet_server(terms, &mut link)).await {
            Ok(greeted) => greeted?,
            Err(_elapsed) => {
                let (server, said) =
                    (terms.server.clone(), terms.words.clean_text(&link.last_stderr_lines()));
                return Err(Error::Timeout { server, what: "greet", limit, said });
            }
        };
        let connection = Self { number, service: greeted, link, terms: Arc::clone(terms) };
        connection.subscribe_to_changes();
        Ok(connection)
    }

    /// Greets the server in a revision that it supports: the one without `initialize` if it speaks that one, else the
    /// older one. If the server breaks off at the first greeting, or answers the probe too late, it is connected once
    /// more and greeted in the other way.
    async fn greet_server(
        terms: &Arc<ConnectionTerms>,
        link: &mut Arc<ConnectionLink>,
    ) -> Result<RunningService<RoleClient, NotificationListener>> {
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let (first, second) = match &terms.place {
            McpServerLocation::Command(_) => {
                let first = Self::greet_with_lifecycle(terms, link, auto).await;
                let second = if link.is_discovered_late() {
                    Some(ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] })
                } else {
                    // It ended at a question that it does not know, as programs of old libraries do.
                    (!link.is_probed() && link.recorded_end().is_some())
                        .then_some(ClientLifecycleMode::Initialize)
                };
                (first, second)
            }
            // There each request is one of its own, and the first one holds up all others.
            McpServerLocation::Endpoint(_) => {
                match timeout(terms.limits.endpoint_probe, Self::greet_with_lifecycle(terms, link, auto))
                    .await
                {
                    Ok(first) => {
                        let is_lost = matches!(&first, Err(GreetingFailure { is_final: false, .. }));
                        (first, is_lost.then_some(ClientLifecycleMode::Initialize))
                    }
                    Err(_elapsed) => {
                        let problem = "it does not answer".to_owned();
                        let error = terms.connect_error(&problem, link);
                        (
                            Err(GreetingFailure { error, is_final: false }),
                            Some(ClientLifecycleMode::Initialize),
                        )
                    }
                }
            }
        };
        match (first, second) {
            (Err(_), Some(second)) => {
                *link = Arc::new(ConnectionLink::new(terms.limits.said_bytes));
                Self::greet_with_lifecycle(terms, link, second).await.map_err(|refusal| refusal.error)
            }
            (first, _) => first.map_err(|refusal| refusal.error),
        }
    }

    async fn greet_with_lifecycle(
        terms: &Arc<ConnectionTerms>,
        link: &Arc<ConnectionLink>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<RunningService<RoleClient, NotificationListener>, GreetingFailure> {
        let listener = NotificationListener { link: Arc::clone(link) };
        let greeted = match &terms.place {
            McpServerLocation::Command(command) => {
                match ChildTransport::start_program(command, &terms.limits, link) {
                    Ok(transport) => {
                        let transport = ProbeTransport::new(transport, terms.limits.probe, link);
                        listener.serve_with_lifecycle(transport, lifecycle).await
                    }
                    Err(error) => {
                        let problem = format!("{:?} cannot be started: {error}", command.program);
                        return Err(GreetingFailure {
                            error: terms.connect_error(&problem, link),
                            is_final: true,
                        });
                    }
                }
            }
            McpServerLocation::Endpoint(endpoint) => {
                match RemoteTransport::new(endpoint, &terms.limits, link) {
                    Ok(transport) => listener.serve_with_lifecycle(transport, lifecycle).await,
                    Err(problem) => {
                        let error = Error::Configuration { server: terms.server.clone(), problem };
                        return Err(GreetingFailure { error, is_final: true });
                    }
                }
            }
        };
        greeted.map_err(|error| {
            let is_final = match &error {
                ClientInitializeError::TransportError { error, .. } => is_unauthorised(error),
                // It was greeted in both ways.
                ClientInitializeError::LegacyFallbackFailed { .. } => true,
                _ => false,
            };
            GreetingFailure {
                error: terms.connect_error(&terms.describe_greeting_failure(&error, link), link),
                is_final,
            }
        })
    }

    /// Asks a server of the revision without `initialize` to tell when its tools change; older ones tell unasked.
    #[expect(
        clippy::disallowed_methods,
        reason = "time limits and tasks of a connection to a child process or a server"
    )]
    fn subscribe_to_changes(&self) {
        let tells = self.service.peer_info().is_some_and(|server| {
            let tools = server.capabilities.tools.as_ref();
            !server.protocol_version.has_initialize()
                && tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        if !tells {
            return;
        }
        let (peer, link) = (self.service.peer().clone(), Arc::clone(&self.link));
        // Ends with the connection.
        tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut subscription) = peer.listen(filter).await else { return };
            while let Ok(Some(_)) = subscription.next().await {
                link.record_tool_change();
            }
        });
    }

    /// Returns the how manyth connection of its server this is.
    pub(crate) fn connection_number(&self) -> u64 {
        self.number
    }

    pub(crate) fn connection_link(&self) -> &ConnectionLink {
        &self.link
    }

    /// Says whether a call that was lost with this connection might fare better on another.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        !matches!(self.link.recorded_end(), Some(ConnectionEnd::TooLarge(_)))
    }

    /// Lists the tools, at most so many pages, and tools one more than are offered.
    ///
    /// # Errors
    ///
    /// `mcp_timeout`, `mcp_connection_lost`, `mcp_refused`.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Tool>> {
        let has_tools =
            self.service.peer_info().is_none_or(|peer_info| peer_info.capabilities.tools.is_some());
        if !has_tools {
            return Ok(Vec::new());
        }
        let limit = self.terms.limits.list;
        match timeout(limit, self.fetch_tool_pages()).await {
            Ok(listed) => listed.map_err(|error| self.handle_service_error(&error)),
            Err(_elapsed) => Err(Error::Timeout {
                server: self.terms.server.clone(),
                what: "list its tools",
                limit,
                said: self.terms.words.clean_text(&self.link.last_stderr_lines()),
            }),
        }
    }

    async fn fetch_tool_pages(&self) -> Result<Vec<Tool>, ServiceError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let asked = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.list_tools(Some(asked)).await?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() > self.terms.limits.tools {
                break;
            }
        }
        Ok(tools)
    }

    /// Sends a ping. Returns false if the server is gone: a call that was not sent can then go over a new connection.
    pub(crate) async fn is_alive(&self) -> bool {
        let ping = PingRequest { method: PingRequestMethod, extensions: Extensions::default() };
        match timeout(SIGN_OF_LIFE, self.service.send_request(ClientRequest::PingRequest(ping))).await {
            // It is there, and says no, or is busy.
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) | Err(_) => true,
            Ok(Err(error)) => {
                self.handle_service_error(&error);
                false
            }
        }
    }

    /// Calls a tool. There is no timeout here: the caller sets one.
    ///
    /// # Errors
    ///
    /// `mcp_refused` when the server refuses, `mcp_connection_lost` when the outcome is unknown.
    ///
    /// # Cancellation
    ///
    /// Dropping the future tells the server that the call is cancelled.
    pub(crate) async fn call_tool(&self, tool: &str, call: Invocation<'_>) -> Result<CallToolResult> {
        let mut meta = RequestMetaObject::default();
        meta.insert("dev.singletree/idempotency-key".to_owned(), call.key.as_str().into());
        if let Some(origin) = call.origin {
            meta.insert("dev.singletree/conversation".to_owned(), origin.opaque_name().into());
            meta.insert("dev.singletree/fence".to_owned(), origin.fence.into());
        }
        let trace = TraceHeaders::current();
        let passes_baggage = self.terms.passes_baggage;
        for (name, value) in trace.iter().flat_map(|trace| trace.entries_for(passes_baggage)) {
            meta.insert(name.to_owned(), value.into());
        }
        let arguments = call.arguments.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut asked = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        asked.meta = Some(meta);
        match self.service.call_tool_once(asked).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(CallToolResponse::InputRequired(_)) => {
                Err(self.refusal_error("it asks for input of a person"))
            }
            Ok(_) => Err(self.refusal_error("it answers with a task, which was not asked for")),
            Err(error) => Err(self.handle_service_error(&error)),
        }
    }

    fn refusal_error(&self, problem: &str) -> Error {
        Error::Refused { server: self.terms.server.clone(), problem: problem.to_owned() }
    }

    /// Makes ours of an error of the protocol. After one that leaves the connection in doubt it counts as closed.
    fn handle_service_error(&self, error: &ServiceError) -> Error {
        let server = self.terms.server.clone();
        match error {
            ServiceError::McpError(it) => {
                Error::Refused { server, problem: self.terms.words.clean_problem(&it.message) }
            }
            ServiceError::UnexpectedResponse => self.refusal_error("its answer is none to what was asked"),
            _ => {
                self.link.mark_closed();
                let problem = match (self.link.recorded_end(), error) {
                    (Some(end), _) => describe_end(&end),
                    (None, ServiceError::TransportSend(it)) => {
                        self.terms.words.clean_error(it.error.as_ref())
                    }
                    (None, other) => self.terms.words.clean_error(other),
                };
                Error::Lost {
                    server,
                    problem,
                    said: self.terms.words.clean_text(&self.link.last_stderr_lines()),
                }
            }
        }
    }

    /// Ends the connection for everybody who waits.
    pub(crate) fn abort_connection(&self) {
        self.link.mark_closed();
        self.link.record_end(ConnectionEnd::Gone("it was stopped".to_owned()));
        self.service.cancellation_token().cancel();
    }

    /// Ends the connection, and waits until the program is gone.
    pub(crate) async fn close_and_wait(mut self) {
        // The end of the task carries no information: the connection is gone either way.
        drop(self.service.close().await);
    }
}

impl ConnectionTerms {
    fn connect_error(&self, problem: &str, link: &ConnectionLink) -> Error {
        let (server, said) = (self.server.clone(), self.words.clean_text(&link.last_stderr_lines()));
        Error::Connect { server, problem: self.words.clean_problem(problem), said }
    }

    /// Says why a greeting failed.
    fn describe_greeting_failure(&self, error: &ClientInitializeError, link: &ConnectionLink) -> String {
        if let Some(end) = link.recorded_end() {
            return describe_end(&end);
        }
        match error {
            ClientInitializeError::TransportError { error, .. } => {
                if is_unauthorised(error) {
                    return "it wants other credentials (HTTP 401 or 403)".to_owned();
                }
                self.words.clean_error(error.error.as_ref())
            }
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                self.describe_greeting_failure(fallback, link)
            }
            ClientInitializeError::JsonRpcError(it) => {
                format!("it refused the greeting: {}", it.message)
            }
            other => self.words.clean_error(other),
        }
    }
}

fn is_unauthorised(error: &rmcp::transport::DynamicTransportError) -> bool {
    let mut error = Some(error.error.as_ref() as &(dyn std::error::Error + 'static));
    while let Some(current) = error {
        if current.is::<rmcp::transport::streamable_http_client::AuthRequiredError>()
            || current.is::<rmcp::transport::streamable_http_client::InsufficientScopeError>()
        {
            return true;
        }
        error = current.source();
    }
    false
}

fn describe_end(end: &ConnectionEnd) -> String {
    match end {
        ConnectionEnd::Gone(how) => how.clone(),
        ConnectionEnd::TooLarge(limit) => format!("it sent a message larger than {limit} bytes"),
    }
}
