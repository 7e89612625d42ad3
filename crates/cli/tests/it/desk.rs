//! A folder of a person who has agents in a file, and a key.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::home::{BINARY, Home, Ran};

/// The key. No output may hold it.
pub(crate) const KEY: &str = "canary-key-4711";

/// A home in which the binary runs, with a key in its environment.
pub(crate) struct Desk {
    pub(crate) home: Home,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { home: Home::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the binary to its end, and looks whether it told the key.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.home.command(BINARY);
        command.args(args).current_dir(self.home.path()).env("OPENAI_API_KEY", KEY);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran =
            Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.out.contains(KEY) && !ran.err.contains(KEY), "{args:?}: {ran:?}");
        ran
    }

    /// Runs the binary to its end and reads the one JSON document that it prints.
    pub(crate) fn json(&self, args: &[&str]) -> (i32, Value) {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.err, "", "{args:?}");
        (ran.code, serde_json::from_str(&ran.out).unwrap())
    }
}
