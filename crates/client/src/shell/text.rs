//! Makes texts of others harmless before they are shown: they cannot control a terminal or reverse the order of
//! letters.

/// Removes invisible and harmful characters from a text: escape sequences of terminals, control characters other than
/// line ends and tabs, marks that change the direction of writing, and invisible letters.
#[must_use]
pub fn to_plain_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_control(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut rest),
            '\u{2028}' | '\u{2029}' => clean.push('\n'),
            '\n' | '\t' => clean.push(letter),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            letter if letter.is_control() || is_hidden_char(letter) => {}
            letter => clean.push(letter),
        }
    }
    clean
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips the rest of an escape sequence: a sequence that ends with its first final letter, or a string with a
/// terminator.
fn skip_escape(rest: &mut Rest<'_>) {
    match rest.next() {
        Some('[') => skip_control(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        // One of several letters: those in between come first.
        Some(' '..='/') => {
            while rest.next_if(|rest| matches!(rest, ' '..='/')).is_some() {}
            rest.next_if(|rest| matches!(rest, '0'..='~'));
        }
        Some(_) | None => {}
    }
}

/// Skips a control sequence, up to its final letter.
fn skip_control(rest: &mut Rest<'_>) {
    while rest.next_if(|rest| matches!(rest, ' '..='?')).is_some() {}
    rest.next_if(|rest| matches!(rest, '@'..='~'));
}

/// Skips a string of a terminal; one that nothing ends goes to the end of its line.
fn skip_string(rest: &mut Rest<'_>) {
    while let Some(letter) = rest.next_if(|rest| *rest != '\n') {
        match letter {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

fn is_hidden_char(letter: char) -> bool {
    matches!(letter,
        // Direction: marks, embeddings, overrides, isolates.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Invisible: zero width, invisible operators, interlinear notes, tags, and deprecated format characters.
        | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_left_and_all_that_is_read_is() {
        let check = |text: &str, clean: &str| assert_eq!(to_plain_text(text), clean, "{text:?}");
        check("a\u{1b}[31mred\u{1b}[0m b", "ared b");
        check("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\link", "xlink");
        check("\u{9b}2Jx\u{9d}0;t\u{9c}y", "xy");
        check("\u{1b}(Bx\u{1b}cy\u{1b}", "xy");
        check("\u{1b}Pnever ended\nnext", "\nnext");
        check("ab\u{8}\u{7f}c\0", "abc");
        check("one\r\ntwo\rthree\u{2028}four\tfive", "one\ntwo\nthree\nfour\tfive");
        check("pay \u{202e}001\u{202c} to \u{2066}x\u{2069}\u{200f}", "pay 001 to x");
        check("in\u{200b}vis\u{feff}ible\u{e0041}", "invisible");
        // Letters that join others are letters.
        check("👩\u{200d}🚀 é ध", "👩\u{200d}🚀 é ध");
    }

    #[test]
    fn what_is_clean_stays_as_it_is() {
        for text in ["", "Grüße, 世界!\n\t- eins", "a [31m b"] {
            assert_eq!(to_plain_text(text), text);
        }
    }
}
