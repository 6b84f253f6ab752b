//! The first words on a link: who dials, and why it may not come in.
//!
//! The dialler sends [`Hello`], the listener answers [`HelloReply`]; [`judge`] is the decision.
//! A refusal names one cause and the remedy, so that the refused process can exit with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::frame::Checksum;
use crate::id::{Incarnation, RunId, SliceId};

/// Version of the messages on a link. It goes up when an old peer could misread a new one.
pub const PROTOCOL: u32 = 2;

/// Smallest receive window in bytes that a peer may announce: with less, credit that is gathered
/// before it is returned could stop a stream of pieces.
pub const MIN_WINDOW: u32 = 4 << 20;

/// Longest name of a process in bytes that is believed.
pub const MAX_NAME: usize = 128;

/// A 32-byte digest of something both ends must share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    /// The first eight bytes in hexadecimal: enough to tell two apart in a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The shared secret of a cluster. It is compared in constant time and never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token as read from a file or the environment.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self(secret)
    }
}

impl PartialEq for Token {
    /// Compares digests, in a time that depends on neither the bytes nor the place of a difference.
    fn eq(&self, other: &Self) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(other.0.as_bytes())
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What a dialler wants the link for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Control connection of a worker: joins, leases, heartbeats.
    Worker,
    /// Tensors between a worker and the process that serves a slice.
    WorkerData {
        /// The slice.
        slice: SliceId,
    },
    /// Control connection of a shard process.
    Shard,
    /// Votes between the processes that serve two slices.
    ShardPeer {
        /// The slice that is dialled.
        slice: SliceId,
    },
    /// Copies, roots and records from a slice's primary to its backup.
    Backup {
        /// The slice.
        slice: SliceId,
    },
    /// Checkpoint cuts and restores of a slice.
    Store {
        /// The slice.
        slice: SliceId,
    },
    /// The process that starts and restarts the others on its host.
    Supervisor,
}

/// The first frame on a link, from the dialler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the dialler.
    pub protocol: u32,
    /// The run it wants to join; none takes the one that is offered.
    pub run: Option<RunId>,
    /// What the link is for.
    pub role: Role,
    /// What people know the process by, as `host:pid`; see [`Hello::name_or`].
    pub name: String,
    /// The secret, where one is set.
    pub token: Option<Token>,
    /// Digest over results of the arithmetic that decides bits, made on this processor.
    pub numerics: Fingerprint,
    /// Digest of the rows it has, if it has read any.
    pub data: Option<Fingerprint>,
    /// The life that the coordinator gave it, if it has joined before.
    pub incarnation: Option<Incarnation>,
    /// Whether it asks for a crc of data payloads.
    pub checksum: Checksum,
    /// Payload bytes that it takes before it has consumed any.
    pub window: u32,
}

impl Hello {
    /// The name, if it can be shown as it is: not empty, at most [`MAX_NAME`] bytes, and of visible
    /// ASCII characters only, so that it cannot move a cursor or break a line of the log. Otherwise
    /// the address that the link comes from.
    #[must_use]
    pub fn name_or<'a>(&'a self, address: &'a str) -> &'a str {
        let length = (1..=MAX_NAME).contains(&self.name.len());
        let shown = length && self.name.bytes().all(|byte| byte.is_ascii_graphic());
        if shown { &self.name } else { address }
    }
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelloReply {
    /// Come in.
    Welcome {
        /// The crc that is used: on if either end asks for it.
        checksum: Checksum,
        /// Payload bytes that the listener takes before it has consumed any.
        window: u32,
    },
    /// Stay out; the link is closed after this.
    Refused(Refusal),
}

/// The cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// Another version of the protocol or of the frames.
    Protocol,
    /// No token or a wrong one.
    Token,
    /// A run that is not served here.
    Run,
    /// Arithmetic with other bits.
    Numerics,
    /// Other rows.
    Data,
    /// A model or rule that this side does not have.
    Model,
    /// A window too small to make progress.
    Window,
    /// A role that is not served here.
    Role,
    /// A life that no longer counts; join again as a new one.
    Fenced,
    /// The run has ended.
    Finished,
}

/// Why a link was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The cause.
    pub code: RefusalCode,
    /// What differs and what to do, in one line, without secrets.
    pub reason: String,
}

/// What a listener demands of a dialler.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The run that is served, once there is one.
    pub run: Option<RunId>,
    /// The secret, where one is set.
    pub token: Option<Token>,
    /// The numerics to be matched; none in a run that does not promise bits.
    pub numerics: Option<Fingerprint>,
    /// The rows to be matched, once they are known.
    pub data: Option<Fingerprint>,
}

