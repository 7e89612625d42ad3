//! What stands around every section: who asks, under which id, how long a body may take, and how a problem is told.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::arriving::{Arrival, arriving};
use crate::caller::Caller;
use crate::problem::{Kind, Problem};
use crate::request_id;
use crate::section::{Access, Asked, Render, Section};
use crate::shared::Shared;
use crate::telemetry::{self, Line};
use crate::trace;

/// Characters of a path that the log shows.
const PATH_SHOWN: usize = 512;

/// Where the paths begin that the operator may use.
const OPERATED: [&str; 2] = ["/v1/keys", "/v1/audit"];

/// What stands around every section.
pub(crate) struct Frame {
    shared: Arc<Shared>,
    /// The sections by where their paths begin, the longest first.
    outlines: Vec<Outline>,
    /// Who may use a path with a method.
    access: HashMap<&'static str, Vec<(Method, Access)>>,
}

/// What is known of a section by a path alone.
#[derive(Clone, Copy)]
struct Outline {
    prefix: &'static str,
    section: &'static str,
    render: Render,
}

impl Frame {
    /// Stands around these sections. What none of them has is told by the first.
    pub(crate) fn new(shared: Arc<Shared>, sections: &[Section]) -> Self {
        let mut outlines: Vec<Outline> = sections
            .iter()
            .flat_map(|section| {
                let outline = |prefix| Outline { prefix, section: section.name, render: section.render };
                section.routes.iter().map(move |it| outline(fixed(it.path)))
            })
            .collect();
        outlines.sort_by_key(|it| std::cmp::Reverse(it.prefix.len()));
        let first = |it: &Section| Outline { prefix: "", section: it.name, render: it.render };
        outlines.extend(sections.first().map(first));
        let mut access = HashMap::<_, Vec<_>>::new();
        for route in sections.iter().flat_map(|it| &it.routes) {
            access.entry(route.path).or_default().push((route.method.clone(), route.access));
        }
        Self { shared, outlines, access }
    }

    /// Returns the section to which a path belongs, be it one of its routes or not.
    fn outline(&self, path: &str) -> Outline {
        let within = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let outline = self.outlines.iter().find(|it| within(it.prefix));
        *outline.expect("the last one, of the empty prefix, fits every path")
    }

    /// Settles who asks, when the route is one for callers.
    async fn admit(&self, request: &mut Request) -> Result<(), Problem> {
        let Some(path) = request.extensions().get::<MatchedPath>().cloned() else { return Ok(()) };
        let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let routes = self.access.get(path.as_str()).into_iter().flatten();
        let route = routes.into_iter().find(|(method, _)| method == asked);
        // With another method there is nothing to admit to.
        if let Some((_, Access::Keyed)) = route {
            let caller = self.shared.access.caller(request.uri(), request.headers()).await?;
            if caller.is_operator() && !OPERATED.contains(&fixed(path.as_str())) {
                let why =
                    "the operator manages keys and reads the audit; for all else there are the tenants' keys";
                return Err(Problem::of_kind(Kind::Forbidden, why));
            }
            request.extensions_mut().insert(caller);
        }
        Ok(())
    }
}

/// What of a request is taken down.
struct Noted {
    asked: Asked,
    trace: Option<String>,
    method: Method,
    path: String,
    begun: Instant,
}

/// Runs a request within the frame.
pub(crate) async fn run(State(frame): State<Arc<Frame>>, mut request: Request, next: Next) -> Response {
    let outline = frame.outline(request.uri().path());
    let asked = Asked { request_id: request_id::of(&request, frame.shared.ids.as_ref()) };
    let noted = Noted {
        asked: asked.clone(),
        trace: trace::of(request.headers()).map(ToOwned::to_owned),
        method: request.method().clone(),
        path: request.uri().path().chars().take(PATH_SHOWN).collect(),
        begun: Instant::now(),
    };
    request.extensions_mut().insert(asked);
    let admitted = frame.admit(&mut request).await;
    let caller = request.extensions().get::<Caller>().cloned();
    let mut panicked = None;
    let answer = match admitted {
        Ok(()) => {
            let (request, arrival) = arriving(request, frame.shared.limits.request_time);
            match AssertUnwindSafe(next.run(request)).catch_unwind().await {
                Ok(answer) => match problem_of(&answer, &arrival) {
                    Some(problem) => Err((problem, answer.headers().get(ALLOW).cloned())),
                    None => Ok(answer),
                },
                Err(payload) => {
                    panicked = Some(words_of(payload.as_ref()));
                    let hint = format!("the server's log says more, under the id {}", noted.asked.request_id);
                    let problem = Problem::of_kind(Kind::Failed, Kind::Failed.message()).hint(hint);
                    Err((problem, None))
                }
            }
        }
        Err(problem) => Err((problem, None)),
    };
    let category = answer.as_ref().err().map(|(problem, _)| problem.category.clone());
    let mut response = match answer {
        Ok(answer) => answer,
        Err((problem, allow)) => told(&frame.shared, &problem, &noted.asked, outline.render, allow),
    };
    if let Ok(id) = HeaderValue::from_str(&noted.asked.request_id) {
        response.headers_mut().insert(request_id::HEADER, id);
    }
    let took = noted.begun.elapsed().as_secs_f64();
    let line = Line {
        at: telemetry::now(frame.shared.clock.as_ref()),
        kind: "request",
        request: &noted.asked.request_id,
        trace: noted.trace.as_deref(),
        section: outline.section,
        method: noted.method.as_str(),
        path: &noted.path,
        status: response.status().as_u16(),
        ms: (took * 100_000.0).round() / 100.0,
        tenant: caller.as_ref().map(|it| it.tenant.as_str()),
        who: caller.as_ref().map(|it| it.name.as_str()),
        category: category.as_deref(),
        panic: panicked.as_deref(),
    };
    frame.shared.telemetry.request(&line, took);
    response
}

/// Returns what a panic said.
fn words_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic").to_owned()
}

/// Returns the problem that an answer tells: one of ours, or what a library says by a status and a text of its own.
fn problem_of(answer: &Response, arrival: &Arrival) -> Option<Problem> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    if arrival.is_late() {
        return Some(Problem::of_status(StatusCode::REQUEST_TIMEOUT));
    }
    if let Some(problem) = answer.extensions().get::<Problem>() {
        return Some(problem.clone());
    }
    let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let worded = kind.is_some_and(|it| !it.starts_with(b"text/plain"));
    (!worded).then(|| Problem::of_status(status))
}

/// Words a problem as its section does, without secrets (INV-16), and sets what HTTP says of it.
fn told(
    shared: &Shared,
    problem: &Problem,
    asked: &Asked,
    render: Render,
    allow: Option<HeaderValue>,
) -> Response {
    let clean = |text: &str| shared.redactor.redact(text).into_owned();
    let problem = Problem {
        message: clean(&problem.message),
        hint: problem.hint.as_deref().map(clean),
        field: problem.field.as_deref().map(clean),
        ..problem.clone()
    };
    let mut response = render(&problem, asked);
    *response.status_mut() = problem.status;
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

/// Returns the part of a path before its first name.
fn fixed(path: &str) -> &str {
    path.split('{').next().unwrap_or_default().trim_end_matches('/')
}
