//! The parameters of lists by cursor.

use utoipa::IntoParams;

use crate::query::{Query, Read, limit, text};

/// A part of a list.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Entries of the reply, 1 to 500; 100 unless given.
    #[param(required = false, example = 10)]
    pub limit: i64,
    /// `next` of the reply before.
    #[param(required = false)]
    pub cursor: String,
}

impl PageQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { limit: limit(query)?, cursor: text(query, "cursor") })
    }
}
