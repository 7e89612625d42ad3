//! A person at a terminal: reads until something is there, then types.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::home::{BINARY, Home};
use crate::screen::Screen;

/// How long nothing may happen before the test gives up.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The binary in a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: Screen,
    raw: Vec<u8>,
    /// How much of the screen's text was waited for.
    seen: usize,
}

impl Terminal {
    /// Starts the binary in a terminal of its own, so that Ctrl-C reaches it.
    pub(crate) fn start(home: &Home, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        // Wide, so that no line is broken.
        let size = Winsize { ws_row: 50, ws_col: 2000, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let mut command = home.command("setsid");
        command.args(["--ctty", BINARY]).args(args).env("TERM", "xterm").envs(environment.iter().copied());
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        drop(command);
        let keyboard = File::from(master);
        let (heard, output) = channel();
        let mut reader = keyboard.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails when nobody has the other end open any more.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if heard.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, output, screen: Screen::default(), raw: Vec::new(), seen: 0 }
    }

    /// Waits until this text stands on the screen, after the texts that were waited for before.
    pub(crate) fn wait_for(&mut self, text: &str) {
        loop {
            let shown = self.screen.text();
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            match self.output.recv_timeout(SILENCE_MAX) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("'{text}' is not there, but: {}", &shown[self.seen..])
                }
            }
        }
    }

    /// Types at a prompt, once it stands there.
    pub(crate) fn say(&mut self, prompt: &str, line: &str) {
        self.wait_for(prompt);
        self.press(&format!("{line}\r"));
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Kills the process, and returns the screen up to the last text that was waited for.
    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.screen.text()[..self.seen].to_owned()
    }

    /// Waits until the process ends, and returns the text on the screen, the whole output, and how it ended.
    pub(crate) fn end(mut self) -> (String, String, ExitStatus) {
        loop {
            match self.output.recv_timeout(SILENCE_MAX) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {}", self.screen.text()),
            }
        }
        let status = self.child.wait().unwrap();
        (self.screen.text(), String::from_utf8(self.raw).unwrap(), status)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        self.screen.write(bytes);
    }
}