/// Decides on a hello. The token comes before all that tells a stranger about the run.
pub fn judge(hello: &Hello, expected: &Expected) -> Result<(), Refusal> {
    let refuse = |code, reason: String| Err(Refusal { code, reason });
    if hello.protocol != PROTOCOL {
        let found = hello.protocol;
        return refuse(
            RefusalCode::Protocol,
            format!("protocol {found} where {PROTOCOL} is spoken; use the same version everywhere"),
        );
    }
    match (&expected.token, &hello.token) {
        (None, _) => {}
        (Some(wanted), Some(given)) if wanted == given => {}
        (Some(_), Some(_)) => {
            return refuse(
                RefusalCode::Token,
                "wrong token; use the coordinator's".into(),
            );
        }
        (Some(_), None) => {
            return refuse(
                RefusalCode::Token,
                "a token is needed; use the coordinator's".into(),
            );
        }
    }
    if hello.window < MIN_WINDOW {
        let found = hello.window;
        return refuse(
            RefusalCode::Window,
            format!("a window of {found} bytes is below {MIN_WINDOW}; raise it"),
        );
    }
    if let Some((found, wanted)) = differing(hello.run, expected.run) {
        return refuse(
            RefusalCode::Run,
            format!("run {found} is not served here, {wanted} is; check the address and the job"),
        );
    }
    if let Some((found, wanted)) = differing(Some(hello.numerics), expected.numerics) {
        return refuse(
            RefusalCode::Numerics,
            format!(
                "numerics {found} where the run has {wanted}: this processor or build gives other \
                 bits; use the same version and a processor with FMA"
            ),
        );
    }
    if let Some((found, wanted)) = differing(hello.data, expected.data) {
        return refuse(
            RefusalCode::Data,
            format!(
                "rows (or the model's own program) {found} where the run has {wanted}; copy the \
                 run's data here, and use the same versions of what [model] command starts"
            ),
        );
    }
    Ok(())
}

/// The two, if both are known and differ.
fn differing<T: PartialEq>(found: Option<T>, wanted: Option<T>) -> Option<(T, T)> {
    found.zip(wanted).filter(|(found, wanted)| found != wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Message;

    fn hello() -> Hello {
        Hello {
            protocol: PROTOCOL,
            run: Some(RunId(7)),
            role: Role::Worker,
            name: "desk-3:4711".into(),
            token: Some(Token::new("open sesame".into())),
            numerics: Fingerprint([1; 32]),
            data: Some(Fingerprint([2; 32])),
            incarnation: None,
            checksum: Checksum::On,
            window: MIN_WINDOW,
        }
    }

    fn expected() -> Expected {
        Expected {
            run: Some(RunId(7)),
            token: Some(Token::new("open sesame".into())),
            numerics: Some(Fingerprint([1; 32])),
            data: Some(Fingerprint([2; 32])),
        }
    }

    #[test]
    fn each_difference_has_its_own_code() {
        assert_eq!(judge(&hello(), &expected()), Ok(()));
        let code = |change: fn(&mut Hello)| {
            let mut changed = hello();
            change(&mut changed);
            judge(&changed, &expected()).map_err(|refusal| refusal.code)
        };
        assert_eq!(code(|h| h.protocol += 1), Err(RefusalCode::Protocol));
        assert_eq!(code(|h| h.token = None), Err(RefusalCode::Token));
        assert_eq!(
            code(|h| h.token = Some(Token::new("open".into()))),
            Err(RefusalCode::Token)
        );
        assert_eq!(code(|h| h.window -= 1), Err(RefusalCode::Window));
        assert_eq!(code(|h| h.run = Some(RunId(8))), Err(RefusalCode::Run));
        assert_eq!(code(|h| h.numerics.0[31] ^= 1), Err(RefusalCode::Numerics));
        assert_eq!(
            code(|h| h.data = Some(Fingerprint([3; 32]))),
            Err(RefusalCode::Data)
        );
    }

    #[test]
    fn a_name_that_cannot_be_shown_is_replaced_by_the_address() {
        let named = |name: &str| {
            let hello = Hello {
                name: name.into(),
                ..hello()
            };
            hello.name_or("10.0.0.7:50123").to_owned()
        };
        assert_eq!(named("desk-3:4711"), "desk-3:4711");
        assert_eq!(named(&"n".repeat(MAX_NAME)), "n".repeat(MAX_NAME));
        for unfit in [
            "",
            "a b",
            "a\nb",
            "\u{1b}[2J",
            "r\u{e9}",
            &"n".repeat(MAX_NAME + 1),
        ] {
            assert_eq!(named(unfit), "10.0.0.7:50123", "{unfit:?}");
        }
    }

    #[test]
    fn what_is_not_known_yet_is_not_compared() {
        let open = Expected {
            run: None,
            token: None,
            numerics: None,
            data: None,
        };
        assert_eq!(judge(&hello(), &open), Ok(()));
        let fresh = Hello {
            run: None,
            data: None,
            ..hello()
        };
        assert_eq!(judge(&fresh, &expected()), Ok(()));
    }

    #[test]
    fn a_token_is_neither_printed_nor_told() {
        assert!(!format!("{:?}", hello()).contains("sesame"));
        let wrong = Hello {
            token: Some(Token::new("guess".into())),
            ..hello()
        };
        let refusal = judge(&wrong, &expected()).expect_err("the token is wrong");
        assert_eq!(refusal.to_string(), "wrong token; use the coordinator's");
    }

    #[test]
    fn hello_survives_the_codec() {
        let frame = crate::frame::control_frame(&hello()).expect("small");
        let (decoded, rest) = crate::frame::Frame::decode(&frame).expect("a frame");
        let crate::frame::Frame::Control(payload) = decoded else {
            panic!("not a control frame")
        };
        assert!(rest.is_empty());
        assert_eq!(Hello::decode(payload), Ok(hello()));
    }
}
