//! The attribute `#[rate_limit]` of the library `tollgate`, which documents it.
#![deny(missing_docs)] // it is published

mod arguments;
mod expand;
mod rate;

use proc_macro::TokenStream;

/// Limits the calls of a function. See `tollgate::rate_limit`.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}
