//! Handing the traces of invocations to Langfuse.

use std::fmt;
use std::sync::Arc;

use singletree_env::{RandomSource, Timer};
use singletree_http::Transport;
use singletree_telemetry::{LangfuseSettings, LangfuseTrace};

use crate::error::Result;
use crate::langfuse::{LangfuseClient, LangfuseCredentials, LangfuseHttpClient};

/// Hands rendered traces to a client of Langfuse's (spec: observability §8.9).
///
/// The client is the caller's own, which is neither changed nor replaced, or is made here of credentials, and then has
/// no provider that others could share: texts that a trace shows reach Langfuse alone, whatever other exporters there are.
#[derive(Clone)]
pub struct LangfuseExporter {
    client: Arc<dyn LangfuseClient>,
    settings: LangfuseSettings,
}

impl LangfuseExporter {
    /// Uses a client that the caller made.
    #[must_use]
    pub fn with_client(client: Arc<dyn LangfuseClient>, settings: LangfuseSettings) -> Self {
        Self { client, settings }
    }

    /// Makes the client of credentials.
    ///
    /// # Errors
    /// Those of [`LangfuseHttpClient::new`].
    pub fn from_credentials(
        credentials: &LangfuseCredentials,
        transport: Arc<dyn Transport>,
        time_and_chance: (Arc<dyn Timer>, Arc<dyn RandomSource>),
        settings: LangfuseSettings,
    ) -> Result<Self> {
        let client = LangfuseHttpClient::new(credentials, transport, time_and_chance)?;
        Ok(Self { client: Arc::new(client), settings })
    }

    /// Returns the settings by which the traces of an invocation's events are rendered
    /// ([`render_langfuse_traces`](singletree_telemetry::render_langfuse_traces)).
    #[must_use]
    pub fn settings(&self) -> &LangfuseSettings {
        &self.settings
    }

    /// Hands over traces, one after the other.
    ///
    /// # Errors
    /// That of the client, for the first trace that it did not take; the ones after it were not handed over. All may be
    /// handed over again.
    ///
    /// # Cancellation
    /// Traces before the one that is being handed over were taken.
    pub async fn export_traces(&self, traces: &[LangfuseTrace]) -> Result<()> {
        for trace in traces {
            self.client.record_trace(trace).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for LangfuseExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LangfuseExporter").field("settings", &self.settings).finish_non_exhaustive()
    }
}
