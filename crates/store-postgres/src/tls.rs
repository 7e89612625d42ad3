//! Encrypted connections to the database, by the same library as those of HTTP. There is no channel binding.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use singletree_durable::{BoxError, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use crate::error::unavailable_error;

/// Encrypts connections; the system's trust decides about certificates.
#[derive(Clone)]
pub(crate) struct Encryption(TlsConnector);

impl Encryption {
    pub(crate) fn from_system_trust() -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(|error| unavailable_error("prepare its encryption", error))?;
        Ok(Self(TlsConnector::from(Arc::new(config.with_no_client_auth()))))
    }
}

/// Encrypts a connection to one server.
pub(crate) struct ServerEncryption {
    connector: TlsConnector,
    /// None where the server has no name that a certificate could state, as at a socket in the file system.
    server: Option<ServerName<'static>>,
}

type Handshake<S> = Pin<Box<dyn Future<Output = std::result::Result<EncryptedStream<S>, BoxError>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Encryption {
    type Stream = EncryptedStream<S>;
    type TlsConnect = ServerEncryption;
    type Error = std::convert::Infallible;

    fn make_tls_connect(&mut self, server: &str) -> std::result::Result<ServerEncryption, Self::Error> {
        let server = ServerName::try_from(server).ok().map(|name| name.to_owned());
        Ok(ServerEncryption { connector: self.0.clone(), server })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ServerEncryption {
    type Stream = EncryptedStream<S>;
    type Error = BoxError;
    type Future = Handshake<S>;

    fn connect(self, stream: S) -> Handshake<S> {
        Box::pin(async move {
            let unnamed = || Error::new(ErrorKind::InvalidInput, "the server has no name to be verified");
            let server = self.server.ok_or_else(unnamed)?;
            Ok(EncryptedStream(Box::new(self.connector.connect(server, stream).await?)))
        })
    }
}

/// An encrypted connection.
pub(crate) struct EncryptedStream<S>(Box<RustlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
