//! The ports of a server: kept open while one server ends and the next begins, so that nobody is refused in between.

use std::io;
use std::net::TcpListener as PlainListener;

use singletree_server::{Error as ServerError, Server};
use tokio::net::TcpListener;

use crate::error::{Error, Result};
use crate::serving::ConfiguredServer;

/// The ports of a server, open.
#[derive(Debug, Default)]
pub(crate) struct ServerPorts {
    main: Option<BoundPort>,
    admin: Option<BoundPort>,
    metrics: Option<BoundPort>,
    /// Ports of the next server at addresses that the running one does not use.
    reserved: Vec<BoundPort>,
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
    pub(crate) fn close_ports(&mut self) {
        *self = Self::default();
    }

    /// Opens the ports of the next server that are not open yet, and keeps them for it. Those of the running one stay
    /// open.
    ///
    /// # Errors
    /// `server_listen_failed`; `server_open` where others would reach a server that asks nobody for a key.
    ///
    /// # Cancellation
    /// Dropping the future leaves the ports as they are.
    pub(crate) async fn reserve_ports(&mut self, next: &ConfiguredServer) -> Result<()> {
        let mut addresses = vec![(&self.main, &next.listen), (&self.admin, &next.admin)];
        addresses.extend(next.metrics.iter().map(|address| (&self.metrics, address)));
        let mut reserved = Vec::new();
        for (port, address) in addresses {
            match port.as_ref().filter(|port| port.address == *address) {
                Some(kept) => {
                    let at = kept.listener.local_addr().map_err(unusable_port_error)?;
                    if !next.asks && !at.ip().is_loopback() {
                        return Err(ServerError::Open { address: at }.into());
                    }
                }
                None => reserved.push(bind_port(&next.server, address).await?),
            }
        }
        self.reserved = reserved;
        Ok(())
    }

    /// Opens the ports of a server; those that are open at the same address stay so.
    pub(crate) async fn open_listeners(&mut self, served: &ConfiguredServer) -> Result<ServerListeners> {
        let mut reserved = std::mem::take(&mut self.reserved);
        let main =
            open_or_reuse_port((&mut self.main, &mut reserved), &served.server, &served.listen).await?;
        let admin =
            open_or_reuse_port((&mut self.admin, &mut reserved), &served.server, &served.admin).await?;
        let metrics = match &served.metrics {
            Some(address) => {
                Some(open_or_reuse_port((&mut self.metrics, &mut reserved), &served.server, address).await?)
            }
            None => {
                // Nobody would answer at it any more.
                self.metrics = None;
                None
            }
        };
        Ok(ServerListeners { main, admin, metrics })
    }
}

async fn open_or_reuse_port(
    (port, reserved): (&mut Option<BoundPort>, &mut Vec<BoundPort>),
    server: &Server,
    address: &str,
) -> Result<TcpListener> {
    let mut known = port.take().into_iter().chain(reserved.extract_if(.., |port| port.address == address));
    let kept = match known.find(|port| port.address == address) {
        Some(kept) => kept,
        None => bind_port(server, address).await?,
    };
    let listener = kept.listener.try_clone().and_then(TcpListener::from_std).map_err(unusable_port_error)?;
    *port = Some(kept);
    Ok(listener)
}

async fn bind_port(server: &Server, address: &str) -> Result<BoundPort> {
    let listener = server.listen(address).await?.into_std().map_err(unusable_port_error)?;
    Ok(BoundPort { address: address.to_owned(), listener })
}

fn unusable_port_error(source: io::Error) -> Error {
    Error::Input { source }
}
