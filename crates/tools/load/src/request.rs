//! A request as bytes, built once; each time it is sent only the digits of the key are written into it.
//!
//! A key is always 20 bytes long, so no length in the request depends on it.

use crate::{Ask, Plan, Protocol, Target};

/// Placeholder of the key while the request is built: no protocol here escapes any of these characters.
const PLACE: &str = "key:@@@@@@@@@@@@@@@@";
const DIGITS: usize = 16;

/// Bytes with holes for the digits of a key.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    bytes: Vec<u8>,
    holes: Vec<usize>,
}

impl RequestTemplate {
    /// The request of the plan in its target's protocol. For gRPC this is the message with its length before
    /// it.
    ///
    /// # Errors
    /// When that protocol has no such request.
    pub(crate) fn new(plan: &Plan) -> Result<Self, &'static str> {
        let bytes = match (plan.target.protocol, &plan.ask) {
            (Protocol::Resp, Ask::Command(words)) => command(words.iter().map(String::as_str)),
            (Protocol::Resp, Ask::Check { domain, entries, hits }) => {
                let hits = (*hits != 1).then(|| hits.to_string());
                let words = ["TOLLGATE.CHECK", domain].into_iter();
                let words = words.chain(entries.iter().flat_map(|(key, value)| [key.as_str(), value]));
                command(words.chain(hits.iter().flat_map(|hits| ["COST", hits])))
            }
            (Protocol::Http, Ask::Check { domain, entries, hits }) => {
                let text = |text: &String| serde_json::Value::from(text.as_str());
                let entry = |(key, value): &(String, String)| {
                    format!(r#"{{"key":{},"value":{}}}"#, text(key), text(value))
                };
                let entries: Vec<_> = entries.iter().map(entry).collect();
                let hits = if *hits == 1 { String::new() } else { format!(r#","hits":{hits}"#) };
                let body =
                    format!(r#"{{"domain":{},"descriptors":[[{}]]{hits}}}"#, text(domain), entries.join(","));
                post(&plan.target, plan.token.as_deref(), Some(&body))
            }
            (Protocol::Http, Ask::Body(body)) => post(&plan.target, plan.token.as_deref(), Some(body)),
            (Protocol::Http, Ask::Get) => post(&plan.target, plan.token.as_deref(), None),
            (Protocol::Grpc, Ask::Check { domain, entries, hits }) => message(domain, entries, *hits),
            (_, Ask::Command(_)) => return Err("a command needs a resp:// target"),
            (_, Ask::Body(_) | Ask::Get) => return Err("a body needs an http:// target"),
        };
        let is_hole = |at: &usize| bytes[*at..].starts_with(PLACE.as_bytes());
        let holes = (0..bytes.len()).filter(is_hole).map(|at| at + PLACE.len() - DIGITS).collect();
        Ok(Self { bytes, holes })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for a key to `out`.
    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        for &hole in &self.holes {
            let mut rest = key;
            for digit in out[begin + hole..][..DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// `words` as the array of bulk strings that a Redis client sends.
pub(crate) fn command<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let words: Vec<String> = words.map(with_place).collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    bytes
}

fn post(target: &Target, token: Option<&str>, body: Option<&str>) -> Vec<u8> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut head = format!("{method} {} HTTP/1.1\r\nhost: {}\r\n", target.path, target.authority());
    if let Some(token) = token {
        head.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    let Some(body) = body.map(with_place) else { return format!("{head}\r\n").into_bytes() };
    let length = body.len();
    format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// A `RateLimitRequest` with one descriptor: domain 1, descriptors 2 (entries 1: key 1, value 2), hits_addend
/// 3.
fn message(domain: &str, entries: &[(String, String)], hits: u64) -> Vec<u8> {
    let mut descriptor = Vec::new();
    for (key, value) in entries {
        let mut entry = Vec::new();
        field(1, with_place(key).as_bytes(), &mut entry);
        field(2, with_place(value).as_bytes(), &mut entry);
        field(1, &entry, &mut descriptor);
    }
    let mut message = Vec::new();
    field(1, with_place(domain).as_bytes(), &mut message);
    field(2, &descriptor, &mut message);
    if hits != 1 {
        message.push(3 << 3);
        varint(hits, &mut message);
    }
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed
}

fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend(bytes);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn with_place(text: &str) -> String {
    text.replace("{key}", PLACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plan_for;

    fn written(target: &str, ask: Ask) -> String {
        let request = RequestTemplate::new(&plan_for(target, ask)).expect("can be asked");
        let mut out = b">".to_vec();
        request.write(12_345, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn check(hits: u64) -> Ask {
        let entries =
            vec![("api_key".to_owned(), "{key}".to_owned()), ("plan".to_owned(), "g\"d".to_owned())];
        Ask::Check { domain: "shop".to_owned(), entries, hits }
    }

    #[test]
    fn every_protocol_asks_the_same_in_its_own_words() {
        let resp = ">*8\r\n$14\r\nTOLLGATE.CHECK\r\n$4\r\nshop\r\n$7\r\napi_key\r\n$20\r\nkey:0000000000012345\r\n\
                    $4\r\nplan\r\n$3\r\ng\"d\r\n$4\r\nCOST\r\n$1\r\n2\r\n";
        assert_eq!(written("resp://h:1", check(2)), resp);
        let body = r#"{"domain":"shop","descriptors":[[{"key":"api_key","value":"key:0000000000012345"},{"key":"plan","value":"g\"d"}]]}"#;
        let head = ">POST /v1/check HTTP/1.1\r\nhost: h:1\r\ncontent-type: application/json\r\n";
        let head = format!("{head}content-length: {}\r\n\r\n", body.len());
        assert_eq!(written("http://h:1", check(1)), format!("{head}{body}"));
        let grpc = ">\0\0\0\0\x38\n\x04shop\x12\x2e\n\x1f\n\x07api_key\x12\x14key:0000000000012345\
                    \n\x0b\n\x04plan\x12\x03g\"d\x18\x02";
        assert_eq!(written("grpc://h:1", check(2)), grpc);
    }

    #[test]
    fn a_throttle_command_of_the_usual_size_has_79_bytes() {
        let words = ["CL.THROTTLE", "{key}", "1000", "1000", "3600"].map(str::to_owned).to_vec();
        assert_eq!(written("resp://h:1", Ask::Command(words)).len() - 1, 79);
    }

    #[test]
    fn what_a_protocol_cannot_ask_is_refused() {
        for (target, ask) in
            [("grpc://h:1", Ask::Get), ("http://h:1", Ask::Command(Vec::new())), ("resp://h:1", Ask::Get)]
        {
            assert!(RequestTemplate::new(&plan_for(target, ask)).is_err(), "{target}");
        }
    }
}
