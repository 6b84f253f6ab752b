//! Looks at the run through the HTTP interface, one request at a time and never on this thread.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::coordinator::{Location, RunStatus};

/// Time for one answer.
const DEADLINE: Duration = Duration::from_secs(1);

/// At most one request under way.
pub(super) struct Look {
    token: Option<String>,
    under_way: Option<JoinHandle<Result<RunStatus, String>>>,
}

impl Look {
    pub(super) fn new(token: Option<String>) -> Self {
        Self {
            token,
            under_way: None,
        }
    }

    /// Begins a request, unless one is under way or nobody listens yet.
    pub(super) fn begin(&mut self, location: Option<&Location>) {
        if let (None, Some(location)) = (&self.under_way, location) {
            let url = format!("http://{}/v1/status", location.api);
            let token = self.token.clone();
            let ask = move || ask(&url, token.as_deref());
            self.under_way = Some(tokio::task::spawn_blocking(ask));
        }
    }

    /// Gives up the request under way: what it will say may be older than what is known.
    pub(super) fn forget(&mut self) {
        self.under_way = None;
    }

    /// The next answer. A coordinator that does not answer is restarting, or gone.
    pub(super) async fn next(&mut self) -> RunStatus {
        loop {
            let Some(request) = &mut self.under_way else {
                return pending().await;
            };
            let answer = request.await;
            self.under_way = None;
            match answer {
                Ok(Ok(status)) => return status,
                Ok(Err(error)) => tracing::debug!(%error, "the coordinator does not answer"),
                Err(error) => tracing::debug!(%error, "a look failed"),
            }
        }
    }
}

fn ask(url: &str, token: Option<&str>) -> Result<RunStatus, String> {
    let request = ureq::get(url)
        .config()
        .timeout_global(Some(DEADLINE))
        .build();
    let request = match token {
        Some(token) => request.header("Authorization", format!("Bearer {token}")),
        None => request,
    };
    let answer = request
        .call()
        .and_then(|answer| answer.into_body().read_to_vec());
    let answer = answer.map_err(|error| error.to_string())?;
    RunStatus::parse(&answer).map_err(|error| error.to_string())
}
