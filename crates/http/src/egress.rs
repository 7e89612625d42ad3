//! Where a call may go.

mod reserved;

use std::error::Error as StdError;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use singletree_env::BoxError;
use url::{Host as UrlHost, Url};

use crate::address::HostAndPort;
use crate::error::{Error, Result};
use crate::resolver::Resolver;

pub use reserved::reserved_address_kind;

/// The rule of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EgressPolicy {
    /// Wherever its caller says.
    Anywhere,
    /// To public addresses.
    PublicOnly,
}

impl EgressPolicy {
    /// Checks an address that needs no name to be resolved. Names are checked when they are.
    pub(crate) fn check_literal_address(self, url: &Url) -> Result<()> {
        let address = match (self, url.host()) {
            (Self::Anywhere, _) | (Self::PublicOnly, None | Some(UrlHost::Domain(_))) => return Ok(()),
            (Self::PublicOnly, Some(UrlHost::Ipv4(it))) => IpAddr::V4(it),
            (Self::PublicOnly, Some(UrlHost::Ipv6(it))) => IpAddr::V6(it),
        };
        match reserved_address_kind(address) {
            Some(kind) => Err(Error::Egress {
                host: HostAndPort::from_url(url).into(),
                reason: format!("it is a {kind} address"),
            }),
            None => Ok(()),
        }
    }
}

/// Resolves names, and refuses those of which any address is not public: a name that mixes them is a trap.
#[derive(Debug, Clone)]
pub(crate) struct PublicOnlyResolver(Arc<dyn Resolver>);

impl PublicOnlyResolver {
    /// Makes it over a resolver.
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self(resolver)
    }
}

impl Resolve for PublicOnlyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let found = resolver.resolve_addresses(name.as_str()).await?;
            match found.iter().copied().find_map(reserved_address_kind) {
                Some(kind) => Err(BoxError::from(EgressRefusal(format!("it resolves to a {kind} address")))),
                // Port 0 stands for the port of the call.
                None => Ok(Box::new(found.into_iter().map(|item| SocketAddr::new(item, 0))) as Addrs),
            }
        })
    }
}

/// A refusal by the resolver, passed on as an error source through all layers above.
#[derive(Debug)]
struct EgressRefusal(String);

impl fmt::Display for EgressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for EgressRefusal {}

/// Finds the refusal in the sources of an error.
pub(crate) fn find_egress_refusal(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<EgressRefusal>() {
            return Some(refused.0.clone());
        }
        next = error.source();
    }
    None
}
