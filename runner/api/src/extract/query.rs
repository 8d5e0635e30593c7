//! Queries: parameters are taken out one by one, and what nobody took is refused by name.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::problem::ApiError;

/// The query's parameters that nobody has taken yet.
pub(crate) struct QueryParams(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(pairs)| QueryParams(pairs))
            .map_err(|error| ApiError::parameter("query", error.to_string()))
    }
}

impl QueryParams {
    /// Takes every value of a parameter.
    pub(crate) fn take_all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(key, _)| key == name).map(|(_, value)| value).collect()
    }

    /// Takes the parameters whose names begin with `prefix`, which is cut off.
    pub(crate) fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        self.0
            .extract_if(.., |(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key[prefix.len()..].to_owned(), value))
            .collect()
    }

    /// Takes a parameter that may stand once.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let mut values = self.take_all(name);
        if values.len() > 1 {
            return Err(ApiError::parameter(name, format!("`{name}` stands more than once")));
        }
        Ok(values.pop())
    }

    /// Takes and reads a parameter that may stand once.
    pub(crate) fn take<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.take_text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|error| {
            let text: String = text.chars().take(80).collect();
            ApiError::parameter(name, format!("{text:?} is not a valid `{name}`: {error}"))
        })
    }

    /// Takes a number that has to lie within a range.
    pub(crate) fn take_within(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        match self.take::<i64>(name)? {
            Some(number) if !range.contains(&number) => {
                let (least, most) = (range.start(), range.end());
                let detail = format!("`{name}` is {number}: {least} to {most} is allowed");
                Err(ApiError::parameter(name, detail))
            }
            number => Ok(number),
        }
    }

    /// Refuses what is left.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(ApiError::parameter(name, format!("there is no parameter {name:?} here")))
            }
        }
    }
}
