//! Joining a conversation: first its history, then its live events, and nothing missed between (D9, D17).

use futures_util::StreamExt;
use serde_json::json;
use singletree_engine::{Ctx, Graph};
use singletree_harness::{Chat, ChatEventKind, Durability, SendOptions, Transcript};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, Talk, chain, chat_of, plain, says, user};

/// Two nodes, of which the second waits for the door.
fn slow(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::builder().node("first", async |_: Ctx<Talk>| Ok(says("one"))).node(
        "second",
        move |_: Ctx<Talk>| {
            let door = door.clone();
            async move {
                door.pass().await;
                Ok(says("two"))
            }
        },
    );
    chain(builder, &["first", "second"])
}

/// Listens from behind the history that was read, and returns the texts of both.
async fn joined(chat: &Chat, read: Transcript, ends: usize) -> Vec<String> {
    let mut texts: Vec<_> = read.items.iter().map(|it| it.message.text().into_owned()).collect();
    let mut events = Box::pin(chat.session("s").events().after(read.last_event).stream().await.unwrap());
    let mut ended = 0;
    while ended < ends {
        match events.next().await.unwrap().unwrap().what {
            ChatEventKind::TurnAccepted { message: Some(message) }
            | ChatEventKind::MessageAppended { message, .. } => texts.push(message.text().into_owned()),
            what => ended += usize::from(what.outcome().is_some()),
        }
    }
    texts
}

// D9
#[tokio::test]
async fn who_joins_while_a_turn_runs_hears_it_from_its_beginning() {
    let door = Door::shut();
    let graph = slow(&door);
    let agent = singletree_harness::GraphAgent::new("a", &graph).durability(Durability::Step);
    let chat = Chat::builder().agent(agent).open(TestStore::new()).unwrap();
    let first = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    // A message of the turn is recorded, and no part of the history yet; another turn waits behind it.
    let second = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    let open: Vec<_> = chat.session("s").open_turns().await.unwrap().into_iter().map(|it| it.id).collect();
    assert_eq!(open, [first.id().clone(), second.id().clone()]);
    let early = chat.session("s").transcript(0, 100).await.unwrap();
    assert_eq!((early.items.len(), early.last_event.clone()), (0, None));
    door.open();
    assert_eq!(joined(&chat, early, 2).await, ["m", "one", "n", "two", "one", "two"]);
    second.outcome().await;
    let late = chat.session("s").transcript(0, 100).await.unwrap();
    assert_eq!(joined(&chat, late, 0).await, ["m", "one", "two", "n", "one", "two"]);
    assert_eq!(chat.session("s").open_turns().await.unwrap(), []);
    assert_eq!(chat.session("s").newest_turn().await.unwrap().unwrap().id, *second.id());
}

// D12, D17
#[tokio::test]
async fn what_a_sender_said_beside_a_message_holds_where_it_is_said_again() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let noted = SendOptions::new().note("client_id", "mine");
    chat.session("s").submit(user("m"), noted).await.unwrap().outcome().await;
    let again = chat.session("s").regenerate_into("again", None).await.unwrap();
    let otherwise = chat.session("s").edit_into("otherwise", 0, user("n")).await.unwrap();
    for (turn, text) in [(again, "m"), (otherwise, "n")] {
        turn.outcome().await;
        let first = chat.session(turn.session()).history(0..1).await.unwrap().remove(0);
        let side = Some(json!({ "client_id": "mine" }));
        assert_eq!((first.message.text().into_owned(), first.side), (text.to_owned(), side));
    }
}

// D9: the turn of a long conversation that is asked for again is found from its end.
#[tokio::test]
async fn the_events_of_a_turn_of_long_ago_are_its_own() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let mut turns = Vec::new();
    for _ in 0..120 {
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        turn.outcome().await;
        turns.push(turn.id().clone());
    }
    for at in [0, 1, 60, 119] {
        let events = chat.turn(&turns[at]).await.unwrap().events();
        let seqs: Vec<_> = events.map(|it| it.unwrap().id.unwrap().seq).collect().await;
        let first = 3 * at as u64;
        assert_eq!(seqs, [first, first + 1, first + 2]);
    }
}
