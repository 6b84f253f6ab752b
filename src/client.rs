//! Talks to a coordinator through its HTTP interface.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use resilin_actors::Exit;
use resilin_actors::coordinator::{Location, RunStatus};
use resilin_core::handshake::Token;
use serde::{Deserialize, Serialize};

use crate::address;
use crate::input;

/// Where state lives if nothing else is said.
pub(crate) const STATE: &str = "resilin-runs";

/// Longest file with a token in bytes.
const TOKEN_BYTES: usize = 4096;

/// Longest wait for an answer: handlers only pass a command on.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which coordinator.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// State directory of the coordinator, on this host
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// HTTP address of the coordinator, HOST:PORT, instead of --state
    #[arg(long, value_name = "ADDR", conflicts_with = "state", value_parser = address::http)]
    api: Option<String>,
    /// File with the token of the cluster [default: as the coordinator in --state was given]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ClientArgs {
    /// Finds the coordinator.
    pub(crate) fn client(&self) -> Result<Client, Exit> {
        if let Some(api) = &self.api {
            return Client::new(api, self.token_file.as_deref());
        }
        let found = Location::read(&self.state).map_err(|error| {
            Exit::Fault(format!("cannot read {}: {error}", self.state.display()))
        })?;
        let location = found.ok_or_else(|| {
            Exit::Fault(format!(
                "no coordinator runs in {}; start one with `resilin train`, or name it with --state or --api",
                self.state.display()
            ))
        })?;
        let token_file = self.token_file.as_ref().or(location.token_file.as_ref());
        Client::new(&location.api, token_file.map(PathBuf::as_path))
    }
}

/// A coordinator that can be asked.
pub(crate) struct Client {
    api: String,
    agent: ureq::Agent,
    authorization: Option<String>,
}

impl Client {
    /// The coordinator at `api`, with the token in the file if there is one.
    pub(crate) fn new(api: &str, token_file: Option<&Path>) -> Result<Self, Exit> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // A proxy has no business between a host and itself.
            .proxy(None)
            .build();
        let secret = token_file.map(secret).transpose()?;
        Ok(Self {
            api: api.into(),
            agent: config.into(),
            authorization: secret.map(|secret| format!("Bearer {secret}")),
        })
    }

    /// The run at this moment.
    pub(crate) fn status(&self) -> Result<RunStatus, Exit> {
        let mut request = self.agent.get(self.url("status"));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let response = self.answered(request.call())?;
        let nonsense = |why: String| Exit::Fault(format!("{} answers nonsense: {why}", self.api));
        let answer = response.into_body().read_to_vec();
        let answer = answer.map_err(|error| nonsense(error.to_string()))?;
        RunStatus::parse(&answer).map_err(|error| nonsense(error.to_string()))
    }

    /// Gives a command.
    pub(crate) fn post(&self, command: &str, body: &impl Serialize) -> Result<(), Exit> {
        let mut request = self.agent.post(self.url(command));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        self.answered(request.send_json(body)).map(drop)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v1/{path}", self.api)
    }

    fn answered(
        &self,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<ureq::http::Response<ureq::Body>, Exit> {
        #[derive(Deserialize)]
        struct Said {
            error: String,
        }
        let response = sent.map_err(|error| {
            let remedy = remedy(&error);
            Exit::Fault(format!(
                "no coordinator answers at {}: {error}; {remedy}",
                self.api
            ))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let said = match response.into_body().read_json::<Said>() {
            Ok(said) => said.error,
            Err(_) => format!("the coordinator at {} answers {status}", self.api),
        };
        Err(match status.as_u16() {
            401 | 403 => Exit::Refused(format!("{said} (--token-file FILE)")),
            400 | 404 => Exit::Usage(said),
            _ => Exit::Fault(said),
        })
    }
}

/// The token in a file.
pub(crate) fn token(path: &Path) -> Result<Token, Exit> {
    secret(path).map(Token::new)
}

/// The text of the token in a file: it is part of a handshake and of an HTTP header.
pub(crate) fn secret(path: &Path) -> Result<String, Exit> {
    let refuse = |why: &str| Exit::Usage(format!("token file {}: {why}", path.display()));
    let text = input::text(path, TOKEN_BYTES).map_err(|why| refuse(&why))?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(refuse("empty; write the token of the cluster into it"));
    }
    if !secret.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(refuse(
            "not one line of printable ASCII; write another token",
        ));
    }
    Ok(secret.into())
}

/// What to do where nobody answers as a coordinator does.
fn remedy(error: &ureq::Error) -> &'static str {
    match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            "it was killed just now, or that is the port that workers join: name the coordinator's \
             `api` address, or its --state"
        }
        _ => "it may have been killed: start it again, or name another one with --state or --api",
    }
}
