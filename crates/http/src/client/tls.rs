//! TLS without anything global.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::{Error, Result};

/// Makes the configuration: ring, given explicitly, and the roots of the system. Where the system has none, a
/// configuration that trusts nobody, and why: plain HTTP to a server on this machine needs no roots.
pub(super) fn build_client_config() -> Result<(ClientConfig, Option<String>)> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Request { problem: format!("TLS cannot be configured: {error}") })
    };
    match builder()?.with_platform_verifier() {
        Ok(verified) => Ok((verified.with_no_client_auth(), None)),
        Err(error) => {
            let trusting_nobody =
                builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
            Ok((trusting_nobody, Some(format!("the system trusts no certificate authority: {error}"))))
        }
    }
}
