//! The HTTP API: may this request pass, and who is limited and why.
//!
//! Not here: sockets and TLS (`net`), how a decision reads as fields (`headers`), deciding (`limiter`).
