//! A PostgreSQL server in a scratch folder, for as long as a test needs it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The server of all tests of this binary that run at the time.
static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());

#[derive(Debug)]
pub(crate) struct PostgresServer {
    programs: PathBuf,
    user: Option<u32>,
    dir: tempfile::TempDir,
}

impl PostgresServer {
    /// Returns the server of this binary, started if it does not run; none where there is no PostgreSQL: then the test
    /// says so.
    pub(crate) fn start(test: &str) -> Option<Arc<Self>> {
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
                eprintln!("not run: {test}: {reason}");
                None
            }
        }
    }

    /// Starts a server for one test, which may make it crash.
    pub(crate) fn start_own(test: &str) -> Option<Self> {
        Self::spawn().map_err(|reason| eprintln!("not run: {test}: {reason}")).ok()
    }

    /// Returns a command for `sh` that makes the server crash and starts it again.
    pub(crate) fn restart_command(&self) -> String {
        let (control, data) = (self.programs.join("pg_ctl"), self.dir.path().join("data"));
        let control = format!("{} -D {}", control.display(), data.display());
        let (log, settings) = (self.dir.path().join("log"), self.settings());
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
        let socket = self.dir.path().display();
        format!("-k {socket} -c listen_addresses= -c fsync=off -c max_connections=200")
    }

    fn spawn() -> Result<Self, String> {
        let programs = find_programs().ok_or("there is no PostgreSQL server (apt-get install postgresql)")?;
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let user = find_user()?;
        if let Some(user) = user {
            std::os::unix::fs::chown(dir.path(), Some(user), None).map_err(|error| error.to_string())?;
        }
        let server = Self { programs, user, dir };
        let data = server.dir.path().join("data").display().to_string();
        let log = server.dir.path().join("log").display().to_string();
        server.run(
            "initdb",
            &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", &data],
        )?;
        let settings = server.settings();
        server.run("pg_ctl", &["-w", "-D", &data, "-l", &log, "-o", &settings, "start"])?;
        Ok(server)
    }

    /// Makes an empty database, and returns its address.
    pub(crate) fn create_database(&self, name: &str) -> String {
        self.run_sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(name)
    }

    /// Returns the address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        url_at(self.dir.path(), database)
    }

    /// Runs a statement, and returns the rows as text.
    pub(crate) fn run_sql(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url(database)])
            .unwrap()
    }

    /// Runs a program of the server to its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.programs.join(program));
        if let Some(user) = self.user {
            command.uid(user);
        }
        let out = self.dir.path().join("out");
        // A file, not a pipe: the server that a program starts would hold it open.
        let file = std::fs::File::create(&out).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.args(arguments).current_dir(self.dir.path()).env("LC_ALL", "C");
        let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
        let told = std::fs::read_to_string(&out).unwrap_or_default();
        match status {
            Ok(status) if status.success() => Ok(told.trim().to_owned()),
            Ok(_) => Err(format!("{program} {arguments:?}: {told}")),
            Err(error) => Err(format!("{program}: {error}")),
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let data = self.dir.path().join("data").display().to_string();
        // Its data goes with the folder.
        self.run("pg_ctl", &["-w", "-D", &data, "-m", "immediate", "stop"]).unwrap_or_default();
    }
}

/// Returns the address of a database by the folder of a socket.
pub(crate) fn url_at(dir: &Path, database: &str) -> String {
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
