//! The output: colours on a terminal, plain text elsewhere. Text of a model, a tool or a user cannot control the
//! terminal: invisible characters are printed as escapes.

use std::io::{self, IsTerminal, Write};

use singletree::config::ConfigReport;
use singletree::draw::{visible_json, visible_text};
use unicode_width::UnicodeWidthStr as _;

/// How many columns are used where nobody says how many there are.
const COLUMNS: usize = 100;

/// How a piece of text looks in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// As it is.
    Plain,
    /// Less important text: activity, remarks.
    Dim,
    /// Text that needs attention.
    Strong,
    /// Errors.
    Wrong,
}

impl TextStyle {
    fn escape_sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Strong => "\x1b[1m",
            Self::Wrong => "\x1b[31m",
        }
    }
}

/// Where text is written to.
pub(crate) struct TerminalOutput {
    out: Box<dyn Write>,
    colours: bool,
    /// How many columns it has.
    columns: usize,
    /// Whether the last line has not ended yet.
    open: bool,
    /// How text that comes by pieces is broken into lines, where a person reads on.
    wrap: Option<LineWrapper>,
    /// Whether a sign of life stands on the current line, to be replaced by whatever comes next.
    has_status: bool,
}

/// Breaks text between words, by the width that they take on the screen.
#[derive(Debug, Default)]
struct LineWrapper {
    /// How far the line is.
    column: usize,
    /// The word that has not ended yet.
    word: String,
}

impl LineWrapper {
    /// Takes the next piece of a text and returns the part to write now; a word is kept until it ends.
    fn wrap_piece(&mut self, text: &str, columns: usize) -> String {
        let mut written = String::new();
        for letter in text.chars() {
            match letter {
                '\n' => {
                    self.end_word(&mut written, columns);
                    written.push('\n');
                    self.column = 0;
                }
                ' ' => {
                    self.end_word(&mut written, columns);
                    // One at the edge would begin the next line.
                    if self.column < columns {
                        written.push(' ');
                        self.column += 1;
                    }
                }
                letter => {
                    // Text without spaces is broken before ideographs, and not before closing punctuation.
                    if is_ideograph(letter) {
                        self.end_word(&mut written, columns);
                    }
                    self.word.push(letter);
                }
            }
        }
        written
    }

    /// Writes the word, on the next line where it does not fit. One that fits on no line is left to the terminal.
    fn end_word(&mut self, written: &mut String, columns: usize) {
        let word = std::mem::take(&mut self.word);
        let width = word.width();
        if self.column > INDENT.len() && self.column + width > columns {
            written.push('\n');
            written.push_str(INDENT);
            self.column = INDENT.len();
        }
        self.column += width;
        written.push_str(&word);
    }
}

/// Checks whether a letter is a Chinese or Japanese one, each of which may begin a line.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{30FA}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}')
        || matches!(letter, '\u{20000}'..='\u{3FFFD}')
}

/// The indentation of later lines of a text, so that none of them looks like a line of the program.
const INDENT: &str = "    ";

/// Takes a sign of life off the current line.
const CLEAR: &str = "\r\x1b[K";

impl TerminalOutput {
    /// The standard output.
    pub(crate) fn standard_output() -> Self {
        let out = io::stdout();
        let colours = wants_colours(out.is_terminal());
        let columns = detect_columns().unwrap_or(COLUMNS);
        Self { out: Box::new(out), colours, columns, open: false, wrap: None, has_status: false }
    }

    /// The standard error.
    pub(crate) fn standard_error() -> Self {
        let err = io::stderr();
        let colours = wants_colours(err.is_terminal());
        Self { out: Box::new(err), colours, columns: COLUMNS, open: false, wrap: None, has_status: false }
    }

    /// Anything else.
    #[cfg(test)]
    pub(crate) fn with_writer(out: Box<dyn Write>, colours: bool) -> Self {
        Self { out, colours, columns: COLUMNS, open: false, wrap: None, has_status: false }
    }

    /// Returns the same screen for somebody who reads on: lines are broken between words, and a sign of life is shown
    /// while nothing else is.
    pub(crate) fn into_interactive(self) -> Self {
        Self { wrap: Some(LineWrapper::default()), ..self }
    }

    /// Tells whether somebody reads on.
    pub(crate) fn is_interactive(&self) -> bool {
        self.wrap.is_some()
    }

    /// Shows a sign of life until something else is written; nothing where nobody reads on.
    pub(crate) fn show_status(&mut self, text: &str) -> io::Result<()> {
        if !self.is_interactive() || self.open {
            return Ok(());
        }
        self.clear_status()?;
        let text = visible_text(text);
        let painted = self.apply_style(TextStyle::Dim, &text).unwrap_or_else(|| text.to_string());
        write!(self.out, "{painted}")?;
        self.has_status = true;
        self.out.flush()
    }

    fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_status) { self.out.write_all(CLEAR.as_bytes()) } else { Ok(()) }
    }

    /// Returns how many columns there are: as the user says in `COLUMNS`, else as the terminal does, else 100.
    pub(crate) fn column_count(&self) -> usize {
        self.columns
    }

    /// Writes a piece of a line, at once.
    pub(crate) fn write_piece(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        let text = visible_text(text);
        match &mut self.wrap {
            Some(wrap) => self.out.write_all(wrap.wrap_piece(&text, self.columns).as_bytes())?,
            None => self.out.write_all(text.as_bytes())?,
        }
        self.open = !text.ends_with('\n');
        self.out.flush()
    }

    /// Ends the line that was begun by pieces, if one was.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.clear_status()?;
        if let Some(wrap) = &mut self.wrap {
            let mut word = String::new();
            wrap.end_word(&mut word, self.columns);
            wrap.column = 0;
            self.out.write_all(word.as_bytes())?;
        }
        if std::mem::take(&mut self.open) { writeln!(self.out) } else { Ok(()) }
    }

    /// Writes whole lines.
    pub(crate) fn write_line(&mut self, text: &str) -> io::Result<()> {
        self.write_styled_line(TextStyle::Plain, text)
    }

    /// Writes whole lines in a style.
    pub(crate) fn write_styled_line(&mut self, style: TextStyle, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = visible_text(text.strip_suffix('\n').unwrap_or(text));
        match self.apply_style(style, &text) {
            Some(painted) => writeln!(self.out, "{painted}")?,
            None => writeln!(self.out, "{text}")?,
        }
        self.out.flush()
    }

    /// Writes a JSON document: it stays the same value, and nothing of it steers the terminal.
    pub(crate) fn write_json(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.out, "{}", visible_json(text))?;
        self.out.flush()
    }

    /// Writes an error on one line.
    pub(crate) fn write_error(&mut self, category: &str, text: &str) -> io::Result<()> {
        self.end_line()?;
        let word = self.apply_style(TextStyle::Wrong, "error").unwrap_or_else(|| "error".to_owned());
        writeln!(self.out, "{word}: {category}: {}", visible_text(text))?;
        self.out.flush()
    }

    /// Writes a warning on one line. A warning stops nothing.
    pub(crate) fn write_warning(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let word = self.apply_style(TextStyle::Wrong, "warning").unwrap_or_else(|| "warning".to_owned());
        writeln!(self.out, "{word}: {}", visible_text(&text.replace(['\n', '\r'], " ")))?;
        self.out.flush()
    }

    /// Writes the mistakes in a file: their number, then each mistake on lines of its own.
    pub(crate) fn write_config_report(&mut self, category: &str, report: &ConfigReport) -> io::Result<()> {
        let count = match report.mistakes.len() {
            1 => "1 mistake".to_owned(),
            many => format!("{many} mistakes"),
        };
        self.write_error(category, &format!("{} has {count}", report.file))?;
        self.write_line(&report.to_string())
    }

    /// Returns a text with its style, where there are styles.
    pub(crate) fn apply_style(&self, style: TextStyle, text: &str) -> Option<String> {
        (self.colours && style != TextStyle::Plain)
            .then(|| format!("{}{text}\x1b[0m", style.escape_sequence()))
    }
}

/// Returns text of others as one line: a newline in it is an escape, too.
pub(crate) fn to_single_line(text: &str) -> String {
    visible_text(text).replace('\n', "\\n")
}

/// Finds out how many columns the standard output has.
fn detect_columns() -> Option<usize> {
    let asked = std::env::var_os("COLUMNS").and_then(|value| value.to_str()?.parse().ok());
    let asked = asked.filter(|asked| *asked > 0);
    #[cfg(unix)]
    let told = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let told = None::<usize>;
    asked.or(told.filter(|told| *told > 0))
}

/// Says whether to colour: only in a terminal, and not where the user wants none (no-color.org).
fn wants_colours(terminal: bool) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let plain = std::env::var_os("TERM").is_none_or(|value| value == "dumb");
    terminal && !unwanted && !plain
}

#[cfg(test)]
mod tests {
    use super::LineWrapper;

    #[test]
    fn text_without_spaces_is_written_as_it_comes_and_broken_between_letters() {
        let mut wrap = LineWrapper::default();
        assert_eq!(wrap.wrap_piece("日本", 8), "日");
        assert_eq!(wrap.wrap_piece("語。文", 8), "本語。");
        // The closing stop stays with its letter.
        assert_eq!(wrap.wrap_piece("x\n", 8), "\n    文x\n");
    }
}
