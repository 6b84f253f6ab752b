//! A job run by real processes while faults come over them: the supervisor of `train` on this
//! thread, an operator that carries a plan out, and a watcher that looks at the run as often as it
//! can. Only processes that the supervisor started are signalled, by their ids.

mod operator;
mod record;
mod stage;
mod watcher;

use std::sync::mpsc;
use std::thread;

use resilin_actors::supervisor::{self, Ended, Happening, Options};
use resilin_chaos::process::plan::Plan;
use resilin_chaos::process::proxy::Proxy;

pub(crate) use record::{Record, Stretch, Struck};
use stage::Stage;

/// What is tried.
pub(crate) struct Trial<'a> {
    /// How the run is started, with its children.
    pub(crate) options: Options,
    /// Workers that must compute before faults begin.
    pub(crate) workers: u32,
    /// What goes wrong; none in a quiet run.
    pub(crate) plan: Option<&'a Plan>,
    /// What lies between the processes, if anything does.
    pub(crate) proxy: Option<&'a Proxy>,
}

/// What came of it.
pub(crate) struct Tried {
    /// How the run ended.
    pub(crate) ended: Ended,
    /// What was seen of it.
    pub(crate) record: Record,
}

/// Something to show while it goes on.
pub(crate) enum Shown<'a> {
    /// Of the run, from its supervisor.
    Happening(&'a Happening),
    /// A fault was carried out, or met nobody.
    Fault(&'a Struck),
}

impl Trial<'_> {
    /// Runs it to its end. `show` is called from several threads.
    pub(crate) fn run(self, show: &(dyn Fn(Shown<'_>) + Sync)) -> Tried {
        let Self {
            options,
            workers,
            plan,
            proxy,
        } = self;
        let stage = Stage::new(options.children.clone(), workers as usize);
        let (located, location) = mpsc::channel();
        let (over, watched) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let shared = &stage;
        let ended = thread::scope(|scope| {
            scope.spawn(move || watcher::watch(shared, &location, &watched));
            if let Some(plan) = plan {
                scope.spawn(move || operator::act(shared, plan, proxy, &ended, show));
            }
            let ended = supervisor::run(options, |happening| {
                if let Happening::Ready(location) = &happening {
                    if let Some(proxy) = proxy {
                        proxy.aim(&location.listen);
                    }
                    // Only the first one is waited for.
                    let _ = located.send(location.api.clone());
                }
                shared.follow(&happening);
                show(Shown::Happening(&happening));
            });
            // Both threads wait for the ends of these.
            drop((over, ending, located));
            ended
        });
        Tried {
            ended,
            record: stage.into_record(),
        }
    }
}
