//! Reading a command line as `cmd` and PowerShell do, roughly: words, separators, scripts within scripts.

use super::command::{CommandWord, ParsedCommand, ParsedCommandLine};
use super::shell::DEPTH_MAX;

/// Reads a command line.
pub(super) fn read(text: &str) -> ParsedCommandLine {
    let mut script = ParsedCommandLine::default();
    within(text, 0, &mut script);
    script
}

fn within(text: &str, depth: usize, script: &mut ParsedCommandLine) {
    if depth > DEPTH_MAX {
        script.unreadable = true;
        return;
    }
    let mut command = ParsedCommand::default();
    let mut upstream: Vec<String> = Vec::new();
    let mut word = CommandWord::default();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(it) = chars.next() {
        match (it, quote) {
            ('"' | '\'', None) => quote = Some(it),
            (_, Some(open)) if it == open => quote = None,
            // The escape characters of the two shells: the next character is literal.
            ('^' | '`', None) => word.text.extend(chars.next()),
            ('%' | '$', _) => {
                word.open = true;
                word.text.push(it);
            }
            (_, Some(_)) => word.text.push(it),
            ('&' | '|' | ';' | '\n' | '(' | ')' | '{' | '}', None) => {
                end(&mut word, &mut command);
                let piped = it == '|' && chars.peek() != Some(&'|');
                finish(&mut command, &mut upstream, piped, (depth, &mut *script));
            }
            (_, None) if it.is_whitespace() => end(&mut word, &mut command),
            (_, None) => word.text.push(it),
        }
    }
    script.unreadable |= quote == Some('"');
    end(&mut word, &mut command);
    finish(&mut command, &mut upstream, false, (depth, script));
}

fn end(word: &mut CommandWord, command: &mut ParsedCommand) {
    let word = std::mem::take(word);
    if !word.text.is_empty() {
        command.words.push(word);
    }
}

fn finish(
    command: &mut ParsedCommand,
    upstream: &mut Vec<String>,
    piped: bool,
    (depth, script): (usize, &mut ParsedCommandLine),
) {
    let mut command = std::mem::take(command);
    command.upstream.clone_from(upstream);
    if !piped {
        upstream.clear();
    }
    if command.words.is_empty() {
        return;
    }
    if piped {
        upstream.push(command.program());
    }
    // The argument of `cmd /c` and `powershell -Command` is a script; so are the words after a wrapper.
    let program = command.program();
    let start = match program.as_str() {
        "cmd" | "powershell" | "pwsh" => command.words.iter().position(|word| {
            let text = word.text.to_ascii_lowercase();
            matches!(text.as_str(), "/c" | "/k" | "-c") || (text.len() > 3 && "-command".starts_with(&text))
        }),
        "start" | "runas" | "invoke-expression" | "iex" => Some(0),
        _ => None,
    };
    if let Some(start) = start {
        let rest =
            command.words[start + 1..].iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        within(&rest, depth + 1, script);
    }
    script.commands.push(command);
}
