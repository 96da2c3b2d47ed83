//! Arrays and lines in rows, and properties of any bytes.

use proptest::prelude::*;

use super::*;

const CAPS: Caps = Caps { bulk: 64, arguments: 16, command: 512, is_anonymous: false };
const ANONYMOUS: Caps = Caps { bulk: 8, arguments: 3, command: 512, is_anonymous: true };

/// Result of parsing `bytes`: commands as `a|b`, `…` for an incomplete one, or the error.
fn read(bytes: &[u8], caps: &Caps) -> String {
    let mut buffer = bytes.to_vec();
    let mut at = 0;
    let mut arguments = Vec::new();
    let mut parsed_commands = Vec::new();
    loop {
        match parse(&mut buffer, at, &mut arguments, caps) {
            Ok(Parsed::Command { end }) => {
                let words = arguments.iter().map(|span| span.of(&buffer).escape_ascii().to_string());
                parsed_commands.push(words.collect::<Vec<_>>().join("|"));
                at = end;
            }
            Ok(Parsed::Nothing { end }) => at = end,
            Ok(Parsed::Part { needed }) => {
                assert!(at + needed > bytes.len(), "{needed} more than {}", bytes.len() - at);
                if at < bytes.len() {
                    parsed_commands.push("…".to_owned());
                }
                return parsed_commands.join(" ");
            }
            Ok(Parsed::Oversized) => {
                parsed_commands.push("oversized".to_owned());
                return parsed_commands.join(" ");
            }
            Err(error) => {
                parsed_commands.push(error.to_string());
                return parsed_commands.join(" ");
            }
        }
    }
}

#[test]
fn arrays_of_bulk_strings_are_commands() {
    for (bytes, want) in [
        ("", ""),
        ("*1\r\n$4\r\nPING\r\n", "PING"),
        ("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "ECHO|"),
        ("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n", "ECHO|\\r\\n\\r\\n"),
        ("*2\r\n$4\r\nECHO\r\n$2\r\n\0\u{1}\r\n", "ECHO|\\x00\\x01"),
        ("*2\r\n$4\r\nECHO\r\n$12\r\naaaaaaaaaaaa\r\n", "ECHO|aaaaaaaaaaaa"),
        ("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "PING PING"),
        ("*0\r\n*-1\r\n*-9\r\n*1\r\n$1\r\nA\r\n", "A"),
        ("*", "…"),
        ("*1", "…"),
        ("*1\r", "…"),
        ("*1\r\n", "…"),
        ("*1\r\n$", "…"),
        ("*1\r\n$4\r\nPIN", "…"),
        ("*1\r\n$4\r\nPING", "…"),
        ("*1\r\n$4\r\nPING\r", "…"),
        ("*1\r\n$4\r\nPING\r\n*1\r\n", "PING …"),
        ("*16\r\n", "…"),
        ("*17\r\n", "oversized"),
        ("*1000000000\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1\rX", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*11111111111111111111111111111111111", "too big mbulk count string"),
        ("*1\r\n$64\r\n", "…"),
        ("*1\r\n$65\r\n", "oversized"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$4294967296\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$1111111111111111111111111111111111", "too big bulk count string"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"), // nothing nests
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n$4\r\nPINGxx", "expected a line break behind an argument"),
        ("*1\r\n$4\r\nPING\n\n", "expected a line break behind an argument"),
    ] {
        assert_eq!(read(bytes.as_bytes(), &CAPS), want, "{bytes:?}");
    }
    let long = format!("*9\r\n{}", format!("$60\r\n{}\r\n", "a".repeat(60)).repeat(9));
    assert_eq!(read(long.as_bytes(), &CAPS), "oversized");
}

#[test]
fn lines_are_commands_too() {
    for (bytes, want) in [
        ("PING\r\n", "PING"),
        ("PING\n", "PING"),
        ("  SET \t key  value \r\n", "SET|key|value"),
        ("\r\n\n   \r\nPING\r\n", "PING"),
        ("PING", "…"),
        ("PING\r", "…"),
        (r#"ECHO "a b" 'c d'"#, "…"),
        ("ECHO \"a b\" 'c d'\n", "ECHO|a b|c d"),
        ("ECHO \"\" ''\n", "ECHO||"),
        ("ECHO \"\\x41\\n\\\"\\q\\xZZ\" 'it\\'s \\n'\n", "ECHO|A\\n\\\"qxZZ|it\\'s \\\\n"),
        ("ECHO a\"b c\"\n", "ECHO|ab c"),
        ("ECHO \"a\n", "unbalanced quotes in request"),
        ("ECHO 'a\n", "unbalanced quotes in request"),
        ("ECHO \"a\"b\n", "unbalanced quotes in request"),
        ("ECHO \"a\\\n", "unbalanced quotes in request"),
        ("$4\r\n", "$4"),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", "1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16"),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", "invalid multibulk length"),
    ] {
        assert_eq!(read(bytes.as_bytes(), &CAPS), want, "{bytes:?}");
    }
    assert_eq!(read(&[b'a'; 65], &CAPS), "…");
    assert_eq!(read(&[&[b'a'; 65][..], b"\n"].concat(), &CAPS), "invalid bulk length");
    assert_eq!(read(&[b'a'; 511], &CAPS), "…");
    assert_eq!(read(&[b'a'; 512], &CAPS), "too big inline request");
}

#[test]
fn an_anonymous_client_may_send_little() {
    for (bytes, want) in [
        ("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$8\r\npassword\r\n", "AUTH|u|password"),
        ("*4\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$9\r\n", "unauthenticated bulk length"),
        ("*1\r\n$-9\r\n", "invalid bulk length"),
        ("a b c d\n", "unauthenticated multibulk length"),
    ] {
        assert_eq!(read(bytes.as_bytes(), &ANONYMOUS), want, "{bytes:?}");
    }
}

#[test]
fn at_every_byte_a_partial_command_needs_no_more_than_the_whole() {
    let whole = b"*3\r\n$4\r\nECHO\r\n$12\r\n\r\n$3\r\n*1\r\na\r\r\n$0\r\n\r\n";
    let mut arguments = Vec::new();
    for cut in 0..whole.len() {
        let mut part = whole[..cut].to_vec();
        match parse(&mut part, 0, &mut arguments, &CAPS) {
            Ok(Parsed::Part { needed }) => {
                assert!((cut + 1..=whole.len()).contains(&needed), "{cut}: {needed}")
            }
            other => panic!("{cut}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_commands_a_partial_command_or_an_error(bytes in prop::collection::vec(likely_byte(), 0..200)) {
        read(&bytes, &CAPS);
        read(&bytes, &ANONYMOUS);
    }

    #[test]
    fn a_command_is_parsed_as_it_was_sent(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..8)) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let shown: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        prop_assert_eq!(read(&bytes, &CAPS), shown.join("|"));
    }
}

/// Bytes that commands consist of, more often than others.
fn likely_byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => prop::sample::select(b"*$\r\n0123456789-aP \"'\\\0".to_vec()), 1 => any::<u8>()]
}
