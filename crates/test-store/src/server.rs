//! A PostgreSQL server in a scratch folder, for as long as a test needs it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The server of all tests of this binary that run at the time.
static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());

const NOT_INSTALLED: &str = "there is no PostgreSQL server (apt-get install postgresql)";

/// Stops the server and removes its folder as soon as its input ends: when the test drops the server, and when the process
/// of the test ends, however it does.
const KEEPER: &str = r#"trap '' INT TERM HUP; cat >/dev/null; "$1" -w -D "$2/data" -m immediate stop >/dev/null 2>&1; rm -rf "$2""#;

/// A server that listens on a socket in a folder of its own. It syncs no file: the machine of a test does not lose power.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    user: Option<u32>,
    dir: PathBuf,
    keeper: Child,
    /// How many programs were run.
    runs: AtomicU64,
}

impl PostgresServer {
    /// Returns the server of this binary, started if it does not run; none where there is no PostgreSQL: then the test
    /// says so.
    pub fn start(test: &str) -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        match Self::spawn() {
            Ok(server) => {
                let server = Arc::new(server);
                *shared = Arc::downgrade(&server);
                Some(server)
            }
            Err(reason) => {
                report(test, &reason);
                None
            }
        }
    }

    /// Checks whether a server can be started; where it cannot, says that the test is not run.
    pub fn is_installed(test: &str) -> bool {
        let found = find_programs().is_some();
        if !found {
            report(test, NOT_INSTALLED);
        }
        found
    }

    /// Starts a server for one test, which may make it crash.
    pub fn start_own(test: &str) -> Option<Self> {
        Self::spawn().map_err(|reason| report(test, &reason)).ok()
    }

    /// Returns a command for `sh` that makes the server crash and starts it again.
    pub fn restart_command(&self) -> String {
        let (control, data) = (self.programs.join("pg_ctl"), self.dir.join("data"));
        let control = format!("{} -D {}", control.display(), data.display());
        let (log, settings) = (self.dir.join("log"), self.settings());
        let as_user = self.user.map_or_else(String::new, |user| {
            format!("setpriv --reuid={user} --regid={user} --clear-groups env PGUSER=postgres ")
        });
        let start = format!("-w -l {} -o '{settings}' start", log.display());
        format!(
            "cd / && {as_user}{control} -m immediate stop >/dev/null && {as_user}{control} {start} >/dev/null"
        )
    }

    fn settings(&self) -> String {
        // No file is synced: the machine of a test does not lose power.
        let socket = self.dir.display();
        format!("-k {socket} -c listen_addresses= -c fsync=off -c max_connections=800")
    }

    /// Starts a server.
    ///
    /// # Errors
    /// The reason why there is none, such as that PostgreSQL is not installed.
    pub fn spawn() -> Result<Self, String> {
        let programs = find_programs().ok_or(NOT_INSTALLED)?;
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?.keep();
        let user = find_user()?;
        if let Some(user) = user {
            std::os::unix::fs::chown(&dir, Some(user), None).map_err(|error| error.to_string())?;
        }
        let mut keeper = command(Path::new("sh"), user);
        keeper.arg("-c").arg(KEEPER).arg("sh").arg(programs.join("pg_ctl")).arg(&dir).current_dir("/");
        let quiet = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = quiet.spawn().map_err(|error| error.to_string())?;
        let server = Self { programs, user, dir, keeper, runs: AtomicU64::new(0) };
        let data = server.dir.join("data").display().to_string();
        let log = server.dir.join("log").display().to_string();
        server.run(
            "initdb",
            &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", &data],
        )?;
        let settings = server.settings();
        server.run("pg_ctl", &["-w", "-D", &data, "-l", &log, "-o", &settings, "start"])?;
        Ok(server)
    }

    /// Makes an empty database, and returns its address.
    ///
    /// # Panics
    /// When there is a database of that name.
    pub fn create_database(&self, name: &str) -> String {
        self.run_sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(name)
    }

    /// Returns the address of a database.
    pub fn url(&self, database: &str) -> String {
        url_at(&self.dir, database)
    }

    /// Runs statements, and returns the rows as text.
    ///
    /// # Panics
    /// When one fails.
    pub fn run_sql(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url(database)])
            .unwrap()
    }

    /// Makes a backup of a database by `pg_dump`, while others may use it.
    ///
    /// # Panics
    /// When the program fails.
    pub fn dump_database(&self, database: &str) -> PathBuf {
        let file = self.dir.join(format!("{database}.dump"));
        let path = file.display().to_string();
        self.run("pg_dump", &["-F", "c", "-f", &path, "-d", &self.url(database)]).unwrap();
        file
    }

    /// Restores a backup into a new database by `pg_restore`, and returns its address.
    ///
    /// # Panics
    /// When there is a database of that name, or the program fails.
    pub fn restore_database(&self, backup: &Path, name: &str) -> String {
        let (url, backup) = (self.create_database(name), backup.display().to_string());
        self.run("pg_restore", &["--exit-on-error", "-d", &url, &backup]).unwrap();
        url
    }

    /// Runs a program of the server to its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = command(&self.programs.join(program), self.user);
        let out = self.dir.join(format!("out{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        // A file, not a pipe: the server that a program starts would hold it open.
        let file = std::fs::File::create(&out).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.args(arguments).current_dir(&self.dir).env("LC_ALL", "C");
        let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
        let told = std::fs::read_to_string(&out).unwrap_or_default();
        std::fs::remove_file(&out).unwrap_or_default();
        match status {
            Ok(status) if status.success() => Ok(told.trim().to_owned()),
            Ok(_) => Err(format!("{program} {arguments:?}: {told}")),
            Err(error) => Err(format!("{program}: {error}")),
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().map(drop).unwrap_or_default();
    }
}

/// Says on the standard error, past the capture of the test runner, that a test was not run.
fn report(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "not run: {test}: {reason}").unwrap_or_default();
}

fn command(program: &Path, user: Option<u32>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command
}

/// Returns the address of a database by the folder of a socket.
pub fn url_at(dir: &Path, database: &str) -> String {
    format!("postgres:///{database}?host={}&port=5432&user=postgres", dir.display())
}

/// Finds the newest server that Debian or the search path has.
fn find_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.splice(0..0, std::env::split_paths(&path));
    found.into_iter().rev().find(|dir| dir.join("postgres").is_file() && dir.join("pg_ctl").is_file())
}

/// Returns the user that the server runs as, where the test runs as root: PostgreSQL refuses that one.
fn find_user() -> Result<Option<u32>, String> {
    let id = |arguments: &[&str]| -> Result<u32, String> {
        let told = Command::new("id").args(arguments).output().map_err(|error| error.to_string())?;
        String::from_utf8_lossy(&told.stdout).trim().parse().map_err(|_| format!("id {arguments:?} failed"))
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    id(&["-u", "postgres"]).or_else(|_| id(&["-u", "nobody"])).map(Some)
}
