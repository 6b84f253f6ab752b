//! Coordinator, workers and supervisor as real processes on loopback.

mod refusals;
mod supervision;
mod support;
mod training;

#[test]
fn a_child_plays_its_role() {
    support::play_role();
}
