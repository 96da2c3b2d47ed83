//! The bytes of a log: a file or standard input, plain, gzip or zstd, as lines of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The longest line that is read; a longer one is a broken line.
pub(crate) const MAX_LINE: usize = 1 << 20;
const BUFFER: usize = 256 << 10;
/// Programs of Windows begin a file with it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Bytes of a file that have been read, for a progress bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadSoFar(Arc<AtomicU64>);

impl ReadSoFar {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct CountingReader<R> {
    from: R,
    so_far: ReadSoFar,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Ok(0);
        }
        let bytes = self.from.read(to)?;
        self.so_far.0.fetch_add(bytes as u64, Relaxed);
        Ok(bytes)
    }
}

/// A log that is open.
pub(crate) struct Source {
    pub(crate) bytes: Box<dyn BufRead>,
    /// Bytes on the disk that have been read, before they are unpacked.
    pub(crate) so_far: ReadSoFar,
    /// Size on the disk; `None` of a stream.
    pub(crate) size: Option<u64>,
}

impl Source {
    /// Opens the log at `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::open_until(path, Arc::default())
    }

    /// Opens a log that ends where it is when `stop` is set.
    pub(crate) fn open_until(path: &Path, stop: Arc<AtomicBool>) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Self::of(io::stdin(), None, stop);
        }
        let file = File::open(path)?; // waits for a writer, if it is a pipe
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name a file"));
        }
        let size = about.is_file().then_some(about.len());
        Self::of(file, size, stop)
    }

    /// Recognizes packed files by their first bytes, and unpacks them.
    fn of(from: impl Read + 'static, size: Option<u64>, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let so_far = ReadSoFar::default();
        let counted = CountingReader { from, so_far: so_far.clone(), stop };
        let mut raw = BufReader::with_capacity(BUFFER, counted);
        let start = first_bytes(&mut raw)?;
        let raw = io::Cursor::new(start.clone()).chain(raw);
        let bytes: Box<dyn BufRead> = match start.as_slice() {
            [0x1f, 0x8b, ..] => {
                Box::new(BufReader::with_capacity(BUFFER, flate2::bufread::MultiGzDecoder::new(raw)))
            }
            // A frame, or one to skip, which some programs write first.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                Box::new(BufReader::with_capacity(BUFFER, Frames { raw, frame: None }))
            }
            start => {
                if let Some(unpack) = unpacked_by(start) {
                    let why = format!("only gzip and zstd are unpacked; use `{unpack} FILE | tollgate … -`");
                    return Err(io::Error::new(io::ErrorKind::Unsupported, why));
                }
                Box::new(raw)
            }
        };
        Ok(Self { bytes, so_far, size })
    }
}

/// The command that unpacks a file that begins with these bytes.
fn unpacked_by(start: &[u8]) -> Option<&'static str> {
    Some(match start {
        [b'B', b'Z', b'h', b'1'..=b'9'] => "bzcat",
        [0xfd, b'7', b'z', b'X'] => "xzcat",
        [b'P', b'K', 3, 4] => "unzip -p",
        [4, 0x22, 0x4d, 0x18] => "lz4cat",
        _ => return None,
    })
}

/// Whether opening this path waits for a writer.
pub(crate) fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

/// The first four bytes, or all of them.
fn first_bytes(raw: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(4);
    raw.take(4).read_to_end(&mut start)?;
    Ok(start)
}

/// A zstd file: frames one after another.
struct Frames<R: BufRead> {
    raw: R,
    frame: Option<ruzstd::decoding::FrameDecoder>,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
        use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
        loop {
            let Some(frame) = &mut self.frame else {
                if self.raw.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                let mut frame = FrameDecoder::new();
                match frame.reset(&mut self.raw) {
                    Ok(()) => self.frame = Some(frame),
                    Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                        length,
                        ..
                    })) => {
                        let skipped =
                            io::copy(&mut (&mut self.raw).take(u64::from(length)), &mut io::sink())?;
                        if skipped < u64::from(length) {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                    Err(error) => return Err(unpacking(error)),
                }
                continue;
            };
            if frame.can_collect() == 0 && !frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(BUFFER);
                frame.decode_blocks(&mut self.raw, some).map_err(unpacking)?;
            }
            let bytes = frame.read(to)?;
            if bytes > 0 || to.is_empty() {
                return Ok(bytes);
            }
            if frame.is_finished() {
                self.frame = None;
            }
        }
    }
}

fn unpacking(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, error)
}

/// Result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line is in [`Lines::line`].
    Line,
    /// The line was too long; its beginning is there.
    TooLong,
    End,
}

/// Lines, without what ends them.
pub(crate) struct Lines {
    from: Box<dyn BufRead>,
    pub(crate) line: Vec<u8>,
    /// Number of the current line, from 1.
    pub(crate) number: u64,
}

impl Lines {
    pub(crate) fn new(from: Box<dyn BufRead>) -> Self {
        Self { from, line: Vec::new(), number: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Next> {
        self.line.clear();
        let mut is_too_long = false;
        loop {
            let buffer = match self.from.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                if self.line.is_empty() && !is_too_long {
                    return Ok(Next::End);
                }
                break;
            }
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = MAX_LINE - self.line.len();
            is_too_long |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.from.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(if is_too_long { Next::TooLong } else { Next::Line })
    }
}
