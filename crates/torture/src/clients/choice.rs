//! The choice of a client's next call, when the last answer does not determine it.

use serde_json::json;
use singletree_audit::ClientOperation;

use super::{ClientChoice, DELETED, LoadClients, OpenClientCall};
use crate::phase::BatchPurpose;

/// How many forks there are at most.
const FORKS: u64 = 60;

impl LoadClients {
    pub(super) fn choose_call(&mut self, at: usize, wanted: Option<BatchPurpose>, now: i64) -> ClientChoice {
        if self.is_deleting()
            && self.dice.draw_percent(60)
            && let Some((session, turn)) = self.other_clients_turn(at, |it| it.session == DELETED)
        {
            self.mix.cancels_beside_deletions += 1;
            return ClientChoice::Do { session, deed: ClientOperation::Cancel { turn }, to: None };
        }
        let cancels = if wanted == Some(BatchPurpose::Cancel) { 40 } else { 8 };
        if self.dice.draw_percent(cancels)
            && let Some((session, turn)) = self.other_clients_turn(at, |_| true)
        {
            return ClientChoice::Do { session, deed: ClientOperation::Cancel { turn }, to: None };
        }
        if self.dice.draw_percent(5) && !self.keyed.is_empty() {
            let past = self.dice.draw_index(self.keyed.len());
            if let Some((session, text, key)) = self.keyed.get(past).cloned() {
                return ClientChoice::Do {
                    session,
                    deed: ClientOperation::Send { text, key: Some(key) },
                    to: None,
                };
            }
        }
        if self.dice.draw_percent(30)
            && let Some(answer) = self.answer_again()
        {
            return answer;
        }
        let session = self.draw_session(now);
        if session == DELETED && self.dice.draw_percent(25) {
            return ClientChoice::Do { session, deed: ClientOperation::Delete, to: None };
        }
        let (session, text) = self.draw_message(at, session, wanted);
        if self.dice.draw_percent(3) && session.starts_with('s') {
            return self.draw_fork_call(session, text);
        }
        let key = self.dice.draw_percent(70).then(|| format!("key of {text}"));
        ClientChoice::Do { session, deed: ClientOperation::Send { text, key }, to: None }
    }

    /// Draws a session; seldom one that is known to wait, in which nothing would run.
    fn draw_session(&mut self, now: i64) -> String {
        if self.dice.draw_percent(10) {
            return DELETED.to_owned();
        }
        for _ in 0..8 {
            let session =
                self.sessions.get(self.dice.draw_index(self.sessions.len())).cloned().unwrap_or_default();
            let waits = self.waiting.contains_key(&session)
                || self.blocked.get(&session).is_some_and(|until| *until > now);
            if !waits || self.dice.draw_percent(4) {
                return session;
            }
        }
        self.sessions.first().cloned().unwrap_or_default()
    }

    /// Draws a message, and the session to send it to.
    fn draw_message(&mut self, at: usize, session: String, wanted: Option<BatchPurpose>) -> (String, String) {
        let word = match (session.chars().next(), wanted, self.dice.draw_below(100)) {
            (Some('o'), Some(BatchPurpose::Suspend | BatchPurpose::Resume), 0..60)
            | (Some('o'), _, 0..30) => "later",
            (Some('o'), ..) => "note",
            (Some('d'), _, 0..50) => "slow",
            (_, Some(BatchPurpose::Suspend | BatchPurpose::Resume), 0..40) | (_, _, 0..6) => "risky",
            (_, Some(BatchPurpose::Cancel), 20..80) | (_, _, 6..20) => "slow",
            (_, _, 20..50) => "effect",
            (_, _, 50..60) => "pair",
            (_, _, 60..70) => "look",
            (_, _, 70..82) => "aside",
            _ => "plain",
        };
        // A steering message goes to a session in which a turn runs.
        let running = match word {
            "aside" => self.other_clients_turn(at, |it| !it.session.starts_with('o')),
            _ => None,
        };
        let session = running.map_or(session, |(running, _)| running);
        let text = format!("{word} c{at}-{}", self.sent);
        self.sent += 1;
        (session, text)
    }

    fn draw_fork_call(&mut self, from: String, text: String) -> ClientChoice {
        let to = format!("f{}", self.dice.draw_below(FORKS));
        let edits = self.dice.draw_percent(60).then(|| self.dice.draw_below(1_000));
        self.mix.edits += u64::from(edits.is_some());
        self.mix.forks += u64::from(edits.is_none());
        self.forks.insert(to.clone());
        ClientChoice::Branch { from, to, text, edits }
    }

    /// Answers a session that is known to wait, whoever was told of it first.
    fn answer_again(&mut self) -> Option<ClientChoice> {
        let at = self.dice.draw_index(self.waiting.len());
        let (session, awaited) = self.waiting.iter().nth(at).map(|(name, it)| (name.clone(), it.clone()))?;
        let payload = json!({ "approved": self.dice.draw_percent(75) });
        let deed = ClientOperation::Answer { signal: awaited.signal, payload };
        // This wait may have ended long ago. A later call that is refused because of the wait adds it again.
        if self.dice.draw_percent(50) {
            self.waiting.remove(&session);
        }
        Some(ClientChoice::Do { session, deed, to: awaited.to })
    }

    /// Tells whether a deletion is under way.
    fn is_deleting(&self) -> bool {
        self.clients
            .iter()
            .any(|client| client.open.as_ref().is_some_and(|open| open.deed == ClientOperation::Delete))
    }

    /// Draws after how many polls the client of a call goes away, if it does.
    pub(super) fn draw_disconnect(&mut self, session: &str, deed: &ClientOperation) -> Option<u32> {
        let often = match deed {
            ClientOperation::Delete => 25,
            ClientOperation::Cancel { .. } if session == DELETED => 25,
            ClientOperation::Cancel { .. } => 8,
            ClientOperation::Send { .. } | ClientOperation::Answer { .. } => 3,
        };
        let goes = self.dice.draw_percent(often);
        self.mix.disconnects += u64::from(goes);
        goes.then(|| u32::try_from(self.dice.draw_below(5)).unwrap_or(0) + 1)
    }

    /// Returns a turn that another client waits for.
    fn other_clients_turn(
        &mut self,
        not: usize,
        of: impl Fn(&OpenClientCall) -> bool,
    ) -> Option<(String, String)> {
        let others = self.clients.iter().enumerate().filter(|(at, _)| *at != not);
        let open = others.filter_map(|(_, it)| it.open.as_ref()).filter(|other| of(other));
        let running: Vec<_> =
            open.filter_map(|item| Some((item.session.clone(), item.turn.clone()?))).collect();
        running.get(self.dice.draw_index(running.len())).cloned()
    }
}
