//! A program of others that is measured beside this one: it waits on its standard input, so that it
//! takes no processor while the other side of a pair is measured.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use resilin_actors::Exit;
use serde::Serialize;

/// Longest wait for a line of the other program: its start loads libraries, and a case makes some
/// steps; a program that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// Longest wait for its end once its input has ended; then it is killed.
const END: Duration = Duration::from_secs(5);

/// What some steps took, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Took {
    /// On the clock.
    pub(super) wall_s: f64,
    /// Of a processor: what the thread that computes, or all threads of the other program, had.
    pub(super) cpu_s: f64,
}

/// The other program. It says who it is in a first line, and answers `CASE STEPS` with the seconds
/// on the clock and of the processor that so many steps took.
pub(super) struct Outside {
    command: String,
    /// What it said of itself.
    pub(super) about: String,
    child: Child,
    input: Option<ChildStdin>,
    /// Its lines, until its output ends.
    output: Receiver<io::Result<String>>,
    patience: Duration,
}

impl Outside {
    /// Starts a command of the shell.
    pub(super) fn start(command: &str) -> Result<Self, Exit> {
        Self::within(command, PATIENCE)
    }

    fn within(command: &str, patience: Duration) -> Result<Self, Exit> {
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child =
            child.map_err(|error| Exit::Fault(format!("cannot start `{command}`: {error}")))?;
        let lines = BufReader::new(child.stdout.take().expect("it has a pipe")).lines();
        let (said, output) = sync_channel(1);
        thread::spawn(move || {
            for line in lines {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        let mut outside = Self {
            command: command.to_owned(),
            about: String::new(),
            input: child.stdin.take(),
            output,
            patience,
            child,
        };
        outside.about = outside.line()?;
        Ok(outside)
    }

    /// Has it make steps of a case.
    pub(super) fn steps(&mut self, case: &str, steps: u32) -> Result<Took, Exit> {
        let input = self.input.as_mut().expect("open until it is dropped");
        let asked = writeln!(input, "{case} {steps}").and_then(|()| input.flush());
        asked.map_err(|error| Exit::Fault(format!("`{}` has gone: {error}", self.command)))?;
        let line = self.line()?;
        let mut numbers = line.split(' ').map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(wall_s)), Some(Ok(cpu_s)), None) => Ok(Took { wall_s, cpu_s }),
            _ => Err(Exit::Fault(format!(
                "`{}` answered {line:?} to {case} {steps}, not two numbers of seconds",
                self.command
            ))),
        }
    }

    fn line(&mut self) -> Result<String, Exit> {
        let what = match self.output.recv_timeout(self.patience) {
            Ok(Ok(line)) => return Ok(line.trim_end().to_owned()),
            Ok(Err(error)) => format!("prints what cannot be read: {error}"),
            Err(RecvTimeoutError::Disconnected) => "ended; see what it printed above".into(),
            Err(RecvTimeoutError::Timeout) => format!(
                "has printed nothing for {} s; mend it",
                self.patience.as_secs_f64()
            ),
        };
        Err(Exit::Fault(format!("`{}` {what}", self.command)))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The end of its input is the end of its work.
        drop(self.input.take());
        while let Ok(line) = self.output.recv_timeout(END) {
            drop(line);
        }
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_two_numbers_of_seconds() {
        let mut outside = Outside::start("echo me; while read a b; do echo $b 0.5; done").unwrap();
        assert_eq!(outside.about, "me");
        let took = outside.steps("case", 3).unwrap();
        assert_eq!((took.wall_s, took.cpu_s), (3.0, 0.5));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let told = |command| {
            let steps = Outside::start(command).and_then(|mut outside| outside.steps("case", 3));
            steps.expect_err("it does not answer").to_string()
        };
        let odd = told("echo me; read line; echo many; cat");
        assert!(odd.contains("answered \"many\" to case 3"), "{odd}");
        let gone = told("echo me; read line");
        assert!(gone.contains("ended"), "{gone}");
        let silent = told("true");
        assert!(silent.contains("ended"), "{silent}");
    }

    #[test]
    fn what_hangs_is_not_waited_for() {
        let outside = Outside::within("exec cat", Duration::from_millis(1));
        let hangs = outside.map(drop).expect_err("it says nothing");
        assert_eq!(
            hangs.to_string(),
            "`exec cat` has printed nothing for 0.001 s; mend it"
        );
    }
}
