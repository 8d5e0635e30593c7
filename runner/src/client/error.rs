//! What can go wrong between the command line and the server.

use std::time::Duration;

use stokehold_api::wire::Problem;

/// A request that did not get the answer it wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody answered at the address.
    #[error("no Stokehold server answers at {url}")]
    Unreachable {
        /// The server's address.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The server took the request and did not answer in time. Whether it took effect is unknown.
    #[error("the server at {url} did not answer within {} s", limit.as_secs())]
    TimedOut {
        /// The server's address.
        url: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The server answered with a problem.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// What came back is not an answer of this API.
    #[error("the answer of {url} makes no sense to this version of stokehold")]
    Nonsense {
        /// The address asked.
        url: String,
        /// What the parser said.
        #[source]
        source: reqwest::Error,
    },
}

impl ClientError {
    /// The same request may succeed in a moment without anybody changing it.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => true,
            ClientError::Problem(problem) => matches!(problem.status, 429 | 502..=504),
            ClientError::Nonsense { .. } => false,
        }
    }

    /// The problem that stands for an error answer without a problem body: one of a proxy, say.
    pub(super) fn bare(status: reqwest::StatusCode, request_id: String) -> Self {
        ClientError::Problem(Box::new(Problem {
            type_uri: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("error").to_owned(),
            status: status.as_u16(),
            detail: format!("the server answered {status} and did not say why"),
            instance: request_id,
            code: format!("http.{}", status.as_u16()),
            hint: Some(
                "Is the address that of a Stokehold server, and not of something else?".into(),
            ),
            errors: Vec::new(),
        }))
    }
}
