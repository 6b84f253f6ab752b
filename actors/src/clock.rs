//! The one monotonic clock of a process, and the one timer of an actor.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use actix::{Actor, AsyncContext, Context, Handler, Message, SpawnHandle};
use resilin_core::{Span, Time};

/// Time since the process chose its zero; copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    /// Read once per message.
    pub(crate) fn now(self) -> Time {
        let elapsed = self.zero.elapsed().as_nanos();
        Time(u64::try_from(elapsed).expect("a process lives less than 584 years"))
    }
}

/// Seconds since 1970, for records and reigns; never for liveness.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Milliseconds since 1970, for the dates of facts; never for liveness.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A span as the runtime wants it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}

/// The deadline of an actor's machine passed.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Tick;

/// The timer of an actor, armed at the deadline of its machine.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: Option<(Time, SpawnHandle)>,
}

impl Alarm {
    /// Arms the timer at `deadline`; an earlier arming is given up.
    pub(crate) fn set<A>(&mut self, context: &mut Context<A>, now: Time, deadline: Option<Time>)
    where
        A: Actor<Context = Context<A>> + Handler<Tick>,
    {
        if self.armed.map(|(at, _)| at) == deadline {
            return;
        }
        if let Some((_, handle)) = self.armed.take() {
            context.cancel_future(handle);
        }
        self.armed = deadline.map(|at| {
            let handle = context.notify_later(Tick, duration(at.since(now)));
            (at, handle)
        });
    }

    /// The timer has fired.
    pub(crate) fn rang(&mut self) {
        self.armed = None;
    }
}
