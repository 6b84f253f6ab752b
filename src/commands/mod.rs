//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod checkpoints;
pub(crate) mod coordinator;
pub(crate) mod data;
pub(crate) mod drain;
mod duration;
pub(crate) mod events;
pub(crate) mod reference;
pub(crate) mod replay;
pub(crate) mod scale;
pub(crate) mod shard;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod train;
pub(crate) mod worker;

use resilin_actors::Exit;

/// The end of a process as the result of its command.
fn exit(exit: Exit) -> Result<(), Exit> {
    match exit {
        Exit::Done => Ok(()),
        Exit::Fault(_)
        | Exit::Usage(_)
        | Exit::Refused(_)
        | Exit::Damaged(_)
        | Exit::WaitedTooLong(_)
        | Exit::Stopped(_)
        | Exit::Gone(_) => Err(exit),
    }
}
