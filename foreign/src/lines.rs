//! What a child writes, line by line, on threads of its own: answers to the one who asked, and
//! standard error to the log, of which the newest line is kept as a cause.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longest answer: a description of very many tensors.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Longest line of the log; the rest becomes lines of its own.
const LONGEST_LOG: u64 = 4 << 10;

/// Answers that may wait; a child that writes more unasked waits.
const WAITING: usize = 4;

/// How long the last words of a child that has ended are waited for: a process that it left behind
/// may hold its standard error.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts to read answers; the receiver is disconnected at their end.
pub(crate) fn answers(output: impl Read + Send + 'static) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = sync_channel(WAITING);
    let read = move || {
        let mut lines = BufReader::new(output);
        while let Some(line) = next(&mut lines, LONGEST_ANSWER) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("answers".into()).spawn(read)?;
    Ok(receiver)
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
                tracing::warn!(pid, "model: {line}");
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
    use super::*;

    #[test]
    fn lines_are_cut_where_they_are_too_long() {
        let mut text: &[u8] = b"one\n\nlonger\nend";
        let lines: Vec<_> = std::iter::from_fn(|| next(&mut text, 4)).collect();
        let expected: [&[u8]; 5] = [b"one", b"", b"long", b"er", b"end"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_newest_line_is_what_it_said_last() {
        let errors = Errors::of(&b"Traceback\nKeyError: 'x'\n\n"[..], 1).unwrap();
        assert_eq!(errors.last_words().as_deref(), Some("KeyError: 'x'"));
    }
}
