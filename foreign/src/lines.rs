//! What a child writes, line by line: answers, read by the one who asked and no longer than it wants
//! to wait, and standard error, read on a thread of its own for the log, of which the newest line is
//! kept as a cause. What a model only prints comes there as well, marked, and has a lower level.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Longest answer: a description of very many tensors.
const LONGEST_ANSWER: usize = 16 << 20;

/// Bytes that are read at once.
const CHUNK: usize = 8 << 10;

/// Longest line of the log; the rest becomes lines of its own.
const LONGEST_LOG: u64 = 4 << 10;

/// How a line of standard error begins that is no error but printed (RS, the record separator).
const PRINTED: char = '\u{1e}';

/// Whether it was told once in this process that the model prints, and where the rest is.
static TOLD: AtomicBool = AtomicBool::new(false);

/// How long the last words of a child that has ended are waited for: a process that it left behind
/// may hold its standard error.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Standard output of a child.
pub(crate) struct Answers<O> {
    output: O,
    /// Read, and not yet given out.
    held: Vec<u8>,
}

/// What became of waiting for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// A line, without its end.
    Line(Vec<u8>),
    /// Nothing came in time.
    Silence,
    /// The output ended.
    End,
    /// What came is longer than any answer; its beginning.
    TooLong(Vec<u8>),
}

impl<O: Read + AsFd> Answers<O> {
    /// Nothing is read yet.
    pub(crate) fn of(output: O) -> Self {
        Self {
            output,
            held: Vec::new(),
        }
    }

    /// The next line. A process that was itself stopped meanwhile still takes what is there.
    pub(crate) fn next(&mut self, patience: Duration) -> Waited {
        let begun = Instant::now();
        let mut searched = 0;
        loop {
            if let Some(end) = self.held[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.held.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.held, rest);
                line.pop();
                return Waited::Line(line);
            }
            searched = self.held.len();
            if searched > LONGEST_ANSWER {
                return Waited::TooLong(std::mem::take(&mut self.held));
            }
            match readable(&self.output, patience.saturating_sub(begun.elapsed())) {
                Ok(true) => {}
                Ok(false) => return Waited::Silence,
                Err(Errno::INTR) => continue,
                Err(_) => return Waited::End,
            }
            self.held.resize(searched + CHUNK, 0);
            let read = self.output.read(&mut self.held[searched..]);
            self.held.truncate(searched + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Waited::End,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An error ends the stream like its end does; the child's own end says more.
                Err(_) => return Waited::End,
            }
        }
    }
}

/// Waits until there is something to read, or the end.
fn readable(output: &impl AsFd, patience: Duration) -> Result<bool, Errno> {
    let patience = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    let ready = poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&patience))?;
    Ok(ready > 0)
}

/// Standard error of a child.
pub(crate) struct Errors {
    newest: Arc<Mutex<Option<String>>>,
    /// Disconnected at the end.
    end: Receiver<()>,
}

impl Errors {
    /// Starts to read it.
    pub(crate) fn of(stream: impl Read + Send + 'static, pid: u32) -> io::Result<Self> {
        let newest = Arc::new(Mutex::default());
        let (open, end): (SyncSender<()>, _) = sync_channel(1);
        let kept = Arc::clone(&newest);
        let read = move || {
            let _open = open;
            let mut lines = BufReader::new(stream);
            while let Some(line) = next(&mut lines, LONGEST_LOG) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if line.is_empty() {
                    continue;
                }
                let line = tell(line, pid, &TOLD);
                *kept.lock().expect("nothing panics with it") = Some(line);
            }
        };
        thread::Builder::new()
            .name("model-log".into())
            .spawn(read)?;
        Ok(Self { newest, end })
    }

    /// The newest line, after the child has ended.
    pub(crate) fn last_words(&self) -> Option<String> {
        // Either way: what was read until now is what there is.
        let _ = self.end.recv_timeout(LAST_WORDS);
        self.newest.lock().expect("nothing panics with it").clone()
    }
}

/// Logs a line, and gives it without its mark.
fn tell(line: String, pid: u32, told: &AtomicBool) -> String {
    let Some(printed) = line.strip_prefix(PRINTED) else {
        tracing::warn!(pid, "model: {line}");
        return line;
    };
    if told.swap(true, Ordering::Relaxed) {
        tracing::info!(pid, "model prints: {printed}");
    } else {
        tracing::warn!(
            pid,
            "model prints: {printed} (RESILIN_LOG=info shows the rest)"
        );
    }
    printed.to_owned()
}

/// The next line without its end, or as much of it as may be; `None` at the end.
fn next(lines: &mut impl BufRead, most: u64) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    // An error ends the stream like its end does; the child's own end says more.
    let read = lines.take(most).read_until(b'\n', &mut line).ok()?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    (read > 0).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn answers_are_lines_silence_and_an_end() {
        let (output, mut child) = io::pipe().unwrap();
        let mut answers = Answers::of(output);
        let now = Duration::ZERO;
        assert_eq!(answers.next(now), Waited::Silence);
        child.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(answers.next(now), Waited::Line(b"one".into()));
        assert_eq!(answers.next(now), Waited::Line(b"two".into()));
        assert_eq!(answers.next(now), Waited::Silence);
        child.write_all(b"ee\n").unwrap();
        drop(child);
        assert_eq!(answers.next(now), Waited::Line(b"three".into()));
        assert_eq!(answers.next(now), Waited::End);
    }

    #[test]
    fn lines_are_cut_where_they_are_too_long() {
        let mut text: &[u8] = b"one\n\nlonger\nend";
        let lines: Vec<_> = std::iter::from_fn(|| next(&mut text, 4)).collect();
        let expected: [&[u8]; 5] = [b"one", b"", b"long", b"er", b"end"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_printed_has_no_mark_and_is_told_of_once() {
        let told = AtomicBool::new(false);
        let line = |text: &str| tell(text.into(), 1, &told);
        assert_eq!(line("Traceback"), "Traceback");
        assert!(!told.load(Ordering::Relaxed));
        assert_eq!(line("\u{1e}loss 3"), "loss 3");
        assert!(told.load(Ordering::Relaxed));
        let errors = Errors::of(&b"\x1eepoch 1\n\x1e\n"[..], 1).unwrap();
        assert_eq!(errors.last_words().as_deref(), Some(""));
    }

    #[test]
    fn the_newest_line_is_what_it_said_last() {
        let errors = Errors::of(&b"Traceback\nKeyError: 'x'\n\n"[..], 1).unwrap();
        assert_eq!(errors.last_words().as_deref(), Some("KeyError: 'x'"));
    }
}
