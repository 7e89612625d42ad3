//! The request layer around all sections: credentials, request id, time limit of bodies, and conversion of problems.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use singletree_env::TraceHeaders;
use singletree_harness::QuotaExceeded;
use tokio::time::Instant;

use crate::arriving::{BodyArrival, limit_arrival_time};
use crate::caller::Caller;
use crate::correlation::{self, CorrelationId};
use crate::door::PeerAddress;
use crate::forward::{ForwardedRequest, KeyUse, mark_answer, mark_refusal, run_or_forward};
use crate::native::wants_events;
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::quota::QuotaUsePermit;
use crate::request_id;
use crate::section::{
    ApiOperation, ApiRoute, ProtocolSection, Render, RequestContext, RouteAccess, StreamFailure,
};
use crate::shared::ServerState;
use crate::stream_guard::{Credentials, StreamGuard};
use crate::telemetry::{self, Line};
use crate::trace;

/// The number of characters of a path that are logged.
const PATH_SHOWN: usize = 512;

/// The prefix of the paths for the management of keys.
const KEYS: &str = "/v1/keys";

/// The prefixes of the paths that the operator may use.
const OPERATED: [&str; 3] = ["/v1/keys", "/v1/audit", "/v1/nodes"];

/// The request layer around all sections.
pub(crate) struct RequestLayer {
    shared: Arc<ServerState>,
    /// The sections by the prefixes of their paths, the longest first.
    outlines: Vec<SectionPrefix>,
    /// The access rules of each path, by method.
    access: HashMap<&'static str, Vec<MethodAccessRule>>,
}

/// The access rule of one method of a path.
struct MethodAccessRule {
    method: Method,
    access: RouteAccess,
    streams: bool,
    /// Converts the failure of a stream for the section of the route: several sections share prefixes of paths.
    stream_failure: StreamFailure,
    /// The advice in the refusal of an `Idempotency-Key`, if the route refuses one.
    instead_of_key: Option<&'static str>,
    key_use: KeyUse,
    /// Whether the form of the response depends on `Accept` and `Prefer`.
    negotiates: bool,
}

/// A request that was admitted to its handler.
struct AdmittedRequest {
    /// The permit for a stream of the caller, if the response may be a stream.
    permit: Option<QuotaUsePermit>,
    stream_failure: StreamFailure,
    key_use: KeyUse,
    negotiates: bool,
}

/// The properties of a section that follow from the path alone.
#[derive(Clone, Copy)]
struct SectionPrefix {
    prefix: &'static str,
    section: &'static str,
    render: Render,
}

impl RequestLayer {
    /// Makes the layer around these sections. The first one renders the problems of all other paths.
    pub(crate) fn new(shared: Arc<ServerState>, sections: &[ProtocolSection]) -> Self {
        let mut outlines: Vec<SectionPrefix> = sections
            .iter()
            .flat_map(|section| {
                let served = section.routes.iter().map(|route| fixed_path_prefix(route.path));
                let prefixes = served.chain(section.unserved.iter().copied());
                prefixes.map(|prefix| SectionPrefix::from_section(prefix, section)).collect::<Vec<_>>()
            })
            .collect();
        outlines.sort_by_key(|outline| std::cmp::Reverse(outline.prefix.len()));
        outlines.extend(sections.first().map(|section| SectionPrefix::from_section("", section)));
        let mut access = HashMap::<_, Vec<_>>::new();
        let routes = sections
            .iter()
            .flat_map(|section| section.routes.iter().map(move |route| (route, section.stream_failure)));
        for (route, stream_failure) in routes {
            let ApiRoute { method, access: who, streams, operation, .. } = route;
            let (method, streams) = (method.clone(), *streams);
            let instead_of_key = operation.as_ref().and_then(|operation| operation.instead_of_key);
            let negotiates = operation.as_ref().is_some_and(ApiOperation::negotiates_content);
            let admittance = MethodAccessRule {
                method,
                access: *who,
                streams,
                stream_failure,
                instead_of_key,
                key_use: operation.as_ref().map_or(KeyUse::OfProtocol, ApiOperation::key_use),
                negotiates,
            };
            access.entry(route.path).or_default().push(admittance);
        }
        Self { shared, outlines, access }
    }

    /// Returns the section to which a path belongs, whether the path is one of its routes or not.
    fn find_section(&self, path: &str) -> SectionPrefix {
        let within = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let outline = self.outlines.iter().find(|outline| within(outline.prefix));
        *outline.expect("the last one, of the empty prefix, fits every path")
    }

