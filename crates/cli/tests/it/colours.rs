//! Colours are for people who look at a terminal and want them.

use crate::home::Home;
use crate::terminal::Terminal;

const DIM: &str = "\u{1b}[2m";

fn written(environment: &[(&str, &str)]) -> String {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["chat"], environment);
    terminal.say("you> ", "what is 6*7");
    terminal.say("you> ", "/quit");
    terminal.end().1
}

#[test]
fn a_terminal_gets_colours_unless_the_user_wants_none() {
    assert!(written(&[]).contains(DIM));
    assert!(written(&[("NO_COLOR", "")]).contains(DIM));
    assert!(!written(&[("NO_COLOR", "1")]).contains(DIM));
}

#[test]
fn a_pipe_gets_no_control_sequence() {
    let home = Home::new();
    for ran in [home.feed(&["chat"], "what is 6*7\nfail\n"), home.run(&["send", "send hello to Bob"])] {
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{ran:?}");
    }
}
