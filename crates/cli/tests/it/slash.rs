//! The slash commands of a chat, and its line editor.

use crate::home::Home;
use crate::terminal::Terminal;

const PROMPT: &str = "you> ";
const QUESTION: &str = "approve, reject or later? ";

#[test]
fn an_approval_can_wait_and_be_rejected_later() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s"], &[]);
    terminal.say(PROMPT, "/pending");
    terminal.wait_for("nothing waits for an answer");
    terminal.say(PROMPT, "send hello to Bob");
    terminal.say(QUESTION, "perhaps");
    terminal.say(QUESTION, "later");
    terminal.say(PROMPT, "thanks");
    terminal.wait_for("chat_session_suspended");
    terminal.say(PROMPT, "/pending");
    terminal.wait_for("approval wanted: send_message");
    terminal.say(QUESTION, "reject");
    terminal.wait_for("! denied: ");
    terminal.wait_for("Nothing was sent to Bob.");
    terminal.say(PROMPT, "/quit");
    assert!(terminal.end().2.success());
    assert_eq!(home.outbox(), [] as [serde_json::Value; 0]);
}

#[test]
fn commands_show_and_give_up() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s"], &[]);
    terminal.say(PROMPT, "/help");
    terminal.wait_for("/sessions ");
    terminal.say(PROMPT, "/dance");
    terminal.wait_for("there is no command /dance");
    terminal.say(PROMPT, "/history");
    terminal.wait_for("nothing was said yet");
    terminal.say(PROMPT, "send hello to Bob");
    terminal.say(QUESTION, "later");
    terminal.say(PROMPT, "/cancel");
    terminal.wait_for("given up: ");
    terminal.say(PROMPT, "thanks");
    terminal.wait_for("You are welcome.");
    terminal.say(PROMPT, "/sessions");
    terminal.wait_for("s  demo  ");
    terminal.say(PROMPT, "/history");
    terminal.wait_for("you> send hello to Bob\n  ! cancelled: ");
    terminal.wait_for("you> thanks\nYou are welcome.\n");
    terminal.wait_for(PROMPT);
    // The arrow brings back earlier lines.
    terminal.press("\u{1b}[A\u{1b}[A\u{1b}[A\r");
    terminal.wait_for("thanks\nYou are welcome.\n");
    terminal.wait_for(PROMPT);
    terminal.press("\u{4}");
    assert!(terminal.end().2.success());
}

// spec: D10
#[test]
fn ctrl_c_cancels_a_reply_and_leaves_at_the_prompt() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s"], &[]);
    terminal.say(PROMPT, "tell me a story");
    terminal.wait_for("a lighthouse keeper");
    terminal.press("\u{3}");
    terminal.wait_for("(interrupted)");
    terminal.wait_for("chat_turn_cancelled");
    terminal.wait_for(PROMPT);
    terminal.press("\u{3}");
    assert!(terminal.end().2.success());
    let (_, shown) = home.json(&["sessions", "show", "s"]);
    let history = shown["history"].as_array().unwrap();
    assert_eq!(history.len(), 2);
    let text = history[1]["message"]["content"].as_str().unwrap();
    assert!(
        text.starts_with("Once there was a lighthouse keeper") && !text.contains("wrote that down"),
        "{text}"
    );
    assert_eq!(history[1]["side"]["interrupted"], true);
}

#[test]
fn what_is_typed_is_remembered_in_the_next_chat() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat"], &[]);
    terminal.say(PROMPT, "what is 6*7");
    terminal.say(PROMPT, "/quit");
    terminal.end();
    let mut terminal = Terminal::start(&home, &["chat"], &[]);
    terminal.wait_for(PROMPT);
    terminal.press("\u{1b}[A\u{1b}[A\r");
    terminal.wait_for("6*7 = 42");
    terminal.wait_for(PROMPT);
    terminal.press("\u{4}");
    assert!(terminal.end().2.success());
}

// INV-9; spec: agent-chat-output §5.2, §8.2: a person reads, proposes and approves; the narration is told as it comes
#[test]
fn a_chat_of_commands_tells_what_is_done_and_has_artifacts() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s", "--policy", "command"], &[]);
    terminal.say(PROMPT, "/artifacts");
    terminal.wait_for("nothing was said yet");
    terminal.say(PROMPT, "note: buy milk");
    terminal.wait_for("[system, progress] The agent asks for notes_add.");
    terminal.wait_for("[system, progress] notes_add succeeded.");
    terminal.wait_for("Done. Noted: buy milk");
    terminal.wait_for("[system, status] Done.");
    terminal.say(PROMPT, "/propose letter/spring Dear all");
    terminal.wait_for("proposed: letter/spring/1");
    terminal.say(PROMPT, "/artifacts");
    terminal.wait_for("letter/spring/1  by a person  not approved");
    terminal.say(PROMPT, "/approve letter/spring");
    terminal.wait_for("Dear all");
    terminal.say("approve or later? ", "later");
    terminal.wait_for("it is not approved");
    terminal.say(PROMPT, "/approve letter/spring");
    terminal.say("approve or later? ", "approve");
    terminal.wait_for("approved: letter/spring/1");
    terminal.say(PROMPT, "what is approved?");
    terminal.wait_for("These artifacts are approved:");
    terminal.say(PROMPT, "/show letter/autumn");
    terminal.wait_for("this session has no artifact letter/autumn");
    terminal.say(PROMPT, "/narration");
    terminal.wait_for("[user, status] note: buy milk");
    terminal.say(PROMPT, "/sessions");
    terminal.wait_for("messages  commands");
    terminal.say(PROMPT, "/quit");
    assert!(terminal.end().2.success());
}

// A session keeps its policy: another one is refused for it, or another session is taken.
#[test]
fn a_policy_is_of_new_sessions() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "hello", "--session", "s"]).code, 0);
    let refused = home.run(&["send", "hello", "--session", "s", "--policy", "command"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("session s keeps the policy that it was made with"), "{}", refused.err);
    // The last one does not fit: a new one begins.
    let (code, told) = home.json(&["send", "what time is it?", "--policy", "command"]);
    assert_eq!(code, 0);
    assert_ne!(told["session"], "s");
    // One model call, and no call of a tool.
    assert_eq!(told["replies"].as_array().unwrap().len(), 1, "{told}");
    let (_, listed) = home.json(&["sessions", "list"]);
    let policies = |id: &serde_json::Value| {
        let all = listed["sessions"].as_array().unwrap();
        all.iter().find(|it| it["session"] == *id).unwrap()["prompt_policy"].clone()
    };
    assert_eq!(policies(&told["session"]), "command");
}
