//! A message on its way: what was shown of it, and how far what comes now says the same.

use sha2::{Digest, Sha256};
use singletree_harness::MessageId;

use super::mark::Mark;
use super::piece::{Piece, Showing};

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Way {
    showing: Showing,
    agent: Option<String>,
    begun: bool,
    /// What was shown under the present name, and its digest.
    shown: String,
    digest: Sha256,
    /// What another stream has shown before this one, as long as it was not held against what is said.
    before: Option<Mark>,
    /// What the present run has said, as long as that is so.
    heard: String,
    /// How many bytes of that the present run has said, too.
    said: usize,
    /// Which run speaks, and the number of its next piece.
    run: u32,
    next: u64,
    /// Whether a piece is missing: then only the text so far, or the record, says more.
    holed: bool,
    /// The text so far, where messages before this one are still to come.
    held: Option<String>,
}

impl Way {
    pub(crate) fn new(message: MessageId) -> Self {
        Self {
            showing: Showing { message, attempt: 1 },
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

    /// Goes on where another stream has come to.
    pub(crate) fn resumed(mark: Mark) -> Option<Self> {
        let showing = mark.showing()?;
        let fresh = Self::new(showing.message.clone());
        Some(Self { showing, begun: true, before: Some(mark), ..fresh })
    }

    /// Tells how far it has come, for a stream that goes on; none as long as nothing was shown.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match &self.before {
            Some(before) => Some(before.clone()),
            None => self.begun.then(|| Mark::new(&self.showing, self.shown.len(), &self.digest)),
        }
    }

    pub(crate) fn id(&self) -> &MessageId {
        &self.showing.message
    }

    pub(crate) fn showing(&self) -> Showing {
        self.showing.clone()
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.begun
    }

    /// Notes whose it is, as long as nobody was told.
    pub(crate) fn spoken_by(&mut self, agent: Option<&str>) {
        if !self.begun
            && let Some(agent) = agent
        {
            self.agent = Some(agent.to_owned());
        }
    }

    /// Takes the next piece of a run; `follows` says that nothing before the message is still to come.
    pub(crate) fn delta(&mut self, (run, n): (u32, u64), text: &str, follows: bool, out: &mut Vec<Piece>) {
        if run < self.run || (run == self.run && n > 0 && n < self.next) {
            return;
        }
        if run > self.run || n == 0 {
            // It is said again from the beginning.
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

    /// Takes all that a run has said; `follows` as for a piece.
    pub(crate) fn so_far(&mut self, (run, n): (u32, u64), text: &str, follows: bool, out: &mut Vec<Piece>) {
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

    /// Shows what was held back.
    pub(crate) fn release(&mut self, out: &mut Vec<Piece>) {
        if let Some(text) = self.held.take() {
            self.say(&text, out);
        }
    }

    /// Takes the text as it is recorded, and whose it is.
    pub(crate) fn record(&mut self, text: &str, agent: Option<&str>, out: &mut Vec<Piece>) {
        self.held = None;
        self.again();
        self.spoken_by(agent);
        // Whose it is that another stream has begun, that one has told.
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

    /// Ends what is never recorded.
    pub(crate) fn abandon(self) -> Option<Piece> {
        self.begun.then_some(Piece::Retract { showing: self.showing })
    }

    fn begin(&mut self, out: &mut Vec<Piece>) {
        if !self.begun {
            self.begun = true;
            out.push(Piece::Begin { showing: self.showing(), agent: self.agent.clone() });
        }
    }

    /// What comes now is said from the beginning.
    fn again(&mut self) {
        self.said = 0;
        self.heard.clear();
    }

    /// Shows what is new of the next words of the present run.
    fn say(&mut self, text: &str, out: &mut Vec<Piece>) {
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

    fn say_more(&mut self, text: &str, out: &mut Vec<Piece>) {
        let known = &self.shown[self.said..];
        if let Some(new) = text.strip_prefix(known) {
            self.said = self.shown.len() + new.len();
            if !new.is_empty() {
                self.begin(out);
                self.remember(new);
                out.push(Piece::Text { showing: self.showing(), delta: new.to_owned() });
            }
        } else if known.starts_with(text) {
            self.said += text.len();
        } else {
            let all = format!("{}{text}", &self.shown[..self.said]);
            self.show_instead(all, out);
        }
    }

    /// What was shown is void: shows this in its place.
    fn show_instead(&mut self, text: String, out: &mut Vec<Piece>) {
        out.push(Piece::Retract { showing: self.showing() });
        self.showing.attempt = self.showing.attempt.saturating_add(1);
        (self.begun, self.before) = (false, None);
        self.begin(out);
        self.said = text.len();
        self.shown.clear();
        self.digest.reset();
        self.remember(&text);
        if !text.is_empty() {
            out.push(Piece::Text { showing: self.showing(), delta: text });
        }
    }
}
