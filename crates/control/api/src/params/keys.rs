//! Queries of keys.

use tollgate_control::keys::{MAX_KEYS, Question};
use utoipa::IntoParams;

use crate::query::{BadQuery, Query, Read, text};

/// A key by its domain and entries.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct KeyQuery {
    /// Domain of the key.
    pub domain: String,
    /// An entry as key=value; once for each entry, in order.
    pub entry: Vec<String>,
}

impl KeyQuery {
    pub fn read(query: &impl Query) -> Self {
        Self { domain: text(query, "domain"), entry: query.parameters("entry") }
    }

    #[must_use]
    pub fn question(self) -> Question {
        Question { domain: self.domain, entries: self.entry }
    }
}

/// Keys of a domain.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScanQuery {
    /// Domain of the keys to list.
    pub domain: String,
    /// One of the first entries as key=value; once for each, in order.
    #[param(required = false)]
    pub entry: Vec<String>,
    /// `next` of the reply before.
    #[param(required = false)]
    pub cursor: String,
}

impl ScanQuery {
    pub fn read(query: &impl Query) -> Self {
        let KeyQuery { domain, entry } = KeyQuery::read(query);
        Self { domain, entry, cursor: text(query, "cursor") }
    }
}

/// Rules of an app.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LiveKeysQuery {
    /// A rule's key, once for each of up to 100.
    pub key: Vec<String>,
}

impl LiveKeysQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let key = query.parameters("key");
        if !(1..=MAX_KEYS).contains(&key.len()) {
            return Err(BadQuery("expected ?key=KEY, once for each of 1 to 100 keys".to_owned()));
        }
        Ok(Self { key })
    }
}
