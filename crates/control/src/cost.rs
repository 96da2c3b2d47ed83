//! Whether nodes can enforce a cost.

/// Nodes have no key for a cost yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CostUnsupported;

/// The rule key for requests that take several permits. The only place that knows whether nodes have one.
///
/// # Errors
/// [`CostUnsupported`] for more than one permit, until rule files have the key `cost`.
pub(crate) const fn cost_key(need_permits: i64) -> Result<Option<i64>, CostUnsupported> {
    if need_permits > 1 { Err(CostUnsupported) } else { Ok(None) }
}
