//! What stands around every section: who asks, under which id, how long a body may take, and how a problem is told.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::arriving::{Arrival, arriving};
use crate::problem::{Kind, Problem};
use crate::request_id;
use crate::section::{Access, Asked, Render, Section};
use crate::shared::Shared;

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
struct Outline {
    prefix: &'static str,
    render: Render,
}

impl Frame {
    /// Stands around these sections. What none of them has is told by the first.
    pub(crate) fn new(shared: Arc<Shared>, sections: &[Section]) -> Self {
        let mut outlines: Vec<Outline> = sections
            .iter()
            .flat_map(|section| {
                section.routes.iter().map(|it| Outline { prefix: fixed(it.path), render: section.render })
            })
            .collect();
        outlines.sort_by_key(|it| std::cmp::Reverse(it.prefix.len()));
        outlines.extend(sections.first().map(|it| Outline { prefix: "", render: it.render }));
        let mut access = HashMap::<_, Vec<_>>::new();
        for route in sections.iter().flat_map(|it| &it.routes) {
            access.entry(route.path).or_default().push((route.method.clone(), route.access));
        }
        Self { shared, outlines, access }
    }

    /// Returns how the section words a problem to which a path belongs, be it one of its routes or not.
    fn render(&self, path: &str) -> Render {
        let within = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let outline = self.outlines.iter().find(|it| within(it.prefix));
        outline.expect("the last one, of the empty prefix, fits every path").render
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

/// Runs a request within the frame.
pub(crate) async fn run(State(frame): State<Arc<Frame>>, mut request: Request, next: Next) -> Response {
    let render = frame.render(request.uri().path());
    let asked = Asked { request_id: request_id::of(&request, frame.shared.ids.as_ref()) };
    request.extensions_mut().insert(asked.clone());
    let (answer, arrival) = match frame.admit(&mut request).await {
        Ok(()) => {
            let (request, arrival) = arriving(request, frame.shared.limits.request_time);
            let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            let answer = answer.map_err(|_| {
                Problem::of_kind(Kind::Failed, Kind::Failed.message())
                    .hint(format!("the server's log says more, under the id {}", asked.request_id))
            });
            (answer, arrival)
        }
        Err(problem) => (Err(problem), Arrival::default()),
    };
    let mut response = match answer {
        Ok(answer) => match problem_of(&answer, &arrival) {
            Some(problem) => told(&frame.shared, &problem, &asked, render, answer.headers().get(ALLOW)),
            None => answer,
        },
        Err(problem) => told(&frame.shared, &problem, &asked, render, None),
    };
    if let Ok(id) = HeaderValue::from_str(&asked.request_id) {
        response.headers_mut().insert(request_id::HEADER, id);
    }
    response
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
    allow: Option<&HeaderValue>,
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
        headers.insert(ALLOW, allow.clone());
    }
    response
}

/// Returns the part of a path before its first name.
fn fixed(path: &str) -> &str {
    path.split('{').next().unwrap_or_default().trim_end_matches('/')
}
