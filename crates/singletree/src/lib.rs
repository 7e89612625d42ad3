//! A durable chat harness: conversations that never lose a turn.
