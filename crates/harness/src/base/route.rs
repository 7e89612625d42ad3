//! Which path a transmission takes: a pure function of mode and transmission (harness §3.4, R13).

use singletree_durable::SessionId;
use singletree_engine::chain;

use super::builder::ResolveSession;
use super::inbound::{Inbound, Intent, SignalArrival};
use crate::outcome::DispatchPath;
use crate::{Error, Result};

/// Whether a harness has sessions: fixed when it is made (harness §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every turn belongs to a session.
    Sessioned,
    /// Every turn stands alone; no session store is ever called.
    Stateless,
}

/// Which session a turn begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Session {
    /// In none.
    Absent,
    /// In the one that the caller named.
    Named(SessionId),
    /// In one that the harness names.
    Unnamed,
}

/// The dispatch of a transmission.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Route<'a> {
    Start { path: DispatchPath, session: Session },
    Resume { path: DispatchPath, signal: &'a SignalArrival },
}

impl Route<'_> {
    pub(super) fn path(&self) -> DispatchPath {
        match self {
            Self::Start { path, .. } | Self::Resume { path, .. } => *path,
        }
    }
}

/// Classifies a transmission. The resolver is asked only where there is a session to resolve (§3.3, §3.0).
pub(super) fn route<'a>(mode: Mode, inbound: &'a Inbound, resolve: &ResolveSession) -> Result<Route<'a>> {
    match (mode, signal(inbound)?) {
        (Mode::Stateless, Some(signal)) => Ok(Route::Resume { path: DispatchPath::Stateless, signal }),
        (Mode::Stateless, None) => {
            Ok(Route::Start { path: DispatchPath::Stateless, session: Session::Absent })
        }
        (Mode::Sessioned, Some(signal)) => Ok(Route::Resume { path: DispatchPath::SignalResume, signal }),
        (Mode::Sessioned, None) => in_session(inbound, resolve),
    }
}

/// Returns the signal, when the transmission is one and nothing else.
fn signal(inbound: &Inbound) -> Result<Option<&SignalArrival>> {
    let why = match (&inbound.signal, inbound.intent) {
        (Some(_), _) if !inbound.fields.is_empty() => "it carries a message and a signal",
        (Some(_), Some(Intent::NewSession | Intent::ExistingSession)) => {
            "it carries a signal but means a session"
        }
        (None, Some(Intent::SignalResume)) => "it means a signal but carries none",
        (signal, _) => return Ok(signal.as_ref()),
    };
    Err(Error::Path { why: why.into() })
}

fn in_session(inbound: &Inbound, resolve: &ResolveSession) -> Result<Route<'static>> {
    let resolved = resolve(inbound).map_err(|error| Error::SessionId { why: chain(error.as_ref()) })?;
    let (path, session) = match (inbound.intent, resolved) {
        (Some(Intent::NewSession) | None, None) => (DispatchPath::NewSession, Session::Unnamed),
        (Some(Intent::NewSession), Some(id)) => (DispatchPath::NewSession, Session::Named(id)),
        (_, Some(id)) => (DispatchPath::ExistingSession, Session::Named(id)),
        (_, None) => return Err(Error::SessionId { why: "it goes on with a session and names none".into() }),
    };
    Ok(Route::Start { path, session })
}
