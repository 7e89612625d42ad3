//! A message in progress: the text that was shown of it, and how much of it the present run has repeated.

use sha2::{Digest, Sha256};
use singletree_harness::MessageId;

use super::mark::MessageStreamPosition;
use super::piece::{DisplayedMessageId, ProjectionPiece};

/// A message in progress.
#[derive(Debug)]
pub(crate) struct MessageProjection {
    showing: DisplayedMessageId,
    agent: Option<String>,
    begun: bool,
    /// The text that was shown under the present name, and its digest.
    shown: String,
    digest: Sha256,
    /// The position of an earlier stream in this message, until the present text was compared with it.
    before: Option<MessageStreamPosition>,
    /// The text of the present run while `before` is set.
    heard: String,
    /// The number of bytes of `shown` that the present run has produced, too.
    said: usize,
    /// The number of the present run, and the number of its next piece.
    run: u32,
    next: u64,
    /// Whether a piece is missing: then only the text so far, or the record, can go on.
    holed: bool,
    /// The text so far, while earlier messages are still to come.
    held: Option<String>,
}

impl MessageProjection {
    pub(crate) fn new(message: MessageId) -> Self {
        Self {
            showing: DisplayedMessageId { message, attempt: 1 },
            agent: None,
            begun: false,
            shown: String::new(),
            digest: Sha256::new(),
            before: None,
            heard: String::new(),
            said: 0,
            run: 0,
            next: 0,
            holed: false,
            held: None,
        }
    }

    /// Continues a message at the position of an earlier stream.
    pub(crate) fn resumed(mark: MessageStreamPosition) -> Option<Self> {
        let showing = mark.showing()?;
        let fresh = Self::new(showing.message.clone());
        Some(Self { showing, begun: true, before: Some(mark), ..fresh })
    }

    /// Returns the position, for a stream that continues this one; `None` as long as nothing was shown.
    pub(crate) fn mark(&self) -> Option<MessageStreamPosition> {
        match &self.before {
            Some(before) => Some(before.clone()),
            None => {
                self.begun.then(|| MessageStreamPosition::new(&self.showing, self.shown.len(), &self.digest))
            }
        }
    }

    pub(crate) fn id(&self) -> &MessageId {
        &self.showing.message
    }

    pub(crate) fn showing(&self) -> DisplayedMessageId {
        self.showing.clone()
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.begun
    }

    /// Sets the agent of the message, unless the message was begun.
    pub(crate) fn spoken_by(&mut self, agent: Option<&str>) {
        if !self.begun
            && let Some(agent) = agent
        {
            self.agent = Some(agent.to_owned());
        }
    }

    /// Takes the next piece of a run; `follows` says that no earlier message is still to come.
    pub(crate) fn delta(
        &mut self,
        (run, n): (u32, u64),
        text: &str,
        follows: bool,
        out: &mut Vec<ProjectionPiece>,
    ) {
        if run < self.run || (run == self.run && n > 0 && n < self.next) {
            return;
        }
        if run > self.run || n == 0 {
            // The run starts from the beginning.
            (self.run, self.next, self.holed, self.held) = (run, 0, false, None);
            self.again();
        }
        self.holed |= n != self.next;
        if self.holed {
            return;
        }
        self.next = n + 1;
        if !follows && !self.begun {
            self.held.get_or_insert_default().push_str(text);
            return;
        }
        self.release(out);
        self.say(text, out);
    }

    /// Takes the whole text so far of a run; `follows` as in `delta`.
    pub(crate) fn so_far(
        &mut self,
        (run, n): (u32, u64),
        text: &str,
        follows: bool,
        out: &mut Vec<ProjectionPiece>,
    ) {
        if run < self.run || (run == self.run && n < self.next && !self.holed) {
            return;
        }
        (self.run, self.next, self.holed) = (run, n + 1, false);
        self.again();
        self.held = Some(text.to_owned());
        if follows || self.begun {
            self.release(out);
        }
    }

    /// Shows the text that was held back.
    pub(crate) fn release(&mut self, out: &mut Vec<ProjectionPiece>) {
        if let Some(text) = self.held.take() {
            self.say(&text, out);
        }
    }

    /// Takes the recorded text and the agent of the message.
    pub(crate) fn record(&mut self, text: &str, agent: Option<&str>, out: &mut Vec<ProjectionPiece>) {
        self.held = None;
        self.again();
        self.spoken_by(agent);
        // If another stream has begun the message, that stream has shown the agent.
        let known = self.begun && self.before.is_none();
        let foreign = known && agent.is_some() && agent != self.agent.as_deref();
        if foreign {
            self.agent = agent.map(str::to_owned);
            self.show_instead(text.to_owned(), out);
            return;
        }
        self.begin(out);
        self.say(text, out);
        if self.before.is_some() || self.said < self.shown.len() {
            self.show_instead(text.to_owned(), out);
        }
    }

    /// Ends a message that is never recorded.
    pub(crate) fn abandon(self) -> Option<ProjectionPiece> {
        self.begun.then_some(ProjectionPiece::Retract { showing: self.showing })
    }

    fn begin(&mut self, out: &mut Vec<ProjectionPiece>) {
        if !self.begun {
            self.begun = true;
            out.push(ProjectionPiece::Begin { showing: self.showing(), agent: self.agent.clone() });
        }
    }

    /// Resets the comparison: the next text starts from the beginning.
    fn again(&mut self) {
        self.said = 0;
        self.heard.clear();
    }

    /// Shows the new part of the next text of the present run.
    fn say(&mut self, text: &str, out: &mut Vec<ProjectionPiece>) {
        let Some(before) = &self.before else { return self.say_more(text, out) };
        self.heard.push_str(text);
        if self.heard.len() < before.bytes() {
            return;
        }
        let heard = std::mem::take(&mut self.heard);
        match before.of(&heard) {
            Some(shown) => {
                self.before = None;
                self.remember(shown);
                self.said = 0;
                self.say_more(&heard, out);
            }
            None => self.show_instead(heard, out),
        }
    }

    fn remember(&mut self, text: &str) {
        self.digest.update(text);
        self.shown.push_str(text);
    }

    fn say_more(&mut self, text: &str, out: &mut Vec<ProjectionPiece>) {
        let known = &self.shown[self.said..];
        if let Some(new) = text.strip_prefix(known) {
            self.said = self.shown.len() + new.len();
            if !new.is_empty() {
                self.begin(out);
                self.remember(new);
                out.push(ProjectionPiece::Text { showing: self.showing(), delta: new.to_owned() });
            }
        } else if known.starts_with(text) {
            self.said += text.len();
        } else {
            let all = format!("{}{text}", &self.shown[..self.said]);
            self.show_instead(all, out);
        }
    }

    /// Retracts the shown text, and shows this text instead.
    fn show_instead(&mut self, text: String, out: &mut Vec<ProjectionPiece>) {
        out.push(ProjectionPiece::Retract { showing: self.showing() });
        self.showing.attempt = self.showing.attempt.saturating_add(1);
        (self.begun, self.before) = (false, None);
        self.begin(out);
        self.said = text.len();
        self.shown.clear();
        self.digest.reset();
        self.remember(&text);
        if !text.is_empty() {
            out.push(ProjectionPiece::Text { showing: self.showing(), delta: text });
        }
    }
}
