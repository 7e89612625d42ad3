//! The part of a long conversation that the model is shown (D22).

use singletree_durable::MemoryStore;
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{open, script, send, small_with};
use crate::watched::Watched;

// D22, INV-6, INV-11: the same request from memory and after a restart, and never half a tool call.
#[tokio::test]
async fn the_model_is_shown_the_end_of_the_conversation_from_a_message_of_the_user_on() {
    for restart in [false, true] {
        let noting = Watched::scripted(script());
        let world = World::default();
        let store = MemoryStore::new();
        let agent = || small_with(noting.clone(), &world, Recovery::Report).window(3).build().unwrap();
        let mut chat = open(agent(), store.clone());
        for text in ["say a", "look", "say b"] {
            if restart {
                chat = open(agent(), store.reopen());
            }
            assert_eq!(send(&chat, text).await.as_str(), "completed");
        }
        let asked = noting.asked();
        let look = ["user: look", r#"assistant: [look{"what":"a"}]"#, "tool: did a"];
        let expected: [&[&str]; 4] = [
            &["system: Be brief.", "user: say a"],
            &["system: Be brief.", "user: say a", "assistant: You said: a", "user: look"],
            &["system: Be brief.", look[0], look[1], look[2]],
            &["system: Be brief.", look[0], look[1], look[2], "assistant: All done.", "user: say b"],
        ];
        assert_eq!(asked, expected, "restart: {restart}");
    }
}
