//! A server on a free port.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_controller::ControllerParts;
use singletree_durable::{DocumentStore, Journal, JournalMaintenance};
use singletree_engine::{Clock, SystemClock};
use singletree_harness::{BlobLimits, Blobs, Chat, ChatBuilder, GraphAgent, Limits, Redact};
use singletree_http::{Redactor, Secret};
use singletree_llm::Timer;
use singletree_server::{
    AccessPolicy, NarrationLimits, NarrationLog, Server, ServerBuilder, ServerLimits, Telemetry,
};
use singletree_test_store::TestStore;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::agents::{self, CANARY, World};
use super::campaigns;
use super::client::Client;
use super::inputs::{ClockPace, CountingEntropy, CountingIds, HandClock, HandPace};

/// How long anything in a test may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port over a store in memory, with the scripted agents of [`agents`].
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) at: SocketAddr,
    /// The chat of the tenant `default`: everything that the wire shows must be visible here, too.
    pub(crate) chat: Chat,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) pace: Arc<HandPace>,
    pub(crate) world: World,
    /// The server itself, for requests without a connection.
    pub(crate) server: Server,
    ids: Arc<CountingIds>,
    entropy: Arc<CountingEntropy>,
    operator: String,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<singletree_server::Result<()>>,
}

/// The settings of a rig that differ from the usual ones.
pub(crate) struct RigBuilder {
    limits: ServerLimits,
    chat_limits: Limits,
    blob_limits: BlobLimits,
    world: World,
    clock: Arc<HandClock>,
    ids: Arc<CountingIds>,
    entropy: Arc<CountingEntropy>,
    at: SocketAddr,
    narration: Option<NarrationLog>,
    agents: Vec<MakeAgent>,
    campaigns: Option<Value>,
    chat: Vec<Box<dyn FnOnce(ChatBuilder) -> ChatBuilder>>,
    telemetry: Telemetry,
    server: Vec<Box<dyn FnOnce(ServerBuilder) -> ServerBuilder>>,
    changes: Vec<Box<dyn Fn(GraphAgent) -> GraphAgent>>,
}

/// Makes an agent whose model speaks at a pace.
type MakeAgent = Box<dyn FnOnce(&Arc<dyn Timer>) -> GraphAgent>;

impl Rig {
    /// Starts a server as usual.
    pub(crate) async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts a server that asks everybody for a key.
    pub(crate) async fn asking() -> Self {
        let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
        Self::builder().server(|it| it.access_policy(policy)).start().await
    }

    /// Returns whoever runs the server: manages keys.
    pub(crate) fn operator(&self) -> Client {
        self.client().bearer(&self.operator)
    }

    pub(crate) fn operator_key(&self) -> String {
        self.operator.clone()
    }

    pub(crate) fn builder() -> RigBuilder {
        RigBuilder {
            limits: ServerLimits::default(),
            chat_limits: Limits::default(),
            blob_limits: BlobLimits::default(),
            world: World::default(),
            clock: HandClock::new(),
            ids: Arc::default(),
            entropy: Arc::default(),
            at: SocketAddr::from(([127, 0, 0, 1], 0)),
            narration: None,
            agents: Vec::new(),
            campaigns: None,
            chat: Vec::new(),
            telemetry: Telemetry::without_log(),
            server: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Returns somebody who asks without a key.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.at)
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.begin_stop();
        within(self.served).await.unwrap().unwrap();
    }

    /// Waits until the server has ended by itself, and returns why.
    pub(crate) async fn ended(self) -> singletree_server::Result<()> {
        within(self.served).await.unwrap()
    }

    /// Asks the server to end.
    pub(crate) fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
    }
}

impl RigBuilder {
    pub(crate) fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn chat_limits(mut self, limits: Limits) -> Self {
        self.chat_limits = limits;
        self
    }

    /// Goes on with the state of another rig: its world, its time, its names. For restarts over one store.
    pub(crate) fn after(mut self, other: &Rig) -> Self {
        self.world = other.world.clone();
        self.clock = other.clock.clone();
        self.ids = other.ids.clone();
        self.entropy = other.entropy.clone();
        self
    }

