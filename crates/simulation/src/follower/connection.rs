//! The connections of listeners: through the chat, and over HTTP.

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt;
use futures_util::future::select;
use singletree_harness::{Chat, ChatEventId};
use singletree_protocol::native;

use super::heard::HeardEvent;
use crate::client::{
    EventView, KEYLESS_TENANT, SimulatedSessionName, describe_event, describe_http_event, split_frames,
};
use crate::executor::SimulationExecutor;
use crate::server::SimulatedServer;
use crate::world::CallReporter;

/// A report of a connection to its listener.
#[derive(Debug)]
pub(super) enum FollowerReport {
    Heard(Box<ReportedEvent>),
    /// The stream ended with this category.
    Ended(String),
}

/// An event that was heard.
#[derive(Debug)]
pub(super) struct ReportedEvent {
    pub(super) event: HeardEvent,
    pub(super) view: EventView,
    /// The whole event, to compare it with the log.
    pub(super) content: String,
}

/// What a connection asks for.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) session: SimulatedSessionName,
    /// The last event that was heard.
    pub(super) after: Option<ChatEventId>,
}

/// How long a listener takes for each event.
#[derive(Debug)]
pub(super) struct ReadingPace {
    executor: SimulationExecutor,
    span: Duration,
}

impl ReadingPace {
    pub(super) fn new(executor: &SimulationExecutor, span: Duration) -> Self {
        Self { executor: executor.clone(), span }
    }

    async fn wait(&self) {
        if !self.span.is_zero() {
            self.executor.sleep_for(self.span).await;
        }
    }
}

/// Tells whether a session can be followed over HTTP: without a key, a request is one of the tenant `default`.
pub(super) fn can_listen_over_http(session: &SimulatedSessionName) -> bool {
    session.tenant == KEYLESS_TENANT
}

/// Reports the events of a session that the chat hands out, until the listener goes.
pub(super) async fn listen_to_chat(
    chat: Chat,
    reporter: CallReporter<FollowerReport>,
    Listening { session, after }: Listening,
    pace: ReadingPace,
) {
    let chat = chat.of(session.tenant_id());
    let reading = async {
        let events = match chat.session(session.session.as_str()).events().after(after).stream().await {
            Ok(events) => events,
            Err(error) => return reporter.report(FollowerReport::Ended(error.category().to_owned())),
        };
        let mut events = pin!(events);
        while let Some(next) = events.next().await {
            let event = match next {
                Ok(event) => event,
                Err(error) => return reporter.report(FollowerReport::Ended(error.category().to_owned())),
            };
            let (heard, content) = (HeardEvent::from(&event), describe_event(&event));
            reporter.report(FollowerReport::Heard(Box::new(ReportedEvent {
                event: heard,
                view: EventView::Chat,
                content,
            })));
            pace.wait().await;
        }
    };
    select(pin!(reading), pin!(reporter.wait_until_gone())).await;
}

/// Reports the events of a session that the server streams, until the listener goes.
pub(super) async fn listen_over_http(
    server: SimulatedServer,
    reporter: CallReporter<FollowerReport>,
    Listening { session, after }: Listening,
    pace: ReadingPace,
) {
    let request = Request::get(format!("/v1/sessions/{}/events", session.session))
        .header("host", "127.0.0.1")
        .header("accept", "text/event-stream");
    let request = after.into_iter().fold(request, |it, id| it.header("last-event-id", id.to_string()));
    let Ok(request) = request.body(Body::empty()) else { return };
    let reading = async {
        let response = server.answer_request(request).await;
        let status = response.status();
        let (mut body, mut bytes) = (response.into_body().into_data_stream(), Vec::new());
        while let Some(Ok(piece)) = body.next().await {
            bytes.extend_from_slice(&piece);
            if status != StatusCode::OK {
                continue;
            }
            for data in split_frames(&mut bytes) {
                if !report_frame(&reporter, &data) {
                    return;
                }
                pace.wait().await;
            }
        }
        if let Ok(native::ErrorBody { error }) = serde_json::from_slice(&bytes) {
            reporter.report(FollowerReport::Ended(error.category));
        }
    };
    select(pin!(reading), pin!(reporter.wait_until_gone())).await;
}

/// Reports the data of a frame; false when the stream is over.
fn report_frame(reporter: &CallReporter<FollowerReport>, data: &str) -> bool {
    match serde_json::from_str(data) {
        Ok(native::StreamItem::Event(event)) => {
            let (heard, content) = (HeardEvent::from(&*event), describe_http_event(&event));
            let view = EventView::Http;
            reporter.report(FollowerReport::Heard(Box::new(ReportedEvent { event: heard, view, content })));
            true
        }
        Ok(native::StreamItem::Failed(failed)) => {
            reporter.report(FollowerReport::Ended(failed.error.category));
            false
        }
        // A comment.
        Err(_) => true,
    }
}
