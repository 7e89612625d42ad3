//! The address of a database: the part for the driver, and the parameters of this store.

use std::net::IpAddr;

use singletree_durable::Result;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::unavailable_error;

const POOLER: &str = "pooler";
const TENANT_ROLE: &str = "tenant_role";

/// The longest name of a role in PostgreSQL, in bytes.
const ROLE_LENGTH_MAX: usize = 63;

/// An address of a database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DatabaseAddress {
    /// The address as the driver reads it.
    pub(crate) url: String,
    /// Whether a pooler gives each transaction another connection of the database, which does not know statements that were
    /// prepared before.
    pub(crate) is_pooled: bool,
    /// The role under which statements for one tenant run, which row-level security confines to the rows of that tenant.
    pub(crate) tenant_role: Option<String>,
}

impl DatabaseAddress {
    /// Takes the parameters of this store out of an address. Any other one is the driver's to accept or to refuse.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let mut address = Self { url: String::new(), is_pooled: false, tenant_role: None };
        if let Some((place, query)) = url.split_once('?').filter(|(place, _)| place.contains("://")) {
            let mut rest = Vec::new();
            for pair in query.split('&') {
                if !address.take_parameter(pair)? {
                    rest.push(pair);
                }
            }
            let mark = if rest.is_empty() { "" } else { "?" };
            address.url = format!("{place}{mark}{}", rest.join("&"));
            return Ok(address);
        }
        // A list of parameters, whose values may hold spaces: those of this store are its last ones.
        let mut rest = url;
        while let Some((before, pair)) = rest.trim_end().rsplit_once(' ') {
            if !address.take_parameter(pair)? {
                break;
            }
            rest = before;
        }
        address.url = rest.to_owned();
        Ok(address)
    }

    /// Takes a parameter, if it is one of this store.
    fn take_parameter(&mut self, pair: &str) -> Result<bool> {
        match pair.split_once('=') {
            Some((POOLER, "transaction")) => self.is_pooled = true,
            Some((TENANT_ROLE, role)) => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                if role.is_empty() || role.len() > ROLE_LENGTH_MAX || !role.bytes().all(is_plain) {
                    let why = "tenant_role must be at most 63 letters, digits and underscores";
                    return Err(unavailable_error("read its address", why));
                }
                self.tenant_role = Some(role.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Tells whether all connections stay on this machine: they need no encryption, and a certificate that a package made
/// for the server proves nothing.
pub(crate) fn is_on_this_machine(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let named = config.get_hostaddrs();
    config.get_hosts().iter().all(is_local) && named.iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn an_address_says_whether_a_pooler_is_in_between_and_who_a_tenant_is() {
        for (url, rest, is_pooled, role) in [
            ("postgres://u@h/d?pooler=transaction", "postgres://u@h/d", true, None),
            (
                "postgres://u@h/d?sslmode=require&pooler=transaction&port=1",
                "postgres://u@h/d?sslmode=require&port=1",
                true,
                None,
            ),
            ("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require", false, None),
            ("postgres://u@h/d?pooler=session", "postgres://u@h/d?pooler=session", false, None),
            (
                "postgres://u@h/d?tenant_role=one_tenant&sslmode=require&pooler=transaction",
                "postgres://u@h/d?sslmode=require",
                true,
                Some("one_tenant"),
            ),
            ("host=h dbname=d pooler=transaction", "host=h dbname=d", true, None),
            ("host=h dbname=d pooler=transaction tenant_role=r", "host=h dbname=d", true, Some("r")),
            ("host=h dbname=d", "host=h dbname=d", false, None),
            ("host=h dbname='a pooler=session'", "host=h dbname='a pooler=session'", false, None),
        ] {
            let tenant_role = role.map(str::to_owned);
            let expected = DatabaseAddress { url: rest.to_owned(), is_pooled, tenant_role };
            assert_eq!(DatabaseAddress::parse(url).unwrap(), expected, "{url}");
        }
        Config::from_str("postgres://u@h/d?pooler=session").unwrap_err();
        let too_long = format!("postgres://u@h/d?tenant_role={}", "r".repeat(64));
        for url in ["postgres://u@h/d?tenant_role=", "host=h tenant_role=\"x\"", &too_long] {
            DatabaseAddress::parse(url).unwrap_err();
        }
    }

    #[test]
    fn only_addresses_of_this_machine_need_no_encryption() {
        let check = |url: &str, is_local: bool| {
            assert_eq!(is_on_this_machine(&Config::from_str(url).unwrap()), is_local, "{url}");
        };
        check("postgres://u@127.0.0.1/d", true);
        check("postgres://u@LOCALHOST:5433/d", true);
        check("postgres://u@[::1]/d", true);
        check("postgres:///d?host=/run/postgresql", true);
        check("postgres://u@127.0.0.1,10.0.0.1/d", false);
        check("postgres://u@10.0.0.1/d", false);
        check("postgres://u@localhost.example.com/d", false);
        check("host=localhost hostaddr=10.0.0.1", false);
    }
}
