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
    pub(crate) fn resume_from_position(mark: MessageStreamPosition) -> Option<Self> {
        let showing = mark.parse_displayed_id()?;
        let fresh = Self::new(showing.message.clone());
        Some(Self { showing, begun: true, before: Some(mark), ..fresh })
    }

    /// Returns the position, for a stream that continues this one; `None` as long as nothing was shown.
    pub(crate) fn stream_position(&self) -> Option<MessageStreamPosition> {
        match &self.before {
            Some(before) => Some(before.clone()),
            None => {
                self.begun.then(|| MessageStreamPosition::new(&self.showing, self.shown.len(), &self.digest))
            }
        }
    }

    pub(crate) fn message_id(&self) -> &MessageId {
        &self.showing.message
    }

    pub(crate) fn displayed_message_id(&self) -> DisplayedMessageId {
        self.showing.clone()
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.begun
    }

    /// Sets the agent of the message, unless the message was begun.
    pub(crate) fn set_message_agent(&mut self, agent: Option<&str>) {
        if !self.begun
            && let Some(agent) = agent
        {
            self.agent = Some(agent.to_owned());
        }
    }

    /// Takes the next piece of a run; `follows` says that no earlier message is still to come.
    pub(crate) fn apply_delta(
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
            self.reset_comparison();
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
        self.release_held_text(out);
        self.show_new_part(text, out);
    }

    /// Takes the whole text so far of a run; `follows` as in `delta`.
    pub(crate) fn apply_text_so_far(
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
        self.reset_comparison();
        self.held = Some(text.to_owned());
        if follows || self.begun {
            self.release_held_text(out);
        }
    }

    /// Shows the text that was held back.
    pub(crate) fn release_held_text(&mut self, out: &mut Vec<ProjectionPiece>) {
        if let Some(text) = self.held.take() {
            self.show_new_part(&text, out);
        }
    }

    /// Takes the recorded text and the agent of the message.
    pub(crate) fn apply_recorded_text(
        &mut self,
        text: &str,
        agent: Option<&str>,
        out: &mut Vec<ProjectionPiece>,
    ) {
        self.held = None;
        self.reset_comparison();
        self.set_message_agent(agent);
        // If another stream has begun the message, that stream has shown the agent.
        let known = self.begun && self.before.is_none();
        let foreign = known && agent.is_some() && agent != self.agent.as_deref();
        if foreign {
            self.agent = agent.map(str::to_owned);
            self.replace_shown_text(text.to_owned(), out);
            return;
        }
        self.begin_showing(out);
        self.show_new_part(text, out);
        if self.before.is_some() || self.said < self.shown.len() {
            self.replace_shown_text(text.to_owned(), out);
        }
    }

    /// Ends a message that is never recorded.
    pub(crate) fn into_retraction(self) -> Option<ProjectionPiece> {
        self.begun.then_some(ProjectionPiece::Retract { showing: self.showing })
    }

    fn begin_showing(&mut self, out: &mut Vec<ProjectionPiece>) {
        if !self.begun {
            self.begun = true;
            out.push(ProjectionPiece::Begin {
                showing: self.displayed_message_id(),
                agent: self.agent.clone(),
            });
        }
    }

    /// Resets the comparison: the next text starts from the beginning.
    fn reset_comparison(&mut self) {
        self.said = 0;
        self.heard.clear();
    }

    /// Shows the new part of the next text of the present run.
    fn show_new_part(&mut self, text: &str, out: &mut Vec<ProjectionPiece>) {
        let Some(before) = &self.before else { return self.show_continuation(text, out) };
        self.heard.push_str(text);
        if self.heard.len() < before.shown_byte_count() {
            return;
        }
        let heard = std::mem::take(&mut self.heard);
        match before.matching_prefix(&heard) {
            Some(shown) => {
                self.before = None;
                self.append_shown_text(shown);
                self.said = 0;
                self.show_continuation(&heard, out);
            }
            None => self.replace_shown_text(heard, out),
        }
    }

    fn append_shown_text(&mut self, text: &str) {
        self.digest.update(text);
        self.shown.push_str(text);
    }

    fn show_continuation(&mut self, text: &str, out: &mut Vec<ProjectionPiece>) {
        let known = &self.shown[self.said..];
        if let Some(new) = text.strip_prefix(known) {
            self.said = self.shown.len() + new.len();
            if !new.is_empty() {
                self.begin_showing(out);
                self.append_shown_text(new);
                out.push(ProjectionPiece::Text {
                    showing: self.displayed_message_id(),
                    delta: new.to_owned(),
                });
            }
        } else if known.starts_with(text) {
            self.said += text.len();
        } else {
            let all = format!("{}{text}", &self.shown[..self.said]);
            self.replace_shown_text(all, out);
        }
    }

    /// Retracts the shown text, and shows this text instead.
    fn replace_shown_text(&mut self, text: String, out: &mut Vec<ProjectionPiece>) {
        out.push(ProjectionPiece::Retract { showing: self.displayed_message_id() });
        self.showing.attempt = self.showing.attempt.saturating_add(1);
        (self.begun, self.before) = (false, None);
        self.begin_showing(out);
        self.said = text.len();
        self.shown.clear();
        self.digest.reset();
        self.append_shown_text(&text);
        if !text.is_empty() {
            out.push(ProjectionPiece::Text { showing: self.displayed_message_id(), delta: text });
        }
    }
}
