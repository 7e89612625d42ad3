//! Where a server is: a program to start, or an address.

use std::fmt;
use std::path::PathBuf;

use singletree_http::{HttpClient, Secret};

/// A server that is a program: it is started, and spoken to on its standard input and output.
///
/// It gets the variables that are given here and no other, so that it never sees the keys of the harness. Nothing is
/// inherited, so give `PATH` (the program is looked up there) and `HOME` if it needs them, as most do.
///
/// `Debug` shows no value of a variable.
#[derive(Clone)]
pub struct McpCommand {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) plain: Vec<(String, String)>,
    pub(crate) secret: Vec<(String, Secret)>,
}

impl McpCommand {
    /// Names a program and its arguments. No shell reads them.
    #[must_use]
    pub fn new<A: Into<String>>(program: impl Into<String>, arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, folder: None, plain: Vec::new(), secret: Vec::new() }
    }

    /// Gives the program a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.plain.push((name.into(), value.into()));
        self
    }

    /// Gives the program a variable whose value is never shown, also not where the program prints it.
    #[must_use]
    pub fn secret_env(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.secret.push((name.into(), value));
        self
    }

    /// Sets the folder in which the program starts; that of this process otherwise.
    #[must_use]
    pub fn working_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

impl fmt::Debug for McpCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.plain.iter().map(|(name, _)| name);
        let names: Vec<&String> = plain.chain(self.secret.iter().map(|(name, _)| name)).collect();
        f.debug_struct("McpCommand")
            .field("program", &self.program)
            .field("arguments", &self.arguments.len())
            .field("env", &names)
            .finish_non_exhaustive()
    }
}

/// A server that is elsewhere: spoken to by streamable HTTP.
///
/// `Debug` shows neither the address, which may hold a key, nor values of headers.
#[derive(Clone)]
pub struct McpEndpoint {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) client: reqwest::Client,
}

impl McpEndpoint {
    /// Names an address, `http` or `https`, and the client for it. Redirects are not followed: they would receive the
    /// headers.
    #[must_use]
    pub fn new(url: impl Into<String>, client: &HttpClient) -> Self {
        Self { url: url.into(), headers: Vec::new(), client: client.reqwest_client() }
    }

    /// Sends a header with every request, as `authorization` with `Bearer KEY`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.headers.push((name.into(), value));
        self
    }
}

impl fmt::Debug for McpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("McpEndpoint").field("headers", &names).finish_non_exhaustive()
    }
}

/// Where a server is.
#[derive(Debug, Clone)]
pub(crate) enum McpServerLocation {
    Command(McpCommand),
    Endpoint(McpEndpoint),
}

impl McpServerLocation {
    /// Returns the secrets of this place, which must not be shown.
    pub(crate) fn collect_secrets(&self) -> Vec<Secret> {
        match self {
            Self::Command(it) => it.secret.iter().map(|(_, value)| value.clone()).collect(),
            Self::Endpoint(it) => {
                let headers = it.headers.iter().map(|(_, value)| value.clone());
                // Addresses may contain keys too, and the HTTP client shows addresses in its errors.
                let url = reqwest::Url::parse(&it.url).ok();
                let query = url.as_ref().and_then(|url| url.query()).map(Secret::new);
                let password = url.as_ref().and_then(|url| url.password()).map(Secret::new);
                headers.chain(query).chain(password).collect()
            }
        }
    }
}
