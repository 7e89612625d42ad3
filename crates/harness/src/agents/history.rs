//! The canonical history field: `messages`, a list of chat messages under `append` (harness-chat §4).

use std::ops::Range;
use std::sync::Arc;

use singletree_engine::{
    Ctx, FieldContent, FieldShape, Item, PersistentList, Reducer, SharedList, State, StateField,
    StateListField, StateSchema, ValueCheck,
};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_session::{HISTORY, HistoryWindow, MESSAGE_SHAPE, decode_message, locate_open_calls};

use crate::Error;

/// A conversation's messages: the type of the history field of a typed state.
///
/// A view of a shared list: cloning costs nothing, a message is decoded at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Messages(SharedList<ChatMessage>);

impl Messages {
    /// Returns how many messages there are; positions are absolute.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a message.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<Arc<ChatMessage>> {
        self.0.get(position)
    }

    /// Returns the last message.
    #[must_use]
    pub fn last(&self) -> Option<Arc<ChatMessage>> {
        self.0.last()
    }

    /// Iterates over the messages.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Arc<ChatMessage>> + ExactSizeIterator {
        self.0.iter()
    }

    /// Iterates over the messages from a position on.
    pub fn iter_from(
        &self,
        position: u64,
    ) -> impl DoubleEndedIterator<Item = Arc<ChatMessage>> + ExactSizeIterator {
        self.0.iter_from(position)
    }

    /// Returns the tool calls of the last assistant message that no tool message after it answers (INV-6).
    #[must_use]
    pub fn open_calls(&self) -> Vec<ToolCall> {
        let open = self.locate_open_calls().map(|(_, open)| open);
        open.into_iter().flatten().map(|(_, call)| call).collect()
    }

    /// Tells whether a tool message answers one of them (harness-chat §10.4).
    pub(crate) fn has_open_call(&self, id: Option<&str>) -> bool {
        self.open_calls().iter().any(|call| Some(call.id.as_str()) == id)
    }

    /// As [`Messages::open_calls`], with the position of the message and the index of each call in it.
    pub(crate) fn locate_open_calls(&self) -> Option<(u64, Vec<(u64, ToolCall)>)> {
        locate_open_calls(&self.0)
    }

    /// Reads the messages at these positions, as far as the history goes, from a node of the outermost graph; those
    /// that the agent's window does not hold come from the store (D22).
    ///
    /// # Errors
    /// `session_load_failed` when they cannot be read.
    ///
    /// # Cancellation
    /// Dropping the future reads nothing more.
    pub async fn read_at_positions<S: State>(
        cx: &Ctx<S>,
        positions: Range<u64>,
    ) -> Result<Vec<Arc<ChatMessage>>, singletree_engine::Error> {
        let items = cx.read_list_items(HISTORY, positions).await?;
        let messages = items.iter().map(decode_message).collect::<Result<_, _>>();
        messages.map_err(|error| singletree_engine::Error::SessionLoad { source: error.into() })
    }

    /// Returns where the window of so many messages begins ([`Messages::iter_window`]); none when no held message may be the
    /// first.
    #[must_use]
    pub fn window_start(&self, messages: u64) -> Option<u64> {
        HistoryWindow::new(messages).find_start(self.0.persistent_list()).ok().flatten()
    }

    /// Iterates over the end of the history: at least this many messages, from one of the user on (D22). The same
    /// messages whether more are held or not. A history without a message of the user there is returned as far as it is
    /// held.
    pub fn iter_window(
        &self,
        messages: u64,
    ) -> impl DoubleEndedIterator<Item = Arc<ChatMessage>> + ExactSizeIterator {
        let list = self.0.persistent_list();
        let start = HistoryWindow::new(messages).find_start(list).ok().flatten();
        self.iter_from(start.unwrap_or_else(|| list.first_held_position()))
    }

    pub(crate) fn as_persistent_list(&self) -> &PersistentList {
        self.0.persistent_list()
    }

    pub(crate) fn from_list(list: &PersistentList) -> Self {
        Self(list.clone().into())
    }
}

/// For a field whose new value replaces the old one, such as the working messages of an agent inside of a graph. For a
/// field that appends, pass the messages themselves.
impl FromIterator<ChatMessage> for Messages {
    fn from_iter<I: IntoIterator<Item = ChatMessage>>(messages: I) -> Self {
        Self(messages.into_iter().map(Item::from_typed).collect::<PersistentList>().into())
    }
}

impl<const N: usize> From<[ChatMessage; N]> for Messages {
    fn from(messages: [ChatMessage; N]) -> Self {
        messages.into_iter().collect()
    }
}

impl StateField for Messages {
    fn shape() -> FieldShape {
        FieldShape::Record(MESSAGE_SHAPE.into()).list()
    }

    fn check() -> Option<ValueCheck> {
        SharedList::<ChatMessage>::check()
    }

    fn read(slot: &FieldContent) -> Result<Self, String> {
        SharedList::read(slot).map(Self)
    }

    fn write(self) -> FieldContent {
        self.0.write()
    }
}

impl StateListField for Messages {
    type Element = ChatMessage;
}

/// Checks that a schema carries the history field as the specification wants it (harness-chat §4, D6).
pub(crate) fn check_history_field<'a>(
    schema: &StateSchema,
    mut session_fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Error> {
    let invalid = |why: &str| Err(Error::HistoryField { why: why.to_owned() });
    let Some(field) = schema.find_field(HISTORY) else {
        return invalid("the state declares no field 'messages'");
    };
    let element = field.shape().element_shape().filter(|_| field.shape().is_list());
    if element != Some(&FieldShape::Record(MESSAGE_SHAPE.into())) {
        return invalid("the field 'messages' is not a list of ChatMessage");
    }
    if !matches!(field.effective_reducer(), Reducer::Append) {
        return invalid("the field 'messages' is not merged by append");
    }
    if !session_fields.any(|(session, state)| session == HISTORY && state == HISTORY) {
        return invalid("the session projection drops or renames 'messages'");
    }
    Ok(())
}
