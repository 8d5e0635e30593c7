//! Which server a command talks to, and with which key.

use clap::Args;
use reqwest::Url;

use super::fault::Fault;
use crate::client::{Client, Connection};

/// Where the server is.
#[derive(Args, Clone)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The server's address; without it, that of the running `stokehold dev`
    #[arg(long, global = true, env = "STOKEHOLD_URL", hide_env_values = true, value_name = "URL",
          value_parser = url)]
    pub(crate) url: Option<Url>,
    /// The API key; better in the environment, where no process list shows it
    #[arg(long, global = true, env = "STOKEHOLD_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Server {
    /// The client, by flags, environment and then what `stokehold dev` left.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let stored = match (&self.url, &self.key) {
            (Some(_), Some(_)) => None,
            _ => Connection::load()?,
        };
        let (url, key) = self.resolve(stored)?;
        Ok(Client::new(url, key)?)
    }

    fn resolve(&self, stored: Option<Connection>) -> Result<(Url, String), Fault> {
        let place = || match Connection::path() {
            Some(path) => format!("{} does not exist", path.display()),
            None => "there is no HOME to look for a running `stokehold dev`".to_owned(),
        };
        let (stored_url, stored_key) = match stored {
            Some(stored) => (Some(url(&stored.url).map_err(Fault::invalid)?), Some(stored.key)),
            None => (None, None),
        };
        let url = self.url.clone().or_else(|| stored_url.clone()).ok_or_else(|| {
            Fault::usage(format!(
                "which server? Neither --url nor STOKEHOLD_URL is set, and {}",
                place()
            ))
            .hint("Start one on this machine with `stokehold dev`, or give --url and --key.")
        })?;
        // The stored key is for the stored address and for no other.
        let stored_key = stored_key.filter(|_| stored_url.as_ref() == Some(&url));
        let key = self.key.clone().or(stored_key).ok_or_else(|| {
            Fault::usage(format!("no API key for {}", url.as_str().trim_end_matches('/')))
                .hint("Give it with STOKEHOLD_KEY or --key; `stokehold key create` makes one.")
        })?;
        Ok((url, key))
    }
}

/// Reads a server's address.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let wanted = || format!("{text:?} is not the address of a server: write http://HOST:PORT");
    let url = Url::parse(text).map_err(|_| wanted())?;
    let usable = matches!(url.scheme(), "http" | "https") && url.has_host();
    if usable { Ok(url) } else { Err(wanted()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Option<Connection> {
        Some(Connection { url: "http://127.0.0.1:1".into(), key: "stored".into() })
    }

    #[test]
    fn flags_come_before_what_dev_left() {
        let nothing = Server { url: None, key: None };
        let (found, key) = nothing.resolve(stored()).unwrap();
        assert_eq!((found.port(), key.as_str()), (Some(1), "stored"));
        let both = Server { url: Some(url("http://x:2").unwrap()), key: Some("given".into()) };
        let (found, key) = both.resolve(stored()).unwrap();
        assert_eq!((found.port(), key.as_str()), (Some(2), "given"));
    }

    #[test]
    fn the_stored_key_is_never_sent_to_another_server() {
        let elsewhere = Server { url: Some(url("http://x:2").unwrap()), key: None };
        let fault = elsewhere.resolve(stored()).unwrap_err();
        assert_eq!(fault.message, "no API key for http://x:2");
        let same = Server { url: Some(url("http://127.0.0.1:1/").unwrap()), key: None };
        assert_eq!(same.resolve(stored()).unwrap().1, "stored");
    }

    #[test]
    fn without_any_server_the_way_to_one_is_named() {
        let fault = Server { url: None, key: None }.resolve(None).unwrap_err();
        assert!(fault.hint.unwrap().contains("stokehold dev"));
        for bad in ["localhost:8470", "ftp://x", "", "http://"] {
            assert!(url(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
