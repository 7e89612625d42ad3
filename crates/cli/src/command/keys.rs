//! `singletree keys`: who may ask a server.
//!
//! Where no server has the database, the keys in it are changed at once; where one has, it is asked to.

use std::sync::Arc;
use std::time::Duration;

use singletree::durable::{Error as StoreError, TenantId};
use singletree::engine::{RandomIds, SystemClock};
use singletree::env::SystemRandomSource;
use singletree::http::{Method, Secret};
use singletree_protocol::native::{ApiKey, CreateKey, KeyList, KeyScope, KeyState, KeyWithSecret, RotateKey};
use singletree_server::{Keyring, NewKey, ServerLimits};

use crate::args::{Keys, KeysOf, ScopeName};
use crate::erasure_log::ErasureLog;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::operator::{OperatorClient, find_shared_server_url};
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::who::read_env_variable;
use crate::wire::Workspace;

/// Who changes keys on the command line, as audits have it.
const BY: &str = "operator";
/// How many keys are asked for at once.
const PAGE: u64 = 1000;

/// Runs the command.
pub(crate) async fn run_keys_command(args: Keys) -> Result<u8> {
    let of = args.keyring_options().clone();
    let mut screen = TerminalOutput::standard_output();
    match (args, KeyringAccess::find_keyring(&of).await?) {
        (Keys::Create { name, scopes, expires, .. }, place) => {
            let made = place.create_key(name, scopes, expires).await?;
            print_secret(&mut screen, &made, of.common.json)?;
        }
        (Keys::Rotate { id, grace, now, .. }, place) => {
            let grace = if now { Duration::ZERO } else { grace };
            let rotated = place.rotate_key(&id, grace).await?;
            print_secret(&mut screen, &rotated, of.common.json)?;
        }
        (Keys::Revoke { id, .. }, place) => {
            let revoked = place.revoke_key(&id).await?;
            match of.common.json {
                true => json::print_json(&mut screen, &revoked)?,
                false => screen.write_line(&format!("taken back: {}", format_key_line(&revoked)))?,
            }
        }
        (Keys::List { .. }, place) => {
            let keys = place.list_keys().await?;
            match of.common.json {
                true => json::print_json(&mut screen, &keys)?,
                false if keys.is_empty() => screen.write_line("no keys")?,
                false => keys.iter().try_for_each(|key| screen.write_line(&format_key_line(key)))?,
            }
        }
    }
    Ok(COMPLETED)
}

/// Where the keys are.
enum KeyringAccess {
    /// In a database that nobody else has open.
    Here { workspace: Box<Workspace>, keyring: Keyring, tenant: TenantId },
    /// Behind a server.
    There { remote: OperatorClient, tenant: Option<String> },
}

