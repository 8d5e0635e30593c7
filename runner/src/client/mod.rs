//! A client of the HTTP API: one typed method for each route the commands use.

pub(crate) mod connection;
mod error;
mod routes;

use std::sync::Once;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stokehold_api::wire::{PROBLEM_MEDIA_TYPE, Problem};

pub(crate) use connection::Connection;
pub(crate) use error::ClientError;
pub(crate) use routes::JobQuery;

/// How long an ordinary request may take, connecting included.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A server and the key to it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: String,
}

/// A request before it is sent.
struct Call {
    request: RequestBuilder,
    limit: Duration,
}

impl Client {
    /// A client of the server at `base`. Nothing is sent yet.
    pub(crate) fn new(base: Url, key: String) -> Result<Self, reqwest::Error> {
        install_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("stokehold/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&base) {
            // A proxy set for the world must not swallow requests to this machine.
            builder = builder.no_proxy();
        }
        Ok(Client { http: builder.build()?, base, key })
    }

    /// The server's address.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    fn call(&self, method: Method, path: &[&str]) -> Call {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        let request = self.http.request(method, url).bearer_auth(&self.key);
        Call { request, limit: REQUEST_LIMIT }
    }

    async fn send(&self, call: Call) -> Result<reqwest::Response, ClientError> {
        let limit = call.limit;
        let response = call
            .request
            .timeout(limit)
            .send()
            .await
            .map_err(|source| self.unanswered(source, limit))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.problem(response, limit).await)
    }

    async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let limit = call.limit;
        let response = self.send(call).await?;
        response.json().await.map_err(|source| self.unanswered(source, limit))
    }

    async fn problem(&self, response: reqwest::Response, limit: Duration) -> ClientError {
        let status = response.status();
        let header = |name| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (kind, request_id) = (header(header::CONTENT_TYPE.as_str()), header("x-request-id"));
        if !kind.starts_with(PROBLEM_MEDIA_TYPE) {
            return ClientError::bare(status, request_id);
        }
        match response.json::<Problem>().await {
            Ok(mut problem) => {
                if problem.instance.is_empty() {
                    problem.instance = request_id;
                }
                ClientError::Problem(Box::new(problem))
            }
            Err(source) if source.is_decode() => ClientError::bare(status, request_id),
            Err(source) => self.unanswered(source, limit),
        }
    }

    fn unanswered(&self, source: reqwest::Error, limit: Duration) -> ClientError {
        let url = self.url().to_owned();
        // The address stands in our own sentence already.
        let source = source.without_url();
        if source.is_decode() {
            ClientError::Nonsense { url, source }
        } else if source.is_timeout() && !source.is_connect() {
            ClientError::TimedOut { url, limit }
        } else {
            ClientError::Unreachable { url, source }
        }
    }
}

impl Call {
    fn json<T: Serialize>(self, body: &T) -> Self {
        Call { request: self.request.json(body), ..self }
    }

    fn query<T: Serialize + ?Sized>(self, query: &T) -> Self {
        Call { request: self.request.query(query), ..self }
    }

    fn limit(self, limit: Duration) -> Self {
        Call { limit, ..self }
    }
}

/// Makes ring the process's provider of cryptography, once.
pub(crate) fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only when there is one already, which then serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_escaped_and_a_base_path_is_kept() {
        let base = Url::parse("http://localhost:1/behind/a/proxy/").unwrap();
        let client = Client::new(base, "k".into()).unwrap();
        let call = client.call(Method::GET, &["kinds", "../x y?"]);
        let url = call.request.build().unwrap().url().to_string();
        assert_eq!(url, "http://localhost:1/behind/a/proxy/v1/kinds/..%2Fx%20y%3F");
    }

    #[test]
    fn this_machine_is_recognised() {
        for (url, local) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("https://example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), local, "{url}");
        }
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_unreachable() {
        // Bound and dropped: free, and most likely to stay so for a moment.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let base = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let client = Client::new(base, "k".into()).unwrap();
        let error = client.kinds().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("no Stokehold server answers at http://127.0.0.1:{port}")
        );
    }
}
