//! A window on a history: its last messages, from the beginning of a turn on (D22).

use std::num::NonZeroU64;

use singletree_durable::{Journal, SessionKey};
use singletree_engine::{Item, List};
use singletree_llm::Role;

use crate::history::HISTORY;
use crate::{Error, record, stored};

/// How many messages are read at a time while looking for the beginning of a turn.
const STRIDE: u64 = 64;

/// How much of a history is held: at least this many messages, and before them what belongs to the first one's turn.
///
/// A window begins with a message of the user, so that it never begins with half a tool call, which no provider accepts
/// (INV-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window(NonZeroU64);

impl Window {
    /// A window of no message is one of a single message: without it there is nothing to answer.
    pub(crate) fn new(messages: u64) -> Self {
        Self(NonZeroU64::new(messages).unwrap_or(NonZeroU64::MIN))
    }

    /// Finds where the window on a list begins; none when that is not held, or when no turn begins there or before.
    pub(crate) fn start(self, list: &List) -> Result<Option<u64>, Error> {
        for position in (list.first_held()..=list.len().saturating_sub(self.0.get())).rev() {
            if list.get(position).map(is_users).transpose()?.unwrap_or(false) {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Tells whether a list holds the window.
    pub(crate) fn is_held(self, list: &List) -> Result<bool, Error> {
        Ok(list.first_held() == 0 || self.start(list)?.is_some())
    }

    /// Returns a list that holds no more than the window.
    pub(crate) fn cut(self, list: &List) -> Result<List, Error> {
        Ok(match self.start(list)?.filter(|it| *it > list.first_held()) {
            Some(start) => List::window(start, list.iter_from(start).cloned()),
            None => list.clone(),
        })
    }

    /// Reads the window on a stored history of `len` messages.
    pub(crate) async fn read(
        self,
        journal: &dyn Journal,
        key: &SessionKey,
        (generation, len): (u64, u64),
    ) -> Result<List, Error> {
        let (place, list) = ((journal, key), (HISTORY, generation));
        let mut first = len.saturating_sub(self.0.get());
        let mut items = stored::read_items(place, list, first..len).await?;
        let mut ahead = items.first().map(is_users).transpose()?.unwrap_or(true);
        while first > 0 && !ahead {
            let from = first.saturating_sub(STRIDE);
            let mut earlier = stored::read_items(place, list, from..first).await?;
            let mut kept = earlier.len();
            while kept > 0 && !ahead {
                kept -= 1;
                ahead = is_users(&earlier[kept])?;
            }
            let skipped = if ahead { kept } else { 0 };
            first = from + skipped as u64;
            items.splice(0..0, earlier.drain(skipped..));
        }
        Ok(List::window(first, items))
    }
}

fn is_users(item: &Item) -> Result<bool, Error> {
    Ok(record::message(item)?.role == Role::User)
}

#[cfg(test)]
mod tests {
    use singletree_llm::ChatMessage;

    use super::*;
    use crate::history::item;

    /// Messages of the user at 0, 3, 6, …, two answers after each; held from `first` on.
    fn list(first: u64, len: u64) -> List {
        let message = |at: u64| match at % 3 {
            0 => ChatMessage::user("ask"),
            _ => ChatMessage::assistant("answer"),
        };
        List::window(first, (first..len).map(message).map(item))
    }

    #[test]
    fn a_window_begins_with_the_last_message_of_the_user_that_leaves_it_wide_enough() {
        let start = |first, len, messages| Window::new(messages).start(&list(first, len)).unwrap();
        assert_eq!(start(0, 9, 3), Some(6));
        assert_eq!(start(0, 9, 4), Some(3));
        assert_eq!(start(0, 9, 1), Some(6));
        assert_eq!(start(0, 9, 0), Some(6), "a window is never empty");
        assert_eq!(start(0, 9, 9), Some(0));
        assert_eq!(start(0, 9, 90), Some(0));
        assert_eq!(start(5, 9, 4), None, "position 3 is not held");
        assert_eq!(start(0, 0, 4), None, "there is nothing");
    }

    #[test]
    fn a_list_that_holds_less_than_the_window_must_be_read_again() {
        let held = |first, messages| Window::new(messages).is_held(&list(first, 9)).unwrap();
        assert_eq!([held(0, 90), held(3, 4), held(4, 4), held(5, 3)], [true, true, false, true]);
    }

    #[test]
    fn cutting_keeps_positions_and_forgets_what_is_before_the_window() {
        let cut = Window::new(4).cut(&list(0, 9)).unwrap();
        assert_eq!((cut.first_held(), cut.len(), cut.iter().len()), (3, 9, 6));
    }
}
