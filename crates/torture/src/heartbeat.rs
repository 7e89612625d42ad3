//! A sign of life: the child says every few seconds where it is, whatever its runtime does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::child::Say;
use crate::wire::ChildReport;

/// How often it is said.
const EVERY: Duration = Duration::from_secs(2);

/// The phase of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildPhase {
    /// The process has begun.
    Starting,
    /// It opens the store.
    Opening,
    /// It takes over the turns of dead processes.
    Sweeping,
    /// It serves.
    Serving,
    /// It lets running turns end, and closes the store.
    Ending,
}

impl ChildPhase {
    const ALL: [Self; 5] = [Self::Starting, Self::Opening, Self::Sweeping, Self::Serving, Self::Ending];

    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Opening => "opening",
            Self::Sweeping => "sweeping",
            Self::Serving => "serving",
            Self::Ending => "ending",
        }
    }
}

/// Reports the child's phase every two seconds, from a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    phase: Arc<AtomicU8>,
    /// Its end tells the thread to end.
    _running: Sender<()>,
}

impl Heartbeat {
    /// Starts the thread.
    ///
    /// # Errors
    /// Those of the system when it cannot start a thread.
    pub fn start_thread(say: Say) -> std::io::Result<Self> {
        let phase = Arc::new(AtomicU8::new(0));
        let (running, over) = channel::<()>();
        let shared = phase.clone();
        let thread = std::thread::Builder::new().name("heartbeat".to_owned());
        thread.spawn(move || {
            let mut beats = 0;
            while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                beats += 1;
                let at = usize::from(shared.load(Ordering::Relaxed));
                let phase = ChildPhase::ALL.get(at).copied().unwrap_or(ChildPhase::Starting);
                say(&ChildReport::Alive { phase, beats });
            }
        })?;
        Ok(Self { phase, _running: running })
    }

    /// Sets the child's phase.
    pub fn enter_phase(&self, phase: ChildPhase) {
        let at = ChildPhase::ALL.iter().position(|item| *item == phase).unwrap_or(0);
        self.phase.store(u8::try_from(at).unwrap_or(0), Ordering::Relaxed);
    }
}
