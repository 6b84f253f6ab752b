//! The replicas of a shard process as actors: begun, routed to, and ended.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context};
use resilin_core::handshake::{Hello, Refusal, RefusalCode, Role};
use resilin_core::machine::host::{Event, Place, Routes};
use resilin_core::machine::shard::{Assigned, Origin};
use resilin_core::message::Branch;
use resilin_core::{SliceId, View};
use resilin_learn::kernel::SliceKernel;
use tokio::sync::{oneshot, watch};

use super::actor::{HostActor, Restored};
use super::outside::Around;
use super::{peers, store};
use crate::exit::Exit;
use crate::link::{Address, Knock};
use crate::shard::{
    self, Arrived, Begin, Dial, End, Followed, Mirrored, Seat, Setting, ShardActor,
};
use crate::spawn;

/// One replica in this process.
pub(super) struct Replica {
    pub(super) shard: Addr<ShardActor>,
    pub(super) branch: Branch,
    /// Dropped, the links of other hosts to it end.
    alive: watch::Sender<()>,
}

/// A slice on its way from the store.
pub(super) enum Restoring {
    Asked {
        branch: Branch,
        /// Dropped, it is given up.
        _give_up: oneshot::Sender<()>,
    },
    Here(Branch, Box<SliceKernel>),
}

impl HostActor {
    pub(super) fn restore(&mut self, slice: SliceId, branch: Branch, context: &Context<Self>) {
        let (give_up, given_up) = oneshot::channel();
        let asked = Restoring::Asked {
            branch,
            _give_up: give_up,
        };
        self.restoring.insert(slice, asked);
        let (facts, host) = (Arc::clone(&self.facts), context.address());
        self.facts.data.spawn(async move {
            let result = tokio::select! {
                result = store::restore(facts, slice, branch) => result,
                _ = given_up => return,
            };
            let result = result.map(Box::new);
            // The actor lives as long as the process.
            let _ = host
                .send(Restored {
                    slice,
                    branch,
                    result,
                })
                .await;
        });
    }

    pub(super) fn restored(&mut self, restored: Restored, context: &mut Context<Self>) {
        let Restored {
            slice,
            branch,
            result,
        } = restored;
        let asked = self.restoring.get(&slice);
        if !matches!(asked, Some(Restoring::Asked { branch: of, .. }) if *of == branch) {
            return;
        }
        let event = match result {
            Ok(kernel) => {
                self.restoring
                    .insert(slice, Restoring::Here(branch, kernel));
                Event::Restored { slice, branch }
            }
            Err(cause) => {
                self.restoring.remove(&slice);
                Event::RestoreFailed {
                    slice,
                    branch,
                    cause,
                }
            }
        };
        self.event(event, context);
    }

    pub(super) fn begin(
        &mut self,
        slice: SliceId,
        branch: Branch,
        view: View,
        duty: Assigned,
        context: &Context<Self>,
    ) {
        let kernel = match self.restoring.remove(&slice) {
            Some(Restoring::Here(of, kernel)) if of == branch => Some(*kernel),
            Some(_) | None => None,
        };
        let setting = self.setting(branch, context);
        let origin = Origin {
            slice,
            timeline: branch.timeline,
            map: branch.map,
            view,
            step: branch.base,
        };
        let seat = Seat {
            origin,
            duty,
            plan: self
                .facts
                .task
                .slice_plan(setting.rules.slices.range(slice)),
            kernel,
        };
        let shard = match shard::start(&setting, seat) {
            Ok(shard) => shard,
            Err(error) => return self.exit(Exit::Fault(format!("cannot start a thread: {error}"))),
        };
        let (alive, _) = watch::channel(());
        shard.do_send(Begin);
        self.replicas.insert(
            slice,
            Replica {
                shard,
                branch,
                alive,
            },
        );
        self.route(slice);
        self.mirror(slice);
    }

    fn setting(&self, branch: Branch, context: &Context<Self>) -> Arc<Setting> {
        let cluster = &self.facts.task.job.cluster;
        Arc::new(Setting {
            rules: self.facts.rules(branch.shards),
            expected: self.facts.expected.clone(),
            in_flight: cluster.in_flight,
            mailbox: cluster.mailbox,
            clock: self.facts.clock,
            outside: Box::new(Around {
                facts: Arc::clone(&self.facts),
                branch,
                host: context.address(),
            }),
        })
    }

