//! The text on the screen does not depend on which events arrived and which were missed.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::json;
use singletree::durable::{InvocationId, SessionId};
use singletree::harness::ChatEventId;
use singletree::llm::Map;
use singletree::{TurnId, llm};

use super::*;

/// A screen that can be read.
#[derive(Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn turn() -> TurnId {
    TurnId::new(InvocationId::parse("t").unwrap(), 0)
}

fn event(at: i64, kept: bool, what: ChatEventKind) -> ChatEvent {
    let id = kept.then(|| ChatEventId { epoch: "e".into(), seq: 0 });
    let session = SessionId::parse("s").unwrap();
    ChatEvent { id, session, turn: turn(), at: Timestamp::from_millis(at), what }
}

fn message(k: u64) -> MessageId {
    MessageId { turn: turn(), k }
}

fn delta((k, run, n): (u64, u32, u64), text: &str, so_far: bool) -> ChatEvent {
    let text = text.to_owned();
    event(5, false, ChatEventKind::Delta { id: message(k), run, n, text, so_far, side: None, unrecorded: 0 })
}

fn appended(k: u64, at: i64, message_: ChatMessage) -> ChatEvent {
    let message_ = Arc::new(message_);
    event(at, true, ChatEventKind::MessageAppended { id: message(k), message: message_, side: None })
}

fn started(at: i64) -> ChatEvent {
    let (call, name) = ("c".to_owned(), "clock".to_owned());
    event(at, false, ChatEventKind::ToolStarted { call, name, arguments: json!({}) })
}

fn finished(at: i64) -> ChatEvent {
    let (call, name, content) = ("c".to_owned(), "clock".to_owned(), "noon".to_owned());
    event(at, false, ChatEventKind::ToolFinished { call, name, success: true, content })
}

fn asking() -> ChatMessage {
    ChatMessage::assistant("").with_tool_calls([llm::ToolCall::new("c", "clock", Map::new())])
}

fn check(events: &[ChatEvent], expect: &str) {
    check_with(TurnView::default(), events, expect);
}

fn check_with(mut view: TurnView, events: &[ChatEvent], expect: &str) {
    let paper = Paper::default();
    let mut screen = TerminalOutput::with_writer(Box::new(paper.clone()), false);
    for event in events {
        view.show_event(event, &mut screen).unwrap();
    }
    assert_eq!(String::from_utf8(paper.0.borrow().clone()).unwrap(), expect);
}

#[test]
fn a_text_stands_once_however_it_came() {
    let whole = || appended(0, 9, ChatMessage::assistant("one two"));
    let (one, two) = (|| delta((0, 1, 0), "one ", false), || delta((0, 1, 1), "two", false));
    check(&[one(), two(), whole()], "one two\n");
    check(&[one(), whole()], "one two\n");
    check(&[whole()], "one two\n");
    check(&[whole(), one(), two()], "one two\n");
    let so_far = || delta((0, 1, 0), "one ", true);
    check(&[so_far(), one(), two(), whole()], "one two\n");
    check(&[one(), so_far(), two(), whole()], "one two\n");
}

#[test]
fn a_higher_run_takes_back_what_a_lower_one_said() {
    let whole = || appended(0, 9, ChatMessage::assistant("two"));
    let (one, two) = (|| delta((0, 1, 0), "one", false), || delta((0, 2, 0), "two", false));
    check(&[one(), two(), whole()], "one\ntwo\n");
    check(&[two(), one(), whole()], "two\n");
    check(&[one(), whole()], "one\ntwo\n");
}

