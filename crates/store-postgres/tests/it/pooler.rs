//! pgbouncer in transaction mode before the server of the tests.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use tokio_postgres::NoTls;

use crate::server::{Server, command, find_user, url_at};

#[derive(Debug)]
pub(crate) struct Pooler {
    child: Child,
    dir: tempfile::TempDir,
}

impl Pooler {
    /// Starts it; none where there is no pgbouncer: then the test says so.
    pub(crate) async fn start(test: &str, server: &Server) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let user = find_user().unwrap();
        if let Some(user) = user {
            std::os::unix::fs::chown(dir.path(), Some(user), None).unwrap();
        }
        // Each transaction of a client is at another connection, as it would be beside other clients.
        let settings = format!(
            "[databases]\n* = host={} port=5432 user=postgres\n\n[pgbouncer]\nunix_socket_dir = {}\nlisten_port = 5432\n\
             listen_addr =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 8\nmin_pool_size = 4\n\
             server_round_robin = 1\n",
            server.socket_dir().display(),
            dir.path().display()
        );
        let file = dir.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
        let Some(program) = program.iter().map(std::path::Path::new).find(|it| it.is_file()) else {
            let reason = "there is no pgbouncer (apt-get install pgbouncer)";
            writeln!(std::io::stderr(), "not run: {test}: {reason}").unwrap_or_default();
            return None;
        };
        let mut pgbouncer = command(program, user);
        let pgbouncer = pgbouncer.arg(&file).current_dir(dir.path()).stdout(Stdio::null()).stderr(log);
        let pooler = Self { child: pgbouncer.spawn().unwrap(), dir };
        for _ in 0..600 {
            if tokio_postgres::connect(&pooler.url("postgres"), NoTls).await.is_ok() {
                return Some(pooler);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(pooler.dir.path().join("log")).unwrap();
        panic!("the pooler does not answer: {:?}", log.lines().last());
    }

    /// Returns the address of a database of the server, through the pooler.
    pub(crate) fn url(&self, database: &str) -> String {
        url_at(self.dir.path(), database)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}
