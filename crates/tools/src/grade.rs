//! How dangerous a shell command looks.
//!
//! It grades; it never authorises. A shell can say the same thing in more ways than any table holds, so that a grade
//! of `safe` means no more than that nothing here was recognised: whether a command runs is for the approval policy
//! and the sandbox to say. The grade is for the person who is asked for an approval.
//!
//! The command is read the way a shell reads it (quotes, escapes, substitutions, pipes, wrappers such as `sudo` and
//! `env`, scripts within scripts), and the table is asked about the programs that would run, not about the text.

mod command;
mod rules;
mod shell;
mod windows;
mod wrappers;

use command::ParsedCommandLine;
use rules::RuleMatcher;

/// How long a command may be, in bytes, to be read at all.
const BYTES_MAX: usize = 64 * 1024;

/// How dangerous something looks, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing was recognised. No promise.
    Safe,
    /// Something that a person should see.
    Warning,
    /// Something that cannot be undone, or that hands the machine over.
    Critical,
}

impl Severity {
    /// Returns the severity as it is written in files and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Where a command is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Nobody knows: it is read in every way.
    All,
    /// A POSIX shell.
    Unix,
    /// `cmd` or PowerShell.
    Windows,
}

/// A rule of the table.
#[derive(Debug)]
pub struct GradingRule {
    /// Names it for ever.
    pub id: &'static str,
    /// In a few words.
    pub label: &'static str,
    /// Why it is there.
    pub description: &'static str,
    /// The category of the danger.
    pub category: &'static str,
    /// How dangerous a match looks.
    pub severity: Severity,
    /// Where it holds.
    pub platform: Platform,
    test: RuleMatcher,
}

/// How dangerous a command looks, and why.
#[derive(Debug, Clone)]
pub struct CommandGrade {
    /// The highest severity of the matched rules; safe when none matched.
    pub severity: Severity,
    /// The matched rules, in the order of the table.
    pub matched: Vec<&'static GradingRule>,
}

/// Returns the table.
pub fn rules() -> impl Iterator<Item = &'static GradingRule> {
    rules::all()
}

/// Grades a command. Pure; the work is bounded.
#[must_use]
pub fn grade(command: &str, platform: Platform) -> CommandGrade {
    let (unix, windows) = match platform {
        Platform::All => (true, true),
        Platform::Unix => (true, false),
        Platform::Windows => (false, true),
    };
    let read =
        if command.len() > BYTES_MAX { &command[..command.floor_char_boundary(BYTES_MAX)] } else { command };
    let mut scripts: Vec<(Platform, ParsedCommandLine)> = Vec::new();
    if unix {
        scripts.push((Platform::Unix, shell::read(read)));
    }
    if windows {
        scripts.push((Platform::Windows, windows::read(read)));
    }
    for (_, script) in &mut scripts {
        script.unreadable |= read.len() < command.len();
        script.disguised |= command.chars().any(is_disguise);
    }
    let matches = |rule: &&GradingRule| {
        let here = |platform: Platform| rule.platform == Platform::All || rule.platform == platform;
        scripts.iter().any(|(platform, script)| here(*platform) && rule.test.holds(script))
    };
    let matched: Vec<&'static GradingRule> = rules::all().filter(matches).collect();
    let severity = matched.iter().map(|it| it.severity).max().unwrap_or(Severity::Safe);
    CommandGrade { severity, matched }
}

/// Says whether a character can make a command look like another: one that is not seen, that turns the direction, or
/// that looks like ASCII.
fn is_disguise(it: char) -> bool {
    let unseen = it.is_control() && !matches!(it, '\n' | '\t' | '\r');
    unseen
        || matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(it, '\u{feff}' | '\u{ff01}'..='\u{ff5e}' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{3000}')
        || matches!(it, '\u{e0000}'..='\u{e007f}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests;
