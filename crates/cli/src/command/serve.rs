//! `singletree serve`: the agents over HTTP.

use std::net::SocketAddr;

use crate::args::Serve;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::operator::{Sign, reachable};
use crate::place::Place;
use crate::print::{Screen, Style};
use crate::serving::Served;
use crate::who::Cast;

/// Runs the command.
pub(crate) async fn run(args: Serve) -> Result<u8> {
    let place = Place::of(args.db.db.as_deref())?;
    // A wrong file is told before anything is made.
    let cast = Cast::of(&args.who).await?;
    let redactor = cast.redactor.clone();
    let ended = async {
        let served = Served::open(&place, &args, cast).await?;
        let end = serve(&served, &place).await?;
        if end == End::Graceful {
            served.close().await;
        }
        Ok(end.code())
    };
    ended.await.map_err(|it: Error| it.redacted(&redactor))
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was asked to, and everything had its time.
    Graceful,
    /// It was asked twice.
    AtOnce,
}

impl End {
    fn code(self) -> u8 {
        match self {
            Self::Graceful => COMPLETED,
            Self::AtOnce => ERRORED,
        }
    }
}

async fn serve(served: &Served, place: &Place) -> Result<End> {
    let listener = served.server.listen(&served.listen).await?;
    let metrics = match &served.metrics {
        Some(address) => Some(served.server.listen(address).await?),
        None => None,
    };
    let at = listener.local_addr().map_err(|source| Error::Input { source })?;
    let sign = Sign::put_up(place, at, &served.server.operator_key())?;
    let mut signals = Signals::new()?;
    greet(served, place, at)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = served.server.serve(listener, async move { drop(stopped.await) });
    let measured = async {
        match metrics {
            Some(metrics) => served.server.serve_metrics(metrics).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(serving, measured);
    tokio::select! {
        ended = &mut serving => return ended.map(|()| End::Graceful).map_err(Error::from),
        () = &mut measured => {}
        () = signals.next() => {}
    }
    Screen::err().styled(Style::Dim, "ending; once more ends at once")?;
    drop(stop);
    let end = tokio::select! {
        ended = serving => ended.map(|()| End::Graceful)?,
        () = signals.next() => End::AtOnce,
    };
    drop(sign);
    Ok(end)
}

/// Says where the server is, who answers there, and how to talk to them.
fn greet(served: &Served, place: &Place, at: SocketAddr) -> Result<()> {
    let mut screen = Screen::out();
    let url = reachable(at);
    let about = served.about.as_deref().unwrap_or("the demo agent, which needs no key and no network");
    screen.line(&format!("singletree listens at {url}"))?;
    let key = if served.asks { " -H \"Authorization: Bearer $KEY\"" } else { "" };
    let say = "{\"content\": \"what time is it?\"}";
    let mut lines = vec![
        format!("answering: {about}"),
        format!("database:  {}", place.db().display()),
        format!("the API:   {url}/docs"),
    ];
    if served.asks {
        lines.push("a key:     KEY=$(singletree keys create)".to_owned());
    }
    lines.push(format!("try:       curl {url}/v1/sessions/hello/messages{key} --json '{say}'"));
    lines.iter().try_for_each(|it| screen.styled(Style::Dim, &format!("  {it}")))?;
    if !at.ip().is_loopback() {
        let plain = "  others reach it, and it speaks plain HTTP: put a proxy with TLS before it";
        screen.styled(Style::Strong, plain)?;
    }
    Ok(())
}

/// What asks the process to end.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        #[cfg(unix)]
        {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let terminate = tokio::signal::unix::signal(kind).map_err(|source| Error::Input { source })?;
            Ok(Self { terminate })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        drop(tokio::signal::ctrl_c().await);
    }
}
