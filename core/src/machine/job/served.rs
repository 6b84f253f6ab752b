//! What people see of hosts and slices, and whom the run waits for among them.

use super::hosts::{Host, Presence};
use super::{HostStatus, Job, SliceStatus};
use crate::id::Incarnation;

impl Job {
    pub(super) fn slice_status(&self) -> Vec<SliceStatus> {
        let hosted = |view: &&crate::message::SliceView| view.primary.is_some();
        let slices = self.views.iter().filter(hosted).filter_map(|view| {
            let (primary, state) = (view.primary?, self.slices.get(&view.slice)?);
            let backup = view.backup.as_ref();
            Some(SliceStatus {
                slice: view.slice,
                view: view.view,
                step: state.seen,
                primary,
                state: self.presence_word(primary).into(),
                backup: backup.map(|known| known.peer.incarnation),
                in_sync: backup.is_some_and(|known| known.in_sync),
                behind: state.behind,
            })
        });
        slices.collect()
    }

    fn presence_word(&self, host: Incarnation) -> &'static str {
        let returning = |host: &Host| host.returning.is_some();
        match self.presence(host) {
            Presence::Here => "serving",
            Presence::Away if self.hosting.hosts.get(&host).is_some_and(returning) => "returning",
            Presence::Away | Presence::Gone => "lost",
        }
    }

    pub(super) fn host_status(&self) -> Vec<HostStatus> {
        let hosts = self.hosting.hosts.iter().map(|(incarnation, host)| {
            let backups = self.views.iter().filter_map(|view| view.backup.as_ref());
            let primaries = self.views.iter().filter_map(|view| view.primary);
            HostStatus {
                incarnation: *incarnation,
                name: host.name.clone(),
                state: match self.held_back(host) {
                    Some(_) => "waiting".into(),
                    None => state(host).into(),
                },
                primaries: primaries.filter(|host| host == incarnation).count(),
                backups: backups
                    .filter(|known| known.peer.incarnation == *incarnation)
                    .count(),
            }
        });
        hosts.collect()
    }

    /// The store or the shard process that nothing goes on without.
    pub(super) fn waiting_for_hosts(&self) -> Option<String> {
        let settings = self.settings.hosts?;
        if let Some((_, reason)) = &self.hosting.trouble {
            return Some(format!(
                "the store: who serves a slice cannot be written down: {reason}"
            ));
        }
        if self.views.is_empty() {
            let hosts = self.hosting.hosts.keys();
            let ready = hosts.filter(|host| self.presence(**host) == Presence::Here);
            return Some(format!(
                "shard processes: {} of {} are ready; start some with `resilin shard --join`",
                ready.count(),
                settings.processes
            ));
        }
        let missing = |view: &&crate::message::SliceView| {
            let primary = view.primary;
            primary.is_some_and(|host| self.presence(host) != Presence::Here)
        };
        let view = self.views.iter().find(missing)?;
        let primary = view.primary?;
        let name = self.hosting.hosts.get(&primary).map(|host| &host.name);
        let name = name.filter(|name| !name.is_empty());
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        Some(format!(
            "shard process {primary}{name}, which serves slice {}: {}",
            view.slice,
            self.presence_word(primary)
        ))
    }
}

fn state(host: &Host) -> &'static str {
    match host {
        Host { linked: false, .. } => "unlinked",
        Host { address: None, .. } => "joining",
        Host { draining: true, .. } => "draining",
        Host { .. } => "ready",
    }
}
