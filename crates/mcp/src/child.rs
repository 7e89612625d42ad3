//! A server that is a program: starting it, carrying its messages, and ending it.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::limits::McpLimits;
use crate::link::{ConnectionEnd, ConnectionLink};
use crate::place::McpCommand;

/// How long the last words of a program that ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The standard input and output of a program as an MCP transport.
///
/// Closing shuts the program's input, waits, asks it to stop, waits, and kills it, with all processes of its process
/// group. Dropping kills it at once.
pub(crate) struct ChildTransport {
    messages: AsyncRwTransport<RoleClient, LineLimit<ChildStdout>, ChildStdin>,
    child: Child,
    listener: Option<JoinHandle<()>>,
    link: Arc<ConnectionLink>,
    stop: Duration,
}

impl ChildTransport {
    /// Starts the program.
    #[expect(
        clippy::disallowed_methods,
        reason = "time limits and tasks of a connection to a child process or a server"
    )]
    pub(crate) fn start_program(
        command: &McpCommand,
        limits: &McpLimits,
        link: &Arc<ConnectionLink>,
    ) -> io::Result<Self> {
        let mut child = build_command(command).spawn()?;
        link.record_process_id(child.id());
        let (Some(input), Some(output), Some(error)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the program has no pipes"));
        };
        let output =
            LineLimit { inner: output, link: Arc::clone(link), line: 0, limit: limits.message_bytes };
        // The limit is that of our reader, which says so; the transport's own would drop the message in silence.
        let messages = AsyncRwTransport::new(output, input).with_max_line_length(usize::MAX);
        let listener = Some(tokio::spawn(capture_stderr(error, Arc::clone(link))));
        Ok(Self { messages, child, listener, link: Arc::clone(link), stop: limits.stop })
    }

    /// Takes down how the program ended, and its last words.
    async fn record_exit(&mut self) {
        let status = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        let end = match status {
            Ok(Ok(status)) => format!("the program ended ({status})"),
            Ok(Err(_)) | Err(_) => "the program closed its output".to_owned(),
        };
        self.link.record_end(ConnectionEnd::Gone(end));
        if let Some(listener) = &mut self.listener
            && tokio::time::timeout(LAST_WORDS, listener).await.is_ok()
        {
            self.listener = None;
        }
    }

    async fn has_exited_within(&mut self, span: Duration) -> bool {
        tokio::time::timeout(span, self.child.wait()).await.is_ok()
    }

    /// Signals the program and all that it started. False when it has ended.
    #[cfg(unix)]
    fn signal_process_group(&self, signal: rustix::process::Signal) -> bool {
        // While it is not waited for, its number belongs to nobody else.
        let number = self.child.id().and_then(|id| i32::try_from(id).ok());
        let group = number.and_then(rustix::process::Pid::from_raw);
        group.is_some_and(|group| rustix::process::kill_process_group(group, signal).is_ok())
    }

    #[cfg(unix)]
    async fn ask_to_stop(&mut self) -> bool {
        self.signal_process_group(rustix::process::Signal::TERM) && self.has_exited_within(self.stop).await
    }

    #[cfg(not(unix))]
    async fn ask_to_stop(&mut self) -> bool {
        false
    }

    fn kill_program(&mut self) {
        #[cfg(unix)]
        self.signal_process_group(rustix::process::Signal::KILL);
        // It has ended already, or ends now: nothing is left to do either way.
        drop(self.child.start_kill());
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = self.messages.send(item);
        async move {
            match sent.await {
                // The program is gone. The end of its output comes too, and there is known how it ended.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.messages.receive().await;
        if message.is_none() {
            self.link.mark_closed();
            if self.link.recorded_end().is_some() {
                // It says too much: it may be stuck with the rest for ever.
                self.kill_program();
            }
            self.record_exit().await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.link.mark_closed();
        self.messages.close().await?;
        if !self.has_exited_within(self.stop).await && !self.ask_to_stop().await {
            self.kill_program();
            self.child.wait().await?;
        }
        Ok(())
    }
}

impl Drop for ChildTransport {
    fn drop(&mut self) {
        self.link.mark_closed();
        self.kill_program();
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
    }
}

fn build_command(command: &McpCommand) -> Command {
    let mut prepared = Command::new(&command.program);
    prepared
        .args(&command.arguments)
        .env_clear()
        .envs(command.plain.iter().map(|(name, value)| (name, value)))
        .envs(command.secret.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(folder) = &command.folder {
        prepared.current_dir(folder);
    }
    // Its own group: the processes that it starts are ended with it, and a Ctrl-C at the terminal is for us to handle.
    #[cfg(unix)]
    prepared.process_group(0);
    prepared
}

/// Reads a program's standard error, so that it never blocks on it, and keeps the end.
async fn capture_stderr(mut error: ChildStderr, link: Arc<ConnectionLink>) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = error.read(&mut bytes).await {
        link.record_stderr(&bytes[..read]);
    }
}

/// A reader that ends when a line is too long.
struct LineLimit<R> {
    inner: R,
    link: Arc<ConnectionLink>,
    line: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for LineLimit<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        for part in buffer.filled()[before..].split_inclusive(|filled| *filled == b'\n') {
            this.line += part.len();
            if this.line > this.limit {
                this.link.record_end(ConnectionEnd::TooLarge(this.limit));
                return Poll::Ready(Err(io::Error::other("a message is larger than it may be")));
            }
            if part.ends_with(b"\n") {
                this.line = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}
