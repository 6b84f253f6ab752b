//! The models of a job file.

use resilin_core::job::{JobError, Key, Section};

use super::losses::row_loss;
use crate::dataset::{Manifest, TargetKind};
use crate::math::Activation;
use crate::model::{Model, ModelError};
use crate::models::{
    CnnConfig, CnnNetwork, FactorizationConfig, FactorizationNetwork, Layer, Linear, LinearConfig,
    Mlp, MlpConfig, OnTape, RowLoss, Rows, Softmax, SoftmaxConfig, TransformerConfig,
    TransformerNetwork, VaeConfig, VaeNetwork,
};
use crate::registry::Registry;

const HIDDEN: Key = Key::bits(
    "hidden",
    "units",
    "Width of each hidden layer, from the input on.",
);
const ACTIVATION: Key = Key::bits("activation", "", "What follows each hidden layer.");
const DROPOUT: Key = Key::bits(
    "dropout",
    "",
    "Share of each hidden layer's outputs that is dropped in training.",
)
.range("0 to below 1");
const BIAS: Key = Key::bits("bias", "", "Whether a constant is added for each output.");
const IMAGE: Key = Key::bits(
    "image",
    "",
    "Height, width and channels of a row, a pixel's channels side by side; without it a square of one channel.",
);
const LAYERS: Key = Key::bits(
    "layers",
    "",
    "Layers before the outputs, from the input on; see below.",
);
const BLOCKS: Key = Key::bits("blocks", "", "Blocks of attention and a dense layer.");
const HEADS: Key = Key::bits("heads", "", "Heads of attention; they divide the width.");
const WIDTH: Key = Key::bits("width", "", "Values that stand for a byte.");
const FIELDS: Key = Key::bits(
    "fields",
    "ids",
    "Number of ids of each column of a row; they count from 0.",
);
const RANK: Key = Key::bits("rank", "", "Length of the vector of an id.");
const LATENT: Key = Key::bits("latent", "values", "Values that stand for a row.");
const RECONSTRUCTION_WEIGHT: Key = Key::bits(
    "reconstruction_weight",
    "",
    "Factor of the reconstruction loss in the sum.",
);
const KL_WEIGHT: Key = Key::bits(
    "kl_weight",
    "",
    "Factor of the divergence from the standard normal distribution in the sum.",
);

/// What a `cnn` is without layers of one's own.
const USUAL_LAYERS: [&str; 5] = [
    "conv 16 3 pad 1",
    "pool 2",
    "conv 32 3 pad 1",
    "pool 2",
    "dense 64",
];

/// The largest size that a model's key gives.
const MOST: i64 = 1 << 20;

pub(super) fn register(registry: Registry) -> Registry {
    registry
        .model("linear", with_values(linear))
        .model("softmax", with_values(softmax))
        .model("mlp", with_values(mlp))
        .model("cnn", with_values(cnn))
        .model("transformer", with_values(transformer))
        .model("factorization", with_values(factorization))
        .model("vae", with_values(vae))
}

