//! Webhooks: waiting work reaches a person.
