//! Requests, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use singletree_otlp::{ExportLimits, ExportResource, encode_spans};

use crate::rig::{NotingTimer, ReceiverAnswer, ScriptedReceiver, client, span};

fn rig(answers: impl IntoIterator<Item = ReceiverAnswer>) -> (Arc<ScriptedReceiver>, Arc<NotingTimer>) {
    (ScriptedReceiver::answering(answers), Arc::default())
}

/// Returns the waits between attempts: each attempt has its time limit, too.
fn waits(timer: &NotingTimer) -> Vec<Duration> {
    let limit = ExportLimits::default().attempt_time;
    timer.0.lock().unwrap().iter().copied().filter(|wait| *wait != limit).collect()
}

#[tokio::test]
async fn spans_are_written_with_their_ids_times_and_errors() {
    let (receiver, timer) = rig([]);
    let summary = client(&receiver, &timer).send_spans(&[span(1, 1), span(2, 1)]).await.unwrap();
    assert_eq!((summary.sent, summary.rejected), (2, 0));
    let request = receiver.requests.lock().unwrap()[0].clone();
    assert_eq!(request.url, "https://receiver/v1/traces");
    let header =
        |name: &str| request.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
    assert_eq!(header("content-type"), Some("application/x-protobuf"));
    assert_eq!(header("x-api-key"), Some("canary-key"));
    let sent = receiver.spans().remove(0);
    assert_eq!((sent[0].trace_id.as_slice(), sent[0].trace_state.as_str()), ([7; 16].as_slice(), "a=1"));
    assert_eq!(
        (sent[0].span_id.as_slice(), sent[0].parent_span_id.as_slice()),
        ([1; 8].as_slice(), [].as_slice())
    );
    assert_eq!(sent[1].parent_span_id, [1; 8]);
    assert_eq!((sent[0].start_time_unix_nano, sent[0].end_time_unix_nano), (1_000_000_000, 1_250_000_000));
    let status = sent[0].status.clone().unwrap();
    assert_eq!((status.code(), status.message.as_str()), (StatusCode::Error, "node_exception"));
    assert_eq!(sent[0].events[0].name, "exception");
    let whole = sent[0].attributes.iter().find(|attribute| attribute.key == "whole").unwrap();
    assert_eq!(whole.value.clone().unwrap().value, Some(Value::IntValue(-3)));
}

#[test]
fn the_same_spans_are_the_same_bytes() {
    let resource = ExportResource::new("tested");
    let spans = [span(1, 5), span(2, 5)];
    assert_eq!(encode_spans(&spans, &resource), encode_spans(&spans.clone(), &resource));
    assert_ne!(encode_spans(&spans, &resource), encode_spans(&spans[..1], &resource));
}

#[tokio::test]
async fn what_may_go_away_is_tried_again_with_the_same_bytes() {
    let answers = [
        ReceiverAnswer::Status(503, Vec::new()),
        ReceiverAnswer::Status(429, vec![("retry-after", "7")]),
        ReceiverAnswer::Unreachable,
        ReceiverAnswer::Status(504, vec![("retry-after", "86400")]),
    ];
    let (receiver, timer) = rig(answers);
    let summary = client(&receiver, &timer).send_spans(&[span(1, 1)]).await.unwrap();
    assert_eq!(summary.sent, 1);
    let bodies = receiver.bodies();
    assert!(bodies.len() == 5 && bodies.iter().all(|body| *body == bodies[0]));
    // The receiver's word counts, up to a minute; else each wait is twice as long.
    let asked = waits(&timer);
    assert_eq!(asked[1..], [Duration::from_secs(7), asked[2], Duration::from_secs(60)]);
    assert!(asked[0] <= Duration::from_secs(1) && asked[2] > Duration::from_secs(2), "{asked:?}");
}

#[tokio::test]
async fn a_receiver_that_stays_away_is_told_and_costs_no_more_attempts() {
    for answer in
        [ReceiverAnswer::Status(502, Vec::new()), ReceiverAnswer::Unreachable, ReceiverAnswer::Hangs]
    {
        let (receiver, timer) = rig(std::iter::repeat_n(answer, 9));
        let limits = ExportLimits { attempts: 3, ..ExportLimits::default() };
        let client = client(&receiver, &timer).with_limits(limits);
        let error = client.send_spans(&[span(1, 1)]).await.unwrap_err();
        assert_eq!(error.category(), "telemetry_receiver_unavailable");
        assert!(error.is_transient());
        assert_eq!(receiver.bodies().len(), 3, "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_for_good() {
    for status in [400, 401, 413, 500] {
        let (receiver, timer) = rig([ReceiverAnswer::Status(status, Vec::new())]);
        let error = client(&receiver, &timer).send_spans(&[span(1, 1)]).await.unwrap_err();
        assert_eq!(error.category(), "telemetry_receiver_refused");
        assert!(!error.is_transient());
        assert_eq!(receiver.bodies().len(), 1);
    }
}

#[tokio::test]
async fn dropped_spans_are_counted_and_not_sent_again() {
    let message = "é".repeat(600);
    let (receiver, timer) = rig([ReceiverAnswer::Partial(2, message)]);
    let summary = client(&receiver, &timer).send_spans(&[span(1, 1), span(2, 1), span(3, 1)]).await.unwrap();
    assert_eq!((summary.sent, summary.rejected), (3, 2));
    let kept = summary.message.unwrap();
    assert!(kept.len() <= 1024 && kept.starts_with("éé"), "{}", kept.len());
    assert_eq!(receiver.bodies().len(), 1);
}

#[tokio::test]
async fn a_request_stays_within_its_bound() {
    let (receiver, timer) = rig([]);
    let limits = ExportLimits { request_bytes: 4_000, ..ExportLimits::default() };
    let spans: Vec<_> =
        (1..=10).map(|number| span(number, if number == 5 { 9_000 } else { 1_000 })).collect();
    let summary = client(&receiver, &timer).with_limits(limits).send_spans(&spans).await.unwrap();
    assert_eq!(summary.sent, 10);
    let sent = receiver.spans();
    let ids: Vec<u8> = sent.iter().flatten().map(|span| span.span_id[0]).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<_>>(), "in order, each once");
    for (request, body) in sent.iter().zip(receiver.bodies()) {
        assert!(body.len() <= 4_200 || request.len() == 1, "{} bytes, {} spans", body.len(), request.len());
    }
}

#[tokio::test]
async fn no_value_of_a_header_is_shown() {
    let (receiver, timer) = rig([ReceiverAnswer::Status(401, Vec::new())]);
    let client = client(&receiver, &timer);
    let error = client.send_spans(&[span(1, 1)]).await.unwrap_err();
    let shown = format!("{client:?} {error:?} {error} {:?}", receiver.requests.lock().unwrap());
    assert!(!shown.contains("canary-key"), "{shown}");
}
