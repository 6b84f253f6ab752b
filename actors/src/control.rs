//! Dials the coordinator until it answers, says no, or has been gone for too long.

use std::time::{Duration, Instant};

use resilin_core::frame::{Checksum, FrameError, Message};
use resilin_core::handshake::{Fingerprint, Hello, PROTOCOL, RefusalCode, Role, Token};
use resilin_core::message::{HostWelcome, Welcome};
use resilin_core::{Incarnation, RunId, Span};
use resilin_learn::numerics;

use crate::clock::duration;
use crate::exit::Exit;
use crate::link::{
    Address, Backoff, DEFAULT_WINDOW, DialError, Inbox, LinkError, LinkOptions, LinkSender,
    Received, dial, speaks_http,
};

/// Time for a connection, a handshake and a welcome.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long a lost coordinator is redialled until the job says it.
pub(crate) const REDIAL_LIMIT: Span = Span::from_millis(60_000);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(20), Span::from_millis(500));

/// The coordinator's first word to a member.
pub(crate) trait Greeting: Message {
    /// The run.
    fn run(&self) -> RunId;
}

impl Greeting for Welcome {
    fn run(&self) -> RunId {
        self.run
    }
}

impl Greeting for HostWelcome {
    fn run(&self) -> RunId {
        self.run
    }
}

/// A control link on which the coordinator said welcome.
pub(crate) struct Control<W> {
    pub(crate) sender: LinkSender,
    pub(crate) inbox: Inbox,
    pub(crate) welcome: W,
}

/// Dials one address again and again.
pub(crate) struct Dialler {
    role: Role,
    address: Address,
    host: String,
    token: Option<Token>,
    numerics: Fingerprint,
    run: Option<RunId>,
    /// Digest of this process's rows, once they are read.
    pub(crate) data: Option<Fingerprint>,
    /// The life that this process was given and wants to keep.
    pub(crate) incarnation: Option<Incarnation>,
    /// How long the coordinator may be gone.
    pub(crate) limit: Span,
}

impl Dialler {
    pub(crate) fn new(role: Role, join: &str, token: Option<Token>, limit: Span) -> Self {
        Self {
            role,
            address: Address::from(join),
            host: join.rsplit_once(':').map_or(join, |(host, _)| host).into(),
            token,
            numerics: Fingerprint(numerics::fingerprint()),
            run: None,
            data: None,
            incarnation: None,
            limit,
        }
    }

    /// The host part of the address.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What this process says of itself.
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            protocol: PROTOCOL,
            run: self.run,
            role: self.role,
            name: crate::process::name(),
            token: self.token.clone(),
            numerics: self.numerics,
            data: self.data,
            incarnation: self.incarnation,
            checksum: Checksum::On,
            window: DEFAULT_WINDOW,
        }
    }

    /// A new control link.
    pub(crate) async fn dial<W: Greeting>(&mut self) -> Result<Control<W>, Exit> {
        let lost = Instant::now();
        let mut silent = true;
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
        loop {
            let cause = match self.attempt::<W>().await {
                Ok(control) => {
                    self.run = Some(control.welcome.run());
                    return Ok(control);
                }
                Err(DialError::Refused { refusal, .. }) => match refusal.code {
                    RefusalCode::Finished => return Err(Exit::Done),
                    RefusalCode::Fenced => refusal.reason,
                    RefusalCode::Protocol
                    | RefusalCode::Token
                    | RefusalCode::Run
                    | RefusalCode::Numerics
                    | RefusalCode::Data
                    | RefusalCode::Model
                    | RefusalCode::Window
                    | RefusalCode::Role => return Err(Exit::Refused(refusal.reason)),
                },
                Err(error) => {
                    self.is_coordinator(&error).await?;
                    error.to_string()
                }
            };
            if lost.elapsed() >= duration(self.limit) {
                return Err(Exit::Gone(format!(
                    "the coordinator at {} is gone for {}: {cause}",
                    self.address, self.limit
                )));
            }
            if std::mem::take(&mut silent) {
                let (address, limit) = (&self.address, self.limit);
                tracing::warn!(cause, %address, %limit, "no coordinator answers; dialling on");
            }
            tracing::debug!(cause, "dialling again");
            tokio::time::sleep(duration(backoff.next_pause())).await;
        }
    }

    /// Whether there may be a coordinator at an address that never was one: what speaks another
    /// protocol is not dialled for as long as one that is gone.
    async fn is_coordinator(&self, error: &DialError) -> Result<(), Exit> {
        if self.run.is_some() {
            return Ok(());
        }
        let speaks = match error {
            DialError::Handshake {
                source: LinkError::Frame(FrameError::Magic(begin)),
                ..
            } => Some(if begin == b"HTTP" {
                "HTTP"
            } else {
                "another protocol"
            }),
            DialError::Timeout { .. } | DialError::Handshake { .. } => {
                speaks_http(&self.address).await.then_some("HTTP")
            }
            DialError::Connect { .. } | DialError::Refused { .. } => None,
        };
        match speaks {
            None => Ok(()),
            Some(other) => Err(Exit::Usage(format!(
                "no coordinator takes members at {}: what answers there speaks {other}; the last \
                 line of `resilin status` has the address to join",
                self.address
            ))),
        }
    }

    async fn attempt<W: Greeting>(&self) -> Result<Control<W>, DialError> {
        let options = LinkOptions::control();
        let link = dial(&self.address, self.hello(), options, DEADLINE).await?;
        let (sender, mut inbox) = link.split();
        let address = self.address.to_string();
        match tokio::time::timeout(DEADLINE, inbox.next()).await {
            Ok(Received::Control(message)) => match message.decode() {
                Ok(welcome) => Ok(Control {
                    sender,
                    inbox,
                    welcome,
                }),
                Err(error) => Err(DialError::Handshake {
                    address,
                    source: LinkError::Frame(error),
                }),
            },
            Ok(Received::Closed(source)) => Err(DialError::Handshake { address, source }),
            Ok(Received::Tensor { .. }) => Err(DialError::Handshake {
                address,
                source: LinkError::ClosedHere("a tensor instead of a welcome".into()),
            }),
            Err(_elapsed) => Err(DialError::Timeout {
                address,
                seconds: DEADLINE.as_secs_f64(),
            }),
        }
    }
}
