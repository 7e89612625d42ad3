//! Reading a command line as a POSIX shell does, as far as the programs that it runs go.

use std::collections::BTreeMap;

use super::command::{CommandWord, ParsedCommand, ParsedCommandLine};
use super::wrappers::{KEYWORDS, unwrap};

/// How deep substitutions and scripts within scripts may nest.
pub(super) const DEPTH_MAX: usize = 8;
/// How long a variable may be to be remembered: one that is made of others doubles with each.
const VALUE_BYTES_MAX: usize = 200;
/// How many commands are looked at: a line can hold a script that holds itself many times.
const COMMANDS_MAX: usize = 2_000;

/// Reads a command line.
pub(super) fn read(text: &str) -> ParsedCommandLine {
    let mut script = ParsedCommandLine::default();
    within(text, 0, &mut script);
    script
}

/// Reads a command line that stands within another, and returns the programs that it runs.
pub(super) fn within(text: &str, depth: usize, script: &mut ParsedCommandLine) -> Vec<String> {
    if depth > DEPTH_MAX {
        script.unreadable = true;
        return Vec::new();
    }
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let chars: Vec<char> = joined.chars().collect();
    let mut reader = ShellParser { chars: &chars, at: 0, depth, script, known: BTreeMap::new() };
    reader.list(None)
}

struct ShellParser<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
    script: &'a mut ParsedCommandLine,
    /// Variables that were given a fixed value on the way.
    known: BTreeMap<String, String>,
}

/// The state of a list while it is read.
#[derive(Default)]
struct OpenCommandList {
    command: ParsedCommand,
    /// The commands whose output the command being read will read.
    upstream: Vec<ParsedCommand>,
    programs: Vec<String>,
}

