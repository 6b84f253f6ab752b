//! What a person or a program sees of a run that is under way: a bar on a terminal, plain lines
//! elsewhere, or one JSON object a line.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use resilin_actors::Exit;
use resilin_actors::coordinator::Report;
use resilin_core::job::Bits;
use resilin_core::machine::job::Status;
use serde::Serialize;

use crate::print;

/// How a run is shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct FaceArgs {
    /// Print JSON lines only: events while it runs, the report at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Plain lines instead of a progress bar, as where the output is no terminal
    #[arg(long)]
    pub(crate) no_progress: bool,
}

/// Something worth showing.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The run begins or goes on.
    Begin {
        /// Name of the run.
        job: String,
        /// Its id, in hex.
        run_id: String,
        /// Steps of the whole run.
        total_steps: u64,
        /// The step that it begins from.
        from_step: u64,
    },
    /// Where the run is.
    Step(Progress),
    /// The weights at the end of an epoch were scored.
    Epoch {
        /// The epoch, from 1.
        epoch: u64,
        /// Epochs of the whole run.
        epochs: u64,
        /// The step whose weights they are.
        step: u64,
        /// Share of test rows predicted right.
        test_accuracy: Option<f64>,
        /// Mean loss over the test rows.
        test_loss: f64,
        /// The same of each loss that the model names, before its weight.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        test_losses: BTreeMap<String, f64>,
    },
    /// Something changed that a person would ask about.
    Notice {
        /// One line.
        text: String,
    },
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Progress {
    /// Steps done.
    pub(crate) step: u64,
    /// The epoch under way, from 1.
    pub(crate) epoch: u64,
    /// Epochs of the whole run.
    pub(crate) epochs: u64,
    /// Mean loss of the newest step.
    pub(crate) loss: Option<f64>,
    /// Rows applied a second.
    pub(crate) samples_per_s: f64,
    /// Workers alive; `None` for the serial reference.
    pub(crate) workers: Option<usize>,
    /// Whom the run waits for.
    pub(crate) waiting: Option<String>,
}

impl Progress {
    /// Where a run of processes is.
    pub(crate) fn of(job: &Status) -> Self {
        Self {
            step: job.step.0,
            epoch: job.epoch,
            epochs: job.epochs,
            loss: job.loss,
            samples_per_s: job.samples_per_s,
            workers: Some(job.workers.len()),
            waiting: starting(job).or_else(|| job.waiting.clone()),
        }
    }

    /// What a person reads of it, without the step.
    fn words(&self) -> String {
        let mut text = format!("epoch {}/{}", self.epoch, self.epochs);
        if let Some(loss) = self.loss {
            text += &format!("  loss {loss:.4}");
        }
        let stands = self.waiting.as_ref().filter(|_| self.samples_per_s < 1.0);
        // Before the first step there is nothing to count.
        if stands.is_none() || self.loss.is_some() {
            text += &format!("  {:.0} samples/s", self.samples_per_s);
            if let Some(workers) = self.workers {
                text += &format!("  {workers} workers");
            }
        }
        if let Some(who) = stands {
            text += &format!("  waiting for {who}");
        }
        text
    }
}

/// What workers do before the first step of this coordinator, where the run waits for nothing else.
/// Loading the libraries of a model command may take a minute.
fn starting(job: &Status) -> Option<String> {
    let waits = |waiting: &String| !waiting.starts_with("workers:");
    if job.loss.is_some() || job.wanted == 0 || job.waiting.as_ref().is_some_and(waits) {
        return None;
    }
    let ready = job.workers.iter().any(|worker| worker.state != "joining");
    match (job.workers.is_empty(), ready) {
        (true, _) => Some("workers to start".into()),
        (false, false) => Some("workers to load the rows and start the model".into()),
        (false, true) => None,
    }
}

/// The bar, with room for the message on a terminal of 80 columns.
const BAR: &str = "{bar:16} {pos}/{len}  {wide_msg}";
/// Least time between two plain lines of progress.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Least time between two such lines that say the same: the run waits.
const PLAIN_AGAIN: Duration = Duration::from_secs(10);
/// Least time between two progress events in JSON.
const JSON_EVERY: Duration = Duration::from_millis(250);

/// Shows events as they come.
pub(crate) struct Face {
    style: Style,
    shown: Option<Instant>,
    /// The newest plain line of progress.
    said: String,
}

enum Style {
    Bar(ProgressBar),
    Plain,
    Json,
}

