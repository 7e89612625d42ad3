//! Row-level security: a second lock beside the tenant in every query.
//!
//! Statements for one tenant run under a role that owns nothing and sees only the rows of the tenant that its transaction names
//! ([`StatementRunner`](crate::database::StatementRunner)). Statements about all tenants, such as those of the heartbeat, sweeps
//! and deadlines, run as the user of the address, who owns the tables.

use deadpool_postgres::Object;
use singletree_durable::Result;
use tokio_postgres::types::Type;

use crate::database::bind;
use crate::error::unavailable_error;
use crate::migration::{lock_schema, query_row};

const DOING: &str = "confine statements to a tenant";

/// Whether the role is confined by policies, whether the user may act as it, and whether the user itself is not confined.
const CHECK_ROLE: &str = "\
    SELECT NOT (r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, c.relowner, 'MEMBER')), \
      pg_has_role(u.oid, r.oid, 'MEMBER'), u.rolsuper OR u.rolbypassrls OR pg_has_role(u.oid, c.relowner, 'USAGE') \
    FROM pg_roles r, pg_roles u, pg_class c \
    WHERE r.rolname = $1 AND u.rolname = current_user AND c.oid = 'singletree.session'::regclass";

/// The tables that the role cannot use yet, or without a policy, and whether they have the tenant in each row.
const FIND_TABLES: &str = "\
    SELECT c.relname::text, EXISTS (SELECT 1 FROM pg_attribute a \
      WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped) \
    FROM pg_class c WHERE c.relnamespace = 'singletree'::regnamespace AND c.relkind IN ('r', 'p') \
      AND c.relname NOT IN ('meta', 'node') AND NOT (c.relrowsecurity \
        AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'of_tenant') \
        AND has_table_privilege($1, c.oid, 'SELECT') AND has_table_privilege($1, c.oid, 'INSERT') \
        AND has_table_privilege($1, c.oid, 'UPDATE') AND has_table_privilege($1, c.oid, 'DELETE')) \
    ORDER BY c.relname";

/// Whether the role may use the tables and sequences that are of no tenant.
const CHECK_SHARED: &str = "\
    SELECT has_schema_privilege($1, 'singletree', 'USAGE') AND has_table_privilege($1, 'singletree.meta', 'SELECT') \
      AND has_table_privilege($1, 'singletree.node', 'SELECT') AND has_table_privilege($1, 'singletree.node', 'DELETE') \
      AND NOT EXISTS (SELECT 1 FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid \
        WHERE c.relnamespace = 'singletree'::regnamespace AND NOT has_sequence_privilege($1, q.seqrelid, 'USAGE'))";

/// The tenant that a transaction names.
const NAMED_TENANT: &str = "current_setting('singletree.tenant', true)";

/// Checks that a role is confined by policies and can be taken on.
pub(crate) async fn check_tenant_role(client: &Object, role: &str) -> Result<()> {
    let rows = client.query_typed(CHECK_ROLE, &[bind(&role, Type::TEXT)]).await;
    let rows = rows.map_err(|error| unavailable_error(DOING, error))?;
    let refused = |why: String| Err(unavailable_error(DOING, why));
    let Some(row) = rows.first() else { return refused(format!("there is no role {role}")) };
    match (row.get(0), row.get(1), row.get(2)) {
        (false, _, _) => refused(format!("the role {role} owns the tables or bypasses row-level security")),
        (_, false, _) => refused(format!("the user of the address is no member of the role {role}")),
        (_, _, false) => refused("the user of the address does not own the tables".to_owned()),
        (true, true, true) => Ok(()),
    }
}

/// Gives a role the rows of the tenant that a transaction names, in all tables. Each table is changed in a transaction of its own:
/// it waits for the statements of other processes on this table only.
pub(crate) async fn confine_tenant_role(client: &mut Object, role: &str) -> Result<()> {
    check_tenant_role(client, role).await?;
    let failed = |error: tokio_postgres::Error| unavailable_error(DOING, error);
    let parameters = [bind(&role, Type::TEXT)];
    if !query_row(&***client, CHECK_SHARED, &parameters, DOING).await?.get::<_, bool>(0) {
        let grants = format!(
            "GRANT USAGE ON SCHEMA singletree TO {role}; GRANT SELECT ON singletree.meta TO {role}; \
             GRANT SELECT, DELETE ON singletree.node TO {role}; \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA singletree TO {role}"
        );
        change_schema(client, &grants).await?;
    }
    let tables = client.query_typed(FIND_TABLES, &parameters).await.map_err(failed)?;
    for row in tables {
        let (table, has_tenant): (&str, bool) = (row.get(0), row.get(1));
        let is_of_tenant = match has_tenant {
            true => format!("tenant = {NAMED_TENANT}"),
            false => format!(
                "EXISTS (SELECT 1 FROM singletree.session s WHERE s.id = {table}.session AND s.tenant = {NAMED_TENANT})"
            ),
        };
        let policy = format!(
            "ALTER TABLE singletree.{table} ENABLE ROW LEVEL SECURITY; \
             DROP POLICY IF EXISTS of_tenant ON singletree.{table}; \
             CREATE POLICY of_tenant ON singletree.{table} USING ({is_of_tenant}); \
             GRANT SELECT, INSERT, UPDATE, DELETE ON singletree.{table} TO {role}"
        );
        change_schema(client, &policy).await?;
    }
    Ok(())
}

/// Runs statements in one transaction, under the lock of the schema.
async fn change_schema(client: &mut Object, statements: &str) -> Result<()> {
    let failed = |error: tokio_postgres::Error| unavailable_error(DOING, error);
    let change = client.transaction().await.map_err(failed)?;
    lock_schema(&change).await?;
    change.batch_execute(statements).await.map_err(failed)?;
    change.commit().await.map_err(failed)
}
