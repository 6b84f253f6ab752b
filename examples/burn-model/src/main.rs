//! A full `resilin` with one name more: `[model] name = "normed"`, a module of Burn with batch norm
//! and dropout.
//!
//! `cargo run --release -p burn-model --features burn -- train examples/burn-model/digits.toml`
//! trains it; all other commands and job files work as with `resilin` itself.

use std::process::ExitCode;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use resilin::burn::{BurnModel, Samples};
use resilin::{JobError, Key, Manifest, Model, Registry, Section, TargetKind};

const UNITS: Key = Key::bits("units", "units", "Width of the hidden layer.");
const DROPOUT: Key = Key::bits(
    "dropout",
    "",
    "Share of hidden units left out at each step.",
);

#[derive(Module, Debug)]
struct Normed {
    hidden: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    out: Linear,
}

impl Normed {
    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let x = self.norm.forward(self.hidden.forward(rows));
        self.out.forward(self.dropout.forward(relu(x)))
    }

    fn loss(&self, samples: &Samples) -> Tensor<1> {
        let logits = self.forward(samples.features.clone());
        let entropy = CrossEntropyLossConfig::new().init(&samples.device());
        entropy.forward(logits, samples.classes())
    }
}

fn normed(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let TargetKind::Classes(classes) = data.targets else {
        return Err(section.error("name", "predicts classes, but the data have values"));
    };
    let units = section.unsigned(&UNITS, Some(64), 1..=4096)? as usize;
    let dropout = section.float(&DROPOUT, Some(0.1), 0.0..=0.9)?;
    let (width, classes) = (data.width as usize, classes as usize);
    let build = move |device: &Device| Normed {
        hidden: LinearConfig::new(width, units).init(device),
        norm: BatchNormConfig::new(units).init(device),
        dropout: DropoutConfig::new(dropout).init(),
        out: LinearConfig::new(units, classes).init(device),
    };
    let model = BurnModel::new(data, build, Normed::loss)
        .with_prediction(Normed::forward)
        .with_draws();
    Ok(Box::new(model))
}

fn main() -> ExitCode {
    resilin::main(Registry::default().model("normed", normed))
}
