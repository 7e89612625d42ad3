//! The child as the parent sees it: started, asked, heard, killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::wire::{ChildReport, ChildRequest};

/// A child that runs.
pub(crate) struct ChildHandle {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// A child with its lines.
pub(crate) struct ChildProcess {
    pub(crate) handle: ChildHandle,
    lines: Receiver<Result<ChildReport>>,
}

/// The result of waiting for a line.
pub(crate) enum ReceivedLine {
    Line(ChildReport),
    /// Nothing in time.
    Nothing,
    /// The child is gone.
    Closed,
}

fn process_error(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Child { doing, source }
}

impl ChildProcess {
    pub(crate) fn start(command: Command) -> Result<Self> {
        let (tell, lines) = channel();
        // A receiver that hears of the end by the channel needs no line about it.
        let handle =
            ChildHandle::start(command, move |line| line.is_none_or(|line| tell.send(line).is_ok()))?;
        Ok(Self { handle, lines })
    }

    /// Waits for the next line.
    pub(crate) fn receive_line(&self, within: Duration) -> Result<ReceivedLine> {
        match self.lines.recv_timeout(within) {
            Ok(line) => line.map(ReceivedLine::Line),
            Err(RecvTimeoutError::Timeout) => Ok(ReceivedLine::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(ReceivedLine::Closed),
        }
    }
}

impl ChildHandle {
    /// Starts the child. `hear` is called in a thread of its own with each line, and with none at the end, until it
    /// returns `false`.
    pub(crate) fn start(
        mut command: Command,
        hear: impl FnMut(Option<Result<ChildReport>>) -> bool + Send + 'static,
    ) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(process_error("start"))?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            let reader = std::thread::Builder::new().name("torture-reader".to_owned());
            reader.spawn(move || read_reports(stdout, hear)).map_err(process_error("read"))?;
        }
        Ok(Self { child, stdin })
    }

    /// Asks for something. A child that is gone hears nothing.
    pub(crate) fn send_request(&mut self, ask: &ChildRequest) -> Result<()> {
        let mut line = serde_json::to_string(ask).map_err(|error| process_error("ask")(error.into()))?;
        line.push('\n');
        if let Some(stdin) = &mut self.stdin
            && stdin.write_all(line.as_bytes()).is_err()
        {
            self.stdin = None;
        }
        Ok(())
    }

    /// Returns the system's data about the child: its state, and where each of its threads waits. For people.
    pub(crate) fn describe_state(&self) -> String {
        let folder = std::path::PathBuf::from("/proc").join(self.child.id().to_string());
        let Ok(threads) = std::fs::read_dir(folder.join("task")) else {
            return "nothing is known of its threads".to_owned();
        };
        let read =
            |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let one = |thread: std::path::PathBuf| {
            let status = read(thread.join("status"));
            let state =
                status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim();
            let (name, wait) = (read(thread.join("comm")), read(thread.join("wchan")));
            let call = read(thread.join("syscall"));
            format!("{name}: {state}, in {wait}, call {}", call.split(' ').next().unwrap_or_default())
        };
        let threads: Vec<String> = threads.flatten().map(|it| one(it.path())).collect();
        threads.join("; ")
    }

    /// Ends the child as a crash would (SIGKILL).
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().map_err(process_error("kill"))
    }

    /// Stops the child, or lets it go on (SIGSTOP, SIGCONT).
    pub(crate) fn set_paused(&mut self, is_paused: bool) -> Result<()> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        let sent = kill_process(Pid::from_child(&self.child), signal);
        sent.map_err(|error| process_error("stop or continue")(error.into()))
    }

    /// Asks no more: the child ends when everything is answered.
    pub(crate) fn close_requests(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the child, and says how it ended.
    pub(crate) fn wait_for_exit(&mut self) -> Result<std::process::ExitStatus> {
        self.stdin = None;
        self.child.wait().map_err(process_error("wait for"))
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        // Only when something went wrong it still runs; nobody would end it otherwise.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

fn read_reports(stdout: ChildStdout, mut hear: impl FnMut(Option<Result<ChildReport>>) -> bool) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut text = String::new();
        // A line without its end was cut by the kill: it was not said.
        if stdout.read_line(&mut text).is_err() || !text.ends_with('\n') {
            hear(None);
            return;
        }
        let line = serde_json::from_str(&text);
        let line = line.map_err(|source| Error::Line { line: text.trim_end().to_owned(), source });
        if !hear(Some(line)) {
            return;
        }
    }
}
