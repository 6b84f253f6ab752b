//! Looks at a run again and again: what is measured is as fine as the time between two looks.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::stage::Stage;
use crate::client::Client;

/// Pause between two looks: short against a step, long against what a look costs.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks until `over` has no sender any more. The first `location` is where the run is asked; a
/// coordinator that was restarted is where it was.
pub(super) fn watch(stage: &Stage, location: &Receiver<String>, over: &Receiver<()>) {
    let Ok(api) = location.recv() else { return };
    let Ok(client) = Client::new(&api, None) else {
        // Without a token file there is nothing to fail.
        return;
    };
    while over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let began = stage.now();
        // One that does not answer is killed, frozen, or has ended.
        if let Ok(status) = client.status() {
            stage.saw(began, status);
        }
    }
}
