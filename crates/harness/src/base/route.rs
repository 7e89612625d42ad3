//! Which path a transmission takes: a pure function of mode and transmission (harness §3.4, R13).

use singletree_durable::SessionId;
use singletree_engine::format_error_chain;
use singletree_session::DispatchPath;

use super::builder::ResolveSession;
use super::inbound::{InboundIntent, InboundRequest, SignalArrival};
use crate::{Error, Result};

/// Whether a harness has sessions: fixed when it is made (harness §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HarnessMode {
    /// Every turn belongs to a session.
    Sessioned,
    /// Every turn stands alone; no session store is ever called.
    Stateless,
}

/// Which session a turn begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionSelection {
    /// In none.
    Absent,
    /// In the one that the caller named.
    Named(SessionId),
    /// In one that the harness names.
    Unnamed,
}

/// The dispatch of a transmission.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DispatchRoute<'a> {
    Start { path: DispatchPath, session: SessionSelection },
    Resume { path: DispatchPath, signal: &'a SignalArrival },
}

impl DispatchRoute<'_> {
    pub(super) fn dispatch_path(&self) -> DispatchPath {
        match self {
            Self::Start { path, .. } | Self::Resume { path, .. } => *path,
        }
    }
}

/// Classifies a transmission. The resolver is asked only where there is a session to resolve (§3.3, §3.0).
pub(super) fn route_request<'a>(
    mode: HarnessMode,
    inbound: &'a InboundRequest,
    resolve: &ResolveSession,
) -> Result<DispatchRoute<'a>> {
    match (mode, extract_signal(inbound)?) {
        (HarnessMode::Stateless, Some(signal)) => {
            Ok(DispatchRoute::Resume { path: DispatchPath::Stateless, signal })
        }
        (HarnessMode::Stateless, None) => {
            Ok(DispatchRoute::Start { path: DispatchPath::Stateless, session: SessionSelection::Absent })
        }
        (HarnessMode::Sessioned, Some(signal)) => {
            Ok(DispatchRoute::Resume { path: DispatchPath::SignalResume, signal })
        }
        (HarnessMode::Sessioned, None) => route_in_session(inbound, resolve),
    }
}

/// Returns the signal, when the transmission is one and nothing else.
fn extract_signal(inbound: &InboundRequest) -> Result<Option<&SignalArrival>> {
    let why = match (&inbound.signal, inbound.intent) {
        (Some(_), _) if !inbound.fields.is_empty() => "it carries a message and a signal",
        (Some(_), Some(InboundIntent::NewSession | InboundIntent::ExistingSession)) => {
            "it carries a signal but means a session"
        }
        (None, Some(InboundIntent::SignalResume)) => "it means a signal but carries none",
        (signal, _) => return Ok(signal.as_ref()),
    };
    Err(Error::Path { why: why.into() })
}

fn route_in_session(inbound: &InboundRequest, resolve: &ResolveSession) -> Result<DispatchRoute<'static>> {
    let resolved =
        resolve(inbound).map_err(|error| Error::SessionId { why: format_error_chain(error.as_ref()) })?;
    let (path, session) = match (inbound.intent, resolved) {
        (Some(InboundIntent::NewSession) | None, None) => {
            (DispatchPath::NewSession, SessionSelection::Unnamed)
        }
        (Some(InboundIntent::NewSession), Some(id)) => {
            (DispatchPath::NewSession, SessionSelection::Named(id))
        }
        (_, Some(id)) => (DispatchPath::ExistingSession, SessionSelection::Named(id)),
        (_, None) => return Err(Error::SessionId { why: "it goes on with a session and names none".into() }),
    };
    Ok(DispatchRoute::Start { path, session })
}
