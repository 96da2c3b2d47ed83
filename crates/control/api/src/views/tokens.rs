//! Tokens.

use serde::Serialize;
use tollgate_control::tokens;
use utoipa::ToSchema;

use super::access::Right;
use crate::words;

/// A token without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub struct Token {
    pub id: String,
    #[schema(schema_with = words::token_kind)]
    pub kind: &'static str,
    pub name: String,
    /// The beginning of its secret.
    pub prefix: String,
    /// Null for a token of nodes.
    #[schema(required)]
    pub owner: Option<String>,
    pub rights: Vec<Right>,
    pub created_at: i64,
    #[schema(required)]
    pub expires_at: Option<i64>,
    #[schema(required)]
    pub last_used_at: Option<i64>,
    #[schema(required)]
    pub revoked_at: Option<i64>,
    pub is_valid: bool,
}

impl Token {
    /// `token` as it is at this time.
    #[must_use]
    pub fn new(token: tokens::Token, now_ms: i64) -> Self {
        Self {
            is_valid: token.is_valid(now_ms),
            id: token.id,
            kind: token.kind.name(),
            name: token.name,
            prefix: token.prefix,
            owner: token.owner,
            rights: Right::all(token.rights),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            revoked_at: token.revoked_at,
        }
    }
}

/// A list of tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tokens {
    pub tokens: Vec<Token>,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// A new token with its secret, which is returned this once.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewToken {
    pub token: Token,
    pub secret: String,
}
