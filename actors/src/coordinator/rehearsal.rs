//! The first rows of a new run, tried before any worker is started: what is wrong with a model is
//! one line and the end, and not the ends of one worker after the other.

use std::any::Any;
use std::sync::Arc;
use std::thread;

use resilin_learn::rehearsal::rehearse_all;
use resilin_learn::task::Task;

use crate::exit::Exit;
use crate::process::TRIAL_THREAD;

/// Tries the model of a run that begins.
pub(super) fn rehearse(task: &Arc<Task>) -> Result<(), Exit> {
    let tried = Arc::clone(task);
    let trial = thread::Builder::new()
        .name(TRIAL_THREAD.into())
        .spawn(move || rehearse_all(&tried));
    let trial = trial.map_err(|error| Exit::Fault(format!("no thread can be started: {error}")))?;
    match trial.join() {
        Ok(done) => done.map_err(Exit::of_first_rows),
        Err(payload) => Err(Exit::Usage(panicked(&task.model_name(), &*payload))),
    }
}

fn panicked(model: &str, payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message").replace(['\n', '\r'], " ");
    format!(
        "{model} panics on the first rows of the run: {text}; mend it, the line above says where"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_line() {
        let text = String::from("3 values\nfor 4");
        assert_eq!(
            panicked("the model \"own\"", &text),
            "the model \"own\" panics on the first rows of the run: 3 values for 4; mend it, the \
             line above says where"
        );
        assert!(panicked("the model", &7_u8).contains(": no message;"));
    }
}
