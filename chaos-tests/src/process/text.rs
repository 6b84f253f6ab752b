//! A plan as a TOML file, and back. Every mistake is one line that names its line in the file, the
//! key, and what is expected.

use std::fmt;

use resilin_core::time::Span;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::plan::{Fault, LONGEST, MOST_FAULTS, Plan, Planned, Role, Way};

/// Longest plan file in bytes.
pub const MAX_BYTES: usize = 256 << 20;

/// What is wrong with a plan file, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Where, from 1; 0 if it is nowhere in particular.
    pub line: usize,
    /// What, and what is expected.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for PlanError {}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<F> {
    seed: u64,
    duration_ms: u64,
    #[serde(default = "Vec::new")]
    fault: Vec<F>,
}

/// A fault as it is written: which keys it needs depends on its kind.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    at_ms: u64,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(default)]
    choice: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_ms: Option<u64>,
}

/// Reads a plan.
///
/// # Errors
/// The first thing that is not as it must be.
pub fn parse(text: &str) -> Result<Plan, PlanError> {
    let file: File<Spanned<Written>> = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| line_of(text, span.start));
        let message = error.message().lines().next().unwrap_or("no TOML").into();
        PlanError { line, message }
    })?;
    let nowhere = |message: String| PlanError { line: 0, message };
    let duration = millis(file.duration_ms);
    if duration == Span::ZERO || duration > LONGEST {
        let longest = LONGEST.0 / 1_000_000;
        let message = format!(
            "duration_ms: expected 1 to {longest}, found {}",
            file.duration_ms
        );
        return Err(nowhere(message));
    }
    if file.fault.is_empty() {
        return Err(nowhere("no [[fault]]: a plan has at least one".into()));
    }
    if file.fault.len() > MOST_FAULTS {
        return Err(nowhere(format!(
            "more than {MOST_FAULTS} faults; make two plans of it"
        )));
    }
    let mut faults: Vec<Planned> = Vec::with_capacity(file.fault.len());
    for written in file.fault {
        let line = line_of(text, written.span().start);
        let planned = written.into_inner().read(duration, faults.last());
        faults.push(planned.map_err(|message| PlanError { line, message })?);
    }
    Ok(Plan {
        seed: file.seed,
        duration,
        faults,
    })
}

/// Writes a plan; [`parse`] reads the same one back.
#[must_use]
pub fn print(plan: &Plan) -> String {
    let file = File {
        seed: plan.seed,
        duration_ms: plan.duration.0 / 1_000_000,
        fault: plan.faults.iter().map(Written::of).collect(),
    };
    toml::to_string(&file).expect("a plan is a table of texts and numbers")
}

impl Written {
    fn of(planned: &Planned) -> Self {
        let Planned { at, choice, fault } = *planned;
        let ms = |span: Span| span.0 / 1_000_000;
        let base = |kind: &str| Self {
            at_ms: ms(at),
            kind: kind.into(),
            choice,
            ..Self::default()
        };
        let lasting = |kind: &str| Self {
            for_ms: Some(ms(fault.lasts())),
            ..base(kind)
        };
        match fault {
            Fault::Kill(role) => Self {
                target: Some(role.to_string()),
                ..base("kill")
            },
            Fault::Freeze(role, _) => Self {
                target: Some(role.to_string()),
                ..lasting("freeze")
            },
            Fault::Cut => base("cut"),
            Fault::Silence(way, _) => Self {
                way: Some(way.to_string()),
                ..lasting("silence")
            },
            Fault::Throttle(bytes, _) => Self {
                bytes_per_s: Some(bytes),
                ..lasting("throttle")
            },
            Fault::Delay(delay, _) => Self {
                delay_ms: Some(ms(delay)),
                ..lasting("delay")
            },
        }
    }

    fn read(mut self, duration: Span, before: Option<&Planned>) -> Result<Planned, String> {
        let at = millis(self.at_ms);
        if at >= duration {
            return Err(format!(
                "at_ms: {} is not before the end of the plan, duration_ms {}",
                self.at_ms,
                duration.0 / 1_000_000
            ));
        }
        if let Some(before) = before.filter(|before| before.at > at) {
            return Err(format!(
                "at_ms: {} comes after a fault at {}; sort the faults by at_ms",
                self.at_ms,
                before.at.0 / 1_000_000
            ));
        }
        let fault = match self.kind.as_str() {
            "kill" => Fault::Kill(self.role()?),
            "freeze" => Fault::Freeze(self.role()?, self.lasts()?),
            "cut" => Fault::Cut,
            "silence" => Fault::Silence(self.way()?, self.lasts()?),
            "throttle" => {
                let bytes = self.bytes_per_s.take().filter(|bytes| *bytes > 0);
                let bytes = bytes.ok_or("bytes_per_s: expected 1 or more")?;
                Fault::Throttle(bytes, self.lasts()?)
            }
            "delay" => {
                let delay = self.delay_ms.take().ok_or("delay_ms: missing; set it")?;
                Fault::Delay(within("delay_ms", delay)?, self.lasts()?)
            }
            other => {
                return Err(format!(
                    "kind: expected kill, freeze, cut, silence, throttle or delay, found \"{other}\""
                ));
            }
        };
        match self.left() {
            Some(key) => Err(format!("{key}: {} has no such key; remove it", self.kind)),
            None => Ok(Planned {
                at,
                choice: self.choice,
                fault,
            }),
        }
    }

    fn role(&mut self) -> Result<Role, String> {
        match self.target.take().as_deref() {
            Some("worker") => Ok(Role::Worker),
            Some("shard") => Ok(Role::Shard),
            Some("coordinator") => Ok(Role::Coordinator),
            Some(other) => Err(format!(
                "target: expected worker, shard or coordinator, found \"{other}\""
            )),
            None => Err("target: missing; set worker, shard or coordinator".into()),
        }
    }

    fn way(&mut self) -> Result<Way, String> {
        match self.way.take().as_deref() {
            Some("up") => Ok(Way::Up),
            Some("down") => Ok(Way::Down),
            None | Some("both") => Ok(Way::Both),
            Some(other) => Err(format!("way: expected up, down or both, found \"{other}\"")),
        }
    }

    fn lasts(&mut self) -> Result<Span, String> {
        within(
            "for_ms",
            self.for_ms.take().ok_or("for_ms: missing; set it")?,
        )
    }

    /// A key that the kind did not ask for.
    fn left(&self) -> Option<&'static str> {
        let keys = [
            (self.target.is_some(), "target"),
            (self.way.is_some(), "way"),
            (self.bytes_per_s.is_some(), "bytes_per_s"),
            (self.delay_ms.is_some(), "delay_ms"),
            (self.for_ms.is_some(), "for_ms"),
        ];
        keys.into_iter().find_map(|(left, key)| left.then_some(key))
    }
}

fn within(key: &str, ms: u64) -> Result<Span, String> {
    let longest = LONGEST.0 / 1_000_000;
    match ms {
        1.. if ms <= longest => Ok(Span::from_millis(ms)),
        _ => Err(format!("{key}: expected 1 to {longest}, found {ms}")),
    }
}

/// Saturates: whoever writes so much is told by the checks of the range.
fn millis(ms: u64) -> Span {
    Span(ms.saturating_mul(1_000_000))
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
#[path = "text_test.rs"]
mod tests;
