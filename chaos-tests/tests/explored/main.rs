//! Explored, not only sampled: every order in which a small cluster's messages can arrive, with a
//! worker that dies at any moment, by a model checker; and histories of a shard, by a checker of
//! linearizability.

mod happening; // messages and actions
mod history; // what clients saw of one shard
mod parts; // the processes: machines and their shells
mod symbols; // arithmetic as symbols
mod world; // states, actions, properties

use stateright::{Checker, Model};

use world::Explored;

/// Explores all, and says how much that was.
fn explore(model: Explored, what: &str) -> usize {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{what}: {states} states, {} deep", checker.max_depth());
    checker.assert_properties();
    states
}

#[test]
fn every_order_of_messages_with_a_kill_at_any_moment() {
    let states = explore(Explored::new(1, 0), "a kill");
    assert!(states > 10_000, "{states}");
}

#[test]
fn every_order_of_messages_with_a_time_out_at_any_moment() {
    let states = explore(Explored::new(0, 1), "a time-out");
    assert!(states > 1_000, "{states}");
}
