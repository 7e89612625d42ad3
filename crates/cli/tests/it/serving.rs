//! A server: the binary, run as a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::home::{BINARY, Home, kill};

/// A server that runs.
pub(crate) struct Serving {
    /// The process, until it is stopped.
    child: Option<Child>,
    pub(crate) url: String,
}

impl Serving {
    /// Serves the demo.
    pub(crate) fn start(home: &Home, more: &[&str]) -> Self {
        Self::started(home.spawn(&[&["serve", "--listen", "127.0.0.1:0"], more].concat()))
    }

    /// Serves the agents of the home's own singletree.toml.
    pub(crate) fn start_in(home: &Home, more: &[&str]) -> Self {
        Self::start_program_in(BINARY, home, more)
    }

    /// As [`start_in`](Self::start_in), by another version of the binary.
    pub(crate) fn start_program_in(program: &str, home: &Home, more: &[&str]) -> Self {
        let mut command = home.command(program);
        command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]).args(more);
        Self::started(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Takes a server that was just started, whose standard output is a pipe.
    pub(crate) fn of(child: Child) -> Self {
        Self::started(child)
    }

    fn started(mut child: Child) -> Self {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("singletree listens at ").unwrap_or_else(|| panic!("{line:?}"));
        let url = url.to_owned();
        Self { child: Some(child), url }
    }

    /// Asks for a path, and returns the JSON of the answer; nothing where it has none.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        ask(&self.url, method, path, body)
    }

    /// As [`ask`](Self::ask), on behalf of a subject.
    pub(crate) fn ask_for(&self, subject: &str, path: &str, body: &Value) -> Value {
        ask_with(&self.url, "POST", path, (&format!("x-subject: {subject}\r\n"), body))
    }

    /// As [`ask`](Self::ask), with a key.
    pub(crate) fn ask_with_key(&self, key: &str, path: &str, body: &Value) -> Value {
        ask_with(&self.url, "POST", path, (&format!("authorization: Bearer {key}\r\n"), body))
    }

    pub(crate) fn stop(mut self) {
        if let Some(child) = self.child.take() {
            kill(child);
        }
    }
}

impl Serving {
    /// Lets the process stand still, or go on.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn terminate(mut self) {
        let Some(mut child) = self.child.take() else { return };
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

/// A test that fails leaves no server behind.
impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Asks a server for a path, and returns the JSON of the answer; nothing where it has none.
pub(crate) fn ask(url: &str, method: &str, path: &str, body: &Value) -> Value {
    ask_with(url, method, path, ("", body))
}

/// As [`ask`], with lines of headers.
pub(crate) fn ask_with(url: &str, method: &str, path: &str, (header, body): (&str, &Value)) -> Value {
    let answer = exchange(url, method, path, (header, body)).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(body).unwrap_or_else(|it| panic!("{it}: {answer}"))
}

/// As [`ask`], of a server that may be killed meanwhile: then there is no answer, or half of one, which counts as none.
pub(crate) fn try_ask(url: &str, method: &str, path: &str, body: &Value) -> Option<Value> {
    let answer = exchange(url, method, path, ("", body)).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

pub(crate) fn exchange(
    url: &str,
    method: &str,
    path: &str,
    (header, body): (&str, &Value),
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://"))?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n{header}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
