//! The way of log lines to stderr: a bounded queue, and a thread of its own that writes.
//!
//! A reader of stderr that is slow or gone costs lines, never time: a line that finds no room is dropped and
//! counted. Once the reader has caught up, a line says how many are missing.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that may wait.
const MAX_BYTES: usize = 1 << 20;
/// Bytes that a waiting line counts for besides its text, so that empty lines are bounded too.
const OVERHEAD: usize = 64;
/// Shortest time between two notices of missing lines.
const NOTICE_EVERY: Duration = Duration::from_secs(1);
/// Longest time to write the last lines at the end of the process.
const FLUSH: Duration = Duration::from_secs(1);

/// Lines on their way. Cloned handles share one queue.
#[derive(Clone, Debug, Default)]
pub struct LogQueue(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<LogLines>,
    /// A line has come, or the last one is written.
    changed: Condvar,
    dropped: AtomicU64,
    left_out: AtomicU64,
}

#[derive(Debug, Default)]
struct LogLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
}

/// Waits for the last lines when it is dropped, for a second at most.
#[derive(Debug)]
pub struct FlushOnDrop(LogQueue);

impl LogQueue {
    /// Starts the thread that writes to `to`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<(Self, FlushOnDrop)> {
        let queue = Self::default();
        let writer = queue.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(to))?;
        Ok((queue.clone(), FlushOnDrop(queue)))
    }

    /// Lines that were dropped, or could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Lines above the limit of their kind.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.0.left_out.load(Relaxed)
    }

    /// Counts a line that is above the limit of its kind.
    pub(crate) fn leave_out(&self) {
        self.0.left_out.fetch_add(1, Relaxed);
    }

    fn push(&self, line: &[u8]) {
        let mut queue = self.0.queue.lock();
        let bytes = line.len() + OVERHEAD;
        if queue.bytes + bytes > MAX_BYTES {
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes += bytes;
        queue.lines.push_back(line.to_vec());
        drop(queue);
        self.0.changed.notify_all();
    }

    fn write_to(&self, mut to: impl Write) {
        let mut reported = MissingLines::default();
        loop {
            let line = self.next(&mut reported);
            if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                self.0.dropped.fetch_add(1, Relaxed); // there is nowhere to say why
            }
        }
    }

    /// The next line, as soon as there is one. Once all are written, says how many are missing, at most once
    /// per second.
    fn next(&self, reported: &mut MissingLines) -> Vec<u8> {
        let mut queue = self.0.queue.lock();
        loop {
            queue.is_writing = !queue.lines.is_empty();
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len() + OVERHEAD;
                return line;
            }
            self.0.changed.notify_all();
            let has_line = !self.0.changed.wait_for(&mut queue, NOTICE_EVERY).timed_out();
            let missing = MissingLines { dropped: self.dropped(), left_out: self.left_out() };
            if !has_line && missing != *reported {
                drop(queue);
                missing.report(*reported);
                *reported = missing;
                queue = self.0.queue.lock();
            }
        }
    }
}

/// Number of lines that are missing in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MissingLines {
    dropped: u64,
    left_out: u64,
}

impl MissingLines {
    /// Logs the lines that are missing since `before`.
    fn report(self, before: Self) {
        let dropped = self.dropped - before.dropped;
        let left_out = self.left_out - before.left_out;
        if dropped > 0 {
            tracing::warn!(
                lines = dropped,
                "log lines were dropped, because stderr was not read fast enough"
            );
        }
        if left_out > 0 {
            tracing::warn!(lines = left_out, "log lines were left out, because many were of one kind");
        }
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = Lines<'a>;

    fn make_writer(&'a self) -> Lines<'a> {
        Lines(self)
    }
}

/// Puts the text of each write, which is a whole line, into the queue.
pub struct Lines<'a>(&'a LogQueue);

impl Write for Lines<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        let SharedQueue { queue, changed, .. } = &*self.0.0;
        let mut queue = queue.lock();
        let is_busy = |queue: &mut LogLines| queue.is_writing || !queue.lines.is_empty();
        changed.wait_while_for(&mut queue, is_busy, FLUSH);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Accepts a line only when the test permits it.
    struct GatedWriter {
        turns: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for GatedWriter {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.turns.recv().map_err(io::Error::other)?;
            self.read.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_costs_lines_and_never_time() {
        let (turn, turns) = channel();
        let (read, lines) = channel();
        let (queue, _flush) = LogQueue::start(GatedWriter { turns, read }).expect("a thread");
        let line = [b'x'; 1_000];
        for _ in 0..2_000 {
            queue.push(&line);
        }
        let room = MAX_BYTES / (line.len() + OVERHEAD);
        let dropped = queue.dropped() as usize;
        // One line more, if the thread has taken the first by then.
        assert!(dropped == 2_000 - room || dropped == 2_000 - room - 1, "{dropped} of 2000 dropped");
        for _ in 0..2_000 - dropped {
            turn.send(()).expect("it writes");
            assert_eq!(lines.recv().expect("a line"), line, "what was queued comes whole, in order");
        }
        queue.push(b"after");
        turn.send(()).expect("it writes");
        assert_eq!(lines.recv().expect("a line"), b"after");
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let (turn, turns) = channel();
        let (read, lines) = channel();
        let (queue, flush) = LogQueue::start(GatedWriter { turns, read }).expect("a thread");
        for number in 0..100_u8 {
            queue.push(&[number]);
            turn.send(()).expect("it writes");
        }
        drop(flush);
        assert_eq!(lines.try_iter().count(), 100);
    }
}
