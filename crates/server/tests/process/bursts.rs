//! A bucket whose burst is above its rate: with the remaining permits, every surface shows the number that
//! they are part of.

use super::*;

/// 10 permits per minute, of which 20 may be used at once.
const BUCKET: &str = "domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 10, algorithm: token_bucket, burst: 20}
";

#[test]
fn no_client_computes_a_negative_use_on_any_surface() {
    let folder = rules(BUCKET);
    let server = ServerProcess::start(folder.path(), &["--headers", "legacy,draft-11"]);
    let resp: SocketAddr = server.says("resp").and_then(|text| text.parse().ok()).expect("an address");
    let mut resp = connect(resp);
    let of = |user: &str| {
        format!(r#"{{"domain":"shop","descriptors":[{{"entries":[{{"key":"api_key","value":"{user}"}}]}}]}}"#)
    };
    for used in 1..=20_i64 {
        let left = 20 - used;
        let (_, body) = server.post("/v1/check", &of("http"));
        let reply: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((&reply["limit"], &reply["remaining"]), (&20.into(), &left.into()), "{body}");

        let body = of("grpc");
        let (_, body) = server.post("/json", &body);
        let reply: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let status = &reply["statuses"][0];
        assert_eq!(status["currentLimit"]["requestsPerUnit"], 10, "{body}");
        assert_eq!(status["limitRemaining"].as_i64().unwrap_or(0), left.min(10), "{body}");

        resp.write_all(b"TOLLGATE.CHECK shop api_key resp\r\n").expect("sent");
        let want = format!("*6\r\n:0\r\n:20\r\n:{left}\r\n");
        let mut reply = vec![0; want.len()];
        resp.read_exact(&mut reply).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&reply), want);
        let mut rest = Vec::new();
        while !rest.ends_with(b"$7\r\napi_key\r\n") {
            let mut byte = [0];
            resp.read_exact(&mut byte).expect("an answer");
            rest.push(byte[0]);
        }
    }
    // The fields of a reply, which the helpers leave out.
    let mut stream = connect(server.http());
    let body = of("fields");
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    for field in [
        "x-ratelimit-limit: 20\r\n",
        "x-ratelimit-remaining: 19\r\n",
        "ratelimit: \"api_key\";r=10;",
        "ratelimit-policy: \"api_key\";q=10;w=60\r\n",
    ] {
        assert!(text.contains(field), "{field} in {text}");
    }
}
