//! Orders to slices that live in hosts.

use super::hosts::replicas;
use super::{Effect, Job};
use crate::id::SliceId;
use crate::message::{HostTold, ShardOrder};

impl Job {
    /// Turns what is ordered of every slice into words to the hosts, where hosts have them.
    pub(super) fn address_orders(&self, first: usize, effects: &mut Vec<Effect>) {
        if self.settings.hosts.is_none() {
            return;
        }
        let said = effects.split_off(first);
        for effect in said {
            match effect {
                Effect::Order(order) => effects.extend(self.order_hosts(order)),
                other => effects.push(other),
            }
        }
    }

    /// Orders something of one slice, where slices live in hosts; else of all, which costs nothing.
    pub(super) fn order_slice(&self, slice: SliceId, order: ShardOrder, effects: &mut Vec<Effect>) {
        if self.settings.hosts.is_none() {
            return effects.push(Effect::Order(order));
        }
        let of_slice = self.order_hosts(order).into_iter().filter(|effect| {
            matches!(effect, Effect::Host(_, HostTold::Order { slice: to, .. }) if *to == slice)
        });
        effects.extend(of_slice);
    }

    /// The same order for every replica.
    fn order_hosts(&self, order: ShardOrder) -> Vec<Effect> {
        let timeline = self.branch.timeline;
        let to = self.views.iter().flat_map(|view| {
            let slice = view.slice;
            replicas(view).map(move |host| (host, slice))
        });
        to.map(|(host, slice)| {
            let told = HostTold::Order {
                slice,
                timeline,
                order,
            };
            Effect::Host(host, told)
        })
        .collect()
    }
}
