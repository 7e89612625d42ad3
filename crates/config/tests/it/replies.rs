//! Mistakes in `[replies]`.

use crate::table::check_agents;

#[test]
fn a_category_that_there_is_not_and_a_language_without_texts_are_mistakes() {
    check_agents(
        "agents.a = { instructions = \"x\" }\n[replies]\nlanguage = \"it\"\nprovider_rate_limt = \"Wait.\"\n",
        &[
            "4:12: `replies.language` must be one of \"en\", \"de\", \"es\", \"fr\", \"ja\", \"zh\"",
            "5:1: `replies` has no key `provider_rate_limt`",
            "hint: did you mean `provider_rate_limit`?",
        ],
    );
}
