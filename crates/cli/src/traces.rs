//! Exports the traces of turns, and the metrics of a server, as `[telemetry]` says.

use std::sync::Arc;
use std::time::Duration;

use singletree::Chat;
use singletree::config::TelemetrySettings;
use singletree::durable::DocumentStore;
use singletree::env::{Env, Spawner as _, TokioSpawner};
use singletree::export::{ExportLimits, TraceExporter, TraceSampling};
use singletree::harness::ChatBuilder;
use singletree::http::{HttpClient, HttpLimits, Redactor};
use singletree::otlp::{ExportResource, OtlpClient};
use singletree::telemetry::SpanSettings;

use singletree_server::ServerBuilder;
use tokio::sync::oneshot;

use crate::conversation_store::ConversationStore;
use crate::error::Result;

/// How much longer than a turn may be sent its note is kept: the exporter says that a turn is too old, and counts it.
const NOTE_KEPT_LONGER: Duration = Duration::from_hours(24);

fn export_limits(settings: &TelemetrySettings) -> ExportLimits {
    let usual = ExportLimits::default();
    ExportLimits {
        max_age: settings.max_age.unwrap_or(usual.max_age),
        max_bytes: settings.max_bytes.unwrap_or(usual.max_bytes),
        ..usual
    }
}

/// Returns which invocations are exported.
fn trace_sampling(settings: &TelemetrySettings) -> TraceSampling {
    let sampling = settings.share.into_iter().fold(TraceSampling::new(), TraceSampling::default_share);
    let shares = settings.agent_shares.iter();
    shares.fold(sampling, |all, (agent, share)| all.agent_share(agent.as_str(), *share))
}

/// Returns for how long the note of a turn is kept whose trace is to be exported.
pub(crate) fn unsent_notes_kept(settings: &TelemetrySettings) -> Duration {
    export_limits(settings).max_age.saturating_add(NOTE_KEPT_LONGER)
}

/// Has a chat note the turns whose traces are to be exported.
pub(crate) fn note_unsent_turns(chat: ChatBuilder, settings: Option<&TelemetrySettings>) -> ChatBuilder {
    match settings {
        Some(settings) => {
            chat.note_unsent_turns(unsent_notes_kept(settings)).trace_sampling(trace_sampling(settings))
        }
        None => chat,
    }
}

/// Returns settings for another address: without the headers, whose secrets are the first one's.
pub(crate) fn settings_of_endpoint(
    settings: Option<TelemetrySettings>,
    endpoint: String,
) -> TelemetrySettings {
    match settings {
        Some(settings) => settings.with_endpoint(endpoint),
        None => TelemetrySettings::new(endpoint),
    }
}

/// Makes the exporter of a chat's turns, which reads the documents of the same store.
pub(crate) fn build_trace_exporter(
    settings: &TelemetrySettings,
    chat: Chat,
    (documents, is_shared): (Arc<dyn DocumentStore>, bool),
    redactor: &Redactor,
) -> Result<TraceExporter> {
    let (env, known) = (Env::from_system(), redactor.clone());
    // Of a trace the same spans are the same bytes, whichever process sends them.
    let receiver = build_otlp_client(settings, settings.endpoint.as_str(), (build_resource(settings), &env))?;
    let exporter = TraceExporter::new(chat, documents, Arc::new(receiver), env)
        .spans(SpanSettings::new().profile(settings.profile).disable_provider_payload(!settings.payloads))
        .sampling(trace_sampling(settings))
        .limits(export_limits(settings))
        .redacting(Arc::new(move |text| known.redact(text).into_owned()));
    Ok(if is_shared { exporter.shared_store() } else { exporter })
}

/// How long a process that ends waits for a receiver. The next process sends the turns that are left then.
const FLUSH: Duration = Duration::from_secs(2);

/// Exports the traces of a chat's turns while a command runs.
#[derive(Debug)]
pub(crate) struct BackgroundExport {
    exporter: Arc<TraceExporter>,
    /// Ends the export when it is dropped, and tells when it has ended.
    running: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
}

impl BackgroundExport {
    pub(crate) fn new(exporter: TraceExporter) -> Self {
        Self { exporter: Arc::new(exporter), running: None }
    }

    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ended, has_ended) = oneshot::channel::<()>();
        let exporter = self.exporter.clone();
        TokioSpawner.spawn_task(Box::pin(async move {
            exporter.run(async { drop(stopped.await) }).await;
            drop(ended);
        }));
        self.running = Some((stop, has_ended));
    }

    /// Sends the turns that are left, as far as the receiver takes it in time.
    pub(crate) async fn finish(self) {
        let Some((stop, has_ended)) = self.running else { return };
        drop(stop);
        // It says nothing else.
        drop(has_ended.await);
        // Whatever it says: turns that were not sent are still noted.
        drop(tokio::time::timeout(FLUSH, self.exporter.flush()).await);
    }
}

/// Has a server export the traces of a chat's turns and its metrics, if the file says where to.
pub(crate) fn export_telemetry(
    server: ServerBuilder,
    settings: Option<&TelemetrySettings>,
    (chat, store): (Chat, &ConversationStore),
    redactor: &Redactor,
) -> Result<ServerBuilder> {
    let Some(settings) = settings else { return Ok(server) };
    let documents = (Arc::new(store.clone()) as Arc<dyn DocumentStore>, store.is_shared());
    let server = server.trace_exporter(build_trace_exporter(settings, chat, documents, redactor)?);
    let Some(metrics) = &settings.metrics else { return Ok(server) };
    let env = Env::from_system();
    // The counts of several servers are told apart.
    let resource = build_resource(settings).attribute("service.instance.id", env.ids.generate_uuid());
    let receiver = build_otlp_client(settings, &metrics.endpoint, (resource, &env))?;
    Ok(server.metric_receiver(Arc::new(receiver), metrics.every))
}

/// Names the service that spans and metrics come from.
fn build_resource(settings: &TelemetrySettings) -> ExportResource {
    ExportResource::new(settings.service.as_str()).attribute("service.version", env!("CARGO_PKG_VERSION"))
}

/// Makes the client of the receiver. Operators choose it, so that it may be in their own network.
fn build_otlp_client(
    settings: &TelemetrySettings,
    endpoint: &str,
    (resource, env): (ExportResource, &Env),
) -> Result<OtlpClient> {
    let transport = Arc::new(HttpClient::new(HttpLimits::standard())?);
    let client = OtlpClient::new(transport, endpoint, resource, (env.timer.clone(), env.rng.clone()));
    Ok(settings.headers.iter().fold(client, |client, (name, value)| client.header(name, value.clone())))
}
