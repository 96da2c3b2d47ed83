//! The little of structured fields (RFC 9651) that these fields use.
