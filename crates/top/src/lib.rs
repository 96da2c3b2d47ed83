//! The live terminal view of a running server: who is limited, how much, and how the server is.
//!
//! Not here: the HTTP API that it reads (`http-api`).
