//! Typed ids. A job id and a claim token are both numbers; the compiler keeps them apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Identifies a job for ever. JSON carries it as a string, so that a client whose numbers are
/// doubles loses no digit; a number is accepted on the way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub i64);

/// A kind's row. Internal: people use the kind's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KindId(pub i32);

/// One registration of a runner. A runner that lost its lease comes back under a new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunnerId(pub i64);

/// Grows at every claim of a job and never goes back. Every write by a runner carries it, so a write
/// that belongs to an earlier claim changes nothing.
///
/// Each claim draws one number from a sequence, for all that it takes. That it grows for each job follows
/// from the order: a claim draws after its look, and a look that sees a job available again began after
/// the claim before had drawn and come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(pub i64);

macro_rules! number_as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map($name)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Either {
                    Number(i64),
                    Text(String),
                }
                match Either::deserialize(deserializer)? {
                    Either::Number(number) => Ok($name(number)),
                    Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
                }
            }
        }
    };
}

number_as_text!(JobId);
number_as_text!(RunnerId);

impl fmt::Display for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_past_two_to_the_53_survives_json() {
        let id = JobId(9_007_199_254_740_993);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, "\"9007199254740993\"");
        assert_eq!(serde_json::from_str::<JobId>(&text).unwrap(), id);
        assert_eq!(serde_json::from_str::<JobId>("9007199254740993").unwrap(), id);
        assert!(serde_json::from_str::<JobId>("\"12x\"").is_err());
    }
}
