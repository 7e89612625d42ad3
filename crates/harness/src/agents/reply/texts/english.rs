//! The built-in replies in English.

use super::{CORRECTABLE, LanguageReplies, NOT_THE_MESSAGE};

pub(super) const REPLIES: LanguageReplies = LanguageReplies {
    of_buckets: [
        "This conversation can't continue. Please start a new one.",
        "I had trouble responding. Try again in a moment.",
        CORRECTABLE,
    ],
    not_the_message: NOT_THE_MESSAGE,
    of_categories: [
        "The assistant of this conversation is not there: {diagnostic}.",
        "This answer needed more than it may: {diagnostic}.",
        "Something has to be decided here first: {diagnostic}.",
        "There is no such conversation: {diagnostic}.",
        "The assistant is being restarted. Try again in a moment.",
        "Nobody decided in time: {diagnostic}.",
        "This message was not answered in time: {diagnostic}. Send it again if you still want an answer.",
        "Stopped: {diagnostic}.",
        "The assistant failed each time it tried to answer this: {diagnostic}. It does not try again.",
        "The assistant has no access to its model: {diagnostic}. Whoever runs it has to correct that.",
        "The assistant's model is not there: {diagnostic}. Whoever runs it has to correct that.",
        "The model gave an answer that can't be used: {diagnostic}.",
        "The model is being loaded. Try again in a moment.",
        "The model is busy. Try again in a moment.",
        "The model can't be reached right now. Try again in a moment.",
        "The model gave an answer that can't be used: {diagnostic}.",
    ],
};
