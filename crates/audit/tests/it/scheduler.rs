//! A seeded scheduler of the next step.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::sync::{Notify, oneshot};

use crate::rig::Dice;

/// How often everything that can run is let run before the next choice.
const SETTLE: usize = 64;

/// For how many choices one side may be held back.
const HELD: usize = 24;

/// A seeded scheduler: each task asks at a gate before its next step, and one task at a time is let through.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Notified when the operation of a task at a gate is ready.
    ready: Notify,
}

#[derive(Debug)]
struct State {
    engaged: bool,
    dice: Dice,
    next: u64,
    /// Who asked, in the order of asking.
    waiting: Vec<Waiting>,
    /// Who is held back, and for how many choices.
    held: (&'static str, usize),
    trace: Vec<String>,
}

#[derive(Debug)]
struct Waiting {
    no: u64,
    name: String,
    /// Whether it could go on: its answer has come from the store's thread.
    ready: bool,
    go: oneshot::Sender<()>,
}

/// A place at the gate; leaving it without being let through gives it up.
#[derive(Debug)]
pub(crate) struct Place {
    scheduler: Scheduler,
    no: u64,
    go: oneshot::Receiver<()>,
}

impl Scheduler {
    pub(crate) fn new(seed: u64) -> Self {
        let (waiting, trace) = (Vec::new(), Vec::new());
        let state = State { engaged: false, dice: Dice::new(seed), next: 0, waiting, held: ("", 0), trace };
        Self(Arc::new(Inner { state: Mutex::new(state), ready: Notify::new() }))
    }

    /// Shuts the gates; one of the two, by seed, is held back for some choices, by seed.
    pub(crate) fn engage(&self, two: [&'static str; 2]) {
        let mut state = self.0.state.lock().unwrap();
        state.engaged = true;
        // Mostly a few: the closer they meet, the more there is to choose.
        let most = 1 + state.dice.below(HELD);
        state.held = (two[state.dice.below(2)], state.dice.below(most));
    }

    /// Opens the gates for good; returns who was let through.
    pub(crate) fn disengage(&self) -> Vec<String> {
        let mut state = self.0.state.lock().unwrap();
        state.engaged = false;
        for waiting in state.waiting.drain(..) {
            waiting.go.send(()).unwrap_or_default();
        }
        state.trace.clone()
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.0.state.lock().unwrap().trace.clone()
    }

    /// Asks at the gate; none while the gates are open.
    pub(crate) fn ask(&self, name: &str, ready: bool) -> Option<Place> {
        let mut state = self.0.state.lock().unwrap();
        if !state.engaged {
            return None;
        }
        let no = state.next;
        state.next += 1;
        let (go, through) = oneshot::channel();
        state.waiting.push(Waiting { no, name: name.to_owned(), ready, go });
        Some(Place { scheduler: self.clone(), no, go: through })
    }

    /// Lets one after the other through, until it is over.
    pub(crate) async fn drive(&self, is_over: impl Fn() -> bool) {
        loop {
            for _ in 0..SETTLE {
                tokio::task::yield_now().await;
            }
            if is_over() {
                return;
            }
            let all_ready = self.0.state.lock().unwrap().waiting.iter().all(|it| it.ready);
            if all_ready {
                self.let_through();
            } else {
                self.0.ready.notified().await;
            }
        }
    }

    fn let_through(&self) {
        let mut state = self.0.state.lock().unwrap();
        // By name first: who is woken first of two that wait for the same thing is the runtime's own dice.
        state.waiting.sort_by(|a, b| (&a.name, a.no).cmp(&(&b.name, b.no)));
        let (held, left) = state.held;
        let may = |it: &Waiting| left == 0 || it.name != held;
        let mut free: Vec<usize> =
            state.waiting.iter().enumerate().filter(|(_, it)| may(it)).map(|(at, _)| at).collect();
        if free.is_empty() {
            free = (0..state.waiting.len()).collect();
        }
        if free.is_empty() {
            return;
        }
        let at = free[state.dice.below(free.len())];
        state.held.1 = left.saturating_sub(1);
        let chosen = state.waiting.remove(at);
        state.trace.push(chosen.name);
        // Who asked may have gone.
        chosen.go.send(()).unwrap_or_default();
    }
}

impl Place {
    /// Returns a function that marks the awaited operation as ready.
    pub(crate) fn come(&self) -> impl FnOnce() + Send + use<> {
        let (inner, no) = (self.scheduler.0.clone(), self.no);
        move || {
            let mut state = inner.state.lock().unwrap();
            if let Some(waiting) = state.waiting.iter_mut().find(|it| it.no == no) {
                waiting.ready = true;
            }
            drop(state);
            inner.ready.notify_one();
        }
    }

    /// Waits to be let through.
    pub(crate) async fn through(mut self) {
        drop((&mut self.go).await);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.scheduler.0.state.lock().unwrap();
        state.waiting.retain(|it| it.no != self.no);
        drop(state);
        self.scheduler.0.ready.notify_one();
    }
}

/// A future of which each step waits at the gate.
pub(crate) struct Stepwise<F> {
    scheduler: Scheduler,
    name: &'static str,
    place: Option<Place>,
    inner: Pin<Box<F>>,
}

impl<F: Future> Stepwise<F> {
    pub(crate) fn new(scheduler: &Scheduler, name: &'static str, inner: F) -> Self {
        let place = scheduler.ask(name, true);
        Self { scheduler: scheduler.clone(), name, place, inner: Box::pin(inner) }
    }
}

impl<F: Future> Future for Stepwise<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.place.is_none() {
            this.place = this.scheduler.ask(this.name, true);
        }
        if let Some(place) = &mut this.place
            && Pin::new(&mut place.go).poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        this.place = None;
        this.inner.as_mut().poll(cx)
    }
}