// U18
#[test]
fn a_run_that_says_the_same_again_is_not_shown_twice() {
    let piece = |run: u32, n: u64, text: &str| delta((0, run, n), text, false);
    let whole = || appended(0, 9, ChatMessage::assistant("one two three"));
    let first = || [piece(1, 0, "one "), piece(1, 1, "two")];
    let again = |events: &[ChatEvent], expect: &str| {
        check(&[first().as_slice(), events].concat(), expect);
    };
    again(&[piece(2, 0, "one two"), piece(2, 1, " three"), whole()], "one two three\n");
    again(&[piece(2, 0, "one "), piece(2, 1, "two three"), whole()], "one two three\n");
    again(&[piece(2, 0, "one "), whole()], "one two three\n");
    again(&[piece(2, 0, "one "), piece(3, 0, "one two t"), whole()], "one two three\n");
    // Another process may count its runs from another number.
    let restarted = || event(5, false, ChatEventKind::TurnRestarted);
    again(&[restarted(), piece(1, 0, "one "), piece(1, 1, "two three"), whole()], "one two three\n");
    let other = [piece(1, 0, "other "), piece(1, 1, "words "), piece(1, 2, "here")];
    let recorded = appended(0, 9, ChatMessage::assistant("other words here"));
    again(&[&[restarted()], &other[..], &[recorded]].concat(), "one two\nother words here\n");
    // Another text is a text of its own.
    let other = appended(0, 9, ChatMessage::assistant("one and all"));
    again(&[piece(2, 0, "one "), piece(2, 1, "and all"), other], "one two\none and all\n");
}

// U18
#[test]
fn while_a_model_thinks_or_is_asked_again_a_live_screen_says_so() {
    let what = ChatEventKind::TurnRetrying {
        attempt: 1,
        until: Timestamp::from_millis(61_000),
        category: "provider_rate_limit".to_owned(),
    };
    let begun = || event(1, false, ChatEventKind::TurnStarted);
    let events = [begun(), event(2, false, what), delta((0, 1, 0), "hi", false)];
    let paper = Paper::default();
    let mut screen = TerminalOutput::with_writer(Box::new(paper.clone()), false).into_interactive();
    let mut view = TurnView::with_indentation();
    for event in &events {
        view.show_event(event, &mut screen).unwrap();
    }
    screen.end_line().unwrap();
    let retrying = "  (provider_rate_limit: attempt 1 failed, the next one is at 1970-01-01T00:01:01Z)\n";
    let expect = format!("  ...\r\x1b[K{retrying}  ...\r\x1b[Khi\n");
    assert_eq!(String::from_utf8(paper.0.borrow().clone()).unwrap(), expect);
    // Scripts read the texts alone.
    check(&[begun(), appended(0, 9, ChatMessage::assistant("hi"))], "hi\n");
}

// U18
#[test]
fn a_live_screen_breaks_lines_between_words_by_their_width() {
    let shown = |pieces: &[&str]| {
        let paper = Paper::default();
        let mut screen = TerminalOutput::with_writer(Box::new(paper.clone()), false).into_interactive();
        for piece in pieces {
            screen.write_piece(piece).unwrap();
        }
        screen.end_line().unwrap();
        String::from_utf8(paper.0.borrow().clone()).unwrap()
    };
    let nine_tens = "123456789 ".repeat(9);
    // The screen has 100 columns.
    assert_eq!(shown(&[&nine_tens, "0123456789"]), format!("{nine_tens}0123456789\n"));
    let broken = format!("{nine_tens}\n    01234567890 and\n");
    assert_eq!(shown(&[&nine_tens, "0123", "4567890", " and"]), broken);
    // Two columns each; any of them may begin a line.
    let wide = "\u{6f22}";
    let broken = format!("{nine_tens}{}\n    {wide}\n", wide.repeat(5));
    assert_eq!(shown(&[&nine_tens, &wide.repeat(6)]), broken);
    let long = "x".repeat(150);
    assert_eq!(shown(&[&long]), format!("{long}\n"));
}

#[test]
fn a_call_and_its_result_stand_once_however_they_came() {
    let result = || appended(1, 7, ChatMessage::tool("c", "noon"));
    let expect = "  * clock {}\n  = noon\n";
    check(&[appended(0, 5, asking()), started(6), finished(6), result()], expect);
    check(&[appended(0, 5, asking()), started(6), result()], expect);
    check(&[appended(0, 5, asking()), result()], expect);
    check(&[appended(0, 5, asking()), result(), started(6), finished(6)], expect);
    // The same id in a later message is another call.
    let twice = format!("{expect}{expect}");
    let (again, last) = (appended(2, 8, asking()), appended(3, 9, ChatMessage::tool("c", "noon")));
    check(&[appended(0, 5, asking()), result(), again, started(6), last], &twice);
}

