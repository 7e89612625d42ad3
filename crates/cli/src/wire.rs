//! The composition root: which store, which agent, which time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use singletree::agent::demo::{self, DemoParts};
use singletree::durable::{Journal, SessionId, SessionKey, TenantId, WaitQuery};
use singletree::engine::{Clock, Outline, SystemClock};
use singletree::harness::{self, Agent};
use singletree::llm::{BoxFuture, Pace};
use singletree::{Chat, SqliteStore};

use crate::error::{Error, Result};
use crate::place::Place;

/// How long turns that still run may take to end before the process does; what is left is finished by the next one.
const GRACE: Duration = Duration::from_secs(10);

/// An open database with a chat on it.
#[derive(Debug)]
pub(crate) struct House {
    /// The chat.
    pub(crate) chat: Chat,
    store: SqliteStore,
}

impl House {
    /// Opens the database for writing; a second process that would is refused. `command` is what that one is told.
    pub(crate) async fn open(place: &Place, command: &str) -> Result<Self> {
        place.make()?;
        let options = SqliteStore::options(place.db()).command(format!("singletree {command}"));
        // The store opens in a thread of its own: the agent is built meanwhile.
        let (store, agent) = tokio::join!(options.open(), async { agent(place) });
        Self::over(agent?, store.map_err(|source| Error::Open { source })?)
    }

    /// Opens the database for reading, beside a writer or alone.
    pub(crate) async fn look(place: &Place) -> Result<Self> {
        let store = SqliteStore::read_only(place.db()).await.map_err(|source| Error::Open { source })?;
        Self::over(agent(place)?, store)
    }

    fn over(agent: Agent, store: SqliteStore) -> Result<Self> {
        let chat = Chat::builder().agent(agent).open(store.clone())?;
        Ok(Self { chat, store })
    }

    /// Refuses the name of an agent that is not here.
    pub(crate) fn check_agent(&self, name: Option<&str>) -> Result<()> {
        match name.filter(|name| !self.chat.agents().any(|it| it == *name)) {
            Some(name) => Err(no_agent(name, self.chat.agents())),
            None => Ok(()),
        }
    }

    /// Finds the action that a signal was last about in a session, answered or not: the number of its wait and the
    /// action's digest. Who answers again must name them too.
    pub(crate) async fn action(&self, session: &str, signal: &str) -> Result<Option<(u64, String)>> {
        let session = SessionId::parse(session).map_err(|it| Error::Usage(it.to_string()))?;
        let key = SessionKey::new(TenantId::single(), session);
        let waits = self.store.waits(&WaitQuery::Signal(key, signal.to_owned())).await;
        let waits = waits.map_err(harness::Error::from)?;
        let last = waits.into_iter().map(|(_, wait)| wait).max_by_key(|it| it.no);
        Ok(last.and_then(|it| Some((it.no, it.action?))))
    }

    /// Lets what runs end, and closes the database.
    pub(crate) async fn close(self) {
        let Self { chat, store } = self;
        // What did not end in time is taken over at the next start.
        chat.shutdown(GRACE).await;
        drop(chat);
        store.close().await;
    }
}

/// Describes the graph of an agent. Nothing of the agent runs, so that it does not matter where its tools would reach.
pub(crate) fn outline(name: &str) -> Result<Outline> {
    let agents = [agent(&Place::of(Some(Path::new("singletree.db")))?)?];
    let found = agents.iter().find(|it| it.name() == name);
    let found = found.ok_or_else(|| no_agent(name, agents.iter().map(Agent::name)))?;
    Ok(found.graph().outline())
}

fn no_agent<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::Usage(format!("there is no agent '{name}'; there is: {}", known.join(", ")))
}

fn agent(place: &Place) -> Result<Agent> {
    let parts = DemoParts {
        notes: place.notes(),
        outbox: place.outbox(),
        now: Box::new(|| SystemClock.now().to_system_time()),
        pace: Arc::new(RealPace),
    };
    demo::agent(parts).map_err(|source| Error::Agent { source })
}

/// Pauses that take their time.
#[derive(Debug)]
pub(crate) struct RealPace;

impl Pace for RealPace {
    fn pause(&self, length: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}