/// What all models of a job file have in common: a section and rows make a model.
type Build = fn(&mut Section<'_>, &Manifest) -> Result<Box<dyn Model>, JobError>;

/// A builder of a model that learns from the values of rows: refuses rows that have none here.
fn with_values(
    build: Build,
) -> impl Fn(&mut Section<'_>, &Manifest) -> Result<Box<dyn Model>, JobError> + Send + Sync {
    move |section, data| {
        if data.width == 0 {
            let message = format!(
                "learns from values, and rows of the source {} have none here; choose another source, \
                 or a [model] command that has the rows itself",
                data.source
            );
            return Err(section.error("name", message));
        }
        build(section, data)
    }
}

fn linear(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let bias = section.boolean(&BIAS, Some(true))?;
    match data.targets {
        TargetKind::Values(outputs) => {
            let config = LinearConfig {
                inputs: width(data),
                outputs,
                bias,
            };
            let loss = row_loss(section, data.targets)?;
            boxed(section, Linear::with_loss(config, loss))
        }
        TargetKind::Classes(_) => {
            let message = "predicts values, but the data have classes; use softmax or mlp";
            Err(section.error("name", message))
        }
    }
}

fn softmax(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let bias = section.boolean(&BIAS, Some(true))?;
    match data.targets {
        TargetKind::Classes(classes) => {
            let config = SoftmaxConfig {
                inputs: width(data),
                classes,
                bias,
            };
            let loss = row_loss(section, data.targets)?;
            boxed(section, Softmax::with_loss(config, loss))
        }
        TargetKind::Values(_) => {
            let message = "predicts classes, but the data have values; use linear or mlp";
            Err(section.error("name", message))
        }
    }
}

fn mlp(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let hidden = section.integers(&HIDDEN, Some(&[128, 64]), 1..=MOST)?;
    let activation = activation(section)?;
    let dropout = section.float(&DROPOUT, Some(0.0), 0.0..=0.999)?;
    let loss = row_loss(section, data.targets)?;
    let config = MlpConfig {
        rows: rows(data),
        hidden: sizes(hidden),
        activation,
        dropout: dropout as f32,
    };
    boxed(section, Mlp::with_loss(config, loss))
}

fn cnn(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let side = width(data).isqrt();
    let square = [side as i64, side as i64, 1];
    let usual = (side * side == width(data)).then_some(&square[..]);
    let image = sizes(section.integers(&IMAGE, usual, 1..=MOST)?);
    let [height, width, channels] = image[..] else {
        return Err(section.error(IMAGE.name, "has three numbers: height, width and channels"));
    };
    let texts = section.texts(&LAYERS, Some(&USUAL_LAYERS))?;
    let layers: Result<Vec<Layer>, String> = texts.iter().map(|text| text.parse()).collect();
    let layers = layers.map_err(|error| section.error(LAYERS.name, error))?;
    let activation = activation(section)?;
    let loss = row_loss(section, data.targets)?;
    let network = CnnNetwork::new(CnnConfig {
        rows: rows(data),
        image: [height, width, channels],
        layers,
        activation,
        loss,
    });
    boxed(section, network.map(OnTape::new))
}

fn transformer(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let blocks = section.integer(&BLOCKS, Some(4), 0..=1024)?;
    let heads = section.integer(&HEADS, Some(4), 1..=1024)?;
    let width = section.integer(&WIDTH, Some(128), 1..=MOST)?;
    let dropout = section.float(&DROPOUT, Some(0.0), 0.0..=0.999)?;
    let network = TransformerNetwork::new(TransformerConfig {
        rows: rows(data),
        blocks: size(blocks),
        heads: size(heads),
        width: size(width),
        dropout: dropout as f32,
    });
    boxed(section, network.map(OnTape::new))
}

fn factorization(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let fields = section.integers(&FIELDS, None, 1..=1 << 24)?;
    let rank = section.integer(&RANK, Some(8), 1..=MOST)?;
    let loss = match data.targets {
        TargetKind::Classes(_) => RowLoss::BinaryCrossEntropy,
        TargetKind::Values(_) => row_loss(section, data.targets)?,
    };
    let network = FactorizationNetwork::new(FactorizationConfig {
        rows: rows(data),
        fields: sizes(fields),
        rank: size(rank),
        loss,
    });
    boxed(section, network.map(OnTape::new))
}

fn vae(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let hidden = section.integers(&HIDDEN, Some(&[128]), 1..=MOST)?;
    let latent = section.integer(&LATENT, Some(8), 1..=MOST)?;
    let activation = activation(section)?;
    let network = VaeNetwork::new(VaeConfig {
        rows: rows(data),
        hidden: sizes(hidden),
        latent: size(latent),
        activation,
        reconstruction_weight: section.float(&RECONSTRUCTION_WEIGHT, Some(1.0), 0.0..=1e6)?,
        kl_weight: section.float(&KL_WEIGHT, Some(1.0), 0.0..=1e6)?,
    });
    boxed(section, network.map(OnTape::new))
}

fn activation(section: &mut Section<'_>) -> Result<Activation, JobError> {
    let name = section.choice(&ACTIVATION, Some("relu"), &["tanh", "relu", "sigmoid"])?;
    Ok(match name.as_str() {
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        _ => Activation::Relu,
    })
}

fn rows(data: &Manifest) -> Rows {
    Rows {
        width: width(data),
        targets: data.targets,
    }
}

fn size(number: i64) -> usize {
    usize::try_from(number).expect("it is in a range of positive numbers")
}

fn sizes(numbers: Vec<i64>) -> Vec<usize> {
    numbers.into_iter().map(size).collect()
}

fn width(data: &Manifest) -> usize {
    usize::try_from(data.width).expect("a row fits into memory")
}

fn boxed(
    section: &Section<'_>,
    model: Result<impl Model + 'static, ModelError>,
) -> Result<Box<dyn Model>, JobError> {
    match model {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(section.error("name", error)),
    }
}
