//! What the supervisor says about the ends of its children: one line with who, how, why and the
//! remedy.

use std::fmt;
use std::process::ExitStatus;

use super::{Options, Role};

/// How a child ended.
pub(super) struct End {
    pub(super) role: Role,
    pub(super) pid: u32,
    pub(super) status: ExitStatus,
    /// What it said of it.
    pub(super) cause: Option<String>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            role,
            pid,
            status,
            cause,
        } = self;
        write!(f, "{role} {pid} ended ({status})")?;
        match cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// What a line on standard error says of the end of who wrote it; other lines are log.
pub(super) fn cause(line: &str) -> Option<&str> {
    let panic = || line.starts_with("cause=").then_some(line);
    line.strip_prefix("error: ").or_else(panic)
}

/// The process id in a member's name, which is `HOST:PID`.
pub(super) fn pid(name: &str) -> Option<u32> {
    name.rsplit_once(':')?.1.parse().ok()
}

/// That the restart budget is used up, by whom, and what to do.
pub(super) fn used_up(options: &Options, last: &End) -> String {
    let (restarts, window) = (options.restarts, options.window);
    format!(
        "the restart budget is used up ([failure] restarts {restarts} within restart_window \
         {window}): {last}; mend the cause or raise restarts, and the same command line goes on"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use resilin_core::Span;

    use super::*;

    fn end(cause: Option<&str>) -> End {
        End {
            role: Role::Worker,
            pid: 7,
            status: ExitStatus::from_raw(9),
            cause: cause.map(str::to_owned),
        }
    }

    #[test]
    fn a_budget_that_is_used_up_names_the_cause_if_there_is_one() {
        let options = Options {
            program: "resilin".into(),
            coordinator: Vec::new(),
            first_start: Vec::new(),
            worker: Vec::new(),
            cpus_each: None,
            shards: Vec::new(),
            token: None,
            restarts: 3,
            window: Span::from_millis(60_000),
            grace: Span::from_millis(1000),
            children: super::super::Children::default(),
        };
        let window = options.window;
        let line = |how: &str| {
            format!(
                "the restart budget is used up ([failure] restarts 3 within restart_window \
                 {window}): worker 7 ended (signal: 9 (SIGKILL)){how}; mend the cause or raise \
                 restarts, and the same command line goes on"
            )
        };
        assert_eq!(used_up(&options, &end(None)), line(""));
        assert_eq!(used_up(&options, &end(Some("no disk"))), line(": no disk"));
    }

    #[test]
    fn only_errors_and_panics_are_causes() {
        let lines = ["error: no disk", "2026 WARN slow", "cause=\"panic: x\"", ""];
        let causes = lines.map(cause);
        assert_eq!(
            causes,
            [Some("no disk"), None, Some("cause=\"panic: x\""), None]
        );
    }
}
