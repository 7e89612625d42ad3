//! The narration file: the lines that are written to it, and the lines that are removed from it.

use std::time::UNIX_EPOCH;

use singletree_narration::{NarrationOwner, NarrationPurpose, NarrationSpeaker};
use tempfile::TempDir;

use super::*;

fn owner(tenant: &str, session: &str) -> NarrationRingOwner {
    NarrationRingOwner::from_narration_owner(NarrationOwner { tenant, session })
}

fn said(content: &str) -> NarrationMessage {
    let (role, kind) = (NarrationSpeaker::System, NarrationPurpose::Status);
    NarrationMessage { timestamp: UNIX_EPOCH, role, kind, content: content.into() }
}

fn line(session: &str, content: &str) -> String {
    format!(
        "{{\"tenant\":\"t\",\"session\":\"{session}\",\"timestamp\":\"1970-01-01T00:00:00.000Z\",\
         \"role\":\"system\",\"kind\":\"status\",\"content\":\"{content}\"}}\n"
    )
}

struct Folder {
    folder: TempDir,
    limits: NarrationLimits,
}

impl Folder {
    fn new(limits: NarrationLimits) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), limits }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("narration.jsonl")
    }

    fn open(&self) -> NarrationFile {
        NarrationFile::open_with_writer(self.path(), &self.limits).unwrap()
    }

    /// Returns the contents of both files, the rotated one first.
    fn read(&self) -> [String; 2] {
        [path_with_suffix(&self.path(), ".1"), self.path()]
            .map(|it| fs::read_to_string(it).unwrap_or_default())
    }
}

// spec: agent-chat-output §6, §7.1: append-only, also over restarts
#[test]
fn lines_are_added_at_the_end_of_what_is_there() {
    let folder = Folder::new(NarrationLimits::default());
    for content in ["a", "b"] {
        folder.open().enqueue_line(&owner("t", "s"), &said(content));
    }
    assert_eq!(folder.read(), [String::new(), line("s", "a") + &line("s", "b")]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

// INV-12
#[test]
fn a_full_file_is_put_aside_and_the_one_before_is_dropped() {
    let folder = Folder::new(NarrationLimits { file_bytes: 300, ..NarrationLimits::default() });
    for content in ["a", "b", "c", "d", "e"] {
        folder.open().enqueue_line(&owner("t", "s"), &said(content));
    }
    assert_eq!(folder.read(), [line("s", "c") + &line("s", "d"), line("s", "e")]);
    // One that is longer than a file may be stands alone.
    let long = "x".repeat(400);
    let file = folder.open();
    file.enqueue_line(&owner("t", "s"), &said(&long));
    file.enqueue_line(&owner("t", "s"), &said("f"));
    drop(file);
    assert_eq!(folder.read(), [line("s", &long), line("s", "f")]);
}

// D25
#[test]
fn what_is_forgotten_is_taken_out_of_both_files_and_out_of_what_waits() {
    let folder = Folder::new(NarrationLimits { file_bytes: 300, ..NarrationLimits::default() });
    for (session, content) in [("s", "a"), ("s2", "b"), ("s", "c")] {
        folder.open().enqueue_line(&owner("t", session), &said(content));
    }
    let file = folder.open();
    file.enqueue_line(&owner("t", "s"), &said("d"));
    file.enqueue_line(&owner("u", "s"), &said("other"));
    file.forget_session(&owner("t", "s"));
    file.enqueue_line(&owner("t", "s"), &said("new"));
    drop(file);
    let other = line("s", "other").replace("\"t\"", "\"u\"");
    assert_eq!(folder.read(), [line("s2", "b"), other + &line("s", "new")]);
    let file = folder.open();
    file.forget_all_sessions();
    drop(file);
    assert_eq!(folder.read(), ["", ""]);
}

#[test]
fn names_of_any_kind_are_forgotten_as_themselves() {
    let folder = Folder::new(NarrationLimits::default());
    let names = ["a", "a\",\"session\":\"b", "\\", "é\u{2028}", "a "];
    let file = folder.open();
    for name in names {
        file.enqueue_line(&owner("t", name), &said("x"));
    }
    drop(file);
    for (gone, name) in (1..).zip(names) {
        let file = folder.open();
        file.forget_session(&owner("t", name));
        drop(file);
        assert_eq!(folder.read()[1].lines().count(), names.len() - gone, "{name:?}");
    }
}

// A sink that cannot keep up drops: nothing here waits for the thread, which is not even there.
#[test]
fn what_waits_is_bounded_and_the_oldest_is_dropped() {
    let limits = NarrationLimits::default();
    let desk = NarrationFileQueue { waiting: Mutex::default(), changed: Condvar::new(), waiting_bytes: 300 };
    desk.lock_pending_lines().over = true;
    let file = NarrationFile { desk: Arc::new(desk) };
    for content in ["a", "b", "c"] {
        file.enqueue_line(&owner("t", "s"), &said(content));
    }
    let waiting: Vec<_> = file.desk.lock_pending_lines().lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(waiting, [line("s", "b"), line("s", "c")]);
    for no in 0..=FORGOTTEN {
        file.forget_session(&owner("t", &no.to_string()));
    }
    let waiting = file.desk.lock_pending_lines();
    assert!(!waiting.all && waiting.forgotten.is_tenant_forgotten("t") && waiting.lines.is_empty());
    drop(waiting);
    drop((file, limits));
}

// INV-14
#[test]
fn a_tenant_that_forgets_very_many_sessions_takes_out_no_line_of_another() {
    let folder = Folder::new(NarrationLimits::default());
    let mut file = folder.open();
    file.enqueue_line(&owner("a", "s"), &said("of a"));
    file.enqueue_line(&owner("b", "s"), &said("of b"));
    drop(file);
    // Nothing is written meanwhile, so that all of it is to be done at once.
    let desk =
        NarrationFileQueue { waiting: Mutex::default(), changed: Condvar::new(), waiting_bytes: 1 << 20 };
    desk.lock_pending_lines().over = true;
    file = NarrationFile { desk: Arc::new(desk) };
    for no in 0..=FORGOTTEN {
        file.forget_session(&owner("b", &no.to_string()));
    }
    let desk = file.desk.clone();
    drop(file);
    NarrationFileWriter { path: folder.path(), max: u64::MAX }.run_until_closed(&desk);
    let left = folder.read()[1].clone();
    assert!(left.contains("of a") && !left.contains("of b"), "{left}");
}

#[test]
fn what_is_no_plain_file_is_refused_and_a_folder_that_goes_away_is_survived() {
    let folder = Folder::new(NarrationLimits::default());
    assert!(NarrationFile::open_with_writer(folder.folder.path().to_owned(), &folder.limits).is_err());
    let path = folder.folder.path().join("gone/narration.jsonl");
    assert!(NarrationFile::open_with_writer(path.clone(), &folder.limits).is_err());
    fs::create_dir(path.parent().unwrap()).unwrap();
    let file = NarrationFile::open_with_writer(path.clone(), &folder.limits).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    file.enqueue_line(&owner("t", "s"), &said("lost"));
    file.forget_session(&owner("t", "s"));
    drop(file);
    assert!(!path.exists());
}