impl Face {
    /// The style that was asked for, or that the output can take.
    pub(crate) fn new(args: FaceArgs) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let style = match (args.json, args.no_progress || !terminal) {
            (true, _) => Style::Json,
            (false, true) => Style::Plain,
            (false, false) => Style::Bar(bar()),
        };
        Self {
            style,
            shown: None,
            said: String::new(),
        }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        if let Style::Json = self.style {
            return self.show_json(event);
        }
        match event {
            Event::Begin {
                job,
                run_id,
                total_steps,
                from_step,
            } => {
                let from = match from_step {
                    0 => String::new(),
                    step => format!(", going on from step {step}"),
                };
                if let Style::Bar(bar) = &self.style {
                    bar.set_style(style(BAR));
                    bar.set_length(*total_steps);
                }
                self.line(&format!("run {job} ({run_id}): {total_steps} steps{from}"));
            }
            Event::Step(progress) => self.progress(progress),
            Event::Epoch {
                epoch,
                epochs,
                step,
                test_accuracy,
                test_loss,
                test_losses,
            } => {
                let accuracy = accuracy(*test_accuracy);
                let losses = losses(test_losses);
                self.line(&format!(
                    "epoch {epoch}/{epochs}  step {step}  test loss {test_loss:.4}{losses}{accuracy}"
                ));
            }
            Event::Notice { text } => self.line(text),
        }
    }

    /// Shows how the run ended.
    ///
    /// # Errors
    /// If that, which is the result, cannot be written; what was shown before may be missing.
    pub(crate) fn end(&mut self, report: &Report) -> Result<(), Exit> {
        if let Style::Json = self.style {
            #[derive(Serialize)]
            struct Last<'a> {
                event: &'static str,
                #[serde(flatten)]
                report: &'a Report,
            }
            let event = "report";
            return print::json(&Last { event, report });
        }
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
        print::line(&summary(report).join("\n"))
    }

    /// Passes on a line of a log, which belongs to standard error.
    pub(crate) fn log(&self, text: &str) {
        match &self.style {
            Style::Bar(bar) => bar.suspend(|| print::log(text)),
            Style::Plain | Style::Json => print::log(text),
        }
    }

    /// Takes the bar away, so that an error has its line to itself.
    pub(crate) fn clear(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let (step, text) = (progress.step, progress.words());
        if let Style::Bar(bar) = &self.style {
            bar.set_position(step);
            bar.set_message(text);
            return;
        }
        let line = format!("step {step}  {text}");
        if self.due(pause_before(&line, &self.said)) {
            self.line(&line);
            self.said = line;
        }
    }

    fn show_json(&mut self, event: &Event) {
        let often = match event {
            Event::Step(_) => !self.due(JSON_EVERY),
            Event::Begin { .. } | Event::Epoch { .. } | Event::Notice { .. } => false,
        };
        if !often {
            // The run goes on, whoever reads.
            let _ = print::json(event);
        }
    }

    fn line(&self, text: &str) {
        match &self.style {
            Style::Bar(bar) => bar.suspend(|| print::progress(text)),
            Style::Plain | Style::Json => print::progress(text),
        }
    }

    fn due(&mut self, every: Duration) -> bool {
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= every);
        if due {
            self.shown = Some(Instant::now());
        }
        due
    }
}

fn pause_before(line: &str, said: &str) -> Duration {
    if line == said {
        PLAIN_AGAIN
    } else {
        PLAIN_EVERY
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0).with_style(style("{wide_msg}"));
    bar.set_message("starting");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}

fn accuracy(accuracy: Option<f64>) -> String {
    accuracy.map_or_else(String::new, |share| format!("  test accuracy {share:.4}"))
}

fn losses(losses: &BTreeMap<String, f64>) -> String {
    let each = losses
        .iter()
        .map(|(name, loss)| format!("{name} {loss:.4}"));
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        all => format!(" ({all})"),
    }
}

fn summary(report: &Report) -> Vec<String> {
    let mut lines = vec![format!(
        "{} {}: {} of {} steps, {} samples, {:.1} s, {:.0} samples/s",
        report.job,
        report.outcome,
        report.steps,
        report.total_steps,
        report.samples,
        report.wall_s,
        report.samples_per_s
    )];
    if let Some(share) = report.test_accuracy {
        lines.push(format!("test accuracy   {share:.4}"));
    }
    if !report.test_losses.is_empty() {
        let loss = report.test_loss.unwrap_or(f64::NAN);
        let losses = losses(&report.test_losses);
        lines.push(format!("test loss       {loss:.4}{losses}"));
    }
    if let Some(hash) = &report.weights_sha256 {
        // Steps after the checkpoint are lost where a run did not end well.
        let older = match report.outcome.as_str() {
            "finished" | "stopped" => "",
            _ => "  (of the checkpoint)",
        };
        lines.push(format!("weights sha256  {hash}{older}"));
    }
    match report.bits {
        Bits::On => {}
        Bits::Off => lines.push(
            "bits            off: every sample was counted exactly once and losses were recovered \
             from; that these weights come out again is not promised"
                .into(),
        ),
    }
    if let Some(path) = &report.checkpoint {
        lines.push(format!("checkpoint      {}", path.display()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_that_says_the_same_again_comes_less_often() {
        let waits = "step 0  epoch 1/3  waiting for workers to start";
        assert_eq!(pause_before(waits, ""), PLAIN_EVERY);
        assert_eq!(pause_before(waits, waits), PLAIN_AGAIN);
        assert_eq!(pause_before("step 1  epoch 1/3", waits), PLAIN_EVERY);
    }

    #[test]
    fn before_the_first_step_it_says_what_is_waited_for() {
        let begun = Progress {
            step: 0,
            epoch: 1,
            epochs: 3,
            loss: None,
            samples_per_s: 0.0,
            workers: Some(2),
            waiting: Some("workers to load the rows and start the model".into()),
        };
        assert_eq!(
            begun.words(),
            "epoch 1/3  waiting for workers to load the rows and start the model"
        );
        let stands = Progress {
            loss: Some(0.5),
            waiting: Some("worker #2 (a:7)".into()),
            ..begun.clone()
        };
        assert_eq!(
            stands.words(),
            "epoch 1/3  loss 0.5000  0 samples/s  2 workers  waiting for worker #2 (a:7)"
        );
        let goes = Progress {
            samples_per_s: 900.0,
            ..stands
        };
        assert_eq!(
            goes.words(),
            "epoch 1/3  loss 0.5000  900 samples/s  2 workers"
        );
        let unknown = Progress {
            waiting: None,
            ..begun
        };
        assert_eq!(unknown.words(), "epoch 1/3  0 samples/s  2 workers");
    }
}
