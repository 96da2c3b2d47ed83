//! Sockets, TLS and the accept loop that every surface shares.
//!
//! Not here: any protocol (`envoy-rls`, `http-api`, `resp-api`), threads and runtimes (the server).
