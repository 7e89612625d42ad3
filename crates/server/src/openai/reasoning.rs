//! The thinking of a model as `reasoning_content`, if its agent shows it. The field is an extension of other vendors.

use singletree_harness::MessageId;

/// Separates the thoughts before two messages.
const BETWEEN: &str = "\n\n";

/// The thoughts so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningBuffer {
    thoughts: Vec<MessageReasoning>,
}

/// The thoughts before one message, in the latest attempt at it.
#[derive(Debug)]
struct MessageReasoning {
    id: MessageId,
    run: u32,
    text: String,
}

/// A piece of a thought.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThoughtPiece<'a> {
    pub(super) id: &'a MessageId,
    pub(super) run: u32,
    pub(super) text: &'a str,
    pub(super) so_far: bool,
}

impl ReasoningBuffer {
    /// Adds a piece and returns the new text for the client.
    pub(super) fn add_piece(&mut self, piece: ThoughtPiece<'_>) -> Option<String> {
        let ThoughtPiece { id, run, text, so_far } = piece;
        let is_first = self.thoughts.is_empty();
        let known = self.thoughts.iter_mut().find(|thought| thought.id == *id);
        let told = match known {
            Some(thought) if thought.run == run => {
                let new =
                    if so_far { text.strip_prefix(thought.text.as_str()).unwrap_or_default() } else { text };
                thought.text.push_str(new);
                new.to_owned()
            }
            Some(thought) if thought.run > run => String::new(),
            // Sent text cannot be taken back: the new thoughts follow the old ones.
            Some(thought) => {
                (thought.run, thought.text) = (run, text.to_owned());
                format!("{BETWEEN}{text}")
            }
            None => {
                self.thoughts.push(MessageReasoning { id: id.clone(), run, text: text.to_owned() });
                if is_first { text.to_owned() } else { format!("{BETWEEN}{text}") }
            }
        };
        Some(told).filter(|told| !told.is_empty())
    }

    /// Returns all thoughts of the latest attempts.
    pub(super) fn joined_thoughts(&self) -> Option<String> {
        let texts: Vec<&str> = self.thoughts.iter().map(|thought| thought.text.as_str()).collect();
        Some(texts.join(BETWEEN)).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_once_and_a_new_run_replaces_the_old_one() {
        let mut reasoning = ReasoningBuffer::default();
        let id = |k: u64| MessageId { turn: "i".parse().unwrap(), k };
        let (first, second) = (id(1), id(3));
        let mut add =
            |id: &MessageId, run, text, so_far| reasoning.add_piece(ThoughtPiece { id, run, text, so_far });
        assert_eq!(add(&first, 1, "ab", false).as_deref(), Some("ab"));
        assert_eq!(add(&first, 1, "abc", true).as_deref(), Some("c"));
        assert_eq!(add(&first, 1, "abc", true), None);
        assert_eq!(add(&first, 2, "x", false).as_deref(), Some("\n\nx"));
        assert_eq!(add(&first, 1, "late", false), None);
        assert_eq!(add(&second, 1, "y", false).as_deref(), Some("\n\ny"));
        assert_eq!(reasoning.joined_thoughts().as_deref(), Some("x\n\ny"));
    }
}
