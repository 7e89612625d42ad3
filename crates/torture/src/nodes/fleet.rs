//! The processes of the nodes, each behind a proxy of its own.

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::aim::WorkInProgress;
use crate::error::{Error, Result};
use crate::process::ChildHandle;
use crate::proxy::{CuttingProxy, DatabaseAddress};
use crate::wire::{ChildReport, ChildRequest, CommitSide};

/// Starts a node: its number, and the port of this machine at which it finds the database.
pub(super) type StartNode<'a> = dyn Fn(usize, u16) -> Command + 'a;

/// A line of a process, or its end.
struct HeardLine {
    node: usize,
    /// Which of the node's processes, counted from 0.
    process: u64,
    line: Option<Result<ChildReport>>,
}

/// What was heard of a node.
pub(super) enum Heard {
    Line(usize, ChildReport),
    /// The process of a node has ended, and everything that it said was heard.
    Ended(usize),
    Nothing,
}

/// One node.
pub(super) struct Node {
    pub(super) proxy: CuttingProxy,
    pub(super) handle: ChildHandle,
    process: u64,
    pub(super) is_ready: bool,
    /// Whether its process was killed or asked to end.
    pub(super) may_end: bool,
    /// Until when it stands still, in milliseconds.
    pub(super) paused_until: Option<i64>,
    /// The work under way in its process.
    pub(super) work: WorkInProgress,
}

impl Node {
    /// Checks whether it answers soon.
    pub(super) fn answers(&self) -> bool {
        self.is_ready && self.paused_until.is_none()
    }
}

/// All nodes.
pub(super) struct Fleet<'a> {
    start: &'a StartNode<'a>,
    pub(super) nodes: Vec<Node>,
    tell: Sender<HeardLine>,
    heard: Receiver<HeardLine>,
}

impl<'a> Fleet<'a> {
    /// Starts the nodes.
    pub(super) fn start(count: usize, database: &DatabaseAddress, start: &'a StartNode<'a>) -> Result<Self> {
        let (tell, heard) = channel();
        let mut fleet = Self { start, nodes: Vec::new(), tell, heard };
        for node in 0..count {
            let proxy = CuttingProxy::start(database.clone())?;
            let handle = fleet.spawn(node, 0, proxy.port())?;
            let work = WorkInProgress::default();
            let (is_ready, may_end, paused_until) = (false, false, None);
            fleet.nodes.push(Node { proxy, handle, process: 0, is_ready, may_end, paused_until, work });
        }
        Ok(fleet)
    }

    fn spawn(&self, node: usize, process: u64, port: u16) -> Result<ChildHandle> {
        let tell = self.tell.clone();
        ChildHandle::start((self.start)(node, port), move |line| {
            tell.send(HeardLine { node, process, line }).is_ok()
        })
    }

    pub(super) fn node(&mut self, node: usize) -> &mut Node {
        self.nodes.get_mut(node).expect("nodes are named by their index")
    }

    /// Waits for the next line of any node.
    pub(super) fn receive(&mut self, within: Duration) -> Result<Heard> {
        match self.heard.recv_timeout(within) {
            // The end of a process that was replaced before is no news.
            Ok(heard) if self.node(heard.node).process != heard.process => Ok(Heard::Nothing),
            Ok(HeardLine { node, line: Some(line), .. }) => {
                let line = line?;
                if let ChildReport::Commit { session, at: CommitSide::End, .. } = &line {
                    let others = self.nodes.iter_mut().enumerate().filter(|(at, _)| *at != node);
                    others.for_each(|(_, other)| other.work.forget_session(session));
                }
                let it = self.node(node);
                it.work.note_report(&line);
                it.is_ready |= matches!(line, ChildReport::Ready { .. });
                Ok(Heard::Line(node, line))
            }
            Ok(HeardLine { node, line: None, .. }) => Ok(Heard::Ended(node)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(Heard::Nothing),
        }
    }

    /// Starts the process of a node again, after its end.
    pub(super) fn start_again(&mut self, node: usize) -> Result<()> {
        self.node(node).handle.wait_for_exit()?;
        let (process, port) = (self.node(node).process + 1, self.node(node).proxy.port());
        let handle = self.spawn(node, process, port)?;
        let it = self.node(node);
        (it.handle, it.process, it.paused_until) = (handle, process, None);
        (it.is_ready, it.may_end) = (false, false);
        it.work = WorkInProgress::default();
        Ok(())
    }

    /// Stops a node until a time.
    pub(super) fn pause(&mut self, node: usize, until: i64) -> Result<()> {
        let it = self.node(node);
        it.paused_until = Some(until);
        it.handle.set_paused(true)
    }

    /// Lets the nodes go on whose time has come.
    pub(super) fn resume_due(&mut self, now: i64) -> Result<()> {
        for node in &mut self.nodes {
            if node.paused_until.is_some_and(|until| until <= now) {
                node.paused_until = None;
                node.handle.set_paused(false)?;
            }
        }
        Ok(())
    }

    pub(super) fn send_request(&mut self, node: usize, request: &ChildRequest) -> Result<()> {
        self.node(node).handle.send_request(request)
    }

    /// Returns the nodes that answer soon.
    pub(super) fn answering_nodes(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.answers()).map(|(at, _)| at).collect()
    }

    /// Describes a node that does not go on, for people.
    pub(super) fn silent_error(&mut self, node: usize, within: Duration) -> Error {
        let state = self.node(node).handle.describe_state();
        Error::Silent { seconds: within.as_secs(), phase: format!("node {node}"), state }
    }

    /// Describes a process that has ended, and nobody had killed it.
    pub(super) fn ended_error(&mut self, node: usize) -> Error {
        match self.node(node).handle.wait_for_exit() {
            Ok(status) => Error::Ended { status: format!("node {node}: {status}") },
            Err(error) => error,
        }
    }

    /// Waits for a process that was asked to end, and fails if it did not end well.
    pub(super) fn finish(&mut self, node: usize) -> Result<()> {
        let status = self.node(node).handle.wait_for_exit()?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::Ended { status: format!("node {node}: {status}") }),
        }
    }
}