    pub(super) fn drop_replica(&mut self, slice: SliceId) {
        self.restoring.remove(&slice);
        if let Some(replica) = self.replicas.remove(&slice) {
            replica.shard.do_send(End);
            drop(replica.alive);
        }
        self.route(slice);
    }

    pub(super) fn routes(&mut self, routes: Routes) {
        let before = std::mem::replace(&mut self.routes, routes);
        let slices = |routes: &Routes| routes.primaries.keys().copied().collect::<Vec<_>>();
        for slice in slices(&before) {
            if !self.routes.primaries.contains_key(&slice) {
                self.route(slice);
            }
        }
        for slice in slices(&self.routes) {
            if before.primaries.get(&slice) != self.routes.primaries.get(&slice) {
                self.route(slice);
            }
            if before.mirrors.get(&slice) != self.routes.mirrors.get(&slice) {
                self.mirror(slice);
            }
        }
    }

    /// Words for the primary of the slice go where it is now.
    fn route(&mut self, slice: SliceId) {
        let peers = &self.facts.peers;
        self.dialled.remove(&slice);
        match self.routes.primaries.get(&slice) {
            None => peers.nowhere(slice),
            Some(Place::Here) => match self.replicas.get(&slice) {
                Some(replica) => peers.here(slice, replica.shard.clone()),
                None => peers.nowhere(slice),
            },
            Some(Place::At { address, .. }) => {
                peers.nowhere(slice);
                let (hang_up, hung_up) = oneshot::channel();
                self.dialled.insert(slice, hang_up);
                let hello = self.hello(Role::ShardPeer { slice });
                let address = self.reachable(address);
                let facts = Arc::clone(&self.facts);
                self.facts
                    .data
                    .spawn(peers::keep(facts, slice, address, hello, hung_up));
            }
        }
    }

    /// The replica of the slice follows, or is followed by, whom the routes name.
    fn mirror(&self, slice: SliceId) {
        let Some(replica) = self.replicas.get(&slice) else {
            return;
        };
        let primary = self.routes.primaries.get(&slice) == Some(&Place::Here);
        let peer = self.routes.mirrors.get(&slice).filter(|_| primary);
        let dial = peer.map(|peer| Dial {
            address: self.reachable(&peer.address),
            hello: self.hello(Role::Backup { slice }),
        });
        replica.shard.do_send(Mirrored(dial));
    }

    fn hello(&self, role: Role) -> Hello {
        Hello {
            incarnation: self.incarnation,
            ..self.facts.hello(role)
        }
    }

    /// A process that listens on all interfaces is reached where the coordinator is.
    fn reachable(&self, address: &str) -> String {
        Address::on(address, &self.facts.host)
    }

    /// Hands a link to the replica that it is for.
    pub(super) fn knocked(&self, knock: Knock) {
        let replica = |slice: &SliceId| self.replicas.get(slice);
        match knock.hello.role {
            Role::WorkerData { slice } => match replica(&slice) {
                Some(replica) => replica.shard.do_send(Arrived(knock)),
                None => refuse(knock, format!("slice {slice} is not served here")),
            },
            Role::Backup { slice } => {
                let primary = self.routes.mirrors.get(&slice).map(|peer| peer.incarnation);
                match replica(&slice) {
                    Some(replica) if primary.is_some() && primary == knock.hello.incarnation => {
                        replica.shard.do_send(Followed(knock));
                    }
                    Some(_) | None => refuse(knock, format!("slice {slice} has no backup here")),
                }
            }
            Role::ShardPeer { slice } => match replica(&slice) {
                Some(replica) => {
                    let (shard, alive) = (replica.shard.clone(), replica.alive.subscribe());
                    let expected = self.facts.expected.clone();
                    self.facts
                        .data
                        .spawn(peers::hear(knock, expected, shard, alive));
                }
                None => refuse(knock, format!("slice {slice} is not served here")),
            },
            role @ (Role::Worker | Role::Shard | Role::Store { .. } | Role::Supervisor) => {
                refuse(knock, format!("role {role:?} is not served here"));
            }
        }
    }
}

fn refuse(knock: Knock, reason: String) {
    let code = RefusalCode::Role;
    spawn::beside(knock.refuse(Refusal { code, reason }));
}
