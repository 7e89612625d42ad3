//! `singletree serve`: the agents over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use singletree::engine::SystemClock;

use crate::args::Serve;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::log::write_with_timeout;
use crate::operator::{OperatorFile, local_server_url};
use crate::place::DatabaseLocation;
use crate::ports::ServerPorts;
use crate::print::{TerminalOutput, TextStyle};
use crate::serving::ConfiguredServer;
use crate::who::{AgentSelection, LoadedConfiguration};

/// How long work of before may take to let go when the server begins anew.
const LET_GO: Duration = Duration::from_secs(1);

/// Runs the command, on a thread of its own, which makes the runtimes.
pub(crate) async fn run_serve_command(args: Serve) -> Result<u8> {
    let (answer, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(move || {
        // Whoever waits has nothing else to do.
        drop(answer.send(serve_until_ended(&args)));
    });
    thread.map_err(|source| Error::Input { source })?;
    ended.await.unwrap_or(Ok(ERRORED))
}

/// Runs a server, and after each change of its configuration that is told by SIGHUP another one at the same ports.
///
/// Each server has its own runtime. Work that did not end in time ends with the runtime, as with a process, so that
/// nothing of it runs beside the next server.
fn serve_until_ended(args: &Serve) -> Result<u8> {
    let mut handover = ServerHandover::default();
    loop {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::Input { source })?;
        let end = runtime.block_on(serve_once(args, &mut handover));
        runtime.shutdown_timeout(LET_GO);
        match end? {
            ServingOutcome::Graceful => return Ok(COMPLETED),
            ServingOutcome::AtOnce => return Ok(ERRORED),
            ServingOutcome::Reload => {}
        }
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServingOutcome {
    /// It was asked to, and everything had its time.
    Graceful,
    /// It was asked twice.
    AtOnce,
    /// It is to begin anew, as its file says now.
    Reload,
}

/// The state that one server hands over to the next.
#[derive(Default)]
struct ServerHandover {
    ports: ServerPorts,
    /// The configuration that was checked for the next server. Its file may have changed since.
    configuration: Option<LoadedConfiguration>,
}

async fn serve_once(args: &Serve, handover: &mut ServerHandover) -> Result<ServingOutcome> {
    // From here on no signal kills without a word.
    let mut signals = ProcessSignals::new()?;
    let place = DatabaseLocation::from_options(&args.db)?;
    // A wrong file is told before anything is made.
    let cast = match handover.configuration.take() {
        Some(loaded) => AgentSelection::from_configuration(loaded)?,
        None => AgentSelection::from_arguments(&args.who).await?,
    };
    let redactor = cast.redactor.clone();
    let ended = async {
        let served = ConfiguredServer::open_and_build(&place, args, cast).await?;
        let end = serve_until_signal(&served, (args, &place), handover, &mut signals).await?;
        if end != ServingOutcome::AtOnce {
            served.close_database().await;
        }
        if end == ServingOutcome::Reload {
            // The next server has other listeners for signals: a request to end that came meanwhile would be lost.
            tokio::select! {
                biased;
                asked = signals.next_command() => if asked == ServerCommand::End { return Ok(ServingOutcome::Graceful) },
                () = std::future::ready(()) => {}
            }
        }
        Ok(end)
    };
    ended.await.map_err(|it: Error| it.into_redacted(&redactor))
}

async fn serve_until_signal(
    served: &ConfiguredServer,
    (args, place): (&Serve, &DatabaseLocation),
    handover: &mut ServerHandover,
    signals: &mut ProcessSignals,
) -> Result<ServingOutcome> {
    let is_first = handover.ports.is_empty();
    let listeners = handover.ports.open_listeners(served).await?;
    let at = listeners.main.local_addr().map_err(|source| Error::Input { source })?;
    let admin = listeners.admin.local_addr().map_err(|source| Error::Input { source })?;
    served.register_address(at).await?;
    let sign = OperatorFile::write_beside_database(place, (at, admin), &served.server.operator_key())?;
    if is_first {
        print_start_banner(served, place, at)?;
        if let Some(limit) = served.descriptor_limit {
            served.telemetry.log_descriptor_limit(limit, &SystemClock);
        }
    } else {
        served.telemetry.log_configuration_reload("applied", None, &SystemClock);
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = served.server.serve(listeners.main, async move { drop(stopped.await) });
    let beside = async {
        let measured = async {
            match listeners.metrics {
                Some(metrics) => served.server.serve_metrics(metrics).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(measured, served.server.serve_admin(listeners.admin));
    };
    tokio::pin!(serving, beside);
    let end = loop {
        let asked = tokio::select! {
            ended = &mut serving => return ended.map(|()| ServingOutcome::Graceful).map_err(Error::from),
            () = &mut beside => continue,
            asked = signals.next_command() => asked,
        };
        match asked {
            ServerCommand::End => break ServingOutcome::Graceful,
            ServerCommand::Reload if prepare_reload(served, (place, args), handover).await => {
                break ServingOutcome::Reload;
            }
            ServerCommand::Reload => {}
        }
    };
    if end == ServingOutcome::Graceful {
        // Nobody waits at a port that nobody opens again.
        handover.ports.close_ports();
        write_with_timeout(|| {
            drop(
                TerminalOutput::standard_error()
                    .write_styled_line(TextStyle::Dim, "ending; once more ends at once"),
            )
        });
    }
    drop(stop);
    let ended = loop {
        tokio::select! {
            ended = &mut serving => break ended.map(|()| end)?,
            // Until it has ended it can still be looked at.
            () = &mut beside => {}
            asked = signals.next_command() => if asked == ServerCommand::End { break ServingOutcome::AtOnce },
        }
    };
    drop(sign);
    Ok(ended)
}

/// Reads the configuration again, and logs whether the server restarts with it: only if a server can be built from it
/// and its ports can be opened. Otherwise the running server continues unchanged.
async fn prepare_reload(
    served: &ConfiguredServer,
    (place, args): (&DatabaseLocation, &Serve),
    handover: &mut ServerHandover,
) -> bool {
    let checked = async {
        let cast = AgentSelection::from_arguments(&args.who).await?;
        if served.about.is_some() && cast.about.is_none() {
            // Without a file the demo would replace the agents.
            return Err(Error::Usage("the configuration file does not exist any more".to_owned()));
        }
        let (redactor, configuration) = (cast.redactor.clone(), cast.loaded_configuration());
        let ready =
            async { handover.ports.reserve_ports(&served.try_build_next((place, args), cast)?).await };
        ready.await.map_err(|error: Error| error.into_redacted(&redactor))?;
        handover.configuration = configuration;
        Ok(())
    };
    let (state, why) = match checked.await {
        Ok(()) => ("accepted", None),
        Err(error) => ("refused", Some(error.into_redacted(&served.redactor).text_with_causes())),
    };
    served.telemetry.log_configuration_reload(state, why.as_deref(), &SystemClock);
    why.is_none()
}

/// Says where the server is, who answers there, and how to talk to them.
fn print_start_banner(served: &ConfiguredServer, place: &DatabaseLocation, at: SocketAddr) -> Result<()> {
    let mut screen = TerminalOutput::standard_output();
    let url = local_server_url(at);
    let about = served.about.as_deref().unwrap_or("the demo agent, which needs no key and no network");
    screen.write_line(&format!("singletree listens at {url}"))?;
    let key = if served.asks { " -H \"Authorization: Bearer $KEY\"" } else { "" };
    let say = "{\"content\": \"what time is it?\"}";
    let mut lines = vec![
        format!("answering: {about}"),
        format!("database:  {}", place.shown_name()),
        format!("the API:   {url}/docs"),
    ];
    if served.asks {
        lines.push("a key:     KEY=$(singletree keys create)".to_owned());
    }
    lines.push(format!("try:       curl {url}/v1/sessions/hello/messages{key} --json '{say}'"));
    lines.iter().try_for_each(|line| screen.write_styled_line(TextStyle::Dim, &format!("  {line}")))?;
    if !at.ip().is_loopback() {
        let plain = "  others reach it, and it speaks plain HTTP: put a proxy with TLS before it";
        screen.write_styled_line(TextStyle::Strong, plain)?;
    }
    Ok(())
}

/// A request made by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerCommand {
    /// To end.
    End,
    /// To read the configuration again.
    Reload,
}

/// The signals that the process hears.
struct ProcessSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl ProcessSignals {
    fn new() -> Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};

            let hear = |kind| signal(kind).map_err(|source| Error::Input { source });
            Ok(Self {
                interrupt: hear(SignalKind::interrupt())?,
                terminate: hear(SignalKind::terminate())?,
                hangup: hear(SignalKind::hangup())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one.
    async fn next_command(&mut self) -> ServerCommand {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => ServerCommand::End,
            _ = self.terminate.recv() => ServerCommand::End,
            _ = self.hangup.recv() => ServerCommand::Reload,
        }
        #[cfg(not(unix))]
        {
            drop(tokio::signal::ctrl_c().await);
            ServerCommand::End
        }
    }
}
