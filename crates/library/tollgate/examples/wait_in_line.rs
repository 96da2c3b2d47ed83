//! Three clients of a service that allows ten calls per second, with a bucket of one:
//!
//! ```sh
//! cargo run -p tollgate --example wait_in_line
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::time::Duration;

use tollgate::{AcquireError, Quota, RateLimiter};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::direct(Quota::per_second(10).burst(1))?;
    let began = limiter.now();
    let clients: Vec<_> = ["ann", "bob", "carl"]
        .map(|name| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let waited = limiter.acquire(1).await?;
                println!("{name} calls after {waited:?}");
                Ok::<_, AcquireError>(())
            })
        })
        .into();
    for client in clients {
        client.await??;
    }
    let passed = limiter.now().since(began);
    assert!(passed >= Duration::from_millis(200), "the third call is 200 ms after the first");
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
