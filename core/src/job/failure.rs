//! `[failure]`: how long silence is borne and how often something is started again. Every liveness
//! timeout derives from the one number `lease`. Decides no bits.

use super::error::JobError;
use super::key::Key;
use super::run::Bits;
use super::section::Section;
use crate::time::Span;

const LEASE: Key = Key::free(
    "lease",
    "seconds",
    "Silence after which a member counts as lost; all other liveness times derive from it.",
);
const DRAIN_GRACE: Key = Key::free(
    "drain_grace",
    "seconds",
    "Time to finish after SIGTERM or a drain, before the process ends anyway.",
);
const REDIAL_LIMIT: Key = Key::free(
    "redial_limit",
    "seconds",
    "Time that a worker redials a lost coordinator before it exits with 75.",
);
const RESTARTS: Key = Key::free(
    "restarts",
    "",
    "Restarts of failed local processes within restart_window before train gives up.",
);
const RESTART_WINDOW: Key = Key::free(
    "restart_window",
    "seconds",
    "Time over which restarts are counted; those since the last committed step count for good.",
);
const WAIT_BELOW_MIN: Key = Key::free(
    "wait_below_min",
    "seconds",
    "Time that a run waits with fewer than min_workers before it exits with 5; not set: no end.",
);

const AUDIT_RATE: Key = Key::free(
    "audit_rate",
    "",
    "Share of all microbatches that a second worker evaluates too; one whose bits are wrong is named \
     and fenced. Costs as much more compute; needs bits = \"on\".",
);

/// The section `[failure]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Silence after which a member is lost.
    pub lease: Span,
    /// Time to finish when asked to leave.
    pub drain_grace: Span,
    /// How long a lost coordinator is redialled.
    pub redial_limit: Span,
    /// Restarts within the window.
    pub restarts: u32,
    /// The window of the restart budget.
    pub restart_window: Span,
    /// How long a run waits for its minimum; `None`: without end.
    pub wait_below_min: Option<Span>,
    /// Share of microbatches that are audited.
    pub audit_rate: f64,
}

impl Failure {
    /// Reads the section of a run with these bits.
    ///
    /// # Errors
    /// If a key is not what it may be, or audits are asked for where bits are not promised.
    pub fn read(section: &mut Section<'_>, bits: Bits) -> Result<Self, JobError> {
        let lease = section.float(&LEASE, Some(1.0), 0.05..=3600.0)?;
        let drain_grace = section.float(&DRAIN_GRACE, Some(10.0), 0.0..=86_400.0)?;
        let redial_limit = section.float(&REDIAL_LIMIT, Some(60.0), 0.0..=1e6)?;
        let restarts = section.integer(&RESTARTS, Some(10), 0..=1_000_000)?;
        let restart_window = section.float(&RESTART_WINDOW, Some(60.0), 1.0..=86_400.0)?;
        let wait_below_min = section.optional_float(&WAIT_BELOW_MIN, 0.0..=1e6)?;
        let audit_rate = section.float(&AUDIT_RATE, Some(0.0), 0.0..=1.0)?;
        if audit_rate > 0.0 && bits == Bits::Off {
            let message = format!(
                "{audit_rate} compares bits, and [run] bits is \"off\"; set audit_rate to 0, or \
                 bits to \"on\""
            );
            return Err(section.error(AUDIT_RATE.name, message));
        }
        Ok(Self {
            lease: Span::from_secs_f64(lease),
            drain_grace: Span::from_secs_f64(drain_grace),
            redial_limit: Span::from_secs_f64(redial_limit),
            restarts: u32::try_from(restarts).expect("at most a million"),
            restart_window: Span::from_secs_f64(restart_window),
            wait_below_min: wait_below_min.map(Span::from_secs_f64),
            audit_rate,
        })
    }
}
