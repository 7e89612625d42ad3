//! Which agents this process can go on with, as its row says it.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{Result, ServedGraphs};
use tokio_postgres::types::Type;

use crate::database::bind;
use crate::store::PostgresStoreInner;

const DOING: &str = "register its agents";

/// The agents that were announced, and whether the row of this process says so.
#[derive(Debug, Default)]
pub(crate) struct Announcement {
    pub(crate) served: Option<ServedGraphs>,
    /// The number of the owner in whose row they are.
    registered: Option<i64>,
}

impl PostgresStoreInner {
    /// Has the agents of this process written into its row: at once, or else with a later heartbeat.
    pub(crate) fn announce_graphs(self: &Arc<Self>, served: ServedGraphs) {
        {
            let mut announced = self.lock_announced();
            let is_known = match &announced.served {
                Some(before) => *before == served,
                // Who has announced nothing has nothing to take back.
                None => served.graphs.is_empty(),
            };
            if is_known {
                return;
            }
            (announced.served, announced.registered) = (Some(served), None);
        }
        let inner = self.clone();
        drop(self.run_in_background(async move { inner.register_graphs().await }));
    }

    /// Writes the announced agents into the row of this process, unless they are there.
    pub(crate) async fn register_graphs(&self) -> Result<()> {
        let owner = self.owner();
        let Some(served) = ({
            let announced = self.lock_announced();
            announced.served.clone().filter(|_| announced.registered != Some(owner))
        }) else {
            return Ok(());
        };
        let serves =
            json!({ "graphs": served.graphs, "tenant": served.tenant.as_ref().map(|it| it.as_str()) });
        let serves = serves.to_string();
        let sql = "UPDATE singletree.node SET serves = $2::jsonb WHERE incarnation = $1";
        let parameters = [bind(&owner, Type::INT8), bind(&serves, Type::TEXT)];
        let written = self.heartbeat.of_all_tenants().run_statement(sql, &parameters, DOING).await;
        written.map_err(|failure| failure.into_error(DOING))?;
        let mut announced = self.lock_announced();
        if announced.served.as_ref() == Some(&served) {
            announced.registered = Some(owner);
        }
        Ok(())
    }

    /// Returns the time, in milliseconds, before which a turn was accepted that is not left to other processes.
    pub(crate) fn oldest_turn_left(&self) -> i64 {
        let age = self.lock_announced().served.as_ref().map(|served| served.turn_age);
        age.map_or(i64::MIN, |age| {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            self.env.clock.now().as_millis().saturating_sub(age)
        })
    }
}
