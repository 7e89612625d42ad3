//! Names to addresses.

use std::fmt;
use std::io;
use std::net::IpAddr;

use singletree_env::BoxFuture;

/// Finds the addresses of a name.
///
/// # Cancellation
///
/// Dropping the future gives up the question.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// Returns every address of a name, in the order of preference.
    ///
    /// # Errors
    ///
    /// When the name has no address, or nobody can be asked.
    fn resolve_addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve_addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name, 0)).await?.map(|lookup_host| lookup_host.ip()).collect())
        })
    }
}
