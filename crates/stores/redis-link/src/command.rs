//! Commands as bytes. Not here: their meaning.

/// Begins a command of this many words.
pub fn array(bytes: &mut Vec<u8>, words: usize) {
    header(bytes, b'*', words);
}

/// Appends one word of a command.
pub fn bulk(bytes: &mut Vec<u8>, word: &[u8]) {
    header(bytes, b'$', word.len());
    bytes.extend_from_slice(word);
    bytes.extend_from_slice(b"\r\n");
}

fn header(bytes: &mut Vec<u8>, kind: u8, number: usize) {
    let mut digits = itoa::Buffer::new();
    bytes.push(kind);
    bytes.extend_from_slice(digits.format(number).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_the_protocol_wants() {
        let mut bytes = Vec::new();
        array(&mut bytes, 12);
        bulk(&mut bytes, b"");
        bulk(&mut bytes, b"a\r\nb");
        header(&mut bytes, b'$', usize::MAX);
        assert_eq!(bytes, b"*12\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$18446744073709551615\r\n");
    }
}
