//! Orders to slices that live in hosts.

use super::hosts::replicas;
use super::{Effect, Job};
use crate::id::SliceId;
use crate::message::{HostTold, ShardOrder, SliceView};

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
        let views = self.views.iter().filter(|view| view.slice == slice);
        effects.extend(views.flat_map(|view| self.order_replicas(view, order)));
    }

    fn order_hosts(&self, order: ShardOrder) -> impl Iterator<Item = Effect> {
        let views = self.views.iter();
        views.flat_map(move |view| self.order_replicas(view, order))
    }

    /// The same order for every replica of a slice.
    fn order_replicas(
        &self,
        view: &SliceView,
        order: ShardOrder,
    ) -> impl Iterator<Item = Effect> + use<> {
        let (slice, timeline) = (view.slice, self.branch.timeline);
        replicas(view).map(move |host| {
            let told = HostTold::Order {
                slice,
                timeline,
                order,
            };
            Effect::Host(host, told)
        })
    }
}
