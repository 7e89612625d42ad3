//! A server of tools, as MCP servers are, at the boundary where agents see it: it can be away, and its list changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_llm::{BoxFuture, ToolDefinition};
use singletree_tools::{Effect, Error, Invocation, Offer, Output, Recovery, Result, Tool, Toolset};

use crate::coverage::CoverageCounts;
use crate::fault::FaultKind;
use crate::tool::{SimulatedTool, SimulatedToolKind, ToolWorld};

/// The name of the server.
const SERVER: &str = "remote";

/// What a person who approves is told of a tool whose definition is not the one that was seen first.
const CHANGED: &str = "the definition of this tool has changed";

/// The server. It outlives the processes that use it. A clone is the same server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolServer(Arc<Mutex<ToolServerState>>);

#[derive(Debug, Default)]
struct ToolServerState {
    /// How often its list has changed.
    changes: u64,
    /// When it can be reached again.
    away_until: Duration,
}

/// One list of the server's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ToolListing {
    number: u64,
    /// Whether the definitions are not those that were seen first.
    has_changed_definitions: bool,
    /// Whether the idempotent tool is left out.
    is_shorter: bool,
}

impl ToolListing {
    /// Returns the list behind so many changes: the first one, one with other definitions, one with a tool less, and so on.
    fn after_changes(number: u64) -> Self {
        Self { number, has_changed_definitions: number % 3 == 1, is_shorter: number % 3 == 2 }
    }

    fn kinds(self) -> &'static [SimulatedToolKind] {
        let kinds = &SimulatedToolKind::OF_SERVER;
        &kinds[..kinds.len() - usize::from(self.is_shorter)]
    }
}

impl ToolServer {
    fn lock_state(&self) -> MutexGuard<'_, ToolServerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the list, or the error of a server that cannot be reached.
    fn reach(&self, world: &ToolWorld, coverage: &CoverageCounts) -> Result<ToolListing> {
        let now = world.executor.now();
        let mut state = self.lock_state();
        if world.swarm.is_due(FaultKind::ToolServerAway) {
            state.away_until = now + Duration::from_millis(world.random.draw_between(1, 30_000));
        }
        if world.swarm.is_due(FaultKind::ToolListChanges) {
            state.changes += 1;
        }
        if now < state.away_until && !world.swarm.is_over() {
            coverage.note("a server of tools could not be reached");
            let problem =
                format!("the server {SERVER:?} of this tool cannot be reached now; nothing was done");
            return Err(Error::Unavailable { problem, source: None });
        }
        Ok(ToolListing::after_changes(state.changes))
    }
}

/// The tools of the server in one process: as they are now, or as they were known last while it is away.
pub(crate) struct ServerToolset {
    server: ToolServer,
    world: ToolWorld,
    coverage: CoverageCounts,
    known: Mutex<Option<KnownListing>>,
}

/// The last list, and the tools that were made of it.
type KnownListing = (ToolListing, Arc<[Arc<dyn Tool>]>);

impl ServerToolset {
    pub(crate) fn new(server: ToolServer, world: ToolWorld, coverage: CoverageCounts) -> Self {
        Self { server, world, coverage, known: Mutex::default() }
    }

    fn lock_known(&self) -> MutexGuard<'_, Option<KnownListing>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the same list of tools as before, as long as the server's list is the same.
    fn offer_listing(&self, listing: ToolListing) -> Offer {
        let mut known = self.lock_known();
        if let Some((before, tools)) = &*known {
            if *before == listing {
                return Ok(tools.clone());
            }
            self.coverage.note("the tools of a server were others than before");
        }
        let make = |kind: &SimulatedToolKind| -> Result<Arc<dyn Tool>> {
            let tool = SimulatedTool::new(*kind, self.world.clone())?;
            let (server, coverage) = (self.server.clone(), self.coverage.clone());
            Ok(Arc::new(ServerTool { tool, kind: *kind, listing, server, coverage }))
        };
        let tools: Arc<[Arc<dyn Tool>]> =
            listing.kinds().iter().map(make).collect::<Result<Vec<_>>>()?.into();
        *known = Some((listing, tools.clone()));
        Ok(tools)
    }
}

impl Toolset for ServerToolset {
    fn name(&self) -> &str {
        SERVER
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        Box::pin(async {
            self.world.executor.sleep_for(self.world.draw_micros(1, 2_000)).await;
            match self.server.reach(&self.world, &self.coverage) {
                Ok(listing) => self.offer_listing(listing),
                Err(error) => self.lock_known().as_ref().map(|(_, tools)| tools.clone()).ok_or(error),
            }
        })
    }
}

impl fmt::Debug for ServerToolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerToolset").field("server", &self.server).finish_non_exhaustive()
    }
}

/// One tool of the server, as one of its lists describes it.
struct ServerTool {
    tool: SimulatedTool,
    kind: SimulatedToolKind,
    listing: ToolListing,
    server: ToolServer,
    coverage: CoverageCounts,
}

impl Tool for ServerTool {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    /// A tool whose definition has changed counts as dangerous.
    fn effect(&self) -> Effect {
        if self.listing.has_changed_definitions { Effect::Destructive } else { self.tool.effect() }
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.tool.on_unknown_outcome()
    }

    fn approval_notice(&self) -> Option<&str> {
        let has_changed = self.listing.has_changed_definitions;
        self.coverage.note_if(has_changed, "approval was asked for a changed definition");
        has_changed.then_some(CHANGED)
    }

    fn server(&self) -> Option<&str> {
        Some(SERVER)
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        Box::pin(async move {
            let listing = self.server.reach(self.tool.world(), &self.coverage)?;
            if !listing.kinds().contains(&self.kind) {
                self.coverage.note("a call met a server that has the tool no longer");
                return Err(Error::failed("there is no such tool"));
            }
            self.tool.call(invocation).await
        })
    }
}

impl fmt::Debug for ServerTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTool")
            .field("tool", &self.tool)
            .field("listing", &self.listing)
            .finish_non_exhaustive()
    }
}
