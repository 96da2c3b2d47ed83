//! Who may do what: users, logins, tokens and links, and the rights that follow from them.
//!
//! A request carries a [`Claim`](claim::Claim), which each transaction resolves to an
//! [`Actor`](actor::Actor); all other rooms ask that actor. `sign_in` is the way in, `me` a user's own
//! account, `identities` and `node_tokens` how nodes prove who they are, `settings` what holds for the whole
//! control plane. Not here: what was done with the rights (`audit`), and cookies and headers (`console`).

pub mod actor;
pub(crate) mod attempts;
pub(crate) mod bindings;
pub(crate) mod claim;
pub(crate) mod entered;
pub(crate) mod identities;
pub mod links;
pub mod logins;
pub mod me;
pub(crate) mod node_tokens;
pub(crate) mod passwords;
pub(crate) mod preferences;
pub mod settings;
pub mod setup;
pub(crate) mod sign_in;
pub(crate) mod token_text;
pub mod tokens;
pub mod users;
