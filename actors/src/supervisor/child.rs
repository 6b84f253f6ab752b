//! One child process: started in a group of its own, heard on both outputs, and gone when dropped.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

use super::children::Fate;
use super::{Options, Role};
use crate::spawn;

/// A line or the end of a child.
pub(super) enum News {
    /// A line on standard output.
    Said { pid: u32, text: String },
    /// A line on standard error.
    Line { role: Role, pid: u32, text: String },
    /// It is gone, and everything it wrote was told before.
    Gone {
        role: Role,
        pid: u32,
        status: ExitStatus,
        fate: Fate,
    },
}

/// A living child. Dropped, it is killed.
pub(super) struct Child {
    pub(super) pid: u32,
    /// Its end is the child's.
    _stdin: Option<ChildStdin>,
    _kill: oneshot::Sender<()>,
}

impl Child {
    /// Starts the program with these arguments; `news` hears of it until it is gone.
    pub(super) fn start(
        options: &Options,
        role: Role,
        arguments: &[String],
        news: mpsc::Sender<News>,
    ) -> io::Result<Self> {
        let mut process = Command::new(&options.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = process.id().expect("it was not waited for yet");
        let stdin = process.stdin.take();
        let output = process.stdout.take().expect("it is piped");
        let errors = process.stderr.take().expect("it is piped");
        let (kill, killed) = oneshot::channel();
        let children = options.children.clone();
        children.started(pid, role);
        spawn::apart(async move {
            let end = async {
                let said = each_line(output, &news, |text| News::Said { pid, text });
                let lines = each_line(errors, &news, |text| News::Line { role, pid, text });
                tokio::join!(said, lines);
                process.wait().await
            };
            let ended = tokio::select! {
                status = end => Some(status),
                _ = killed => None,
            };
            let status = match ended {
                Some(status) => status,
                None => {
                    // It may have ended meanwhile.
                    let _ = process.start_kill();
                    process.wait().await
                }
            };
            let fate = children.gone(pid);
            if let Ok(status) = status {
                let gone = News::Gone {
                    role,
                    pid,
                    status,
                    fate,
                };
                let _ = news.send(gone).await;
            }
        });
        Ok(Self {
            pid,
            _stdin: stdin,
            _kill: kill,
        })
    }

    /// Asks it to end in peace.
    pub(super) fn terminate(&self) {
        let pid = i32::try_from(self.pid).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // It may have ended meanwhile; its id is free only once it was waited for.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

async fn each_line(
    stream: impl AsyncRead + Unpin,
    news: &mpsc::Sender<News>,
    tell: impl Fn(String) -> News,
) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        if news.send(tell(text)).await.is_err() {
            return;
        }
    }
}
