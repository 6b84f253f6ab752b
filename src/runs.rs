//! Which run in a state directory a command is about. Reads files only: it works beside a
//! coordinator and without one.

use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_checkpoint::{RealFiles, run_directories};

/// The directory of the run that is named, by its name or by its directory's; the only one where
/// none is named.
pub(crate) fn directory(state: &Path, name: Option<&str>) -> Result<PathBuf, Exit> {
    if !state.is_dir() {
        return Err(Exit::Usage(format!(
            "{} is no state directory; name one with --state",
            state.display()
        )));
    }
    let all = run_directories(&RealFiles, state)?;
    let matching: Vec<&PathBuf> = all
        .iter()
        .filter(|dir| name.is_none_or(|name| is_named(dir, name)))
        .collect();
    match (&matching[..], name) {
        ([only], _) => Ok((*only).clone()),
        ([], None) => Err(Exit::Usage(format!("no run in {}", state.display()))),
        ([], Some(name)) => Err(Exit::Usage(format!(
            "no run {name} in {}; there {}",
            state.display(),
            listed(&all.iter().collect::<Vec<_>>())
        ))),
        (several, _) => Err(Exit::Usage(format!(
            "several runs in {}: name one; there {}",
            state.display(),
            listed(several)
        ))),
    }
}

/// Whether a directory `NAME-DIGEST8` is meant by a name.
fn is_named(dir: &Path, name: &str) -> bool {
    let directory = label(dir);
    let of_job = directory.rsplit_once('-').map(|(job, _)| job);
    directory == name || of_job == Some(name)
}

/// The last part of a run's directory, for people.
pub(crate) fn label(dir: &Path) -> String {
    dir.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Names for one line; of many the first ones.
fn listed(dirs: &[&PathBuf]) -> String {
    const SHOWN: usize = 8;
    let names: Vec<String> = dirs.iter().take(SHOWN).map(|dir| label(dir)).collect();
    match (dirs.len(), dirs.len().saturating_sub(SHOWN)) {
        (0, _) => "is none".into(),
        (1, _) => format!("is {}", names.join(", ")),
        (_, 0) => format!("are {}", names.join(", ")),
        (_, more) => format!("are {} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_meant_by_its_name_or_its_directory() {
        let dir = Path::new("/state/my-run-0a1b2c3d");
        assert!(is_named(dir, "my-run"));
        assert!(is_named(dir, "my-run-0a1b2c3d"));
        assert!(!is_named(dir, "my"));
        assert!(!is_named(dir, "run"));
    }

    #[test]
    fn long_lists_are_cut() {
        let dirs: Vec<PathBuf> = (0..10).map(|n| format!("/s/r{n}").into()).collect();
        assert_eq!(
            listed(&dirs.iter().collect::<Vec<_>>()),
            "are r0, r1, r2, r3, r4, r5, r6, r7 and 2 more"
        );
        assert_eq!(listed(&[]), "is none");
    }
}
