//! Whether there is a Python for the tests of models in Python: Resilin itself needs none.

use std::process::{Command, Stdio};

/// Whether `python3` runs. A machine without it is told so and passes, unless `RESILIN_PYTHON`
/// says, as `.ci/run` does, that Python belongs to it.
pub(crate) fn has_python() -> bool {
    let mut version = Command::new("python3");
    version
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if version.status().is_ok_and(|status| status.success()) {
        return true;
    }
    let required = std::env::var_os("RESILIN_PYTHON").is_some();
    assert!(
        !required,
        "python3 does not run, though RESILIN_PYTHON is set"
    );
    eprintln!("python3 does not run here: models in Python are not tested");
    false
}
