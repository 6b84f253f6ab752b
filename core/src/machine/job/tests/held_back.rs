//! Hosts that were lost again and again.

use super::hosts::{Hosted, LEASE, Short, host, hosted};
use super::*;
use crate::machine::fleet::HostNews;

impl Hosted {
    /// A host that gets no slice for so many leases.
    fn flapping(&mut self, number: u32, leases: u64) -> Vec<Effect> {
        self.up(number);
        let until = self.bench.now + Span::from_millis(leases * LEASE);
        self.news(HostNews::HeldBack(host(number), until));
        self.ready(number)
    }

    fn state(&self, number: u32) -> String {
        let status = self.bench.job.status(self.bench.now);
        let mut hosts = status.hosts.into_iter();
        let found = hosts.find(|known| known.incarnation == host(number));
        found.expect("it is a host").state
    }
}

#[test]
fn a_host_that_is_held_back_is_given_nothing_before_its_time() {
    let mut run = Hosted::in_sync();
    let told = run.flapping(3, 5);
    let (name, cause) = ("machine3:77".into(), "it was lost again and again".into());
    let wait_ms = 5 * LEASE;
    let delayed = Effect::Tell(Fact::Delayed {
        name,
        wait_ms,
        cause,
    });
    assert!(told.contains(&delayed), "{told:?}");
    run.expired(2);
    let alone = run.views();
    let backups =
        |views: &[Short]| -> Vec<Option<u32>> { views.iter().map(|view| view.2).collect() };
    assert_eq!(backups(&alone), [None, None], "{alone:?}");
    assert_eq!(run.state(3), "waiting");
    run.tick(5 * LEASE - 1);
    assert_eq!(run.views(), alone);
    assert_eq!(
        run.bench.job.hosts_deadline(),
        Some(run.bench.now + Span::from_millis(1))
    );
    run.tick(1);
    assert_eq!(backups(&run.views()), [Some(3), Some(3)]);
    assert_eq!(run.state(3), "ready");
}

#[test]
fn nobody_is_held_back_from_a_run_that_would_wait() {
    let mut run = Hosted::new(hosted(1, 0));
    run.bench.join(1);
    run.flapping(1, 64);
    let primaries: Vec<u32> = run.views().iter().map(|view| view.1).collect();
    assert_eq!(primaries, [1, 1]);
}
