//! The program `resilin`, with the built-in models and data sources.

use std::process::ExitCode;

fn main() -> ExitCode {
    resilin::main(resilin::Registry::default())
}
