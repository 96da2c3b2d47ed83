//! A command that exceeds the caps: its bytes are read and dropped, and it is answered as undecided. Closing
//! the connection would affect all other clients whose commands travel over it.

use crate::parse::{LONGEST_DROPPED, number};
use crate::undecided::{InspectedParts, Why};

/// Bytes within which the first line of an array or an argument ends.
const HEADER: usize = 32;
/// Bytes of arguments that are looked at: of the name, and of the option at the end.
const SEEN: usize = 32;

/// The part of a command that has been read.
#[derive(Debug)]
pub(super) struct Oversized {
    /// The parts of the command that were looked at.
    pub(super) command: InspectedParts,
    pub(super) why: Why,
    /// Arguments that have not ended; `None` before the first line.
    left: Option<usize>,
    state: State,
    /// The beginning of a line that has not ended.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a first line.
    Line,
    /// In an argument, of which `left` bytes are missing, its line break included. It is looked at if it is
    /// short.
    Argument { left: usize, is_seen: bool },
}

/// The command breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Oversized {
    /// Nothing is read yet.
    pub(super) fn new(why: Why) -> Self {
        Self { command: InspectedParts::default(), why, left: None, state: State::Line, line: Vec::new() }
    }

    /// Reads more of the command; returns where it ends in `bytes`, if it does.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        let mut at = 0;
        while self.left != Some(0) {
            let rest = &bytes[at..];
            if rest.is_empty() {
                return Ok(None);
            }
            at += match self.state {
                State::Line => self.read_line(rest)?,
                State::Argument { left, is_seen } => self.read_argument(rest, left, is_seen),
            };
        }
        Ok(Some(at))
    }

    fn read_line(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let room = HEADER.saturating_sub(self.line.len());
        let end = bytes.iter().take(room).position(|byte| *byte == b'\n');
        let read = end.map_or(bytes.len().min(room), |end| end + 1);
        self.line.extend_from_slice(&bytes[..read]);
        if end.is_none() {
            return if self.line.len() < HEADER { Ok(read) } else { Err(Broken) };
        }
        let mark = if self.left.is_none() { b'*' } else { b'$' };
        let digits = match &self.line[..] {
            [first, digits @ .., b'\r', b'\n'] if *first == mark => digits,
            _ => return Err(Broken),
        };
        let number = number::parse(digits).and_then(|number| usize::try_from(number).ok()).ok_or(Broken)?;
        self.line.clear();
        if self.left.is_none() {
            (self.left, self.command.arguments) = (Some(number), number);
        } else if number <= LONGEST_DROPPED {
            self.command.last.clear();
            self.state = State::Argument { left: number + 2, is_seen: number <= SEEN };
        } else {
            return Err(Broken);
        }
        Ok(read)
    }

    fn read_argument(&mut self, bytes: &[u8], left: usize, is_seen: bool) -> usize {
        let read = bytes.len().min(left);
        if is_seen {
            self.command.last.extend_from_slice(&bytes[..read]);
        }
        self.state = State::Argument { left: left - read, is_seen };
        if read == left {
            // Without the line break.
            self.command.last.truncate(self.command.last.len().saturating_sub(2));
            if self.left == Some(self.command.arguments) {
                self.command.name.clone_from(&self.command.last);
            }
            self.left = self.left.map(|left| left - 1);
            self.state = State::Line;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

    use proptest::prelude::*;

    use super::*;

    fn command(arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_command_ends_where_its_last_argument_does_in_whatever_pieces_it_comes(
            arguments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..6),
            piece in 1_usize..20,
            behind in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let whole = command(&arguments);
            let bytes = [&whole[..], &behind].concat();
            let mut oversized = Oversized::new(Why::TooLarge);
            let mut read = 0;
            let end = loop {
                let next = &bytes[read..(read + piece).min(bytes.len())];
                match oversized.read(next).expect("it keeps to the protocol") {
                    Some(end) => break read + end,
                    None => read += next.len(),
                }
            };
            prop_assert_eq!(end, whole.len());
            let short = |it: &Vec<u8>| if it.len() <= SEEN { it.clone() } else { Vec::new() };
            let want = InspectedParts {
                name: arguments.first().map(short).unwrap_or_default(),
                last: arguments.last().map(short).unwrap_or_default(),
                arguments: arguments.len(),
            };
            prop_assert_eq!(oversized.command, want);
        }

        #[test]
        fn any_bytes_end_or_break_it_or_want_more(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(Some(end)) = Oversized::new(Why::TooLarge).read(&bytes) {
                prop_assert!(end <= bytes.len());
            }
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_not_waited_for() {
        for bytes in
            [&b"PING\r\n"[..], b"*2\n", b"*-1\r\n", b"*1\r\n$536870913\r\n", b"*1\r\n:1\r\n", &[b'*'; 40]]
        {
            assert_eq!(Oversized::new(Why::TooLarge).read(bytes), Err(Broken), "{}", bytes.escape_ascii());
        }
    }
}
