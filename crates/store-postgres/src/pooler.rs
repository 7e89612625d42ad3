//! Whether a pooler gives the database connections of a process to other processes between its transactions.
//!
//! pgbouncer does so with `pool_mode = transaction`. A statement that was prepared by name on such a connection may later not
//! exist there, or be the statement of another process with the same name, which the database then runs with our values.

use std::collections::BTreeSet;

use deadpool_postgres::Object;
use singletree_durable::Result;
use tokio_postgres::error::SqlState;

use crate::database::Database;
use crate::error::{POOLER_NOT_NAMED, unavailable_error};

/// Reads the server process that answers, and the number of its statements with a name of the kind that this driver gives. A
/// pooler that renames statements prepares each one again where it is missing, so that they work.
const READ_PROCESS: &str = "SELECT pg_backend_pid(), \
                     (SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^s[0-9]+$')";

/// Which of two connections asks. A pooler that gives out the connection that came back last gives both the same one; one that
/// gives them out in turn gives each several.
const ORDER: [usize; 7] = [0, 0, 1, 0, 1, 1, 0];

/// One answer: which connection asked, the server process that answered, and the number of statements with a name.
type Answer = (usize, i32, i64);

/// Checks that statements can be prepared by name: each connection keeps its server process for as long as it is open, or the
/// pooler renames statements. A pooler that happens to give each connection the same process every time is not noticed.
pub(crate) async fn check_named_statements(database: &Database) -> Result<()> {
    const DOING: &str = "open";
    if database.is_pooled() {
        return Ok(());
    }
    let clients = [database.connect(DOING).await?, database.connect(DOING).await?];
    match ask_by_name(&clients).await {
        Ok(answers) if !are_connections_shared(&answers) => Ok(()),
        Err(error) if !is_of_another_statement(&error) => Err(unavailable_error(DOING, error)),
        Ok(_) | Err(_) => {
            // They are not used again: statements of other processes may be prepared there.
            let [first, second] = clients;
            drop((Object::take(first), Object::take(second)));
            Err(unavailable_error(DOING, POOLER_NOT_NAMED))
        }
    }
}

async fn ask_by_name(clients: &[Object; 2]) -> std::result::Result<Vec<Answer>, tokio_postgres::Error> {
    let statements = [clients[0].prepare(READ_PROCESS).await?, clients[1].prepare(READ_PROCESS).await?];
    let mut answers = Vec::with_capacity(ORDER.len());
    for at in ORDER {
        let row = clients[at].query_one(&statements[at], &[]).await?;
        answers.push((at, row.try_get(0)?, row.try_get(1)?));
    }
    Ok(answers)
}

/// Tells whether a connection changed its server process, or shared it with the other one, while statements kept their names.
fn are_connections_shared(answers: &[Answer]) -> bool {
    let processes: BTreeSet<(usize, i32)> = answers.iter().map(|&(at, process, _)| (at, process)).collect();
    let distinct: BTreeSet<i32> = processes.iter().map(|&(_, process)| process).collect();
    let is_one_each = processes.len() == 2 && distinct.len() == 2;
    !is_one_each && answers.iter().any(|&(_, _, named)| named > 0)
}

/// Tells whether a prepared statement did not exist, existed already, or was another one.
fn is_of_another_statement(error: &tokio_postgres::Error) -> bool {
    let states =
        [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT, SqlState::PROTOCOL_VIOLATION];
    error.code().is_some_and(|code| states.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_when_their_processes_change_or_are_the_same_under_our_names() {
        let own = [(0, 7, 1), (0, 7, 1), (1, 8, 1), (0, 7, 1), (1, 8, 1)];
        let same = [(0, 7, 2), (1, 7, 2), (0, 7, 2)];
        let changing = [(0, 7, 1), (1, 8, 1), (0, 8, 1)];
        let in_turn = [(0, 7, 0), (1, 8, 1), (0, 9, 0), (1, 8, 1)];
        let renamed = [(0, 7, 0), (1, 7, 0), (0, 8, 0)];
        for (answers, shared) in
            [(&own[..], false), (&same, true), (&changing, true), (&in_turn, true), (&renamed, false)]
        {
            assert_eq!(are_connections_shared(answers), shared, "{answers:?}");
        }
    }
}
