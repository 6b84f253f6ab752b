//! `resilin checkpoints`: what is durable, read from the files alone. It needs no lock and works
//! beside a coordinator.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use resilin_actors::Exit;
use resilin_checkpoint::{Depth, Health, Listing, RealFiles, inspect};
use serde::Serialize;

use crate::client::STATE;
use crate::print;

/// List or verify the checkpoints in a state directory
#[derive(Debug, Args)]
pub(crate) struct Checkpoints {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the checkpoints; looks at manifests and file lengths
    Ls(Where),
    /// Check every byte; exit code 4 if one is damaged
    Verify(Where),
}

#[derive(Debug, Args)]
struct Where {
    /// State directory
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Checkpoints {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.action {
            Action::Ls(at) => at.show(Depth::Lengths).map(drop),
            Action::Verify(at) => match at.show(Depth::Digests)? {
                (0, _) => Ok(()),
                (damaged, all) => Err(Exit::Damaged(format!(
                    "{damaged} of {all} checkpoints in {} are damaged; a start passes them over and takes an older one",
                    at.state.display()
                ))),
            },
        }
    }
}

/// A checkpoint as it is printed.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    checkpoint: &'a str,
    step: u64,
    timeline: String,
    bytes: u64,
    finished: bool,
    damage: Option<&'a str>,
}

impl Where {
    /// Prints all; the answer is how many are damaged, and how many there are.
    fn show(&self, depth: Depth) -> Result<(usize, usize), Exit> {
        if !self.state.is_dir() {
            return Err(Exit::Usage(format!(
                "{} is no state directory; name one with --state",
                self.state.display()
            )));
        }
        let listings = inspect(&RealFiles, &self.state, depth)?;
        let lines: Vec<Line<'_>> = listings.iter().map(line).collect();
        for line in &lines {
            if self.json {
                print::json(line)?;
            } else {
                print::line(&text(line))?;
            }
        }
        if lines.is_empty() && !self.json {
            print::line(&format!("no checkpoint in {}", self.state.display()))?;
        }
        let damaged = lines.iter().filter(|line| line.damage.is_some()).count();
        Ok((damaged, lines.len()))
    }
}

fn line(listing: &Listing) -> Line<'_> {
    Line {
        run: &listing.run,
        checkpoint: &listing.name,
        step: listing.step.0,
        timeline: listing.timeline.to_string(),
        bytes: listing.bytes,
        finished: listing.finished,
        damage: match &listing.state {
            Health::Good => None,
            Health::Damaged(why) => Some(why),
        },
    }
}

fn text(line: &Line<'_>) -> String {
    let state = match (line.damage, line.finished) {
        (Some(why), _) => format!("damaged: {why}"),
        (None, true) => "good, the end of the run".into(),
        (None, false) => "good".into(),
    };
    format!(
        "{}/{}  step {}  {} bytes  {state}",
        line.run, line.checkpoint, line.step, line.bytes
    )
}
