//! Real processes: what `resilin` promises to the person at the terminal, held against the serial
//! reference. Every process is started with a marker in its environment, so that what is left
//! behind is found and ended by its id.

#[path = "processes/bad_input.rs"]
mod bad_input;
#[path = "processes/chaos.rs"]
mod chaos;
#[path = "processes/data.rs"]
mod data;
#[path = "processes/elastic.rs"]
mod elastic;
#[path = "processes/examples.rs"]
mod examples;
#[path = "processes/fence.rs"]
mod fence;
#[path = "processes/foreign.rs"]
mod foreign;
#[path = "processes/kills.rs"]
mod kills;
#[path = "processes/links.rs"]
mod links;
#[path = "processes/matrix.rs"]
mod matrix;
#[path = "../foreign/tests/python/mod.rs"]
mod python;
#[path = "processes/quiet.rs"]
mod quiet;
#[path = "processes/resume.rs"]
mod resume;
#[path = "processes/scene.rs"]
mod scene;
#[path = "processes/secret.rs"]
mod secret;
#[path = "processes/shards.rs"]
mod shards;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_resilin");
