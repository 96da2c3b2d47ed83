//! The Redis protocol: `CL.THROTTLE`, `THROTTLE`, `TOLLGATE.THROTTLE` and `TOLLGATE.CHECK` for any Redis client.
//!
//! Not here: sockets and TLS (`net`), deciding (`limiter`).