// A call that was approved is named by an earlier turn, and may have begun before the view looks.
#[test]
fn an_approved_call_is_shown_also_when_its_beginning_is_missed() {
    let metadata = json!({ "kind": "approval", "tool": "clock", "call_id": "c", "arguments": {} });
    let result = || appended(1, 7, ChatMessage::tool("c", "noon"));
    let expect = "  * clock {}\n  = noon\n";
    for events in [
        vec![result()],
        vec![started(6), result()],
        vec![started(6), finished(6), result()],
        vec![result(), started(6)],
    ] {
        check_with(TurnView::default().awaiting_call(&metadata), &events, expect);
    }
    check_with(TurnView::default().awaiting_call(&json!({ "kind": "question" })), &[result()], "  = noon\n");
}

#[test]
fn the_text_so_far_waits_for_what_comes_before_it() {
    let (call, result) = (|| appended(0, 5, asking()), || appended(1, 6, ChatMessage::tool("c", "noon")));
    let whole = || appended(2, 9, ChatMessage::assistant("one two"));
    let (one, two) = (|| delta((2, 1, 0), "one ", false), || delta((2, 1, 1), "two", false));
    let so_far = || delta((2, 1, 0), "one ", true);
    let expect = "  * clock {}\n  = noon\none two\n";
    check(&[so_far(), call(), result(), one(), two(), whole()], expect);
    check(&[so_far(), call(), result(), two(), whole()], expect);
    check(&[so_far(), call(), result(), whole()], expect);
    check(&[so_far(), call(), result()], "  * clock {}\n  = noon\none ");
    // An agent that records only at the end shows its text all the same.
    check(&[so_far(), one(), two()], "one two");
    check(&[so_far(), two()], "one two");
}

// spec: D8
#[test]
fn a_call_that_was_never_run_tells_why() {
    let denied = json!({ "status": "denied", "reason": "no" }).to_string();
    check(&[appended(0, 5, asking()), appended(1, 6, ChatMessage::tool("c", denied))], "  ! denied: no\n");
}

// A tool of a server may return the same content as a denied call: it is shown as a result.
#[test]
fn a_call_that_ran_is_told_as_run_whatever_it_returned() {
    let denied = json!({ "status": "denied", "reason": "no" }).to_string();
    let side = Some(json!({ "success": true }));
    let result = Arc::new(ChatMessage::tool("c", denied));
    let ran = ChatEventKind::MessageAppended { id: message(1), message: result, side };
    let expect = "  * clock {}\n  = {\"reason\":\"no\",\"status\":\"denied\"}\n";
    check(&[appended(0, 5, asking()), event(6, true, ran)], expect);
}

// S6
#[test]
fn what_is_said_does_not_steer_the_terminal() {
    check(&[appended(0, 5, ChatMessage::assistant("a\u{1b}[2Jb\rc\n"))], "a\\u{1b}[2Jb\\u{d}c\n");
    check(
        &[appended(0, 5, ChatMessage::assistant("\u{202e}a\u{200b}\u{2028}b"))],
        "\\u{202e}a\\u{200b}\\u{2028}b\n",
    );
    let named =
        ChatMessage::assistant("").with_tool_calls([llm::ToolCall::new("c", "clock\nyou> yes", Map::new())]);
    let result = appended(1, 7, ChatMessage::tool("c", "noon"));
    check(&[appended(0, 5, named), result], "  * clock\\nyou> yes {}\n  = noon\n");
}

// S6
#[test]
fn no_line_of_a_text_looks_like_one_of_ours() {
    let whole = || appended(0, 9, ChatMessage::assistant("one\n\nyou> two\n  * pay {}\n"));
    let piece = |n: u64, text: &str| delta((0, 1, n), text, false);
    let expect = "one\n\n    you> two\n      * pay {}\n";
    let check = |events: &[ChatEvent]| check_with(TurnView::with_indentation(), events, expect);
    check(&[whole()]);
    check(&[piece(0, "one\n"), piece(1, "\n"), piece(2, "you> two\n"), piece(3, "  * pay {}\n"), whole()]);
    check(&[piece(0, "one\n\nyou"), whole()]);
    let user = event(
        4,
        true,
        ChatEventKind::TurnAccepted { message: Some(Arc::new(ChatMessage::user("a\nyou> b"))) },
    );
    check_with(TurnView::with_user_messages(), &[user], "you> a\n    you> b\n");
}
