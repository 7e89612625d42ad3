//! Lists that are cut by bytes: no part is much larger than allowed, and the parts are the whole.

use futures_util::StreamExt;
use singletree_harness::{Chat, ChatEventKind, CreateOptions, Limits, TranscriptEntry};
use singletree_llm::ChatMessage;
use singletree_test_store::TestStore;

use crate::bench::{Log, chat_of, plain, user};

/// Bytes of a page in these tests.
const PAGE: u64 = 1000;
/// Bytes of a user's text in these tests.
const LONG: usize = 400;

/// A chat in which a few long things were said.
async fn talkative() -> Chat {
    let limits = Limits { page_bytes: PAGE, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    for n in 0..12 {
        chat.session("s").send(user(&format!("{n}{}", "x".repeat(LONG)))).await;
    }
    chat
}

fn bytes(part: &[TranscriptEntry]) -> usize {
    part.iter().map(|entry| serde_json::to_string(&entry.message).unwrap().len()).sum()
}

/// Checks that a part is as large as it may be: the last message made it so, or there is no more.
fn check_size(part: &[TranscriptEntry], is_last: bool) {
    let (page, longest) = (usize::try_from(PAGE).unwrap(), LONG + 200);
    assert!(bytes(part) < page + longest, "{} bytes in {} messages", bytes(part), part.len());
    assert!(is_last || part.len() > 1, "{} messages", part.len());
}

// Finding S5, INV-12
#[tokio::test(start_paused = true)]
async fn a_transcript_is_read_in_parts_of_so_many_bytes_from_either_end() {
    let chat = talkative().await;
    let (mut forward, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let part = chat.session("s").transcript(at, u64::MAX).await.unwrap();
        check_size(&part.items, part.next.is_none());
        from = part.next;
        forward.extend(part.items);
    }
    let history: Vec<ChatMessage> = chat
        .session("s")
        .history(0..100)
        .await
        .unwrap()
        .iter()
        .map(|it| it.message.as_ref().clone())
        .collect();
    let said: Vec<ChatMessage> = forward.iter().map(|it| it.message.as_ref().clone()).collect();
    assert_eq!((said.len(), said), (24, history));
    let newest = chat.session("s").newest_messages(u64::MAX).await.unwrap();
    assert_eq!(newest.next, None);
    let (mut backward, mut before) = (Vec::new(), u64::MAX);
    while before > 0 {
        let part = chat.session("s").messages_before(before, u64::MAX).await.unwrap().items;
        before = part[0].seq;
        check_size(&part, before == 0);
        backward.splice(0..0, part);
    }
    assert_eq!(backward, forward);
    assert_eq!(newest.items, forward[forward.len() - newest.items.len()..]);
    assert_eq!(chat.session("s").messages_before(5, 2).await.unwrap().items, forward[3..5]);
    assert!(chat.session("s").messages_before(0, 2).await.unwrap().items.is_empty());
}

// Finding S5, D9
#[tokio::test(start_paused = true)]
async fn a_log_that_is_read_in_parts_of_so_many_bytes_is_told_without_gap_and_repeat() {
    let chat = talkative().await;
    let mut events = Box::pin(chat.session("s").events().stream().await.unwrap());
    let (mut next, mut messages) = (0, 0);
    while messages < 24 {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(event.id.unwrap().seq, next);
        next += 1;
        let is_message = match event.what {
            ChatEventKind::TurnAccepted { message } => message.is_some(),
            ChatEventKind::MessageAppended { .. } => true,
            _ => false,
        };
        messages += usize::from(is_message);
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_whole_though_their_rows_are_read_a_few_at_a_time() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let ids: Vec<String> = (0..70).map(|n| format!("s{n:02}")).collect();
    for id in &ids {
        chat.create_session(CreateOptions::new().session(id)).await.unwrap();
    }
    for limit in [1, 16, 17, 35, 70, 71, 1000] {
        for is_recent in [false, true] {
            let (mut found, mut from) = (Vec::new(), None::<String>);
            loop {
                let list = match is_recent {
                    false => chat.sessions(from.as_deref(), limit).await.unwrap(),
                    true => chat.recent_sessions(from.as_deref(), limit).await.unwrap(),
                };
                assert!(list.items.len() as u64 <= limit);
                assert!(list.next.is_none() || list.items.len() as u64 == limit, "{limit}");
                found.extend(list.items.into_iter().map(|it| it.session));
                from = list.next;
                if from.is_none() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, ids, "{limit} {is_recent}");
        }
    }
}