impl KeyringAccess {
    async fn find_keyring(of: &KeysOf) -> Result<Self> {
        if let Some(url) = &of.url {
            let key = of.key_env.as_deref().and_then(read_env_variable).filter(|it| !it.trim().is_empty());
            // It may be the key itself: its name is not told.
            let missing = || Error::Usage("the variable that --key-env names is not set".to_owned());
            let remote = OperatorClient::new(url, Secret::new(key.ok_or_else(missing)?.trim()))?;
            return Ok(Self::There { remote, tenant: of.tenant.clone() });
        }
        let name = of.tenant.clone().unwrap_or_else(|| TenantId::single().to_string());
        let tenant = singletree_server::parse_tenant_name(&name)?;
        let place = DatabaseLocation::from_options(&of.common.db)?;
        if find_shared_server_url(&place).await.is_some()
            && let Some(remote) = OperatorClient::find_for_database(&place)?
        {
            return Ok(Self::There { remote, tenant: Some(name) });
        }
        match Workspace::open_without_agents(&place, "keys").await {
            Ok(workspace) => {
                let documents = Arc::new(workspace.store.clone());
                let (clock, ids, entropy) =
                    (Arc::new(SystemClock), Arc::new(RandomIds), Arc::new(SystemRandomSource));
                let kept = ServerLimits::default().audit_kept;
                let keyring = Keyring::open_offline(documents, clock, ids, entropy, kept)
                    .recording_revocations(Some(Arc::new(ErasureLog(workspace.store.clone()))));
                Ok(Self::Here { workspace: Box::new(workspace), keyring, tenant })
            }
            Err(Error::Open { source: source @ StoreError::Locked { .. } }) => {
                match OperatorClient::find_for_database(&place)? {
                    Some(remote) => Ok(Self::There { remote, tenant: Some(name) }),
                    None => Err(Error::Open { source }),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn create_key(
        self,
        name: String,
        scopes: Vec<ScopeName>,
        expires: Option<Duration>,
    ) -> Result<KeyWithSecret> {
        let usual = [ScopeName::Read, ScopeName::Write, ScopeName::Approve];
        let scopes = if scopes.is_empty() { usual.to_vec() } else { scopes };
        let scopes: Vec<KeyScope> = scopes.into_iter().map(to_key_scope).collect();
        match self {
            Self::Here { workspace, keyring, tenant } => {
                let made =
                    keyring.create_key(&tenant, NewKey { name, scopes, expires_in: expires }, BY).await;
                workspace.close_gracefully().await;
                let (key, secret) = made?;
                Ok(KeyWithSecret { key, secret: secret.expose().to_owned() })
            }
            Self::There { remote, tenant } => {
                let expires_in = expires.map(|it| it.as_secs());
                let asked = CreateKey { name: Some(name), scopes: Some(scopes), expires_in, tenant };
                remote.request_json(Method::Post, "/v1/keys", Some(&asked)).await
            }
        }
    }

    async fn rotate_key(self, id: &str, grace: Duration) -> Result<KeyWithSecret> {
        match self {
            Self::Here { workspace, keyring, tenant } => {
                let rotated = keyring.rotate_key(&tenant, id, grace, BY).await;
                workspace.close_gracefully().await;
                let (key, secret) = rotated?;
                Ok(KeyWithSecret { key, secret: secret.expose().to_owned() })
            }
            Self::There { remote, tenant } => {
                let path = format!(
                    "/v1/keys/{}/rotate{}",
                    percent_encode(id),
                    format_tenant_query(tenant.as_deref())
                );
                remote
                    .request_json(Method::Post, &path, Some(&RotateKey { grace: Some(grace.as_secs()) }))
                    .await
            }
        }
    }

    async fn revoke_key(self, id: &str) -> Result<ApiKey> {
        match self {
            Self::Here { workspace, keyring, tenant } => {
                let revoked = keyring.revoke_key(&tenant, id, BY).await;
                workspace.close_gracefully().await;
                Ok(revoked?)
            }
            Self::There { remote, tenant } => {
                let path =
                    format!("/v1/keys/{}{}", percent_encode(id), format_tenant_query(tenant.as_deref()));
                remote.request_json(Method::Delete, &path, None::<&()>).await
            }
        }
    }

    /// Lists all keys: a tenant has a thousand at most.
    async fn list_keys(self) -> Result<Vec<ApiKey>> {
        match self {
            Self::Here { workspace, keyring, tenant } => {
                let listed = keyring.list_keys(&tenant, None, PAGE).await;
                workspace.close_gracefully().await;
                Ok(listed?.items)
            }
            Self::There { remote, tenant } => {
                let mut path = format!("/v1/keys{}", format_tenant_query(tenant.as_deref()));
                path.push(if path.contains('?') { '&' } else { '?' });
                let listed: KeyList =
                    remote.request_json(Method::Get, &format!("{path}limit={PAGE}"), None::<&()>).await?;
                Ok(listed.items)
            }
        }
    }
}

/// Prints a secret alone on the standard output, for scripts, and its description on the standard error, for people.
fn print_secret(screen: &mut TerminalOutput, key: &KeyWithSecret, as_json: bool) -> Result<()> {
    if as_json {
        json::print_json(screen, key)?;
        return Ok(());
    }
    screen.write_line(&key.secret)?;
    let mut beside = TerminalOutput::standard_error();
    beside.write_styled_line(TextStyle::Dim, &format_key_line(&key.key))?;
    beside.write_styled_line(TextStyle::Dim, "this is the only time that the key is shown")?;
    Ok(())
}

fn format_key_line(key: &ApiKey) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| key_scope_name(*scope)).collect();
    let mut line = format!("{}  {}  {}  {}", key.id, key.tenant, key.name, scopes.join(","));
    match key.state {
        KeyState::Active => {}
        KeyState::Expired => line += "  expired",
        KeyState::Revoked => line += "  revoked",
    }
    for (what, at) in [
        ("until", &key.expires_at),
        ("last used", &key.last_used_at),
        ("old secret until", &key.old_secret_until),
    ] {
        if let Some(at) = at {
            line += &format!("  {what} {}", at.0);
        }
    }
    line
}

fn to_key_scope(name: ScopeName) -> KeyScope {
    match name {
        ScopeName::Read => KeyScope::Read,
        ScopeName::Write => KeyScope::Write,
        ScopeName::Approve => KeyScope::Approve,
        ScopeName::Admin => KeyScope::Admin,
    }
}

fn key_scope_name(scope: KeyScope) -> &'static str {
    match scope {
        KeyScope::Read => "read",
        KeyScope::Write => "write",
        KeyScope::Approve => "approve",
        KeyScope::Admin => "admin",
    }
}

fn format_tenant_query(tenant: Option<&str>) -> String {
    tenant.map(|tenant| format!("?tenant={}", percent_encode(tenant))).unwrap_or_default()
}

/// Writes a text so that it can stand in an address (RFC 3986 §2.1).
fn percent_encode(text: &str) -> String {
    let plain = |it: &u8| it.is_ascii_alphanumeric() || b"-_.~".contains(it);
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_an_address_is_one_word() {
        assert_eq!(percent_encode("acme-1_.~"), "acme-1_.~");
        assert_eq!(percent_encode("a/b?c=d&e é"), "a%2Fb%3Fc%3Dd%26e%20%C3%A9");
        assert_eq!(
            (format_tenant_query(None), format_tenant_query(Some("a b"))),
            (String::new(), "?tenant=a%20b".to_owned())
        );
    }
}
