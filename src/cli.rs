//! The command line: its commands, and how a mistake in it becomes one line.

use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use resilin_actors::Exit;
use resilin_learn::registry::Registry;

use crate::commands::{
    audit, bench, chaos, checkpoints, coordinator, data, drain, events, reference, replay, scale,
    shard, status, stop, train, worker,
};
use crate::{log, print};

const AFTER: &str = "\
Exit codes: 0 done or drained, 1 fault, 2 usage or job file, 3 refused, 4 store damaged beyond
rebuild, 5 waited too long for workers, 6 stopped early with a durable checkpoint, 75 coordinator
gone. RESILIN_LOG=info (or debug, trace) logs to standard error.";

/// Trains models on machines that come and go. Kill any process at any moment; the weights come
/// out the same, to the bit.
#[derive(Debug, Parser)]
#[command(name = "resilin", version, after_help = AFTER, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Train),
    Coordinator(coordinator::Coordinator),
    Worker(worker::Worker),
    Shard(shard::Shard),
    Status(status::Status),
    Events(events::Events),
    Scale(scale::Scale),
    Drain(drain::Drain),
    Stop(stop::Stop),
    Checkpoints(checkpoints::Checkpoints),
    Reference(reference::Reference),
    Chaos(chaos::Chaos),
    Audit(audit::Audit),
    Replay(replay::Replay),
    Data(data::Data),
    Bench(bench::Bench),
}

/// Reads the command line and does what it says.
pub(crate) fn run(registry: Arc<Registry>) -> Result<(), Exit> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    log::start()?;
    match cli.command {
        Command::Train(train) => train.run(&registry),
        Command::Coordinator(coordinator) => coordinator.run(&registry),
        Command::Worker(worker) => worker.run(registry),
        Command::Shard(shard) => shard.run(registry),
        Command::Status(status) => status.run(),
        Command::Events(events) => events.run(),
        Command::Scale(scale) => scale.run(),
        Command::Drain(drain) => drain.run(),
        Command::Stop(stop) => stop.run(),
        Command::Checkpoints(checkpoints) => checkpoints.run(),
        Command::Reference(reference) => reference.run(&registry),
        Command::Chaos(chaos) => chaos.run(&registry),
        Command::Audit(audit) => audit.run(),
        Command::Replay(replay) => replay.run(&registry),
        Command::Data(data) => data.run(),
        Command::Bench(bench) => bench.run(&registry),
    }
}

/// Prints what was asked for, or makes one line of the mistake.
fn explain(error: &clap::Error) -> Result<(), Exit> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print::line(error.to_string().trim_end())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(Exit::Usage(
            "no command; `resilin --help` lists them, `resilin train` trains".into(),
        )),
        _ => Err(Exit::Usage(one_line(&error.to_string()))),
    }
}

/// The sentence of the mistake without the pages of usage after it.
fn one_line(text: &str) -> String {
    let said = text.split("\n\nUsage:").next().unwrap_or(text);
    let said = said.split("\n\nFor more").next().unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let said = said.replace("\n\n  tip: ", "; ");
    let words: Vec<&str> = said.split_whitespace().collect();
    format!("{}; see --help", words.join(" "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_one_line_with_the_thing_and_the_remedy() {
        let line = |args: &[&str]| {
            let error = Cli::try_parse_from(args).expect_err("a mistake");
            one_line(&error.to_string())
        };
        assert_eq!(
            line(&["resilin", "train", "--sed", "1"]),
            "unexpected argument '--sed' found; a similar argument exists: '--seed'; see --help"
        );
        assert_eq!(
            line(&["resilin", "scale", "many"]),
            "invalid value 'many' for '[N]': invalid digit found in string; see --help"
        );
    }
}
