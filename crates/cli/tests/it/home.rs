//! A fresh data folder, and the binary run in it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_singletree");

/// A user's home with nothing in it.
pub(crate) struct Home(tempfile::TempDir);

/// The exit code and the output of a run of the binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the binary keeps its things when nobody says otherwise.
    pub(crate) fn folder(&self) -> PathBuf {
        self.path().join("singletree")
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.folder().join("singletree.db")
    }

    /// Returns the messages in the outbox, as the agent sent them.
    pub(crate) fn outbox(&self) -> Vec<Value> {
        let (code, listed) = self.json(&["outbox", "list"]);
        assert_eq!(code, 0, "{listed}");
        let sent = |message: &Value| {
            let mut message = message.as_object().unwrap().clone();
            message.retain(|key, _| matches!(key.as_str(), "to" | "subject" | "body"));
            Value::Object(message)
        };
        listed["messages"].as_array().unwrap().iter().map(sent).collect()
    }

    /// Prepares a program with no environment but this home.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.path()).env("XDG_DATA_HOME", self.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Runs the binary to its end, without input.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.feed(args, "")
    }

    /// Runs the binary to its end, with this input.
    pub(crate) fn feed(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.spawn(args);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the binary to its end and reads the one JSON document that it prints.
    pub(crate) fn json(&self, args: &[&str]) -> (i32, Value) {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.err, "", "{args:?}");
        (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|it| panic!("{it}: {}", ran.out)))
    }

    /// Starts the binary, everything piped.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(BINARY);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts a chat that waits for input, and so holds the database.
    pub(crate) fn hold(&self) -> Child {
        let mut child = self.spawn(&["chat"]);
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("session:") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "it ended before it began");
        }
        child
    }
}

/// Ends a process as a power cut would.
pub(crate) fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
