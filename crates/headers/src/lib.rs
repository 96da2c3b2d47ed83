//! A decision as HTTP fields and problem+json, and back.
//!
//! Not here: HTTP itself, rules, which limits apply.
