//! The client of Langfuse in a case (conformance-adapter §5.5 `langfuse_client`, §6.4): one that the implementation makes of
//! credentials, or one that the case hands in, which emits its observations by a tracer provider as Langfuse's own does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
use opentelemetry::{KeyValue, global};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prost::Message as _;
use singletree::durable::BoxFuture;
use singletree::env::{ConstantRandomSource, InstantTimer, RandomSource, Timer};
use singletree_http::{HttpRequest, HttpResponse, Secret, Transport};
use singletree_otlp::{LangfuseClient, LangfuseCredentials, LangfuseExporter};
use singletree_telemetry::{LangfuseObservation, LangfuseSettings, LangfuseTrace};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;

/// The key of a client.
pub(super) const KEY: &str = "langfuse_client";

/// The namespace by which an observation is known on a provider.
pub(super) const OBSERVATION: &str = "langfuse.observation.";

/// Whose the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LangfuseClientSpec {
    /// The implementation makes it of credentials.
    FromCredentials,
    /// The case makes it, on the global provider or on one of its own.
    Supplied {
        /// Whether it is on the global provider.
        on_global: bool,
    },
}

impl LangfuseClientSpec {
    /// Reads a client.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let (mode, provider) = (block.take_required("mode")?, block.take_text("provider")?);
        block.reject_remaining_keys()?;
        match (mode.as_text()?, provider.as_deref()) {
            ("credentials", None) => Ok(Self::FromCredentials),
            ("supplied", None | Some("global")) => Ok(Self::Supplied { on_global: true }),
            ("supplied", Some("isolated")) => Ok(Self::Supplied { on_global: false }),
            (mode, provider) => {
                let what = format!("unknown client '{mode}' with provider {provider:?}");
                Err(CaseFailure::reader_error(KEY, what))
            }
        }
    }
}

/// The names of the observations that reached Langfuse.
#[derive(Debug, Clone, Default)]
pub(super) struct DeliveredObservations(Arc<Mutex<Vec<String>>>);

impl DeliveredObservations {
    fn lock_names(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the names since the last call.
    pub(super) fn take_names(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_names())
    }
}

/// Makes the exporter of a case.
///
/// # Errors
/// When the implementation refuses the credentials.
pub(super) fn build_exporter(
    spec: LangfuseClientSpec,
    settings: LangfuseSettings,
    delivered: &DeliveredObservations,
) -> Outcome<LangfuseExporter> {
    match spec {
        LangfuseClientSpec::FromCredentials => {
            let credentials = LangfuseCredentials {
                host: "https://langfuse.invalid".into(),
                public_key: "public".into(),
                secret_key: Secret::new("secret"),
            };
            let time_and_chance: (Arc<dyn Timer>, Arc<dyn RandomSource>) =
                (Arc::new(InstantTimer), Arc::new(ConstantRandomSource::from_fraction(0.5)));
            let server = Arc::new(LangfuseServer(delivered.clone()));
            LangfuseExporter::from_credentials(&credentials, server, time_and_chance, settings)
                .map_err(|error| CaseFailure::build_error(KEY, error.to_string()))
        }
        LangfuseClientSpec::Supplied { on_global } => {
            let own = (!on_global).then(|| SdkTracerProvider::builder().build());
            let client = SuppliedClient { own, delivered: delivered.clone() };
            Ok(LangfuseExporter::with_client(Arc::new(client), settings))
        }
    }
}

/// Takes what the implementation's own client sends.
#[derive(Debug)]
struct LangfuseServer(DeliveredObservations);

impl Transport for LangfuseServer {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        let message = ExportTraceServiceRequest::decode(request.body).unwrap_or_default();
        let spans = message.resource_spans.into_iter().flat_map(|it| it.scope_spans).flat_map(|it| it.spans);
        self.0.lock_names().extend(spans.map(|span| span.name));
        let response = HttpResponse { status: 200, headers: Vec::new(), body: stream::iter([]).boxed() };
        async move { Ok(response) }.boxed()
    }
}

/// A client of the caller's: it emits each observation by its provider, the global one or its own.
struct SuppliedClient {
    own: Option<SdkTracerProvider>,
    delivered: DeliveredObservations,
}

impl SuppliedClient {
    fn emit_observation(&self, observation: &LangfuseObservation) {
        let attributes = [KeyValue::new(format!("{OBSERVATION}type"), observation.observation_type)];
        let name = observation.name.clone();
        match &self.own {
            Some(provider) => {
                let mut span = provider.tracer("langfuse").start(name);
                span.set_attributes(attributes);
                span.end();
            }
            None => {
                let mut span = global::tracer("langfuse").start(name);
                span.set_attributes(attributes);
                span.end();
            }
        }
        self.delivered.lock_names().push(observation.name.clone());
        observation.children.iter().for_each(|child| self.emit_observation(child));
    }
}

impl LangfuseClient for SuppliedClient {
    fn record_trace<'a>(&'a self, trace: &'a LangfuseTrace) -> BoxFuture<'a, singletree_otlp::Result<()>> {
        trace.observations.iter().for_each(|observation| self.emit_observation(observation));
        Box::pin(async { Ok(()) })
    }
}