impl ShellParser<'_> {
    /// Reads commands up to a closing character, and returns the programs that run.
    fn list(&mut self, end: Option<char>) -> Vec<String> {
        let mut open = OpenCommandList::default();
        loop {
            let Some(it) = self.peek(0) else {
                self.script.unreadable |= end.is_some();
                break;
            };
            if Some(it) == end {
                self.at += 1;
                break;
            }
            match it {
                ';' | '\n' | '&' if it != '&' || self.peek(1) != Some('>') => {
                    self.at += 1;
                    self.finish(&mut open, false);
                }
                '|' => {
                    let either = self.peek(1) == Some('|');
                    self.at += if either || self.peek(1) == Some('&') { 2 } else { 1 };
                    self.finish(&mut open, !either);
                }
                '(' => self.group(&mut open),
                ')' => {
                    // As in `case x in a)`: it ends a pattern, or nothing at all.
                    self.at += 1;
                    self.finish(&mut open, false);
                }
                '#' => self.comment(),
                '<' | '>' | '&' => self.redirect(&mut open),
                _ if it.is_whitespace() => self.at += 1,
                _ => {
                    let words = self.words();
                    open.command.words.extend(words);
                }
            }
        }
        self.finish(&mut open, false);
        open.programs
    }

    fn group(&mut self, open: &mut OpenCommandList) {
        self.at += 1;
        self.finish(open, false);
        let programs = self.nested(|reader| reader.list(Some(')')));
        open.programs.extend(programs.iter().cloned());
        // A command that reads from the group reads from each of its programs.
        let last = |name: &String| ParsedCommand {
            words: vec![CommandWord::of(name.as_str())],
            ..ParsedCommand::default()
        };
        open.upstream = programs.iter().map(last).collect();
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|peek| peek != '\n') {
            self.at += 1;
        }
    }

    /// Reads where input comes from or output goes to.
    fn redirect(&mut self, open: &mut OpenCommandList) {
        let start = self.at;
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        let sign: String = self.chars[start..self.at].iter().collect();
        if self.peek(0) == Some('(') {
            // A program in place of a file.
            self.at += 1;
            let runs = self.nested(|reader| reader.list(Some(')')));
            open.programs.extend(runs.iter().cloned());
            open.command.words.push(CommandWord { text: String::new(), open: true, runs });
            return;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let words = self.words();
        if sign.contains('>') {
            open.command.written.extend(words);
        } else if sign == "<<<" {
            // Text that the program reads: for a shell it is a script.
            let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
            open.upstream = vec![ParsedCommand {
                words: vec![CommandWord::of("echo"), CommandWord::of(text)],
                ..ParsedCommand::default()
            }];
        }
    }

    /// Ends the command that is being read.
    fn finish(&mut self, open: &mut OpenCommandList, piped: bool) {
        let mut command = std::mem::take(&mut open.command);
        let grammar = command.words.iter().take_while(|word| KEYWORDS.contains(&word.text.as_str())).count();
        command.words.drain(..grammar);
        self.assign(&mut command);
        let upstream = std::mem::take(&mut open.upstream);
        if command.words.is_empty() && command.written.is_empty() {
            if piped {
                open.upstream = upstream;
            }
            return;
        }
        command.upstream = upstream.iter().map(ParsedCommand::program).collect();
        if self.script.commands.len() >= COMMANDS_MAX {
            self.script.unreadable = true;
            return;
        }
        open.programs.push(command.program());
        if piped {
            open.upstream = upstream.clone();
            open.upstream.push(command.clone());
        }
        unwrap(command, &upstream, self.depth, self.script);
    }

    /// Takes assignments off the beginning of a command, and remembers those that stand alone.
    fn assign(&mut self, command: &mut ParsedCommand) {
        let assigns = |it: &CommandWord| {
            let name = it.text.split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| {
                !name.is_empty() && name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
            })
        };
        let count = command.words.iter().take_while(|word| assigns(word)).count();
        let taken: Vec<CommandWord> = command.words.drain(..count).collect();
        if command.words.is_empty() {
            for word in taken.iter().filter(|it| !it.open) {
                if let Some((name, value)) = word.text.split_once('=')
                    && value.len() <= VALUE_BYTES_MAX
                {
                    self.known.insert(name.to_owned(), value.to_owned());
                }
            }
        }
    }

    /// Reads one word, which may turn out to be several.
    fn words(&mut self) -> Vec<CommandWord> {
        let mut words = vec![CommandWord::default()];
        let start = self.at;
        while let Some(it) = self.peek(0) {
            let word = words.last_mut().expect("one is there from the start");
            match it {
                '\'' => self.single(word),
                '"' => {
                    self.at += 1;
                    self.double(word);
                }
                '\\' => {
                    word.text.extend(self.peek(1));
                    self.at += 2;
                }
                '$' => {
                    if self.dollar(word, false) {
                        words.push(CommandWord::default());
                    }
                }
                '`' => self.backtick(word),
                '*' | '?' | '[' => {
                    word.open = true;
                    word.text.push(it);
                    self.at += 1;
                }
                ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                _ if it.is_whitespace() => break,
                _ => {
                    word.text.push(it);
                    self.at += 1;
                }
            }
        }
        // A character that begins no word is passed over, so that reading always ends.
        if self.at == start {
            self.at += 1;
        }
        // `2>` numbers a stream.
        let numbers = words.len() == 1 && matches!(self.peek(0), Some('<' | '>'));
        if numbers && words[0].text.chars().all(|letter| letter.is_ascii_digit()) {
            return Vec::new();
        }
        words.retain(|word| !word.text.is_empty() || word.open);
        words.into_iter().flat_map(braces).collect()
    }

    fn single(&mut self, word: &mut CommandWord) {
        self.at += 1;
        while let Some(it) = self.peek(0) {
            self.at += 1;
            if it == '\'' {
                return;
            }
            word.text.push(it);
        }
        self.script.unreadable = true;
    }

    fn double(&mut self, word: &mut CommandWord) {
        while let Some(it) = self.peek(0) {
            match it {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' if matches!(self.peek(1), Some('"' | '\\' | '$' | '`')) => {
                    word.text.extend(self.peek(1));
                    self.at += 2;
                }
                '$' => {
                    self.dollar(word, true);
                }
                '`' => self.backtick(word),
                _ => {
                    word.text.push(it);
                    self.at += 1;
                }
            }
        }
        self.script.unreadable = true;
    }

    /// Reads an expansion that begins with a dollar. True when it ends the word: an unquoted separator.
    fn dollar(&mut self, word: &mut CommandWord, quoted: bool) -> bool {
        self.at += 1;
        match self.peek(0) {
            Some('(') => {
                self.at += 1;
                let runs = self.nested(|reader| reader.list(Some(')')));
                word.open = true;
                word.runs.extend(runs);
                false
            }
            Some('\'') if !quoted => {
                self.at += 1;
                self.escaped(word);
                false
            }
            Some('"') if !quoted => false,
            Some('{') => {
                let rest = &self.chars[self.at + 1..];
                let length = rest.iter().position(|item| *item == '}');
                self.script.unreadable |= length.is_none();
                let inside: String = rest[..length.unwrap_or(rest.len())].iter().collect();
                self.at += inside.chars().count() + 2;
                self.variable(word, &inside, quoted)
            }
            Some(it) if it == '_' || it.is_ascii_alphabetic() => {
                let rest = &self.chars[self.at..];
                let name: String =
                    rest.iter().take_while(|item| **item == '_' || item.is_ascii_alphanumeric()).collect();
                self.at += name.len();
                self.variable(word, &name, quoted)
            }
            Some(it) if matches!(it, '@' | '*' | '#' | '?' | '!' | '$' | '-') || it.is_ascii_digit() => {
                self.at += 1;
                // Usually the variable expands to nothing: the rest of the word is the program that runs.
                word.open = true;
                false
            }
            Some(_) | None => {
                word.text.push('$');
                false
            }
        }
    }

    fn variable(&mut self, word: &mut CommandWord, name: &str, quoted: bool) -> bool {
        if name == "IFS" && !quoted {
            return true;
        }
        match self.known.get(name) {
            Some(value) => word.text.push_str(value),
            None => {
                word.open = true;
                word.text.push('$');
                word.text.push_str(name);
            }
        }
        false
    }

    /// Reads `$'…'`, whose escapes are characters.
    fn escaped(&mut self, word: &mut CommandWord) {
        while let Some(it) = self.peek(0) {
            self.at += 1;
            match it {
                '\'' => return,
                '\\' => {
                    let kind = self.peek(0);
                    self.at += 1;
                    let read = match kind {
                        Some('x') => self.number(16, 2),
                        Some('u') => self.number(16, 4),
                        Some('U') => self.number(16, 8),
                        Some('0'..='7') => {
                            self.at -= 1;
                            self.number(8, 3)
                        }
                        Some('n') => Some('\n'),
                        Some('t') => Some('\t'),
                        other => other,
                    };
                    word.text.extend(read);
                }
                _ => word.text.push(it),
            }
        }
        self.script.unreadable = true;
    }

    fn number(&mut self, radix: u32, digits_max: usize) -> Option<char> {
        let rest = self.chars.get(self.at..)?;
        let digits: String = rest.iter().take(digits_max).take_while(|item| item.is_digit(radix)).collect();
        self.at += digits.len();
        u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32)
    }

    fn backtick(&mut self, word: &mut CommandWord) {
        self.at += 1;
        let mut inside = String::new();
        while let Some(it) = self.peek(0) {
            self.at += 1;
            match it {
                '`' => {
                    word.open = true;
                    word.runs.extend(within(&inside, self.depth + 1, self.script));
                    return;
                }
                '\\' => {
                    inside.extend(self.peek(0));
                    self.at += 1;
                }
                _ => inside.push(it),
            }
        }
        self.script.unreadable = true;
    }

    fn nested<R: Default>(&mut self, read: impl FnOnce(&mut Self) -> R) -> R {
        if self.depth >= DEPTH_MAX {
            self.script.unreadable = true;
            self.at = self.chars.len();
            return R::default();
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }
}

/// Expands `{a,b}` when it is the whole word: a list of words in disguise.
fn braces(word: CommandWord) -> Vec<CommandWord> {
    let inside = word.text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    match inside.filter(|inside| inside.contains(',') && !inside.contains('{')) {
        Some(inside) => {
            inside.split(',').map(|part| CommandWord { text: part.to_owned(), ..word.clone() }).collect()
        }
        None => vec![word],
    }
}