    /// Finds the caller, if the route needs one, and checks that the request is allowed now.
    async fn admit_request(&self, request: &mut Request) -> Result<AdmittedRequest, RequestProblem> {
        let (key_use, negotiates) = (KeyUse::None, false);
        let nothing =
            AdmittedRequest { permit: None, stream_failure: |_, _| Vec::new(), key_use, negotiates };
        let Some(path) = request.extensions().get::<MatchedPath>().cloned() else { return Ok(nothing) };
        let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let routes = self.access.get(path.as_str()).into_iter().flatten();
        let route = routes.into_iter().find(|route| route.method == *asked);
        let mut admitted = nothing;
        check_content_encoding(request.headers())?;
        // Without a route for the method there is nothing to check.
        if let Some(route) = route.filter(|route| route.access == RouteAccess::Keyed) {
            let MethodAccessRule { streams, stream_failure, instead_of_key, key_use, negotiates, .. } = route;
            (admitted.stream_failure, admitted.negotiates) = (*stream_failure, *negotiates);
            admitted.key_use = *key_use;
            let caller = self.shared.access.authenticate_request(request.uri(), request.headers()).await?;
            let is_operated = OPERATED.contains(&fixed_path_prefix(path.as_str()));
            if caller.is_operator() && !is_operated {
                let why = "the operator manages keys, reads the audit and lists the servers; for all else there are the tenants' keys";
                return Err(RequestProblem::from_kind(RequestProblemKind::Forbidden, why));
            }
            let makes_keys = fixed_path_prefix(path.as_str()) == KEYS && asked != Method::GET;
            if makes_keys && !self.shared.access.is_key_required() && !caller.is_operator() {
                let why = "every user of this machine reaches a server that asks for no key: its keys are managed with the operator's";
                let hint = "use `singletree keys`, which finds the operator's key beside the database";
                return Err(RequestProblem::from_kind(RequestProblemKind::Forbidden, why).with_hint(hint));
            }
            if let Some(instead) =
                instead_of_key.filter(|_| request.headers().contains_key("idempotency-key"))
            {
                return Err(
                    RequestProblem::invalid_request("this takes no Idempotency-Key").with_hint(instead)
                );
            }
            let quotas = &self.shared.quotas;
            let exceeded = |it: QuotaExceeded| RequestProblem::quota_exceeded(&it);
            quotas.admit_request(&caller, is_operated).map_err(exceeded)?;
            if *streams || wants_events(request.headers()) {
                admitted.permit = quotas.open_stream(&caller).map_err(exceeded)?;
            }
            request.extensions_mut().insert(caller);
        }
        Ok(admitted)
    }

    /// Adds the message and the hint of a quota to a refusal that has only the category.
    fn add_quota_details(&self, problem: RequestProblem, caller: Option<&Caller>) -> RequestProblem {
        let is_bare =
            problem.category == RequestProblemKind::QuotaExceeded.category() && problem.hint.is_none();
        let refusal = caller.filter(|_| is_bare).and_then(|caller| self.shared.quotas.last_refusal(caller));
        refusal.map_or(problem, |refusal| RequestProblem::quota_exceeded(&refusal))
    }
}

impl SectionPrefix {
    fn from_section(prefix: &'static str, section: &ProtocolSection) -> Self {
        Self { prefix, section: section.name, render: section.render }
    }
}

/// The properties of a request that are needed when it is answered.
struct RequestNotes {
    asked: RequestContext,
    trace: Option<String>,
    method: Method,
    path: String,
    begun: Instant,
    peer: Option<String>,
    correlation: Option<CorrelationId>,
    sent_on: Option<ForwardedRequest>,
}

impl RequestNotes {
    #[expect(clippy::disallowed_methods, reason = "durations in logs and metrics decide nothing")]
    fn from_request(request: &Request, asked: RequestContext) -> Self {
        Self {
            asked,
            trace: trace::read_trace_id(request.headers()).map(|id| id.to_string()),
            method: request.method().clone(),
            path: request.uri().path().chars().take(PATH_SHOWN).collect(),
            begun: Instant::now(),
            peer: request.extensions().get::<PeerAddress>().map(|peer| peer.0.to_string()),
            correlation: correlation::read_correlation_id(request.headers()),
            sent_on: ForwardedRequest::from_headers(request.headers()),
        }
    }
}

