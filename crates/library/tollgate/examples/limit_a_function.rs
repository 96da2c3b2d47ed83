//! A function that may be called five times at once, and then once every 200 ms:
//!
//! ```sh
//! cargo run -p tollgate --example limit_a_function -- 5/s
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use tollgate::{Denied, Quota, RateLimiter};

fn main() -> Result<(), Box<dyn Error>> {
    let rate = std::env::args().nth(1).filter(|text| text.contains('/')).unwrap_or_else(|| "5/s".to_owned());
    let limiter = RateLimiter::direct(rate.parse::<Quota>()?)?;
    let burst = limiter.peek().remaining();

    let mut called = 0;
    for turn in 1..=burst + 3 {
        match greet(&limiter) {
            Ok(()) => called += 1,
            Err(denied) => println!("call {turn}: {denied}"),
        }
    }
    println!("{called} of {} calls at once passed", burst + 3);
    assert!(called >= burst);
    Ok(())
}

fn greet(limiter: &RateLimiter) -> Result<(), Denied> {
    limiter.check()?;
    println!("hello");
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
