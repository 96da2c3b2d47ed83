//! Rules with `on_limit: queue`: the reply to `TOLLGATE.CHECK` comes when it is the request's turn.

use tollgate_limiter::{Limiter, LimiterSettings};

use super::of;
use crate::common::{Server, command, memory, policy};

/// Ten a second, one at a time. The longest wait is real time, which nothing here waits for.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {rate: 10/s burst 1, on_limit: queue, max_wait: 30s}
";

/// Waits until the metrics have this line.
fn shows(server: &Server, line: &str) {
    while !server.api.limiter().metrics().render().lines().any(|it| it == line) {
        std::thread::yield_now();
    }
}

#[test]
fn a_check_over_the_limit_is_answered_at_its_turn_and_so_are_the_commands_behind_it() {
    let server = of(Limiter::new(policy(RULES), memory(), LimiterSettings::default()));
    let mut client = server.connect();
    let check = command("TOLLGATE.CHECK shop user ann");
    client.send(&[check.clone(), check.clone(), check, command("PING")].concat());
    for joined in 1..=2 {
        shows(&server, &format!(r#"tollgate_queue_events_total{{event="joined"}} {joined}"#));
        // Other connections are answered meanwhile.
        let looks = "TOLLGATE.CHECK shop user ann COST 0";
        assert_eq!(server.connect().ask(looks), r#"[0, 1, 0, -1, 1, "user"]"#);
        server.advance_ms(100);
    }
    for _ in 0..3 {
        assert_eq!(client.reply(), r#"[0, 1, 0, -1, 1, "user"]"#);
    }
    assert_eq!(client.reply(), "+PONG");
    shows(&server, "tollgate_queued_requests 0");
    assert_eq!(server.api.stats().denied(), 0);
}
