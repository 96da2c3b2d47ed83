//! Writes the fields of an answer again and again, to be counted by a profiler:
//!
//! ```sh
//! cargo build --release -p tollgate-headers --example fields
//! for n in 10000 110000; do valgrind --tool=callgrind target/release/examples/fields legacy admit $n; done
//! ```
//! A hundred thousandth of the difference is the cost of one. `deny` instead of `admit` writes a denial. For
//! comparison, `numbers` instead of a style writes three numbers as `HeaderValue::from` makes them, and
//! `empty` nothing.

use std::hint::black_box;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_headers::{LimitState, RetryAfter, Style, write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let is_admitted = arguments.next().unwrap_or_default() == "admit";
    let rounds: u64 = arguments.next().unwrap_or_default().parse()?;
    let style = if what == "numbers" || what == "empty" { None } else { Some(what.parse::<Style>()?) };
    let reset_after = Duration::from_millis(41_200);
    let retry_after = if is_admitted { RetryAfter::Now } else { RetryAfter::After(reset_after) };
    let names = ["limit", "remaining", "reset"].map(HeaderName::from_static);
    for round in 0..rounds {
        let limit = LimitState {
            name: "short",
            limit: 5_000,
            burst: 5_000,
            window: Duration::from_secs(60),
            remaining: black_box(round % 5_000),
            reset_after,
            retry_after,
            is_unknown: false,
        };
        let mut fields = HeaderMap::new();
        match style {
            Some(style) => write(black_box(&[limit]), is_admitted, &style, &mut fields),
            None if what == "numbers" => {
                for (name, number) in names.iter().zip([limit.limit, limit.remaining, 42]) {
                    fields.insert(name, HeaderValue::from(black_box(number)));
                }
            }
            None => {}
        }
        black_box(fields);
    }
    Ok(())
}
