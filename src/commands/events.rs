//! `resilin events`: what happened in a run, from its event file. It needs no coordinator, works
//! beside one, and shows what is whole of a damaged file.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use resilin_actors::Exit;
use resilin_actors::coordinator::Location;
use resilin_checkpoint::{EventReader, Line, RealFiles};
use resilin_core::fact::{Dated, Fact};

use crate::client::STATE;
use crate::{date, print, runs};

/// Time between two looks for new events.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a coordinator may be gone before it is not expected back.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a coordinator on this host may take to be reached.
const REACH: Duration = Duration::from_secs(1);

/// Show what happened in a run: members, leases, steps, faults, checkpoints, its end
#[derive(Debug, clap::Args)]
pub(crate) struct Events {
    /// State directory
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Name of the run or of its directory; needed where there are several
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Go on until the run ends
    #[arg(long)]
    follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What was seen on the way.
#[derive(Default)]
struct Seen {
    /// Whether there was any line.
    any: bool,
    /// Whether the run is over, and no coordinator took it up since.
    over: bool,
    damaged: u64,
    first_damaged: Option<(PathBuf, u64)>,
}

impl Events {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let dir = runs::directory(&self.state, self.run.as_deref())?;
        let mut reader = EventReader::new(&dir);
        let mut seen = Seen::default();
        self.show(reader.read(&RealFiles)?, &mut seen)?;
        if self.follow {
            self.follow(&mut reader, &mut seen)?;
        } else if reader.is_torn(&RealFiles)? {
            print::log("the last line is not whole: it is being written, or a crash tore it");
        }
        if !seen.any {
            print::log(&format!("no events in {} yet", dir.display()));
        }
        let Some((file, number)) = seen.first_damaged else {
            return Ok(());
        };
        Err(Exit::Damaged(format!(
            "{}: {} damaged lines, the first is line {number}, are left out; all others are shown",
            file.display(),
            seen.damaged
        )))
    }

    fn show(&self, lines: Vec<Line>, seen: &mut Seen) -> Result<(), Exit> {
        seen.any |= !lines.is_empty();
        for line in lines {
            match line {
                Line::Event(event) => {
                    // Members that leave are told of after the end.
                    let begins = matches!(event.fact, Fact::Began { .. });
                    seen.over = !begins && (seen.over || matches!(event.fact, Fact::Over { .. }));
                    if self.json {
                        print::json(&event)?;
                    } else {
                        print::line(&text(&event))?;
                    }
                }
                Line::Damaged { file, number } => {
                    seen.damaged += 1;
                    seen.first_damaged.get_or_insert((file, number));
                }
            }
        }
        Ok(())
    }

    /// Shows what comes until the run is over, or nobody goes on with it.
    fn follow(&self, reader: &mut EventReader, seen: &mut Seen) -> Result<(), Exit> {
        let mut heard = Instant::now();
        while !seen.over {
            // Files tell nobody when they grow.
            std::thread::park_timeout(LOOK_EVERY);
            let lines = reader.read(&RealFiles)?;
            if !lines.is_empty() || is_alive(&self.state) {
                heard = Instant::now();
            }
            self.show(lines, seen)?;
            if !seen.over && heard.elapsed() > PATIENCE {
                return Err(Exit::Gone(format!(
                    "no coordinator runs in {} any more, and the run is not over: start it again",
                    self.state.display()
                )));
            }
        }
        Ok(())
    }
}

/// Whether the coordinator that a state directory names can be reached.
fn is_alive(state: &Path) -> bool {
    let Ok(Some(location)) = Location::read(state) else {
        return false;
    };
    let addresses = location.api.to_socket_addrs().into_iter().flatten();
    addresses
        .into_iter()
        .any(|address| TcpStream::connect_timeout(&address, REACH).is_ok())
}

/// One line for people.
pub(crate) fn text(event: &Dated) -> String {
    format!(
        "{}  {:>4}  step {:<8} {}",
        date::utc(event.at_ms),
        format!("g{}", event.generation.number),
        event.step,
        event.fact
    )
}
