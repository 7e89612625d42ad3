//! The ports of a server: kept open while one server ends and the next begins, so that nobody is refused in between.

use std::io;
use std::net::TcpListener as PlainListener;

use singletree_server::Server;
use tokio::net::TcpListener;

use crate::error::{Error, Result};
use crate::serving::ConfiguredServer;

/// The ports of a server, open.
#[derive(Debug, Default)]
pub(crate) struct ServerPorts {
    main: Option<BoundPort>,
    admin: Option<BoundPort>,
    metrics: Option<BoundPort>,
}

/// A port as it was asked for.
#[derive(Debug)]
struct BoundPort {
    address: String,
    listener: PlainListener,
}

/// The listeners of one server.
#[derive(Debug)]
pub(crate) struct ServerListeners {
    pub(crate) main: TcpListener,
    pub(crate) admin: TcpListener,
    pub(crate) metrics: Option<TcpListener>,
}

impl ServerPorts {
    /// Tells whether none has been opened yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.main.is_none()
    }

    /// Closes all of them for those that come from now on.
    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }

    /// Opens the ports of a server; those that are open at the same address stay so.
    pub(crate) async fn listen(&mut self, served: &ConfiguredServer) -> Result<ServerListeners> {
        let main = open(&mut self.main, &served.server, &served.listen).await?;
        let admin = open(&mut self.admin, &served.server, &served.admin).await?;
        let metrics = match &served.metrics {
            Some(address) => Some(open(&mut self.metrics, &served.server, address).await?),
            None => {
                // Nobody would answer at it any more.
                self.metrics = None;
                None
            }
        };
        Ok(ServerListeners { main, admin, metrics })
    }
}

async fn open(port: &mut Option<BoundPort>, server: &Server, address: &str) -> Result<TcpListener> {
    let kept = match port.take().filter(|port| port.address == address) {
        Some(kept) => kept,
        None => {
            let listener = server.listen(address).await?.into_std().map_err(unusable)?;
            BoundPort { address: address.to_owned(), listener }
        }
    };
    let listener = kept.listener.try_clone().and_then(TcpListener::from_std).map_err(unusable)?;
    *port = Some(kept);
    Ok(listener)
}

fn unusable(source: io::Error) -> Error {
    Error::Input { source }
}
