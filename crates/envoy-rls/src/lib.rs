//! Envoy's rate limit service over gRPC