    /// Changes the agents of [`agents`].
    pub(crate) fn each_agent(mut self, change: impl Fn(GraphAgent) -> GraphAgent + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Adds an agent behind those of [`agents`].
    pub(crate) fn also(mut self, make: impl FnOnce(&Arc<dyn Timer>) -> GraphAgent + 'static) -> Self {
        self.agents.push(Box::new(make));
        self
    }

    /// Has campaigns, whose agent proposes this plan and then what its tasks lack.
    pub(crate) fn campaigns(mut self, plan: Value) -> Self {
        self.campaigns = Some(plan);
        self
    }

    /// Listens at this address instead of a free port.
    pub(crate) fn at(mut self, at: SocketAddr) -> Self {
        self.at = at;
        self
    }

    /// Holds the narration in this log.
    pub(crate) fn narration(mut self, log: NarrationLog) -> Self {
        self.narration = Some(log);
        self
    }

    /// Begins at the present time, for those who look at a clock of their own.
    pub(crate) fn now(mut self) -> Self {
        self.clock = HandClock::at(SystemClock.now());
        self
    }

    /// Changes the settings of the chat.
    pub(crate) fn chat(mut self, change: impl FnOnce(ChatBuilder) -> ChatBuilder + 'static) -> Self {
        self.chat.push(Box::new(change));
        self
    }

    /// Counts and logs with this.
    pub(crate) fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Changes the settings of the server.
    pub(crate) fn server(mut self, change: impl FnOnce(ServerBuilder) -> ServerBuilder + 'static) -> Self {
        self.server.push(Box::new(change));
        self
    }

    /// Bounds its blobs.
    pub(crate) fn blob_limits(mut self, limits: BlobLimits) -> Self {
        self.blob_limits = limits;
        self
    }

    /// Starts it over an empty store in memory.
    pub(crate) async fn start(self) -> Rig {
        self.start_on(TestStore::new()).await
    }

    /// Starts it over a store.
    pub(crate) async fn start_on<S>(self, store: S) -> Rig
    where
        S: Journal + JournalMaintenance + DocumentStore + 'static,
    {
        let store = Arc::new(store);
        let pace = HandPace::new();
        let shared_pace: Arc<dyn Timer> = pace.clone();
        let redactor = Redactor::new([Secret::new(CANARY)]);
        let known = redactor.clone();
        let clean: Redact = Arc::new(move |it| known.redact(it).into_owned());
        // Ids of its own, so that narration does not shift the other ids.
        let narrated = || {
            let (limits, clock) = (NarrationLimits::default(), self.clock.clone());
            NarrationLog::new(limits, redactor.clone(), clock, &CountingIds::default())
        };
        let narration = self.narration.clone().unwrap_or_else(narrated);
        let more = self.agents.into_iter().map(|make| make(&shared_pace));
        let store_of_campaigns = (store.clone() as Arc<dyn DocumentStore>, narration.sink());
        let campaigns = self
            .campaigns
            .as_ref()
            .map(|plan| campaigns::build_parts((&self.world, plan), store_of_campaigns, self.clock.clone()));
        let (campaigner, parts) = campaigns.unzip();
        let cycles = parts.as_ref().map(ControllerParts::cycle_agent);
        let chat = agents::agents(&self.world, &shared_pace, self.clock.clone())
            .into_iter()
            .chain(more)
            .chain(campaigner)
            .map(|agent| self.changes.iter().fold(agent, |agent, change| change(agent)))
            .map(|agent| agent.redacting(clean.clone()))
            .chain(cycles)
            .fold(Chat::builder(), |chat, agent| chat.agent(agent))
            .limits(self.chat_limits)
            .clock(self.clock.clone())
            .ids(self.ids.clone())
            .narration(narration.sink())
            .blobs(Blobs::with_shared_store(store.clone()).limits(self.blob_limits))
            .audit(Duration::from_hours(24))
            .watcher(self.telemetry.turn_watcher());
        let chat = self.chat.into_iter().fold(chat, |chat, change| change(chat));
        let chat = chat.open(self.telemetry.measure_store(store.clone())).unwrap();
        chat.sweep().await.unwrap();
        let documents: Arc<dyn DocumentStore> = store;
        let controller = parts.map(|parts| parts.with_chat(chat.clone()));
        let builder = Server::builder(chat.clone(), documents.clone());
        let builder = controller
            .into_iter()
            .fold(builder, |builder, controller| builder.campaigns(controller))
            .listed_agents(agents::listed())
            .limits(self.limits)
            .clock(self.clock.clone())
            .ids(self.ids.clone())
            .entropy(self.entropy.clone())
            .narration(narration)
            .delivery_timer(Arc::new(ClockPace(self.clock.clone())))
            .telemetry(self.telemetry.clone())
            .redactor(redactor);
        let server =
            self.server.into_iter().fold(builder, |builder, change| change(builder)).build().unwrap();
        let listener = TcpListener::bind(self.at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let operator = server.operator_key().expose().to_owned();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let serving = server.clone();
        let served = tokio::spawn(async move { serving.serve(listener, stopped).await });
        let Self { clock, world, ids, entropy, .. } = self;
        let stop = Some(stop);
        Rig { at, chat, documents, clock, pace, world, server, ids, entropy, operator, stop, served }
    }
}

/// Waits for something that has to come.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it does not come")
}
