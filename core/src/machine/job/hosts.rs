//! The hosts of a job: who is there, and what each has.

use super::Job;
use crate::machine::fleet::HostNews;

impl Job {
    pub(super) fn host(&mut self, news: HostNews) {
        match news {
            HostNews::Up { .. }
            | HostNews::Said(..)
            | HostNews::Unlinked(_)
            | HostNews::Down(..)
            | HostNews::Stalled(_) => {}
        }
    }
}