/// Runs a request within the layer.
pub(crate) async fn handle_request(
    State(frame): State<Arc<RequestLayer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let outline = frame.find_section(request.uri().path());
    let request_id = request_id::choose_request_id(&request, frame.shared.ids.as_ref());
    let noted = RequestNotes::from_request(&request, RequestContext { request_id });
    request.extensions_mut().insert(noted.asked.clone());
    let credentials = Credentials::from_request(&request);
    let admitted = frame.admit_request(&mut request).await;
    let caller = request.extensions().get::<Caller>().cloned();
    let (mut panicked, negotiates) = (None, admitted.as_ref().is_ok_and(|admitted| admitted.negotiates));
    let answer = match admitted {
        Ok(AdmittedRequest { permit, stream_failure, key_use, negotiates: _ }) => {
            let (request, arrival) = limit_arrival_time(request, frame.shared.limits.request_time);
            let (peers, id) = (frame.shared.peers(key_use), &noted.asked.request_id);
            let trace = trace::read_trace_headers(request.headers());
            let running = TraceHeaders::scope(trace.clone(), run_or_forward(peers, request, (next, id)));
            match AssertUnwindSafe(running).catch_unwind().await {
                Ok(answer) => match (problem_of_response(&answer, &arrival), caller.clone()) {
                    (Some(problem), _) => {
                        let allow = answer.headers().get(ALLOW).cloned();
                        Err((frame.add_quota_details(problem, caller.as_ref()), allow))
                    }
                    (None, Some(caller)) => {
                        let (shared, asked) = (frame.shared.clone(), noted.asked.clone());
                        StreamGuard { shared, caller, credentials, permit, stream_failure, asked, trace }
                            .guard_response(mark_answer(noted.sent_on.as_ref(), answer))
                            .map_err(|problem| (problem, None))
                    }
                    (None, None) => Ok(answer),
                },
                Err(payload) => {
                    panicked = Some(panic_message(payload.as_ref()));
                    Err((panic_problem(id), None))
                }
            }
        }
        Err(problem) => Err((problem, None)),
    };
    let category = answer.as_ref().err().map(|(problem, _)| problem.category.clone());
    let mut response = match answer {
        Ok(answer) => answer,
        Err((problem, allow)) => render_problem(&frame.shared, &problem, &noted, outline.render, allow),
    };
    set_default_headers(response.headers_mut(), &noted.asked.request_id, negotiates);
    let correlation = correlation::select_logged_id(&response, noted.correlation)
        .map(|id| frame.shared.redactor.redact(&id).into_owned());
    let took = noted.begun.elapsed().as_secs_f64();
    let line = Line {
        at: telemetry::format_current_time(frame.shared.clock.as_ref()),
        kind: "request",
        request: &noted.asked.request_id,
        trace: noted.trace.as_deref(),
        correlation: correlation.as_deref(),
        peer: noted.peer.as_deref(),
        section: outline.section,
        method: noted.method.as_str(),
        path: &noted.path,
        status: response.status().as_u16(),
        ms: (took * 100_000.0).round() / 100.0,
        tenant: caller.as_ref().map(|caller| caller.tenant.as_str()),
        who: caller.as_ref().map(|caller| caller.name.as_str()),
        category: category.as_deref(),
        panic: panicked.as_deref(),
    };
    frame.shared.telemetry.record_request(&line, took);
    response
}

/// Refuses a compressed body: the server does not decompress, so it would be reported as malformed JSON.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), RequestProblem> {
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    if encodings.into_iter().all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let problem = RequestProblem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    Err(problem.with_hint("send the body as it is, without Content-Encoding"))
}

/// Sets the id of the request, and the headers that keep an answer out of caches and other sites, unless its handler
/// has set them.
fn set_default_headers(headers: &mut HeaderMap, id: &str, negotiates: bool) {
    if negotiates {
        headers.append(VARY, HeaderValue::from_static("accept, prefer"));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(request_id::HEADER, id);
    }
    let usual = [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

fn panic_problem(request_id: &str) -> RequestProblem {
    let hint = format!("the server's log says more, under the id {request_id}");
    let kind = RequestProblemKind::Failed;
    RequestProblem::from_kind(kind, kind.default_message()).with_hint(hint)
}

/// Returns the message of a panic.
fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic").to_owned()
}

/// Returns the problem of a response: one of ours, or one made from the status if a library has answered in plain
/// text.
fn problem_of_response(answer: &Response, arrival: &BodyArrival) -> Option<RequestProblem> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    if arrival.is_late() {
        return Some(RequestProblem::from_status(StatusCode::REQUEST_TIMEOUT));
    }
    if let Some(problem) = answer.extensions().get::<RequestProblem>() {
        return Some(problem.clone());
    }
    let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let worded = kind.is_some_and(|kind| !kind.starts_with(b"text/plain"));
    (!worded).then(|| RequestProblem::from_status(status))
}

/// Converts a problem by its section, without secrets (INV-16), and sets its status and headers.
fn render_problem(
    shared: &ServerState,
    problem: &RequestProblem,
    noted: &RequestNotes,
    render: Render,
    allow: Option<HeaderValue>,
) -> Response {
    let clean = |text: &str| shared.redactor.redact(text).into_owned();
    let problem = RequestProblem {
        message: clean(&problem.message),
        hint: problem.hint.as_deref().map(clean).map(Into::into),
        field: problem.field.as_deref().map(clean).map(Into::into),
        reply: problem.reply.as_deref().map(clean).map(Into::into),
        ..problem.clone()
    };
    let mut response = render(&problem, &noted.asked);
    *response.status_mut() = problem.status;
    noted.sent_on.iter().for_each(|sent_on| mark_refusal(&problem, sent_on, &mut response));
    let headers = response.headers_mut();
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(allow) = allow {
        headers.insert(ALLOW, allow);
    }
    response
}

/// Returns the part of a path before its first parameter.
fn fixed_path_prefix(path: &str) -> &str {
    path.split('{').next().unwrap_or_default().trim_end_matches('/')
}
