//! `singletree serve`: the agents over HTTP.

use std::net::SocketAddr;

use crate::args::Serve;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::operator::{Sign, reachable};
use crate::place::Place;
use crate::print::{Screen, Style};
use crate::serving::{Said, server};
use crate::wire::House;

/// Runs the command.
pub(crate) async fn run(args: Serve) -> Result<u8> {
    let place = Place::of(args.db.db.as_deref())?;
    let house = House::serve(&place, &args.who).await?;
    let served = serve(&house, &place, Said { listen: args.listen, auth: args.auth }).await;
    let served = house.clean(served);
    if matches!(served, Ok(End::Graceful)) {
        house.close().await;
    }
    served.map(End::code)
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

async fn serve(house: &House, place: &Place, said: Said) -> Result<End> {
    let (server, address) = server(house, &said)?;
    let listener = server.listen(&address).await?;
    let at = listener.local_addr().map_err(|source| Error::Input { source })?;
    let sign = Sign::put_up(place, at, &server.operator_key())?;
    let mut signals = Signals::new()?;
    greet(house, place, at)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.serve(listener, async move { drop(stopped.await) });
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(End::Graceful),
        () = signals.next() => {}
    }
    Screen::err().styled(Style::Dim, "ending; once more ends at once")?;
    drop(stop);
    let end = tokio::select! {
        () = serving => End::Graceful,
        () = signals.next() => End::AtOnce,
    };
    drop(sign);
    Ok(end)
}

/// Says where the server is, who answers there, and how to talk to them.
fn greet(house: &House, place: &Place, at: SocketAddr) -> Result<()> {
    let mut screen = Screen::out();
    let url = reachable(at);
    let about = house.about.as_deref().unwrap_or("the demo agent, which needs no key and no network");
    screen.line(&format!("singletree listens at {url}"))?;
    screen.styled(Style::Dim, &format!("  answering: {about}"))?;
    screen.styled(Style::Dim, &format!("  database:  {}", place.db().display()))?;
    screen.styled(Style::Dim, &format!("  the API:   {url}/docs"))?;
    screen.styled(
        Style::Dim,
        &format!(
            "  try:       curl {url}/v1/sessions/hello/messages --json '{{\"content\": \"what time is it?\"}}'"
        ),
    )?;
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
