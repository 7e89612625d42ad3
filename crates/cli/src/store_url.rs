//! The address of a PostgreSQL database, which may contain a password.

use std::str::FromStr;

use singletree::http::Secret;

/// The schemes that an address may have.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

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

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        // The text is not repeated: it may contain a password.
        let rest = rest.ok_or("not an address as postgres://USER@HOST/DATABASE")?;
        let (place, query) = rest.split_once('?').map_or((rest, ""), |(place, query)| (place, query));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
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
