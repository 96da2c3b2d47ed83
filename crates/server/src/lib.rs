//! The command tollgate: serve, check, explain
