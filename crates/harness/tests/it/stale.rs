//! A turn with a stale view of the session never takes back the commits of another one (INV-2, INV-3, INV-4).

use singletree_durable::{FieldValue, Journal};
use singletree_harness::{Chat, Durability};
use singletree_test_store::TestStore;

use crate::bench::{Door, agent, category, check_rows, history, name, user, waiting_at};
use crate::doctor::sound;
use crate::sky::Sky;

// INV-2, INV-3, INV-4: a message that waits is cancelled in the moment in which the turn before it ends. Which of the
// two hears first that its commit has landed, is left to chance.
#[tokio::test]
async fn a_turn_that_is_cancelled_while_another_ends_does_not_take_its_messages_back() {
    for _ in 0..40 {
        let (store, door) = (Sky::over(TestStore::new()), Door::shut());
        let chat =
            Chat::builder().agent(agent(&waiting_at(&door), Durability::Turn)).open(store.clone()).unwrap();
        let one = chat.session("s").submit(user("one"), Default::default()).await.unwrap();
        let two = chat.session("s").submit(user("two"), Default::default()).await.unwrap();
        door.somebody().await;
        store.hold();
        door.open();
        store.holds(1).await;
        let cancelling = tokio::spawn({
            let (chat, id) = (chat.clone(), two.id().clone());
            async move { chat.cancel(&id).await.unwrap() }
        });
        store.holds(2).await;
        store.release();
        assert_eq!(category(one.outcome().await), "completed");
        assert_eq!(category(cancelling.await.unwrap().outcome().await), "chat_turn_cancelled");
        assert_eq!(category(chat.session("s").send(user("three")).await), "completed");

        assert_eq!(history(&chat, "s").await, ["u:one", "a:so", "u:three", "a:so"]);
        let row = store.store.read_session(&name("s")).await.unwrap().unwrap();
        let messages = row.fields.into_iter().find(|it| it.name == "messages").unwrap().value;
        assert!(
            matches!(messages, FieldValue::List { generation: 0, len: 4, .. }),
            "the list was extended: {messages:?}"
        );
        check_rows(&store, "s").await;
        sound(&store.store).await;
    }
}
