//! A service that limits each user, all users together, and logins that fail:
//!
//! ```sh
//! cargo run -p tollgate --example per_user
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::time::Duration;

use tollgate::{DeniedBy, KeyedRateLimiter, Quota, QuotaError, RateLimiter, check_all};

struct Service {
    all: RateLimiter,
    per_user: KeyedRateLimiter<str>,
}

impl Service {
    fn new() -> Result<Self, QuotaError> {
        Ok(Self {
            all: RateLimiter::direct(Quota::per_second(1_000))?,
            per_user: RateLimiter::keyed(Quota::per_minute(3))?,
        })
    }

    fn login(&self, user: &str, password: &str) -> Result<bool, DeniedBy> {
        check_all(&[self.all.request(1), self.per_user.request(user, 1)])?;
        let is_right = password == "open sesame";
        if !is_right {
            self.per_user.penalise(user, 1); // a wrong password counts twice
        }
        Ok(is_right)
    }
}

fn main() -> Result<(), QuotaError> {
    let service = Service::new()?;
    let mut answers = Vec::new();
    for (user, password) in [("ann", "open sesame"), ("bob", "1234"), ("bob", "12345"), ("bob", "123456")] {
        let answer = service.login(user, password);
        match &answer {
            Ok(is_right) => println!("{user}: {}", if *is_right { "welcome" } else { "wrong password" }),
            Err(denied) => {
                println!("{user}: {denied}: {}", denied.denied);
                service.per_user.block(user, service.per_user.now() + Duration::from_secs(3_600));
            }
        }
        answers.push(answer.is_ok());
    }
    assert_eq!(answers, [true, true, true, false]);
    Ok(())
}

#[test]
fn it_runs() -> Result<(), QuotaError> {
    main()
}
