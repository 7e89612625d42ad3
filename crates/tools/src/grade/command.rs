//! The commands that a command line runs.

/// The commands that a command line runs, as far as they can be told.
#[derive(Debug, Default)]
pub(super) struct ParsedCommandLine {
    pub(super) commands: Vec<ParsedCommand>,
    /// Something does not close, or is nested too deep, or too long.
    pub(super) unreadable: bool,
    /// It holds characters that make it look like something else.
    pub(super) disguised: bool,
}

/// One program with its arguments.
#[derive(Debug, Default, Clone)]
pub(super) struct ParsedCommand {
    /// The program and its arguments.
    pub(super) words: Vec<CommandWord>,
    /// Files that are written to.
    pub(super) written: Vec<CommandWord>,
    /// The programs whose output it reads.
    pub(super) upstream: Vec<String>,
}

/// One word, without its quotes.
#[derive(Debug, Default, Clone)]
pub(super) struct CommandWord {
    pub(super) text: String,
    /// Whether a part of it is only known when it runs.
    pub(super) open: bool,
    /// Programs that run to make it.
    pub(super) runs: Vec<String>,
}

impl CommandWord {
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), open: false, runs: Vec::new() }
    }
}

impl ParsedCommand {
    /// Returns the name of the program: without its folder and ending, in lower case, as a file system that does not
    /// mind would find it.
    pub(super) fn program(&self) -> String {
        self.words.first().map(|word| program(&word.text)).unwrap_or_default()
    }

    pub(super) fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.program().as_str())
    }

    pub(super) fn arguments(&self) -> &[CommandWord] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Returns the arguments that are no options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &str> {
        self.arguments().iter().map(|argument| argument.text.as_str()).filter(|it| !it.starts_with('-'))
    }

    /// Returns the first argument that is no option: of many programs the verb.
    pub(super) fn verb(&self) -> &str {
        self.operands().next().unwrap_or_default()
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.arguments().iter().any(|argument| argument.text.eq_ignore_ascii_case(word))
    }

    pub(super) fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.arguments().iter().any(|argument| test(&argument.text.to_ascii_lowercase()))
    }

    /// Says whether an option is there: a letter, alone or among others, or a long name or a beginning of it that GNU
    /// programs take for it.
    pub(super) fn flag(&self, letter: char, long: &str) -> bool {
        self.arguments().iter().any(|argument| {
            let text = argument.text.split_once('=').map_or(argument.text.as_str(), |(name, _)| name);
            match text.strip_prefix("--") {
                Some(name) => name.len() >= 3 && long.starts_with(&name.to_ascii_lowercase()),
                None => text.strip_prefix('-').is_some_and(|letters| {
                    letters.contains(letter) && letters.chars().all(|letter| letter.is_ascii_alphabetic())
                }),
            }
        })
    }
}

/// Returns the name of a program.
pub(super) fn program(text: &str) -> String {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let bare = [".exe", ".cmd", ".bat", ".com"].iter().find_map(|item| name.strip_suffix(item));
    bare.map(str::to_owned).unwrap_or(name)
}
