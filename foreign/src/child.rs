//! One running command: asked, answered within the deadline, and gone when dropped.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use serde_json::error::Category;

use crate::command::CommandLine;
use crate::fault::Fault;
use crate::lines::{Answers, Errors, Waited};
use crate::memory::Memory;
use crate::message::{Answer, Ask};

/// What keeps libraries from computing on threads whose number changes bits, and Python from
/// iterating over sets in another order each time. Set only where the user has not.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("PYTHONHASHSEED", "0"),
    (
        "XLA_FLAGS",
        "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    ),
];

/// Says to a command that it is one: what it prints before it serves belongs to the log already.
const COMMAND: (&str, &str) = ("RESILIN_MODEL", "1");

/// Deadlines that a child has for its first answer: libraries are loaded before it, which takes a
/// minute and more where many workers start on a few cores.
const START: u32 = 5;

/// From the end of a child's output to its own.
const END: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// The process. Its standard input ends when this process does, however that comes about: then it
/// ends too.
pub(crate) struct Child {
    process: std::process::Child,
    /// Whether its end was waited for, and its number may be another's.
    waited: bool,
    input: ChildStdin,
    answers: Answers<ChildStdout>,
    errors: Errors,
    deadline: Duration,
    /// What both see.
    pub(crate) memory: Memory,
    /// The last number that weights in the memory had.
    pub(crate) version: u64,
}

impl Child {
    /// Starts the command in a process group of its own.
    pub(crate) fn start(command: &CommandLine, deadline: Duration) -> Result<Self, Fault> {
        let memory = Memory::new().map_err(Fault::Memory)?;
        let mut starting = Command::new(command.program());
        starting
            .args(command.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env(COMMAND.0, COMMAND.1)
            .process_group(0);
        for (name, value) in ENVIRONMENT {
            if std::env::var_os(name).is_none() {
                starting.env(name, value);
            }
        }
        let mut process = starting.spawn().map_err(Fault::Start)?;
        let input = process.stdin.take().expect("it is piped");
        let output = process.stdout.take().expect("it is piped");
        let errors = process.stderr.take().expect("it is piped");
        let pid = process.id();
        match Errors::of(errors, pid) {
            Ok(errors) => Ok(Self {
                process,
                waited: false,
                input,
                answers: Answers::of(output),
                errors,
                deadline,
                memory,
                version: 0,
            }),
            Err(error) => {
                kill(&mut process);
                Err(Fault::Start(error))
            }
        }
    }

    /// Asks and waits for the answer. After a fault the child is of no use any more.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<Answer, Fault> {
        let mut line = serde_json::to_vec(ask).expect("requests have string keys");
        line.push(b'\n');
        // A pipe that is closed is found again as an end below, with its cause.
        let _ = self.input.write_all(&line);
        let garbage = |line: &[u8]| Fault::Garbage(String::from_utf8_lossy(line).into_owned());
        let unread = |line: &[u8], error: serde_json::Error| match error.classify() {
            Category::Data => Fault::Answer(error),
            Category::Io | Category::Syntax | Category::Eof => garbage(line),
        };
        let patience = match ask {
            Ask::Describe { .. } => START * self.deadline,
            Ask::Initialise(_) | Ask::Gradient { .. } | Ask::Score { .. } | Ask::Predict { .. } => {
                self.deadline
            }
        };
        match self.answers.next(patience) {
            Waited::Line(line) => match serde_json::from_slice(&line) {
                Ok(Answer::Failed { why }) => Err(Fault::Failed(why)),
                Ok(answer) => Ok(answer),
                Err(error) => Err(unread(&line, error)),
            },
            Waited::TooLong(line) => Err(garbage(&line)),
            Waited::Silence => Err(Fault::Silent(patience)),
            Waited::End => Err(self.ended(ask)),
        }
    }

    /// How it ended; one that only closed its standard output is killed.
    fn ended(&mut self, ask: &Ask) -> Fault {
        let waited = gone(&self.process, END);
        // What it started and left behind ends with it.
        kill_group(&self.process);
        self.waited = true;
        let how = match self.process.wait() {
            Ok(how) => how,
            Err(error) => return Fault::Start(error),
        };
        if waited.is_err() {
            return Fault::Closed;
        }
        Fault::Ended {
            how,
            when: match ask {
                Ask::Describe { .. } | Ask::Initialise(_) => "at its start",
                Ask::Gradient { .. } | Ask::Score { .. } | Ask::Predict { .. } => "in the middle",
            },
            said: self.errors.last_words(),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.waited {
            kill(&mut self.process);
        }
    }
}

/// Waits until a child can be waited for; an error if that takes too long.
fn gone(process: &std::process::Child, patience: Timespec) -> rustix::io::Result<()> {
    let own = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    let end = pidfd_open(own.expect("the id of a process"), PidfdFlags::empty())?;
    match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&patience))? {
        0 => Err(rustix::io::Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// Ends a child and what it has started in its group, and waits for it.
fn kill(process: &mut std::process::Child) {
    kill_group(process);
    // Nothing is left to be told of a process that cannot be waited for.
    let _ = process.wait();
}

/// Ends all of a child's group. Its number belongs to it until the child was waited for, also when
/// that has ended already.
fn kill_group(process: &std::process::Child) {
    let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    // An error says that none of them is left.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}
