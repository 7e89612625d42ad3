//! The address of a PostgreSQL database, which may contain a password.

use std::str::FromStr;

use singletree::http::Secret;

/// The schemes that an address may have.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The port where none is named.
const PORT: u16 = 5432;

/// The most letters in the name of the files that belong to a database.
const FILE_NAME_MAX: usize = 100;

/// The address of a PostgreSQL database. Only the connection gets its password: every text shows the address without it.
#[derive(Debug, Clone)]
pub(crate) struct StoreUrl {
    url: Secret,
    shown: String,
}

impl StoreUrl {
    /// Returns the whole address, for the connection.
    pub(crate) fn expose(&self) -> &str {
        self.url.expose()
    }

    /// Returns the host or the folder of sockets, and the port: the place that a connection to this address is made to.
    /// None when there are several.
    pub(crate) fn single_place(&self) -> Option<(String, u16)> {
        let AddressParts { host, query, .. } = AddressParts::from_url(self.url.expose())?;
        let parameter = |name: &str| {
            let mut values = query.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            (values.next(), values.next().is_none())
        };
        let ((named_host, one_host), (named_port, one_port)) = (parameter("host"), parameter("port"));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        let host = named_host.filter(|_| host.is_empty()).unwrap_or(host);
        let port = named_port.filter(|_| port.is_empty()).unwrap_or(port);
        let is_one = one_host && one_port && !host.is_empty() && !host.contains(',');
        let port = if port.is_empty() { Some(PORT) } else { port.parse().ok() };
        port.filter(|_| is_one).map(|port| (host.replace("%2F", "/"), port))
    }

    /// Returns the address with another place: a port of this machine.
    pub(crate) fn at_local_port(&self, port: u16) -> Option<String> {
        let AddressParts { user, database, query, .. } = AddressParts::from_url(self.url.expose())?;
        let is_place = |pair: &&str| pair.starts_with("host=") || pair.starts_with("port=");
        let kept: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !is_place(pair)).collect();
        let at = if user.is_empty() { "" } else { "@" };
        let mark = if kept.is_empty() { "" } else { "?" };
        Some(format!("postgres://{user}{at}127.0.0.1:{port}/{database}{mark}{}", kept.join("&")))
    }

    /// Returns the address without its password, and without parameters other than host and port.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the name of the files of this user that belong to the database, in place of its own name as a file.
    pub(crate) fn file_name(&self) -> String {
        let name = self.shown.split_once("://").map_or(self.shown.as_str(), |(_, name)| name);
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = name.chars().map(plain).take(FILE_NAME_MAX).collect();
        format!("postgres-{name}")
    }
}

/// The parts of an address.
struct AddressParts<'a> {
    /// With its password.
    user: &'a str,
    /// With its port.
    host: &'a str,
    database: &'a str,
    query: &'a str,
}

impl<'a> AddressParts<'a> {
    fn from_url(text: &'a str) -> Option<Self> {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        Some(Self { user, host, database, query })
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: it may contain a password.
        let parts = AddressParts::from_url(text).ok_or("not an address as postgres://USER@HOST/DATABASE")?;
        let AddressParts { user, host, database, query } = parts;
        let user = user.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { "" } else { "@" };
        let is_shown = |pair: &&str| pair.starts_with("host=") || pair.starts_with("port=");
        let kept: Vec<&str> = query.split('&').filter(is_shown).collect();
        let mark = if kept.is_empty() { "" } else { "?" };
        let shown = format!("postgres://{user}{at}{host}/{database}{mark}{}", kept.join("&"));
        Ok(Self { url: Secret::new(text), shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoreUrl {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://ann:s3cret@db:5433/chat", "postgres://ann@db:5433/chat"),
            ("postgresql://ann:s3@cret@db/chat?sslmode=require", "postgres://ann@db/chat"),
            ("postgres:///chat?host=/run&password=s3cret&port=1", "postgres:///chat?host=/run&port=1"),
            ("postgres://db", "postgres://db/"),
        ] {
            let url = parse(text);
            assert_eq!((url.expose(), url.shown()), (text, shown));
            assert!(!format!("{url:?} {}", url.file_name()).contains("s3"), "{text}");
        }
    }

    #[test]
    fn an_address_with_one_place_can_be_moved_to_a_port_of_this_machine() {
        for (text, place, moved) in [
            ("postgres://ann:x@db:1/chat?a=b", ("db", 1), "postgres://ann:x@127.0.0.1:9/chat?a=b"),
            ("postgres://db", ("db", 5432), "postgres://127.0.0.1:9/"),
            ("postgres:///c?host=/run&port=2&user=ann", ("/run", 2), "postgres://127.0.0.1:9/c?user=ann"),
            ("postgres://%2Frun/c", ("/run", 5432), "postgres://127.0.0.1:9/c"),
        ] {
            let url = parse(text);
            assert_eq!(url.single_place(), Some((place.0.to_owned(), place.1)), "{text}");
            assert_eq!(url.at_local_port(9).as_deref(), Some(moved));
        }
        for several in ["postgres://a,b/chat", "postgres:///chat?host=a&host=b", "postgres:///chat"] {
            assert_eq!(parse(several).single_place(), None, "{several}");
        }
    }

    #[test]
    fn another_scheme_is_refused_without_being_repeated() {
        for wrong in ["", "mysql://ann:s3cret@db/chat", "/var/lib/chat.db"] {
            let error = wrong.parse::<StoreUrl>().unwrap_err();
            assert!(error.contains("postgres://USER@HOST/DATABASE") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_files_of_a_database_have_a_name_of_plain_letters() {
        assert_eq!(parse("postgres://ann:x@db:5433/chat").file_name(), "postgres-ann-db-5433-chat");
        let long = format!("postgres://db/{}", "é/".repeat(200));
        assert!(parse(&long).file_name().len() <= FILE_NAME_MAX + "postgres-".len());
    }
}
