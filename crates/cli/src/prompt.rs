//! Reading lines: with editing and history in a terminal, as they are from a pipe.

use std::io;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::error::{Error, Result};

/// How many lines are remembered.
const HISTORY_MAX: usize = 1000;

/// The user's input at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptInput {
    /// A line, without space around it.
    Line(String),
    /// Ctrl-C, Ctrl-D, or the end of the input.
    Nothing,
}

/// A line editor. Waiting for its input does not block other tasks.
pub(crate) struct PromptEditor {
    /// Always there, except while a line is read.
    editor: Option<Editor<(), FileHistory>>,
    history: PathBuf,
}

impl PromptEditor {
    /// Makes an editor that remembers lines in a file.
    pub(crate) fn new(history: PathBuf) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .and_then(|max_history_size| max_history_size.history_ignore_dups(true));
        let config = config.map_err(readline_error)?.auto_add_history(false).build();
        let mut editor = Editor::with_config(config).map_err(readline_error)?;
        match editor.load_history(&history) {
            Ok(()) => {}
            // Nothing was typed yet.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(readline_error(error)),
        }
        Ok(Self { editor: Some(editor), history })
    }

    /// Reads a line after a prompt, in its plain and its coloured form.
    pub(crate) async fn read_line(&mut self, plain: &str, coloured: Option<String>) -> Result<PromptInput> {
        let Some(mut editor) = self.editor.take() else { return Ok(PromptInput::Nothing) };
        let prompt = (plain.to_owned(), coloured.unwrap_or_else(|| plain.to_owned()));
        let reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline(&prompt);
            (editor, line)
        });
        let (editor, line) = reading.await.map_err(|error| Error::Input { source: error.into() })?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(PromptInput::Line(line.trim().to_owned())),
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(PromptInput::Nothing),
            Err(error) => Err(readline_error(error)),
        }
    }

    /// Keeps a line for the arrow keys, also for the next time.
    pub(crate) fn remember_line(&mut self, line: &str) -> Result<()> {
        let Some(editor) = &mut self.editor else { return Ok(()) };
        if editor.add_history_entry(line).map_err(readline_error)? {
            editor.append_history(&self.history).map_err(readline_error)?;
        }
        Ok(())
    }
}

fn readline_error(error: ReadlineError) -> Error {
    let source = match error {
        ReadlineError::Io(source) => source,
        other => io::Error::other(other),
    };
    Error::Input { source }
}

/// Reads the next line of the standard input; none at its end.
pub(crate) async fn read_stdin_line() -> Result<Option<String>> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let length = io::stdin().read_line(&mut line)?;
        Ok((length > 0).then_some(line))
    });
    let line = reading.await.unwrap_or_else(|reading| Err(reading.into()));
    line.map_err(|source| Error::Input { source })
}
