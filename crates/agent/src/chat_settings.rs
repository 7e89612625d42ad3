//! The settings of an agent that a chat applies: its durability, its budget, its texts.

use std::fmt;

use singletree_harness::{
    BucketTable, Budget, Durability, ErrorReplies, GraphAgent, OnDisconnect, Redact, ResumedReply,
    TurnPromptPolicy, WhileSuspended,
};

/// The settings that an agent or a team hands on to its [`GraphAgent`]. Those that are not set stay as they are there.
#[derive(Clone, Default)]
pub(crate) struct ChatSettings {
    pub(crate) durability: Option<Durability>,
    pub(crate) while_suspended: Option<WhileSuspended>,
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) prompt_policy: Option<TurnPromptPolicy>,
    pub(crate) budget: Option<Budget>,
    pub(crate) early_signals: Vec<String>,
    pub(crate) resumed_reply: Option<ResumedReply>,
    pub(crate) buckets: Option<BucketTable>,
    pub(crate) replies: Option<ErrorReplies>,
    pub(crate) redact: Option<Redact>,
}

impl ChatSettings {
    /// Returns the agent with these settings.
    pub(crate) fn apply_to(self, mut agent: GraphAgent) -> GraphAgent {
        if let Some(durability) = self.durability {
            agent = agent.durability(durability);
        }
        if let Some(policy) = self.while_suspended {
            agent = agent.while_suspended(policy);
        }
        if let Some(policy) = self.on_disconnect {
            agent = agent.on_disconnect(policy);
        }
        if let Some(policy) = self.prompt_policy {
            agent = agent.prompt_policy(policy);
        }
        if let Some(budget) = self.budget {
            agent = agent.budget(budget);
        }
        if let Some(reply) = self.resumed_reply {
            agent = agent.resumed_reply(reply);
        }
        if let Some(buckets) = self.buckets {
            agent = agent.buckets(buckets);
        }
        if let Some(replies) = self.replies {
            agent = agent.replies(replies);
        }
        if let Some(redact) = self.redact {
            agent = agent.redacting(redact);
        }
        agent.early_signals(self.early_signals)
    }
}

impl fmt::Debug for ChatSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSettings")
            .field("durability", &self.durability)
            .field("while_suspended", &self.while_suspended)
            .field("on_disconnect", &self.on_disconnect)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// Writes the settings as methods of a builder that has them in a field `settings`, so that an agent and a team have
/// the same.
macro_rules! chat_settings {
    ($builder:ty) => {
        /// Settings that a chat applies, as those of a [`GraphAgent`](singletree_harness::GraphAgent).
        impl $builder {
            /// Sets how often its turns are committed. Otherwise after each node if it has tools or hands over, and once
            /// a turn if not.
            pub fn durability(mut self, durability: singletree_harness::Durability) -> Self {
                self.settings.durability = Some(durability);
                self
            }

            /// Sets which texts reach its models in new sessions, where whoever makes one says nothing else; the
            /// conversation otherwise (agent-chat-output §8).
            pub fn prompt_policy(mut self, policy: singletree_harness::TurnPromptPolicy) -> Self {
                self.settings.prompt_policy = Some(policy);
                self
            }

            /// Sets how messages are handled while a session waits for a signal; they are refused otherwise (D1).
            pub fn while_suspended(mut self, policy: singletree_harness::WhileSuspended) -> Self {
                self.settings.while_suspended = Some(policy);
                self
            }

            /// Sets the policy for turns whose client disconnects; they go on otherwise (D31).
            pub fn on_disconnect(mut self, policy: singletree_harness::OnDisconnect) -> Self {
                self.settings.on_disconnect = Some(policy);
                self
            }

            /// Sets the budget of its turns and sessions, within the chat's limits (D13).
            pub fn budget(mut self, budget: singletree_harness::Budget) -> Self {
                self.settings.budget = Some(budget);
                self
            }

            /// Declares signals that may come before anything waits for them (D2). An id that ends in `*` stands for all
            /// ids that begin so.
            pub fn early_signals(mut self, signals: impl IntoIterator<Item = impl Into<String>>) -> Self {
                self.settings.early_signals = signals.into_iter().map(Into::into).collect();
                self
            }

            /// Sets how callers come by the outcome of a turn that resumed, beside the subscription (D21).
            pub fn resumed_reply(mut self, reply: singletree_harness::ResumedReply) -> Self {
                self.settings.resumed_reply = Some(reply);
                self
            }

            /// Sets in which bucket its errors are.
            pub fn buckets(mut self, buckets: singletree_harness::BucketTable) -> Self {
                self.settings.buckets = Some(buckets);
                self
            }

            /// Sets the texts that people are shown for errors (harness-chat §10).
            pub fn replies(mut self, replies: singletree_harness::ErrorReplies) -> Self {
                self.settings.replies = Some(replies);
                self
            }

            /// Sets the redactor that removes secrets from its diagnostics (INV-16).
            pub fn redacting(mut self, redact: singletree_harness::Redact) -> Self {
                self.settings.redact = Some(redact);
                self
            }
        }
    };
}

pub(crate) use chat_settings;
