//! A PostgreSQL server in a scratch folder, for as long as a test needs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use singletree_env::Env;
use singletree_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

/// The server of all tests of this binary that run at the time.
static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    dir: tempfile::TempDir,
}

impl Server {
    /// Returns the server of this binary, started if it does not run; none where there is no PostgreSQL: then the test
    /// says so.
    pub(crate) async fn start(test: &str) -> Option<Arc<Self>> {
        let server = {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            match shared.upgrade() {
                Some(server) => server,
                None => match Self::spawn() {
                    Ok(server) => {
                        let server = Arc::new(server);
                        *shared = Arc::downgrade(&server);
                        server
                    }
                    Err(reason) => {
                        writeln!(std::io::stderr(), "not run: {test}: {reason}").unwrap_or_default();
                        return None;
                    }
                },
            }
        };
        server.wait_until_it_answers().await;
        Some(server)
    }

    /// Starts a server for one test, which changes its settings.
    pub(crate) async fn start_own(test: &str) -> Option<Self> {
        match Self::spawn() {
            Ok(server) => {
                server.wait_until_it_answers().await;
                Some(server)
            }
            Err(reason) => {
                writeln!(std::io::stderr(), "not run: {test}: {reason}").unwrap_or_default();
                None
            }
        }
    }

    async fn wait_until_it_answers(&self) {
        for _ in 0..600 {
            if tokio_postgres::connect(&self.url("postgres"), NoTls).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not answer: {:?}", std::fs::read_to_string(self.dir.path().join("log")));
    }

    fn spawn() -> Result<Self, String> {
        let programs = find_programs().ok_or("there is no PostgreSQL server (apt-get install postgresql)")?;
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let user = find_user()?;
        let data = dir.path().join("data");
        if let Some(user) = user {
            std::os::unix::fs::chown(dir.path(), Some(user), None).map_err(|error| error.to_string())?;
        }
        let log = std::fs::File::create(dir.path().join("log")).map_err(|error| error.to_string())?;
        let made = command(&programs.join("initdb"), user)
            .current_dir(dir.path())
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap())
            .status()
            .map_err(|error| error.to_string())?;
        if !made.success() {
            return Err(format!("initdb failed: {:?}", std::fs::read_to_string(dir.path().join("log"))));
        }
        let child = command(&programs.join("postgres"), user)
            .current_dir(dir.path())
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(dir.path())
            // No file is synced: the machine of a test does not lose power.
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        Ok(Self { child, dir })
    }

    /// Returns the folder of the server's socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        url_at(self.dir.path(), database)
    }

    /// Makes an empty database, unless it is there, and returns a connection to it.
    pub(crate) async fn database(&self, name: &str) -> Client {
        let (admin, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls).await.unwrap();
        let running = tokio::spawn(connection);
        // It may be there from an earlier call.
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap_or_default();
        drop(admin);
        running.await.unwrap().unwrap();
        let (client, connection) = tokio_postgres::connect(&self.url(name), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data goes with the folder.
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}

/// Returns the address of a database by the folder of a socket.
pub(crate) fn url_at(dir: &Path, database: &str) -> String {
    format!("host={} port=5432 user=postgres dbname={database} sslmode=disable", dir.display())
}

/// Opens a store whose lease does not end during a test by itself.
pub(crate) async fn open(url: &str) -> PostgresStore {
    let options = PostgresOptions::new(url, Env::from_system()).lease(Duration::from_secs(60));
    options.connections(4).open().await.unwrap()
}

/// Finds the newest server that Debian or the search path has.
fn find_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.splice(0..0, std::env::split_paths(&path));
    found.into_iter().rev().find(|dir| dir.join("postgres").is_file() && dir.join("initdb").is_file())
}

/// Returns the user that the server runs as, where the test runs as root: PostgreSQL refuses that one.
pub(crate) fn find_user() -> Result<Option<u32>, String> {
    let id = |arguments: &[&str]| -> Result<u32, String> {
        let told = Command::new("id").args(arguments).output().map_err(|error| error.to_string())?;
        String::from_utf8_lossy(&told.stdout).trim().parse().map_err(|_| format!("id {arguments:?} failed"))
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    id(&["-u", "postgres"]).or_else(|_| id(&["-u", "nobody"])).map(Some)
}

pub(crate) fn command(program: &Path, user: Option<u32>) -> Command {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}
