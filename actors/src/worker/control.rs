//! Dials the coordinator until it answers, says no, or has been gone for too long.

use std::time::{Duration, Instant};

use resilin_core::frame::Checksum;
use resilin_core::handshake::{Fingerprint, Hello, PROTOCOL, RefusalCode, Role, Token};
use resilin_core::message::Welcome;
use resilin_core::{RunId, Span};
use resilin_learn::numerics;

use crate::clock::duration;
use crate::exit::Exit;
use crate::link::{
    Address, Backoff, DEFAULT_WINDOW, DialError, Inbox, LinkError, LinkOptions, LinkSender,
    Received, dial,
};

/// Time for a connection, a handshake and a welcome.
const DEADLINE: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts.
const PAUSES: (Span, Span) = (Span::from_millis(20), Span::from_millis(500));

/// A control link on which the coordinator said welcome.
pub(super) struct Control {
    pub(super) sender: LinkSender,
    pub(super) inbox: Inbox,
    pub(super) welcome: Welcome,
}

/// Dials one address again and again.
pub(super) struct Dialler {
    address: Address,
    host: String,
    token: Option<Token>,
    numerics: Fingerprint,
    run: Option<RunId>,
    /// Digest of this process's rows, once they are read.
    pub(super) data: Option<Fingerprint>,
    /// How long the coordinator may be gone.
    pub(super) limit: Span,
}

impl Dialler {
    pub(super) fn new(join: &str, token: Option<Token>, limit: Span) -> Self {
        Self {
            address: Address::from(join),
            host: join.rsplit_once(':').map_or(join, |(host, _)| host).into(),
            token,
            numerics: Fingerprint(numerics::fingerprint()),
            run: None,
            data: None,
            limit,
        }
    }

    /// The host part of the address.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// What this process says of itself.
    pub(super) fn hello(&self) -> Hello {
        Hello {
            protocol: PROTOCOL,
            run: self.run,
            role: Role::Worker,
            name: crate::process::name(),
            token: self.token.clone(),
            numerics: self.numerics,
            data: self.data,
            incarnation: None,
            checksum: Checksum::On,
            window: DEFAULT_WINDOW,
        }
    }

    /// A new control link.
    pub(super) async fn dial(&mut self) -> Result<Control, Exit> {
        let lost = Instant::now();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, std::process::id().into());
        loop {
            let cause = match self.attempt().await {
                Ok(control) => {
                    self.run = Some(control.welcome.run);
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
                Err(error) => error.to_string(),
            };
            if lost.elapsed() >= duration(self.limit) {
                return Err(Exit::Gone(format!(
                    "the coordinator at {} is gone for {}: {cause}",
                    self.address, self.limit
                )));
            }
            tracing::debug!(cause, "dialling again");
            tokio::time::sleep(duration(backoff.next_pause())).await;
        }
    }

    async fn attempt(&self) -> Result<Control, DialError> {
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
