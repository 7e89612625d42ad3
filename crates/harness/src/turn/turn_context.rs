//! The context of a running turn, which its nodes get beside their state.

use std::sync::Arc;

use singletree_durable::{FencingToken, SessionKey};
use singletree_engine::{Ctx, State};
use singletree_env::{RandomSource, Timer};
use singletree_session::{SideRecords, TurnPromptPolicy};

use crate::runtime::narrator::Narrator;
use crate::turn::budget::TurnBudget;
use crate::turn::pictures::TurnPictures;
use crate::turn::steering_inbox::SteeringInbox;
use crate::turn::stream::TurnStream;

/// Everything that a chat gives the nodes of a running turn beside their state. Nothing of it is stored with the state.
///
/// A node gets it by [`TurnContext::of`]. The nodes of inner graphs get the same context as those of the outermost one.
#[derive(Debug)]
pub struct TurnContext {
    stream: TurnStream,
    budget: TurnBudget,
    side_records: SideRecords,
    rng: Arc<dyn RandomSource>,
    session: Option<SessionTurnContext>,
}

/// The part of a context that only a turn of a session has.
#[derive(Debug)]
pub(crate) struct SessionTurnContext {
    pub(crate) key: SessionKey,
    pub(crate) fence: FencingToken,
    pub(crate) prompt_policy: TurnPromptPolicy,
    pub(crate) steering: SteeringInbox,
    pub(crate) narrator: Narrator,
    pub(crate) pictures: Option<Arc<TurnPictures>>,
}

impl TurnContext {
    /// Creates the context of a run outside of any session.
    pub(crate) fn new(
        stream: TurnStream,
        budget: TurnBudget,
        side_records: SideRecords,
        rng: Arc<dyn RandomSource>,
    ) -> Self {
        Self { stream, budget, side_records, rng, session: None }
    }

    /// Adds the parts that only a turn of a session has.
    pub(crate) fn in_session(self, session: SessionTurnContext) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Returns the context of the turn in which a node runs. `None` where no [`Chat`](crate::Chat) runs the graph.
    #[must_use]
    pub fn of<S: State>(cx: &Ctx<S>) -> Option<Arc<Self>> {
        cx.find_extension()
    }

    /// Returns the stream of the turn.
    #[must_use]
    pub fn stream(&self) -> &TurnStream {
        &self.stream
    }

    /// Returns the remaining budget of the turn, on which a node counts its usage.
    #[must_use]
    pub fn budget(&self) -> &TurnBudget {
        &self.budget
    }

    /// Returns the chat's timer ([`ChatBuilder::env`](crate::ChatBuilder::env)), for waits and time limits of nodes.
    #[must_use]
    pub fn timer(&self) -> &dyn Timer {
        self.budget.timer()
    }

    /// Returns the chat's random numbers ([`ChatBuilder::env`](crate::ChatBuilder::env)), for the jitter of waits.
    #[must_use]
    pub fn random_source(&self) -> &dyn RandomSource {
        self.rng.as_ref()
    }

    /// Returns the side records of the messages that the turn adds.
    #[must_use]
    pub fn side_records(&self) -> &SideRecords {
        &self.side_records
    }

    /// Returns the session. `None` in a run outside of any session ([`Chat::stateless`](crate::Chat::stateless)), as for
    /// the methods below.
    #[must_use]
    pub fn session(&self) -> Option<&SessionKey> {
        self.session.as_ref().map(|session| &session.key)
    }

    /// Returns the fence under which this process holds the session while the turn runs: a process that takes the session over
    /// has a higher one. For effects outside of the store, which the store's own fence cannot refuse.
    #[must_use]
    pub fn fence(&self) -> Option<FencingToken> {
        self.session.as_ref().map(|session| session.fence)
    }

    /// Returns the prompt policy of the session.
    #[must_use]
    pub fn prompt_policy(&self) -> Option<TurnPromptPolicy> {
        self.session.as_ref().map(|session| session.prompt_policy)
    }

    /// Returns the messages that steer the turn while it runs.
    #[must_use]
    pub fn steering(&self) -> Option<&SteeringInbox> {
        self.session.as_ref().map(|session| &session.steering)
    }

    /// Returns the narrator, to which a node says why it proposes an action.
    #[must_use]
    pub fn narrator(&self) -> Option<&Narrator> {
        self.session.as_ref().map(|session| &session.narrator)
    }

    /// Returns the pictures of the session, for a request to a model. `None` also where the store keeps no pictures.
    #[must_use]
    pub fn pictures(&self) -> Option<&Arc<TurnPictures>> {
        self.session.as_ref().and_then(|session| session.pictures.as_ref())
    }
}
